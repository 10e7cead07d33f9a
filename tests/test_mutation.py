"""The mutants are those of today's code: each one's text is there, once, and so is the test that must notice it."""

from __future__ import annotations

import pytest

from tests import mutation
from tests.mutation import MUTANTS, ROOT


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: m.title[:60])
def test_a_mutant_changes_one_place(mutant):
    text = (ROOT / "src" / "sparsetoken" / mutant.file).read_text()
    assert text.count(mutant.text) == 1, f"{mutant.file} holds {mutant.text!r} {text.count(mutant.text)} times"
    assert mutant.changed not in (mutant.text, "")
    file, _, name = mutant.test.partition("::")
    assert f"\ndef {name.partition('[')[0]}(" in (ROOT / file).read_text(), mutant.test


def test_what_fails_without_a_change_proves_nothing(monkeypatch, capsys, tmp_path):
    """Tests that fail on the package as it is would notice every mutant: theirs are not counted."""
    tests = ("tests/a.py::test_fine", "tests/a.py::test_unfit[x y]", "tests/a.py::test_unfit_for_one_value")
    monkeypatch.setattr(mutation, "MUTANTS", [mutation.Mutant("losses.py", "a", "b", test) for test in tests])
    failed = [tests[1], f"{tests[2]}[5]"]
    monkeypatch.setattr(mutation, "failing", lambda *arguments, **options: failed)
    monkeypatch.setattr(mutation, "noticed", lambda mutant, origin: True)
    monkeypatch.setattr(mutation, "copy_of_the_source", lambda folder: folder)
    monkeypatch.setattr("sys.argv", ["mutation", "--out", str(tmp_path / "found.txt")])
    for variable in ("JAX_COMPILATION_CACHE_DIR", "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"):
        monkeypatch.setenv(variable, "0")
    assert mutation.main() == 1
    said = capsys.readouterr().out
    assert f"UNFIT     {tests[1]}" in said and f"UNFIT     {tests[2]}" in said and f"UNFIT     {tests[0]}" not in said
    assert "1 of 3 mutants noticed" in said.splitlines()[-1]
    assert (tmp_path / "found.txt").read_text() == said


def test_a_verdict_is_that_of_the_tests(tmp_path):
    """In a process of its own: what fails is named, what passes is not, and what is not there is an error."""
    file = tmp_path / "test_three.py"
    file.write_text("def test_good(): pass\ndef test_bad(): assert not 'a - b'\ndef test_worse(): raise OSError\n")
    failed = mutation.failing([str(file)], tmp_path, 100.0, stop_at_first=False)
    assert [name.partition("::")[2] for name in failed] == ["test_bad", "test_worse"]
    with pytest.raises(RuntimeError, match="pytest ended with 4"):
        mutation.failing([f"{file}::test_absent"], tmp_path, 100.0)

"""The mutants are those of today's code: each one's text is there, once, and so are the tests that must notice it."""

from __future__ import annotations

import pytest

from tests import mutation
from tests.mutation import MUTANTS, ROOT


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: m.title[:60])
def test_a_mutant_changes_one_place(mutant):
    text = (ROOT / "src" / "sparsetoken" / mutant.file).read_text()
    assert text.count(mutant.text) == 1, f"{mutant.file} holds {mutant.text!r} {text.count(mutant.text)} times"
    assert mutant.changed not in (mutant.text, "")
    for test in mutant.tests.split():
        assert (ROOT / test.split("::")[0]).exists()


def test_what_fails_without_a_change_proves_nothing(monkeypatch, capsys, tmp_path):
    """Tests that fail on the package as it is would notice every mutant: theirs are not counted."""
    fine, unfit = (mutation.Mutant("losses.py", "a", "b", tests) for tests in ("tests/fine.py", "tests/unfit.py"))
    monkeypatch.setattr(mutation, "MUTANTS", [fine, unfit])
    monkeypatch.setattr(mutation, "fails_as_it_is", lambda tests: tests == unfit.tests)
    monkeypatch.setattr(mutation, "noticed", lambda mutant: True)
    monkeypatch.setattr("sys.argv", ["mutation", "--out", str(tmp_path / "found.txt")])
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(tmp_path))
    assert mutation.main() == 1
    said = capsys.readouterr().out
    assert "UNFIT     tests/unfit.py" in said and said.endswith("1 of 2 mutants noticed\n")
    assert (tmp_path / "found.txt").read_text() == said

"""The mutants are those of today's code: each one's text is there, once, and so are the tests that must notice it."""

from __future__ import annotations

import pytest

from tests.mutation import MUTANTS, ROOT


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: m.title[:60])
def test_a_mutant_changes_one_place(mutant):
    text = (ROOT / "src" / "sparsetoken" / mutant.file).read_text()
    assert text.count(mutant.text) == 1, f"{mutant.file} holds {mutant.text!r} {text.count(mutant.text)} times"
    assert mutant.changed not in (mutant.text, "")
    for test in mutant.tests.split():
        assert (ROOT / test.split("::")[0]).exists()

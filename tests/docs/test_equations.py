"""Equation numbers and paths: what pages and docstrings refer to is there, and every formula can be typeset."""

from __future__ import annotations

import re
from html import unescape

import pytest

from tests.helpers import ROOT

DOCS = sorted((ROOT / "docs").rglob("*.md"))
MATHS = [
    ROOT / "docs" / "theory.md",
    ROOT / "docs" / "training.md",
    *sorted((ROOT / "docs" / "derivations").glob("*.md")),
]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
REFERENCE = re.compile(r"Eqs?\.\s\((\d+)\)(?:\s(?:to|and)\s\((\d+)\))?")


def numbers(text: str) -> list[str]:
    return re.findall(r"\\tag\{(\w+)\}", text)


def referred(text: str) -> set[str]:
    return {number for pair in REFERENCE.findall(text) for number in pair if number}


NUMBERED = numbers((ROOT / "docs" / "theory.md").read_text())


def test_a_number_belongs_to_one_equation():
    everywhere = [number for path in MATHS for number in numbers(path.read_text())]
    assert len(everywhere) == len(set(everywhere))
    assert all(number.isdigit() for number in NUMBERED)


@pytest.mark.parametrize("paths", [DOCS, SOURCES], ids=["pages", "docstrings"])
def test_equations_referred_to_exist(paths):
    missing = {(path.name, number) for path in paths for number in referred(path.read_text()) - set(NUMBERED)}
    assert not missing


def test_every_equation_of_the_theory_is_in_a_docstring_and_derived():
    derived = set().union(*(_ranges(path.read_text()) for path in (ROOT / "docs" / "derivations").glob("*.md")))
    coded = set().union(*(_ranges(path.read_text()) for path in SOURCES))
    states_the_problem = {"1", "2", "3", "25", "38"}  # what is solved, not a result
    assert set(NUMBERED) - derived - states_the_problem - {"16"} == set()  # the adjoint is derived where it stands
    assert set(NUMBERED) - coded - states_the_problem == set()


def _ranges(text: str) -> set[str]:
    """Equations named, those between "Eq. (7) to Eq. (12)" included."""
    spans = re.findall(r"Eq\.\s\((\d+)\)\sto\sEq\.\s\((\d+)\)", text)
    return referred(text) | {str(k) for low, high in spans for k in range(int(low), int(high) + 1)}


def test_paths_named_on_the_pages_exist():
    named = {
        (path.name, found) for path in DOCS for found in re.findall(r"`((?:src|tests|docs)/[\w./]+)`", path.read_text())
    }
    assert named
    assert not {(page, found) for page, found in named if not (ROOT / found).exists()}


@pytest.mark.parametrize("path", MATHS, ids=lambda path: path.stem)
def test_formulas_are_typeset(path):
    """No command is left as it stands, which is what happens to those that the converter does not know."""
    pytest.importorskip("latex2mathml", reason="needs the extra sparsetoken[report]")
    from sparsetoken.paper.typeset import with_mathml

    text = re.sub(r"```.*?```|`[^`\n]*`", "", path.read_text(), flags=re.DOTALL)
    displayed = re.findall(r"\$\$(.+?)\$\$", text, flags=re.DOTALL)
    inline = re.findall(r"\$([^$]+)\$", re.sub(r"\$\$.+?\$\$", "", text, flags=re.DOTALL))
    assert all(formula == formula.strip() for formula in inline), "a formula in the line has spaces at its ends"
    for formula in [*displayed, *inline]:
        drawn = re.sub(r'alttext="[^"]*"', "", with_mathml(rf"\({formula.replace('&', '&amp;')}\)"))
        assert "\\" not in drawn and "<mi>&</mi>" not in drawn, formula


def test_the_reports_equations_are_those_of_the_page():
    displayed = re.compile(r"(?:\$\$|\\\[)([^$]+?)\\tag\{(\w+)\}\s*(?:\$\$|\\\])", flags=re.DOTALL)
    page = {
        number: " ".join(formula.split())
        for formula, number in displayed.findall((ROOT / "docs/theory.md").read_text())
    }
    fold = unescape((ROOT / "src/sparsetoken/paper/equations.html").read_text())
    shown = {number: " ".join(formula.split()) for formula, number in displayed.findall(fold)}
    assert len(shown) > 5 and shown == {number: page[number] for number in shown}

"""The map of packages in docs/architecture.md is the one the import checker enforces, and every package is on it."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "sparsetoken"


@pytest.fixture(scope="module")
def layers() -> list[set[str]]:
    """The layers of the contract, highest first."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    listed = settings["contracts"][0]["layers"]
    return [{name.strip().removeprefix("sparsetoken.") for name in re.split(r"[|:]", layer)} for layer in listed]


@pytest.fixture(scope="module")
def page() -> dict[str, tuple[str, set[str]]]:
    """The page's table: package -> what it is for, what it may import."""
    rows = re.findall(r"^\| `([\w./]+)` \| (.+?) \| (.+?) \|$", (ROOT / "docs" / "architecture.md").read_text(), re.M)
    return {
        name.rstrip("/").removesuffix(".py"): (what, set(re.findall(r"`([\w.]+?)/?`", allowed)))
        for name, what, allowed in rows
    }


def modules() -> set[str]:
    """Everything directly below the package that can be imported, but for its entry points."""
    found = {p.stem for p in PACKAGE.glob("*.py")} | {p.parent.name for p in PACKAGE.glob("*/__init__.py")}
    return found - {"__init__", "__main__"}


def test_every_package_is_in_the_contract(layers):
    assert set().union(*layers) == modules()


def test_every_package_is_on_the_map_with_a_sentence(page):
    assert set(page) == modules()
    assert all(len(what.split()) >= 3 for what, _ in page.values())


def test_the_map_allows_nothing_that_the_contract_forbids(layers, page):
    height = {name: k for k, layer in enumerate(reversed(layers)) for name in layer}
    for name, (_, allowed) in page.items():
        for other in allowed - {"everything"}:
            assert height[other] <= height[name], f"{name} may not import {other}"


def test_every_module_says_in_a_sentence_what_it_holds():
    silent = [p for p in PACKAGE.rglob("*.py") if not re.match(r'(#.*\n)*r?"""[A-Z`<:a-z]', p.read_text())]
    assert not [str(p.relative_to(PACKAGE)) for p in silent if p.stat().st_size and p.name != "__main__.py"]


def test_every_file_that_the_page_names_exists():
    """The page sends readers to files; one that was renamed or split would send them nowhere."""
    named = set(re.findall(r"`([\w/]+(?:/|\.(?:py|css|js)))`", (ROOT / "docs" / "architecture.md").read_text()))
    assert len(named) > 100
    missing = [name for name in sorted(named) if not any((base / name).exists() for base in (PACKAGE, ROOT))]
    assert not missing


def test_every_module_is_on_the_page():
    """By its path, or by the folder that it is in where the page names that: no module is one that nobody finds."""
    named = set(re.findall(r"`([\w/]+(?:/|\.py))`", (ROOT / "docs" / "architecture.md").read_text()))
    deep = tuple(name for name in named if name.endswith("/") and (name.count("/") > 1 or name == "cli/"))
    modules = sorted(str(p.relative_to(PACKAGE)) for p in PACKAGE.rglob("*.py") if not p.name.startswith("__"))
    assert not [name for name in modules if name not in named and not name.startswith(deep)]


def test_no_class_name_is_used_twice_and_none_looks_like_a_test():
    """One word, one meaning; pytest would collect a function of the package that is called test_something."""
    names = [
        (node.name, type(node))
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef | ast.FunctionDef)
    ]
    classes = [name for name, kind in names if kind is ast.ClassDef]
    assert not {name for name in classes if classes.count(name) > 1}
    assert not [name for name, _ in names if name.startswith("test_")]

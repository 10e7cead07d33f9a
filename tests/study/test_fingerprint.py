"""The fingerprint of a kind's code: what changes it, and what does not."""

import inspect
import shutil
import sys
from pathlib import Path

import pytest

import sparsetoken
from sparsetoken import theory
from sparsetoken.study import fingerprint
from sparsetoken.study.kinds.simulation import fit_erm
from sparsetoken.study.registry import get_kind
from sparsetoken.study.worker import load_source

ROOT = Path(sparsetoken.__file__).resolve().parent
# Wherever the readout's solver and the theory's live.
SOLVER, THEORY = (str(Path(inspect.getsourcefile(f)).resolve().relative_to(ROOT)) for f in (fit_erm, theory.erm))
_LOOSE = {SOLVER: "forecast"}  # whether the theory may reach the readout's solver is not this test's business
KINDS = ("alignment", "two_steps", "readout", "forecast", "known_strength")


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """A copy of the package to change at will."""
    folder = tmp_path_factory.mktemp("copy") / "sparsetoken"
    shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns("__pycache__", "*.js", "*.css"))
    return folder


def codes(package):
    """The fingerprints that the kinds would have if they came from the copy."""
    functions = {kind: get_kind(kind).function for kind in KINDS}
    files = {f: package / Path(f.__code__.co_filename).resolve().relative_to(ROOT) for f in functions.values()}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fingerprint, "_ROOT", package)
        patch.setattr(fingerprint, "_source_file", files.__getitem__)
        for memory in (fingerprint._tree, fingerprint._module_hash, fingerprint._file, fingerprint._lazy_names):
            memory.cache_clear()
        found = {kind: fingerprint.code_fingerprint(function) for kind, function in functions.items()}
    for memory in (fingerprint._tree, fingerprint._module_hash, fingerprint._file, fingerprint._lazy_names):
        memory.cache_clear()
    return found


@pytest.fixture(scope="module")
def before(package):
    return codes(package)


def test_every_kind_has_its_own_code(before):
    assert len(set(before.values())) == len(KINDS)
    assert all(len(code) == 16 for code in before.values())
    assert before == {kind: get_kind(kind).code for kind in KINDS}


def test_the_version_of_the_package_counts(before, package, monkeypatch):
    monkeypatch.setattr(fingerprint, "__version__", "9.9.9")
    assert not set(codes(package).values()) & set(before.values())


@pytest.mark.parametrize(
    ("file", "old", "new", "touched"),
    [
        # What is no code
        (THEORY, '"""', '"""Other words. ', ()),
        (SOLVER, "from __future__", "# a comment\nfrom __future__", ()),
        ("task.py", "places belong to positions", "places are for positions", ()),
        # What none of these kinds calls
        (
            "planning/advice.py",
            "from __future__ import annotations\n",
            "from __future__ import annotations\nX = 1\n",
            (),
        ),
        ("study/kinds/theory.py", "FORECAST_FIELDS = (", 'FORECAST_FIELDS = ("k", ', ("forecast",)),
        # The solver of the readout, the equations of the theory, the accuracy, and what everything rests on
        (
            SOLVER,
            "from __future__ import annotations\n",
            "from __future__ import annotations\nX = 1\n",
            ("readout",),
        ),
        ("study/kinds/theory.py", "ACCURACY = 4e-4", "ACCURACY = 5e-4", ("forecast",)),
        ("losses.py", "from __future__ import annotations\n", "from __future__ import annotations\nX = 1\n", KINDS),
    ],
)
def test_what_changes_a_fingerprint(package, before, file, old, new, touched):
    path = package / file
    text = path.read_text()
    assert old in text
    try:
        path.write_text(text.replace(old, new, 1))
        after = codes(package)
    finally:
        path.write_text(text)
    assert {kind for kind in KINDS if after[kind] != before[kind]} - {_LOOSE.get(file)} == set(touched)


MODULE = """
import helper_of_the_user
LIMIT = 3
TABLE = {}
TABLE["a"] = 1

def inner(x):
    return min(x, LIMIT)

def first(x: float) -> dict:
    return {"value": inner(x) + TABLE["a"] + helper_of_the_user.offset}

def second(x: float) -> dict:
    return {"value": x}
"""


@pytest.mark.parametrize(
    ("file", "old", "new", "touched"),
    [
        ("kinds.py", "LIMIT = 3", "LIMIT = 4", {"first"}),
        ("kinds.py", "min(x", "max(x", {"first"}),
        ("kinds.py", 'TABLE["a"] = 1', 'TABLE["a"] = 2', {"first"}),
        ("kinds.py", '{"value": x}', '{"value": 2 * x}', {"second"}),
        ("kinds.py", "x: float", "x: int", {"first"}),
        ("helper_of_the_user.py", "offset = 1", "offset = 2", {"first"}),
        ("kinds.py", "LIMIT = 3", "# limit\nLIMIT = 3\nOTHER = 4", set()),
    ],
)
def test_a_users_own_kind_counts_what_it_uses(tmp_path, monkeypatch, file, old, new, touched):
    found = []
    for name in ("before", "after"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "kinds.py").write_text(MODULE)
        (folder / "helper_of_the_user.py").write_text("offset = 1\n")
        if name == "after":
            path = folder / file
            path.write_text(path.read_text().replace(old, new, 1))
        with monkeypatch.context() as patch:
            patch.syspath_prepend(folder)
            module = load_source(str(folder / "kinds.py"))
            found.append([fingerprint.code_fingerprint(function) for function in (module.first, module.second)])
        sys.modules.pop("helper_of_the_user")
        fingerprint._own_modules.cache_clear()
    assert {name for name, a, b in zip(("first", "second"), *found) if a != b} == touched


def test_code_without_a_file_has_a_fingerprint_too():
    code_fingerprint = fingerprint.code_fingerprint
    made = {}
    exec("def one(x):\n    return 2 * x\ndef two(x):\n    return 3 * x\ndef three(x):\n    return 2 * x", made)
    assert code_fingerprint(made["one"]) == code_fingerprint(made["three"]) != code_fingerprint(made["two"])

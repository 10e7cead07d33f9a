"""The fingerprint of a kind's code: what changes it, and what does not."""

import inspect
import os
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
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
        ("last_of_the_user.py", "value = 1", "value = 2", {"first"}),
        ("part_of_the_user/inside.py", "import", "x = 1\nimport", {"first"}),
        ("kinds.py", "LIMIT = 3", "# limit\nLIMIT = 3\nOTHER = 4", set()),
    ],
)
def test_a_users_own_kind_counts_what_it_uses(tmp_path, monkeypatch, file, old, new, touched):
    found = []
    for name in ("before", "after"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "kinds.py").write_text(MODULE)
        (folder / "helper_of_the_user.py").write_text("import part_of_the_user.inside\noffset = 1\n")
        (folder / "part_of_the_user").mkdir()
        (folder / "part_of_the_user" / "inside.py").write_text("import last_of_the_user\n")
        (folder / "last_of_the_user.py").write_text("value = 1\n")
        if name == "after":
            path = folder / file
            path.write_text(path.read_text().replace(old, new, 1))
        with monkeypatch.context() as patch:
            patch.syspath_prepend(folder)
            module = load_source(str(folder / "kinds.py"))
            found.append([fingerprint.code_fingerprint(function) for function in (module.first, module.second)])
        for part in ("helper_of_the_user", "part_of_the_user", "part_of_the_user.inside", "last_of_the_user"):
            sys.modules.pop(part)
        fingerprint._own_modules.cache_clear()
    assert {name for name, a, b in zip(("first", "second"), *found) if a != b} == touched


def test_code_without_a_file_has_a_fingerprint_too():
    code_fingerprint = fingerprint.code_fingerprint
    made = {}
    exec("def one(x):\n    return 2 * x\ndef two(x):\n    return 3 * x\ndef three(x):\n    return 2 * x", made)
    assert code_fingerprint(made["one"]) == code_fingerprint(made["three"]) != code_fingerprint(made["two"])


class Scaled:
    """Something of a user's that has a state and a method."""

    def __init__(self, by):
        self.by = by

    def value(self, z):
        return self.by * z

    def other(self, z):
        return self.by + z


class Slotted:
    __slots__ = ("by",)

    def __init__(self, by):
        self.by = by


def scaled(by):
    def value(z, factor=by):
        return factor * z

    return value


LONG = np.arange(5000.0)
TWO = (lambda z: 2.0 * z, lambda z: 3.0 * z)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (lambda: Scaled(LONG), lambda: Scaled(np.where(LONG == 2500.0, 7.0, LONG))),
        (lambda: Scaled(np.array([1.0])), lambda: Scaled(np.array([1.0 + 1e-12]))),
        (lambda: Scaled(1.0).value, lambda: Scaled(2.0).value),
        (lambda: Scaled(1.0).value, lambda: Scaled(1.0).other),
        (lambda: scaled(1.0), lambda: scaled(2.0)),
        (lambda: TWO[0], lambda: TWO[1]),
        (lambda: {"f": TWO[0]}, lambda: {"f": TWO[1]}),
        (lambda: Slotted(1.0), lambda: Slotted(2.0)),
        (lambda: [["a"], "b"], lambda: [["a", "b"]]),
        (lambda: {"a", "b", "c"}, lambda: {"a", "b", "d"}),
        (lambda: np.tanh, lambda: np.sin),
        (lambda: partial(np.power, 2.0), lambda: partial(np.power, 3.0)),
    ],
)
def test_things_of_the_user_are_told_apart_by_what_they_hold(one, other):
    """Rows of the store that another thing made would otherwise be taken for those of this one."""
    made = fingerprint.thing_fingerprint
    assert made(one()) == made(one()) != made(other())


def test_nothing_in_a_fingerprint_depends_on_where_things_lie_in_memory(tmp_path):
    """Texts of objects hold addresses, and sets have another order in every process."""
    (tmp_path / "things.py").write_text(
        "import json\n\nclass Slotted:\n    __slots__ = ('by',)\n\nclass Plain:\n    def value(self, z):\n        return z\n\n"
        "def made(by):\n    return lambda z: by * z\n\n"
        "slotted, plain = Slotted(), Plain()\nslotted.by = made(1)\nplain.by = json\n"
        "things = [slotted, {'f': plain, 'g': {'a', 'b', 'c'}}, plain.value]\n"
    )
    code = (
        "import things\nfrom sparsetoken.study.fingerprint import thing_fingerprint\n"
        "print(thing_fingerprint(things.things))"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": f"{ROOT.parent}{os.pathsep}{tmp_path}"},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(said) == 1 and len(said.pop().strip()) == 16

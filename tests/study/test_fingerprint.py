"""The fingerprint of a kind's code: what changes it, and what does not."""

import os
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from sparsetoken.study import fingerprint
from sparsetoken.study.executor import load_source
from sparsetoken.study.kind_registry import get_kind

ROOT = fingerprint.PACKAGE


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """A copy of the package to change at will."""
    folder = tmp_path_factory.mktemp("copy") / "sparsetoken"
    shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns("__pycache__", "*.js", "*.css"))
    return folder


def digest_of(package):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fingerprint, "PACKAGE", package)
        return fingerprint._package_digest.__wrapped__()


@pytest.mark.parametrize(
    ("file", "counts"),
    [
        ("losses.py", True),
        ("study/kinds/staged.py", True),
        ("theory/capacity.py", True),
        ("cli/reproduce_and_run.py", False),
        ("paper/page.py", False),
        ("explorer/layout.py", False),
    ],
)
def test_any_part_of_the_package_that_a_trial_could_import_counts(package, file, counts):
    before, text = digest_of(package), (package / file).read_text()
    assert before == fingerprint._package_digest()
    try:
        (package / file).write_text(text + "\nX = 1\n")
        assert (digest_of(package) != before) == counts
    finally:
        (package / file).write_text(text)


def test_what_does_not_count_cannot_be_imported_by_a_trial():
    """The contract's layers above the studies are those that the fingerprint leaves out."""
    import tomllib

    settings = tomllib.loads((ROOT.parents[1] / "pyproject.toml").read_text())
    layers = next(c["layers"] for c in settings["tool"]["importlinter"]["contracts"] if "layers" in c)
    above = layers[: layers.index("sparsetoken.study")]
    named = {name.strip() for layer in above for name in layer.replace(":", "|").split("|")}
    assert named == {f"sparsetoken.{name}" for name in fingerprint.NOT_COUNTED}


def test_all_kinds_of_the_package_share_its_fingerprint():
    codes = {get_kind(kind).code for kind in ("alignment", "two_steps", "simulate", "forecast")}
    assert len(codes) == 1 and len(codes.pop()) == 16


MODULE = """
import helper_of_the_user
LIMIT = 3

def first(x: float) -> dict:
    return {"value": min(x, LIMIT) + helper_of_the_user.offset}
"""


@pytest.mark.parametrize(
    ("file", "old", "new", "counts"),
    [
        ("kinds.py", "LIMIT = 3", "LIMIT = 4", True),
        ("helper_of_the_user.py", "offset = 1", "offset = 2", True),
        ("last_of_the_user.py", "value = 1", "value = 2", True),
        ("part_of_the_user/inside.py", "import", "x = 1\nimport", True),
        ("another.py", "x", "y", False),
    ],
)
def test_a_users_own_kind_counts_with_the_users_modules_that_it_imports(tmp_path, monkeypatch, file, old, new, counts):
    found = []
    for name in ("before", "after"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "kinds.py").write_text(MODULE)
        (folder / "another.py").write_text("x")
        (folder / "helper_of_the_user.py").write_text("import part_of_the_user.inside\noffset = 1\n")
        (folder / "part_of_the_user").mkdir()
        (folder / "part_of_the_user" / "inside.py").write_text("import last_of_the_user\n")
        (folder / "last_of_the_user.py").write_text("value = 1\n")
        if name == "after":
            path = folder / file
            path.write_text(path.read_text().replace(old, new, 1))
        with monkeypatch.context() as patch:
            patch.syspath_prepend(folder)
            found.append(fingerprint.code_fingerprint(load_source(str(folder / "kinds.py")).first))
        for part in ("helper_of_the_user", "part_of_the_user", "part_of_the_user.inside", "last_of_the_user"):
            sys.modules.pop(part)
    assert (found[0] != found[1]) == counts


def test_code_without_a_file_is_good_for_this_process_alone():
    made = {}
    exec("def one(x):\n    return 2 * x", made)
    assert fingerprint.code_fingerprint(made["one"]) == fingerprint.code_fingerprint(made["one"])
    with pytest.MonkeyPatch.context() as patch:
        before = fingerprint.code_fingerprint(made["one"])
        patch.setattr(fingerprint, "_SESSION", "another")
        assert fingerprint.code_fingerprint(made["one"]) != before


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
        (lambda: Scaled(1.0).value, lambda: Scaled(2.0).value),
        (lambda: Scaled(1.0).value, lambda: Scaled(1.0).other),
        (lambda: scaled(1.0), lambda: scaled(2.0)),
        (lambda: TWO[0], lambda: TWO[1]),
        (lambda: Scaled(TWO[0]), lambda: Scaled(TWO[1])),
        (lambda: Slotted(1.0), lambda: Slotted(2.0)),
        (lambda: np.tanh, lambda: np.sin),
        (lambda: partial(np.power, 2.0), lambda: partial(np.power, 3.0)),
    ],
)
def test_things_of_the_user_are_told_apart_by_what_they_hold(one, other):
    """Rows of the store that another thing made would otherwise be taken for those of this one."""
    made = fingerprint.thing_fingerprint
    assert made(one()) == made(one()) != made(other())


def test_a_thing_in_a_file_has_the_same_fingerprint_in_every_process(tmp_path):
    (tmp_path / "things.py").write_text(
        "import json\n\nclass Slotted:\n    __slots__ = ('by',)\n\nclass Plain:\n    def value(self, z):\n        return z\n\n"
        "def made(by):\n    return lambda z: by * z\n\n"
        "slotted, plain = Slotted(), Plain()\nslotted.by = made(1)\nplain.by = json\n"
        "things = [slotted, {'f': plain}, plain.value]\n"
    )
    code = (
        "import things\nfrom sparsetoken.study.fingerprint import thing_fingerprint\n"
        "print(thing_fingerprint(things.things))"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": f"{Path(ROOT).parent}{os.pathsep}{tmp_path}"},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(said) == 1 and len(said.pop().strip()) == 16

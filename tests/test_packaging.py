"""Wheel and source distribution: complete, installable into an empty environment, and one version everywhere."""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

from sparsetoken import __version__
from tests.helpers import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
BUILD = "import setuptools.build_meta as b; b.build_sdist('dist'); b.build_wheel('dist')"


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    """A folder with both distributions, built from a copy of the sources without the network."""
    if int(metadata.version("setuptools").split(".")[0]) < 77:
        pytest.skip("building needs setuptools 77 or later: make install")
    folder = tmp_path_factory.mktemp("sources")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    done = subprocess.run([sys.executable, "-c", BUILD], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return folder / "dist"


def test_both_hold_everything(built):
    wanted = {
        str(p.relative_to(ROOT / "src"))
        for p in (ROOT / "src" / "sparsetoken").rglob("*")
        if p.is_file() and p.suffix in (".py", ".css", ".js", ".html", ".toml", ".typed")
    }
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as stored:
        assert wanted <= set(stored.namelist())
    (source,) = built.glob("*.tar.gz")
    with tarfile.open(source) as stored:
        assert {f"sparsetoken-{__version__}/src/{name}" for name in wanted} <= set(stored.getnames())


def test_the_wheel_runs_in_an_empty_environment(built, tmp_path):
    """Nothing is fetched: the packages it needs are found where this process has them, sparsetoken itself is the wheel's."""
    venv.create(tmp_path / "env", with_pip=False, symlinks=True)
    python = tmp_path / "env" / "bin" / "python"
    (wheel,) = built.glob("*.whl")
    install = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        str(python),
        "install",
        "--no-index",
        "--no-deps",
        "-q",
        str(wheel),
    ]
    clean = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(install, capture_output=True, text=True, env=clean)
    assert done.returncode == 0, done.stderr
    (library,) = (tmp_path / "env" / "lib").glob("python*/site-packages")
    (library / "needed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    doctor = [str(tmp_path / "env" / "bin" / "sparsetoken"), "doctor", "--json"]
    done = subprocess.run(doctor, capture_output=True, text=True, env=clean, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    facts = json.loads(done.stdout)
    assert str(library) in facts["program"]["sparsetoken"] and not facts["problems"]
    check = "from sparsetoken import Task, Training, simulate; print(simulate(Task(), Training(), 20, 0).test_error)"
    done = subprocess.run([str(python), "-c", check], capture_output=True, text=True, env=clean, cwd=tmp_path)
    assert 0 < float(done.stdout) < 0.6, done.stderr


def test_one_version_everywhere():
    assert PROJECT["project"]["version"] == __version__
    assert re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(), flags=re.MULTILINE)[1] == __version__
    assert f"## {__version__}" in (ROOT / "CHANGELOG.md").read_text()


def test_hooks_are_local_and_their_tools_are_installed():
    import yaml

    repositories = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert [r["repo"] for r in repositories] == ["local"]
    for hook in repositories[0]["hooks"]:
        tool = Path(hook["entry"].split()[0])
        assert tool.parent == Path(".venv/bin") and (Path(sys.executable).parent / tool.name).exists()


def test_what_is_required_is_pinned():
    pinned = {
        re.sub(r"[-_.]+", "-", line.split("==")[0]).lower() for line in (ROOT / "constraints.txt").read_text().split()
    }
    listed = [
        *PROJECT["project"]["dependencies"],
        *(r for extra in PROJECT["project"]["optional-dependencies"].values() for r in extra),
    ]
    names = {re.sub(r"[-_.]+", "-", re.match(r"[\w.-]+", r)[0]).lower() for r in listed} - {"sparsetoken"}
    assert names <= pinned

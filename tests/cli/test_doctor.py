"""`sparsetoken doctor` and completion in the shell."""

import json
import os
import subprocess
import sys

import pytest

from sparsetoken import __version__
from sparsetoken.cli import doctor_and_cite


def test_it_prints_versions_devices_threads_cache_and_extras(command):
    code, printed, _ = command("doctor")
    assert code == 0 and f"sparsetoken  {__version__}" in printed and "nothing is missing" in printed
    for heading in ("packages", "extras", "devices", "threads", "cache"):
        assert f"\n{heading}\n" in printed
    assert "parquet   installed" in printed


def test_json_holds_the_same(command):
    code, printed, _ = command("doctor", "--json")
    facts = json.loads(printed)
    assert code == 0 and facts["problems"] == [] and "numpy" in facts["packages"] and "cores" in facts["threads"]


def test_what_is_missing_or_too_old_is_a_problem(command, monkeypatch):
    wanted = ["numpy>=1.26", "scipy>=999", "no-such-package>=2", "pytest>=999; extra == 'dev'"]
    monkeypatch.setattr("importlib.metadata.requires", lambda name: wanted)
    code, printed, _ = command("doctor")
    assert code == 1 and "problem: no-such-package is not installed: pip install 'no-such-package>=2'" in printed
    assert "scipy is" in printed and ">=999 is required" in printed and "pytest" not in printed


def test_a_device_that_does_not_start_is_a_problem(command, monkeypatch):
    def broken():
        raise RuntimeError("no driver")

    monkeypatch.setattr("jax.devices", broken)
    code, printed, _ = command("doctor")
    assert code == 1 and "problem: JAX does not start: no driver" in printed


def test_the_cache_folder_is_measured(tmp_path, monkeypatch):
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(tmp_path / "cache"))
    assert "empty" in doctor_and_cite._cache([])["compiled code"]
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "code").write_bytes(b"x" * 1_500_000)
    assert "1 files, 1.5 MB" in doctor_and_cite._cache([])["compiled code"]


@pytest.mark.parametrize("words, wanted", [("sparsetoken fo", "forecast"), ("sparsetoken doctor --js", "--json")])
def test_completion(words, wanted):
    line = "import sys; sys.argv = ['sparsetoken']; from sparsetoken.cli import main; main()"
    asked = {"_SPARSETOKEN_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
    done = subprocess.run([sys.executable, "-c", line], env={**os.environ, **asked}, capture_output=True, text=True)
    assert wanted in done.stdout.split()

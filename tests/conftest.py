"""Fixtures of the whole suite."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")  # before NumPy is imported, so nothing that needs it is imported above


@pytest.fixture(scope="session")
def reference_cases() -> list[dict]:
    """Reference values of an independent implementation."""
    return json.loads((Path(__file__).parent / "data" / "golden.json").read_text())["cases"]


@pytest.fixture
def command(capsys) -> Callable[..., tuple[int, str, str]]:
    """The command line, run in this process: arguments of any type -> (exit code, output, errors)."""
    from sparsetoken.cli import main

    def call(*arguments) -> tuple[int, str, str]:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main([str(a) for a in arguments])
        printed = capsys.readouterr()
        return int(ended.value.code or 0), printed.out, printed.err

    return call

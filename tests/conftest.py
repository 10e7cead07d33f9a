"""Fixtures of the whole suite."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.fixture(scope="session")
def reference_cases() -> list[dict]:
    """Reference values of an independent implementation, where they are at hand."""
    path = SHARED / "golden.json"
    if not path.is_file():
        pytest.skip(f"no reference values at {path}")
    return json.loads(path.read_text())["cases"]

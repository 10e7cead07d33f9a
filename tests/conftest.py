"""Fixtures of the whole suite."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")


@pytest.fixture(scope="session")
def reference_cases() -> list[dict]:
    """Reference values of an independent implementation."""
    return json.loads((Path(__file__).parent / "data" / "golden.json").read_text())["cases"]

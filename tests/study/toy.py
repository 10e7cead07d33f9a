"""A small study in Python, as a user would write it, with trials that can be slow, fail or kill their worker."""

import os
import signal
import time
from pathlib import Path

import numpy as np

from sparsetoken.study import Grid, Study, trial_kind


@trial_kind("toy", version=1)
def toy(x: float, seed: int, pause: float = 0.0, log: str = "") -> dict:
    """A noisy line; `log` is a file to which every execution appends a line."""
    time.sleep(pause)
    if log:
        with Path(log).open("a") as file:
            file.write(f"{x} {seed}\n")
    return {"value": 2.0 * x + 0.1 * np.random.default_rng(seed).standard_normal()}


@trial_kind("line", version=1)
def line(x: float) -> dict:
    return {"value": 2.0 * x}


@trial_kind("flaky")
def flaky(x: float, seed: int, marker: str) -> dict:
    """Fails while the marker file exists and x is 2."""
    if x == 2 and Path(marker).exists():
        raise RuntimeError("the sensor is wet")
    return {"value": x}


@trial_kind("deadly")
def deadly(x: float, folder: str, deaths: int) -> dict:
    """x = 1 kills its worker process the first `deaths` times."""
    if x == 1:
        died = len(list(Path(folder).iterdir()))
        if died < deaths:
            (Path(folder) / f"death-{died}").touch()
            os.kill(os.getpid(), signal.SIGKILL)
    return {"value": x}


SOURCE = str(Path(__file__).resolve())

study = Study(
    name="toy",
    title="A noisy line",
    question="Is it straight?",
    grids={
        "quick": (
            Grid("simulated", "toy", axes={"x": [1.0, 2.0, 3.0]}, repeats=4, source=SOURCE),
            Grid("theory", "line", axes={"x": [1.0, 2.0, 3.0]}, source=SOURCE),
        )
    },
)

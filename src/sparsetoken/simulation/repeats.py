"""Repeating a trial: independent seeds, means and standard errors."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from ..task import real_number, whole_number


def trial_seeds(seed: int, trials: int) -> list[int]:
    """Seeds of `trials` independent trials, all from one; the first few do not depend on how many there are."""
    children = np.random.SeedSequence(whole_number("seed", seed, 0)).spawn(whole_number("trials", trials, 1))
    return [int(child.generate_state(1, np.uint64)[0]) for child in children]


def mean_and_error(values: Iterable[float]) -> tuple[float, float]:
    """Mean and its standard error (NaN with fewer than two values; both NaN where a value is)."""
    x = np.array(list(values), dtype=np.float64)
    error = float(x.std(ddof=1) / math.sqrt(len(x))) if len(x) > 1 else math.nan
    return float(x.mean()), error


def parse_values(name: str, text: str) -> Sequence[float]:
    """Numbers written as `2`, `1,2,4`, `0.5:8:6` (six evenly spaced) or `1e-5:1:6:log` (evenly in the logarithm)."""
    allowed = f"{name} must be a number, a list a,b,c or a range low:high:count[:log], got {text!r}"
    try:
        if ":" not in text:
            return [float(part) for part in text.split(",")]
        low, high, count, *scale = text.split(":")
        if scale not in ([], ["log"]):
            raise ValueError(allowed)
        ends, points = (real_number(name, float(low), -math.inf), real_number(name, float(high), -math.inf)), int(count)
    except ValueError:
        raise ValueError(allowed) from None
    if points < 2 or (scale and min(ends) <= 0.0):
        raise ValueError(f"{allowed}; a range has at least 2 points, and positive ends in the logarithm")
    spaced = np.geomspace(*ends, points) if scale else np.linspace(*ends, points)
    return [float(f"{x:.12g}") for x in spaced]

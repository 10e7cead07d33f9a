"""Repeating a trial: independent seeds, means and standard errors."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from .._core.averages import standard_error
from .._core.validation import whole_number


def trial_seeds(seed: int, trials: int) -> list[int]:
    """Seeds of independent trials, all from one.

    Parameters
    ----------
    seed : int
        The seed of the whole experiment, at least 0.
    trials : int
        Number of trials, at least 1.

    Returns
    -------
    list of int
        One seed of 64 bits per trial; those of the first few trials do not depend on how many there are.
    """
    children = np.random.SeedSequence(whole_number("seed", seed, 0)).spawn(whole_number("trials", trials, 1))
    return [int(child.generate_state(1, np.uint64)[0]) for child in children]


def mean_and_error(values: Iterable[float]) -> tuple[float, float]:
    """Mean and its standard error (NaN with fewer than two values; both NaN where a value is)."""
    x = np.array(list(values), dtype=np.float64)
    return float(x.mean()), standard_error(x)

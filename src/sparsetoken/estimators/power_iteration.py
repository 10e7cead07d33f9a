"""The largest eigenvalue of a covariance that is known by its products with vectors: the largest variance in any direction."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

# Steps of the iteration. Step sizes and verdicts are made of its result: they need one digit.
STEPS = 20


def largest_eigenvalue(product: Callable[[np.ndarray], np.ndarray], size: int) -> float:
    """The largest eigenvalue of a symmetric matrix without negative ones, to about one digit.

    Parameters
    ----------
    product : callable
        v -> A v, both in double precision.
    size : int
        Length of v.

    Returns
    -------
    float
        0 where A v vanishes; infinite or NaN where it overflows.
    """
    v = np.random.default_rng(0).standard_normal(size)
    length = float(np.linalg.norm(v))
    for _ in range(STEPS):
        v = product(v / length)
        largest = float(np.abs(v).max())
        if not 0.0 < largest < np.inf:
            return largest
        length = largest * float(np.linalg.norm(v / largest))  # squares of huge numbers would overflow
    return length

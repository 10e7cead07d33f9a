"""The standard error of a mean over replicates."""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def standard_error(values: Any, axis: int = 0, alone: float = math.nan) -> Any:
    """Standard error of the mean of independent replicates.

    Parameters
    ----------
    values : array
        The replicates, along `axis`.
    axis : int
        Where the replicates lie.
    alone : float
        The answer for a single replicate: NaN where its error is not known, 0 where a single replicate is exact.

    Returns
    -------
    float or ndarray
        A float for a vector of replicates, otherwise an array without `axis`.
    """
    values = np.asarray(values, dtype=np.float64)
    count = values.shape[axis]
    if count > 1:
        error = np.std(values, axis=axis, ddof=1) / math.sqrt(count)
    else:
        error = np.full(np.delete(values.shape, axis), alone)
    return float(error) if np.ndim(error) == 0 else error

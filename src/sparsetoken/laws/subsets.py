"""Averages over the R-subsets of a bag's tokens: the likelihood ratio of a known signal.

With x_l = exp(a t_l), the average over R-subsets of the product of x_l is an elementary symmetric polynomial over its
number of terms. The averages e_r obey, when token l joins l - 1 others,

    e_r <- (1 - r/l) e_r + (r/l) x_l e_{r-1},

all terms positive. Bags so spread out that this would underflow go through the same recursion in logarithms.
"""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln, logsumexp

_SAFE_LOG = -600.0


def log_mean_of_subsets(log_x: np.ndarray, size: int) -> np.ndarray:
    """log of the average over `size`-subsets of prod exp(log_x_l), along the last axis; (..., n) -> (...)."""
    return log_means_up_to(log_x, size)[..., size]


def log_means_up_to(log_x: np.ndarray, size: int) -> np.ndarray:
    """The same for every subset size 0 ... `size`: (..., n) -> (..., size + 1); -inf where the size exceeds n."""
    n = log_x.shape[-1]
    if size == 1 and n >= 1:
        first = logsumexp(log_x, axis=-1) - np.log(n)
        return np.stack([np.zeros_like(first), first], axis=-1)
    top = log_x.max(-1, keepdims=True)
    relative = log_x - top
    largest = -np.partition(-relative, min(size, n) - 1, axis=-1)[..., :size].sum(-1)
    choices = gammaln(n + 1) - gammaln(size + 1) - gammaln(max(n - size, 0) + 1)
    if largest.min() - choices > _SAFE_LOG:  # then no average underflows relative to the largest token
        e = np.zeros((size + 1, *log_x.shape[:-1]))
        e[0] = 1.0
        x = np.exp(np.ascontiguousarray(np.moveaxis(relative, -1, 0)))
        for l in range(1, n + 1):
            last = min(l, size)
            share = np.arange(1, last + 1).reshape(-1, *[1] * (log_x.ndim - 1)) / l
            e[1 : last + 1] += share * (x[l - 1] * e[:last] - e[1 : last + 1])
        with np.errstate(divide="ignore"):
            return np.moveaxis(np.log(e), 0, -1) + top * np.arange(size + 1)
    e = np.full((size + 1, *log_x.shape[:-1]), -np.inf)
    e[0] = 0.0
    with np.errstate(divide="ignore"):
        for l in range(1, n + 1):
            last = min(l, size)
            r = np.arange(1, last + 1).reshape(-1, *[1] * (log_x.ndim - 1))
            joined = np.log(r / l) + log_x[..., l - 1] + e[:last]
            e[1 : last + 1] = np.logaddexp(np.log1p(-r / l) + e[1 : last + 1], joined)
    return np.moveaxis(e, 0, -1)

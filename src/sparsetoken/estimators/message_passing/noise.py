"""The noise of the tokens, estimated from bags without signal, and tokens made white by it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...bags.bags import Bags
from ...bags.scratch import row_blocks, rowwise

# Shares of the identity in the covariance to choose from: at most a factor of two or so apart where it matters, down to
# where rounding errors of the smallest variances begin.
SHRINKAGES = (1.0, 0.7, 0.4, 0.2, 0.1, 0.05, 0.02, 0.01, 1e-3, 1e-4, 1e-5, 1e-6)


@dataclass(frozen=True)
class Noise:
    """x -> (x - mean) @ whitening, or (x - mean) / scale where whitening is None.

    Attributes
    ----------
    mean : ndarray
        Of the noise.
    whitening : ndarray or None
        Symmetric inverse root of the covariance.
    scale : float
        Standard deviation, where nothing else is whitened.
    shrinkage : float
        The share of the identity in the covariance (1: nothing to whiten).
    """

    mean: np.ndarray
    whitening: np.ndarray | None
    scale: float
    shrinkage: float

    def whitened(self, tokens: Any) -> Any:
        """The tokens (NumPy's or JAX's) with this noise made white."""
        dtype = tokens.dtype
        mean, scale = self.mean.astype(dtype), dtype.type(self.scale)
        matrix = None if self.whitening is None else self.whitening.astype(dtype)

        def white(x):
            return (x - mean) / scale if matrix is None else (x - mean) @ matrix

        return rowwise(white, tokens, tokens.shape[1], dtype)


def whitened_bags(noise: Noise | None, bags: Bags) -> Bags:
    """The bags with this noise made white; as they are where there is none."""
    return bags if noise is None else bags.with_tokens(noise.whitened(bags.tokens))


def estimate_noise(tokens: Any) -> Noise:
    """Mean and shrunk covariance  C = (1 - s) S + s tr(S)/d I  of tokens taken to be noise, as a symmetric whitening.

    The share s is the one at which the covariance of one half of the tokens makes the other half likeliest:
    max over s of  -(1/2) sum_j [log c_j + a_j / c_j],  c_j the eigenvalues of C, a_j the other half's variances along
    its eigenvectors. White noise is thus left alone however few its tokens, while directions of little noise, the ones
    that matter most, keep their size where the tokens are many.
    """
    d, n = tokens.shape[1], len(tokens)
    mean = np.asarray(sum(tokens[block].sum(axis=0, dtype=np.float64) for block in row_blocks(tokens))) / n
    halves = [np.zeros((d, d)), np.zeros((d, d))]  # sums of x x^T over every second token, and over the others
    for block in row_blocks(tokens):
        x = tokens[block].astype(np.float64) - mean
        for half in (0, 1):
            some = x[(half - block.start) % 2 :: 2]
            halves[half] += np.asarray(some.T @ some)
    first, second = halves
    average = float(np.trace(first + second)) / (n * d)
    if not average > 0.0 or n < 4:  # a handful of tokens, or all of them alike
        return Noise(mean, None, float(np.sqrt(average)) or 1.0, 1.0)
    shrinkage = _best_shrinkage(first / ((n + 1) // 2), second / (n // 2))
    if shrinkage == 1.0:
        return Noise(mean, None, float(np.sqrt(average)), 1.0)
    covariance = (first + second) / n
    variances, directions = np.linalg.eigh((1.0 - shrinkage) * covariance + shrinkage * average * np.eye(d))
    return Noise(mean, (directions / np.sqrt(variances)) @ directions.T, 1.0, shrinkage)


def _best_shrinkage(first: np.ndarray, second: np.ndarray) -> float:
    """The share s at which the first covariance explains the second best (see `estimate_noise`)."""
    average = float(np.trace(first)) / len(first)
    if not average > 0.0:
        return 1.0
    variances, directions = np.linalg.eigh(first)
    other = np.sum(directions * (second @ directions), axis=0)
    values = []
    for s in SHRINKAGES:
        c = (1.0 - s) * np.maximum(variances, 0.0) + s * average
        values.append(-float(np.sum(np.log(c) + other / c)))
    return SHRINKAGES[int(np.argmax(values))]

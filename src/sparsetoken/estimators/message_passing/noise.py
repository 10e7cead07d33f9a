"""The noise of the tokens, estimated from bags without signal, and tokens made white by it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from ...bags.temporary_files import row_blocks, rowwise

SHRINKAGES = (1.0, 0.3, 0.1, 0.03, 0.01, 1e-3, 1e-4, 1e-5, 1e-6)  # below, variances are rounding errors


@dataclass(frozen=True)
class Noise:
    """x -> (x - mean) @ whitening, from `count` tokens; features that never vary have no part in it.

    The whitening is triangular, a tenth of the work of a symmetric root: messages are invariant under rotations.
    """

    mean: np.ndarray
    whitening: np.ndarray
    shrinkage: float
    count: int

    def whitened(self, tokens: Any) -> Any:
        """The tokens (NumPy's or JAX's) with this noise made white."""
        mean, matrix = self.mean.astype(tokens.dtype), self.whitening.astype(tokens.dtype)
        return rowwise(lambda block: (block - mean) @ matrix, tokens, tokens.shape[1], tokens.dtype)


class WhiteTokens:
    """Tokens with their noise made white, for products with vectors alone: white copies are never made."""

    __array_ufunc__ = None  # NumPy leaves products with an array on the left to this class

    def __init__(self, tokens: Any, noise: Noise | None):
        self.tokens, self.noise = tokens, noise
        self.shape, self.dtype = tokens.shape, tokens.dtype
        varies = np.ones(tokens.shape[1]) if noise is None else noise.whitening.any(axis=0)
        self.varying = max(1, int(np.count_nonzero(varies)))  # features
        self.mean_error = 0.0 if noise is None else 1.0 / noise.count  # variance of the mean's error in each direction

    def __len__(self) -> int:
        return len(self.tokens)

    def __matmul__(self, vector: np.ndarray) -> np.ndarray:
        if self.noise is None:
            return np.asarray(self.tokens @ vector)
        white = self.noise.whitening @ vector.astype(np.float64)
        return np.asarray(self.tokens @ white.astype(self.dtype)) - (self.noise.mean @ white).astype(self.dtype)

    def __rmatmul__(self, weights: np.ndarray) -> np.ndarray:
        total = np.asarray(weights @ self.tokens, dtype=np.float64)
        if self.noise is None:
            return total
        return self.noise.whitening.T @ (total - float(weights.sum(dtype=np.float64)) * self.noise.mean)


class TokenMoments(NamedTuple):
    """Moments of tokens x relative to a common centre: their number, sum x and sum x x^T."""

    tokens: int
    total: np.ndarray
    products: np.ndarray


def moments(tokens: Any, center: np.ndarray) -> TokenMoments:
    """The moments of these tokens, a few rows at a time."""
    total, products = np.zeros(len(center)), np.zeros((len(center), len(center)))
    for block in row_blocks(tokens):
        x = np.asarray(tokens[block] - center, dtype=np.float64)
        total += x.sum(axis=0)
        products += x.T @ x
    return TokenMoments(len(tokens), total, products)


def noise_of(
    parts: list[TokenMoments], center: np.ndarray, varies: np.ndarray, shrinkage: float | None = None
) -> Noise:
    """Mean and covariance C = (1 - s) S + s tr(S)/d I of the tokens of all parts, along the features that vary.

    With s = None it is the shrinkage at which the first part's covariance gives the second part the largest likelihood: where
    tokens are many, directions of little noise, which matter most, are hardly changed.
    """
    shift = np.sum([part.total for part in parts], axis=0) / sum(part.tokens for part in parts)
    covariance = _covariance(parts, shift, varies)
    average = float(np.trace(covariance)) / max(1, len(covariance))
    count, whitening = sum(part.tokens for part in parts), np.zeros((len(center), len(center)))
    if not average > 0.0:  # the tokens do not vary
        shrinkage, average = 1.0, 1.0
    if shrinkage is None:
        shrinkage = _likeliest(*(_covariance([part], shift, varies) for part in parts)) if len(parts) == 2 else 1.0
    if shrinkage == 1.0:
        whitening[np.diag_indices(len(center))] = varies / np.sqrt(average)
    else:
        identity = np.eye(len(covariance))
        shrunk = (1.0 - shrinkage) * covariance + shrinkage * average * identity
        whitening[np.ix_(varies, varies)] = solve_triangular(cholesky(shrunk), identity)
    return Noise(center + shift, whitening, shrinkage, count)


def _covariance(parts: list[TokenMoments], shift: np.ndarray, varies: np.ndarray) -> np.ndarray:
    """The mean of (x - shift) (x - shift)^T over the tokens of these parts."""
    count = sum(part.tokens for part in parts)
    mean = np.sum([part.total for part in parts], axis=0)[varies] / count
    products = np.sum([part.products for part in parts], axis=0)[np.ix_(varies, varies)] / count
    off = mean - shift[varies]
    return products - np.outer(mean, mean) + np.outer(off, off)


def _likeliest(first: np.ndarray, second: np.ndarray) -> float:
    """The share s of the identity with the largest Gaussian likelihood, -(1/2) sum_j [log c_j + a_j/c_j].

    c_j are the eigenvalues of the first covariance, shrunk, and a_j the variances of the second along its eigenvectors.
    """
    variances, directions = np.linalg.eigh(first)
    variances, other = np.maximum(variances, 0.0), np.sum(directions * (second @ directions), axis=0)
    average = float(variances.mean())
    if not average > 0.0:
        return 1.0
    shrunk = [(1.0 - s) * variances + s * average for s in SHRINKAGES]
    return SHRINKAGES[int(np.argmin([float(np.sum(np.log(c) + other / c)) for c in shrunk]))]

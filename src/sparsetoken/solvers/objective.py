"""The convex problem of the readout: its features, its objective, and the state of a point in it.

    F(w, b) = sum_i p_i l(<w, x_i> + b; y_i) + (ridge/2) ||w||^2,    p_i = sample_weight_i / sum of sample weights

(p_i = 1/n without weights: a mean, not a sum; b is not penalised). Points, gradients and directions are vectors of d + 1
numbers, the bias last. The features X are in NumPy's memory or on a JAX device, in single or double precision; sums over
samples are in double precision. On a device everything of size n d, d^2 or n^2 stays there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg

from .._core.arrays import is_jax_array, namespace
from .._core.devices import working_on
from ..losses import Loss

Solve = Callable[[np.ndarray], np.ndarray]
Pulls = Callable[[np.ndarray, slice], np.ndarray]

CACHED_BYTES = 2**24  # features up to this size are taken to stay in the cache from pass to pass
# A pass over larger ones takes blocks of rows of this size: the second product with a block finds it in the cache.
BLOCK_BYTES = 2**21
EPSILON = float(np.finfo(np.float64).eps)


class Features:
    """X, its products, and Newton's steps by Cholesky factors of order d or n (`inverse_hessian`)."""

    def __init__(self, x: Any):
        self.x, self.shape = x, x.shape
        self.device = next(iter(x.devices())) if is_jax_array(x) else None

    @cached_property
    def mean_square(self) -> float:
        with np.errstate(over="ignore"):
            return sum(float(namespace(b).linalg.norm(b)) ** 2 for _, b in self._blocks()) / math.prod(self.shape)

    @property
    def row_norm(self) -> float:
        """Root mean square of the samples' norms ||x_i||."""
        return math.sqrt(self.shape[1] * self.mean_square)

    def times(self, v: np.ndarray) -> np.ndarray:
        out = np.empty(self.shape[0])
        for rows, block in self._blocks():
            out[rows] = block @ v
        return out

    def transposed_times(self, r: np.ndarray) -> np.ndarray:
        return sum((np.asarray(r[rows] @ block) for rows, block in self._blocks()), np.zeros(self.shape[1]))

    def both_products(self, v: np.ndarray, shift: float, pulls: Pulls) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """z = X v + shift, r = pulls(z, rows) and X^T r in one pass; `rows` are the samples that z belongs to."""
        z, r, total = np.empty(self.shape[0]), np.empty(self.shape[0]), np.zeros(self.shape[1])
        for rows, block in self._blocks():
            z[rows] = block @ v
            z[rows] += shift
            r[rows] = pulls(z[rows], rows)
            total += np.asarray(r[rows] @ block)
        return z, r, total

    def centred(self, centre: np.ndarray) -> Features:
        """X less its mean, in double precision; columns that are constant to rounding become 0."""
        with working_on(self.device):
            x = self.x - centre
            varies = abs(x).max(axis=0) > 64 * EPSILON * np.abs(centre)  # more than the mean's rounding
            return Features(x * varies)

    def on_host(self) -> np.ndarray:
        """X as a NumPy array in double precision."""
        return np.asarray(self.x, dtype=np.float64)

    def inverse_hessian(self, curvature: np.ndarray, ridge: float) -> Solve:
        """H^-1 for H = sum_i D_i (x_i, 1)(x_i, 1)^T + ridge diag(1, ..., 1, 0); with d > n the ridge must be positive."""
        bent = np.flatnonzero(curvature)
        with working_on(self.device):
            if ridge > 0.0 and self.by_samples(len(bent)):
                gram = self._gram_of(bent)
                # Woodbury's difference has four digits left here, and loses all where the ridge is negligible.
                if float(np.max(curvature[bent] * np.asarray(gram.diagonal()), initial=0.0)) < 1e12 * ridge:
                    return self._dual(curvature, ridge, bent, gram)
            return self._primal(curvature, ridge)

    @property
    def few_samples(self) -> bool:
        """Whether the Gram matrix of all samples is made, once, rather than the Hessian in every step."""
        return self.shape[0] <= 1.5 * self.shape[1]

    def by_samples(self, bent: int) -> bool:
        """Whether systems with so many samples of positive curvature are solved by samples rather than by features."""
        return self.few_samples or bent <= 0.8 * self.shape[1]

    def _primal(self, curvature: np.ndarray, ridge: float) -> Solve:
        """By the factor of H, whose rows and columns are divided by the roots of its diagonal first."""
        d, root = self.shape[1], np.sqrt(curvature)
        h: Any = 0.0
        mixed = np.zeros(d)  # X^T D 1, what the bias shares with the weights
        for rows, block in self._blocks(least_rows=2 * d):
            bent = np.flatnonzero(root[rows])
            scaled = block[bent] * root[rows][bent, None]
            h = h + scaled.T @ scaled
            mixed += np.asarray(root[rows][bent] @ scaled)
        diagonal = np.asarray(h.diagonal()) + ridge
        units = 1.0 / np.sqrt(np.where(diagonal > 0.0, diagonal, 1.0))
        inverse = self._inverse((h + ridge * np.eye(d)) * units[:, None] * units)
        toward = units * inverse(units * mixed)
        # What is left of the bias's curvature; X may span the constant, so keep it positive.
        total = float(curvature.sum())
        left = max(total - float(mixed @ toward), EPSILON * total)

        def solve(g: np.ndarray) -> np.ndarray:
            w = units * inverse(units * g[:-1])
            b = (g[-1] - float(mixed @ w)) / left
            return np.append(w - b * toward, b)

        return solve

    def _dual(self, curvature: np.ndarray, ridge: float, bent: np.ndarray, gram: Any) -> Solve:
        """By Woodbury's identity, with R = sqrt(D):  ridge H_ww^-1 = 1 - X^T R A^-1 R X / ridge,  A = 1 + R X X^T R / ridge."""
        root = np.sqrt(curvature[bent])
        inverse = self._inverse(gram * (root[:, None] / ridge) * root + np.eye(len(root)))
        toward = inverse(root)
        left = float(root @ toward)

        def solve(g: np.ndarray) -> np.ndarray:
            h = root * self.times(g[:-1])[bent] / ridge
            b = (g[-1] - float(toward @ h)) / left
            pulls = np.zeros(self.shape[0])
            pulls[bent] = root * (inverse(h) + b * toward)
            return np.append((g[:-1] - self.transposed_times(pulls)) / ridge, b)

        return solve

    def _gram_of(self, rows: np.ndarray) -> Any:
        """X X^T of some samples, out of that of all of them where that is made."""
        if not self.few_samples:
            x = self.x[rows].astype(np.float64)
            return x @ x.T
        return self._gram if len(rows) == self.shape[0] else self._gram[np.ix_(rows, rows)]

    @cached_property
    def _gram(self) -> Any:
        x = self.x.astype(np.float64)
        return x @ x.T

    def _inverse(self, matrix: Any) -> Solve:
        """The inverse of a positive definite matrix of diagonal 1 or more, jittered where rounding made it singular."""
        linalg: Any = scipy.linalg
        if self.device is not None:
            import jax.scipy.linalg as linalg
        diagonal = np.maximum(np.asarray(matrix.diagonal()), 1.0)
        for jitter in (0.0, 1e-14, 1e-11, 1e-8, 1e-4):  # as shares of the diagonal
            jittered = matrix + np.diag(jitter * diagonal) if jitter else matrix
            try:
                factor = linalg.cho_factor(jittered, lower=True, check_finite=False)
            except scipy.linalg.LinAlgError:
                continue
            if np.all(np.isfinite(np.asarray(factor[0].diagonal()))):  # JAX marks a failed factorisation by NaN
                break
        else:
            raise ArithmeticError("the Hessian has no Cholesky factor")

        def solve(right: np.ndarray) -> np.ndarray:
            with working_on(self.device):
                return np.asarray(linalg.cho_solve(factor, right, check_finite=False))

        return solve

    def _blocks(self, least_rows: int = 1) -> Iterator[tuple[slice, Any]]:
        """Rows of X in double precision, some at a time in NumPy's memory, all at once on a device."""
        n, d = self.shape
        if self.device is not None:
            with working_on(self.device):
                yield slice(None), self.x.astype(np.float64)
            return
        step = n if 8 * n * d <= CACHED_BYTES else max(least_rows, BLOCK_BYTES // (8 * d), 1)
        for first in range(0, n, step):
            rows = slice(first, first + step)
            yield rows, self.x[rows].astype(np.float64, copy=False)


@dataclass(frozen=True)
class FitPoint:
    """A point v = (w, b) of the problem: outputs z = X w + b, pulls r = p l'(z), gradient g of norm `size`, and F."""

    v: np.ndarray
    z: np.ndarray
    r: np.ndarray
    g: np.ndarray
    size: float
    value: float


@dataclass(frozen=True)
class FitProblem:
    """F and its derivatives."""

    features: Features
    labels: np.ndarray
    weights: np.ndarray
    ridge: float
    loss: Loss

    @cached_property
    def endless(self) -> bool:
        """Whether F may decrease forever as the weights grow: no ridge, and a loss that always decreases."""
        return self.ridge == 0.0 and always_falls(self.loss)

    def at(self, v: np.ndarray) -> FitPoint:
        """Outputs, gradient and F at v."""
        losses = 0.0

        def pulls(z: np.ndarray, rows: slice) -> np.ndarray:
            nonlocal losses
            value, slope = self.loss.value_and_slope(z, self.labels[rows])
            losses += float(self.weights[rows] @ value)
            return self.weights[rows] * slope

        w = v[:-1]
        if w.any():
            z, r, sums = self.features.both_products(w, float(v[-1]), pulls)
        else:
            z = np.full(len(self.labels), float(v[-1]))
            r = pulls(z, slice(None))
            sums = self.features.transposed_times(r)
        g = np.append(sums + self.ridge * w, r.sum())
        return FitPoint(v, z, r, g, float(np.linalg.norm(g)), losses + 0.5 * self.ridge * float(w @ w))

    def value_at_zero(self) -> float:
        return float(self.weights @ self.loss.value(np.zeros(len(self.labels)), self.labels))

    def curvatures(self, z: np.ndarray) -> np.ndarray:
        """D_i = p_i l''(z_i; y_i); averaged over [z - 1, z + 1] where all samples lie on straight parts of the loss."""
        curvature = np.maximum(self.loss.curvature(z, self.labels), 0.0)
        if not curvature.any():
            curvature = (self.loss.slope(z + 1.0, self.labels) - self.loss.slope(z - 1.0, self.labels)) / 2.0
        return self.weights * curvature

    def newton_direction(self, point: FitPoint) -> np.ndarray:
        curvature = self.curvatures(point.z)
        # Curvatures may be tiny as a whole (separable data, tiny ridge): the factor sees them relative to the largest.
        scale = float(curvature.max()) or 1.0
        return self.features.inverse_hessian(curvature / scale, self.ridge / scale)(-point.g / scale)

    @cached_property
    def initial_pull(self) -> float:
        """Mean of |l'(0; y_i)| times the typical ||(x_i, 1)||: the size of one sample's share in the gradient at 0."""
        return float(self.weights @ np.abs(self.loss.slope(np.zeros(len(self.labels)), self.labels))) * self._row_norm

    @cached_property
    def _row_norm(self) -> float:
        """Root mean square of ||(x_i, 1)||."""
        return math.hypot(self.features.row_norm, 1.0)

    def gradient_scale(self, point: FitPoint) -> float:
        """What the tolerance is relative to: ridge ||w||, or the initial pull where there is no ridge."""
        return self.ridge * float(np.linalg.norm(point.v[:-1])) if self.ridge > 0.0 else self.initial_pull

    def relative_gradient(self, point: FitPoint) -> float:
        """||grad F|| over its scale, or over the initial pull at w = 0."""
        scale = self.gradient_scale(point) or self.initial_pull
        return point.size / scale if scale > 0.0 else 0.0

    def rounding(self, point: FitPoint) -> float:
        """What rounding leaves uncertain in ||grad F||: relative errors of the outputs z and of the sums over samples."""
        moved = float(self.curvatures(point.z).sum()) * float(np.abs(point.z).max())
        return EPSILON * self._row_norm * (float(np.abs(point.r).sum()) + moved)

    def separates(self, z: np.ndarray) -> bool:
        """Whether every sample with a weight is on its label's side."""
        return bool(np.all((z * self.labels > 0.0) | (self.weights == 0.0)))


def always_falls(loss: Loss) -> bool:
    """Whether l decreases for all margins, as the logistic loss does: separable data then have no minimiser."""
    return float(loss.slope(np.array([300.0]), np.ones(1))[0]) < 0.0  # e^-300 is negligible

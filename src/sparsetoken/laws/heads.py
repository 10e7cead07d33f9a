"""Laws of several attention heads, and of tasks with several signals.

The features of H heads stand side by side, f_h = sum_l p^h_l x_l, and one readout w = (w_1 .. w_H) in R^{H d} reads them all. With
t_l a token's D coordinates in the space of the queries, and U the space of the signals' parts orthogonal to it (E dimensions),
what a readout sees of a bag is

    T (H x D)   the heads' coordinates in the space of the queries, T_h = sum_l p^h_l t_l
    S (H x E)   the signal's part in U, S_h = theta u sum over signal tokens of p^h_l
    K (H x H)   overlaps of the heads' weights, K_gh = sum_l p^g_l p^h_l

and outside the space of the queries the features have Gaussian noise with covariance K between heads. One head of one signal
is the law of (T, S, kappa) of `laws.law`, with K = kappa^2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri
from scipy.stats import qmc

from .._core.validation import real_number
from ..activations import softmax
from ..task import Task
from .draws import REPLICATES, SOBOL_DIMENSIONS

# Draws per replicate and class at the first level, and at most: a node holds H (D + E + H) numbers.
FIRST_POINTS, MAXIMUM_POINTS = 256, 1 << 14
# Numbers drawn at a time (bags x tokens x D): 32 MB.
_CHUNK_NUMBERS = 1 << 22
_ROOT_SEED = 20251115


class HeadNodes(NamedTuple):
    """Draws of both classes: arrays (replicates, nodes, ...); weights sum to 1 in each replicate.

    y, weight, offset are (B, N); T is (B, N, H, D), S (B, N, H, E) and K (B, N, H, H). `offset` shifts the quadrature over the
    readout noise.
    """

    y: Any
    T: Any
    S: Any
    K: Any
    weight: Any
    offset: Any


@dataclass(frozen=True, eq=False)
class HeadsLaw:
    """The law of (y, T, S, K) for H heads; made by `heads_law`.

    Attributes
    ----------
    task : Task
        Length, sparsity, strength and prevalence.
    queries : ndarray (H, D)
        beta q_h in the basis E.
    signals : ndarray (J, D)
        Unit vectors xi_j in the basis E.
    shares : ndarray (J,)
        Probability that a positive bag carries signal j (one signal per bag).
    """

    task: Task
    queries: np.ndarray
    signals: np.ndarray
    shares: np.ndarray
    name: str = field(default="heads")

    @property
    def heads(self) -> int:
        """H."""
        return len(self.queries)

    @property
    def prevalence(self) -> float:
        """pi = P(y = +1)."""
        return self.task.prevalence

    @cached_property
    def _made(self) -> dict[int, HeadNodes]:
        return {}

    def at(self, points: int) -> HeadNodes:
        """The draws at a level of refinement, `points` per replicate and class; made once."""
        if points not in self._made:
            for old in [p for p in self._made if p > FIRST_POINTS]:
                del self._made[old]
            self._made[points] = self._draw(points)
        return self._made[points]

    def _draw(self, points: int) -> HeadNodes:
        replicates = []
        seeds = np.random.SeedSequence([_ROOT_SEED, self.task.length, self.heads, points]).spawn(REPLICATES)
        for seed in seeds:
            rng = np.random.Generator(np.random.SFC64(seed))
            positive, negative = (self._bags(rng, points, label) for label in (True, False))
            y = np.repeat([1.0, -1.0], points)
            weight = np.where(y > 0, self.prevalence, 1.0 - self.prevalence) / points
            T, S, K = (np.concatenate(pair) for pair in zip(positive, negative))
            replicates.append(HeadNodes(y, T, S, K, weight, rng.random(2 * points)))
        return HeadNodes(*(np.stack(parts) for parts in zip(*replicates)))

    @cached_property
    def _split(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Queries (H, D) and signals (J, D) in an orthonormal basis of the queries' span, signals' rest (J, E) in one of U."""
        _, size, axes = np.linalg.svd(self.queries, full_matrices=True)
        rank = max(1, int((size > 1e-12 * max(size.max(), 1e-300)).sum()))
        inside, outside = axes[:rank].T, axes[rank:].T
        rest = self.signals @ outside
        _, size, axes = np.linalg.svd(rest, full_matrices=False) if rest.size else (0, np.zeros(0), np.zeros((0, 0)))
        return self.queries @ inside, self.signals @ inside, rest @ axes[size > 1e-12].T

    def _bags(self, rng: np.random.Generator, points: int, positive: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """T, S and K of `points` bags of one class; quasi-random in the signal tokens and the first of the others."""
        queries, signals, rest = self._split
        L, R, D, H = self.task.length, self.task.sparsity, queries.shape[1], self.heads
        leading = min(L * D, SOBOL_DIMENSIONS)
        uniform = np.clip(qmc.Sobol(leading, scramble=True, rng=rng).random(points), 1e-16, 1 - 1e-16)
        which = rng.permutation(np.searchsorted(np.cumsum(self.shares)[:-1], (np.arange(points) + 0.5) / points))
        T, S, K = np.empty((points, H, D)), np.zeros((points, H, rest.shape[1])), np.empty((points, H, H))
        chunk = max(1, _CHUNK_NUMBERS // (L * max(D, H)))
        for first in range(0, points, chunk):
            rows = slice(first, min(first + chunk, points))
            t = np.empty((rows.stop - first, L * D))
            t[:, :leading] = ndtri(uniform[rows])
            t[:, leading:] = rng.standard_normal((len(t), L * D - leading))
            t = t.reshape(-1, L, D)
            if positive:
                t[:, :R] += self.task.strength * signals[which[rows]][:, None]
            p = softmax(np.einsum("nld,hd->nhl", t, queries))
            T[rows] = p @ t
            K[rows] = p @ p.transpose(0, 2, 1)
            if positive:
                mass = self.task.strength * p[:, :, :R].sum(-1)
                S[rows] = mass[:, :, None] * rest[which[rows]][:, None]
        return T, S, K


def heads_law(
    task: Task,
    cosine: float | Sequence[float] | None = None,
    sharpness: float | Sequence[float] | None = None,
    *,
    queries: Any = None,
    signals: Any = None,
    shares: Any = None,
) -> HeadsLaw:
    """The law of H attention heads side by side.

    Either one cosine and one sharpness per head, for queries of one signal whose parts off the signal are orthogonal to each
    other (heads trained on disjoint data are so in the limit), or the queries themselves in the basis E.

    Parameters
    ----------
    task : Task
        Length, sparsity, strength and prevalence.
    cosine : float or sequence of float, optional
        gamma_h = cos(q_h, xi), per head.
    sharpness : float or sequence of float, optional
        k_h = beta ||q_h||, per head.
    queries : array (H, D), optional
        beta q_h in the basis E, instead of `cosine` and `sharpness`.
    signals : array (J, D), optional
        The signals xi_j in the basis E, unit vectors; the first basis vector when not given.
    shares : array (J,), optional
        Probability that a positive bag carries signal j; equal when not given. A bag carries one signal, in all its R
        signal tokens.

    Returns
    -------
    HeadsLaw
        The law, for `erm`.
    """
    if (queries is None) == (cosine is None and sharpness is None):
        raise ValueError("heads_law takes either cosine and sharpness, or queries")
    if queries is None:
        if cosine is None or sharpness is None:
            raise ValueError("cosine and sharpness must be given together")
        gamma, k = np.broadcast_arrays(np.atleast_1d(cosine), np.atleast_1d(sharpness))
        if gamma.ndim != 1:
            raise ValueError(
                f"cosine and sharpness must be numbers or have one entry per head, got shape {gamma.shape}"
            )
        gamma = np.array([real_number("cosine", float(g), -1.0, 1.0) for g in gamma])
        k = np.array([real_number("sharpness", float(s), 0.0) for s in k])
        queries = np.hstack([(k * gamma)[:, None], np.diag(k * np.sqrt(1.0 - gamma**2))])
    queries = _matrix("queries", queries)
    signals = np.eye(1, queries.shape[1]) if signals is None else _matrix("signals", signals)
    if signals.shape[1] != queries.shape[1]:
        raise ValueError(
            f"signals must have as many coordinates as queries ({queries.shape[1]}), got {signals.shape[1]}"
        )
    if not np.allclose(np.linalg.norm(signals, axis=1), 1.0, atol=1e-9):
        raise ValueError("signals must be unit vectors")
    shares = np.full(len(signals), 1.0 / len(signals)) if shares is None else np.asarray(shares, dtype=float)
    if shares.shape != (len(signals),) or (shares < 0).any() or not np.isclose(shares.sum(), 1.0):
        raise ValueError(f"shares must be {len(signals)} probabilities that sum to 1, got {shares}")
    return HeadsLaw(task, queries, signals, shares)


def _matrix(name: str, value: Any) -> np.ndarray:
    try:
        matrix = np.array(value, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be a matrix of numbers") from None
    if matrix.ndim != 2 or 0 in matrix.shape or not np.isfinite(matrix).all():
        raise ValueError(f"{name} must be a matrix of finite numbers, got shape {matrix.shape}")
    return matrix

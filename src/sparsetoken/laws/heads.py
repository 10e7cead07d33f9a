"""Laws of several attention heads, and of tasks with several signals.

What a readout sees of a bag, see Eq. (17) of docs/theory.md, is T (H x D), the heads' coordinates in the space of the queries,
S (H x E), the signal's part in the space of the signals' parts orthogonal to it, and K (H x H), the overlaps of the heads'
weights. One head of one signal is the law of (T, S, kappa) of `laws.law`, with K = kappa^2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from .._core.arrays import ROUNDING
from .._core.validation import real_number
from ..activations import softmax
from ..task import BagKind, Task
from .draws import LEADING_COORDINATES, NUMBERS_AT_A_TIME, REPLICATES, scrambled_sobol, seed_of, standard_normals
from .error_measures import ScoreLaw
from .law import FIRST_POINTS, SampledLaw
from .signals import Signals, real_array

MAXIMUM_POINTS = 1 << 14  # draws per replicate and class: a node holds H (D + E + H) numbers


class HeadNodes(NamedTuple):
    """Draws of both classes, the positive ones first, in B replicates of N nodes."""

    y: Any
    T: Any
    S: Any
    K: Any
    weight: Any
    offset: Any


@dataclass(frozen=True, eq=False)
class HeadsLaw(SampledLaw[HeadNodes]):
    """The law of (y, T, S, K) for H heads and J signals; made by `heads_law`.

    Attributes
    ----------
    task : Task
        Length, sparsity, strength and prevalence.
    queries, signals : ndarray (H, dimension), (J, dimension)
        beta q_h, and unit vectors xi_j, in an orthonormal basis of a space that holds both.
    shares, carried
        As in `Signals.of`.
    name : str
        What the law is called.
    """

    task: Task
    queries: np.ndarray
    signals: np.ndarray
    shares: np.ndarray
    carried: str = "one"
    name: str = "heads"
    first_points = FIRST_POINTS
    _most = MAXIMUM_POINTS

    @property
    def heads(self) -> int:
        """H."""
        return len(self.queries)

    @property
    def sharpness(self) -> float:
        """k of the first head."""
        return float(np.linalg.norm(self.queries[0]))

    @property
    def prevalence(self) -> float:
        """pi = P(y = +1)."""
        return self.task.prevalence

    @property
    def kind(self) -> BagKind:
        """L, R and theta of its bags, which are all alike."""
        return self.task.only_kind("several heads")

    def elsewhere(self, task: Task, sharpness: float | None = None) -> HeadsLaw:
        same = sharpness is None or sharpness == self.sharpness  # queries that vanish have no other sharpness
        queries = self.queries if same else sharpness / self.sharpness * self.queries  # type: ignore[operator]
        return heads_law(task, queries=queries, signals=self.signals, shares=self.shares, carried=self.carried)

    def _make(self, points: int) -> HeadNodes:
        replicates = []
        seeds = seed_of(20251115, self.kind.length, self.heads, points).spawn(REPLICATES)
        for seed in seeds:
            rng = np.random.Generator(np.random.SFC64(seed))
            positive, negative = (self._bags(rng, points, label) for label in (True, False))
            y = np.repeat([1.0, -1.0], points)
            weight = np.where(y > 0, self.prevalence, 1.0 - self.prevalence) / points
            T, S, K = (np.concatenate(pair) for pair in zip(positive, negative))
            replicates.append(HeadNodes(y, T, S, K, weight, rng.random(2 * points)))
        return HeadNodes(*(np.stack(parts) for parts in zip(*replicates)))

    @cached_property
    def query_space(self) -> np.ndarray:
        """Orthonormal basis (dimension, D) of the queries' span, in which T is given."""
        _, size, axes = np.linalg.svd(self.queries, full_matrices=False)
        rank = max(1, int((size > ROUNDING * size.max()).sum()))  # queries that vanish leave one direction, any
        basis = axes[:rank].T
        # The first axis is that of the mean query, along which tokens are drawn in decreasing order.
        mean = basis.T @ self.queries.sum(0)
        turned, _ = np.linalg.qr(np.column_stack([mean, np.eye(rank)]))
        return basis @ (turned if turned[:, 0] @ mean >= 0 else -turned)

    @cached_property
    def signal_space(self) -> np.ndarray:
        """Orthonormal basis (dimension, E) of U, the span of the signals' parts orthogonal to the queries."""
        rest = self.signals - self.signals @ self.query_space @ self.query_space.T
        _, size, axes = np.linalg.svd(rest, full_matrices=False)
        return axes[size > ROUNDING].T

    def carriers(self, uniform: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Which signal each of the R signal tokens carries (bags, R); `uniform` (bags,) chooses where there is one per bag."""
        return Signals(self.signals, self.shares, self.carried).carriers(uniform, self.kind.sparsity, rng)

    def _bags(self, rng: np.random.Generator, points: int, positive: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """T, S and K of `points` bags of one class."""
        queries, signals = self.queries @ self.query_space, self.signals @ self.query_space
        rest = self.signals @ self.signal_space
        (L, R, strength, _), D, H = self.kind, queries.shape[1], self.heads
        # Quasi-random: which signal a bag carries, the signal tokens, and the first of the others.
        leading = min(1 + L * D, LEADING_COORDINATES)
        sobol = scrambled_sobol(leading, points, rng).T
        which = self.carriers(sobol[:, 0], rng) if positive else np.zeros((points, R), int)
        T, S, K = np.empty((points, H, D)), np.zeros((points, H, rest.shape[1])), np.empty((points, H, H))
        chunk = max(1, NUMBERS_AT_A_TIME // (L * max(D, H)))
        for first in range(0, points, chunk):
            rows = slice(first, min(first + chunk, points))
            uniform = rng.random((rows.stop - first, L * D))
            uniform[:, : leading - 1] = sobol[rows, 1:]
            uniform = uniform.reshape(-1, L, D)
            # Tokens without signal in decreasing order along the first axis: the largest of m uniforms is V^(1/m), and so on.
            count = np.arange(L - R, 0, -1)
            uniform[:, R:, 0] = np.cumprod(uniform[:, R:, 0] ** (1.0 / count), axis=1)
            t = standard_normals(uniform)
            if positive:
                t[:, :R] += strength * signals[which[rows]]
            p = softmax(np.einsum("nld,hd->nhl", t, queries))
            T[rows] = p @ t
            K[rows] = p @ p.transpose(0, 2, 1)
            if positive:
                S[rows] = strength * p[:, :, :R] @ rest[which[rows]]
        return T, S, K


def heads_law(
    task: Task,
    cosine: float | Sequence[float] | None = None,
    sharpness: float | Sequence[float] | None = None,
    *,
    queries: Any = None,
    signals: Any = None,
    shares: Any = None,
    carried: str = "one",
) -> HeadsLaw:
    """The law of H attention heads side by side.

    Eq. (17) of docs/theory.md.

    Either one cosine and one sharpness per head, for one signal and queries whose parts off the signal are orthogonal to each
    other (heads trained on disjoint data are so in the limit), or the queries and the signals themselves, by their
    coordinates in an orthonormal basis of a space that holds them all.

    Parameters
    ----------
    task : Task
        Length, sparsity, strength and prevalence.
    cosine, sharpness : float or sequence of float, optional
        gamma_h = cos(q_h, xi) and k_h = beta ||q_h||, per head.
    queries : array (H, dimension), optional
        beta q_h, instead of `cosine` and `sharpness`.
    signals : array (J, dimension), optional
        The signals xi_j, unit vectors; the first basis vector when not given. Only together with `queries`.
    shares, carried
        As in `Signals.of`.
    """
    Task.require(task)
    if (queries is None) == (cosine is None and sharpness is None):
        raise ValueError("heads_law takes either cosine and sharpness, or queries")
    if queries is None:
        if cosine is None or sharpness is None:
            raise ValueError("cosine and sharpness must be given together")
        if signals is not None:
            raise ValueError("signals must be given together with queries, in the same basis")
        pair = np.atleast_1d(cosine), np.atleast_1d(sharpness)
        if any(v.ndim != 1 for v in pair) or len({len(v) for v in pair} - {1}) > 1:
            shapes = " and ".join(str(np.shape(v)) for v in (cosine, sharpness))
            raise ValueError(f"cosine and sharpness must be numbers or have one entry per head, got shapes {shapes}")
        gamma, k = np.broadcast_arrays(*pair)
        gamma = np.array([real_number("cosine", float(g), -1.0, 1.0) for g in gamma])
        k = np.array([real_number("sharpness", float(s), 0.0) for s in k])
        queries = np.hstack([(k * gamma)[:, None], np.diag(k * np.sqrt(1.0 - gamma**2))])
    queries = real_array("queries", queries, 2)
    checked = Signals.of(np.eye(1, queries.shape[1]) if signals is None else signals, shares, carried)
    if checked.directions.shape[1] != queries.shape[1]:
        raise ValueError(
            f"signals must have as many coordinates as queries ({queries.shape[1]}), got {checked.directions.shape[1]}"
        )
    checked.check(task.only_kind("several heads").sparsity)
    task.require_plain("several heads")
    return HeadsLaw(task, queries, checked.directions, checked.shares, checked.carried)


def head_scores(
    nodes: HeadNodes, m_T: np.ndarray, m_S: np.ndarray, bias: np.ndarray, spread: np.ndarray
) -> list[ScoreLaw]:
    """The law of the score of readouts on fresh bags, of the positive class and of the negative one."""
    mean = np.einsum("bnij,bij->bn", nodes.T, m_T) + np.einsum("bnij,bij->bn", nodes.S, m_S) + bias[:, None]
    variance = np.einsum("bnij,bij->bn", nodes.K, spread)
    deviation = np.sqrt(np.maximum(variance, 0.0))  # a replicate's own Q, to first order, need not be positive
    classes = []
    for part in np.split(np.arange(nodes.y.shape[1]), 2):
        weight = nodes.weight[:, part]
        classes.append(ScoreLaw(mean[:, part], deviation[:, part], weight / weight.sum(1, keepdims=True)))
    return classes

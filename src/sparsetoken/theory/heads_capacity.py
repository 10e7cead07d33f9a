"""The separability threshold of several heads.

In the limit of separable data the prox of the fixed point (`theory.heads`) is that of the indicator of y r >= 0, whose
envelope is (-y h)_+^2/(2 tr(K V)). The equations are then those of a saddle point, least in the readout's coordinates m, its
bias b and the positive matrix Q, greatest in V, of

    1/alpha* = E[(-y h)_+^2 / tr(K V)] / tr(V^{-1} Q),     h = <m_T, T> + <m_S, S> + b + sqrt(tr(K (Q + m_S m_S^T))) G

which depends on neither the length of the readout nor that of V (both matrices are held at trace 1). For one head V drops out
and this is `theory.capacity`. The average over G is closed: e of `shortfall`, with a the mean and v the variance of y h.

Newton's method on all unknowns loses its way where the classes are far apart. What works is the fixed point as it stands: m and
b at the minimum for the present Q and V, a smooth convex problem, and then, as the derivatives in Q and V demand,

    V <- E[K Phi(-x)/tr(K V)]^{-1},     Q <- V E[K e/tr(K V)^2] V
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..laws.heads import HeadNodes, HeadsLaw
from .errors import ConvergenceError
from .shortfall import Shortfall, least, shortfall

_ITERATIONS = 2000  # of the fixed point; 10 to 60 are taken, the error falling by a third or more in each
_DONE = 1e-9  # largest relative change of the matrices; the threshold's own error is its square
_NEWTON_STEPS = 100  # for m and b; 3 to 15 are taken
_ALIKE = 1e-12  # of E[K]'s largest eigenvalue: heads that are alike leave combinations that see nothing


class HeadsSaddle(NamedTuple):
    """The saddle point on the law's draws of a level.

    Attributes
    ----------
    m : ndarray (H, D + E)
        The readout's coordinates, those in the space of the queries first.
    b : float
        Its bias.
    Q, V : ndarray (H, H)
        The two matrices, each of trace 1.
    """

    m: np.ndarray
    b: float
    Q: np.ndarray
    V: np.ndarray


class _Bags(NamedTuple):
    """The draws, flat over replicates, in h <= H combinations of heads that differ.

    Attributes
    ----------
    linear : ndarray (N, h (D + E) + 1)
        y times (T, S, 1), head by head.
    K : ndarray (N, h, h)
        Overlaps of the weights.
    weight : ndarray (N,)
        Probabilities, which sum to 1 in each replicate.
    signal : ndarray
        The places of S among the columns of `linear`.
    """

    linear: np.ndarray
    K: np.ndarray
    weight: np.ndarray
    signal: np.ndarray


def _bags(nodes: HeadNodes, turn: np.ndarray) -> _Bags:
    count = nodes.y.size
    T, S = (turn.T @ part.reshape(count, *part.shape[2:]) for part in (nodes.T, nodes.S))
    K = turn.T @ nodes.K.reshape(count, *nodes.K.shape[2:]) @ turn
    both = np.concatenate([T, S], axis=-1)
    linear = np.concatenate([both.reshape(count, -1), np.ones((count, 1))], axis=1) * nodes.y.reshape(-1, 1)
    places = np.arange(both[0].size).reshape(both.shape[1:])
    return _Bags(linear, K, nodes.weight.ravel(), places[:, T.shape[-1] :])


def _at(p: np.ndarray, Q: np.ndarray, bags: _Bags) -> Shortfall:
    """The mean square shortfall of every bag at p = (m, b)."""
    m_S = p[bags.signal]
    return shortfall(bags.linear @ p, np.einsum("nij,ij->n", bags.K, Q + m_S @ m_S.T))


def _derivatives(p: np.ndarray, weight: np.ndarray, bags: _Bags, at: Shortfall) -> tuple[np.ndarray, np.ndarray]:
    """Gradient and Hessian in p = (m, b) of sum weight e."""
    m_S = p[bags.signal]
    _, tail, density, a, s = at
    # The derivatives of `shortfall`, and dv/dm_S = 2 K m_S.
    w_a, w_v = 2 * weight * (a * tail - s * density), weight * tail
    w_av = -weight * density / s
    w_vv = -0.5 * w_av * a / s**2
    slope = np.zeros(bags.linear.shape)
    slope[:, bags.signal.ravel()] = (2 * bags.K @ m_S).reshape(len(slope), -1)
    gradient = w_a @ bags.linear + w_v @ slope
    cross = bags.linear.T @ (w_av[:, None] * slope)
    hessian = bags.linear.T @ (2 * w_v[:, None] * bags.linear) + cross + cross.T + slope.T @ (w_vv[:, None] * slope)
    K = 2 * np.einsum("n,nij->ij", w_v, bags.K)
    for column in bags.signal.T:
        hessian[np.ix_(column, column)] += K
    return gradient, hessian


def _readout(p: np.ndarray, Q: np.ndarray, weight: np.ndarray, bags: _Bags, enough: float) -> tuple[np.ndarray, float]:
    """m and b at the minimum of sum weight e, from p, and the scaled gradient there; any point with a value below `enough`."""

    def objective(p: np.ndarray) -> tuple[float, Shortfall]:
        at = _at(p, Q, bags)
        return float(weight @ at.square), at

    p, _, residual = least(objective, lambda p, at: _derivatives(p, weight, bags, at), p, enough, _NEWTON_STEPS)
    return p, residual


def _of_trace_one(matrix: np.ndarray) -> np.ndarray:
    matrix = 0.5 * (matrix + matrix.T)
    return matrix / np.trace(matrix)


def heads_threshold(
    law: HeadsLaw, points: int, start: HeadsSaddle | None, never: float
) -> tuple[HeadsSaddle, np.ndarray, float]:
    """The saddle point on the law's draws of a level.

    Parameters
    ----------
    law : HeadsLaw
        Queries and signals.
    points : int
        Draws per replicate and class.
    start : HeadsSaddle or None
        That of another level.
    never : float
        A mean value of 1/alpha* below which the iteration may end, wherever that is.

    Returns
    -------
    tuple
        The saddle point, 1/alpha* of every replicate there, and the largest of the scaled gradient in m and b and the relative
        changes that another iteration would make to the matrices.

    Raises
    ------
    ConvergenceError
        Where the iteration does not settle.
    """
    nodes = law.at(points)
    mean = np.einsum("bn,bnij->ij", nodes.weight, nodes.K) / len(nodes.K)
    size, axes = np.linalg.eigh(mean)
    # Where all of E[K] vanishes, so does every K, and the features with it.
    bags = _bags(nodes, turn := axes[:, size > _ALIKE * size[-1]])
    if start is None:
        # The solution for weights that overlap alike in all bags, K = E[K].
        V = Q = _of_trace_one(np.linalg.inv(turn.T @ mean @ turn))
        p = np.zeros(bags.linear.shape[1])
    else:
        V, Q = (_of_trace_one(turn.T @ matrix @ turn) for matrix in (start.V, start.Q))
        p = np.append((turn.T @ start.m).ravel(), start.b)
    for _ in range(_ITERATIONS):
        step = np.einsum("nij,ij->n", bags.K, V)
        scale = np.trace(np.linalg.solve(V, Q))
        p, residual = _readout(p, Q, bags.weight / step, bags, never * scale * len(nodes.y))
        at = _at(p, Q, bags)
        share = bags.weight * at.square / step
        values = share.reshape(len(nodes.y), -1).sum(1) / scale
        if values.mean() < never:
            change = 0.0
            break
        new_V = _of_trace_one(np.linalg.inv(np.einsum("n,nij->ij", bags.weight * at.tail / step, bags.K)))
        new_Q = _of_trace_one(new_V @ np.einsum("n,nij->ij", share / step, bags.K) @ new_V)
        change = max(_change(new_V, V), _change(new_Q, Q))
        if change <= _DONE:
            break
        V, Q = new_V, new_Q
    else:
        raise ConvergenceError(
            f"capacity of {law.heads} heads: matrices change by {change:.1e} after {_ITERATIONS} steps"
        )
    m = turn @ p[:-1].reshape(turn.shape[1], -1)
    saddle = HeadsSaddle(m, float(p[-1]), turn @ Q @ turn.T, turn @ V @ turn.T)
    return saddle, values, max(residual, change)


def _change(new: np.ndarray, old: np.ndarray) -> float:
    """The largest change of any quadratic form, relative to its size: the eigenvalues of old^{-1} new less 1."""
    return float(np.abs(np.linalg.eigvals(np.linalg.solve(old, new)) - 1.0).max())

"""The minima behind the separability thresholds: the mean square by which margins fall short of zero.

A margin that is Gaussian with mean a and variance v = s^2 falls short by (-a - s G)_+. Its mean square is closed,

    e = (v + a^2) Phi(-x) - a s phi(x),   x = a/s
    e_a = 2 (a Phi - s phi),   e_v = Phi,   e_aa = 2 Phi,   e_av = -phi/s,   e_vv = phi a/(2 s^3)

and averages of it over bags are smooth and convex in the readout: Newton's method with step halving finds their minimum. For a
law of (T, S, kappa)

    1/alpha* = min over m_q, m_u, b of  E[( sqrt(1 + m_u^2) G - y (m_q T + m_u S + b)/kappa )_+^2]

For several heads, in the limit of separable data, the prox of the fixed point is that of the indicator of y r >= 0, whose
envelope is (-y h)_+^2/(2 tr(K V)). The equations are then those of a saddle point, least in the readout's coordinates m, its
bias b and the positive matrix Q, greatest in V, of

    1/alpha* = E[(-y h)_+^2 / tr(K V)] / tr(V^{-1} Q),     h = <m_T, T> + <m_S, S> + b + sqrt(tr(K (Q + m_S m_S^T))) G

which depends on neither the length of the readout nor that of V (both matrices are held at trace 1). For one head V drops out.
Newton's method on all unknowns fails where the classes are far apart. What works is fixed-point iteration: m and
b at the minimum for the present Q and V, a smooth convex problem, and then, as the derivatives in Q and V demand,

    V <- E[K Phi(-x)/tr(K V)]^{-1},     Q <- V E[K e/tr(K V)^2] V

Eq. (12) and Eq. (19) of docs/theory.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr

from ..laws.heads import HeadNodes, HeadsLaw
from ..laws.nodes import Population
from .errors import ConvergenceError

NEVER = 1e-13  # values of 1/alpha* below are rounding: the classes are separable at any practical sample size
_STEPS = 200  # Newton steps allowed; 5 to 15 are taken, some dozens where kappa nearly vanishes in some bags
_TOLERANCE = 1e-6  # on the scaled gradient, which is 1e-10 or less where Newton's method converged
_ITERATIONS = 2000  # of the fixed point of heads; 10 to 60 are taken, the error falling by a third or more in each
_CHANGE = 1e-9  # largest relative change of the matrices; the threshold's own error is its square
_ALIKE = 1e-12  # of E[K]'s largest eigenvalue: heads that are alike leave combinations that see nothing
_FLAT = 1e-12  # added to the Hessian, relative to its diagonal: picks zero for a direction that does not matter
_DONE = 1e-22  # predicted decrease, relative to the value, below which rounding is all that is left
_ROUNDING = 1e-14  # increase of the value, relative, that rounding may have made
_SUFFICIENT = 1e-4  # share of the predicted decrease that a step must bring (Armijo)
_SHORTEST = 1e-10  # of the full Newton step


class Shortfall(NamedTuple):
    """The mean square shortfall of margins, and what its derivatives are made of."""

    square: np.ndarray
    tail: np.ndarray
    density: np.ndarray
    mean: np.ndarray
    deviation: np.ndarray


def shortfall(a: np.ndarray, v: np.ndarray) -> Shortfall:
    """The mean square shortfall of margins N(a, v)."""
    s = np.sqrt(v)
    x = a / s
    tail, density = ndtr(-x), np.exp(-0.5 * x * x) / np.sqrt(2 * np.pi)
    return Shortfall((v + a * a) * tail - a * s * density, tail, density, a, s)


def least(
    objective: Callable[[np.ndarray], tuple[float, Any]],
    derivatives: Callable[[np.ndarray, Any], tuple[np.ndarray, np.ndarray]],
    p: np.ndarray,
    enough: float,
    steps: int,
) -> tuple[np.ndarray, Any, float]:
    """Newton's method with step halving on a convex function, from p."""
    value, there = objective(p)
    residual = np.inf
    for _ in range(steps):
        if value < enough:
            return p, there, 0.0
        gradient, hessian = derivatives(p, there)
        # The Hessian is singular where a part of the features vanishes; the tiny addition leaves its coordinates at zero.
        # Relative to each diagonal entry, because the bias counts in units of kappa, which nearly vanishes in some bags.
        size = np.sqrt(np.diagonal(hessian))
        size = np.where(size > 0, size, 1.0)
        residual = float(np.abs(gradient / size).max() / np.sqrt(value))
        step = -np.linalg.solve(hessian / np.outer(size, size) + _FLAT * np.eye(len(p)), gradient / size) / size
        slope, scale = gradient @ step, 1.0
        if -slope <= _DONE * value:
            break
        while True:
            trial, there = objective(p + scale * step)
            # Near the minimum the decrease is below rounding, and the full step is right.
            if trial <= value * (1 + _ROUNDING) + _SUFFICIENT * scale * slope or scale < _SHORTEST:
                break
            scale *= 0.5
        p, value = p + scale * step, trial
    return p, there, 0.0 if value < enough else residual


class _Terms(NamedTuple):
    """What the objective needs of a class, arrays flat over replicates and entries."""

    c: np.ndarray
    ratio2: Any
    weight: np.ndarray


def _terms(population: Population) -> list[_Terms]:
    terms = []
    for label, probability, columns in population.training():
        shape = columns.T.shape

        def flat(v):
            return np.broadcast_to(v, shape).ravel()  # noqa: B023

        c = np.stack([flat(label * v / columns.kappa) for v in (columns.T, columns.S, 1.0)])
        ratio2 = flat((columns.tau / columns.kappa) ** 2) if np.any(columns.tau) else 0.0
        terms.append(_Terms(c, ratio2, probability * flat(columns.weight)))
    return terms


def _objective(p: np.ndarray, terms: list[_Terms], replicates: int):
    """Value for each replicate, pooled gradient and Hessian in p = (m_q, m_u, b)."""
    m_q, m_u, _ = p
    value = np.zeros(replicates)
    gradient, hessian = np.zeros(3), np.zeros((3, 3))
    for c, ratio2, weight in terms:
        v = 1 + m_u**2 + m_q**2 * ratio2
        square, tail, density, a, s = shortfall(p @ c, v)
        w = weight / replicates
        value += (weight * square).reshape(replicates, -1).sum(1)
        w_v, w_av = w * tail, -w * density / s
        w_vv = -0.5 * w_av * a / v
        # dv/dp = (2 m_q ratio2, 2 m_u, 0)
        gradient += c @ (2 * (w_v * a - w * s * density))
        gradient[:2] += 2 * m_q * (w_v * ratio2).sum(), 2 * m_u * w_v.sum()
        cross = np.stack([2 * m_q * (c @ (w_av * ratio2)), 2 * m_u * (c @ w_av), np.zeros(3)], axis=1)
        hessian += (c * (2 * w_v)) @ c.T + cross + cross.T
        both = 4 * m_q * m_u * (w_vv * ratio2).sum()
        hessian[:2, :2] += [
            [4 * m_q**2 * (w_vv * ratio2**2).sum() + 2 * (w_v * ratio2).sum(), both],
            [both, 4 * m_u**2 * w_vv.sum() + 2 * w_v.sum()],
        ]
    return value, gradient, hessian


def plain_threshold(population: Population, p: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """The minimiser, from p, the replicates' values there, and the scaled gradient; any point with a value below `NEVER`."""
    terms, replicates = _terms(population), population.replicates

    def objective(p: np.ndarray) -> tuple[float, tuple[np.ndarray, ...]]:
        found = _objective(p, terms, replicates)
        return float(found[0].mean()), found

    p, (value, *_), residual = least(objective, lambda _, found: found[1:], p, NEVER, _STEPS)
    if not residual <= _TOLERANCE:
        raise ConvergenceError(f"capacity: scaled gradient {residual:.1e} after {_STEPS} Newton steps at {p}")
    return p, value, residual


class HeadsSaddle(NamedTuple):
    """The saddle point on the law's draws of a level."""

    m: np.ndarray
    b: float
    Q: np.ndarray
    V: np.ndarray


class _HeadDraws(NamedTuple):
    """The draws, flat over replicates, in h <= H combinations of heads that differ."""

    linear: np.ndarray
    K: np.ndarray
    weight: np.ndarray
    signal: np.ndarray


def _bags(nodes: HeadNodes, turn: np.ndarray) -> _HeadDraws:
    count = nodes.y.size
    T, S = (turn.T @ part.reshape(count, *part.shape[2:]) for part in (nodes.T, nodes.S))
    K = turn.T @ nodes.K.reshape(count, *nodes.K.shape[2:]) @ turn
    both = np.concatenate([T, S], axis=-1)
    linear = np.concatenate([both.reshape(count, -1), np.ones((count, 1))], axis=1) * nodes.y.reshape(-1, 1)
    places = np.arange(both[0].size).reshape(both.shape[1:])
    return _HeadDraws(linear, K, nodes.weight.ravel(), places[:, T.shape[-1] :])


def _at(p: np.ndarray, Q: np.ndarray, bags: _HeadDraws) -> Shortfall:
    """The mean square shortfall of every bag at p = (m, b)."""
    m_S = p[bags.signal]
    return shortfall(bags.linear @ p, np.einsum("nij,ij->n", bags.K, Q + m_S @ m_S.T))


def _derivatives(p: np.ndarray, weight: np.ndarray, bags: _HeadDraws, at: Shortfall) -> tuple[np.ndarray, np.ndarray]:
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


def _readout(
    p: np.ndarray, Q: np.ndarray, weight: np.ndarray, bags: _HeadDraws, enough: float
) -> tuple[np.ndarray, float]:
    """m and b at the minimum of sum weight e, from p, and the scaled gradient there; any point with a value below `enough`."""

    def objective(p: np.ndarray) -> tuple[float, Shortfall]:
        at = _at(p, Q, bags)
        return float(weight @ at.square), at

    p, _, residual = least(objective, lambda p, at: _derivatives(p, weight, bags, at), p, enough, _STEPS)
    return p, residual


def _of_trace_one(matrix: np.ndarray) -> np.ndarray:
    matrix = 0.5 * (matrix + matrix.T)
    return matrix / np.trace(matrix)


def heads_threshold(law: HeadsLaw, points: int, start: HeadsSaddle | None) -> tuple[HeadsSaddle, np.ndarray, float]:
    """The saddle point on the law's draws of a level."""
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
        p, residual = _readout(p, Q, bags.weight / step, bags, NEVER * scale * len(nodes.y))
        at = _at(p, Q, bags)
        share = bags.weight * at.square / step
        values = share.reshape(len(nodes.y), -1).sum(1) / scale
        if values.mean() < NEVER:
            change = 0.0
            break
        new_V = _of_trace_one(np.linalg.inv(np.einsum("n,nij->ij", bags.weight * at.tail / step, bags.K)))
        new_Q = _of_trace_one(new_V @ np.einsum("n,nij->ij", share / step, bags.K) @ new_V)
        change = max(_change(new_V, V), _change(new_Q, Q))
        if change <= _CHANGE:
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

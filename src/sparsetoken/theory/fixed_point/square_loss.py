"""Square loss: the fixed point in closed form up to one scalar equation, at any ridge.

Objective: (1/n) sum_i (<w, f_i> + b - y_i)^2/2 + (ridge/2) ||w||^2, bias unpenalised, alpha = n/dimension; at ridge = 0 and
below alpha = 1 the interpolator of least norm. The prox is linear, l'(r) = a (h - y) with a = 1/(1 + V kappa^2), so that

    alpha V (ridge + E[kappa^2 a]) = 1,

which is increasing and concave in V, and with e = m_q T + m_u S + b - y everything else is linear in (m_q, m_u, b):

    ridge m_q + E[T e a] = 0,   m_u/(alpha V) + E[S e a] = 0,   E[e a] = 0,
    nu^2 = alpha V^2 E[kappa^2 a^2 (e^2 + kappa^2 (m_u^2 + nu^2))].

At ridge = 0 below alpha = 1 V is infinite, the weights become 1/kappa^2 and ridge V tends to (1 - alpha)/alpha.

Eq. (11) of docs/theory.md.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...laws.nodes import Nodes
from ...losses import Loss, Square

PEAK_WIDTH = 1e-9  # |alpha - 1| below which, without a ridge, the interpolation peak itself is meant
ITERATIONS = 200  # of Newton's method for V; it takes 5 to 12
LAST_STEP = 1e-9  # relative step of V after which Newton's method, converging quadratically, is exact to rounding
_MANY = 2048  # nodes from which a part of them is solved first
_DIAGONAL = np.arange(3)
_PAIRS = [(i, j) for i in range(4) for j in range(i, 4)]  # of the columns c = (T, S, 1, y)
_PIECE = 4096  # nodes whose products are held at a time: 300 kB
_RANK = 1e-13  # directions of the scaled linear system below this are undetermined, and zero is right for them


class SquareSolution(NamedTuple):
    """Fixed points of one or several laws, all arrays with one row per law."""

    x: np.ndarray
    train_loss: np.ndarray
    residual: np.ndarray


def is_square(loss: Loss) -> bool:
    """Whether a loss is the built-in square loss itself (not one of the same name, nor one derived from it)."""
    return type(loss) is Square


def solve_square(
    alpha: float, ridge: float, nodes: Nodes, *, each: bool = False, near: float | None = None
) -> SquareSolution:
    """The fixed point of the module's text."""
    shape = nodes.T.shape
    given = (nodes.T, nodes.S, nodes.y, nodes.tau, nodes.kappa, nodes.weight)
    if not each and shape[0] > 1:
        given = tuple(v.reshape(1, -1) for v in given)
    T, S, y, tau, kappa, weight = given
    if len(T) < shape[0]:
        weight = weight / shape[0]
    if ridge == 0 and abs(alpha - 1.0) < PEAK_WIDTH:
        # The norm is infinite and the classifier's sign is pure noise.
        peak = np.tile([0.0, 0.0, np.inf, 0.0, np.inf], (len(T), 1))
        return SquareSolution(peak, np.zeros(len(T)), np.zeros(len(T)))
    design = _Design(T, S, y, tau)
    if ridge == 0 and alpha < 1:
        return _interpolator(alpha, design, kappa**2, weight)
    return _regularised(alpha, ridge, design, kappa**2, weight, near)


class _Design:
    """The columns c = (T, S, 1, y) of every law, arrays (laws, nodes), and the spread tau that T has inside a node."""

    def __init__(self, T: np.ndarray, S: np.ndarray, y: np.ndarray, tau: np.ndarray):
        self.T, self.S, self.y = T, S, y
        self.tau2 = tau**2 if tau.any() else None

    def moments(self, *weights: np.ndarray) -> np.ndarray:
        """E[c_i c_j weight] for each of the weights and every law, (weights, laws, 4, 4)."""
        laws, nodes = self.T.shape
        sums = np.zeros((laws, len(_PAIRS), len(weights)))
        width = min(nodes, _PIECE)
        products, share = np.ones((len(_PAIRS), width)), np.empty((len(weights), width))
        for law in range(laws):
            for first in range(0, nodes, _PIECE):  # a piece's products stay in the cache
                piece = (law, slice(first, first + _PIECE))
                T, S, y = self.T[piece], self.S[piece], self.y[piece]
                size = len(T)
                for row, values in zip(
                    products, ((T, T), (T, S), (T,), (T, y), (S, S), (S,), (S, y), (), (y,), (y, y))
                ):
                    if len(values) == 2:
                        np.multiply(*values, out=row[:size])
                    elif values:
                        row[:size] = values[0]
                if self.tau2 is not None:
                    products[0, :size] += self.tau2[piece]
                for row, weight in zip(share, weights):
                    row[:size] = weight[piece]
                sums[law] += products[:, :size] @ share[:, :size].T
        M = np.empty((len(weights), laws, 4, 4))
        for k, (i, j) in enumerate(_PAIRS):
            M[:, :, i, j] = M[:, :, j, i] = sums[:, k].T
        return M


def _regularised(
    alpha: float, ridge: float, design: _Design, k2: np.ndarray, weight: np.ndarray, near: float | None
) -> SquareSolution:
    """A ridge, or more samples than dimensions: V is finite."""
    V, gap = _prox_step(alpha, ridge, k2, weight, near)
    a = 1.0 / (1.0 + V[:, None] * k2)
    wa = weight * a
    wa2 = wa * a
    wa2k2 = wa2 * k2
    M, M_noise, M_loss = design.moments(wa, wa2k2, wa2)
    zero = np.zeros_like(V)
    m, miss = _overlaps(M, np.stack([zero + ridge, 1.0 / (alpha * V), zero], axis=-1))
    e = _with_label(m)
    e2 = _quadratic(e, M_noise)
    A, B = M_noise[:, 2, 2], np.einsum("bn,bn->b", wa2k2, k2)
    # nu^2 (1 - alpha V^2 B) = alpha V^2 (e2 + B m_u^2); by the equation of V the bracket is a sum of positive terms
    bracket = alpha * V * (ridge + A)
    nu2 = alpha * V**2 * (e2 + B * m[:, 1] ** 2) / bracket
    train_loss = 0.5 * (_quadratic(e, M_loss) + A * (m[:, 1] ** 2 + nu2))
    with np.errstate(divide="ignore", invalid="ignore"):  # nu^2 below zero: lost in rounding, which the caller sees
        D = np.sqrt(nu2 / alpha) / V  # sqrt(E[kappa^2 l'^2])
        scaled = np.nan_to_num(miss / D, nan=0.0)
        x = np.stack([m[:, 0], m[:, 1], 0.5 * np.log(nu2), m[:, 2], np.log(V)], axis=-1)
    return SquareSolution(x, train_loss, np.maximum(gap, scaled))


def _interpolator(alpha: float, design: _Design, k2: np.ndarray, weight: np.ndarray) -> SquareSolution:
    """No ridge and fewer samples than dimensions: the interpolator of least norm."""
    M = design.moments(weight / k2)[0]
    m, miss = _overlaps(M, np.tile([(1.0 - alpha) / alpha, 1.0 / alpha, 0.0], (len(M), 1)))
    e2 = _quadratic(_with_label(m), M)
    nu2 = alpha * (e2 + m[:, 1] ** 2) / (1.0 - alpha)
    with np.errstate(divide="ignore"):
        x = np.stack([m[:, 0], m[:, 1], 0.5 * np.log(nu2), m[:, 2], np.full(len(m), np.inf)], axis=-1)
    return SquareSolution(x, np.zeros(len(m)), miss)


def _prox_step(
    alpha: float, ridge: float, k2: np.ndarray, weight: np.ndarray, near: float | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """V of every law, and what the equation misses there.

    The equation's left side is concave, so that Newton's method from below never oversteps the root, and one step from above
    leads below it.
    """
    first = k2[:, :1]
    if (k2 == first).all():  # the same kappa everywhere: a quadratic equation, in the form that loses no digits
        k = first[:, 0]
        square, half = alpha * ridge * k, 0.5 * (alpha * ridge + (alpha - 1.0) * k)
        root = np.hypot(half, np.sqrt(square))
        V = np.where(half > 0, 1.0, root - half) / np.where(half > 0, root + half, square)
        return V, np.abs(1.0 - alpha * V * (ridge + k / (1.0 + V * k)))
    wk2 = weight * k2
    lowest = 1.0 / (alpha * (ridge + wk2.sum(-1)))
    if near is None and len(k2) == 1 and k2.shape[1] > _MANY:  # a few of the nodes, spread over all, lead near the root
        part = slice(None, None, -(-k2.shape[1] // _MANY))
        share = weight[:, part]
        near = float(_prox_step(alpha, ridge, k2[:, part], share / share.sum())[0][0])
    V = lowest if near is None else np.maximum(lowest, near)
    for i in range(ITERATIONS):
        a = 1.0 / (1.0 + V[:, None] * k2)
        wk2a = wk2 * a
        gap = 1.0 - alpha * V * (ridge + wk2a.sum(-1))
        step = gap / (alpha * (ridge + np.einsum("bn,bn->b", wk2a, a)))
        if i == 0 and near is not None:
            V = np.maximum(lowest, V + step)
            continue
        V = V + np.maximum(step, 0.0)  # below zero only by rounding
        if (step <= LAST_STEP * V).all():
            break
    return V, np.abs(gap)


def _overlaps(M: np.ndarray, diagonal: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(m_q, m_u, b) of (M + diagonal) m = E[c y], and the largest entry that the equations miss.

    A law without S (or without T) leaves its overlap undetermined: the least-squares solution has zero, which is right.
    """
    system, right = M[:, :3, :3].copy(), M[:, :3, 3]
    system[:, _DIAGONAL, _DIAGONAL] += diagonal
    scale = np.sqrt(system[:, _DIAGONAL, _DIAGONAL])
    scale[scale == 0] = 1.0
    scaled = system / (scale[:, :, None] * scale[:, None, :])
    values, vectors = np.linalg.eigh(scaled)
    known = values > _RANK * values[:, -1:]
    inverse = (vectors * np.divide(1.0, values, out=np.zeros_like(values), where=known)[:, None, :]) @ vectors.swapaxes(
        1, 2
    )

    def solved(r):
        return (inverse @ (r / scale)[..., None])[..., 0] / scale

    m = solved(right)
    m = m + solved(right - (system @ m[..., None])[..., 0])  # one step of refinement
    return m, np.abs((system @ m[..., None])[..., 0] - right).max(-1)


def _with_label(m: np.ndarray) -> np.ndarray:
    """(m_q, m_u, b, -1): the coefficients of e = m_q T + m_u S + b - y."""
    e = np.full((len(m), 4), -1.0)
    e[:, :3] = m
    return e


def _quadratic(e: np.ndarray, M: np.ndarray) -> np.ndarray:
    """e^T M e of every law."""
    return ((M @ e[:, :, None])[:, :, 0] * e).sum(-1)

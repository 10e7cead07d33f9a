"""Square loss: the fixed point in closed form up to one scalar equation, at any ridge.

Objective: (1/n) sum_i (<w, f_i> + b - y_i)^2/2 + (ridge/2) ||w||^2, bias unpenalised, alpha = n/dimension; at ridge = 0 and
below alpha = 1 the interpolator of least norm.

Eq. (11) of docs/theory.md gives V, its left side being increasing and concave in V, and nu. With the a and e of there, the
rest is linear: ridge m_q + E[T e a] = 0, m_u/(alpha V) + E[S e a] = 0, E[e a] = 0. At ridge = 0 below alpha = 1 V is infinite,
the weights become 1/kappa^2 and ridge V tends to (1 - alpha)/alpha.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..._core.arrays import ROUNDING
from ..._core.root_finding import NEWTON_STEPS
from ...laws.populations import Nodes
from ...losses import Loss, Square
from .prox_averages import SAME


class SquareSolution(NamedTuple):
    """Fixed points of one or several laws, all arrays with one row per law."""

    x: np.ndarray
    train_loss: np.ndarray
    residual: np.ndarray


def is_square(loss: Loss) -> bool:
    """Whether a loss is the built-in square loss (not a loss of the same name, nor a subclass)."""
    return type(loss) is Square


def solve_square(
    alpha: float, ridge: float, nodes: Nodes, *, each: bool = False, near: float | None = None
) -> SquareSolution:
    """The fixed point of the module's text, on all replicates together or on each of them; `near` is a first guess of V."""
    replicates, laws = len(nodes.T), len(nodes.T) if each else 1
    k2, weight = nodes.kappa.reshape(laws, -1) ** 2, nodes.weight.reshape(laws, -1) * (laws / replicates)
    if ridge == 0 and abs(alpha - 1.0) < SAME:
        # The norm is infinite and the classifier's sign is pure noise.
        peak = np.tile([0.0, 0.0, np.inf, 0.0, np.inf], (laws, 1))
        return SquareSolution(peak, np.zeros(laws), np.zeros(laws))
    design = _Design(np.stack([nodes.T, nodes.S, np.ones_like(nodes.T), nodes.y], axis=1), nodes.tau**2, laws)
    if ridge == 0 and alpha < 1:
        return _interpolator(alpha, design, k2, weight)
    if near is None and replicates > 1:  # the first replicate's root is close to the common one
        near = float(_prox_step(alpha, ridge, nodes.kappa[:1] ** 2, nodes.weight[:1])[0][0])
    return _regularised(alpha, ridge, design, k2, weight, near)


class _Design(NamedTuple):
    """The columns c = (T, S, 1, y) of every replicate (replicates, 4, nodes), the variance that T has inside a node, and
    the number of laws: as many as replicates, or one."""

    columns: np.ndarray
    tau2: np.ndarray
    laws: int

    def moments(self, weight: np.ndarray) -> np.ndarray:
        """E[c_i c_j weight] of every law, (laws, 4, 4)."""
        weight = weight.reshape(self.tau2.shape)
        M = np.stack([(c * w) @ c.T for c, w in zip(self.columns, weight)])  # one replicate stays in the cache
        M[:, 0, 0] += np.einsum("bn,bn->b", self.tau2, weight)
        return M if len(M) == self.laws else M.sum(0, keepdims=True)


def _regularised(
    alpha: float, ridge: float, design: _Design, k2: np.ndarray, weight: np.ndarray, near: float | None
) -> SquareSolution:
    """A ridge, or more samples than dimensions: V is finite."""
    V, gap = _prox_step(alpha, ridge, k2, weight, near)
    a = 1.0 / (1.0 + V[:, None] * k2)
    wa = weight * a
    wa2 = wa * a
    wa2k2 = wa2 * k2
    M_noise = design.moments(wa2k2)
    zero = np.zeros_like(V)
    m, miss = _overlaps(design.moments(wa), np.stack([zero + ridge, 1.0 / (alpha * V), zero], axis=-1))
    e = _with_label(m)
    e2 = _quadratic(e, M_noise)
    A, B = M_noise[:, 2, 2], (wa2k2 * k2).sum(-1)
    # nu^2 (1 - alpha V^2 B) = alpha V^2 (e2 + B m_u^2); by the equation of V the bracket is a sum of positive terms
    bracket = alpha * V * (ridge + A)
    nu2 = alpha * V**2 * (e2 + B * m[:, 1] ** 2) / bracket
    train_loss = 0.5 * (_quadratic(e, design.moments(wa2)) + A * (m[:, 1] ** 2 + nu2))
    with np.errstate(divide="ignore", invalid="ignore"):  # nu^2 below zero: lost in rounding, which the caller sees
        D = np.sqrt(nu2 / alpha) / V  # sqrt(E[kappa^2 l'^2])
        scaled = np.nan_to_num(miss / D, nan=0.0)
        x = np.stack([m[:, 0], m[:, 1], 0.5 * np.log(nu2), m[:, 2], np.log(V)], axis=-1)
    return SquareSolution(x, train_loss, np.maximum(gap, scaled))


def _interpolator(alpha: float, design: _Design, k2: np.ndarray, weight: np.ndarray) -> SquareSolution:
    """No ridge and fewer samples than dimensions: the interpolator of least norm."""
    M = design.moments(weight / k2)
    m, miss = _overlaps(M, np.tile([(1.0 - alpha) / alpha, 1.0 / alpha, 0.0], (len(M), 1)))
    e2 = _quadratic(_with_label(m), M)
    nu2 = alpha * (e2 + m[:, 1] ** 2) / (1.0 - alpha)
    with np.errstate(divide="ignore"):
        x = np.stack([m[:, 0], m[:, 1], 0.5 * np.log(nu2), m[:, 2], np.full(len(m), np.inf)], axis=-1)
    return SquareSolution(x, np.zeros(len(m)), miss)


def _prox_step(
    alpha: float, ridge: float, k2: np.ndarray, weight: np.ndarray, near: float | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """V of every law by Newton's method, which passes a concave equation's root from above only, and the residual there."""
    wk2 = weight * k2
    lowest = 1.0 / (alpha * (ridge + wk2.sum(-1)))
    V = lowest if near is None else np.maximum(lowest, near)
    for _ in range(NEWTON_STEPS):
        a = 1.0 / (1.0 + V[:, None] * k2)
        wk2a = wk2 * a
        gap = 1.0 - alpha * V * (ridge + wk2a.sum(-1))
        step = gap / (alpha * (ridge + np.einsum("bn,bn->b", wk2a, a)))
        V = np.maximum(V + step, lowest)
        if (np.abs(step) <= SAME * V).all():  # converging quadratically, it is exact to rounding then
            break
    return V, np.abs(gap)


def _overlaps(M: np.ndarray, diagonal: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(m_q, m_u, b) of (M + diagonal) m = E[c y], and the largest entry of the residual. An overlap that a law leaves
    undetermined, having no S or no T, is zero by least squares."""
    system, right = M[:, :3, :3] + diagonal[:, :, None] * np.eye(3), M[:, :3, 3]
    scale = np.sqrt(np.diagonal(system, axis1=1, axis2=2))
    scale = np.where(scale == 0, 1.0, scale)
    inverse = np.linalg.pinv(system / (scale[:, :, None] * scale[:, None, :]), rcond=ROUNDING, hermitian=True)

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

"""Exact asymptotics of ridge-regularised convex ERM on the features of several heads.

Objective: (1/n) sum_i l(sum_h <w_h, f_ih> + b; y_i) + (ridge/2) sum_h ||w_h||^2, bias unpenalised, n = alpha d. Unknowns are the
readout's coordinates m_T (H x D) in the space of the queries and m_S (H x E) in that of the signals' other parts, b, and two
symmetric positive H x H matrices: V, the response, and Q, the overlaps Q_gh = <w_g, w_h> of the rest. At a bag (y, T, S, K) the
score is Gaussian and its prox is scalar:

    h = <m_T, T> + <m_S, S> + b + sqrt(tr(K (Q + m_S m_S^T))) G,   r + tr(K V) l'(r; y) = h
    F1 = (ridge m_T + E[T l'(r)]) / D,   F2 = (V^{-1} m_S/alpha + E[S l'(r)]) / D,   F3 = E[l'(r)] / D
    F4 = V^{1/2} alpha (ridge + C) V^{1/2} - 1,     C = E[K l''/(1 + tr(K V) l'')]
    F5 = Q^{-1/2} alpha V B V Q^{-1/2} - 1,         B = E[K l'(r)^2],     D^2 = tr(B)/H

with Cholesky factors for the roots. For H = 1 these are the equations of `theory.equations`.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtr

from ..jax_losses import traceable
from ..laws.heads import FIRST_POINTS, MAXIMUM_POINTS, HeadNodes, HeadsLaw
from ..losses import Loss, get_loss
from .equations import STRATA, prox_averages
from .errors import AccuracyError, ConvergenceError

TOLERANCE = 1e-8
# Residual with which the walk down the ridge goes on: the next start need not be exact.
_ON_THE_WAY = 1e-3


def _triangle(entries, size: int):
    """The lower triangular matrix with these entries, row by row; its diagonal is given by logarithms."""
    rows, columns = np.tril_indices(size)
    matrix = jnp.zeros((size, size)).at[rows, columns].set(entries)
    return jnp.where(np.eye(size, dtype=bool), jnp.exp(matrix), matrix)


class _Unknowns(NamedTuple):
    """The unknowns by name; `factor_V` and `factor_Q` are Cholesky factors."""

    m_T: Any
    m_S: Any
    b: Any
    factor_V: Any
    factor_Q: Any

    @property
    def V(self):
        return self.factor_V @ self.factor_V.T

    @property
    def Q(self):
        return self.factor_Q @ self.factor_Q.T


def _unpack(x, nodes: HeadNodes) -> _Unknowns:
    """The flat unknowns by name."""
    heads, D, E = nodes.K.shape[-1], nodes.T.shape[-1], nodes.S.shape[-1]
    half = heads * (heads + 1) // 2
    m_T, m_S, b, v, q = jnp.split(x, np.cumsum([heads * D, heads * E, 1, half]))
    return _Unknowns(m_T.reshape(heads, D), m_S.reshape(heads, E), b[0], _triangle(v, heads), _triangle(q, heads))


def _fields(x, nodes: HeadNodes):
    """Mean and deviation of h at each node, and the prox step tr(K V)."""
    u = _unpack(x, nodes)
    mean = (nodes.T * u.m_T).sum((-2, -1)) + (nodes.S * u.m_S).sum((-2, -1)) + u.b
    spread = u.Q + u.m_S @ u.m_S.T
    return mean, jnp.sqrt((nodes.K * spread).sum((-2, -1))), (nodes.K * u.V).sum((-2, -1))


def _moments(loss: Loss, x, nodes: HeadNodes):
    """E[T l'], E[S l'], E[l'], C, B and E[l(r)] of each replicate."""
    mean, deviation, step = _fields(x, nodes)
    place = jnp.arange(STRATA).reshape(STRATA, 1, 1)
    zeta = jax.scipy.special.ndtri((place + nodes.offset) / STRATA)
    first, second, third, value = prox_averages(
        loss, mean, deviation, step, nodes.y, zeta, jnp.full(zeta.shape, 1.0 / STRATA)
    )

    def over(values, matrices):
        return jnp.einsum("bn,bnij->bij", nodes.weight * values, matrices)

    # By Stein's lemma E[l''/(1 + tr(K V) l'')] = E[zeta l'(r)]/deviation at each node.
    return (
        over(first, nodes.T),
        over(first, nodes.S),
        (nodes.weight * first).sum(-1),
        over(second / deviation, nodes.K),
        over(third, nodes.K),
        (nodes.weight * value).sum(-1),
    )


def _equations(x, moments, alpha, ridge, nodes: HeadNodes):
    """F of the module's text, flat, from the moments of one replicate or their mean."""
    pull_T, pull_S, level, C, B, _ = moments
    u, heads = _unpack(x, nodes), len(C)
    scale = jnp.sqrt(jnp.trace(B) / heads)
    rows, columns = np.tril_indices(heads)
    unit = jnp.eye(heads)
    solve = partial(jax.scipy.linalg.solve_triangular, lower=True)
    signal = solve(u.factor_V, solve(u.factor_V, u.m_S), trans=1) / alpha
    response = u.factor_V.T @ (alpha * (ridge * unit + C)) @ u.factor_V - unit
    overlaps = solve(u.factor_Q, solve(u.factor_Q, alpha * u.V @ B @ u.V).T) - unit
    return jnp.concatenate(
        [
            ((ridge * u.m_T + pull_T) / scale).ravel(),
            ((signal + pull_S) / scale).ravel(),
            (level / scale)[None],
            response[rows, columns],
            overlaps[rows, columns],
        ]
    )


@partial(jax.jit, static_argnums=0)
def _evaluate(loss: Loss, x, alpha, ridge, nodes: HeadNodes):
    """F, its Jacobian (the training loss's derivatives as the last row), F and training loss of each replicate."""

    def both(x):
        moments = _moments(loss, x, nodes)
        pooled = tuple(v.mean(0) for v in moments)
        return jnp.append(_equations(x, pooled, alpha, ridge, nodes), pooled[5]), moments

    value, moments = both(x)
    # Tangents a few at a time: all at once would need as many copies of the nodes as there are unknowns.
    columns = jax.lax.map(lambda v: jax.jvp(lambda x: both(x)[0], (x,), (v,))[1], jnp.eye(len(x)), batch_size=8)
    each = jax.vmap(lambda *one: _equations(x, one, alpha, ridge, nodes))(*moments)
    return value[:-1], columns.T, each, moments[5]


def _newton(loss: Loss, x, alpha: float, ridge: float, nodes: HeadNodes, aim: float, most: int = 80):
    """Newton's method with step reduction on ||F||, until the largest entry of F is below `aim` or no step reduces it."""
    F, J, each, train = map(np.asarray, _evaluate(loss, x, alpha, ridge, nodes))
    length, spent = 1.0, 1
    while np.abs(F).max() > aim and spent < most and length > 1e-5:
        try:
            direction = np.linalg.solve(J[:-1], -F)
        except np.linalg.LinAlgError:
            break
        longest = np.abs(direction[-nodes.K.shape[-1] * (nodes.K.shape[-1] + 1) :]).max()
        direction /= max(1.0, longest / 2.0)  # logarithms move by at most 2
        new = tuple(map(np.asarray, _evaluate(loss, x + length * direction, alpha, ridge, nodes)))
        spent += 1
        if np.isfinite(new[0]).all() and np.linalg.norm(new[0]) < (1 - 1e-4 * length) * np.linalg.norm(F):
            x = x + length * direction
            F, J, each, train = new
            length = min(1.0, 4.0 * length)
        else:
            length *= 0.25
    return x, F, J, each, train, spent


def _first_guess(loss: Loss, alpha: float, ridge: float, nodes: HeadNodes) -> np.ndarray:
    """A start for a large ridge, where w is nearly zero: the bias of the class shares, V and Q from their equations there."""
    heads = nodes.K.shape[-1]
    weight = np.asarray(nodes.weight).mean(0)
    y = np.asarray(nodes.y)[0]
    share = np.array([weight[y > 0].sum(), weight[y < 0].sum()])
    labels = np.array([1.0, -1.0])
    low, high = -20.0, 20.0
    for _ in range(60):
        b = 0.5 * (low + high)
        low, high = (b, high) if float(share @ loss.slope(np.full(2, b), labels)) < 0 else (low, b)
    mean_K = np.einsum("bn,bnij->ij", np.asarray(nodes.weight), np.asarray(nodes.K)) / len(nodes.K)
    curvature = max(float(share @ loss.curvature(np.full(2, b), labels)), 1e-3)
    slope2 = max(float(share @ loss.slope(np.full(2, b), labels) ** 2), 1e-6)
    V = np.linalg.inv(ridge * np.eye(heads) + curvature * mean_K) / alpha
    Q = alpha * slope2 * V @ mean_K @ V
    rows, columns = np.tril_indices(heads)
    parts = [np.zeros(heads * (nodes.T.shape[-1] + nodes.S.shape[-1])), [b]]
    for matrix in (V, Q + 1e-9 * np.trace(Q) * np.eye(heads)):
        factor = np.linalg.cholesky(matrix)
        factor[np.diag_indices(heads)] = np.log(np.diag(factor))
        parts.append(factor[rows, columns])
    return np.concatenate(parts)


def _solve(loss: Loss, alpha: float, ridge: float, nodes: HeadNodes, start: np.ndarray | None):
    """The fixed point on given draws: from `start` if that works, else down from a large ridge in shrinking steps."""
    if start is not None:
        found = _newton(loss, start, alpha, ridge, nodes, 0.3 * TOLERANCE)
        if np.abs(found[1]).max() <= TOLERANCE:
            return found
    current, factor = max(ridge, 1.0), 0.1
    found = _newton(loss, _first_guess(loss, alpha, current, nodes), alpha, current, nodes, 0.3 * TOLERANCE)
    while np.abs(found[1]).max() <= _ON_THE_WAY and current > ridge:
        target = max(current * factor, ridge)
        last = target == ridge
        attempt = _newton(loss, found[0], alpha, target, nodes, 0.3 * TOLERANCE if last else _ON_THE_WAY)
        if np.abs(attempt[1]).max() <= (TOLERANCE if last else _ON_THE_WAY):
            found, current = attempt, target
            continue
        factor = np.sqrt(factor)
        if factor > 0.97:
            break
    if current != ridge or not np.abs(found[1]).max() <= TOLERANCE:
        raise ConvergenceError(
            f"no fixed point of the heads' readout at alpha={alpha:g}, ridge={ridge:g}, loss {loss.name}: stopped at ridge "
            f"{current:.3g} with residual {np.abs(found[1]).max():.1e}"
        )
    return found

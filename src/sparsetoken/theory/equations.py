"""The equations of the fixed point of ridge-regularised convex ERM on a law of (T, S, kappa): residual and Jacobian.

Objective at finite size: (1/n) sum_i l(<w, f_i> + b; y_i) + (ridge/2) ||w||^2, bias unpenalised, alpha = n/dimension.
Unknowns x = (m_q, m_u, log nu, b, log V): overlaps of w with qhat and u, norm of the rest, bias, and the step V of the prox.
With h = m_q T + m_u S + b + kappa sqrt(m_u^2 + nu^2) G and r the prox of h, r + V kappa^2 l'(r; y) = h:

    F1 = (ridge m_q + E[T l'(r)]) / D            D = sqrt(E[kappa^2 l'(r)^2])
    F2 = (m_u/(alpha V) + E[S l'(r)]) / D
    F3 = E[l'(r)] / D
    F4 = alpha V (ridge + E[kappa^2 l''/(1 + V kappa^2 l'')]) - 1
    F5 = log nu^2 - log(alpha V^2 E[kappa^2 l'(r)^2])

Inside a node h is Gaussian with mean m and deviation s, so by Stein's lemma the curvature average of F4 is E[zeta l'(r)]/s
with zeta the standardised h: only l' is needed, which keeps losses with kinks accurate. The Jacobian is exact, from
averages of g = l''/(1 + V kappa^2 l'') at the same points.

Two things happen here: averages over the nodes (JAX, the costly part) become the moments of the equations, and the algebra on
the five unknowns turns moments into F and its Jacobian (`solution_at`; NumPy or JAX, whichever the moments are).
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.scipy.special
import numpy as np
import scipy.special

from .._core.arrays import namespace
from ..laws.nodes import Nodes
from ..losses import Loss

TOLERANCE = 1e-8  # on the largest entry of the undamped, scaled residual
AIM = 3e-9  # what Newton's method tries for: a little better than the tolerance
MOMENTS = 6  # averages behind the equations; the training loss is the last of them
STRATA = 5  # equally likely strata of the readout noise at a drawn node
COARSE_GRID, FINE_GRID = 27, 1601  # points of the trapezoidal rule at the node of a quadrature law
_HALF_RANGE = 6.5  # of the trapezoidal rule: the normal law has 8e-11 beyond
_EVALUATIONS = 1 << 17  # nodes times points of the trapezoidal rule, where that lies between the two grids
_MOVED = 1e-3  # relative distance of h and r from which (h - r)/step is the more accurate form of l'(r)


def grid_size(nodes: Nodes) -> int:
    """Number of quadrature points over the readout noise at each node.

    Nodes of one replicate are a quadrature rule themselves and get a trapezoidal one, finer the fewer they are. Drawn nodes
    (several replicates) get few equally likely strata, shifted by a random offset at each node: unbiased, and averaged out
    over the nodes; their scatter is part of the standard error.
    """
    replicates, count = nodes.T.shape[-2:]
    if replicates > 1:
        return STRATA
    return int(np.clip(_EVALUATIONS // count, COARSE_GRID, FINE_GRID))


def quadrature(nodes: Nodes, size: int):
    """Standard normal points and their weights over the readout noise, shifted by the nodes' offsets.

    Parameters
    ----------
    nodes : Nodes
        The law's nodes.
    size : int
        Points per node, from `grid_size`.

    Returns
    -------
    tuple of arrays (size, replicates, nodes)
        zeta and weights. The quadrature comes first in the shape, so that sums over it add long rows.
    """
    offset = nodes.offset
    xp = namespace(offset)
    place = np.arange(size).reshape(size, *[1] * offset.ndim)
    if size <= STRATA:
        zeta = (scipy.special if xp is np else jax.scipy.special).ndtri((place + offset) / size)
        return zeta, xp.full(zeta.shape, 1.0 / size)
    step = 2 * _HALF_RANGE / size
    zeta = -_HALF_RANGE + step * (place + offset)
    w = xp.exp(-0.5 * zeta**2)
    return zeta, w / w.sum(0)


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def prox_averages(loss: Loss, mean, deviation, step, y, zeta, w):
    """E[l'(r)], E[zeta l'(r)], E[l'(r)^2], E[l(r)] at each node: h = mean + deviation zeta, r its prox with `step`.

    Parameters
    ----------
    loss : Loss
        l, traceable by JAX.
    mean, deviation, step, y : array (replicates, nodes)
        Mean and deviation of h, step V kappa^2 of the prox, label.
    zeta, w : array (points, replicates, nodes)
        The quadrature over h.

    Returns
    -------
    tuple of arrays (replicates, nodes)
    """
    slope, r, y = _prox_on_grid(loss, mean, deviation, step, y, zeta)
    return _averages(w, zeta, slope, loss.value(r, y))


def _prox_on_grid(loss, mean, deviation, step, y, zeta):
    y = jnp.broadcast_to(y, zeta.shape)
    h = mean + deviation * zeta
    r = loss.prox(h, step, y)
    # l'(r) = (h - r)/step by definition; that form keeps its digits where l' is tiny because the step is huge, the loss's
    # own slope where h - r is tiny.
    moved = jnp.abs(h - r) > _MOVED * (jnp.abs(h) + jnp.abs(r))
    slope = jnp.where(moved, (h - r) / step, loss.slope(r, y))
    return slope, r, y


def _averages(w, zeta, slope, value):
    return tuple(_over_grid(w * v) for v in (slope, zeta * slope, slope * slope, value))


def _over_grid(values):
    """Sum over the quadrature. A short sum is written out: XLA does not vectorise what it fuses into a reduction."""
    if values.shape[0] > STRATA:
        return values.sum(0)
    return sum(values[1:], start=values[0])


def _computed_once(*arrays):
    """The arrays themselves, behind a loop that never runs: XLA would otherwise compute them anew in every sum that uses
    them (its own barrier is dropped before fusion on the CPU). Measured: four times faster evaluations."""

    def never(state):
        done, first, *_ = state
        return ~done & jnp.isnan(first.ravel()[0])

    return jax.lax.while_loop(never, lambda state: (jnp.asarray(True), *state[1:]), (jnp.asarray(False), *arrays))[1:]


def averages_with_slopes(loss: Loss, mean, deviation, step, y, zeta, w):
    """The four averages of `prox_averages` at each node, and their derivatives in (mean, deviation, step), four triples.

    Parameters
    ----------
    loss : Loss
        l, traceable by JAX.
    mean, deviation, step, y : array (replicates, nodes)
        As in `prox_averages`.
    zeta, w : array (points, replicates, nodes)
        The quadrature over h.

    Returns
    -------
    tuple
        Four averages, and four triples of derivatives.
    """
    slope, r, y = _prox_on_grid(loss, mean, deviation, step, y, zeta)
    curvature = loss.curvature(r, y)
    # dr = (dh - l' dstep)/(1 + step l''), hence dl' = g (dh - l' dstep) with g = l''/(1 + step l'')
    shrink = w / (1.0 + step * curvature)
    slope, g, q, value = _computed_once(slope, shrink * curvature, shrink * slope, loss.value(r, y))
    slopes = [
        (_over_grid(p), _over_grid(p * zeta), -_over_grid(p * slope))
        for p in (g, g * zeta, 2.0 * g * slope, q)  # derivative in h, weight included, of each average's integrand
    ]
    return _averages(w, zeta, slope, value), slopes


@prox_averages.defjvp
def _prox_averages_jvp(loss, primals, tangents):
    out, slopes = averages_with_slopes(loss, *primals)
    return out, tuple(sum(s * d for s, d in zip(triple, tangents[:3])) for triple in slopes)


def field_of_nodes(x, nodes: Nodes):
    """Mean and deviation of h at each node, and the prox step V kappa^2."""
    m_q, m_u, log_nu, b, log_V = x
    mean = m_q * nodes.T + m_u * nodes.S + b
    deviation = jnp.sqrt(m_q**2 * nodes.tau**2 + nodes.kappa**2 * (m_u**2 + jnp.exp(2 * log_nu)))
    return mean, deviation, jnp.exp(log_V) * nodes.kappa**2


def moments(loss: Loss, x, nodes: Nodes, grid):
    """The averages behind the equations, for each replicate.

    Parameters
    ----------
    loss : Loss
        l, traceable by JAX.
    x : array (5,)
        The unknowns.
    nodes : Nodes
        The law's nodes.
    grid : tuple of arrays
        Their `quadrature`.

    Returns
    -------
    array (replicates, 6)
        E[T l'], E[S l'], E[l'], E[kappa^2 l''/(1 + V kappa^2 l'')], E[kappa^2 l'^2], and E[l(r)].
    """
    mean, deviation, step = field_of_nodes(x, nodes)
    averages = prox_averages(loss, mean, deviation, step, nodes.y, *grid)
    return _weighted(_moments_at_nodes(averages, x[0], deviation, nodes), nodes)


def _weighted(per_node, nodes: Nodes):
    return jnp.stack([(nodes.weight * v).sum(-1) for v in per_node], axis=-1)


def _moments_at_nodes(averages, m_q, deviation, nodes: Nodes):
    first, second, third, value = averages
    stein = second / deviation
    return (
        nodes.T * first + m_q * nodes.tau**2 * stein,
        nodes.S * first,
        first,
        nodes.kappa**2 * stein,
        nodes.kappa**2 * third,
        value,
    )


def moments_with_jacobian(loss: Loss, x, nodes: Nodes, grid):
    """`moments` and the Jacobian of their mean over replicates.

    By the chain rule through (mean, deviation, step) of h; written as three matrix products, which is several times
    faster than letting JAX push five tangents through.

    Parameters
    ----------
    loss : Loss
        l, traceable by JAX.
    x : array (5,)
        The unknowns.
    nodes : Nodes
        The law's nodes.
    grid : tuple of arrays
        Their `quadrature`.

    Returns
    -------
    tuple of arrays
        Moments (replicates, 6), and derivatives (6, 5).
    """
    m_q, m_u, log_nu, _, _ = x
    mean, deviation, step = field_of_nodes(x, nodes)
    averages, slopes = averages_with_slopes(loss, mean, deviation, step, nodes.y, *grid)
    T, S, kappa2, tau2 = nodes.T, nodes.S, nodes.kappa**2, nodes.tau**2
    weight = nodes.weight / nodes.T.shape[-2]
    first, second, third, value = slopes

    def chain(i, correction=0.0):
        """Weighted derivatives of the six moments in the i-th of (mean, deviation, step), as rows."""
        stein = second[i] / deviation + correction
        rows = (
            T * first[i] + m_q * tau2 * stein,
            S * first[i],
            first[i],
            kappa2 * stein,
            kappa2 * third[i],
            value[i],
        )
        return jnp.stack([weight * v for v in rows]).reshape(MOMENTS, -1)

    def columns(*arrays):
        return jnp.stack([jnp.broadcast_to(a, T.shape) for a in arrays]).reshape(len(arrays), -1).T

    by_mean = chain(0) @ columns(T, S, 1.0)
    # E[zeta l']/deviation depends on the deviation explicitly as well
    by_deviation = chain(1, -averages[1] / deviation**2) @ columns(
        m_q * tau2 / deviation, kappa2 * m_u / deviation, kappa2 * jnp.exp(2 * log_nu) / deviation
    )
    by_step = chain(2) @ columns(step)
    J = jnp.stack(
        [
            by_mean[:, 0] + by_deviation[:, 0],
            by_mean[:, 1] + by_deviation[:, 1],
            by_deviation[:, 2],
            by_mean[:, 2],
            by_step[:, 0],
        ],
        axis=1,
    )
    J = J.at[0, 0].add((weight * tau2 * averages[1] / deviation).sum())
    per_node = _computed_once(*_moments_at_nodes(averages, m_q, deviation, nodes))
    return _weighted(per_node, nodes), J


class Solution(NamedTuple):
    """A point x of the unknowns with all that Newton's method and the error bars need of it.

    Attributes
    ----------
    x : array (unknowns,)
        The unknowns: (m_q, m_u, log nu, b, log V) here, others for several heads and in coloured noise.
    F : array (unknowns,)
        Scaled residual at x.
    J : array (unknowns + 1, unknowns)
        Derivatives of F and, in the last row, of the training loss.
    replicate_F : array (replicates, unknowns)
        Residual of each replicate by itself at x.
    replicate_loss : array (replicates,)
        Training loss E[l(r)] of each replicate at x.
    iterations : int
        Evaluations that Newton's method took.
    """

    x: Any
    F: Any
    J: Any
    replicate_F: Any
    replicate_loss: Any
    iterations: Any

    @property
    def residual(self) -> float:
        """The largest entry of the scaled residual, which is what convergence is judged by."""
        return float(np.abs(np.asarray(self.F)).max())


def residual(x, averages, alpha, ridge):
    """The scaled residual F of the module's text.

    Parameters
    ----------
    x : array (5,)
        The unknowns.
    averages : array (6, ...)
        The moments of `moments`, one or several sets of them (NumPy or JAX).
    alpha, ridge : float
        n/dimension and lambda.

    Returns
    -------
    array (5, ...)
    """
    xp = namespace(x, averages, alpha, ridge)
    m_q, m_u, log_nu, _, log_V = x
    V = xp.exp(log_V)
    D = xp.sqrt(averages[4])
    return xp.stack(
        [
            (ridge * m_q + averages[0]) / D,
            (m_u / (alpha * V) + averages[1]) / D,
            averages[2] / D,
            alpha * V * (ridge + averages[3]) - 1.0,
            2.0 * log_nu - xp.log(alpha * averages[4]) - 2.0 * log_V,
        ]
    )


def _residual_derivatives(x, averages, F, alpha, ridge):
    """Derivatives of F and, as sixth function, of the training loss: (6, 5) in x at fixed averages, (6, 6) in them."""
    xp = namespace(x, averages, alpha, ridge)
    _, m_u, _, _, log_V = x
    V = xp.exp(log_V)
    D, square = xp.sqrt(averages[4]), averages[4]
    pull = m_u / (alpha * V)
    explicit = [
        [ridge / D, 0.0, 0.0, 0.0, 0.0],
        [0.0, 1.0 / (alpha * V * D), 0.0, 0.0, -pull / D],
        [0.0, 0.0, 0.0, 0.0, 0.0],
        [0.0, 0.0, 0.0, 0.0, F[3] + 1.0],
        [0.0, 0.0, 2.0, 0.0, -2.0],
        [0.0, 0.0, 0.0, 0.0, 0.0],
    ]
    through = [
        [1.0 / D, 0.0, 0.0, 0.0, -0.5 * F[0] / square, 0.0],
        [0.0, 1.0 / D, 0.0, 0.0, -0.5 * F[1] / square, 0.0],
        [0.0, 0.0, 1.0 / D, 0.0, -0.5 * F[2] / square, 0.0],
        [0.0, 0.0, 0.0, alpha * V, 0.0, 0.0],
        [0.0, 0.0, 0.0, 0.0, -1.0 / square, 0.0],
        [0.0, 0.0, 0.0, 0.0, 0.0, 1.0],
    ]
    return xp.array(explicit), xp.array(through)


def solution_at(x, averages, slopes, alpha, ridge) -> Solution:
    """F, its Jacobian and the replicates' own residuals at x, from the moments there.

    Parameters
    ----------
    x : array (5,)
        The unknowns.
    averages, slopes : array (replicates, 6), array (6, 5)
        The result of `moments_with_jacobian`.
    alpha, ridge : float
        n/dimension and lambda.

    Returns
    -------
    Solution
        With no iterations counted yet.
    """
    pooled = averages.mean(0)
    F = residual(x, pooled, alpha, ridge)
    explicit, through = _residual_derivatives(x, pooled, F, alpha, ridge)
    each = residual(x, averages.T, alpha, ridge).T
    return Solution(x, F, explicit + through @ slopes, each, averages[:, 5], 0)

"""The fixed point of ridge-regularised convex ERM on a law of (T, S, kappa), and Newton's method for it.

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
_HALF_RANGE = 6.5
_EVALUATIONS = 1 << 17
STRATA, COARSE_GRID, FINE_GRID = 5, 27, 1601


def grid_size(nodes: Nodes) -> int:
    """Quadrature points over the readout noise at each node.

    Nodes of one replicate are a quadrature rule themselves and get a trapezoidal one, finer the fewer they are. Drawn nodes
    (several replicates) get few equally likely strata, shifted by a random offset at each node: unbiased, and averaged out
    over the nodes; their scatter is part of the standard error.
    """
    replicates, count = nodes.T.shape[-2:]
    if replicates > 1:
        return STRATA
    return int(np.clip(_EVALUATIONS // count, COARSE_GRID, FINE_GRID))


def quadrature(nodes: Nodes, size: int):
    """Standard normal points zeta and weights (size, replicates, nodes), shifted by the nodes' offsets.

    The quadrature comes first in the shape, so that sums over it add long rows.
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
    """E[l'(r)], E[zeta l'(r)], E[l'(r)^2], E[l(r)] at each node: h = mean + deviation zeta, r its prox with `step`."""
    slope, r, y = _prox_on_grid(loss, mean, deviation, step, y, zeta)
    return _averages(w, zeta, slope, loss.value(r, y))


def _prox_on_grid(loss, mean, deviation, step, y, zeta):
    y = jnp.broadcast_to(y, zeta.shape)
    h = mean + deviation * zeta
    r = loss.prox(h, step, y)
    # l'(r) = (h - r)/step by definition; that form keeps its digits where l' is tiny because the step is huge, the loss's
    # own slope where h - r is tiny.
    moved = jnp.abs(h - r) > 1e-3 * (jnp.abs(h) + jnp.abs(r))
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
    """The four averages of `prox_averages` at each node, and their derivatives in (mean, deviation, step), four triples."""
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
    """Averages for each replicate, (replicates, 6):
    E[T l'], E[S l'], E[l'], E[kappa^2 l''/(1 + V kappa^2 l'')], E[kappa^2 l'^2] of the equations, and E[l(r)]."""
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
    """`moments` and the Jacobian (6, 5) of their mean over replicates.

    By the chain rule through (mean, deviation, step) of h; written as three matrix products, which is several times
    faster than letting JAX push five tangents through.
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
        return jnp.stack([weight * v for v in rows]).reshape(6, -1)

    columns = lambda *arrays: jnp.stack([jnp.broadcast_to(a, T.shape) for a in arrays]).reshape(len(arrays), -1).T  # noqa: E731
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


def residual_of_moments(x, averages, alpha, ridge):
    """The scaled residual F of the module's text, from averages (..., 5)."""
    m_q, m_u, log_nu, _, log_V = x
    V = jnp.exp(log_V)
    D = jnp.sqrt(averages[..., 4])
    return jnp.stack(
        [
            (ridge * m_q + averages[..., 0]) / D,
            (m_u / (alpha * V) + averages[..., 1]) / D,
            averages[..., 2] / D,
            alpha * V * (ridge + averages[..., 3]) - 1.0,
            2.0 * log_nu - jnp.log(alpha * averages[..., 4]) - 2.0 * log_V,
        ],
        axis=-1,
    )


class Solution(NamedTuple):
    """Where Newton's method ended: x, the residual F there, its Jacobian, and what error bars need."""

    x: Any
    F: Any  # (5,) scaled residual at x
    J: Any  # (6, 5) derivatives of F and, in the last row, of the training loss
    replicate_F: Any  # (replicates, 5) residual of each replicate by itself at x
    replicate_loss: Any  # (replicates,) training loss E[l(r)] of each replicate at x
    iterations: Any


def evaluate(loss: Loss, x, alpha, ridge, nodes: Nodes, grid):
    """F, J and the replicates' own residuals and training losses at x (see `Solution`)."""

    averages, slopes = moments_with_jacobian(loss, x, nodes, grid)
    pooled = averages.mean(0)

    def equations(x, pooled):
        return jnp.append(residual_of_moments(x, pooled, alpha, ridge), pooled[5])

    F = equations(x, pooled)[:5]
    explicit, through = jax.jacfwd(equations, argnums=(0, 1))(x, pooled)
    each = residual_of_moments(x, averages, alpha, ridge)
    return Solution(x, F, explicit + through @ slopes, each, averages[:, 5], 0)


LONGEST = np.array([np.inf, np.inf, 2.0, np.inf, 2.0])  # longest step of the log unknowns


def _direction(F, J):
    d = jnp.linalg.solve(J[:5], -F)
    return d / jnp.maximum(1.0, jnp.max(jnp.abs(d) / LONGEST))


def newton(loss: Loss, size: int, x0, alpha, ridge, nodes: Nodes, aim=AIM, max_iterations: int = 60) -> Solution:
    """Newton's method with step reduction on ||F||, until the largest entry of F is below `aim`.

    Traceable and batchable, for derivatives and batches; one evaluation of (F, J) an iteration. A single solve goes by
    `theory.newton`, which does the same steps.
    """
    replicates = nodes.T.shape[-2]
    grid = quadrature(nodes, size)

    def norm(F):
        return jnp.sqrt((F**2).sum())

    def unfinished(state):
        best, _, step = state
        return (jnp.abs(best.F).max() > aim) & (best.iterations < max_iterations) & (step > 1e-5)

    def body(state):
        best, direction, step = state
        trial = evaluate(loss, best.x + step * direction, alpha, ridge, nodes, grid)
        sound = jnp.isfinite(trial.F).all() & jnp.isfinite(trial.J).all()
        better = sound & (norm(trial.F) < (1 - 1e-4 * step) * norm(best.F))
        chosen = Solution(*(jnp.where(better, new, old) for new, old in zip(trial, best)))
        chosen = chosen._replace(iterations=best.iterations + 1)
        direction = jnp.where(better, _direction(trial.F, trial.J), direction)
        return chosen, direction, jnp.where(better, jnp.minimum(1.0, 4.0 * step), 0.25 * step)

    # The first pass evaluates x0 itself (direction zero against an infinite residual), so that the loop's body is the
    # only copy of the evaluation that is compiled.
    far = jnp.full(5, 1e150)
    nothing = Solution(x0, far, jnp.eye(6, 5), jnp.zeros((replicates, 5)), jnp.zeros(replicates), jnp.asarray(0))
    return jax.lax.while_loop(unfinished, body, (nothing, jnp.zeros(5), jnp.asarray(1.0)))[0]

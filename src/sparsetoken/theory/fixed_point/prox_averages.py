"""What every fixed point of a convex readout is made of: averages over the nodes of a law, and their derivatives.

A node of a law has columns A (p numbers) and overlaps K (q numbers). There the score is h = <m, A> + sqrt(<Q, K>) G with G a
standard normal, and its prox is r + <V, K> l'(r; y) = h. The equations of a law, whatever they are, are made of the moments

    E[A l'(r)] (p),   C = E[K l''/(1 + <V, K> l'')] (q),   B = E[K l'(r)^2] (q),   E[l(r)]

and their Jacobian follows by the chain rule from the derivatives of the moments in (m, Q, V), which are matrix products over
the nodes. By Stein's lemma E[l''/(1 + <V, K> l'')] = E[zeta l'(r)]/deviation with zeta the standardised h: only l' is needed,
which keeps losses with kinks accurate.

A kind of law (`plain`, `heads`, `coloured`) adds how (m, Q, V) follow from its unknowns x, and its residual F(x, moments).
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import ndtri

from ...losses import Loss

TOLERANCE = 1e-8  # on the largest entry of the undamped, scaled residual
SAME = 1e-9  # relative difference below which a user's numbers (cosines, directions, alpha and 1) count as equal
LARGEST_RESIDUAL = 1e-6  # that is accepted where rounding ends a search before the tolerance
STRATA = 5  # equally likely strata of the readout noise at a drawn node
# Nodes per block and replicate: with 16 replicates and 5 strata, arrays of 330 kB, which stay in the processor's cache.
BLOCK = 512


class ScoreNodes(NamedTuple):
    """Nodes of a law in replicates: y and weight (B, N), columns (p, B, N), overlaps (q, B, N), and at each node the
    quadrature of the readout noise, points zeta and shares (g, B, N)."""

    y: Any
    columns: Any
    overlaps: Any
    weight: Any
    zeta: Any
    share: Any


class Equations(Protocol):
    """The unknowns and equations of a kind of law; hashable, so that its compiled functions are reused."""

    @property
    def unknowns(self) -> int:
        """How many there are."""

    @property
    def logarithms(self) -> tuple[int, ...]:
        """Which unknowns are logarithms."""

    def fields(self, x: Any) -> tuple[Any, Any, Any]:
        """(m, Q, V)."""

    def residual(self, x: Any, moments: Any, constants: Any) -> Any:
        """The scaled residual F from one set of moments; `constants` begin with n/dimension (or n) and the ridge."""


class Iterate(NamedTuple):
    """The equations at a point x of the unknowns; `J` is the Jacobian of F, then the training loss's derivatives."""

    x: np.ndarray
    F: np.ndarray
    J: np.ndarray
    replicate_F: np.ndarray
    replicate_loss: np.ndarray

    @property
    def residual(self) -> float:
        """The largest entry of the scaled residual."""
        return float(np.abs(self.F).max())

    @property
    def converged(self) -> bool:
        """Whether the residual is within the tolerance; False for NaN."""
        return self.residual <= TOLERANCE


def quadrature(offset: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Standard normal points and their shares over the readout noise at nodes (B, N), shifted by the nodes' offsets.

    Nodes of one replicate, a quadrature rule, get a trapezoidal one, finer the fewer they are; drawn nodes few random strata.
    """
    drawn = len(offset) > 1
    size = STRATA if drawn else int(np.clip((1 << 17) // offset.shape[-1], 27, 1601))
    place = np.arange(size).reshape(size, 1, 1)
    if drawn:
        zeta = ndtri((place + offset) / size)
        return zeta, np.full(zeta.shape, 1.0 / size)
    reach = 6.5  # the normal law has 8e-11 beyond
    zeta = -reach + 2 * reach / size * (place + offset)
    share = np.exp(-0.5 * zeta**2)
    return zeta, share / share.sum(0)


def blocks_of(
    y: np.ndarray, columns: np.ndarray, overlaps: np.ndarray, weight: np.ndarray, offset: np.ndarray
) -> tuple[ScoreNodes, ...]:
    """The nodes in blocks of equal size, which need one compiled program for all levels, on JAX's device; those of one
    replicate are one block."""
    nodes = ScoreNodes(y, columns, overlaps, weight, *quadrature(offset))
    count = y.shape[1]
    if len(y) == 1:
        return (jax.device_put(nodes),)
    size = min(BLOCK, 1 << (count - 1).bit_length())
    short = -count % size
    if short:  # repeat the last node, with weight zero
        nodes = ScoreNodes(*(np.concatenate([v, np.repeat(v[..., -1:], short, axis=-1)], axis=-1) for v in nodes))
        nodes.weight[:, count:] = 0.0
    firsts = range(0, count + short, size)
    return tuple(jax.device_put(ScoreNodes(*(v[..., i : i + size] for v in nodes))) for i in firsts)


def evaluate(equations: Equations, loss: Loss, x: np.ndarray, blocks: tuple[ScoreNodes, ...], constants) -> Iterate:
    """The equations at x, from sums over the blocks."""
    pending = [_block_moments(equations, loss, x, block) for block in blocks]
    averages, slopes = (np.sum([np.asarray(part) for part in parts], axis=0) for parts in zip(*pending))
    F, J, each = map(np.asarray, _assemble(equations, x, averages, slopes, constants))
    return Iterate(x, F, J, each, averages[:, -1])


@partial(jax.jit, static_argnums=(0, 1))
def _block_moments(equations: Equations, loss: Loss, x, nodes: ScoreNodes):
    return moments_with_slopes(loss, equations.fields(x), nodes)


@partial(jax.jit, static_argnums=0)
def _assemble(equations: Equations, x, averages, slopes, constants):
    """F, its Jacobian with the training loss's derivatives as the last row, and F of each replicate."""
    pooled = averages.mean(0)

    def residual(x, averages):
        return equations.residual(x, averages, constants)

    explicit, through = jax.jacfwd(residual, argnums=(0, 1))(x, pooled)
    chain = slopes @ jax.jacfwd(lambda x: jnp.concatenate(equations.fields(x)))(x)
    J = jnp.concatenate([explicit + through @ chain, chain[-1:]])
    return residual(x, pooled), J, jax.vmap(lambda single: residual(x, single))(averages)


def moments(loss: Loss, fields: tuple[Any, Any, Any], nodes: ScoreNodes):
    """The moments of the module's text for each replicate, (B, p + 2 q + 1)."""
    mean, deviation, step = _scores(fields, nodes)
    averages = prox_averages(loss, mean, deviation, step, nodes.y, nodes.zeta, nodes.share)
    return _weighted(_contributions(averages, averages[1] / deviation, nodes), nodes)


def moments_with_slopes(loss: Loss, fields: tuple[Any, Any, Any], nodes: ScoreNodes):
    """`moments`, and the derivatives of their mean over replicates in (m, Q, V): by the chain rule through (mean, deviation,
    step) of h, as three matrix products, several times faster than a tangent for each unknown."""
    mean, deviation, step = _scores(fields, nodes)
    averages, slopes = _averages_with_slopes(loss, mean, deviation, step, nodes.y, nodes.zeta, nodes.share)
    weight = nodes.weight / nodes.weight.shape[0]

    def derivatives(i, through, correction=0.0):
        """Derivatives in parameters that the i-th of (mean, deviation, step) depends on through the rows `through`."""
        triple = tuple(slope[i] for slope in slopes)
        rows = weight * _contributions(triple, triple[1] / deviation + correction, nodes)
        return rows.reshape(len(rows), -1) @ through.reshape(len(through), -1).T

    by = [
        derivatives(0, nodes.columns),
        # E[zeta l']/deviation depends on the deviation explicitly as well
        derivatives(1, nodes.overlaps / (2.0 * deviation), -averages[1] / deviation**2),
        derivatives(2, nodes.overlaps),
    ]
    contributions = _computed_once(_contributions(averages, averages[1] / deviation, nodes))[0]
    return _weighted(contributions, nodes), jnp.concatenate(by, axis=1)


def _scores(fields, nodes: ScoreNodes):
    """Mean and deviation of h at each node, and the prox step."""
    m, Q, V = fields
    mean = jnp.tensordot(m, nodes.columns, 1)
    return mean, jnp.sqrt(jnp.tensordot(Q, nodes.overlaps, 1)), jnp.tensordot(V, nodes.overlaps, 1)


def _contributions(averages, bend, nodes: ScoreNodes):
    """What each node adds to the moments, (p + 2 q + 1, B, N)."""
    first, _, third, value = averages
    A, K = nodes.columns, nodes.overlaps
    return jnp.concatenate([first * A, bend * K, third * K, value[None]])


def _weighted(contributions, nodes: ScoreNodes):
    return (nodes.weight * contributions).sum(-1).T


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def prox_averages(loss: Loss, mean, deviation, step, y, zeta, share):
    """E[l'(r)], E[zeta l'(r)], E[l'(r)^2], E[l(r)] at each node: h = mean + deviation zeta, r its prox with `step`."""
    slope, r, y = _prox_on_grid(loss, mean, deviation, step, y, zeta)
    return _averages(share, zeta, slope, loss.value(r, y))


@prox_averages.defjvp
def _prox_averages_jvp(loss, primals, tangents):
    averages, slopes = _averages_with_slopes(loss, *primals)
    return averages, tuple(sum(s * d for s, d in zip(triple, tangents[:3])) for triple in slopes)


def _prox_on_grid(loss, mean, deviation, step, y, zeta):
    y = jnp.broadcast_to(y, zeta.shape)
    h = mean + deviation * zeta
    r = loss.prox(h, step, y)
    # l'(r) = (h - r)/step by definition; that form keeps its digits where l' is tiny because the step is huge, the loss's
    # own slope where h - r is tiny.
    moved = jnp.abs(h - r) > 1e-3 * (jnp.abs(h) + jnp.abs(r))
    slope = jnp.where(moved, (h - r) / step, loss.slope(r, y))
    return slope, r, y


def _averages_with_slopes(loss: Loss, mean, deviation, step, y, zeta, share):
    """The four averages at each node, and the derivatives of each in (mean, deviation, step)."""
    slope, r, y = _prox_on_grid(loss, mean, deviation, step, y, zeta)
    curvature = loss.curvature(r, y)
    # dr = (dh - l' dstep)/(1 + step l''), hence dl' = g (dh - l' dstep) with g = l''/(1 + step l'')
    shrink = share / (1.0 + step * curvature)
    slope, g, q, value = _computed_once(slope, shrink * curvature, shrink * slope, loss.value(r, y))
    slopes = [
        (_over_grid(p), _over_grid(p * zeta), -_over_grid(p * slope))
        for p in (g, g * zeta, 2.0 * g * slope, q)  # derivative in h, share included, of each average's integrand
    ]
    return _averages(share, zeta, slope, value), slopes


def _averages(share, zeta, slope, value):
    return tuple(_over_grid(share * v) for v in (slope, zeta * slope, slope * slope, value))


def _over_grid(values):
    """Sum over the quadrature. A short sum is written out: XLA does not vectorise what it fuses into a reduction."""
    if values.shape[0] > STRATA:
        return values.sum(0)
    return sum(values[1:], start=values[0])


def _computed_once(*arrays):
    """The arrays themselves, behind a loop that never runs: XLA would otherwise recompute them in every sum that uses
    them (its own barrier is dropped before fusion on the CPU). This makes evaluations four times faster."""

    def never(state):
        done, first, *_ = state
        return ~done & jnp.isnan(first.ravel()[0])

    return jax.lax.while_loop(never, lambda state: (jnp.asarray(True), *state[1:]), (jnp.asarray(False), *arrays))[1:]

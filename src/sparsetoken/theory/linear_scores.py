"""Fixed points with any number of unknowns: scores whose mean, variance and prox step are linear in what is unknown.

At a node of the law with columns A (p numbers) and overlaps K (q numbers) the score is h = <m, A> + sqrt(<Q, K>) G and its prox
r + <V, K> l'(r; y) = h. Whatever the equations are, they are made of the moments

    E[A l'(r)] (p),   C = E[K l''/(1 + <V, K> l'')] (q),   B = E[K l'(r)^2] (q),   E[l(r)]

and a Jacobian follows by the chain rule from the derivatives of the moments in (m, Q, V), which are matrix products over the
nodes. The kinds of law (`heads`, `coloured`) add how (m, Q, V) follow from their unknowns x, and their equations.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
import scipy.special

from ..losses import Loss
from .continuation import Problem, solve_problem
from .equations import STRATA, Solution, averages_with_slopes
from .newton import BLOCK, newton

_LONGEST = 2.0  # step of an unknown that is a logarithm: a factor of 7, as in `newton.LONGEST`


class ScoreNodes(NamedTuple):
    """Nodes of a law in replicates.

    Attributes
    ----------
    y, weight, offset : array (replicates, nodes)
        Label, probability (they sum to 1 in each replicate), and shift of the quadrature over the readout noise.
    columns : array (replicates, nodes, p)
        A.
    overlaps : array (replicates, nodes, q)
        K.
    """

    y: Any
    columns: Any
    overlaps: Any
    weight: Any
    offset: Any


class Equations(Protocol):
    """A kind of law's unknowns and equations; hashable, so that what is compiled for it is found again."""

    @property
    def logarithms(self) -> tuple[int, ...]:
        """Which unknowns are logarithms."""

    def fields(self, x: Any) -> Any:
        """(m, Q, V) in one row of p + 2 q numbers."""

    def residual(self, x: Any, moments: Any, ratio: Any, ridge: Any, given: Any) -> Any:
        """The scaled residual F from one set of moments; `ratio` and `given` are what the kind of law needs besides."""


def solve_scores(
    equations: Equations,
    loss: Loss,
    nodes: ScoreNodes,
    ratio: float,
    ridge: float,
    given: Any,
    guess: Any,
    start: np.ndarray | None,
    setting: str,
) -> Solution:
    """The fixed point on given nodes, from `start` if that works, else by walking down the ridge.

    Parameters
    ----------
    equations : Equations
        The unknowns and their equations.
    loss : Loss
        l, traceable by JAX.
    nodes : ScoreNodes
        The law's nodes.
    ratio : float
        What stands for the number of samples in the equations.
    ridge : float
        lambda.
    given : tuple of arrays
        Passed on to the equations.
    guess : callable
        ridge -> x, a start for a large ridge.
    start : array (unknowns,), optional
        A neighbouring problem's fixed point.
    setting : str
        What is solved, for messages.

    Returns
    -------
    Solution
        With a residual within `equations.TOLERANCE`.
    """
    blocks = _blocks(nodes)
    replicates = nodes.y.shape[0]

    def descend(x, here: float, aim: float, evaluations: int) -> Solution:
        x = np.asarray(x, dtype=float)
        longest = np.full(len(x), np.inf)
        longest[list(equations.logarithms)] = _LONGEST

        def evaluate(x):
            return _evaluate(equations, loss, x, blocks, ratio, here, given)

        # Overflow and division by zero leave a residual that is not finite, which no step accepts.
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            return newton(evaluate, x, replicates, aim, evaluations, longest)

    return solve_problem(Problem(descend, guess, setting), ridge, start)


def _blocks(nodes: ScoreNodes) -> list[tuple[ScoreNodes, Any]]:
    """The nodes and their strata in blocks of equal size, so that one program is compiled for all levels of refinement."""
    count = nodes.y.shape[1]
    size = min(BLOCK, count)
    short = -count % size
    if short:  # repeat the last node, with weight zero
        nodes = ScoreNodes(*(np.concatenate([v, np.repeat(v[:, -1:], short, axis=1)], axis=1) for v in nodes))
        nodes.weight[:, count:] = 0.0
    place = np.arange(STRATA).reshape(STRATA, 1, 1)
    parts = []
    for first in range(0, count + short, size):
        block = ScoreNodes(*(v[:, first : first + size] for v in nodes))
        zeta = scipy.special.ndtri((place + block.offset) / STRATA)
        parts.append(jax.device_put((block, zeta)))
    return parts


def _evaluate(equations: Equations, loss: Loss, x: np.ndarray, blocks, ratio, ridge, given) -> Solution:
    fields = _fields_at(equations, x)
    pending = [_block_moments(loss, fields, *block) for block in blocks]
    moments, slopes = (np.sum([np.asarray(part) for part in parts], axis=0) for parts in zip(*pending))
    F, J, each = map(np.asarray, _assemble(equations, x, moments, slopes, ratio, ridge, given))
    return Solution(x, F, J, each, moments[:, -1], 0)


@partial(
    jax.jit, static_argnums=0
)  # as one program: its many small operations, one by one, cost more than a block's moments
def _fields_at(equations: Equations, x):
    return equations.fields(x)


@partial(jax.jit, static_argnums=0)
def _block_moments(loss: Loss, fields, nodes: ScoreNodes, zeta):
    """Moments (replicates, p + 2 q + 1) of a block, and derivatives of their mean over replicates (.., p + 2 q)."""
    A, K = nodes.columns, nodes.overlaps
    p, q = A.shape[-1], K.shape[-1]
    m, spread, V = fields[:p], fields[p : p + q], fields[p + q :]
    deviation = jnp.sqrt(K @ spread)
    w = jnp.full(zeta.shape, 1.0 / zeta.shape[0])
    averages, slopes = averages_with_slopes(loss, A @ m, deviation, K @ V, nodes.y, zeta, w)

    def features(first, second, third, value):
        """What each node adds to the moments."""
        return jnp.concatenate(
            [first[..., None] * A, second[..., None] * K, third[..., None] * K, value[..., None]], axis=-1
        )

    first, second, third, value = averages
    # By Stein's lemma E[l''/(1 + <V, K> l'')] = E[zeta l'(r)]/deviation at each node.
    moments = jnp.einsum("bn,bni->bi", nodes.weight, features(first, second / deviation, third, value))
    weight = nodes.weight / nodes.y.shape[0]

    def derivatives(i, by, correction=0.0):
        """Derivatives of the moments' mean in parameters that the i-th of (mean, deviation, step) depends on through `by`."""
        one, two, three, four = (triple[i] for triple in slopes)
        return jnp.einsum(
            "bni,bnj->ij", features(one, two / deviation + correction, three, four), weight[..., None] * by
        )

    columns = [
        derivatives(0, A),
        derivatives(1, K / (2.0 * deviation)[..., None], -second / deviation**2),
        derivatives(2, K),
    ]
    return moments, jnp.concatenate(columns, axis=1)


@partial(jax.jit, static_argnums=0)
def _assemble(equations: Equations, x, moments, slopes, ratio, ridge, given):
    """F, its Jacobian with the training loss's derivatives as the last row, and F of each replicate."""
    pooled = moments.mean(0)

    def residual(x, moments):
        return equations.residual(x, moments, ratio, ridge, given)

    explicit, through = jax.jacfwd(residual, argnums=(0, 1))(x, pooled)
    chain = slopes @ jax.jacfwd(equations.fields)(x)
    J = jnp.concatenate([explicit + through @ chain, chain[-1:]])
    return residual(x, pooled), J, jax.vmap(lambda one: residual(x, one))(moments)

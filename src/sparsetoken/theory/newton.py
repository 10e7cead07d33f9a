"""Newton's method for the fixed point.

One method, with steps that shrink where ||F|| does not fall, in two settings:

- `newton_in_blocks` is driven from Python; only one block's evaluation is compiled. The averages behind the residual and its
  Jacobian are sums over nodes. Taken in blocks of a fixed size, they need one compiled program for every level of refinement
  of every law (compiling takes seconds, a warm solve a tenth of one), and a block's arrays stay in the processor's cache.
- `newton_traced` is compiled as a whole, for derivatives and batches.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import numpy as np

from .._core.arrays import namespace
from .._core.loops import repeat_while
from ..laws.nodes import Nodes
from ..losses import Loss
from .equations import AIM, STRATA, Solution, grid_size, moments_with_jacobian, quadrature, solution_at

# Nodes per block and replicate: with 16 replicates and 5 strata, arrays of 330 kB. The few draws of a search come in small
# blocks (in a large one, most of which would be filling, they take six times as long). Many small blocks would take as long
# to hand over to JAX as to evaluate, hence the limit.
BLOCK, SMALL_BLOCK, FEW_NODES = 512, 64, 256
EVALUATIONS = 60  # by default; a solve takes 5 to 15
LONGEST = np.array([np.inf, np.inf, 2.0, np.inf, 2.0])  # longest step of the log unknowns: a factor of 7 in nu and V
_SUFFICIENT = 1e-4  # share of the predicted fall of ||F|| that a step must bring (Armijo)
_SHRINK, _GROW = 0.25, 4.0  # a step that fails is shortened by the one, one that succeeds allows the other
_SHORTEST = 1e-5  # of the full Newton step: shorter ones lead nowhere
_FAR = 1e150  # the residual before the first evaluation, which every finite one improves on


class _State(NamedTuple):
    """The best point so far, the Newton direction from it, and the share of it to try next."""

    best: Solution
    direction: Any
    step: Any


def newton(
    evaluate: Callable[[Any], Solution], x0, replicates: int, aim: float, max_iterations: int, longest=LONGEST
) -> Solution:
    """From x0 with step reduction on ||F||, until the largest entry of the scaled residual F is below `aim`.

    Also stops when no step reduces ||F||: the caller judges the residual.

    Parameters
    ----------
    evaluate : callable
        x -> Solution, with residual and Jacobian there; one evaluation per iteration.
    x0 : array (unknowns,)
        Where to start. A JAX array makes the loop a compiled one.
    replicates : int
        Replicates of the law.
    aim : float
        Largest entry of F to stop at.
    max_iterations : int
        Evaluations allowed.
    longest : array (unknowns,)
        Longest step of each unknown; those of (m_q, m_u, log nu, b, log V) by default.

    Returns
    -------
    Solution
        The best point met.
    """
    xp = namespace(x0)
    size = x0.shape[-1]

    def unfinished(state: _State):
        best, direction, step = state
        begun = best.iterations > 0
        going = xp.isfinite(direction).all() & (~begun | (direction != 0).any())
        return (xp.abs(best.F).max() > aim) & (best.iterations < max_iterations) & (step > _SHORTEST) & going

    def advance(state: _State) -> _State:
        best, direction, step = state
        trial = evaluate(best.x + step * direction)
        sound = xp.isfinite(trial.F).all() & xp.isfinite(trial.J).all()
        better = sound & (_norm(trial.F, xp) < (1 - _SUFFICIENT * step) * _norm(best.F, xp))
        chosen = Solution(*(xp.where(better, new, old) for new, old in zip(trial, best)))
        chosen = chosen._replace(iterations=best.iterations + 1)
        onward = xp.where(better, _direction(trial.F, trial.J, longest, xp), direction)
        return _State(chosen, onward, xp.where(better, xp.minimum(1.0, _GROW * step), _SHRINK * step))

    # The first pass evaluates x0 itself (direction zero against a huge residual), so that a compiled loop's body is the
    # only copy of the evaluation.
    nothing = Solution(
        x0,
        xp.full(size, _FAR),
        xp.eye(size + 1, size),
        xp.zeros((replicates, size)),
        xp.zeros(replicates),
        xp.asarray(0),
    )
    return repeat_while(unfinished, advance, _State(nothing, xp.zeros(size), xp.asarray(1.0)), xp).best


def _norm(F, xp):
    return xp.sqrt((F**2).sum())


def _direction(F, J, longest, xp):
    """Newton's step, shortened where a log unknown would move too far; not finite where the Jacobian is singular."""
    try:
        d = xp.linalg.solve(J[:-1], -F)
    except np.linalg.LinAlgError:
        return np.full(len(F), np.nan)
    return d / xp.maximum(1.0, xp.max(xp.abs(d) / longest))


def newton_traced(
    loss: Loss, size: int, x0, alpha, ridge, nodes: Nodes, aim: float = AIM, max_iterations: int = EVALUATIONS
) -> Solution:
    """`newton` as one compiled loop: traceable, batchable.

    Parameters
    ----------
    loss : Loss
        l, traceable by JAX.
    size : int
        Quadrature points per node, from `grid_size`.
    x0 : array (5,)
        Where to start.
    alpha, ridge : float
        n/dimension and lambda.
    nodes : Nodes
        The law's nodes.
    aim : float
        Largest entry of F to stop at.
    max_iterations : int
        Evaluations allowed.

    Returns
    -------
    Solution
    """
    grid = quadrature(nodes, size)

    def evaluate(x) -> Solution:
        averages, slopes = moments_with_jacobian(loss, x, nodes, grid)
        return solution_at(x, averages, slopes, alpha, ridge)

    return newton(evaluate, jax.numpy.asarray(x0), nodes.T.shape[-2], aim, max_iterations)


def newton_in_blocks(
    loss: Loss,
    nodes: Nodes,
    x0: np.ndarray,
    alpha: float,
    ridge: float,
    aim: float = AIM,
    max_iterations: int = EVALUATIONS,
) -> Solution:
    """`newton` driven from Python, with one compiled evaluation of a block of nodes.

    Parameters
    ----------
    loss : Loss
        l, traceable by JAX.
    nodes : Nodes
        The law's nodes.
    x0 : array (5,)
        Where to start.
    alpha, ridge : float
        n/dimension and lambda.
    aim : float
        Largest entry of F to stop at.
    max_iterations : int
        Evaluations allowed.

    Returns
    -------
    Solution
        NumPy arrays.
    """
    blocks = blocks_of(nodes)

    def evaluate(x):
        return evaluate_blocks(loss, x, alpha, ridge, blocks)

    # Overflow and division by zero leave a residual that is not finite, which no step accepts.
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return newton(evaluate, np.asarray(x0, dtype=float), nodes.T.shape[-2], aim, max_iterations)


def evaluate_blocks(loss: Loss, x: np.ndarray, alpha: float, ridge: float, blocks) -> Solution:
    """Residual, Jacobian and the replicates' own residuals at x, summed over the blocks of `blocks_of`."""
    pending = [_block_moments(loss, x, *block) for block in blocks]
    averages, slopes = (np.sum([np.asarray(part) for part in parts], axis=0) for parts in zip(*pending))
    return solution_at(x, averages, slopes, alpha, ridge)


@partial(jax.jit, static_argnums=0)
def _block_moments(loss: Loss, x, nodes: Nodes, grid):
    return moments_with_jacobian(loss, x, nodes, grid)


@lru_cache(maxsize=3)  # a sweep solves on the same nodes again and again, few draws and many; 150 MB each at the finest
def blocks_of(nodes: Nodes) -> tuple[tuple[Nodes, Any], ...]:
    """(nodes, quadrature) of each block, where JAX wants them. Nodes of one replicate are one block."""
    size = grid_size(nodes)
    leaves = [np.asarray(leaf) for leaf in nodes.leaves()]
    if size > STRATA:
        return (_on_device(Nodes(*leaves), size),)
    count = leaves[0].shape[1]
    block = SMALL_BLOCK if count <= FEW_NODES else BLOCK
    short = -count % block
    if short:  # repeat the last node, with weight zero
        leaves = [np.concatenate([leaf, np.repeat(leaf[:, -1:], short, axis=1)], axis=1) for leaf in leaves]
        leaves[5][:, count:] = 0.0
    firsts = range(0, count + short, block)
    return tuple(_on_device(Nodes(*(leaf[:, first : first + block] for leaf in leaves)), size) for first in firsts)


def _on_device(nodes: Nodes, size: int) -> tuple[Nodes, Any]:
    return jax.device_put((nodes, quadrature(nodes, size)))

"""Newton's method for the fixed point, led by the host: what is compiled is the evaluation of one block of nodes.

The averages behind the residual and its Jacobian are sums over nodes. Taken in blocks of a fixed size, they need one
compiled program for every level of refinement of every law (compiling takes seconds, a warm solve a tenth of one), and a
block's arrays stay in the processor's cache. The algebra on five unknowns is NumPy's.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any

import jax
import numpy as np

from ..laws.nodes import Nodes
from ..losses import Loss
from .equations import AIM, LONGEST, STRATA, Solution, grid_size, moments_with_jacobian, quadrature

BLOCK = 512  # nodes a block and replicate


@partial(jax.jit, static_argnums=0)
def _block_moments(loss: Loss, x, nodes: Nodes, grid):
    return moments_with_jacobian(loss, x, nodes, grid)


@lru_cache(maxsize=3)  # a sweep solves on the same nodes again and again, few draws and many
def blocks_of(nodes: Nodes) -> tuple[tuple[Nodes, Any], ...]:
    """(nodes, quadrature) of each block, where JAX wants them. Nodes of one replicate are one block."""
    size = grid_size(nodes)
    leaves = [np.asarray(leaf) for leaf in nodes.leaves()]
    if size > STRATA:
        return (_placed(Nodes(*leaves), size),)
    count = leaves[0].shape[1]
    short = -count % BLOCK
    if short:  # repeat the last node, with weight zero
        leaves = [np.concatenate([leaf, np.repeat(leaf[:, -1:], short, axis=1)], axis=1) for leaf in leaves]
        leaves[5][:, count:] = 0.0
    firsts = range(0, count + short, BLOCK)
    return tuple(_placed(Nodes(*(leaf[:, first : first + BLOCK] for leaf in leaves)), size) for first in firsts)


def _placed(nodes: Nodes, size: int) -> tuple[Nodes, Any]:
    return jax.device_put((nodes, quadrature(nodes, size)))


def _evaluate(loss: Loss, x: np.ndarray, alpha: float, ridge: float, blocks) -> Solution:
    """Residual, Jacobian and replicates' own residuals at x, as `fixed_point.evaluate` gives them."""
    pending = [_block_moments(loss, x, *block) for block in blocks]
    averages, slopes = (np.sum([np.asarray(part) for part in parts], axis=0) for parts in zip(*pending))
    # Overflow and division by zero leave a residual that is not finite, which no step accepts.
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        F, explicit, through = _equations(x, averages.mean(0), alpha, ridge)
        each, _, _ = _equations(x, averages.T, alpha, ridge)
        return Solution(x, F, explicit + through @ slopes, each.T, averages[:, 5], 0)


def _equations(x: np.ndarray, averages: np.ndarray, alpha: float, ridge: float):
    """The scaled residual of `fixed_point` from averages (6, ...), and (for one set of averages) the derivatives (6, 5) in
    x at fixed averages and (6, 6) in the averages, the training loss as sixth function."""
    m_q, m_u, log_nu, _, log_V = x
    V = np.exp(log_V)
    D = np.sqrt(averages[4])
    pull = m_u / (alpha * V)
    F = np.stack(
        [
            (ridge * m_q + averages[0]) / D,
            (pull + averages[1]) / D,
            averages[2] / D,
            alpha * V * (ridge + averages[3]) - 1.0,
            2.0 * log_nu - np.log(alpha * averages[4]) - 2.0 * log_V,
        ]
    )
    explicit, through = np.zeros((6, 5)), np.zeros((6, 6))
    if averages.ndim == 1:
        explicit[0, 0], explicit[1, 1], explicit[1, 4] = ridge / D, 1.0 / (alpha * V * D), -pull / D
        explicit[3, 4], explicit[4, 2], explicit[4, 4] = F[3] + 1.0, 2.0, -2.0
        through[[0, 1, 2], [0, 1, 2]], through[3, 3], through[5, 5] = 1.0 / D, alpha * V, 1.0
        through[:3, 4], through[4, 4] = -0.5 * F[:3] / averages[4], -1.0 / averages[4]
    return F, explicit, through


def _direction(F: np.ndarray, J: np.ndarray) -> np.ndarray | None:
    """Newton's step, shortened where a log unknown would move too far; None where the Jacobian is singular."""
    try:
        d = np.linalg.solve(J[:5], -F)
    except np.linalg.LinAlgError:
        return None
    return d / max(1.0, float(np.max(np.abs(d) / LONGEST))) if np.isfinite(d).all() else None


def newton(
    loss: Loss, nodes: Nodes, x0: np.ndarray, alpha: float, ridge: float, aim: float = AIM, max_iterations: int = 60
) -> Solution:
    """From x0 with step reduction on ||F||, until the largest entry of the scaled residual F is below `aim`.

    One evaluation an iteration. Ends where it cannot get on as well: the caller judges the residual.
    """
    blocks = blocks_of(nodes)
    best = _evaluate(loss, np.asarray(x0, dtype=float), alpha, ridge, blocks)
    if not np.isfinite(best.F).all():
        best = best._replace(F=np.full(5, np.inf))
    iterations, step = 1, 1.0
    direction = _direction(best.F, best.J)
    while direction is not None and np.abs(best.F).max() > aim and iterations < max_iterations and step > 1e-5:
        trial = _evaluate(loss, best.x + step * direction, alpha, ridge, blocks)
        iterations += 1
        sound = np.isfinite(trial.F).all() and np.isfinite(trial.J).all()
        if sound and np.linalg.norm(trial.F) < (1 - 1e-4 * step) * np.linalg.norm(best.F):
            best, step = trial, min(1.0, 4.0 * step)
            direction = _direction(best.F, best.J)
        else:
            step *= 0.25
    return best._replace(iterations=iterations)

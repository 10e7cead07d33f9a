"""Thousands of theory points at once: one compiled program over a batch, on whatever device JAX has.

All points share the kinds of bags and the loss, hence the draws; strength, prevalence, cosine, sharpness, alpha and ridge vary.
Each is solved by continuation in the ridge as in `erm`, in lockstep with the others of its chunk: points of like ridge go
together, and the way down is walked on an eighth of the draws, all of which only the last steps see. Points whose residual is
not within tolerance at the end are solved again one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtr

from .._core.devices import pick_device
from .._core.precision import in_double_precision
from .._core.validation import whole_number
from ..jax_losses import traceable
from ..laws.draws import TokenDraws
from ..laws.law import attention_law
from ..laws.nodes import Nodes, nodes_of
from ..laws.populations import attended_mixture, draws_of_kinds
from ..losses import Loss, convex_loss
from ..task import Task
from .continuation import ON_THE_WAY, first_guess
from .equations import STRATA, TOLERANCE, field_of_nodes
from .erm import erm
from .newton import newton_traced

FIELDS = ("strength", "prevalence", "cosine", "sharpness", "alpha", "ridge")
RESULTS = ("test_error", "standard_error", "train_loss", "norm_w", "bias", "m_q", "m_u", "nu", "V", "residual")
_STEPS_PER_DECADE = 1.2  # of the ridge on the way down: points in lockstep cannot lengthen their steps one by one
_COARSE = 4, 2  # the way down sees one replicate in four, and one draw in two of each
_CHUNK = {"cpu": 8, "gpu": 1024}  # points side by side: what stays in a processor's cache, what fills a GPU


def _solve_point(loss: Loss, task: Task, draws: list[TokenDraws], steps, theta, pi, gamma, k, alpha, ridge):
    """`RESULTS` of one point: the walk down on a part of the draws, the last solve on all of them.

    The task has a mean strength of 1 here, and theta multiplies all strengths.
    """
    every, of_each = _COARSE
    few = jax.tree.map(lambda a: a[::every, : a.shape[1] // of_each], draws)
    kinds = [kind._replace(strength=kind.strength * theta) for kind in task.kinds]
    populations = [attended_mixture(task, pi, gamma, k, draws=some, kinds=kinds) for some in (few, draws)]
    coarse, nodes = map(nodes_of, populations)
    tested = nodes_of(populations[1].as_tested())
    first = jnp.maximum(ridge, 1.0)

    def lower(step, x):
        here = first * (ridge / first) ** (step / steps)
        return newton_traced(loss, STRATA, x, alpha, here, coarse, ON_THE_WAY).x

    start = jax.lax.fori_loop(0, steps + 1, lower, first_guess(loss, alpha, first, coarse))
    solution = newton_traced(loss, STRATA, start, alpha, ridge, nodes)
    replicates = nodes.T.shape[-2]
    shift = -jnp.linalg.solve(solution.J[:5], solution.replicate_F.T).T

    def error_of(x, b):
        row = Nodes(*(leaf[b] for leaf in tested.leaves()))
        mean, deviation, _ = field_of_nodes(x, row)
        return (row.weight * ndtr(-row.y * mean / deviation)).sum()

    each = jnp.arange(replicates)
    error = jax.vmap(error_of, (None, 0))(solution.x, each).mean()
    scatter = jax.vmap(error_of)(solution.x + shift, each)
    m_q, m_u, log_nu, b, log_V = solution.x
    norm = jnp.sqrt(m_q**2 + m_u**2 + jnp.exp(2 * log_nu))
    standard_error = jnp.std(scatter, ddof=1) / jnp.sqrt(len(each))
    values = (error, standard_error, solution.replicate_loss.mean(), norm, b, m_q, m_u, jnp.exp(log_nu), jnp.exp(log_V))
    return jnp.stack([*values, jnp.abs(solution.F).max()])


@partial(jax.jit, static_argnums=(0, 1))
def _solve_chunk(loss: Loss, task: Task, draws: list[TokenDraws], steps, table):
    return jax.vmap(lambda row: _solve_point(loss, task, draws, steps, *row))(table)


@in_double_precision
def erm_batch(
    task: Task,
    *,
    strength=None,
    prevalence=None,
    cosine,
    sharpness,
    alpha,
    ridge,
    loss: str | Loss = "logistic",
    points: int = 256,
    device: str = "auto",
    chunk: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, np.ndarray]:
    """`erm` of attention laws at many points: arrays (broadcast against each other) in, arrays out.

    Objective at each point: (1/n) sum l + (ridge/2) ||w||^2, bias unpenalised, n = alpha d.

    Parameters
    ----------
    task : Task
        Gives L and R, and the strength and prevalence where those are not given.
    strength, prevalence : array, optional
        theta and pi; where strengths differ between bags, their mean, all of them moving in proportion.
    cosine, sharpness : array
        The query's cosine gamma with the signal, and k = beta ||q||.
    alpha, ridge : array
        n/d and lambda.
    loss : str or Loss
        l, by its name or as an object.
    points : int
        Draws per replicate; they fix the accuracy, reported as `standard_error` of the test error (256: about 3e-4; 2048:
        4e-5).
    device : str
        "auto", "cpu" or "gpu".
    chunk : int, optional
        Points solved side by side. Results do not depend on it or, beyond rounding, on the device.
    progress : callable, optional
        Called with (done, total).

    Returns
    -------
    dict of arrays
        Named as in `RESULTS`, in the shape of the given arrays.
    """
    function = traceable(convex_loss(loss))
    whole_number("points", points, 16)
    given = {"strength": task.mean_strength if strength is None else strength}
    given["prevalence"] = task.prevalence if prevalence is None else prevalence
    given |= {"cosine": cosine, "sharpness": sharpness, "alpha": alpha, "ridge": ridge}
    arrays = np.broadcast_arrays(*(np.asarray(given[name], dtype=float) for name in FIELDS))
    shape = arrays[0].shape
    table = np.stack([a.ravel() for a in arrays], axis=1)
    _check(table)
    where = pick_device(device)
    size = chunk or _CHUNK["cpu" if where.platform == "cpu" else "gpu"]
    size = max(1, min(size, len(table)))
    draws = jax.device_put(draws_of_kinds(task, points), where)
    shared = (task.at_strength(1.0).but(prevalence=0.5), draws)
    order = np.argsort(table[:, FIELDS.index("ridge")], kind="stable")
    out = np.empty((len(table), len(RESULTS)))
    for begin in range(0, len(table), size):
        chosen = order[begin : begin + size]
        part = table[np.resize(chosen, size)]  # one shape, one compilation
        decades = -np.log10(min(1.0, part[:, FIELDS.index("ridge")].min()))
        steps = max(1, round(_STEPS_PER_DECADE * decades))
        out[chosen] = np.asarray(_solve_chunk(function, *shared, steps, jax.device_put(part, where)))[: len(chosen)]
        if progress is not None:
            progress(min(begin + size, len(table)), len(table))
    for i in np.flatnonzero(~(out[:, -1] <= TOLERANCE)):
        out[i] = _again(task, table[i], loss, points)
    return {name: out[:, j].reshape(shape) for j, name in enumerate(RESULTS)}


def _check(table: np.ndarray) -> None:
    theta, pi, gamma, k, alpha, ridge = table.T
    rules = {
        "strength": theta >= 0,
        "prevalence": (pi > 0) & (pi < 1),
        "cosine": np.abs(gamma) <= 1,
        "sharpness": k >= 0,
        "alpha": alpha > 0,
        "ridge": ridge > 0,
    }
    for (name, fine), column in zip(rules.items(), table.T):
        if not (fine & np.isfinite(column)).all():
            raise ValueError(f"{name} has a value that is not allowed: {column[~(fine & np.isfinite(column))][0]:g}")


def _again(task: Task, row: np.ndarray, loss: str | Loss, points: int) -> np.ndarray:
    """One point by the adaptive solver, which raises ConvergenceError if it fails too."""
    theta, pi, gamma, k, alpha, ridge = map(float, row)
    law = attention_law(task.at_strength(theta).but(prevalence=pi), gamma, k)
    found = erm(law, alpha, ridge, loss, accuracy=1e-3 if points <= 256 else 2e-4)
    return np.array([getattr(found, name) for name in RESULTS])

"""Exact training dynamics: the limit d, n -> infinity of any number of gradient steps, data used again and again.

The equations and how one set of draws solves them are in `dynamics`; schedules and models become arrays in
`trajectory_problem`, random numbers come from `trajectory_draws`. Here every quantity is averaged over independent replicates,
which give the standard errors, and draws are added until the accuracy asked for is met.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._core.precision import in_double_precision
from .._core.replicates import standard_error
from .._core.validation import real_number, whole_number
from ..bag_models import BagModel
from ..laws.bag_model_measures import MEASURES, measures_on
from ..losses import Loss
from ..schedules import Stage
from ..task import Task
from ..trajectories import Trajectory, at_steps, steps_tested
from .dynamics import State, advance_compiled, first_compiled
from .errors import AccuracyError, UnstableTrainingWarning
from .refinement import SAFETY
from .trajectory_draws import replicate_draws
from .trajectory_problem import Problem, bytes_per_bag, problem_of

DEFAULT_ACCURACY = 1e-3
# Bags per replicate. The averages' own bias falls like 1/N and is below 2e-4 of the test error from a few hundred on; the
# buffers of a thousand bags stay near the processor's cache.
BAGS, FEWEST_BAGS = 1024, 128
# Fewer than sixteen replicates would leave the standard errors themselves uncertain by a fifth and more.
REPLICATES, MOST_REPLICATES = 16, 512
# Probing tangents. With two of `_probe_signs` the test error of joint attention (T = 30, 1024 bags) scatters by 6.9e-4 between
# replicates at the last step, with sixteen independent ones by 6.0e-4, with one by 1.2e-3.
PROBES = 2
# A replicate's buffers stay below this many bytes: there are fewer bags in it otherwise.
MEMORY = 2**30
# Where a squared norm scatters by more than this share between replicates, training is called unstable: averages over N bags
# are no longer linear in their deviations there, and their own bias, of the order of the square, passes a hundredth.
UNSTABLE = 0.1
PLACES = ("every step", "best step", "last step")


def solve_replicate(
    problem: Problem,
    index: int,
    bags: int,
    probes: int,
    differentiable: bool = False,
    tested: Sequence[int] | None = None,
) -> dict[str, np.ndarray]:
    """All recorded quantities of one replicate (test measures at the steps `tested` only); see `bag_draws`."""
    training, fresh = replicate_draws(problem, index, bags, probes, differentiable)
    plan = jax.tree_util.tree_map(jnp.asarray, problem.plan)
    training = jax.tree_util.tree_map(jnp.asarray, training)
    state: State = first_compiled(plan, training)
    state = advance_compiled(problem.score, problem.loss, problem.shape, plan, training, state)
    m, gram = np.asarray(state.m), np.asarray(state.gram)
    norm = np.sqrt(np.maximum(np.diagonal(gram, axis1=1, axis2=2), 0.0))
    found = {
        "overlap": m,
        "cosine": m / np.where(norm > 0, norm, 1.0),
        "gram": gram,
        "bias": np.asarray(state.bias),
        "train_loss": np.asarray(state.train_loss),
        "train_error": np.asarray(state.train_error),
    }
    which = steps_tested(tested, len(m))
    measured = measures_on(
        fresh, problem.task, problem.model, m[which], gram[which], found["bias"][which], problem.split
    )
    return found | {name: at_steps(part, which, len(m)) for name, part in zip(MEASURES, measured.T, strict=True)}


def _by_direction(model: BagModel, table: dict[str, np.ndarray]) -> dict[str, Any]:
    """Columns of overlap and cosine under the directions' names."""
    named: dict[str, Any] = dict(table)
    for key in ("overlap", "cosine"):
        named[key] = {name: table[key][:, i] for i, name in enumerate(model.directions)}
    return named


@in_double_precision
def trajectory(
    task: Task,
    model: str | BagModel,
    stages: Stage | Sequence[Stage],
    loss: str | Loss = "logistic",
    start: Mapping[str, float] | None = None,
    *,
    accuracy: float = DEFAULT_ACCURACY,
    at: str = "every step",
    bags: int | None = None,
    replicates: int = REPLICATES,
    most_replicates: int = MOST_REPLICATES,
    progress: Callable[[int, int], None] | None = None,
    tested: Sequence[int] | None = None,
) -> Trajectory:
    """The exact limit of training a bag model by gradient descent, step by step; the twin of `simulate_trajectory`.

    Each step descends the mean loss over its data set plus sum_a (decay_a/2) ||theta_a||^2, see `schedules`.

    Parameters
    ----------
    task : Task
        What the data is.
    model : str or BagModel
        The classifier, by name (`get_bag_model`) or as an object.
    stages : Stage or sequence of Stage
        The schedule.
    loss : str or Loss
        l(z; y).
    start : mapping, optional
        Norms of the directions at the start, by name: random, mutually orthogonal and orthogonal to the signal, unless
        "cosine[q]" and its like say at which cosine with the signal a direction starts. "bias": the bias at the start, of
        either sign. What is not named starts at zero.
    accuracy : float
        Absolute error allowed on the test error: replicates are added until its standard error is below 0.4 of it.
    at : str
        Where the accuracy is asked for: at "every step" (the largest standard error counts), at the "best step" or at the
        "last step".
    bags : int, optional
        N, bags per replicate, a power of two. By default 1024, or fewer where the buffers, 24 (T + 1) N L r bytes, would take
        more than a gigabyte.
    replicates : int
        Independent replicates to begin with, at least two: their scatter gives the standard errors.
    most_replicates : int
        Where to stop adding replicates.
    progress : callable, optional
        Called after each replicate with the number done and the number wanted so far; it may raise to stop the work.
    tested : sequence of int, optional
        Steps after which the test measures are wanted, all of them by default; elsewhere these are not a number, and no
        accuracy is asked for there.

    Returns
    -------
    Trajectory

    Raises
    ------
    AccuracyError
        Where the accuracy would take more replicates than allowed; it says what can be had.

    Warns
    -----
    UnstableTrainingWarning
        Where a direction's squared norm scatters by more than a tenth between replicates: rates so large that training
        amplifies small differences. The limit is still the limit, but more bags per replicate are needed for it, and
        simulations reach it only at very large d. `details["unstable_from"]` holds the step.
    """
    accuracy = real_number("accuracy", accuracy, 0.0, open_low=True)
    if at not in PLACES:
        raise ValueError(f"at must be one of {', '.join(map(repr, PLACES))}, got {at!r}")
    replicates = whole_number("replicates", replicates, 2)
    most_replicates = whole_number("most_replicates", most_replicates, replicates)
    problem = problem_of(task, model, stages, loss, start)
    which = steps_tested(tested, problem.schedule.steps + 1)
    count = _bags(problem, bags)
    rows: list[dict[str, np.ndarray]] = []
    wanted = replicates
    while True:
        while len(rows) < wanted:
            rows.append(solve_replicate(problem, len(rows), count, PROBES, tested=tested))
            if progress is not None:
                progress(len(rows), wanted)
        errors_there = np.array([row["test_error"][which] for row in rows])
        spread = np.std(errors_there, axis=0, ddof=1)
        if not np.isfinite(spread).all():
            step = int(which[np.argmin(np.isfinite(spread))])
            raise AccuracyError(
                f"training diverges: the test error is not a number from step {step} on; use smaller rates"
            )
        best = int(np.argmin(np.mean(errors_there, axis=0)))
        scatter = float({"every step": spread.max(), "best step": spread[best], "last step": spread[-1]}[at])
        needed = int(np.ceil((SAFETY * scatter / accuracy) ** 2))
        if needed <= len(rows):
            break
        if needed > most_replicates:
            raise AccuracyError(
                f"accuracy {accuracy:g} on the test error would take about {needed} replicates of {count} bags, and "
                f"{most_replicates} are allowed: ask for at least {SAFETY * scatter / np.sqrt(most_replicates):.1e}"
            )
        wanted = needed
    values = {name: np.mean([row[name] for row in rows], axis=0) for name in rows[0]}
    errors = {name: standard_error([row[name] for row in rows]) for name in rows[0]}
    return Trajectory(
        directions=problem.model.directions,
        **_by_direction(problem.model, values),
        errors=_by_direction(problem.model, errors),
        model=problem.model.name,
        details={"bags": count, "replicates": len(rows), "accuracy": accuracy} | _stability(problem, rows, count),
    )


def _stability(problem: Problem, rows: Sequence[Mapping[str, np.ndarray]], bags: int) -> dict[str, int]:
    """The step from which the replicates' squared norms scatter too much, if there is one; it is also told as a warning."""
    squares = np.array([np.diagonal(row["gram"], axis1=1, axis2=2) for row in rows])
    size = np.maximum.accumulate(squares.mean(axis=0), axis=0)
    scatter = np.divide(squares.std(axis=0, ddof=1), size, out=np.zeros_like(size), where=size > 0)
    if scatter.max() <= UNSTABLE:
        return {}
    step = int(np.argmax((scatter > UNSTABLE).any(axis=1)))
    worst = np.unravel_index(int(np.argmax(scatter)), scatter.shape)
    warnings.warn(
        f"training is unstable from step {step} on: ||{problem.model.directions[worst[1]]}||^2 scatters by "
        f"{100 * scatter[worst]:.0f} % between replicates of {bags} bags at step {worst[0]}; use smaller rates, or more bags, "
        "and expect simulations to come near the limit at very large d only",
        UnstableTrainingWarning,
        stacklevel=4,
    )
    return {"unstable_from": step}


def _bags(problem: Problem, bags: int | None) -> int:
    """Bags per replicate: as asked for, or as many of `BAGS` as the memory allows."""
    if bags is not None:
        count = whole_number("bags", bags, 8)
        if count & (count - 1):
            raise ValueError(f"bags must be a power of two, got {bags}")
        return count
    room = MEMORY // bytes_per_bag(problem, PROBES)
    return int(min(BAGS, max(FEWEST_BAGS, 1 << max(int(room).bit_length() - 1, 0))))

"""Exact training dynamics: averages of what `recursion` gives on the draws of `problem`, over independent replicates, which
give the standard errors and are added until the accuracy is reached."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..._core.averages import standard_error
from ..._core.devices import in_double_precision
from ..._core.validation import caller_level
from ...bag_models import BagModel
from ...laws.bag_model_measures import measures_on
from ...laws.draws import LEAST_POINTS
from ...laws.error_measures import MEASURES
from ...losses import Loss
from ...schedules import Stage
from ...task import Task
from ...trajectories import Trajectory, at_steps, steps_tested
from ..accuracy import SAFETY, Accuracy, AccuracyError, AccuracyWarning, UnstableTrainingWarning, accuracy_missed
from .problem import PROBES, Sampling, TrainingProblem, bytes_per_bag, problem_of, replicate_draws
from .recursion import RecursionState, advance_compiled, first_compiled

DEFAULT_ACCURACY = 1e-3
# Bags per replicate. The averages' own bias falls like 1/N and is below 2e-4 of the test error from a few hundred on; the
# buffers of a thousand bags stay near the processor's cache.
BAGS = 1024
# Fewer than sixteen replicates would leave the standard errors themselves uncertain by a fifth and more.
REPLICATES, MOST_REPLICATES = 16, 512
# Where a squared norm scatters by more than this share between replicates, training is called unstable: averages over N bags
# are no longer linear in their deviations there, and their own bias, of the order of the square, passes a hundredth.
UNSTABLE = 0.1
# Share of the largest squared norm, a floor for the norms that scatter is relative to, and of the largest training loss:
# smaller shifts are not reported.
_NEGLIGIBLE = 0.01
_SHIFTED = {"test_error": "test error", "train_loss": "training loss"}


def solve_replicate(
    problem: TrainingProblem,
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
    state: RecursionState = first_compiled(plan, training)
    state = advance_compiled(problem.score, problem.loss, problem.shape, plan, training, state)
    m, gram = np.asarray(state.m), np.asarray(state.gram)
    norm = np.sqrt(np.maximum(np.diagonal(gram, axis1=1, axis2=2), 0.0))
    recorded = {
        "overlap": m,
        "cosine": m / np.where(norm > 0, norm, 1.0),
        "gram": gram,
        "bias": np.asarray(state.bias),
        "train_loss": np.asarray(state.train_loss),
        "train_error": np.asarray(state.train_error),
    }
    which = steps_tested(tested, len(m))
    measured = measures_on(
        fresh, problem.task, problem.model, m[which], gram[which], recorded["bias"][which], problem.split
    )
    return recorded | {name: at_steps(part, which, len(m)) for name, part in zip(MEASURES, measured.T, strict=True)}


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
    accuracy: float | Accuracy = DEFAULT_ACCURACY,
    tested: Sequence[int] | None = None,
    sampling: Sampling | None = None,
) -> Trajectory:
    """The exact limit of training a bag model by gradient descent, step by step; `simulate_trajectory` at finite d.

    Eq. (25) to Eq. (29) of docs/theory.md: each step descends the mean loss over its data set plus
    sum_a (decay_a/2) ||theta_a||^2.

    Parameters
    ----------
    task : Task
        What the data is.
    model : str or BagModel
        The classifier, by name (`get_bag_model`) or as an object.
    stages, loss
        The schedule, and l(z; y).
    start : mapping, optional
        Norms of the directions at the start, by name: random, mutually orthogonal and orthogonal to the signal, unless
        "cosine[q]" and the like give the cosine with the signal at which a direction starts. "bias": the bias at the start, of
        either sign. What is not named starts at zero.
    accuracy : float or Accuracy
        Absolute error allowed on the test error: replicates are added, 512 at most, until its standard error is below 0.4 of
        it at every step. A warm start has no meaning here.
    tested : sequence of int, optional
        Steps after which the test measures are computed, all of them by default; elsewhere they are NaN, and the accuracy does
        not apply.
    sampling : Sampling, optional
        Bags N per replicate and replicates to begin with: 16 of 1024 bags by default, of fewer where the buffers,
        24 (T + 1) N L r bytes, would take more than a gigabyte.

    Raises
    ------
    AccuracyError
        Where training diverges, and where a strict accuracy is out of reach.

    Warns
    -----
    AccuracyWarning
        Where the accuracy would take more replicates than allowed (no more are added), and where averages over N bags are
        biased by more than their standard errors, as runs with N/4 bags show, which are made where a squared norm scatters by
        more than 3 per cent between replicates: `details["shift"]` holds the bias of the test error and of the training loss,
        and more `bags` reduce it.
    UnstableTrainingWarning
        Where a direction's squared norm scatters by more than a tenth between replicates: rates so large that training
        amplifies small differences. More bags per replicate are needed for the limit, and simulations reach it only at very
        large d. `details["unstable_from"]` holds the step.
    """
    asked = Accuracy.of(accuracy)
    aim, sampling = asked.test_error, sampling or Sampling()
    problem = problem_of(task, model, stages, loss, start)
    which = steps_tested(tested, problem.schedule.steps + 1)
    count = sampling.bags or _bags_in_memory(problem)
    rows: list[dict[str, np.ndarray]] = []
    wanted = sampling.replicates or REPLICATES
    while True:
        while len(rows) < wanted:
            rows.append(solve_replicate(problem, len(rows), count, PROBES, tested=tested))
            if sampling.progress is not None:
                sampling.progress(len(rows), wanted)
        errors_there = np.array([row["test_error"][which] for row in rows])
        spread = np.std(errors_there, axis=0, ddof=1)
        if not np.isfinite(spread).all():
            step = int(which[np.argmin(np.isfinite(spread))])
            raise AccuracyError(
                f"training diverges: the test error is not a number from step {step} on; use smaller rates"
            )
        scatter = float(spread.max())
        needed = int(np.ceil((SAFETY * scatter / aim) ** 2))
        if needed <= len(rows):
            break
        if needed > MOST_REPLICATES:
            accuracy_missed(
                f"accuracy {aim:g} on the test error would take about {needed} replicates of {count} bags, and "
                f"{MOST_REPLICATES} are allowed: use at least {SAFETY * scatter / np.sqrt(MOST_REPLICATES):.1e}; the "
                f"standard error is {scatter / np.sqrt(len(rows)):.1e} after {len(rows)} replicates",
                asked.strict,
            )
            break
        wanted = needed
    values = {name: np.mean([row[name] for row in rows], axis=0) for name in rows[0]}
    errors = {name: standard_error([row[name] for row in rows]) for name in rows[0]}
    return Trajectory(
        directions=problem.model.directions,
        **_by_direction(problem.model, values),
        errors=_by_direction(problem.model, errors),
        model=problem.model.name,
        details={"bags": count, "replicates": len(rows), "accuracy": aim} | _checked(problem, rows, count, aim),
    )


def _checked(
    problem: TrainingProblem, rows: Sequence[Mapping[str, np.ndarray]], bags: int, accuracy: float
) -> dict[str, Any]:
    """Warn where replicates scatter: the step from which training is unstable, and the bias of averages over few bags."""
    squares = np.array([np.diagonal(row["gram"], axis1=1, axis2=2) for row in rows])
    size = np.maximum.accumulate(squares.mean(axis=0), axis=0)
    # A direction whose gradient vanishes in the limit moves by sampling errors alone, so its relative scatter means nothing.
    size = np.maximum(size, _NEGLIGIBLE * size.max())
    scatter = np.divide(squares.std(axis=0, ddof=1), size, out=np.zeros_like(size), where=size > 0)
    details: dict[str, Any] = {}
    if scatter.max() > UNSTABLE:
        details["unstable_from"] = step = int(np.argmax((scatter > UNSTABLE).any(axis=1)))
        worst = np.unravel_index(int(np.argmax(scatter)), scatter.shape)
        warnings.warn(
            f"training is unstable from step {step} on: ||{problem.model.directions[worst[1]]}||^2 scatters by "
            f"{100 * scatter[worst]:.0f} % between replicates of {bags} bags at step {worst[0]}; use smaller rates, or more "
            "bags, and expect simulations to come near the limit at very large d only",
            UnstableTrainingWarning,
            stacklevel=caller_level(),
        )
    if scatter.max() > 0.3 * UNSTABLE and bags >= 4 * LEAST_POINTS:
        details["shift"] = shift = _shift_of_few_bags(problem, rows, bags)
        if shift["test_error"] > accuracy or shift["train_loss"] > _NEGLIGIBLE * rows[0]["train_loss"].max():
            seen = " and ".join(
                f"{shift[name]:.1e} in the {words}" for name, words in _SHIFTED.items() if shift[name] > 0
            )
            warnings.warn(
                f"averages over {bags} bags are shifted by about {seen}, as {bags // 4} bags show: pass "
                f"sampling=theory.Sampling(bags={4 * bags})",
                AccuracyWarning,
                stacklevel=caller_level(),
            )
    return details


def _shift_of_few_bags(
    problem: TrainingProblem, rows: Sequence[Mapping[str, np.ndarray]], bags: int
) -> dict[str, float]:
    """The largest bias over the steps of test error and training loss from averaging over `bags` bags: it falls like 1/N, so
    that a quarter of the bags differ from these by three times the bias; 0 where the scatter hides it."""
    tested = np.flatnonzero(np.isfinite(rows[0]["test_error"])).tolist()
    few = [solve_replicate(problem, i, bags // 4, PROBES, tested=tested) for i in range(len(rows), 2 * len(rows))]
    shift = {}
    for name in _SHIFTED:
        values = [np.array([row[name] for row in some]) for some in (few, rows)]
        with np.errstate(all="ignore"):  # unstable training may diverge on a quarter of the bags
            gap = (values[0].mean(axis=0) - values[1].mean(axis=0)) / 3.0
            error = np.hypot(*map(standard_error, values)) / 3.0
        shift[name] = float(np.max(np.where(np.abs(gap) > 3.0 * error, np.abs(gap), 0.0)))
    return shift


def _bags_in_memory(problem: TrainingProblem) -> int:
    """Bags per replicate: as many of `BAGS`, at least 128, as a gigabyte of buffers allows."""
    room = 2**30 // bytes_per_bag(problem, PROBES)
    return int(min(BAGS, max(128, 1 << max(int(room).bit_length() - 1, 0))))

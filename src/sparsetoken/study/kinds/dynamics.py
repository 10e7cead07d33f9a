"""Kinds of trial about training step by step: the exact dynamics of a bag model, and the same measured.

Both return one row per step. A schedule is given as `stages`, a list of tables with the fields of `Stage`, or, for one data
set and constant rates, by `steps`, `alpha`, `rates`, `decay` and `momentum`.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from ...bag_models import get_bag_model
from ...schedules import Stage, as_stages
from ...task import Task
from ..kind import trial_kind
from .columns import STEPS, columns

ACCURACY = 1e-3  # absolute, on the test error of every step; its standard error is a column
REPLICATES = 8  # to begin with: studies read many points, each with its standard error
TEST_REPLICATES = 2  # of the test measures of a run: runs scatter far more
Numbers = float | Mapping[str, float]


def schedule_of(
    model: str,
    stages: Sequence[Mapping[str, Any]] | None,
    steps: int,
    alpha: float,
    rates: Numbers,
    decay: Numbers,
    momentum: float,
) -> list[Stage]:
    """The stages themselves where they are given, else one stage of `steps` steps on one data set."""
    if stages is not None:
        tuples = ("data", "alpha")
        return list(
            as_stages(
                [{k: tuple(v) if k in tuples and isinstance(v, list) else v for k, v in s.items()} for s in stages]
            )
        )
    names = get_bag_model(model).directions

    def each(given, keys):
        return dict(given) if isinstance(given, Mapping) else dict.fromkeys(keys, given)

    return [Stage(steps, alpha, each(rates, (*names, "bias")), each(decay, names), momentum)]


@trial_kind("trajectory", columns=columns(*STEPS, "unstable"))
def trajectory_trial(
    task: Task,
    model: str = "attention",
    loss: str = "logistic",
    stages: list | None = None,
    steps: int = 20,
    alpha: float = 2.0,
    rates: Any = 1.0,
    decay: Any = 0.0,
    momentum: float = 0.0,
    start: dict | None = None,
    accuracy: float = ACCURACY,
    replicates: int = REPLICATES,
    bags: int | None = None,
    rows_at: list[int] | None = None,
) -> list[dict[str, float]]:
    """The exact limit of training, one row per step; `unstable` says where training amplifies small differences.

    With `rows_at`, only those steps have rows, which saves measuring the others.
    """
    from ...theory import UnstableTrainingWarning, trajectory

    schedule = schedule_of(model, stages, steps, alpha, rates, decay, momentum)
    with warnings.catch_warnings():  # a column says it
        warnings.simplefilter("ignore", UnstableTrainingWarning)
        found = trajectory(
            task, model, schedule, loss, start, accuracy=accuracy, replicates=replicates, bags=bags, tested=rows_at
        )
    first = found.details.get("unstable_from", math.inf)
    return [{**row, "unstable": row["step"] >= first} for row in rows_of(found, rows_at)]


@trial_kind("simulate_trajectory", columns=columns(*STEPS))
def simulate_trajectory_trial(
    task: Task,
    d: int,
    seed: int,
    model: str = "attention",
    loss: str = "logistic",
    stages: list | None = None,
    steps: int = 20,
    alpha: float = 2.0,
    rates: Any = 1.0,
    decay: Any = 0.0,
    momentum: float = 0.0,
    start: dict | None = None,
    sampler: str = "reduced",
    rows_at: list[int] | None = None,
) -> list[dict[str, float]]:
    """One run at finite d, one row per step, or only for the steps in `rows_at`, which saves measuring the others."""
    from ...simulation.trajectory import simulate_trajectory

    schedule = schedule_of(model, stages, steps, alpha, rates, decay, momentum)
    options: dict[str, Any] = {"sampler": sampler, "loss": loss, "start": start, "tested": rows_at}
    run = simulate_trajectory(task, model, schedule, d, seed, **options, test_replicates=TEST_REPLICATES)
    return rows_of(run, rows_at)


def rows_of(run: Any, steps: Sequence[int] | None = None) -> list[dict[str, float]]:
    """The columns of a trajectory as one record for each of the steps, all of them by default."""
    columns = {name: values.tolist() for name, values in run.columns().items()}
    rows = (dict(zip(columns, values)) for values in zip(*columns.values()))
    return [row for row in rows if steps is None or row["step"] in steps]

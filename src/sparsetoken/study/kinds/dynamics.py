"""Kinds of trial about training step by step and about where it ends: the exact limits of a bag model, and the same measured.

Those step by step return one row per step. A schedule is given as `stages`, a list of tables with the fields of `Stage`, or,
for one data set and constant rates, by `steps`, `alpha`, `rates`, `decay` and `momentum`.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...bag_models import get_bag_model
from ...schedules import Stage, as_stages
from ...task import Task
from ..kind_registry import trial_kind
from .columns import END, STEPS, columns

REPLICATES = 8  # to begin with: studies read many points, each with its standard error


@dataclass(frozen=True)
class GivenDescent:
    """Which bag model descends which loss, how, from where, and which steps have rows: all, or those in `rows_at`.

    A cosine of the start may be the name of a method of `theory.recovery`, which learns it from as many other bags.
    """

    model: str = "attention"
    loss: str = "logistic"
    stages: list | None = None
    steps: int = 20
    alpha: float = 2.0
    rates: Any = 1.0
    decay: Any = 0.0
    momentum: float = 0.0
    start: dict | None = None
    rows_at: list[int] | None = None

    def schedule(self) -> list[Stage]:
        """The stages themselves where they are given, else one stage of `steps` steps on one data set."""
        if self.stages is not None:
            return list(as_stages(self.stages))
        names = get_bag_model(self.model).directions

        def each(value, keys):
            return dict(value) if isinstance(value, Mapping) else dict.fromkeys(keys, value)

        rates, decay = each(self.rates, (*names, "bias")), each(self.decay, names)
        return [Stage(self.steps, self.alpha, rates, decay, self.momentum)]

    def start_of(self, task: Task) -> dict | None:
        """The start with its cosines as numbers."""
        from ...theory import recovery

        def number(value: Any) -> Any:
            return recovery(task, self.alpha, value).cosine if isinstance(value, str) else value

        return None if self.start is None else {name: number(value) for name, value in self.start.items()}

    def rows(self, run: Any) -> list[dict[str, float]]:
        """The columns of a trajectory as one record for each of the steps that are to have one."""
        columns = {name: values.tolist() for name, values in run.columns().items()}
        rows = (dict(zip(columns, values)) for values in zip(*columns.values()))
        return [row for row in rows if self.rows_at is None or row["step"] in self.rows_at]


@trial_kind("trajectory", columns=columns(*STEPS, "unstable", "shift"))
def trajectory_trial(
    task: Task, descent: GivenDescent, accuracy: float = 1e-3, replicates: int = REPLICATES, bags: int | None = None
) -> list[dict[str, float]]:
    """The exact limit of training, one row per step, or only for the steps in `rows_at`, which saves measuring the others."""
    from ...theory import AccuracyWarning, Sampling, UnstableTrainingWarning, trajectory

    sampling = Sampling(bags, replicates)
    options: dict[str, Any] = {"accuracy": accuracy, "tested": descent.rows_at, "sampling": sampling}
    with warnings.catch_warnings():  # columns have what they say
        warnings.simplefilter("ignore", UnstableTrainingWarning)
        warnings.simplefilter("ignore", AccuracyWarning)
        path = trajectory(task, descent.model, descent.schedule(), descent.loss, descent.start_of(task), **options)
    first = path.details.get("unstable_from", math.inf)
    shift = path.details.get("shift", {}).get("test_error", 0.0)
    return [{**row, "unstable": row["step"] >= first, "shift": shift} for row in descent.rows(path)]


@trial_kind("simulate_trajectory", columns=columns(*STEPS))
def simulate_trajectory_trial(
    task: Task, d: int, seed: int, descent: GivenDescent, sampler: str = "reduced"
) -> list[dict[str, float]]:
    """One run at finite d, with rows as in `trajectory`."""
    from ...simulation.trajectory import simulate_trajectory

    options: dict[str, Any] = {"sampler": sampler, "loss": descent.loss, "start": descent.start_of(task)}
    return descent.rows(
        simulate_trajectory(task, descent.model, descent.schedule(), d, seed, **options, tested=descent.rows_at)
    )


@dataclass(frozen=True)
class GivenEnd:
    """Which bag model is trained to the end, on how many samples, with which decay and loss."""

    model: str = "attention"
    alpha: float = 2.0
    decay: Any = 0.15
    loss: str = "logistic"


def _end_row(end: Any) -> dict[str, Any]:
    """An end of training as a record; standard errors only where there are some."""
    names = [name for name in END if "[" not in name]
    row = {name: getattr(end, name) for name in names}
    errors = {**end.errors, "test_error": end.standard_error} if end.errors else {}
    row |= {f"{name}_se": errors[name] for name in names if name in errors}
    for a in end.directions:
        row |= {f"overlap[{a}]": end.overlap[a], f"cosine[{a}]": end.cosine[a]}
        if errors:
            row[f"overlap[{a}]_se"] = errors[f"overlap_{a}"]
    return row


@trial_kind(
    "joint_end", columns=columns(*END, *(f"{name}_se" for name in END if name != "cosine[*]"), "replicon", "coexist")
)
def joint_end_trial(
    task: Task, given: GivenEnd, start: Any = "uninformed", bags: int | None = None, replicates: int = REPLICATES
) -> dict[str, Any]:
    """Where joint training ends, in the limit."""
    from ...theory import ReplicaSymmetryWarning, Sampling, statics

    with warnings.catch_warnings(action="ignore", category=ReplicaSymmetryWarning):  # a column has it
        sampling = Sampling(bags, replicates)
        end = statics(task, given.model, given.alpha, given.decay, given.loss, start, sampling=sampling)
    return {**_end_row(end), "replicon": end.replicon, "coexist": end.coexist}


@trial_kind("simulate_end", columns=columns(*END))
def simulate_end_trial(task: Task, d: int, seed: int, given: GivenEnd, start: dict | None = None) -> dict[str, Any]:
    """Where joint training ends at finite d: run to convergence."""
    from ...simulation.simulate_end import simulate_end

    end = simulate_end(task, given.model, given.alpha, given.decay, d, seed, loss=given.loss, start=start)
    return _end_row(end)


@trial_kind("end_directions", columns=columns("best_bias_error", "overlap[*]"))
def end_directions_trial(task: Task, d: int, seed: int, given: GivenEnd, start: dict | None = None) -> dict[str, Any]:
    """How good the directions are at which joint training ends at finite d: with the best bias for them."""
    from ...simulation.simulate_end import best_bias_error, train_to_the_end

    run, x, _ = train_to_the_end(task, given.model, given.alpha, given.decay, d, seed, given.loss, start)
    error, overlaps = best_bias_error(run, x)
    return {"best_bias_error": error, **{f"overlap[{a}]": m for a, m in overlaps.items()}}

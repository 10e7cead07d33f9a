"""A training problem of the exact dynamics as arrays: task, bag model and schedule in the form that `recursion` takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from ...bag_models import BagModel, get_bag_model, score_with_sharpness
from ...jax_losses import traceable
from ...laws.bag_model_measures import Split, split_of
from ...losses import Loss, get_loss
from ...schedules import Schedule, expand
from ...task import Task
from .recursion import ScheduleArrays, Shape


class TrainingProblem(NamedTuple):
    """A training problem as arrays and compiled code needs it."""

    task: Task
    model: BagModel
    loss: Loss
    schedule: Schedule
    plan: ScheduleArrays
    score: Callable[..., Any]  # (H, bias, sharpness)
    split: Split
    shape: Shape
    slots: int


def _slots(schedule: Schedule) -> tuple[np.ndarray, np.ndarray, np.ndarray, Shape, int]:
    """Places of the steps in the buffers, data set by data set; the first of each set; step of each slot; shape; slots."""
    sets = schedule.data_set
    n = len(sets)
    time = np.argsort(sets, kind="stable")
    slot = np.empty(n, dtype=int)
    slot[time] = np.arange(n)
    first = np.array([slot[sets == k].min() for k in sets])
    uses = int(np.bincount(sets).max())
    if len(schedule.alpha) == 1:
        return slot, first, time, Shape(n, True), n
    window = 1 << (uses - 1).bit_length()
    slots = int(first.max()) + window
    time = np.concatenate([time, np.full(max(slots - n, 0), n - 1)])
    return slot, first, time, Shape(window, False), max(slots, n)


def problem_of(
    task: Task, model: str | BagModel, stages: Any, loss: str | Loss, start: Mapping[str, float] | None
) -> TrainingProblem:
    """The problem, checked and written out as arrays."""
    Task.require(task)
    chosen = get_bag_model(model)
    schedule = expand(stages, chosen.directions)
    slot, first, time, shape, slots = _slots(schedule)

    def one_more(a):
        return np.concatenate([a, np.zeros((1, *a.shape[1:]))])

    norms = np.array(chosen.start_norms(start))
    m0 = norms * np.array(chosen.start_cosines(start))
    sets = schedule.data_set
    plan = ScheduleArrays(
        one_more(schedule.rates),
        one_more(schedule.decay),
        one_more(schedule.momentum),
        schedule.alpha[sets],
        slot,
        first,
        sets[:, None] == sets[None, :],
        time,
        task.mean_strength,
        task.prevalence,
        task.contamination,
        1.0 if chosen.sharpness is None else chosen.sharpness,
        m0,
        # Off the signal the directions are orthogonal to each other.
        np.diag(np.square(norms) - np.square(m0)) + np.outer(m0, m0),
        chosen.start_bias(start),
    )
    score, split = score_with_sharpness(chosen), split_of(chosen, task.longest)
    shape = shape._replace(correlation=task.correlation)
    return TrainingProblem(task, chosen, traceable(get_loss(loss)), schedule, plan, score, split, shape, slots)


def bytes_per_bag(problem: TrainingProblem, probes: int) -> int:
    """Bytes of the buffers for each bag: innovations and gradients (8 bytes per number), tangents (4)."""
    return int((2 * 8 + 4 * probes) * problem.slots * problem.task.mean_length * problem.model.rank)

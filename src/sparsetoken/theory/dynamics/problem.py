"""A training problem of the exact dynamics in the form that `recursion` takes: arrays, and the random numbers of replicates.

The Gaussian innovations of a data set's first steps, on which all later ones build, are scrambled Sobol points with the
signal tokens' coordinates first, and every bag has a mirror image with the opposite noise: together they reduce the scatter
of the test error between replicates about sixfold.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import hadamard

from ..._core.validation import whole_number
from ...bag_models import BagModel, get_bag_model, score_with_sharpness
from ...jax_losses import traceable
from ...laws.bag_model_measures import FreshDraws, Split, fresh_draws, signal_first, signal_indicators, split_of
from ...laws.draws import LEAST_POINTS, MOST_COORDINATES, scrambled_sobol, seed_of, standard_normals
from ...losses import Loss, get_loss
from ...schedules import Schedule, expand
from ...task import BagKind, Task
from .recursion import BagDraws, GroupDraws, ScheduleArrays, Shape

# Probing tangents: with two of `_probe_signs` the test error scatters hardly more than with many independent ones, with one
# twice as much.
PROBES = 2


@dataclass(frozen=True)
class Sampling:
    """How averages over bags are taken: on independent replicates, whose scatter gives the standard errors.

    Parameters
    ----------
    bags : int, optional
        Bags per replicate, a power of two; by default what the function at hand takes.
    replicates : int, optional
        Independent replicates, at least two; more are added where an accuracy requires them.
    progress : callable, optional
        Called by `theory.trajectory` after each replicate with the number done and the number wanted so far; it may raise to
        stop the work.
    """

    bags: int | None = None
    replicates: int | None = None
    progress: Callable[[int, int], None] | None = None

    def __post_init__(self) -> None:
        if self.bags is not None and whole_number("bags", self.bags, 8) & (self.bags - 1):
            raise ValueError(f"bags must be a power of two, got {self.bags}")
        if self.replicates is not None:
            whole_number("replicates", self.replicates, 2)


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


class Stratum(NamedTuple):
    """Bags that are alike before their noise is drawn."""

    kind: BagKind
    carries: bool
    label: float
    probability: float
    bags: int


def strata(task: Task, bags: int) -> list[Stratum]:
    """The strata of a replicate of about `bags` bags, half of them for either class: each has its share, rounded up to a
    power of two and at least 16, and is weighted by its probability."""
    listed = []
    eps, contaminated = task.label_noise, task.contamination
    for truth, prevalence in ((1.0, task.prevalence), (-1.0, 1.0 - task.prevalence)):
        signals = ((True, 1.0),) if truth > 0 else ((False, 1.0 - contaminated), (True, contaminated))
        for kind in task.kinds:
            for carries, p in signals:
                for label, q in ((truth, 1.0 - eps), (-truth, eps)):
                    share = kind.probability * p * q
                    if share > 0:
                        count = 1 << math.ceil(math.log2(max(share * (bags // 2), min(LEAST_POINTS, bags // 2))))
                        listed.append(Stratum(kind, carries, label, prevalence * share, count))
    return listed


def _innovations(
    rng: np.random.Generator, problem: TrainingProblem, length: int, drawn: int, places: Sequence[np.ndarray | None]
) -> np.ndarray:
    """(slots, r, L, N) for strata of `drawn` bags and as many mirror images each; `places` are the indicators (L, drawn) of
    each stratum's signal tokens, None without signal."""
    r, count = problem.model.rank, len(places)
    half = rng.standard_normal((problem.slots, r, length, count, drawn))
    steps = min(8, MOST_COORDINATES // (r * length))  # of a data set whose innovations are Sobol points
    sets = problem.schedule.data_set
    for k in range(len(problem.schedule.alpha) if steps else 0):
        slots = np.sort(problem.plan.slot[sets == k])[:steps]
        for stratum in range(count):
            normals = standard_normals(scrambled_sobol(len(slots) * r * length, drawn, rng))
            half[slots, :, :, stratum] = normals.reshape(len(slots), r, length, drawn)
    for stratum, signal in enumerate(places):
        if signal is not None:
            half[:, :, :, stratum] = signal_first(half[:, :, :, stratum], signal)
    return np.concatenate([half, -half], axis=-1).reshape(problem.slots, r, length, 2 * count * drawn)


_hadamard = lru_cache(16)(partial(hadamard, dtype=np.int8))


def _probe_signs(rng: np.random.Generator, probes: int, rank: int, length: int, bags: int) -> np.ndarray:
    """Signs (probes, r, L, N), independent over bags and tokens. A token's directions take different columns of a Hadamard
    matrix over the probes: the response of one to another at the same token then cancels instead of adding noise."""
    signs = 2 * rng.integers(0, 2, (1, rank, length, bags), dtype=np.int8) - 1
    column = (np.arange(rank)[:, None] + rank * np.arange(length)) % probes
    return _hadamard(probes)[:, column][..., None] * signs


def bag_draws(
    rng: np.random.Generator, problem: TrainingProblem, bags: int, probes: int, differentiable: bool = False
) -> BagDraws:
    """Random numbers of one replicate; with `differentiable`, tangents are in double precision."""
    alike: dict[tuple[int, int], list[Stratum]] = {}
    for stratum in strata(problem.task, bags):
        alike.setdefault((stratum.kind.length, stratum.bags), []).append(stratum)
    by_length: dict[int, list[GroupDraws]] = {}
    for (length, _), members in alike.items():
        by_length.setdefault(length, []).append(_group_draws(rng, problem, members, probes, differentiable))
    # Every group is compiled separately, in seconds: bags of one length form one group.
    return tuple(_joined(groups) for groups in by_length.values())


def _joined(groups: list[GroupDraws]) -> GroupDraws:
    """Groups of one length as one; the bags come last in every array."""
    if len(groups) == 1:
        return groups[0]
    length = len(groups[0].places)
    parts = [group.normals.reshape(*group.normals.shape[:2], length, -1) for group in groups]
    normals = np.concatenate(parts, axis=-1)
    others = (np.concatenate(columns, axis=-1) for columns in zip(*(group[1:] for group in groups), strict=True))
    return GroupDraws(normals.reshape(*normals.shape[:2], -1), *others)


def _group_draws(
    rng: np.random.Generator, problem: TrainingProblem, members: list[Stratum], probes: int, differentiable: bool
) -> GroupDraws:
    """Random numbers for strata of one length and size."""
    task, (length, count) = problem.task, (members[0].kind.length, members[0].bags)
    signals = [
        signal_indicators(rng, task.single(stratum.kind), count // 2) if stratum.carries else None
        for stratum in members
    ]
    normals = _innovations(rng, problem, length, count // 2, signals)
    signs = _probe_signs(rng, probes, problem.model.rank, length, count * len(members))
    signs = signs.astype(float if differentiable else np.float32)
    table = _hadamard(count)
    codes = []
    for _ in members:
        # Columns of the Hadamard matrix, which are orthogonal over the stratum's bags; used again beyond half of them, where
        # independent signs keep them uncorrelated.
        columns = 1 + rng.permutation(count - 1)
        rounds = -(-problem.slots // (count - 1))
        rows = table[rng.permutation(count)][:, columns]
        turns = [rows, *(rows * rng.choice([-1, 1], (count, 1)) for _ in range(rounds - 1))]
        codes.append(np.concatenate(turns, axis=1)[:, : problem.slots])
    mean = task.mean_strength or 1.0
    places = [
        np.zeros((length, count)) if v is None else np.concatenate([v, v], axis=1) * (stratum.kind.strength / mean)
        for v, stratum in zip(signals, members)
    ]
    y = np.concatenate([np.full(count, stratum.label) for stratum in members])
    weight = np.concatenate([np.full(count, stratum.probability / count) for stratum in members])
    flat = normals.reshape(problem.slots, problem.model.rank, -1)
    return GroupDraws(flat, signs, np.concatenate(codes).T.astype(float), np.concatenate(places, axis=1), y, weight)


def replicate_rng(index: int) -> np.random.Generator:
    """The random generator of replicate number `index`, always with the same seed."""
    return np.random.Generator(np.random.SFC64(seed_of(20250926, index)))


def replicate_draws(
    problem: TrainingProblem, index: int, bags: int, probes: int, differentiable: bool = False
) -> tuple[BagDraws, FreshDraws]:
    """All random numbers of a replicate, for training and for test bags; see `bag_draws`."""
    rng = replicate_rng(index)
    training = bag_draws(rng, problem, bags, probes, differentiable)
    return training, fresh_draws(rng, problem.task, problem.model.rank, problem.split)

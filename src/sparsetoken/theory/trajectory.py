"""Exact training dynamics: the limit d, n -> infinity of any number of gradient steps, data used again and again.

The equations and how one set of draws solves them are in `dynamics`; here schedules and models become arrays, replicates give
the standard errors, and draws are added until the accuracy asked for is met. Every quantity is averaged over independent
replicates of N bags each: positive and negative bags in equal numbers, weighted by the prevalence. The Gaussian innovations
of a data set's first steps, on which all later ones build, are scrambled Sobol points with the signal tokens' coordinates
first, and every bag has a mirror image with the opposite noise: the test error at T = 30 then scatters by 9e-4 between
replicates of 1024 bags instead of 5.5e-3 (joint attention, worst step).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.linalg import hadamard
from scipy.special import ndtri
from scipy.stats import qmc

from .._core.precision import in_double_precision
from .._core.replicates import standard_error
from .._core.validation import real_number, whole_number
from ..bag_models import BagModel, get_bag_model, score_with_sharpness
from ..jax_losses import traceable
from ..laws.fresh_bags import (
    MEASURES,
    FreshDraws,
    Split,
    fresh_draws,
    measures_on,
    signal_first,
    signal_indicators,
    split_of,
)
from ..losses import Loss, get_loss
from ..schedules import Schedule, Stage, expand
from ..task import Task
from ..trajectories import Trajectory
from .dynamics import BagDraws, Plan, Shape, State, advance_compiled, first_compiled
from .errors import AccuracyError
from .refinement import SAFETY

DEFAULT_ACCURACY = 1e-3
# Bags per replicate. The averages' own bias falls like 1/N and is below 2e-4 of the test error from a few hundred on; the
# buffers of a thousand bags stay near the processor's cache.
BAGS, FEWEST_BAGS = 1024, 128
REPLICATES, MOST_REPLICATES = 8, 512
# Probing tangents: four leave less noise than the bags themselves do, one leaves twice as much.
PROBES = 4
# A replicate's buffers stay below this many bytes: there are fewer bags in it otherwise.
MEMORY = 2**30
# Innovations that are Sobol points: those of a data set's first steps, up to that many coordinates.
SOBOL_STEPS, SOBOL_COORDINATES = 8, 1024
# With one data set, steps up to these see only that many slots of the buffers; each size is compiled once.
WINDOWS = (32, 64, 128, 256, 512, 1024)
PLACES = ("every step", "best step", "last step")
_ROOT_SEED = 20250926


class Problem(NamedTuple):
    """A training problem as arrays and compiled code needs it."""

    task: Task
    model: BagModel
    loss: Loss
    schedule: Schedule
    plan: Plan
    score: Callable[..., Any]  # (H, bias, sharpness)
    split: Split
    windows: tuple[tuple[int, int, Shape], ...]  # entries start .. stop - 1 and the shape they are compiled for
    slots: int


def _slots(schedule: Schedule) -> tuple[np.ndarray, np.ndarray, np.ndarray, tuple[tuple[int, int, Shape], ...], int]:
    """Places of the steps in the buffers, data set by data set; the first of each set; step of each slot; windows; slots."""
    sets = schedule.data_set
    n = len(sets)
    time = np.argsort(sets, kind="stable")
    slot = np.empty(n, dtype=int)
    slot[time] = np.arange(n)
    first = np.array([slot[sets == k].min() for k in sets])
    uses = int(np.bincount(sets).max())
    if len(schedule.alpha) == 1:
        cuts = [w for w in WINDOWS if w < n] + [n]
        windows = tuple((a, b, Shape(b, True)) for a, b in zip([0, *cuts[:-1]], cuts))
        return slot, first, time, windows, n
    window = 1 << (uses - 1).bit_length()
    slots = int(first.max()) + window
    time = np.concatenate([time, np.full(max(slots - n, 0), n - 1)])
    return slot, first, time, ((0, n, Shape(window, False)),), max(slots, n)


def _start_gram(model: BagModel, start: Mapping[str, float] | None) -> np.ndarray:
    norms = np.zeros(model.rank)
    for name, norm in (start or {}).items():
        if name not in model.directions:
            raise ValueError(f"start must name {', '.join(model.directions)}, got {name!r}")
        norms[model.directions.index(name)] = real_number(f"start[{name!r}]", norm, 0.0)
    return np.diag(norms**2)


def problem_of(
    task: Task, model: str | BagModel, stages: Any, loss: str | Loss, start: Mapping[str, float] | None
) -> Problem:
    """The problem, checked and written out as arrays."""
    chosen = get_bag_model(model)
    schedule = expand(stages, chosen.directions)
    slot, first, time, windows, slots = _slots(schedule)
    one_more = lambda a: np.concatenate([a, np.zeros((1, *a.shape[1:]))])  # noqa: E731
    sets = schedule.data_set
    plan = Plan(
        one_more(schedule.rates),
        one_more(schedule.decay),
        one_more(schedule.momentum),
        schedule.alpha[sets],
        slot,
        first,
        sets[:, None] == sets[None, :],
        time,
        task.strength,
        task.prevalence,
        1.0 if chosen.sharpness is None else chosen.sharpness,
        np.zeros(chosen.rank),
        _start_gram(chosen, start),
    )
    score, split = score_with_sharpness(chosen), split_of(chosen, task.length)
    return Problem(task, chosen, traceable(get_loss(loss)), schedule, plan, score, split, windows, slots)


def bytes_per_bag(problem: Problem, probes: int) -> int:
    """Bytes of the buffers for each bag: innovations, gradients and tangents, 8 slots L r (2 + probes)."""
    return 8 * problem.slots * problem.task.length * problem.model.rank * (2 + probes)


def _innovations(rng: np.random.Generator, problem: Problem, places: np.ndarray) -> np.ndarray:
    """(slots, r, L, N): both classes' first quarters drawn, second quarters their mirror images.

    `places` (L, N/4) are the indicators of the signal tokens of the positive bags drawn.
    """
    r, (L, quarter) = problem.model.rank, places.shape
    half = rng.standard_normal((problem.slots, r, L, 2, quarter))
    steps = min(SOBOL_STEPS, SOBOL_COORDINATES // (r * L))
    sets = problem.schedule.data_set
    for k in range(len(problem.schedule.alpha) if steps else 0):
        slots = np.sort(problem.plan.slot[sets == k])[:steps]
        for label in range(2):
            u = qmc.Sobol(len(slots) * r * L, scramble=True, rng=rng).random(quarter)
            normals = ndtri(np.clip(u, 1e-16, 1 - 1e-16))
            half[slots, :, :, label] = normals.T.reshape(len(slots), r, L, quarter)
    half[:, :, :, 0] = signal_first(half[:, :, :, 0], places)
    return np.concatenate([half, -half], axis=-1).reshape(problem.slots, r, L, 4 * quarter)


_hadamard = lru_cache(maxsize=4)(partial(hadamard, dtype=np.int8))


def bag_draws(rng: np.random.Generator, problem: Problem, bags: int, probes: int) -> BagDraws:
    """Random numbers of one replicate."""
    task, half = problem.task, bags // 2
    signal = signal_indicators(rng, task, bags // 4)
    normals = _innovations(rng, problem, signal)
    signs = rng.integers(0, 2, (probes, problem.model.rank, task.length, bags)) * 2.0 - 1.0
    table = _hadamard(half)
    codes = []
    for _ in range(2):
        # Columns of the Hadamard matrix, which are orthogonal over the class's bags; used again beyond half of them, where
        # independent signs keep them uncorrelated.
        columns = 1 + rng.permutation(half - 1)
        rounds = -(-problem.slots // (half - 1))
        rows = table[rng.permutation(half)][:, columns]
        turns = [rows, *(rows * rng.choice([-1, 1], (half, 1)) for _ in range(rounds - 1))]
        codes.append(np.concatenate(turns, axis=1)[:, : problem.slots])
    places = np.concatenate([signal, signal, np.zeros((task.length, half))], axis=1)
    return BagDraws(normals, signs, np.concatenate(codes).T.astype(float), places)


def replicate_rng(index: int) -> np.random.Generator:
    """The generator behind replicate number `index`: always the same one."""
    return np.random.Generator(np.random.SFC64(np.random.SeedSequence([_ROOT_SEED, index])))


def replicate_draws(problem: Problem, index: int, bags: int, probes: int) -> tuple[BagDraws, FreshDraws]:
    """All random numbers of replicate number `index`, for training and for test bags."""
    rng = replicate_rng(index)
    training = bag_draws(rng, problem, bags, probes)
    return training, fresh_draws(rng, problem.task, problem.model.rank, problem.split)


def solve_replicate(problem: Problem, index: int, bags: int, probes: int) -> dict[str, np.ndarray]:
    """All recorded quantities of one replicate."""
    training, fresh = replicate_draws(problem, index, bags, probes)
    plan = jax.tree_util.tree_map(jnp.asarray, problem.plan)
    training = jax.tree_util.tree_map(jnp.asarray, training)
    state: State = first_compiled(plan, training)
    for start, stop, shape in problem.windows:
        state = advance_compiled(problem.score, problem.loss, shape, plan, training, state, start, stop)
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
    tested = measures_on(fresh, problem.task, problem.model, m, gram, state.bias, problem.split)
    return found | dict(zip(MEASURES, tested.T))


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
        Norms of the directions at the start, by name: random, mutually orthogonal and orthogonal to the signal. Directions
        not named start at zero, as does the bias.
    accuracy : float
        Absolute error allowed on the test error: replicates are added until its standard error is below 0.4 of it.
    at : str
        Where the accuracy is asked for: at "every step" (the largest standard error counts), at the "best step" or at the
        "last step".
    bags : int, optional
        N, bags per replicate, a power of two. By default 1024, or fewer where the buffers, 8 (T + 1) N L r (2 + 4) bytes, would
        take more than a gigabyte.
    replicates : int
        Independent replicates to begin with, at least two: their scatter gives the standard errors.
    most_replicates : int
        Where to stop adding replicates.
    progress : callable, optional
        Called after each replicate with the number done and the number wanted so far; it may raise to stop the work.

    Returns
    -------
    Trajectory

    Raises
    ------
    AccuracyError
        Where the accuracy would take more replicates than allowed; it says what can be had.
    """
    accuracy = real_number("accuracy", accuracy, 0.0, open_low=True)
    if at not in PLACES:
        raise ValueError(f"at must be one of {', '.join(map(repr, PLACES))}, got {at!r}")
    replicates = whole_number("replicates", replicates, 2)
    most_replicates = whole_number("most_replicates", most_replicates, replicates)
    problem = problem_of(task, model, stages, loss, start)
    count = _bags(problem, bags)
    rows: list[dict[str, np.ndarray]] = []
    wanted = replicates
    while True:
        while len(rows) < wanted:
            rows.append(solve_replicate(problem, len(rows), count, PROBES))
            if progress is not None:
                progress(len(rows), wanted)
        spread = np.std([row["test_error"] for row in rows], axis=0, ddof=1)
        if not np.isfinite(spread).all():
            step = int(np.argmin(np.isfinite(spread)))
            raise AccuracyError(
                f"training diverges: the test error is not a number from step {step} on; use smaller rates"
            )
        best = int(np.argmin(np.mean([row["test_error"] for row in rows], axis=0)))
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
        details={"bags": count, "replicates": len(rows), "accuracy": accuracy},
    )


def _bags(problem: Problem, bags: int | None) -> int:
    """Bags per replicate: as asked for, or as many of `BAGS` as the memory allows."""
    if bags is not None:
        count = whole_number("bags", bags, 8)
        if count & (count - 1):
            raise ValueError(f"bags must be a power of two, got {bags}")
        return count
    room = MEMORY // bytes_per_bag(problem, PROBES)
    return int(min(BAGS, max(FEWEST_BAGS, 1 << max(int(room).bit_length() - 1, 0))))

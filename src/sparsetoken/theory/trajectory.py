"""Exact training dynamics: the limit d, n -> infinity of any number of gradient steps, data used again and again.

The equations and how one set of draws solves them are in `dynamics`; here schedules and models become arrays, replicates give
the standard errors, and draws are added until the accuracy asked for is met. Every quantity is averaged over independent
replicates of N bags each: positive and negative bags in equal numbers, weighted by the prevalence, and those of each kind in
proportion. The Gaussian innovations of a data set's first steps, on which all later ones build, are scrambled Sobol points
with the signal tokens' coordinates first, and every bag has a mirror image with the opposite noise: the test error at T = 30
then scatters by 9e-4 between replicates of 1024 bags instead of 5.5e-3 (joint attention, worst step).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.linalg import hadamard
from scipy.stats import qmc

from .._core.precision import in_double_precision
from .._core.replicates import standard_error
from .._core.validation import real_number, whole_number
from ..bag_models import BagModel, get_bag_model, score_with_sharpness
from ..jax_losses import traceable
from ..laws.bag_model_measures import (
    MEASURES,
    FreshDraws,
    Split,
    fresh_draws,
    measures_on,
    signal_first,
    signal_indicators,
    split_of,
)
from ..laws.draws import standard_normals
from ..losses import Loss, get_loss
from ..schedules import Schedule, Stage, expand
from ..task import BagKind, Task
from ..trajectories import Trajectory
from .dynamics import BagDraws, GroupDraws, Plan, Shape, State, advance_compiled, first_compiled
from .errors import AccuracyError, UnstableTrainingWarning
from .refinement import SAFETY

DEFAULT_ACCURACY = 1e-3
# Bags per replicate. The averages' own bias falls like 1/N and is below 2e-4 of the test error from a few hundred on; the
# buffers of a thousand bags stay near the processor's cache.
BAGS, FEWEST_BAGS = 1024, 128
LEAST_BAGS = 16  # of the rarest kind: orthogonal signs for as many steps before they repeat
# Fewer than sixteen replicates would leave the standard errors themselves uncertain by a fifth and more.
REPLICATES, MOST_REPLICATES = 16, 512
# Probing tangents. With two of `_probe_signs` the test error of joint attention (T = 30, 1024 bags) scatters by 6.9e-4 between
# replicates at the last step, with sixteen independent ones by 6.0e-4, with one by 1.2e-3.
PROBES = 2
# A replicate's buffers stay below this many bytes: there are fewer bags in it otherwise.
MEMORY = 2**30
# Innovations that are Sobol points: those of a data set's first steps, up to that many coordinates.
SOBOL_STEPS, SOBOL_COORDINATES = 8, 1024
# With one data set the buffers come in so many blocks, and a step skips those in its future: half of the reading for long runs.
# Products with blocks of fewer slots than the least are slow ones. Accelerators read everything: they wait for every decision.
BLOCKS, LEAST_BLOCK = 8, 10
# Where a squared norm scatters by more than this share between replicates, training is called unstable: averages over N bags
# are no longer linear in their deviations there, and their own bias, of the order of the square, passes a hundredth.
UNSTABLE = 0.1
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
) -> Problem:
    """The problem, checked and written out as arrays."""
    chosen = get_bag_model(model)
    schedule = expand(stages, chosen.directions)
    slot, first, time, shape, slots = _slots(schedule)

    def one_more(a):
        return np.concatenate([a, np.zeros((1, *a.shape[1:]))])

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
        task.mean_strength,
        task.prevalence,
        task.contamination,
        1.0 if chosen.sharpness is None else chosen.sharpness,
        np.zeros(chosen.rank),
        np.diag(np.square(chosen.start_norms(start))),
    )
    score, split = score_with_sharpness(chosen), split_of(chosen, task.longest)
    shape = shape._replace(correlation=task.correlation)
    return Problem(task, chosen, traceable(get_loss(loss)), schedule, plan, score, split, shape, slots)


def bytes_per_bag(problem: Problem, probes: int) -> int:
    """Bytes of the buffers for each bag: innovations and gradients (8 bytes per number), tangents (4)."""
    return int((2 * 8 + 4 * probes) * problem.slots * problem.task.mean_length * problem.model.rank)


class Stratum(NamedTuple):
    """Bags that are alike before their noise is drawn.

    Attributes
    ----------
    kind : BagKind
        Length, sparsity and strength.
    carries : bool
        Whether they have a signal.
    label : float
        As seen in training.
    probability : float
        Their share of all bags.
    bags : int
        How many stand for them, a power of two.
    """

    kind: BagKind
    carries: bool
    label: float
    probability: float
    bags: int


def strata(task: Task, bags: int) -> list[Stratum]:
    """The strata of a replicate of about `bags` bags, half of them for either class.

    Each has its share of its class's bags, rounded up to a power of two and at least 16, and is weighted by its
    probability.
    """
    found = []
    eps, stained = task.label_noise, task.contamination
    for truth, prevalence in ((1.0, task.prevalence), (-1.0, 1.0 - task.prevalence)):
        signals = ((True, 1.0),) if truth > 0 else ((False, 1.0 - stained), (True, stained))
        for kind in task.kinds:
            for carries, p in signals:
                for label, q in ((truth, 1.0 - eps), (-truth, eps)):
                    share = kind.probability * p * q
                    if share > 0:
                        count = 1 << math.ceil(math.log2(max(share * (bags // 2), min(LEAST_BAGS, bags // 2))))
                        found.append(Stratum(kind, carries, label, prevalence * share, count))
    return found


def _innovations(
    rng: np.random.Generator, problem: Problem, length: int, drawn: int, places: Sequence[np.ndarray | None]
) -> np.ndarray:
    """(slots, r, L, N) for strata of `drawn` bags and as many mirror images each.

    `places` are the indicators (L, drawn) of the signal tokens of each stratum, None for one without signal.
    """
    r, count = problem.model.rank, len(places)
    half = rng.standard_normal((problem.slots, r, length, count, drawn))
    steps = min(SOBOL_STEPS, SOBOL_COORDINATES // (r * length))
    sets = problem.schedule.data_set
    for k in range(len(problem.schedule.alpha) if steps else 0):
        slots = np.sort(problem.plan.slot[sets == k])[:steps]
        for stratum in range(count):
            u = qmc.Sobol(len(slots) * r * length, scramble=True, rng=rng).random(drawn)
            normals = standard_normals(u)
            half[slots, :, :, stratum] = normals.T.reshape(len(slots), r, length, drawn)
    for stratum, signal in enumerate(places):
        if signal is not None:
            half[:, :, :, stratum] = signal_first(half[:, :, :, stratum], signal)
    return np.concatenate([half, -half], axis=-1).reshape(problem.slots, r, length, 2 * count * drawn)


_hadamard = lru_cache(maxsize=16)(partial(hadamard, dtype=np.int8))


def _probe_signs(rng: np.random.Generator, probes: int, rank: int, length: int, bags: int) -> np.ndarray:
    """Signs (probes, r, L, N), independent over bags, tokens and directions.

    Where the probes are a power of two, a token's directions (as many as there are probes) take different columns of a
    Hadamard matrix over the probes: what one direction does to another at the same token then cancels between the probes
    instead of adding noise. At four probes that takes away a third of the variance of the test error.
    """
    common = 1 if not probes & (probes - 1) else probes
    signs = 2 * rng.integers(0, 2, (common, rank, length, bags), dtype=np.int8) - 1
    if common > 1:
        return signs
    column = (np.arange(rank)[:, None] + rank * np.arange(length)) % probes
    return _hadamard(probes)[:, column][..., None] * signs


def bag_draws(
    rng: np.random.Generator, problem: Problem, bags: int, probes: int, differentiable: bool = False
) -> BagDraws:
    """Random numbers of one replicate.

    With `differentiable` they make the recursion one that can be differentiated: one block of buffers, tangents in double
    precision.
    """
    groups: dict[tuple[int, int], list[Stratum]] = {}
    for stratum in strata(problem.task, bags):
        groups.setdefault((stratum.kind.length, stratum.bags), []).append(stratum)
    return tuple(_group_draws(rng, problem, members, probes, differentiable) for members in groups.values())


def _group_draws(
    rng: np.random.Generator, problem: Problem, members: list[Stratum], probes: int, differentiable: bool
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
    in_blocks = problem.shape.single and not differentiable and jax.default_backend() == "cpu"
    pieces = min(BLOCKS, problem.slots // LEAST_BLOCK) if in_blocks else 1
    blocks = tuple(np.array_split(normals.reshape(problem.slots, problem.model.rank, -1), max(pieces, 1)))
    return GroupDraws(blocks, signs, np.concatenate(codes).T.astype(float), np.concatenate(places, axis=1), y, weight)


def replicate_rng(index: int) -> np.random.Generator:
    """The generator behind replicate number `index`: always the same one."""
    return np.random.Generator(np.random.SFC64(np.random.SeedSequence([_ROOT_SEED, index])))


def replicate_draws(
    problem: Problem, index: int, bags: int, probes: int, differentiable: bool = False
) -> tuple[BagDraws, FreshDraws]:
    """All random numbers of replicate number `index`, for training and for test bags; see `bag_draws`."""
    rng = replicate_rng(index)
    training = bag_draws(rng, problem, bags, probes, differentiable)
    return training, fresh_draws(rng, problem.task, problem.model.rank, problem.split)


def solve_replicate(
    problem: Problem, index: int, bags: int, probes: int, differentiable: bool = False
) -> dict[str, np.ndarray]:
    """All recorded quantities of one replicate; see `bag_draws`."""
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
        N, bags per replicate, a power of two. By default 1024, or fewer where the buffers, 24 (T + 1) N L r bytes, would take
        more than a gigabyte.
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

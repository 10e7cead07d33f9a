"""Forecasts for the page: quick ones for the first answer, the library's own for the second, each computed once.

A quick point solves the same equations on few draws (`rough`, about 1 % off in the test error); an exact one is
`forecast(..., accuracy=1e-3)`. The Bayes limit and several heads are waited for so long and no longer: what is late is computed
on in the background. Training step by step, `theory.trajectory`, takes few replicates for one answer and more for the next.
"""

from __future__ import annotations

import contextlib
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ..laws.law import same_mechanism
from ..losses import Loss
from ..task import Task
from ..theory import Capacity, WarmStart, bayes_limit, capacity, erm, forecast, trajectory
from ..theory.errors import UnstableTrainingWarning
from ..theory.forecast import law_of
from ..theory.refit import threshold_error
from ..theory.trajectory import PROBES
from ..training import Training
from .background import Background
from .recent import Recent
from .rough import rough_forecast, rough_test_elsewhere
from .state import Descent

ACCURACY = 1e-3
_TEST_ACCURACY = 5e-3  # of test errors on longer bags
HEADS_ACCURACY = 5e-3  # several heads cost up to half a second per point at this, and seconds on long bags
BAYES_SECONDS = 4.0  # what a page waits for the Bayes limits of one answer
# What it waits for the points of several heads before it paints those that are there and asks again. A number of heads is
# compiled when it is first asked for, which takes 5 CPU seconds.
HEADS_SECONDS = 1.5
# Draws per replicate at which capacities are refined no further, in the first answer and the second: a tenth of a second.
# Very large capacities then have wide error bars (10 % at alpha* = 1500).
_QUICK_CAPACITY_POINTS, _CAPACITY_POINTS = 512, 4096
# Long bags take time in proportion to their tokens. Beyond so many in a replicate the second answer's draws are fewer, though
# never fewer than the least: a second instead of three, and error bars twice as wide.
_CAPACITY_TOKENS, _LEAST_CAPACITY_POINTS = 1_000_000, 1024
_KEPT = 20_000
# Training step by step: replicates of the first answer and of the second, of equally many bags, so that both run the same
# compiled code. The page fixes their number, which bounds the time, and shows the standard errors that come of it.
QUICK_REPLICATES, REPLICATES = 3, 8
# Bags per replicate, as many as the two limits below leave room for. Fewer than the least are off by more than 1 %.
BAGS_TRIED = (1024, 512, 256)
# Numbers in a replicate's buffers, 160 MB (with the draws behind them some 600 MB are held for a moment), and products of its
# fields with those of earlier steps, about 1.5 CPU seconds.
MOST_NUMBERS, MOST_PRODUCTS = 2e7, 1e8
_CURVES_KEPT = 200
_TRAINED_KEPT = 8  # readouts to be tested on longer bags, with the draws behind them: 1 MB each, and up to 150


# How the library says that it has no answer: in words about the settings, or for want of memory.
REFUSALS = (ValueError, ArithmeticError, MemoryError)


def words_of(refusal: BaseException) -> str:
    """What the page says of a refusal; Python's own word on want of memory is empty."""
    return str(refusal) or "it takes more memory than there is"


class Superseded(Exception):
    """The page has moved on to other parameters: nobody waits for this answer."""


Alive = Callable[[], None]


def always() -> None:
    """An answer that is wanted whatever happens."""


@dataclass(frozen=True)
class Point:
    """A model's test error and its standard error; why there is none, in `failure`, or that it is still computed, `late`.

    A Bayes limit has what message passing reaches besides, with its standard error, and whether the two differ, `hard`.
    """

    test_error: float
    standard_error: float = 0.0
    reachable: float = float("nan")
    reachable_error: float = 0.0
    hard: bool = False
    failure: str = ""
    late: bool = False
    start: WarmStart | None = None


_memory = Recent[Any](_KEPT)
_curves = Recent[Any](_CURVES_KEPT)
_trained = Recent[Any](_TRAINED_KEPT)
_one_at_a_time = threading.Lock()
_background = Background()
_heads_background = Background()


def point(
    task: Task, training: Training, model: str, *, equal_samples: bool, quick: bool, near: Point | None = None
) -> Point:
    """The forecast of one model, remembered. `near`, a neighbouring point, is only a start for the solver."""
    exact_key = _key(task, training, model, equal_samples)
    key = exact_key if not quick else (*exact_key[:-1], True)
    known = _memory.get(exact_key) or _memory.get(key)
    if known is not None:
        return known
    if near is None and not quick:
        near = _memory.get((*exact_key[:-1], True))  # the rough answer to the same question
    try:
        found = _solve(task, training, model, equal_samples, quick, None if near is None else near.start)
    except REFUSALS as error:
        found = Point(float("nan"), failure=words_of(error))
    _memory.put(key, found)
    return found


def known_point(task: Task, training: Training, model: str, *, equal_samples: bool) -> Point:
    """The library's forecast where it is known already, or a point that is `late`."""
    return _memory.get(_key(task, training, model, equal_samples)) or Point(float("nan"), late=True)


def _key(task: Task, training: Training, model: str, equal_samples: bool) -> tuple:
    return (task, training, model, equal_samples, False)


class BayesLimits:
    """Bayes limits for one answer: all of them together may take `BAYES_SECONDS`; what comes later is there the next time."""

    def __init__(self, alive: Alive) -> None:
        self._alive, self._ends = alive, float("inf")

    def at(self, task: Task, training: Training) -> Point:
        """The limit at alpha0 + alpha1, or a point that is `late`."""
        key = _key(task, training, "bayes", True)
        if _memory.get(key) is None:
            self._ends = min(self._ends, time.monotonic() + BAYES_SECONDS)  # the time runs from the first one asked for
            work = partial(point, task, training, "bayes", equal_samples=True, quick=False)
            _background.waited(key, work, max(self._ends - time.monotonic(), 0.0), self._alive)
        return known_point(task, training, "bayes", equal_samples=True)


def several_heads(
    task: Task, trainings: Sequence[Training], models: Sequence[str], *, equal_samples: bool, alive: Alive
) -> dict[str, list[Point]]:
    """Points of models with several heads, as many as are there after `HEADS_SECONDS`.

    A model is one piece of work in the background, so that no two threads compile the same program, and models are computed
    side by side. The work goes on when the answer has been given, until it is done or its page has moved on.

    Parameters
    ----------
    task : Task
        What the data is.
    trainings : sequence of Training
        Along a line, the most wanted in the middle, which comes first.
    models : sequence of str
        "heads:2", ...
    equal_samples : bool
        As in `point`.
    alive : callable
        Called while waiting and between points; may raise to stop the work.

    Returns
    -------
    dict of list of Point
        By model; those that are not there yet are `late`.
    """
    middle = len(trainings) // 2

    def work(model: str) -> None:
        done: dict[int, Point] = {}
        with contextlib.suppress(Superseded):
            for i in sorted(range(len(trainings)), key=lambda i: abs(i - middle)):
                alive()
                near = done.get(i + 1 if i < middle else i - 1)  # the neighbour towards the middle
                done[i] = point(task, trainings[i], model, equal_samples=equal_samples, quick=False, near=near)

    def known(model: str) -> list[Point]:
        return [known_point(task, training, model, equal_samples=equal_samples) for training in trainings]

    ends = time.monotonic() + HEADS_SECONDS
    for seconds in (0.0, HEADS_SECONDS):  # all begin before one is waited for
        for model in models:
            if any(p.late for p in known(model)):
                left = min(seconds, max(ends - time.monotonic(), 0.0))
                name = (task, tuple(trainings), model, equal_samples)
                _heads_background.waited(name, partial(work, model), left, alive)
    return {model: known(model) for model in models}


def _solve(
    task: Task, training: Training, model: str, equal_samples: bool, quick: bool, start: WarmStart | None
) -> Point:
    if model == "bayes":
        limit = bayes_limit(task, training.alpha0 + training.alpha1)
        return Point(
            limit.test_error,
            limit.errors["test_error"],
            limit.reachable_test_error,
            limit.errors["reachable_test_error"],
            limit.hard,
        )
    if quick:
        rough = rough_forecast(
            task, training, model, equal_samples=equal_samples, near=None if start is None else start.x
        )
        return Point(rough.test_error, rough.standard_error, start=WarmStart(rough.x))
    found = forecast(
        task,
        training,
        model,
        equal_samples=equal_samples,
        accuracy=HEADS_ACCURACY if model.startswith("heads") else ACCURACY,
        with_capacity=False,
        warm_start=start,
    )
    assert found.result is not None
    # The fixed point alone: with the neighbour's number of draws the answer would depend on where the page came from.
    return Point(found.test_error, found.standard_error, start=WarmStart(found.result.warm_start.x))


def tested_at(task: Task, training: Training, length: int, quick: bool) -> dict[str, float]:
    """Attention trained on the task and tested on bags of another length: its measures, remembered.

    `threshold_error` is the test error with the threshold fitted to those bags; the quick answer does without.
    """
    key = ("tested", task, training, length, quick)
    known = _memory.get(key)
    if known is None:
        known = _tested(task, training, task.but(length=length), quick)
        _memory.put(key, known)
    return known


def _tested(task: Task, training: Training, bags: Task, quick: bool) -> dict[str, float]:
    if quick:
        return rough_test_elsewhere(task, training, bags) | {"threshold_error": float("nan")}
    solved = _trained.get((task, training))
    if solved is None:
        law = law_of(task, training, "attention")[0]
        solved = erm(law, training.alpha1, training.ridge, training.loss, accuracy=_TEST_ACCURACY)
        _trained.put((task, training), solved)
    there = solved.on(bags, accuracy=_TEST_ACCURACY)
    found = {name: getattr(there, name) for name in ("test_error", "auc", "sensitivity", "specificity")}
    found["threshold_error"] = min(there.test_error, threshold_error(solved, same_mechanism(solved.law, bags)))
    return found


def threshold(task: Task, training: Training, model: str, quick: bool) -> Capacity:
    """The separability threshold of a model's features, remembered."""
    key = ("capacity", task, training, model, quick)
    known = _memory.get(key)
    if known is None:
        law, _ = law_of(task, training, model)
        most = _QUICK_CAPACITY_POINTS if quick else _capacity_points(task.longest)
        known = capacity(law, accuracy=0.05 if quick else 0.01, most_points=most)
        _memory.put(key, known)
    return known


def _capacity_points(length: int) -> int:
    """Draws per replicate for the second answer on bags of so many tokens."""
    points = _CAPACITY_POINTS
    while points * length > _CAPACITY_TOKENS and points > _LEAST_CAPACITY_POINTS:
        points //= 2
    return points


@dataclass(frozen=True, eq=False)
class Curve:
    """Test and training error over the steps 0 .. T with their standard errors; why there are none, in `failure`.

    `unstable_from` is the step from which replicates differ too much for their mean to say what one run does.
    """

    test_error: np.ndarray
    test_spread: np.ndarray
    train_error: np.ndarray
    train_spread: np.ndarray
    failure: str = ""
    unstable_from: int | None = None

    @property
    def best_step(self) -> int:
        """The step with the least test error."""
        return int(np.argmin(self.test_error))


def bags_for(task: Task, descent: Descent) -> int:
    """Bags per replicate that a page has time and memory for; 0 where even the least are too many."""
    per_bag = (descent.steps + 1) * task.longest * descent.bag_model.rank
    for bags in BAGS_TRIED:
        if (2 + PROBES) * per_bag * bags <= MOST_NUMBERS and (descent.steps + 1) * per_bag * bags <= MOST_PRODUCTS:
            return bags
    return 0


def descent_curve(
    task: Task, descent: Descent, alpha: float, loss: str | Loss, *, effort: int, alive: Alive = always
) -> Curve | None:
    """Training step by step on n = alpha d bags, remembered.

    Parameters
    ----------
    task : Task
        What the data is.
    descent : Descent
        Model, steps and rates.
    alpha : float
        n/d of the data that every step uses.
    loss : str or Loss
        l(z; y).
    effort : int
        0 for what is known already or refused, 1 for `QUICK_REPLICATES`, 2 for `REPLICATES`.
    alive : callable
        Called between replicates; may raise to stop the work.

    Returns
    -------
    Curve or None
        None where it would have to be computed and no effort is allowed.
    """
    key = (task, descent, alpha, loss)
    known = next((curve for level in (2, 1) if level >= effort and (curve := _curves.get((*key, level)))), None)
    if known is not None:
        return known
    bags = bags_for(task, descent)
    if not bags:
        words = f"{descent.steps} steps on bags of {task.length} tokens take too long for this page; take fewer or shorter ones"
        return Curve(*(np.array([]),) * 4, failure=words)
    if not effort:
        return None
    # One at a time: pages that move on while theirs waits leave before it begins.
    with _one_at_a_time, warnings.catch_warnings():
        warnings.simplefilter("ignore", UnstableTrainingWarning)  # the page says so itself
        alive()
        try:
            found = trajectory(
                task,
                descent.bag_model,
                descent.stage(alpha),
                loss,
                descent.start_norms,
                accuracy=1.0,
                bags=bags,
                replicates=QUICK_REPLICATES if effort == 1 else REPLICATES,
                progress=lambda done, wanted: alive(),
            )
            curve = Curve(
                found.test_error,
                found.standard_error,
                found.train_error,
                found.errors["train_error"],
                unstable_from=found.details.get("unstable_from"),
            )
        except REFUSALS as error:
            curve = Curve(*(np.array([]),) * 4, failure=words_of(error))
    _curves.put((*key, effort), curve)
    return curve

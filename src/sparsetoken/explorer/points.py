"""Forecasts for the page: quick ones for the first answer, the library's own for the second, each computed once.

A quick point solves the same equations on few draws (about 1 % off in the test error); an exact one is
`forecast(..., accuracy=1e-3)`. Training step by step, `theory.trajectory`, takes few replicates for the first answer and more
for the second.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..laws.law import same_mechanism
from ..losses import Loss
from ..task import Task
from ..theory import Capacity, WarmStart, bayes_limit, capacity, erm, forecast, trajectory
from ..theory.forecast import law_of, readout_alpha
from ..theory.refit import threshold_error
from ..theory.trajectory import PROBES
from ..training import Training
from .state import Descent

ACCURACY = 1e-3
_QUICK_POINTS = 128
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


class Superseded(Exception):
    """The page has moved on to other parameters: nobody waits for this answer."""


Alive = Callable[[], None]


def always() -> None:
    """An answer that is wanted whatever happens."""


@dataclass(frozen=True)
class Point:
    """A model's test error and its standard error; why there is none, in `failure`."""

    test_error: float
    standard_error: float = 0.0
    reachable: float = float("nan")
    hard: bool = False
    failure: str = ""
    start: WarmStart | None = None


class _Memory:
    """Least recently used answers are forgotten first; safe for several threads."""

    def __init__(self, kept: int) -> None:
        self._kept, self._lock, self._answers = kept, threading.Lock(), OrderedDict[Any, Any]()

    def get(self, key: Any) -> Any:
        with self._lock:
            if key in self._answers:
                self._answers.move_to_end(key)
                return self._answers[key]
        return None

    def put(self, key: Any, answer: Any) -> None:
        with self._lock:
            self._answers[key] = answer
            while len(self._answers) > self._kept:
                self._answers.popitem(last=False)


_memory = _Memory(_KEPT)
_QUICK_TEST, _EXACT_TEST = 2e-2, 5e-3  # accuracy of test errors on longer bags, in the two stages
_curves = _Memory(_CURVES_KEPT)
_one_at_a_time = threading.Lock()


def point(
    task: Task, training: Training, model: str, *, equal_samples: bool, quick: bool, near: Point | None = None
) -> Point:
    """The forecast of one model, remembered. `near`, a neighbouring point, is only a start for the solver."""
    exact_key = (task, training, model, equal_samples, False)
    key = exact_key if not quick else (*exact_key[:-1], True)
    known = _memory.get(exact_key) or _memory.get(key)
    if known is not None:
        return known
    try:
        found = _solve(task, training, model, equal_samples, quick, None if near is None else near.start)
    except (ValueError, ArithmeticError, MemoryError) as error:
        found = Point(float("nan"), failure=str(error) or "it takes more memory than there is")
    _memory.put(key, found)
    return found


def _solve(task, training, model, equal_samples, quick, start) -> Point:
    if model == "bayes":
        limit = bayes_limit(task, training.alpha0 + training.alpha1)
        return Point(limit.test_error, limit.errors["test_error"], limit.reachable_test_error, limit.hard)
    if not quick:
        found = forecast(
            task, training, model, equal_samples=equal_samples, accuracy=ACCURACY, with_capacity=False, warm_start=start
        )
        assert found.result is not None
        return Point(found.test_error, found.standard_error, start=WarmStart(found.result.fixed_point))
    law, _ = law_of(task, training, model)
    if law.refinable:
        draw = law.make_population
        law = replace(law, make_population=lambda _: draw(_QUICK_POINTS), first_points=0)
    alpha = readout_alpha(training, model, equal_samples)
    result = erm(law, alpha, training.ridge, training.loss, accuracy=1.0, warm_start=start)
    return Point(result.test_error, result.standard_error, start=WarmStart(result.fixed_point))


def tested_at(task: Task, training: Training, length: int, quick: bool) -> dict[str, float]:
    """Attention trained on the task and tested on bags of another length: its measures, remembered.

    `threshold_error` is the test error with the threshold fitted to those bags.
    """
    key = ("tested", task, training, length, quick)
    known = _memory.get(key)
    if known is None:
        accuracy = _QUICK_TEST if quick else _EXACT_TEST
        trained = ("trained", task, training, quick)
        solved = _memory.get(trained)
        if solved is None:
            solved = erm(
                law_of(task, training, "attention")[0],
                training.alpha1,
                training.ridge,
                training.loss,
                accuracy=accuracy,
            )
            _memory.put(trained, solved)
        bags = task.but(length=length)
        there = solved.on(bags, accuracy=accuracy)
        known = {name: getattr(there, name) for name in ("test_error", "auc", "sensitivity", "specificity")}
        known["threshold_error"] = min(there.test_error, threshold_error(solved, same_mechanism(solved.law, bags)))
        _memory.put(key, known)
    return known


def threshold(task: Task, training: Training, model: str, quick: bool) -> Capacity:
    """The separability threshold of a model's features, remembered."""
    key = ("capacity", task, training, model, quick)
    known = _memory.get(key)
    if known is None:
        law, _ = law_of(task, training, model)
        if law.refinable:
            law = replace(law, first_points=_QUICK_POINTS if quick else 1024)
        known = capacity(law, accuracy=0.05 if quick else 0.005)
        _memory.put(key, known)
    return known


@dataclass(frozen=True, eq=False)
class Curve:
    """Test and training error over the steps 0 .. T with their standard errors; why there are none, in `failure`."""

    test_error: np.ndarray
    test_spread: np.ndarray
    train_error: np.ndarray
    train_spread: np.ndarray
    failure: str = ""

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
    task: Task, descent: Descent, alpha: float, loss: str | Loss, *, quick: bool, alive: Alive = always
) -> Curve:
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
    quick : bool
        Whether `QUICK_REPLICATES` are enough.
    alive : callable
        Called between replicates; may raise to stop the work.

    Returns
    -------
    Curve
    """
    exact_key = (task, descent, alpha, loss, False)
    key = (*exact_key[:-1], quick)
    known = _curves.get(exact_key) or _curves.get(key)
    if known is not None:
        return known
    bags = bags_for(task, descent)
    if not bags:
        words = f"{descent.steps} steps on bags of {task.length} tokens take too long for this page; take fewer or shorter ones"
        return Curve(*(np.array([]),) * 4, failure=words)
    # One at a time: pages that move on while theirs waits leave before it begins.
    with _one_at_a_time:
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
                replicates=QUICK_REPLICATES if quick else REPLICATES,
                progress=lambda done, wanted: alive(),
            )
            curve = Curve(found.test_error, found.standard_error, found.train_error, found.errors["train_error"])
        except (ValueError, ArithmeticError, MemoryError) as error:
            curve = Curve(*(np.array([]),) * 4, failure=str(error) or "it takes more memory than there is")
    _curves.put(key, curve)
    return curve

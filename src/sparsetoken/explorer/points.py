"""Forecasts for the page: quick ones for the first answer, the library's own for the second, each computed once.

A quick point solves the same equations on few draws (about 1 % off in the test error); an exact one is
`forecast(..., accuracy=1e-3)`.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ..task import Task
from ..theory import Capacity, WarmStart, bayes_limit, capacity, erm, forecast
from ..theory.forecast import law_of, readout_alpha
from ..training import Training

ACCURACY = 1e-3
_QUICK_POINTS = 128
_KEPT = 20_000


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

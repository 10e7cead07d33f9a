"""Forecasts for the page, each computed once: quick ones with few draws (about 1 % off), and the library's own, exact."""

from __future__ import annotations

import math
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar

from .. import theory
from ..losses import Loss
from ..task import Task
from ..theory.accuracy import UnstableTrainingWarning
from ..theory.fixed_point.plain import quick_readout
from ..theory.forecast import law_of, readout_alpha
from ..theory.refit import error_at_best_threshold
from ..training import Training
from ..trajectories import Trajectory
from .fields import Descent

# Of exact points: more than the eye needs, so that lines show no step where the number of draws changes.
ACCURACY = 2e-4
KEPT = 200  # answers, pages and their simulations; a hundred times as many points
# Training step by step: replicates and bags in each. The page fixes both, which bounds the time, and shows the resulting
# standard errors. With fewer bags than 256 results are off by more than 1 %.
REPLICATES, BAGS_TRIED = 8, (1024, 512, 256)

_Found = TypeVar("_Found")
# Errors that mean no answer: a message about the settings, or lack of memory.
REFUSALS = (ValueError, ArithmeticError, MemoryError)


def words_of(error: Exception) -> str:
    """The page's message for an error; Python's own message for lack of memory is empty."""
    if isinstance(error, MemoryError):
        return "it takes more memory than there is"
    return str(error) or type(error).__name__


def attempt(compute: Callable[[], _Found], failures: list[str]) -> _Found | None:
    """The result of `compute`, or None where the library has no answer; the reason is added to the failures."""
    try:
        return compute()
    except REFUSALS as error:
        failures.append(words_of(error))
        return None


class Superseded(Exception):
    """The page has moved on to other parameters: nobody waits for this answer."""


_check: ContextVar[Callable[[], None]] = ContextVar("check", default=lambda: None)


@contextmanager
def wanted_while(check: Callable[[], None]) -> Iterator[None]:
    """Work that `check` ends, by raising `Superseded`, when its page has moved on."""
    token = _check.set(check)
    try:
        yield
    finally:
        _check.reset(token)


def still_wanted() -> None:
    """Raise `Superseded` where nobody waits for the current work; called between its points."""
    _check.get()()


@dataclass(frozen=True)
class Point:
    """A model's test error or the reason of its `failure`; of a Bayes limit also what message passing reaches."""

    test_error: float
    standard_error: float = 0.0
    reachable: float = float("nan")
    reachable_error: float = 0.0
    hard: bool = False
    failure: str = ""


@lru_cache(100 * KEPT)
def point(task: Task, training: Training, model: str, quick: bool) -> Point:
    """The forecast of one model."""
    still_wanted()
    try:
        if model == "bayes":
            return _bayes_point(task, training)
        return (_quick_point if quick else _exact_point)(task, training, model)
    except REFUSALS as error:
        return Point(float("nan"), failure=words_of(error))


def _bayes_point(task: Task, training: Training) -> Point:
    limit = theory.bayes_limit(task, training.alpha0 + training.alpha1)
    reachable = limit.reachable_test_error, limit.errors["reachable_test_error"]
    return Point(limit.test_error, limit.errors["test_error"], *reachable, limit.hard)


# The last fixed point of every model under every loss: values that a slider moves have their solutions close by. The fixed
# point alone, since with the neighbour's draws an answer would depend on where the page came from.
_starts: dict[tuple[str, str], Any] = {}


def _quick_point(task: Task, training: Training, model: str) -> Point:
    law, key = law_of(task, training, model)[0].on_draws(64), (model, str(training.loss))  # 12 ms, errors of about 1e-3
    alpha = readout_alpha(training, model)
    readout = quick_readout(law, alpha, training.ridge, training.loss, _starts.get(key))
    _starts[key] = readout.x
    return Point(readout.test_error, readout.standard_error)


def _exact_point(task: Task, training: Training, model: str) -> Point:
    key = (model, str(training.loss))
    tolerance = 25 * ACCURACY if model.startswith("heads") else ACCURACY  # half a second for a point of several heads
    start = theory.WarmStart(_starts[key]) if key in _starts else None
    accuracy = theory.Accuracy(tolerance, warm_start=start)
    forecast = theory.forecast(task, training, model, accuracy=accuracy, with_capacity=False)
    assert forecast.result is not None
    _starts[key] = forecast.result.warm_start.x
    return Point(forecast.test_error, forecast.standard_error)


@lru_cache(100 * KEPT)
def tested_at(task: Task, training: Training, length: int, quick: bool) -> dict[str, float]:
    """Measures of attention tested on bags of another length; `threshold_error` is that with the threshold fitted to them."""
    still_wanted()
    bags, accuracy = task.but(length=length), (250 if quick else 25) * ACCURACY
    trained = _trained(task, training, accuracy)
    there = trained.on(bags, accuracy=accuracy)
    measures = {name: getattr(there, name) for name in ("test_error", "auc", "sensitivity")}
    fitted = error_at_best_threshold(trained, trained.law.elsewhere(bags))
    return measures | {"threshold_error": min(there.test_error, fitted)}


@lru_cache(8)  # with the draws behind them these take 1 MB each, and up to 150
def _trained(task: Task, training: Training, accuracy: float) -> theory.ErmResult:
    law = law_of(task, training, "attention")[0]
    return theory.erm(law, training.alpha1, training.ridge, training.loss, accuracy=accuracy)


@lru_cache(100 * KEPT)
def threshold(task: Task, training: Training, model: str, quick: bool) -> theory.Capacity:
    """The separability threshold of a model's features."""
    still_wanted()
    law, _ = law_of(task, training, model)
    # At most a tenth of a second for a quick one, at alpha* = 1500 to 10 %.
    return theory.capacity(law, accuracy=0.05 if quick else 0.01, most_points=512 if quick else 2048)


@lru_cache(100 * KEPT)
def needed(task: Task, training: Training, method: str, target: float | None) -> float:
    """The strength at which a method of `ladder` or a trained classifier (k² = 2 log L) has this error; None: cosine 1/2."""
    still_wanted()
    model = method.removeprefix("trained:")
    if target is None or model == method:
        over = {"length": [task.longest]}
        alpha = training.alpha0 + training.alpha1
        return float(theory.ladder(task, alpha, [method], over=over, cosine=None, test_error=target).needed[method][0])

    def error(at: Task) -> float:
        chosen = training.but(equal_samples=True)
        sharpness = theory.alignment(at, chosen).sharpness if model == "attention" else 0.0
        if sharpness > 0:
            chosen = chosen.but(eta_q=chosen.eta_q * math.sqrt(2 * math.log(at.longest)) / sharpness)
        return _quick_point(at, chosen, model).test_error

    return theory.strength_needed(task, target, error)


def bags_for(task: Task, descent: Descent) -> int:
    """Bags per replicate within the page's time and memory; 0 where even the fewest are too many."""
    fields = (descent.steps + 1) * task.longest * descent.bag_model.rank
    # 130 MB of buffers, and 4 CPU seconds at 60 steps.
    return next((bags for bags in BAGS_TRIED if fields * bags <= 4e6), 0)


_one_at_a_time = threading.Lock()  # up to 600 MB are held for a moment


@lru_cache(KEPT)
def descent_curve(task: Task, descent: Descent, alpha: float, loss: str | Loss) -> Trajectory | str:
    """Training step by step on n = alpha d bags, or why there is none."""
    bags = bags_for(task, descent)
    if not bags:
        return f"{descent.steps} steps on bags of {task.length} tokens take too long for this page; take fewer or shorter ones"
    with _one_at_a_time, warnings.catch_warnings():
        warnings.simplefilter("ignore", UnstableTrainingWarning)  # the page shows it itself
        still_wanted()
        sampling = theory.Sampling(bags, REPLICATES, progress=lambda *_: still_wanted())
        model, stage, start = descent.bag_model, descent.stage(alpha), descent.start_norms
        try:
            return theory.trajectory(task, model, stage, loss, start, accuracy=1.0, sampling=sampling)
        except REFUSALS as error:
            return words_of(error)

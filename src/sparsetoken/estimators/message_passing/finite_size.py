"""Test error of `MessagePassingClassifier` at a finite number of bags, by fits to bags drawn from the task."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np

from ..._core.validation import whole_number
from ...bags.segments import starts_of
from ...laws.draws import with_shared_part
from ...simulation.samplers import sample_bags
from ...simulation.samplers.drawn_bags import draw_bags
from ...simulation.seeds import stream
from ...task import Task
from ...theory import bayes_limit
from ..base import TrainingWarning
from .classifier import MessagePassingClassifier

AFFORDABLE = 2**25  # numbers n L d of a drawn data set: 134 MB in single precision, and seconds per fit
TEST_BAGS = 20_000  # their number adds a standard error of at most .0035 per draw


@dataclass(frozen=True)
class SimulatedError:
    """What fits to drawn bags achieve.

    `test_error` is the mean over the draws with its `standard_error`; `limit` is that of state evolution (n, d to infinity at
    the same n/d). `dimension` is the d of the fits: smaller than asked for where n L d is not affordable, and then the
    difference from the limit is taken to fall like 1/d.
    """

    test_error: float
    standard_error: float
    limit: float
    dimension: int
    draws: int


def simulated_error(task: Task, n: int, d: int, seed: int = 0, draws: int = 3) -> SimulatedError:
    """Mean test error of message passing on n bags in d dimensions, everything estimated from the bags.

    Data sets of up to `AFFORDABLE` numbers are drawn in full: the law is exact. Larger ones are replaced by data sets of the
    same n/d and L in fewer dimensions d', and error(d) = limit + (d'/d) (error(d') - limit).
    """
    n, d, draws = whole_number("n", n, 2), whole_number("d", d, 2), whole_number("draws", draws, 1)
    shrink = min(1.0, (AFFORDABLE / (n * task.longest * d)) ** 0.5)
    small_d, small_n = max(2, round(shrink * d)), max(2, round(shrink * n))
    limit = bayes_limit(task, n / d).reachable_test_error
    errors = np.array([_error_of_a_draw(task, small_n, small_d, seed + k) for k in range(draws)])
    gaps = shrink * (errors - limit)
    spread = gaps.std(ddof=1) / np.sqrt(draws) if draws > 1 else float("nan")
    return SimulatedError(float(limit + gaps.mean()), float(spread), limit, small_d, draws)


def _error_of_a_draw(task: Task, n: int, d: int, seed: int) -> float:
    """Test error of one fit, about the true label, on fresh bags of which only the product with the estimate is drawn."""
    tokens, labels, signal = sample_bags(task, n, d, seed)
    model = MessagePassingClassifier(scale=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TrainingWarning)  # a weak signal is what is measured
        model.fit([bag.astype(np.float32) for bag in tokens], labels)
    weights, origin = _affine_field(model)
    bags = draw_bags(task, TEST_BAGS, seed + 2**32, "_test").in_order_of_length()
    starts = starts_of(bags.lengths.astype(np.intp))
    rng = stream(seed, "tokens_test")
    along = rng.standard_normal(int(bags.lengths.sum()))
    if task.correlation:
        for which, length in bags.by_length():
            rows = slice(starts[which.start], starts[which.start] + length * (which.stop - which.start))
            part = along[rows].reshape(-1, length, 1)
            along[rows] = with_shared_part(part, task.correlation).ravel()
    along *= float(np.linalg.norm(weights))
    owners, places, strength = bags.places(stream(seed, "places_test"))
    along[starts[owners] + places] += strength * float(signal @ weights)
    evidence = model.strength_ * (along - origin) - 0.5 * model.strength_**2 * model.overlap_
    odds = model.calibration_(model.side_ * model.prior_.posterior(evidence, starts)[0])
    return float(np.mean((odds > 0) != (bags.truth > 0)))


def _affine_field(model: MessagePassingClassifier) -> tuple[np.ndarray, float]:
    """(w, c) with <x, w> - c the field of a token x along the signal, scaled and whitened."""
    noise, scaler = model.noise_, model.scaler_
    assert noise is not None and scaler is not None  # whiten is True
    white = noise.whitening @ model.signal_
    weights = white / scaler.scale_
    return weights, float(scaler.mean_ @ weights + noise.mean @ white + model.ratio_.offset)

"""Simulated training at a given n and d: combined with forecasts, and the only forecast of message passing at finite size."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._core.averages import standard_error
from ..bags.segments import starts_of
from ..classifiers import has_query
from ..laws.draws import with_shared_part
from ..laws.law import law_of_model
from ..simulation import simulate
from ..simulation.samplers import sample_bags
from ..simulation.samplers.drawn_bags import draw_bags
from ..simulation.seeds import stream
from ..task import Task
from ..theory import bayes_limit
from ..training import Training
from .criterion import Criterion, Measured
from .forecast_at import POINTS, SIMULATION_SEED, remainder, with_both_classes

TRIALS = 8  # data sets
AFFORDABLE = 2**25  # numbers n L d of a data set for message passing: 134 MB in single precision, and seconds per fit
TEST_BAGS = 20_000  # test bags: they add a standard error of at most .0035 per draw


def simulated_losses(task: Task, training: Training, d: int, model: str, criterion: Criterion) -> list[float]:
    """Losses of a classifier trained on `TRIALS` data sets of this size; none where they are too large to simulate."""
    n0, n1 = round(training.alpha0 * d) if has_query(model) else 0, round(training.alpha1 * d)
    features = n1 * min(n1, d * (task.longest if model == "vectorized" else 1))
    if max(features, n0 + d) > 10_000_000:  # numbers in the readout's features, or in the gradient steps
        return []
    results = with_both_classes(lambda s: simulate(task, training, d, s, model), TRIALS, SIMULATION_SEED)
    return [_loss(task, result, criterion) for result in results]


def _loss(task: Task, result: Any, criterion: Criterion) -> float:
    """The criterion's loss of a simulated classifier."""
    if criterion.kind == "error":
        return float(result.test_error)
    if criterion.kind == "auc":
        return 1.0 - float(result.auc)
    cosine, sharpness = (result.steps.query_cosine, result.steps.sharpness) if result.steps else (1.0, 0.0)
    law = law_of_model(task, result.model, float(np.clip(cosine, -1, 1)), sharpness).on_draws(8 * POINTS)
    x = np.array([result.m_q, result.m_u, math.log(max(result.nu, 1e-300)), result.bias, 0.0])
    return float(criterion.losses_at(x[None], law.at(law.first_points)[0]).mean())


def fewest_simulated_bags(task: Task) -> int:
    """n with eight expected bags of the rarer class: a draw then lacks a class once in thousands."""
    return math.ceil(8 / min(task.prevalence, 1 - task.prevalence))


def simulated_message_passing(task: Task, n: int, d: int, criterion: Criterion, draws: int) -> Measured | None:
    """Loss of `MessagePassingClassifier` on drawn bags of this size; None where it is not simulated.

    Only test errors are, and only from `fewest_simulated_bags` on.
    """
    if not criterion.weighs_prevalence or n < fewest_simulated_bags(task):
        return None
    return message_passing_error(task, n, d, SIMULATION_SEED, draws)


def message_passing_error(task: Task, n: int, d: int, seed: int, draws: int) -> Measured:
    """Mean test error of message passing on n bags in d dimensions, everything estimated from the bags.

    Data sets of more than `AFFORDABLE` numbers are replaced by data sets of the same n/d and L in fewer dimensions d', and
    error(d) = limit + (d'/d) (error(d') - limit), at least the limit.
    """
    shrink = min(1.0, (AFFORDABLE / (n * task.longest * d)) ** 0.5)
    small_d, small_n = max(2, round(shrink * d)), max(2, round(shrink * n))
    limit = bayes_limit(task, n / d).reachable_test_error
    gaps = [shrink * (_error_of_a_draw(task, small_n, small_d, seed + k) - limit) for k in range(draws)]
    loss = limit + float(np.mean(gaps))
    tested = shrink * math.sqrt(loss * (1 - loss) / (draws * TEST_BAGS))
    error = max(standard_error(np.array(gaps)), tested)
    return Measured(loss if shrink == 1.0 else max(loss, limit), math.hypot(error, remainder(loss, n, d)))


def _error_of_a_draw(task: Task, n: int, d: int, seed: int) -> float:
    """Test error of one fit, about the true label, on fresh bags of which only the product with the estimate is drawn."""
    from ..estimators import MessagePassingClassifier
    from ..estimators.base import TrainingWarning

    tokens, labels, signal = sample_bags(task, n, d, seed)
    model = MessagePassingClassifier(scale=False)
    with warnings.catch_warnings(action="ignore", category=TrainingWarning):  # a weak signal is expected here
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


def _affine_field(model: Any) -> tuple[np.ndarray, float]:
    """(w, c) with <x, w> - c the field of a token x along the signal, scaled and whitened."""
    noise, scaler = model.noise_, model.scaler_
    assert noise is not None and scaler is not None  # whiten is True
    white = noise.whitening @ model.signal_
    weights = white / scaler.scale_
    return weights, float(scaler.mean_ @ weights + noise.mean @ white + model.ratio_.offset)


def mean_loss(losses: Sequence[float], scatter: float = 0.0) -> Measured:
    """Mean of simulated losses; `scatter` is the standard deviation between data sets by the forecast.

    A few trials of a skewed law have a small mean and a small deviation together, hence the larger of the two deviations.
    """
    deviation = max(float(np.std(losses, ddof=1)), scatter)
    return Measured(float(np.mean(losses)), deviation / math.sqrt(len(losses)))


def combined(forecast: Measured, simulated: Measured) -> Measured:
    """The mean of both, weighted by their errors; its error is scaled up where they differ by more than their errors."""
    errors = np.maximum([forecast.standard_error, simulated.standard_error], 1e-12)
    weights = errors**-2 / np.sum(errors**-2)
    loss = float(weights @ [forecast.loss, simulated.loss])
    tension = abs(forecast.loss - simulated.loss) / float(np.hypot(*errors))
    return Measured(loss, float(np.sum(errors**-2) ** -0.5) * max(1.0, tension))

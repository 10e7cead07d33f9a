"""Simulated training at a given n and d: combined with forecasts, and the only forecast of message passing at finite size."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..classifiers import has_query
from ..laws.law import law_of_model
from ..simulation import simulate
from ..task import Task
from ..training import Training
from .criterion import Criterion, Measured
from .finite_size import with_both_classes

TRIALS = 8  # data sets
MOST_FEATURES = (
    10_000_000  # numbers in a simulated readout's features, or in its gradient steps; beyond, nothing is simulated
)
SIMULATION_SEED = 2  # other seeds than those that settings are chosen on (`tuning`)
_RARE_BAGS = 8  # of the rarer class, for which a draw lacks a class once in thousands
_SCORES = 1024  # draws of a trial's scores where its loss has no closed form


def simulated_losses(task: Task, training: Training, d: int, model: str, criterion: Criterion) -> list[float]:
    """Losses of a classifier trained on `TRIALS` data sets of this size; none where they are too large to simulate."""
    n0, n1 = round(training.alpha0 * d) if has_query(model) else 0, round(training.alpha1 * d)
    features = n1 * min(n1, d * (task.longest if model == "vectorized" else 1))
    if max(features, n0 + d) > MOST_FEATURES:
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
    law = law_of_model(task, result.model, float(np.clip(cosine, -1, 1)), sharpness).on_draws(_SCORES)
    x = np.array([result.m_q, result.m_u, math.log(max(result.nu, 1e-300)), result.bias, 0.0])
    return float(criterion.losses_at(x[None], law.at(law.first_points)[0]).mean())


def fewest_simulated_bags(task: Task) -> int:
    """n from which nearly every draw holds enough bags of the rarer class for message passing."""
    return math.ceil(_RARE_BAGS / min(task.prevalence, 1 - task.prevalence))


def simulated_message_passing(task: Task, n: int, d: int, criterion: Criterion, draws: int) -> Measured | None:
    """Loss of `MessagePassingClassifier` on drawn bags of this size; None where it is not simulated.

    Only test errors are, and only from `fewest_simulated_bags` on.
    """
    from ..estimators.message_passing.finite_size import simulated_error

    if not criterion.weighs_prevalence or n < fewest_simulated_bags(task):
        return None
    simulated = simulated_error(task, n, d, SIMULATION_SEED, draws)
    return Measured(simulated.test_error, simulated.standard_error)


def mean_loss(losses: Sequence[float], scatter: float = 0.0) -> Measured:
    """Mean of simulated losses; `scatter` is a standard deviation between data sets that is known otherwise.

    A few trials of a skewed law have a small mean and a small deviation together, hence the larger of the two deviations.
    """
    deviation = max(float(np.std(losses, ddof=1)), scatter)
    return Measured(float(np.mean(losses)), deviation / math.sqrt(len(losses)))


def combined(forecast: Measured, simulated: Measured) -> Measured:
    """Both weighted by their errors; the error grows in proportion where they differ by more than these allow."""
    errors = np.maximum([forecast.standard_error, simulated.standard_error], 1e-12)
    weights = errors**-2 / np.sum(errors**-2)
    loss = float(weights @ [forecast.loss, simulated.loss])
    tension = abs(forecast.loss - simulated.loss) / float(np.hypot(*errors))
    return Measured(loss, float(np.sum(errors**-2) ** -0.5) * max(1.0, tension))

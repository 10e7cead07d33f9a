"""A few simulations beside a forecast for given n and d."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ..laws.law import law_of_model
from ..models import has_query
from ..simulation import simulate
from ..simulation.repeats import mean_and_error
from ..task import Task
from ..training import Training
from .criterion import Criterion, Measured
from .finite_size import POINTS, forecast_at, on_fixed_draws, scaled_down, with_both_classes

_LARGEST_SAMPLE = 4_000_000  # numbers in a simulated readout's features; beyond, both n and d are scaled down
_LONGEST_STEPS = 2_000_000  # numbers n0 + d that a simulated gradient step holds; beyond likewise
_NOTHING = 1e-5  # differences that no test set shows
_SMALL, _POINTS_FOR_SMALL = 0.05, 4096  # losses below the first rest on few of the draws and get more
# Draws of a trial's scores where its loss has no closed form; all trials share them, and their error.
_POINTS_OF_TRIAL = 1024


@dataclass(frozen=True)
class Confirmation:
    """Simulations beside a forecast.

    Attributes
    ----------
    learner : str
        The model.
    value, standard_error : float
        Mean of the criterion over the simulated data sets, and its standard error.
    trials : int
        Data sets.
    n, d : int
        Their size: the plan's, or the largest with the same n/d that can be simulated (a few bags stay as many).
    forecast : float
        The forecast at that size.
    seeds : int
        The seed that the trials' seeds come from; settings are chosen on others.
    forecast_error : float
        The forecast's own standard error, which is large where a few unlucky queries make up most of the loss.
    """

    learner: str
    value: float
    standard_error: float
    trials: int
    n: int
    d: int
    forecast: float
    seeds: int = 1
    forecast_error: float = 0.0

    @property
    def spread(self) -> float:
        """Standard deviation of the criterion's value from one data set to the next."""
        return self.standard_error * math.sqrt(self.trials)

    @property
    def agrees(self) -> bool:
        """Whether forecast and simulation differ by at most 15 % or three standard errors (of both), or both are perfect."""
        gap, error = abs(self.forecast - self.value), math.hypot(self.standard_error, self.forecast_error)
        return gap <= max(0.15 * min(self.value, 1 - self.value), 3 * error, _NOTHING)

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain data, with the spread and the verdict."""
        return asdict(self) | {"spread": self.spread, "agrees": self.agrees}


def simulated_size(n0: int, n1: int, d: int, tokens: int = 1) -> float:
    """Factor by which n and d are scaled down so that gradient steps and features can be held (1 where they can).

    Parameters
    ----------
    n0, n1 : int
        Bags of the gradient steps and of the readout.
    d : int
        Dimension of a token.
    tokens : int
        Tokens of a bag that the readout sees one by one.

    Returns
    -------
    float
    """
    return min(1.0, math.sqrt(_LARGEST_SAMPLE / (n1 * min(n1, tokens * d))), _LONGEST_STEPS / (n0 + d))


def confirm(
    task: Task,
    training: Training,
    d: int,
    model: str,
    forecast: float,
    *,
    criterion: Criterion | str = "error",
    trials: int = 8,
    seed: int = 1,
    forecast_error: float = 0.0,
) -> Confirmation:
    """Simulate a model's training at given n and d a few times, to lay the mean beside its forecast.

    Parameters
    ----------
    task : Task
        What the data is.
    training : Training
        Staged; pooled and vectorized classifiers use alpha1 alone.
    d : int
        Dimension of a token.
    model : str
        "attention", "pooled" or "vectorized".
    forecast : float
        The forecast value at this size. Where n or d is too large to simulate it is made anew at the size simulated.
    criterion : Criterion or str
        What is measured.
    trials : int
        Data sets.
    seed : int
        Their seeds come from it.
    forecast_error : float
        The forecast's standard error.

    Returns
    -------
    Confirmation
        The mean and the forecast.
    """
    judged = Criterion.of(criterion)
    n0, n1 = round(training.alpha0 * d) if has_query(model) else 0, round(training.alpha1 * d)
    factor = simulated_size(n0, n1, d, task.longest if model == "vectorized" else 1)
    size = d
    if factor < 1:
        size = max(2, round(factor * d))
        n0, n1 = scaled_down(n0, size / d), scaled_down(n1, size / d)
        training = training.but(alpha0=n0 / size if n0 else training.alpha0, alpha1=n1 / size)
        points = POINTS if judged.shown(forecast) > _SMALL else _POINTS_FOR_SMALL
        made = forecast_at(task, training, size, model, criterion=judged, groups=6, points=points)
        found = Measured(judged.shown(made.value), made.standard_error)
        found = found.resolved() if has_query(model) else found
        forecast, forecast_error = judged.shown(found.loss), found.standard_error
    points = _POINTS_OF_TRIAL if judged.shown(forecast) > _SMALL else _POINTS_FOR_SMALL
    losses = []
    for result in with_both_classes(lambda s: simulate(task, training, size, s, model), trials, seed):
        losses.append(simulated_loss(task, result, judged, points))
    mean, error = mean_and_error(losses)
    return Confirmation(model, judged.shown(mean), error, len(losses), n0 + n1, size, forecast, seed, forecast_error)


def simulated_loss(task: Task, result: Any, criterion: Criterion, points: int = _POINTS_OF_TRIAL) -> float:
    """The criterion's loss of a simulated classifier; `points` draws of its scores where it has no closed form."""
    if criterion.kind == "error":
        return float(result.test_error)
    if criterion.kind == "auc":
        return 1.0 - float(result.auc)
    cosine, sharpness = (result.steps.query_cosine, result.steps.sharpness) if result.steps else (1.0, 0.0)
    law = on_fixed_draws(law_of_model(task, result.model, float(np.clip(cosine, -1, 1)), sharpness), points)
    x = np.array([result.m_q, result.m_u, math.log(max(result.nu, 1e-300)), result.bias, 0.0])
    return float(criterion.losses_at(x[None], law.at(law.first_points)[0]).mean())

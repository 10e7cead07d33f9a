"""Joint and tied training of the paper's attention: gradient descent on bag models, with the schedules of the theory.

The models are those of `bag_models`, seen through the tokens x_l of a bag:

    attention   z = sum_l p_l <w, x_l> + b,                   p = softmax(s <q, x_l>)        directions q and w
    tied        z = log((1/L) sum_l exp(s <w, x_l>)) / s + b                                 direction w

Both start at zero. A schedule (`schedules.Stage`) says how they move, on all bags at every step:

    theta <- theta (1 - decay rate) + momentum (theta - theta before) - rate sum_i p_i dl(z_i; y_i)/dtheta,   theta = q, w
    b     <- b - rate_b sum_i p_i dl(z_i; y_i)/db,                                           p_i: normalised weights

which is what `theory.trajectory` forecasts for data drawn from the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..bag_models import get_bag_model
from ..bags.bags import Bags
from ..losses import Loss
from ..schedules import FIRST_BIAS_RATE, FIRST_DECAY, FIRST_RATE, Stage, as_stages, expand
from .calibration import Calibration, final_calibration, fit_calibration, unvalidated_calibration
from .folds import stratified_folds, weights_without_folds
from .heads import Head, shared_objective
from .power_iteration import largest_eigenvalue

KIND = {"joint": "free", "tied": "tied"}
MODEL = {"joint": "attention", "tied": "tied"}
# Steps of the default schedule on white tokens, and the most on tokens whose largest variance asks for smaller steps.
STEPS, MOST_STEPS = 30, 300
# Sharpnesses s to choose from. The schedules that `theory.design` finds for one to three signal tokens among ten lie between.
SHARPNESSES = (1.0, 2.0, 4.0)


@dataclass(frozen=True)
class Descended:
    """What a descent arrived at.

    Attributes
    ----------
    head : Head
        Query (sharpness included), readout and bias.
    stages : tuple of Stage
        The schedule up to the step that was chosen, with the bags' own alpha.
    sharpness : float
        s that was chosen.
    calibration : Calibration
        What turns z into log odds.
    held_out : ndarray or None
        Scores of bags left out of the descent; None where nothing was held out.
    """

    head: Head
    stages: tuple[Stage, ...]
    sharpness: float
    calibration: Calibration
    held_out: np.ndarray | None


def fit_descent(
    training: str,
    bags: Bags,
    signs: np.ndarray,
    weights: np.ndarray,
    loss: Loss,
    stages: Stage | Sequence[Stage] | str,
    sharpness: float | str,
    rng: np.random.Generator,
    groups: np.ndarray | None = None,
) -> Descended:
    """Descend the mean loss plus decay as the module's head says.

    With "auto" for the stages, the schedule is the one from which `theory.design` sets out, its rates divided by the largest
    variance of the tokens where that exceeds white noise's, and held-out bags choose the step at which to stop; they choose
    an "auto" sharpness as well, and calibrate. What is given is done as it is.

    Parameters
    ----------
    training : {"joint", "tied"}
        Which model descends.
    bags : Bags
        All bags, scaled.
    signs, weights : ndarray
        Their labels and weights.
    loss : Loss
        l.
    stages : Stage, sequence of Stage or "auto"
        The schedule; the bags given are its data, whatever its alpha.
    sharpness : float or "auto"
        s.
    rng : numpy.random.Generator
        Deals out the folds.
    groups : ndarray of int, optional
        Bags that stay on one side of every split.

    Returns
    -------
    Descended
        The trained model.
    """
    alpha = len(signs) / bags.n_features
    automatic = isinstance(stages, str)
    directions = get_bag_model(MODEL[training]).directions
    schedule = (_first_schedule(bags, alpha, directions),) if automatic else _on_these_bags(stages, alpha, directions)
    sharpnesses = SHARPNESSES if isinstance(sharpness, str) else (sharpness,)
    choosing = automatic or len(sharpnesses) > 1
    folds = stratified_folds(signs, rng, groups=groups) if choosing else []
    rows = weights_without_folds(weights, folds)
    paths = [_descend(training, bags, signs, rows, loss, schedule, s) for s in sharpnesses]
    steps = len(paths[0]) - 1
    best, stop, calibration, held_out = 0, steps, Calibration(), None
    if folds:
        candidates = [(k, t) for k in range(len(paths)) for t in (range(1, steps + 1) if automatic else (steps,))]
        least = np.inf
        for k, t in candidates:
            scores = np.empty(len(signs))
            for fold, held in enumerate(folds):
                scores[held] = paths[k][t].scores[fold, held]
            fitted = fit_calibration(scores, signs, weights)
            if fitted.loss < least:
                least, best, stop, calibration, held_out = fitted.loss, k, t, fitted, scores
        calibration = final_calibration(calibration, signs, weights, len(candidates), scores=held_out, groups=groups)
    elif choosing:  # nothing can be held out
        calibration = unvalidated_calibration(signs, weights)
    s = sharpnesses[best]
    point = paths[best][stop].parameters[-1]
    d = bags.n_features
    query = s * point[:d]  # of a tied model, its readout
    head = Head(KIND[training], query, point[-1 - d : -1], float(point[-1]), s if training == "tied" else 1.0)
    return Descended(head, _until(schedule, stop), float(s), calibration, held_out)


@dataclass(frozen=True)
class _Point:
    """Parameters of all descents after a step (descents, parameters), and their scores of all bags (descents, bags)."""

    parameters: np.ndarray
    scores: np.ndarray


def _descend(
    training: str,
    bags: Bags,
    signs: np.ndarray,
    weights: np.ndarray,
    loss: Loss,
    stages: tuple[Stage, ...],
    sharpness: float,
) -> list[_Point]:
    """Steps 0 .. T of descents that differ in the bags' weights alone, by one pass over the tokens per step."""
    kind, d, count = KIND[training], bags.n_features, len(weights)
    p = weights / weights.sum(axis=1, keepdims=True)
    scores = np.empty((count, len(signs)))
    objective = shared_objective(kind, loss, sharpness, bags, signs, p, 0.0, scores)
    schedule = expand(stages, get_bag_model(MODEL[training]).directions)
    width = 2 * d if training == "joint" else d
    # The passes know attention by its query with the sharpness in it; the schedule moves the direction without.
    inner = np.ones(width + 1)
    if training == "joint":
        inner[:d] = sharpness
    x = before = np.zeros((count, width + 1))
    every, path = np.arange(count), []
    for t in range(schedule.steps + 1):
        _, gradient = objective(x * inner, every)
        path.append(_Point(x, scores.copy()))
        if t == schedule.steps:
            break
        rates = np.append(np.repeat(schedule.rates[t, :-1], d), schedule.rates[t, -1])
        decay = np.append(np.repeat(schedule.decay[t], d), 0.0)
        momentum = np.append(np.full(width, schedule.momentum[t]), 0.0)
        x, before = x * (1.0 - decay * rates) + momentum * (x - before) - rates * gradient * inner, x
        if not np.all(np.isfinite(x)):
            raise ValueError(f"stages must have smaller rates: the descent diverged at step {t + 1}")
    return path


def _first_schedule(bags: Bags, alpha: float, directions: tuple[str, ...]) -> Stage:
    """The schedule from which `theory.design` sets out, with rates for these tokens' largest variance."""
    white = (1.0 + np.sqrt(bags.n_features / bags.n_tokens)) ** 2  # the largest variance of as many white tokens
    slower = max(1.0, _largest_variance(bags.tokens) / white)
    rates = dict.fromkeys(directions, FIRST_RATE / slower) | {"bias": FIRST_BIAS_RATE}
    decay = dict.fromkeys(directions, FIRST_DECAY)
    return Stage(int(min(MOST_STEPS, round(STEPS * slower))), alpha, rates, decay)


def _largest_variance(tokens: Any) -> float:
    """Largest eigenvalue of the tokens' second moments, on a sample of them."""
    sample = np.asarray(tokens[:: max(1, len(tokens) // 5000)], dtype=np.float64)
    return largest_eigenvalue(lambda v: (sample @ v) @ sample / len(sample), sample.shape[1])


def _on_these_bags(stages: Any, alpha: float, directions: tuple[str, ...]) -> tuple[Stage, ...]:
    """The stages with these bags as their data; schedules on several data sets are refused."""
    found = as_stages(stages)
    if len(set(expand(found, directions).data_set)) > 1:
        raise ValueError("stages must use one data set, all bags at every step: other schedules are for the theory")
    return tuple(replace(stage, alpha=alpha) for stage in found)


def _until(stages: tuple[Stage, ...], stop: int) -> tuple[Stage, ...]:
    """The schedule's first `stop` steps."""
    found, left = [], stop
    for stage in stages:
        steps = min(stage.steps, left)
        left -= steps
        if steps == stage.steps:
            found.append(stage)
        elif steps:

            def cut(value, steps=steps):
                return value[:steps] if isinstance(value, tuple) else value

            rates = {name: cut(value) for name, value in stage.rates.items()}
            decay = {name: cut(value) for name, value in stage.decay.items()}
            found.append(replace(stage, steps=steps, rates=rates, decay=decay, momentum=cut(stage.momentum)))
    return tuple(found)

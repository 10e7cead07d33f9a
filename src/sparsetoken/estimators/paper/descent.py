"""Joint and tied training of the paper's attention: gradient descent on bag models, with the schedules of the theory.

The models are the heads of `joint_heads`, free with a query times s ("attention" among `bag_models`) and tied. Both start at
zero. A schedule (`schedules.Stage`) defines the steps, each on all bags:

    theta <- theta (1 - decay rate) + momentum (theta - theta before) - rate sum_i p_i dl(z_i; y_i)/dtheta,   theta = q, w
    b     <- b - rate_b sum_i p_i dl(z_i; y_i)/db,                                           p_i: normalised weights

which is what `theory.trajectory` forecasts for data drawn from the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ...bag_models import get_bag_model
from ...bags.bags import Bags
from ...bags.scaler import varying_features
from ...losses import Loss
from ...schedules import FIRST_BIAS_RATE, FIRST_DECAY, FIRST_RATE, Stage, as_stages, expand
from ..calibration import Calibration, best_calibrated, unvalidated_calibration
from ..labels import own_folds, weights_without_folds
from .joint_heads import Head, shared_objective
from .linear import TrainingSet
from .two_steps import noise_scales, pooled_tokens

KIND = {"joint": "free", "tied": "tied"}
MODEL = {"joint": "attention", "tied": "tied"}
# Sharpnesses s to choose from. The schedules that `theory.design` finds for one to three signal tokens among ten lie between.
SHARPNESSES = (1.0, 2.0, 4.0)


@dataclass(frozen=True)
class Descended:
    """The result of a descent."""

    head: Head
    stages: tuple[Stage, ...]
    sharpness: float
    calibration: Calibration
    held_out: np.ndarray | None
    side: float


def fit_descent(
    training: str, data: TrainingSet, stages: Stage | Sequence[Stage] | str, sharpness: float | str
) -> Descended:
    """Descend the mean loss plus decay by the equations of the module's docstring.

    With "auto" stages the schedule is that of `_first_schedule`, stopped where the held-out loss is least; held-out bags also
    choose an "auto" sharpness, calibrate, and choose the side of a tied model (by the training loss, where nothing is held
    out).
    """
    bags, signs, weights, loss = data.bags, data.signs, data.weights, data.loss
    alpha = len(signs) / bags.n_features
    automatic = isinstance(stages, str)
    directions = get_bag_model(MODEL[training]).directions
    schedule = (_first_schedule(bags, alpha, directions),) if automatic else _on_these_bags(stages, alpha, directions)
    sharpnesses = SHARPNESSES if isinstance(sharpness, str) else (sharpness,)
    choosing = automatic or len(sharpnesses) > 1
    folds = data.folds() if choosing else []
    without = weights_without_folds(weights, folds)
    trials = [(side, s) for side in (data.sides if training == "tied" else (1.0,)) for s in sharpnesses]
    paths = [_descend(training, bags, side * signs, without, loss, schedule, s) for side, s in trials]
    steps = len(paths[0]) - 1
    calibration, held_out = Calibration(), None
    if folds:
        settings = [(k, t) for k in range(len(paths)) for t in (range(1, steps + 1) if automatic else (steps,))]
        rows = (trials[k][0] * own_folds(paths[k][t].scores, folds) for k, t in settings)
        chosen, held_out, calibration = best_calibrated(rows, signs, weights, data.groups)
        best, stop = settings[chosen]
    else:
        training_losses = [weights @ loss.value(path[steps].scores[-1], t[0] * signs) for t, path in zip(trials, paths)]
        best, stop = int(np.argmin(training_losses)), steps
        if choosing:  # nothing can be held out
            calibration = unvalidated_calibration(signs, weights)
    side, s = trials[best]
    point = paths[best][stop].parameters[-1]
    d = bags.n_features
    query = s * point[:d]  # of a tied model, its readout
    head = Head(KIND[training], query, point[-1 - d : -1], float(point[-1]), s if training == "tied" else 1.0)
    if training != "tied":
        pooled = pooled_tokens(bags)
        side = float(noise_scales(bags, pooled, signs, weights[None, :], query[None, :], data.sides)[1][0])
    return Descended(head, _until(schedule, stop), float(s), calibration, held_out, side)


class _Point(NamedTuple):
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
    # The passes take attention's query times the sharpness; the schedule moves the query without it.
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
    """The schedule from which `theory.design` starts, with rates for these tokens' largest variance."""
    varying = np.count_nonzero(varying_features(bags.tokens))
    white = (1.0 + np.sqrt(varying / bags.n_tokens)) ** 2  # the largest variance of as many white tokens
    slower = max(1.0, _largest_variance(bags.tokens) / white)
    rates = dict.fromkeys(directions, FIRST_RATE / slower) | {"bias": FIRST_BIAS_RATE}
    decay = dict.fromkeys(directions, FIRST_DECAY)
    steps = int(min(300, round(30 * slower)))  # 30 on white tokens, more where a large variance requires smaller ones
    return Stage(steps, alpha, rates, decay)


def _largest_variance(tokens: Any) -> float:
    """Largest eigenvalue of the tokens' second moments, by power iteration from the largest token."""
    tokens = np.asarray(tokens)
    v = tokens[int(np.argmax(np.einsum("ij,ij->i", tokens, tokens)))].astype(np.float64)
    length = float(np.linalg.norm(v))
    for _ in range(20):  # step sizes need one digit
        if not 0.0 < length < np.inf:
            return length
        v = np.asarray((tokens @ (v / length).astype(tokens.dtype)) @ tokens, dtype=np.float64) / len(tokens)
        length = float(np.linalg.norm(v))
    return length


def _on_these_bags(stages: Any, alpha: float, directions: tuple[str, ...]) -> tuple[Stage, ...]:
    """The stages with these bags as their data; schedules on several data sets are refused."""
    found = as_stages(stages)
    if len(set(expand(found, directions).data_set)) > 1:
        raise ValueError("stages must use one data set, all bags at every step: others are for theory.trajectory")
    return tuple(replace(stage, alpha=alpha) for stage in found)


def _until(stages: tuple[Stage, ...], stop: int) -> tuple[Stage, ...]:
    """The schedule's first `stop` steps."""

    def cut(value: Any, steps: int) -> Any:
        return value[:steps] if isinstance(value, tuple) else value

    found: list[Stage] = []
    for stage in stages:
        steps = min(stage.steps, stop - sum(before.steps for before in found))
        if steps:
            rates, decay = ({name: cut(v, steps) for name, v in some.items()} for some in (stage.rates, stage.decay))
            found.append(replace(stage, steps=steps, rates=rates, decay=decay, momentum=cut(stage.momentum, steps)))
    return tuple(found)

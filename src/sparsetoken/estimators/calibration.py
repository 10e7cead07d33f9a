"""Held-out scores and what they are good for: choosing settings, and turning scores into probabilities.

A readout fitted to few bags is too sure of the bags it has seen, and its threshold suffers with it: on bags with rare
signals this costs more accuracy than the choice of the model. Scores of bags that were held out carry no such bias.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from .._core.arrays import is_jax_array

FOLDS = 5
LOG_SLOPE, OFFSET = 1.0, 0.5  # standard deviations of the prior on log slope and offset, in units of log odds


@dataclass(frozen=True)
class Calibration:
    """log odds = slope * score + offset; `loss` is the mean logistic loss it leaves on the scores it was fitted to."""

    slope: float = 1.0
    offset: float = 0.0
    loss: float = float("nan")

    def __call__(self, scores: np.ndarray) -> np.ndarray:
        return self.slope * scores + self.offset


def fit_calibration(scores: np.ndarray, signs: np.ndarray, weights: np.ndarray) -> Calibration:
    """Platt's scaling of scores that mean to be log odds already: u = slope score + offset, by minimising

        sum_i p_i [log(1 + e^{u_i}) - t_i u_i] + (1/n) [(log slope)^2 / (2 LOG_SLOPE^2) + offset^2 / (2 OFFSET^2)]

    The last term is a prior around slope 1 and offset 0: a few dozen bags do not settle a threshold, and moving it by
    chance costs accuracy. The targets t are drawn in from 0 and 1 as Platt proposed, (n+ + 1)/(n+ + 2) and 1/(n- + 2),
    with n the (weighted) number of bags of the class, so that separated scores do not end in certainty. The slope is
    positive: an order is never turned round. `loss` is the first term alone.
    """
    n = len(signs)
    p = weights / weights.sum()
    positive, negative = n * p[signs > 0].sum(), n * p[signs < 0].sum()
    targets = np.where(signs > 0, (positive + 1.0) / (positive + 2.0), 1.0 / (negative + 2.0))

    def loss(slope: float, offset: float) -> tuple[float, np.ndarray]:
        u = slope * scores + offset
        return float(p @ (np.logaddexp(0.0, u) - targets * u)), p * (expit(u) - targets)

    def objective(parameters):
        slope, offset = np.exp(parameters[0]), parameters[1]
        value, residual = loss(slope, offset)
        prior = parameters / np.array([LOG_SLOPE, OFFSET])
        gradient = np.array([slope * (residual @ scores), residual.sum()])
        return value + 0.5 * prior @ prior / n, gradient + prior / np.array([LOG_SLOPE, OFFSET]) / n

    bounds = [(-12.0, 6.0), (None, None)]
    found = minimize(objective, [0.0, 0.0], jac=True, method="L-BFGS-B", bounds=bounds, options={"ftol": 1e-12})
    slope, offset = float(np.exp(found.x[0])), float(found.x[1])
    return Calibration(slope, offset, loss(slope, offset)[0])


def stratified_folds(signs: np.ndarray, rng: np.random.Generator, folds: int = FOLDS) -> list[np.ndarray]:
    """Index sets of held-out bags, each class dealt out evenly; empty where a class has fewer than two bags."""
    groups = [np.flatnonzero(signs > 0), np.flatnonzero(signs < 0)]
    folds = min(folds, *(len(g) for g in groups))
    if folds < 2:
        return []
    fold_of = np.empty(len(signs), dtype=int)
    for shift, group in enumerate(groups):
        # The second class is dealt from the other end, so that fold sizes stay even.
        dealt = np.arange(len(group)) % folds
        fold_of[rng.permutation(group)] = dealt if shift == 0 else folds - 1 - dealt
    return [np.flatnonzero(fold_of == k) for k in range(folds)]


def held_apart(
    samples: Any, signs: np.ndarray, weights: np.ndarray, held: np.ndarray
) -> tuple[tuple[Any, np.ndarray, np.ndarray], Any, np.ndarray | slice]:
    """(samples, signs, weights) to train on without the held ones; samples to score, and where among them the held ones are.

    Samples are `Bags` or rows of features. On a device all stay where they are and the held ones get weight zero, which
    comes to the same: no copies, and one shape for all folds, hence one compilation.
    """
    if is_jax_array(getattr(samples, "tokens", samples)):
        without = weights.copy()
        without[held] = 0.0
        return (samples, signs, without), samples, held
    rest = np.setdiff1d(np.arange(len(signs)), held)
    return (samples[rest], signs[rest], weights[rest]), samples[held], slice(None)


def area_under_curve(scores: np.ndarray, signs: np.ndarray) -> tuple[float, float]:
    """AUC (unweighted) and its standard error when the scores know nothing of the labels."""
    from scipy.stats import rankdata

    ranks = rankdata(scores)
    positive, negative = int(np.sum(signs > 0)), int(np.sum(signs < 0))
    area = (ranks[signs > 0].sum() - positive * (positive + 1) / 2) / (positive * negative)
    return float(area), float(np.sqrt((positive + negative + 1) / (12.0 * positive * negative)))

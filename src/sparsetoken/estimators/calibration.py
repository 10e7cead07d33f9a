"""Calibration: one scheme for the held-out scores of all learners.

1. Platt's scaling of the scores of bags that were held out (`fit_calibration`).
2. Its log odds are averaged with those of the class frequencies, by how much better they explain the held-out labels than
   chance would (`trust`), and stay within what the number of training bags supports (`final_calibration`).

Bags of one group (a patient) whose scores are alike count as fewer bags (`design_effect`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, logit

from ..laws.error_measures import shares_beaten

# Standard deviations of the prior on slope (around 1) and offset (around 0): the uncertainty that a few dozen bags leave.
SLOPE, OFFSET = 1.0, 0.5
# Gain in log likelihood that slope and offset reach on scores without signal one time in twenty (chi squared, two degrees of
# freedom): scores get half the trust where they explain held-out labels better than chance by this.
CHANCE_GAIN = 3.0
# Log odds relative to the class frequencies' where no bag could be held out: should nothing have been learnt, a factor of two
# in the odds costs at most 1.09 times the frequencies' log loss.
UNVALIDATED = float(np.log(2.0))


@dataclass(frozen=True)
class Calibration:
    """log odds = slope * score + offset, within (low, high) by a smooth curve that keeps the order of the scores."""

    slope: float = 1.0
    offset: float = 0.0
    low: float = -np.inf
    high: float = np.inf
    loss: float = float("nan")
    center: float = 0.0

    def __call__(self, scores: np.ndarray) -> np.ndarray:
        u = self.slope * scores + self.offset - self.center
        return self.center + np.where(
            u >= 0, _bounded(u, self.high - self.center), -_bounded(-u, self.center - self.low)
        )


def _bounded(u: np.ndarray, bound: float) -> np.ndarray:
    """u up to four fifths of the bound, then a smooth curve that never reaches the bound."""
    if np.isinf(bound):
        return u
    start, room = 0.8 * bound, 0.2 * bound
    beyond = np.maximum(u - start, 0.0) / room
    return np.minimum(u, start) + room * beyond / (1.0 + beyond)


def class_sizes(signs: np.ndarray, weights: np.ndarray, count: float | None = None) -> tuple[float, float]:
    """Positive and negative bags among `count` (all), counted by their weights."""
    share = float(weights[signs > 0].sum() / weights.sum())
    n = len(signs) if count is None else count
    return n * share, n * (1.0 - share)


def platt_targets(signs: np.ndarray, weights: np.ndarray, count: float | None = None) -> np.ndarray:
    """Platt's targets (n + 1)/(n + 2) and 1/(n + 2) for n bags of the class: separated scores do not give certainty."""
    positive, negative = class_sizes(signs, weights, count)
    return np.where(signs > 0, (positive + 1.0) / (positive + 2.0), 1.0 / (negative + 2.0))


def fit_calibration(scores: np.ndarray, signs: np.ndarray, weights: np.ndarray) -> Calibration:
    """Platt's scaling u = slope score + offset of scores that approximate log odds; it minimises

        n sum_i p_i [log(1 + e^{u_i}) - t_i u_i] + (slope - 1)^2 / (2 SLOPE^2) + offset^2 / (2 OFFSET^2),    slope >= 0

    with p_i normalised weights and Platt's targets t_i. `loss` is the mean loss sum_i p_i [...].
    """
    n, p, targets = len(signs), weights / weights.sum(), platt_targets(signs, weights)
    size = max(float(np.sqrt(p @ scores**2)), 1.0)  # Newton's method works on scores of order one
    z, best = scores / size, np.array([size, 0.0])
    prior, centre = np.array([(SLOPE * size) ** -2, OFFSET**-2]), best

    def objective(x: np.ndarray) -> float:
        u = x[0] * z + x[1]
        return n * float(p @ (np.logaddexp(0.0, u) - targets * u)) + 0.5 * float(prior @ (x - centre) ** 2)

    value, reached = np.inf, objective(best)
    design = np.stack([z, np.ones(n)])
    while value - reached > 1e-10 * (1.0 + abs(reached)):
        value = reached
        mean = expit(best @ design)
        gradient = n * design @ (p * (mean - targets)) + prior * (best - centre)
        hessian = n * (design * (p * mean * (1.0 - mean))) @ design.T + np.diag(prior)
        at_bound = best[0] == 0.0 and gradient[0] > 0.0  # the slope stays at zero, and the offset alone moves
        step = np.array([0.0, gradient[1] / hessian[1, 1]]) if at_bound else np.linalg.solve(hessian, gradient)
        length = 1.0
        while objective(_with_slope(best - length * step)) > value and length > 1e-8:
            length *= 0.5
        best = _with_slope(best - length * step)
        reached = objective(best)
    u = best @ design
    return Calibration(float(best[0] / size), float(best[1]), loss=float(p @ (np.logaddexp(0.0, u) - targets * u)))


def _with_slope(x: np.ndarray) -> np.ndarray:
    """The point with its slope made non-negative: a ranking is never reversed."""
    return np.array([max(x[0], 0.0), x[1]])


def final_calibration(
    calibration: Calibration,
    scores: np.ndarray,
    signs: np.ndarray,
    weights: np.ndarray,
    candidates: int,
    groups: np.ndarray | None = None,
) -> Calibration:
    """A calibration that is safe to predict with: averaged with the class frequencies by `trust`, and bounded.

    The bounds are the rule of succession's: log odds of n + 1 after n bags of the class.
    """
    count = len(signs) / design_effect(scores, weights, groups, signs)
    targets = platt_targets(signs, weights, count)
    u, odds = calibration.slope * scores + calibration.offset, float(logit(np.average(targets, weights=weights)))
    gains = (np.logaddexp(0.0, odds) - targets * odds) - (np.logaddexp(0.0, u) - targets * u)
    share = trust(count * float(np.average(gains, weights=weights)), candidates)
    positive, negative = class_sizes(signs, weights, count)
    return Calibration(
        share * calibration.slope,
        share * calibration.offset + (1.0 - share) * odds,
        -float(np.log1p(negative)),
        float(np.log1p(positive)),
        calibration.loss,
    )


def best_calibrated(
    rows: Iterable[np.ndarray], signs: np.ndarray, weights: np.ndarray, groups: np.ndarray | None
) -> tuple[int, np.ndarray, Calibration]:
    """The setting whose held-out scores have the least calibrated loss: its index, its scores, and their final calibration."""
    fits = [(fit_calibration(row, signs, weights), row) for row in rows]
    best = int(np.argmin([fit.loss for fit, _ in fits]))
    fit, scores = fits[best]
    return best, scores, final_calibration(fit, scores, signs, weights, len(fits), groups)


def unvalidated_calibration(signs: np.ndarray, weights: np.ndarray) -> Calibration:
    """The calibration where no bag could be held out: log odds within UNVALIDATED of the class frequencies'."""
    prior = prior_log_odds(signs, weights)
    return Calibration(low=prior - UNVALIDATED, high=prior + UNVALIDATED, center=prior)


def prior_log_odds(signs: np.ndarray, weights: np.ndarray) -> float:
    """Log odds of the (weighted) class frequencies."""
    return float(np.log(weights[signs > 0].sum() / weights[signs < 0].sum()))


def trust(gain: float, candidates: int) -> float:
    """Weight of a learner beside the class frequencies (or the mean label), from its gain in held-out log likelihood.

    exp(gain) against exp(CHANCE_GAIN) times the number of candidates: pseudo Bayesian model averaging that allows for what
    slope, offset and the choice of the best candidate gain by chance.
    """
    return float(expit(gain - CHANCE_GAIN - np.log(candidates)))


def design_effect(
    values: np.ndarray, weights: np.ndarray, groups: np.ndarray | None, classes: np.ndarray | None = None
) -> float:
    """Variance of the mean of `values` (within classes) with groups kept together, over that of independent bags; at least 1.

    Correlated bags of one group carry less information than as many bags of different groups.
    """
    if groups is None:
        return 1.0
    _, codes = np.unique(np.zeros(len(values)) if classes is None else classes, return_inverse=True)
    means = np.bincount(codes, weights * values) / np.bincount(codes, weights)
    deviations = weights * (values - means[codes])
    single, sums = float(deviations @ deviations), np.bincount(groups, deviations)
    sizes = np.unique(groups, return_counts=True)[1]
    # The factor corrects for degrees of freedom where groups are few; identical bags in every group give the upper bound.
    freedom = len(sizes) / max(len(sizes) - len(means), 1)
    together = min(freedom * float(sums @ sums), int(sizes.max()) * single)
    return max(1.0, together / single) if single > 0 else 1.0


def area_under_curve(scores: np.ndarray, positive: np.ndarray) -> float:
    """P(a positive's score exceeds a negative's), ties counted half."""
    return float(shares_beaten(scores[positive], scores[~positive]).mean())


def held_out_diagnostics(scores: np.ndarray, signs: np.ndarray) -> dict[str, float | bool]:
    """AUC of held-out scores, its standard error under chance, and whether it is two of these above chance."""
    positive, negative = int(np.sum(signs > 0)), int(np.sum(signs < 0))
    area = area_under_curve(scores, signs > 0)
    error = float(np.sqrt((positive + negative + 1) / (12.0 * positive * negative)))
    return {"held_out_auc": area, "held_out_auc_null_error": error, "signal_found": area > 0.5 + 2.0 * error}


def training_diagnostics(bags: int, dimensions: int, wrong: np.ndarray) -> dict[str, Any]:
    """The training set's size and the training error, from which of its bags are classified wrongly."""
    error = float(np.mean(wrong))
    return {"bags": bags, "dimensions": dimensions, "training_error": error, "separable": error == 0.0}

"""Held-out scores and what they are good for: choosing settings, and turning scores into probabilities.

A readout fitted to few bags is too sure of the bags it has seen, and its threshold suffers with it: on bags with rare
signals this costs more accuracy than the choice of the model. Scores of bags that were held out carry no such bias.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, log_expit, log_softmax, logit
from scipy.stats import chi2

from .._core.arrays import is_jax_array
from ..laws.measures import shares_beaten
from .repetition import design_effect_within_classes, repetition

# Standard deviations of the prior on log slope and offset, in units of log odds: a slope within a factor of e of 1, and
# a threshold within half a unit of the fit's own, are what a few dozen bags leave undecided.
LOG_SLOPE, OFFSET = 1.0, 0.5
LOG_SLOPES = (-200.0, 6.0)  # scores of any size are drawn in, and none is blown up by more than a few hundred
CALIBRATION_STEPS = 200  # of Newton's method; five to ten are usual
LONGEST_STEP = 4.0  # in log slope or offset: farther away the parabola cannot be trusted
# What a learner owes to chance before it is preferred to the class frequencies, in units of n times the mean loss: the
# gain in log likelihood that slope and offset reach on scores without signal one time in twenty (chi squared, two degrees
# of freedom).
CHANCE_GAIN = 3.0
# Share of the way to the bound up to which log odds are left as they are; from there they approach the bound smoothly.
UNTOUCHED = 0.8
# How far log odds may lie from the class frequencies' where no bag could be held out, so that nothing tells whether the learner
# has found anything: a factor of two in the odds. Should it have found nothing, that costs at most 1.09 times the frequencies'
# log loss with even classes, less with uneven ones.
UNVALIDATED = float(np.log(2.0))


@dataclass(frozen=True)
class Calibration:
    """log odds = slope * score + offset, drawn in towards the centre smoothly so that they stay within (low, high).

    The order of the scores is kept.

    Attributes
    ----------
    slope, offset : float
        The affine map.
    low, high : float
        Bounds of the log odds; infinite where there are none.
    loss : float
        Mean logistic loss that the affine map leaves on the scores it was fitted to.
    center : float
        Log odds between the bounds that are always left as they are.
    """

    slope: float = 1.0
    offset: float = 0.0
    low: float = -np.inf
    high: float = np.inf
    loss: float = float("nan")
    center: float = 0.0

    def __call__(self, scores: np.ndarray) -> np.ndarray:
        u = self.slope * scores + self.offset - self.center
        return self.center + np.where(
            u >= 0, _drawn_in(u, self.high - self.center), -_drawn_in(-u, self.center - self.low)
        )


def _drawn_in(u: np.ndarray, bound: float) -> np.ndarray:
    """u up to a share of the bound, then a curve of the same slope that never reaches it."""
    if np.isinf(bound):
        return u
    start = UNTOUCHED * bound
    room = bound - start
    beyond = np.maximum(u - start, 0.0) / room
    return np.minimum(u, start) + room * beyond / (1.0 + beyond)


def supported_range(signs: np.ndarray, weights: np.ndarray, repeated: float = 1.0) -> tuple[float, float]:
    """The log odds that a training set can support: the rule of succession, (n + 1)/(n + 2) after n bags of a class.

    Parameters
    ----------
    signs : ndarray
        Labels of the bags, -1 or +1.
    weights : ndarray
        Their weights; a class counts with its share of the weight.
    repeated : float
        How often groups of bags repeat themselves (`repetition`): as many times fewer bags count.

    Returns
    -------
    tuple of float
        -log(n- + 1) and log(n+ + 1).
    """
    n, p = len(signs) / repeated, weights / weights.sum()
    positive, negative = n * p[signs > 0].sum(), n * p[signs < 0].sum()
    return -float(np.log1p(negative)), float(np.log1p(positive))


def unvalidated_calibration(signs: np.ndarray, weights: np.ndarray) -> Calibration:
    """What becomes of the scores where no bag could be held out: log odds within UNVALIDATED of the class frequencies'.

    Parameters
    ----------
    signs, weights : ndarray
        Labels and weights of the training bags.

    Returns
    -------
    Calibration
        Slope 1 and offset 0, narrowly bounded.
    """
    prior = float(np.log(weights[signs > 0].sum() / weights[signs < 0].sum()))
    return Calibration(low=prior - UNVALIDATED, high=prior + UNVALIDATED, center=prior)


def fit_calibration(scores: np.ndarray, signs: np.ndarray, weights: np.ndarray) -> Calibration:
    """Platt's scaling of scores that mean to be log odds already: u = slope score + offset, by minimising

        sum_i p_i [log(1 + e^{u_i}) - t_i u_i] + (1/n) [(log slope)^2 / (2 LOG_SLOPE^2) + offset^2 / (2 OFFSET^2)]

    The last term is a prior around slope 1 and offset 0: a few dozen bags do not settle a threshold, and moving it by
    chance costs accuracy. The targets t are drawn in from 0 and 1 as Platt proposed, (n+ + 1)/(n+ + 2) and 1/(n- + 2),
    with n the (weighted) number of bags of the class, so that separated scores do not end in certainty. The slope is
    positive: the ranking is never reversed.

    Parameters
    ----------
    scores : ndarray of shape (bags,) or (rounds, bags)
        Scores of bags that were held out, once or in several rounds; l_i is then the mean over the rounds.
    signs : ndarray
        Their labels, -1 or +1.
    weights : ndarray
        Their weights.

    Returns
    -------
    Calibration
        Without bounds; its `loss` is the first term of the objective alone.
    """
    n, rounds = len(signs), scores.size // len(signs)
    p = np.tile(weights / (rounds * weights.sum()), rounds)
    targets, scores = np.tile(platt_targets(signs, weights), rounds), scores.ravel()
    prior = np.array([LOG_SLOPE**-2, OFFSET**-2]) / n

    def loss(slope: float, offset: float) -> tuple[float, np.ndarray]:
        u = slope * scores + offset
        return float(p @ (np.logaddexp(0.0, u) - targets * u)), u

    def objective(x: np.ndarray) -> tuple[float, np.ndarray]:
        value, u = loss(np.exp(x[0]), x[1])
        return value + 0.5 * float(x @ (prior * x)), u

    x = np.zeros(2)
    value, u = objective(x)
    for _ in range(CALIBRATION_STEPS):
        mean, pull = expit(u), u - x[1]
        residual, curvature = p * (mean - targets), p * mean * (1.0 - mean)
        bend = float(residual @ pull)  # of exp(log slope): left out where the objective would not be convex with it
        g0, g1 = bend + prior[0] * x[0], float(residual.sum()) + prior[1] * x[1]
        h00, h11 = float(curvature @ pull**2) + prior[0], float(curvature.sum()) + prior[1]
        h01 = float(curvature @ pull)
        h00 += bend if (h00 + bend) * h11 > h01 * h01 else 0.0
        step = np.array([h01 * g1 - h11 * g0, h01 * g0 - h00 * g1]) / (h00 * h11 - h01 * h01)
        decrease = -float(step @ (g0, g1))
        shorter = max(1.0, float(np.abs(step).max()) / LONGEST_STEP)
        step, decrease = step / shorter, decrease / shorter
        if not decrease > 1e-13 * max(value, 1e-3):
            break
        size = 1.0
        while size > 1e-6:
            trial = x + size * step
            trial[0] = np.clip(trial[0], *LOG_SLOPES)
            found, u_found = objective(trial)
            if found <= value - 1e-4 * size * decrease or (found < value and size < 1e-3):
                break
            size *= 0.5
        else:
            break
        x, value, u = trial, found, u_found
    slope, offset = float(np.exp(x[0])), float(x[1])
    return Calibration(slope, offset, loss=loss(slope, offset)[0])


def final_calibration(
    calibration: Calibration,
    signs: np.ndarray,
    weights: np.ndarray,
    candidates: int = 1,
    trust: float | None = None,
    scores: np.ndarray | None = None,
    groups: np.ndarray | None = None,
) -> Calibration:
    """A calibration that is safe to predict with: weighed against the class frequencies, and bounded.

    The learner's log odds u and those of the class frequencies u0 are averaged with the weights exp(-n loss) of their
    losses on the held-out bags (pseudo Bayesian model averaging), the learner's after what it owes to chance:
    CHANCE_GAIN for slope and offset, and log(candidates) for being the best of several. A learner that has found a
    signal keeps its log odds to many digits; one that has not is brought back to the class frequencies. With groups, n is
    divided by `repetition`, here, in Platt's targets and in the bounds: copies of a bag say the same thing again.

    Parameters
    ----------
    calibration : Calibration
        As fitted to held-out scores.
    signs, weights : ndarray
        Labels and weights of the bags it was fitted to.
    candidates : int
        How many settings this one was chosen from.
    trust : float, optional
        The learner's weight, where it is known otherwise.
    scores : ndarray, optional
        What it was fitted to; needed with groups.
    groups : ndarray of int, optional
        The bags' groups.

    Returns
    -------
    Calibration
        The calibration to use.
    """
    p, repeated = weights / weights.sum(), 1.0
    mean_target = float(p @ platt_targets(signs, weights))
    odds = float(logit(mean_target))
    gain = float(np.logaddexp(0.0, odds) - mean_target * odds) - calibration.loss
    if groups is not None and scores is not None:
        gains, repeated = gains_of_groups(calibration, scores, signs, weights, groups)
        gain = float(p @ gains)
    if trust is None:
        trust = float(expit(len(signs) / repeated * gain - CHANCE_GAIN - np.log(candidates)))
    low, high = supported_range(signs, weights, repeated)
    offset = trust * calibration.offset + (1.0 - trust) * odds
    return Calibration(trust * calibration.slope, offset, low, high, calibration.loss)


def gains_over_frequencies(
    calibration: Calibration, scores: np.ndarray, signs: np.ndarray, weights: np.ndarray, repeated: float = 1.0
) -> np.ndarray:
    """By how much calibrated scores explain each bag's label better than the class frequencies do, in nats.

    Parameters
    ----------
    calibration : Calibration
        Slope and offset of the scores.
    scores, signs, weights : ndarray
        Held-out scores, labels and weights of the bags; scores may come from several rounds, (rounds, bags).
    repeated : float
        How often groups of bags repeat themselves (`repetition`): it tells in Platt's targets.

    Returns
    -------
    ndarray
        One gain per bag, with Platt's targets for labels, the mean over the rounds.
    """
    targets = platt_targets(signs, weights, repeated)
    u, odds = calibration.slope * scores + calibration.offset, float(logit(np.average(targets, weights=weights)))
    left = np.logaddexp(0.0, u) - targets * u
    return (np.logaddexp(0.0, odds) - targets * odds) - (left.mean(axis=0) if left.ndim > 1 else left)


def gains_of_groups(
    calibration: Calibration, scores: np.ndarray, signs: np.ndarray, weights: np.ndarray, groups: np.ndarray
) -> tuple[np.ndarray, float]:
    """`gains_over_frequencies` of bags that come in groups, and how often these repeat themselves.

    Parameters
    ----------
    calibration : Calibration
        As fitted to the held-out scores.
    scores, signs, weights : ndarray
        Held-out scores, labels and weights of the bags; scores may come from several rounds, (rounds, bags).
    groups : ndarray of int
        The bags' groups.

    Returns
    -------
    tuple of ndarray and float
        One gain per bag, and the groups' `repetition`, which tells in Platt's targets.
    """
    repeated = repetition(gains_over_frequencies(calibration, scores, signs, weights), scores, signs, weights, groups)
    return gains_over_frequencies(calibration, scores, signs, weights, repeated), repeated


@dataclass(frozen=True)
class JointCalibration:
    """Probabilities of several classes from the log odds u_k of each against the others.

        log P_k = slope log sigmoid(u_k) + offset_k - log(sum over classes)

    Where every u_k is right, so is the normalised sigmoid(u_k), which slope 1 and offsets 0 give.

    Attributes
    ----------
    slope : float
        The same for all classes.
    offsets : ndarray of shape (classes,)
        One per class.
    loss : float
        Mean log loss that it leaves on the bags it was fitted to.
    """

    slope: float
    offsets: np.ndarray
    loss: float = float("nan")

    def __call__(self, odds: np.ndarray) -> np.ndarray:
        """log P, (bags, classes)."""
        return log_softmax(self.slope * log_expit(odds) + self.offsets, axis=1)


def fit_joint_calibration(
    odds: np.ndarray, codes: np.ndarray, weights: np.ndarray, groups: np.ndarray | None = None
) -> JointCalibration:
    """Slope and offsets of a `JointCalibration`, by minimising over held-out bags

        - sum_i p_i sum_k t_ik log P_ik + (1/n) [(log slope)^2 / (2 LOG_SLOPE^2) + sum_k offset_k^2 / (2 OFFSET^2)]

    with the priors of `fit_calibration` and targets t drawn in as Platt proposed: (n_k + 1)/(n_k + 2) for the bag's own class k
    of n_k (weighted) bags, the rest shared out among the others as frequent as they are. The outcome is weighed against the
    class frequencies as `final_calibration` does it. With groups, n is over the largest design effect of a class's log odds.

    Parameters
    ----------
    odds : ndarray of shape (bags, classes)
        Log odds of each class against the others, of bags that were held out.
    codes : ndarray of int
        The bags' classes.
    weights : ndarray
        Their weights.
    groups : ndarray of int, optional
        Their groups.

    Returns
    -------
    JointCalibration
        Ready to predict with.
    """
    k = odds.shape[1]
    repeated = (
        1.0 if groups is None else max(design_effect_within_classes(one, codes, weights, groups) for one in odds.T)
    )
    n = len(odds) / repeated
    p = weights / weights.sum()
    share = np.bincount(codes, p, minlength=k)
    own = (n * share + 1.0) / (n * share + 2.0)
    targets = (1.0 - own[codes])[:, None] * share / (1.0 - share[codes])[:, None]
    targets[np.arange(len(codes)), codes] = own[codes]
    logs = log_expit(odds)
    widths = np.array([LOG_SLOPE, *[OFFSET] * k])

    def loss(slope: float, offsets: np.ndarray) -> tuple[float, np.ndarray]:
        log_p = log_softmax(slope * logs + offsets, axis=1)
        return float(-p @ np.sum(targets * log_p, axis=1)), p[:, None] * (np.exp(log_p) - targets)

    def objective(parameters):
        slope = np.exp(parameters[0])
        value, residual = loss(slope, parameters[1:])
        prior = parameters / widths
        gradient = np.concatenate([[slope * np.sum(residual * logs)], residual.sum(axis=0)])
        return value + 0.5 * prior @ prior / n, gradient + prior / widths / n

    bounds = [(-12.0, 6.0), *[(None, None)] * k]
    found = minimize(objective, np.zeros(k + 1), jac=True, method="L-BFGS-B", bounds=bounds, options={"ftol": 1e-12})
    slope, offsets = float(np.exp(found.x[0])), found.x[1:]
    reached = loss(slope, offsets)[0]
    frequencies = np.log(p @ targets)
    known = float(-(p @ targets) @ frequencies)
    # What slope and offsets gain on scores without signal one time in twenty: CHANCE_GAIN with k degrees of freedom for two.
    gain = 0.5 * float(chi2.ppf(0.95, k))
    trust = float(expit(n * (known - reached) - gain))
    return JointCalibration(trust * slope, trust * offsets + (1.0 - trust) * frequencies, reached)


def platt_targets(signs: np.ndarray, weights: np.ndarray, repeated: float = 1.0) -> np.ndarray:
    """Platt's targets: the labels 0 and 1, drawn in by as much as the number of bags of the class leaves open."""
    n, p = len(signs) / repeated, weights / weights.sum()
    positive, negative = n * p[signs > 0].sum(), n * p[signs < 0].sum()
    return np.where(signs > 0, (positive + 1.0) / (positive + 2.0), 1.0 / (negative + 2.0))


def held_apart(
    samples: Any, signs: np.ndarray, weights: np.ndarray, held: np.ndarray
) -> tuple[tuple[Any, np.ndarray, np.ndarray], Any, np.ndarray | slice]:
    """What to train on without the held-out samples, and what to score.

    On a device all samples stay where they are and the held-out ones get weight zero, which comes to the same: no
    copies, and one shape for all folds, hence one compilation.

    Parameters
    ----------
    samples : Bags or array
        Bags, or rows of features.
    signs, weights : ndarray
        Their labels and weights.
    held : ndarray
        Indices of the samples to hold out.

    Returns
    -------
    tuple
        (samples, signs, weights) to train on; samples to score; where among these the held-out ones are.
    """
    if is_jax_array(getattr(samples, "tokens", samples)):
        without = weights.copy()
        without[held] = 0.0
        return (samples, signs, without), samples, held
    rest = np.setdiff1d(np.arange(len(signs)), held)
    return (samples[rest], signs[rest], weights[rest]), samples[held], slice(None)


def area_under_curve(scores: np.ndarray, positive: np.ndarray) -> float:
    """P(a positive's score exceeds a negative's), ties counted half.

    Parameters
    ----------
    scores : ndarray
        Any real scores.
    positive : ndarray of bool
        Which of them are positives.

    Returns
    -------
    float
        The area under the ROC curve (AUC).
    """
    return float(shares_beaten(scores[positive], scores[~positive]).mean())


def chance_error(signs: np.ndarray) -> float:
    """Standard error of an AUC whose scores know nothing of the labels."""
    positive, negative = int(np.sum(signs > 0)), int(np.sum(signs < 0))
    return float(np.sqrt((positive + negative + 1) / (12.0 * positive * negative)))

"""The likelihood ratio as a member of the default learner's vote, and whether the model behind it could hold.

The model: tokens are Gaussian noise, and some tokens of a positive bag carry theta xi besides. Real features hardly ever look
Gaussian, so that one look at their fourth moments tells whether message passing is worth its time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...bags import scratch
from ...bags.bags import Bags
from ...bags.segments import bag_sum, over_tokens, rows_of
from ..calibration import Calibration
from .amp import ONE_DIRECTION, Fit, Prior, excess_variance, token_evidence
from .fitting import ENOUGH, refitted_ratios, two_classes, usual_priors
from .noise import AnyNoise, Noise, NoiseTokens, centred_bags, estimate_noise, whitened_bags

# Below, the messages' own estimates of what they know are too rough, and the other candidates do as well.
LEAST_BAGS, LEAST_FEATURES = 200, 20
# Tokens and features that are looked at to see whether the model could hold: fourth moments are then known to .05 each.
LOOKED_AT, FEATURES_LOOKED_AT = 10_000, 100
# Root mean square of the features' excess kurtosis beyond what chance explains, at most. It is 0 for Gaussian noise, 1.8 for
# uniform features, and above 1 on all real sets of docs/learners.md.
EXCESS_KURTOSIS = 0.2
# Mean squared correlation of two features over what chance explains, at most, for noise to be taken as white.
CORRELATED = 1.5
# How far the logarithm of the calibration's slope may be from that of log odds: its standard error is .1 to .2 with 500 bags.
LOG_SLOPE_OFF = float(np.log(2.0))


@dataclass(frozen=True)
class LikelihoodRatio:
    """log P(tokens | positive bag) / P(tokens | noise), behind the interface of a head.

    Attributes
    ----------
    signal : ndarray of shape (features,)
        The direction xi times the square root of the overlap.
    strength : float
        theta.
    prior : ExactCount or IndependentRate
        Which tokens carry the signal.
    noise : Noise
        What makes the tokens' noise white.
    """

    signal: np.ndarray
    strength: float
    prior: Prior
    noise: Noise

    def evidence(self, tokens: Any) -> Any:
        """log likelihood ratio "signal against noise" of single tokens."""
        return token_evidence(self.noise.whitened(tokens), self.signal, self.strength)

    def attention(self, tokens: Any, starts: np.ndarray) -> Any:
        """Each token's probability of carrying the signal if its bag is positive, normalised over the bag."""
        share = self.prior.posterior(self.evidence(tokens), starts)[1]
        total = over_tokens(bag_sum(share, starts), starts, len(share))
        return share / np.maximum(total, np.finfo(float).tiny)

    def decide(self, tokens: Any, starts: np.ndarray) -> np.ndarray:
        """One log likelihood ratio per bag."""
        return np.asarray(self.prior.posterior(self.evidence(tokens), starts)[0])


def could_hold(bags: Bags, signs: np.ndarray) -> bool:
    """Whether the negative bags' tokens look like Gaussian noise, and there are enough bags to make use of it.

    Parameters
    ----------
    bags : Bags
        The training bags.
    signs : ndarray
        Their labels.

    Returns
    -------
    bool
        False at once where there are few bags or features.
    """
    if len(bags) < LEAST_BAGS or bags.n_features < LEAST_FEATURES or bags.n_tokens < 2 * bags.n_features:
        return False
    sample = _some_features(bags.tokens, _looked_at(bags, signs < 0))
    sample -= sample.mean(axis=0)
    powers = np.square(sample)
    variances = powers.mean(axis=0)
    if not np.all(variances > 0.0):
        return False
    kurtosis = np.square(powers, out=powers).mean(axis=0) / variances**2 - 3.0
    beyond_chance = float(np.mean(kurtosis**2)) - 24.0 / len(sample)
    return beyond_chance <= EXCESS_KURTOSIS**2


def _looked_at(bags: Bags, chosen: np.ndarray) -> np.ndarray:
    """Numbers of some tokens of the chosen bags, evenly spread."""
    rows = np.flatnonzero(np.repeat(chosen, bags.lengths))
    return rows[:: -(-len(rows) // LOOKED_AT)]


def _blocks(tokens: np.ndarray, rows: np.ndarray) -> Iterator[np.ndarray]:
    """Those tokens in double precision, a few megabytes at a time."""
    step = max(1, scratch.BLOCK_BYTES // (8 * tokens.shape[1]))
    return (np.asarray(tokens[rows[i : i + step]], dtype=np.float64) for i in range(0, len(rows), step))


def _some_features(tokens: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Some features of those tokens, evenly spread."""
    every = -(-tokens.shape[1] // FEATURES_LOOKED_AT)
    return np.concatenate([block[:, ::every] for block in _blocks(tokens, rows)])


def noise_of(bags: Bags, signs: np.ndarray) -> Noise:
    """What whitens the tokens: mean and scale alone where no features are correlated, else the negative bags' covariance.

    Parameters
    ----------
    bags : Bags
        Training bags.
    signs : ndarray
        Their labels.

    Returns
    -------
    Noise
        The noise of the negative bags' tokens.
    """
    rows = _looked_at(bags, signs < 0)
    return estimate_noise(bags[signs < 0].tokens) if _correlated(bags, rows) else _white_noise(bags, rows)


def _correlated(bags: Bags, rows: np.ndarray) -> bool:
    """Whether features of these tokens are correlated beyond chance."""
    some = _some_features(bags.tokens, rows)
    some -= some.mean(axis=0)
    some /= np.maximum(some.std(axis=0), np.finfo(float).tiny)
    n, d = some.shape
    squares = (float(np.sum((some.T @ some / n) ** 2)) - d) / (d * (d - 1))
    return squares * n > CORRELATED


def _white_noise(bags: Bags, rows: np.ndarray) -> Noise:
    """Mean and scale of these tokens."""
    n = len(rows)
    mean = sum(block.sum(axis=0) for block in _blocks(bags.tokens, rows)) / n
    total = sum(float(np.sum(np.square(block - mean))) for block in _blocks(bags.tokens, rows))
    return Noise(mean, None, float(np.sqrt(total / (n * len(mean)))), 1.0)


@dataclass(frozen=True)
class RatioFit:
    """A fitted likelihood ratio.

    Attributes
    ----------
    ratio : LikelihoodRatio
        What decides.
    found : Fit
        The fit behind it.
    training : ndarray
        Log likelihood ratios of the training bags, each without its own contribution.
    excess_variance : float
        Largest variance of the signal tokens, in units of the noise's.
    """

    ratio: LikelihoodRatio
    found: Fit
    training: np.ndarray
    excess_variance: float

    def holds(self, calibration: Calibration, bags: Bags, signs: np.ndarray, weights: np.ndarray) -> bool:
        """Whether all that was seen agrees with the model: then no other candidate can do better than its likelihood ratio.

        The noise is white, the messages have settled, one direction describes the signal tokens, the ratios are log odds as
        they are (on bags that were held out), they explain more than half of the labels' entropy, and lengths tell nothing.

        Parameters
        ----------
        calibration : Calibration
            Of held-out ratios.
        bags : Bags
            The training bags.
        signs, weights : ndarray
            Their labels and weights.

        Returns
        -------
        bool
            False where anything speaks against it.
        """
        share = float(np.average(signs > 0, weights=weights))
        entropy = -share * np.log(share) - (1.0 - share) * np.log1p(-share)
        lengths = bags.lengths
        telling = 0.0
        if lengths.min() < lengths.max():
            telling = abs(float(np.corrcoef(np.log(lengths), signs)[0, 1])) * np.sqrt(len(lengths))
        return (
            self.ratio.noise.whitening is None
            and self.found.passed.converged
            and self.excess_variance <= ONE_DIRECTION
            and abs(np.log(calibration.slope)) <= LOG_SLOPE_OFF
            and calibration.loss <= 0.5 * entropy
            and telling <= 2.0
        )


def fit_ratio(bags: Bags, signs: np.ndarray, weights: np.ndarray) -> RatioFit:
    """Fit direction, strength and number of signal tokens.

    Parameters
    ----------
    bags : Bags
        The training bags.
    signs, weights : ndarray
        Their labels and weights.

    Returns
    -------
    RatioFit
        The fit.
    """
    noise = noise_of(bags, signs)
    classes = two_classes(whitened_bags(noise, bags), signs, weights, None, True)
    found = classes.best(usual_priors(bags, signs))
    ratio = LikelihoodRatio(found.passed.signal, found.strength, found.prior, noise)
    wide = excess_variance(classes.positive.tokens, found.passed.share)
    return RatioFit(ratio, found, classes.training_ratios(found), wide)


def held_out_ratios(
    bags: Bags, signs: np.ndarray, weights: np.ndarray, folds: list[np.ndarray], fitted: RatioFit, grouped: bool
) -> np.ndarray:
    """Scores of bags by fits that have not seen them; of many bags, by the fit itself without their own contribution.

    Parameters
    ----------
    bags : Bags
        The training bags.
    signs, weights : ndarray
        Their labels and weights.
    folds : list of ndarray
        The bags to hold out in turn.
    fitted : RatioFit
        The fit to all bags.
    grouped : bool
        Whether bags have siblings: then their own contribution is not all that must be held out.

    Returns
    -------
    ndarray
        One log likelihood ratio per bag.
    """
    if len(signs) >= ENOUGH and not grouped:
        return fitted.training

    center, shrinkage = fitted.ratio.noise.mean, fitted.ratio.noise.shrinkage
    positive, negative = (centred_bags(bags[signs * side > 0], center) for side in (1.0, -1.0))
    below, tokens = np.flatnonzero(signs < 0), NoiseTokens(negative.tokens)

    def noise_without(held: np.ndarray) -> AnyNoise:
        if shrinkage < 1.0:
            return tokens.without(rows_of(negative.starts[held], negative.lengths[held]), shrinkage)
        rest = signs < 0
        rest[below[held]] = False
        noise = _white_noise(bags, _looked_at(bags, rest))
        return replace(noise, mean=noise.mean - center)

    return refitted_ratios(positive, negative, signs, weights, folds, fitted.found, None, noise_without)

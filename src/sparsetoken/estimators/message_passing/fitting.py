"""Direction, strength and number of signal tokens, fitted together to the bags of both classes; scores of bags held out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ...bags.bags import Bags
from ..folds import held_out_scores
from .amp import FINAL, SEARCH, Effort, Fit, Prior, first_strength, fit_strength, training_ratios
from .witness_prior import COUNTS, ExactCount, IndependentRate

# Bags from which the training bags' own scores calibrate: messages remove a bag's contribution to its own field only up to
# terms that vanish with many bags. Below, bags are held out (pure noise: n = 30 bags in 60 dimensions had an AUC of .98).
ENOUGH = 1000


def usual_priors(bags: Bags, signs: np.ndarray) -> list[Prior]:
    """The priors to try where nothing is known, the independent rate first (its place does not matter to the choice)."""
    longest = float(np.median(bags.lengths[signs > 0]))
    counts: list[Prior] = [ExactCount(c) for c in COUNTS if c == 1 or c <= longest / 2]
    rate: list[Prior] = [IndependentRate(min(0.5, 1.5 / longest))] if longest > 1 else []
    return rate + counts


@dataclass(frozen=True)
class TwoClasses:
    """Training bags of both classes, and what is known beforehand.

    Attributes
    ----------
    positive, negative : Bags
        The bags of the classes, their noise white.
    signs, p : ndarray
        Labels and normalised weights of all bags, those of a class in the order of its bags.
    odds : float
        Prior log odds of the positive class.
    strength : float or None
        theta; None where it is unknown.
    learn_rate : bool
        Whether the rate of an `IndependentRate` is learnt along.
    """

    positive: Bags
    negative: Bags
    signs: np.ndarray
    p: np.ndarray
    odds: float
    strength: float | None
    learn_rate: bool

    def best(self, priors: list[Prior]) -> Fit:
        """The fit under whichever prior explains the labels best."""
        best: Fit | None = None
        worse = 0
        for prior in priors:
            fit = self.fit(prior, SEARCH if len(priors) > 1 else FINAL)
            if best is None or fit.loss < best.loss:
                best, worse = fit, 0
            else:
                worse += isinstance(prior, ExactCount)
            if worse == 2 and isinstance(prior, ExactCount):  # the loss has one valley in the count
                break
        if best is None:
            raise ValueError("sparsity leaves no number of signal tokens that fits these bags")
        return self.fit(best.prior, FINAL, best.strength) if len(priors) > 1 else best

    def fit(self, prior: Prior, effort: Effort, first: float | None = None) -> Fit:
        """Messages, strength (and rate) under one prior, with the labels' loss on the training bags' fields."""
        positive, signs = self.positive, self.signs
        share = float(np.average(prior.expected_share(positive.lengths), weights=positive.lengths))
        theta, prior, passed = fit_strength(
            positive.tokens,
            positive.starts,
            self.p[signs > 0] / self.p[signs > 0].mean(),
            prior,
            self.strength or first or first_strength(positive.tokens, self.negative.tokens, share),
            self.strength is not None,
            self.learn_rate and isinstance(prior, IndependentRate),
            effort,
        )
        ratios = self.training_ratios(Fit(theta, prior, passed, float("nan")))
        loss = float(self.p @ np.logaddexp(0.0, -signs * (ratios + self.odds)))
        return Fit(theta, prior, passed, loss)

    def training_ratios(self, fit: Fit) -> np.ndarray:
        """Log likelihood ratios of all bags in their own order, positive ones without their own contribution."""
        ratios = np.empty(len(self.signs))
        ratios[self.signs > 0], ratios[self.signs < 0] = training_ratios(
            self.positive.starts, self.negative.tokens, self.negative.starts, fit
        )
        return ratios


def two_classes(
    white: Bags, signs: np.ndarray, weights: np.ndarray, strength: float | None, learn_rate: bool
) -> TwoClasses:
    """Bags whose noise is white, told apart by their labels; prior odds are those of the weights.

    Parameters
    ----------
    white : Bags
        The bags.
    signs, weights : ndarray
        Their labels and weights.
    strength : float or None
        theta; None where it is unknown.
    learn_rate : bool
        Whether the rate of an `IndependentRate` is learnt along.

    Returns
    -------
    TwoClasses
        What is to be fitted.
    """
    odds = float(np.log(weights[signs > 0].sum() / weights[signs < 0].sum()))
    return TwoClasses(white[signs > 0], white[signs < 0], signs, weights / weights.sum(), odds, strength, learn_rate)


def refitted_ratios(
    bags: Bags,
    signs: np.ndarray,
    weights: np.ndarray,
    folds: list[np.ndarray],
    like: Fit,
    strength: float | None,
    whitened: Callable[[Bags, np.ndarray, Bags], tuple[Bags, Bags]],
) -> np.ndarray:
    """Log likelihood ratios of bags by fits that have not seen them: direction and strength anew, the prior as it was found.

    Parameters
    ----------
    bags : Bags
        The training bags.
    signs, weights : ndarray
        Their labels and weights.
    folds : list of ndarray
        The bags to hold out in turn.
    like : Fit
        The fit to all bags: its prior, and the strength to start from.
    strength : float or None
        theta; None where it is unknown.
    whitened : callable
        (bags to fit on, their labels, bags held out) -> both kinds of bags with white noise, judged by the former.

    Returns
    -------
    ndarray
        One ratio per bag.
    """

    def ratios(rest: np.ndarray, held: np.ndarray) -> np.ndarray:
        seen, fresh = whitened(bags[rest], signs[rest], bags[held])
        fit = two_classes(seen, signs[rest], weights[rest], strength, False).fit(like.prior, SEARCH, like.strength)
        return fit.ratios(fresh.tokens, fresh.starts)

    return held_out_scores(folds, len(signs), ratios)

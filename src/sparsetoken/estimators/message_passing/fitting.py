"""Direction, strength and number of signal tokens, fitted together to the bags of both classes; scores of bags held out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...bags.bags import Bags
from ...bags.segments import rows_of, starts_of
from .amp import (
    FINAL,
    SEARCH,
    STRENGTHS,
    Effort,
    Fit,
    MessageState,
    Prior,
    evidence_of_fields,
    fit_strength,
    mean_shift,
    training_ratios,
)
from .noise import AnyNoise, WhitenedTokens
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

    @classmethod
    def of(
        cls,
        positive: Bags,
        negative: Bags,
        signs: np.ndarray,
        weights: np.ndarray,
        strength: float | None,
        learn_rate: bool,
    ) -> TwoClasses:
        """The bags of the classes; prior odds are those of the weights of all bags."""
        odds = float(np.log(weights[signs > 0].sum() / weights[signs < 0].sum()))
        return cls(positive, negative, signs, weights / weights.sum(), odds, strength, learn_rate)

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
        theta, prior, passed = self.messages(prior, effort, first)
        ratios = self.training_ratios(Fit(theta, prior, passed, float("nan")))
        loss = float(self.p @ np.logaddexp(0.0, -self.signs * (ratios + self.odds)))
        return Fit(theta, prior, passed, loss)

    def messages(self, prior: Prior, effort: Effort, first: float | None = None) -> tuple[float, Prior, MessageState]:
        """Strength, prior and messages alone."""
        positive, weights = self.positive, self.p[self.signs > 0]
        if self.strength is None and first is None:
            share = float(np.average(prior.expected_share(positive.lengths), weights=positive.lengths))
            first = float(np.clip(self.mean_shift / share, 1.0, STRENGTHS[1]))
        return fit_strength(
            positive.tokens,
            positive.starts,
            weights / weights.mean(),
            prior,
            self.strength or first or 1.0,
            self.strength is not None,
            self.learn_rate and isinstance(prior, IndependentRate),
            effort,
        )

    @cached_property
    def mean_shift(self) -> float:
        """`amp.mean_shift` of the two classes' tokens."""
        return mean_shift(self.positive.tokens, self.negative.tokens)

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
    return TwoClasses.of(white[signs > 0], white[signs < 0], signs, weights, strength, learn_rate)


def refitted_ratios(
    positive: Bags,
    negative: Bags,
    signs: np.ndarray,
    weights: np.ndarray,
    folds: list[np.ndarray],
    like: Fit,
    strength: float | None,
    noise_without: Callable[[np.ndarray], AnyNoise | None],
) -> np.ndarray:
    """Log likelihood ratios of bags by fits that have not seen them: direction and strength anew, the prior as it was found.

    No bag is copied: those held out have no weight in the messages, and tokens are made white in products alone.

    Parameters
    ----------
    positive, negative : Bags
        The training bags of the classes, their tokens not far from their mean in units of the noise.
    signs, weights : ndarray
        Labels and weights of all bags, those of a class in the order of its bags.
    folds : list of ndarray
        The bags to hold out in turn.
    like : Fit
        The fit to all bags: its prior, and the strength to start from.
    strength : float or None
        theta; None where it is unknown.
    noise_without : callable
        The bags held out, as places among the negative ones -> noise of the others; None where it is white as it is.

    Returns
    -------
    ndarray
        One ratio per bag; NaN for bags of no fold.
    """
    ratios = np.full(len(signs), np.nan)
    above, below = np.flatnonzero(signs > 0), np.flatnonzero(signs < 0)
    for held in folds:
        out = np.zeros(len(signs), dtype=bool)
        out[held] = True
        noise = noise_without(np.flatnonzero(out[below]))
        seen = [bags.tokens if noise is None else WhitenedTokens(bags.tokens, noise) for bags in (positive, negative)]
        own = np.where(out[above], 0.0, weights[above])
        theta, prior, passed = fit_strength(
            seen[0],
            positive.starts,
            own * (np.count_nonzero(own) / own.sum()),
            like.prior,
            strength or like.strength,
            strength is not None,
            False,
            SEARCH,
        )
        with np.errstate(over="ignore", invalid="ignore"):  # tokens that nobody scaled may be of any size
            others = np.asarray(seen[1] @ passed.signal.astype(negative.dtype), dtype=np.float64)
        fields = np.asarray(passed.fields) * np.sqrt(passed.overlap), others  # <x, s> of the tokens of both classes
        for bags, among, values in zip((positive, negative), (above, below), fields):
            chosen = out[among]
            if chosen.any():
                lengths = bags.lengths[chosen]
                rows = rows_of(bags.starts[chosen], lengths)
                evidence = evidence_of_fields(values[rows], passed.signal, theta)
                ratios[among[chosen]] = np.asarray(prior.posterior(evidence, starts_of(lengths))[0])
    return ratios

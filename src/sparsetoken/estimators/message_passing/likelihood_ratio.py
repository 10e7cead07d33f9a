"""The likelihood ratio of "some tokens carry theta xi besides Gaussian noise" against "all tokens are noise", fitted to bags.

Direction, strength and number of signal tokens come from message passing on the positive bags, the noise from the others.
It is `MessagePassingClassifier`, and a candidate of the default learner where the tokens look Gaussian.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...bags.bags import Bags
from ...bags.scaler import varying_features
from ...bags.segments import bag_sum, over_tokens
from .amp import COUNTS, ExactCount, IndependentRate, Messages, Prior, pass_messages, token_evidence
from .noise import Noise, WhiteTokens, moments, noise_of

QUICK = (1,)  # counts to try where time matters: their posterior takes no longer than that of a rate


@dataclass(frozen=True)
class LikelihoodRatio:
    """log P(tokens | positive bag) / P(tokens | noise), behind the interface of a head."""

    signal: np.ndarray
    strength: float
    prior: Prior
    noise: Noise | None
    offset: float = 0.0

    def evidence(self, tokens: Any) -> np.ndarray:
        """log likelihood ratio "signal against noise" of single tokens."""
        return token_evidence(WhiteTokens(tokens, self.noise), self.signal, self.strength, self.offset)

    def attention(self, tokens: Any, starts: np.ndarray) -> np.ndarray:
        """Each token's probability of carrying the signal if its bag is positive, normalised over the bag."""
        share = self.prior.posterior(self.evidence(tokens), starts)[1]
        total = over_tokens(bag_sum(share, starts), starts, len(share))
        return share / np.maximum(total, np.finfo(float).tiny)

    def decide(self, tokens: Any, starts: np.ndarray) -> np.ndarray:
        """One log likelihood ratio per bag."""
        return self.prior.posterior(self.evidence(tokens), starts)[0]


@dataclass(frozen=True)
class RatioFit:
    """A fitted likelihood ratio: `training` are the training bags' ratios without their own contribution, `loss` the mean
    logistic loss of the labels under them."""

    ratio: LikelihoodRatio
    messages: Messages
    training: np.ndarray
    loss: float
    given_strength: float | None


def usual_priors(lengths: np.ndarray, counts: tuple[int, ...] = COUNTS) -> list[Prior]:
    """These counts and a rate: the priors to try for positive bags of these lengths where `sparsity` is "auto"."""
    length = float(np.median(lengths))
    exact: list[Prior] = [ExactCount(c) for c in counts if c == 1 or c <= length / 2]
    return [*exact, IndependentRate(min(0.5, 1.5 / length))] if length > 1 else exact


def fit_ratio(
    bags: Bags,
    signs: np.ndarray,
    weights: np.ndarray,
    strength: float | None = None,
    priors: list[Prior] | None = None,
    whiten: bool = True,
    counts: tuple[int, ...] = COUNTS,
) -> RatioFit:
    """The likelihood ratio under the prior of least  sum_i p_i log(1 + exp(-y_i (ratio_i + log odds of the classes)))  with p
    the normalised weights and the training bags' ratios without their own contribution. A strength or priors of None are
    estimated, these among `counts` and a rate."""
    positive, negative = bags[signs > 0], bags[signs < 0]
    noise = None
    if whiten:
        center = np.asarray(negative.tokens.mean(axis=0, dtype=np.float64))
        halves = [negative[half::2] for half in range(min(2, len(negative)))]
        noise = noise_of([moments(half.tokens, center) for half in halves], center, varying_features(bags.tokens))
    white, p = WhiteTokens(positive.tokens, noise), weights / weights.sum()
    odds = np.log(p[signs > 0].sum() / p[signs < 0].sum())
    copies = p[signs > 0] / p[signs > 0].mean()
    tried: list[tuple[float, Messages, np.ndarray]] = []
    for prior in priors or usual_priors(positive.lengths, counts):
        losses = [one[0] for one in tried]
        # The loss has one valley in the count: after two worse ones none is better.
        if isinstance(prior, ExactCount) and tried and min(losses) not in losses[-2:]:
            continue
        messages = pass_messages(white, positive.starts, copies, prior, strength, priors is None)
        ratios = np.empty(len(signs))
        ratios[signs > 0] = messages.own_ratios(positive.starts)
        # The noise's mean is that of these bags: their fields have no offset.
        ratios[signs < 0] = replace(_ratio(messages, noise), offset=0.0).decide(negative.tokens, negative.starts)
        loss = float(p @ np.logaddexp(0.0, -signs * (ratios + odds)))
        tried.append((loss, messages, ratios))
    loss, messages, ratios = min(tried, key=lambda one: one[0])
    return RatioFit(_ratio(messages, noise), messages, ratios, loss, strength)


def held_out_ratios(
    bags: Bags, signs: np.ndarray, weights: np.ndarray, folds: list[np.ndarray], fitted: RatioFit, grouped: bool
) -> np.ndarray:
    """Log likelihood ratios of bags by fits that have not seen them: noise, direction and strength anew, the prior as found.

    Of a thousand bags or more, those of the fit itself without their own contribution, which messages remove up to terms that
    vanish with many bags. No bag is copied: those held out have no weight in the messages.
    """
    if len(signs) >= 1000 and not grouped:
        return fitted.training
    positive, negative = bags[signs > 0], bags[signs < 0]
    above, below = np.flatnonzero(signs > 0), np.flatnonzero(signs < 0)
    unseen = [np.isin(below, held) for held in folds]
    ratios = np.full(len(signs), np.nan)
    for held, noise, left_out in zip(folds, _noises_without(unseen, negative, bags, fitted), unseen):
        out = np.isin(above, held)
        copies = np.where(out, 0.0, weights[above])
        copies *= np.count_nonzero(copies) / copies.sum()
        white = WhiteTokens(positive.tokens, noise)
        prior, strength = fitted.messages.prior, fitted.given_strength
        messages = pass_messages(white, positive.starts, copies, prior, strength, start=fitted.messages)
        ratios[above[out]] = messages.own_ratios(positive.starts)[out]
        if left_out.any():
            some = negative[left_out]
            ratios[below[left_out]] = _ratio(messages, noise).decide(some.tokens, some.starts)
    return ratios


def _noises_without(folds: list[np.ndarray], negative: Bags, bags: Bags, fitted: RatioFit) -> list[Noise | None]:
    """The noise of the negative bags outside each fold (a mask of them), from moments that are computed fold by fold."""
    noise = fitted.ratio.noise
    if noise is None:
        return [None] * len(folds)
    varies = varying_features(bags.tokens)
    parts = [moments(negative.tokens[np.repeat(fold, negative.lengths)], noise.mean) for fold in folds]
    return [noise_of(parts[:k] + parts[k + 1 :], noise.mean, varies, noise.shrinkage) for k in range(len(folds))]


def _ratio(messages: Messages, noise: Noise | None) -> LikelihoodRatio:
    return LikelihoodRatio(messages.signal, messages.strength, messages.prior, noise, messages.offset)

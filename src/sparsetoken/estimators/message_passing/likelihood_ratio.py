"""The likelihood ratio of "some tokens carry theta xi besides Gaussian noise" against "all tokens are noise", fitted to bags.

Direction, strength and number of signal tokens come from message passing on the positive bags, the noise from the others.
It is `MessagePassingClassifier`, and a candidate of the default learner where the tokens look Gaussian.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from ...bags.bags import Bags
from ...bags.scaler import varying_features
from ...bags.sums_per_bag import bag_sum, over_tokens
from ...bags.temporary_files import row_blocks, rowwise
from .amp import COUNTS, ExactCount, IndependentRate, Messages, Prior, bounded, pass_messages

QUICK = (1,)  # counts to try where time matters: their posterior takes no longer than that of a rate
SHRINKAGES = (1.0, 0.3, 0.1, 0.03, 0.01, 1e-3, 1e-4, 1e-5, 1e-6)  # below, variances are rounding errors


@dataclass(frozen=True)
class Noise:
    """x -> (x - mean) @ whitening, from `count` tokens; features that never vary have no part in it.

    The whitening is triangular, a tenth of the work of a symmetric root: messages are invariant under rotations.
    """

    mean: np.ndarray
    whitening: np.ndarray
    shrinkage: float
    count: int

    def whitened(self, tokens: Any) -> Any:
        """The tokens (NumPy's or JAX's) with this noise made white."""
        mean, matrix = self.mean.astype(tokens.dtype), self.whitening.astype(tokens.dtype)
        return rowwise(lambda block: (block - mean) @ matrix, tokens, tokens.shape[1], tokens.dtype)


class WhiteTokens:
    """Tokens with their noise made white, for products with vectors alone: white copies are never made."""

    __array_ufunc__ = None  # NumPy leaves products with an array on the left to this class

    def __init__(self, tokens: Any, noise: Noise | None):
        self.tokens, self.noise = tokens, noise
        self.shape, self.dtype = tokens.shape, tokens.dtype
        varies = np.ones(tokens.shape[1]) if noise is None else noise.whitening.any(axis=0)
        self.varying = max(1, int(np.count_nonzero(varies)))  # features
        self.mean_error = 0.0 if noise is None else 1.0 / noise.count  # variance of the mean's error in each direction

    def __len__(self) -> int:
        return len(self.tokens)

    def __matmul__(self, vector: np.ndarray) -> np.ndarray:
        if self.noise is None:
            return np.asarray(self.tokens @ vector)
        white = self.noise.whitening @ vector.astype(np.float64)
        return np.asarray(self.tokens @ white.astype(self.dtype)) - (self.noise.mean @ white).astype(self.dtype)

    def __rmatmul__(self, weights: np.ndarray) -> np.ndarray:
        total = np.asarray(weights @ self.tokens, dtype=np.float64)
        if self.noise is None:
            return total
        return self.noise.whitening.T @ (total - float(weights.sum(dtype=np.float64)) * self.noise.mean)


class TokenMoments(NamedTuple):
    """Moments of tokens x relative to a common centre: their number, sum x and sum x x^T."""

    tokens: int
    total: np.ndarray
    products: np.ndarray


def moments(tokens: Any, center: np.ndarray) -> TokenMoments:
    """The moments of these tokens, a few rows at a time."""
    total, products = np.zeros(len(center)), np.zeros((len(center), len(center)))
    for block in row_blocks(tokens):
        x = np.asarray(tokens[block] - center, dtype=np.float64)
        total += x.sum(axis=0)
        products += x.T @ x
    return TokenMoments(len(tokens), total, products)


def estimated_noise(
    parts: list[TokenMoments], center: np.ndarray, varies: np.ndarray, shrinkage: float | None = None
) -> Noise:
    """Mean and covariance C = (1 - s) S + s tr(S)/d I of the tokens of all parts, along the features that vary.

    With s = None it is the shrinkage at which the first part's covariance gives the second part the largest likelihood: where
    tokens are many, directions of little noise, which matter most, are hardly changed.
    """
    shift = np.sum([part.total for part in parts], axis=0) / sum(part.tokens for part in parts)
    covariance = _covariance(parts, shift, varies)
    average = float(np.trace(covariance)) / max(1, len(covariance))
    count, whitening = sum(part.tokens for part in parts), np.zeros((len(center), len(center)))
    if not average > 0.0:  # the tokens do not vary
        shrinkage, average = 1.0, 1.0
    if shrinkage is None:
        shrinkage = _likeliest(*(_covariance([part], shift, varies) for part in parts)) if len(parts) == 2 else 1.0
    if shrinkage == 1.0:
        whitening[np.diag_indices(len(center))] = varies / np.sqrt(average)
    else:
        identity = np.eye(len(covariance))
        shrunk = (1.0 - shrinkage) * covariance + shrinkage * average * identity
        whitening[np.ix_(varies, varies)] = solve_triangular(cholesky(shrunk), identity)
    return Noise(center + shift, whitening, shrinkage, count)


def _covariance(parts: list[TokenMoments], shift: np.ndarray, varies: np.ndarray) -> np.ndarray:
    """The mean of (x - shift) (x - shift)^T over the tokens of these parts."""
    count = sum(part.tokens for part in parts)
    mean = np.sum([part.total for part in parts], axis=0)[varies] / count
    products = np.sum([part.products for part in parts], axis=0)[np.ix_(varies, varies)] / count
    off = mean - shift[varies]
    return products - np.outer(mean, mean) + np.outer(off, off)


def _likeliest(first: np.ndarray, second: np.ndarray) -> float:
    """The share s of the identity with the largest Gaussian likelihood, -(1/2) sum_j [log c_j + a_j/c_j].

    c_j are the eigenvalues of the first covariance, shrunk, and a_j the variances of the second along its eigenvectors.
    """
    variances, directions = np.linalg.eigh(first)
    variances, other = np.maximum(variances, 0.0), np.sum(directions * (second @ directions), axis=0)
    average = float(variances.mean())
    if not average > 0.0:
        return 1.0
    shrunk = [(1.0 - s) * variances + s * average for s in SHRINKAGES]
    return SHRINKAGES[int(np.argmin([float(np.sum(np.log(c) + other / c)) for c in shrunk]))]


@dataclass(frozen=True)
class LikelihoodRatio:
    """log P(tokens | positive bag) / P(tokens | noise), behind the interface of a head."""

    signal: np.ndarray
    strength: float
    prior: Prior
    noise: Noise | None
    offset: float = 0.0

    def evidence(self, tokens: Any) -> np.ndarray:
        """Log likelihood ratio "signal against noise" of single tokens: theta (<x, s> - offset) - theta^2 |s|^2 / 2."""
        theta, white = self.strength, WhiteTokens(tokens, self.noise)
        with np.errstate(over="ignore", invalid="ignore"):  # unscaled tokens may be of any size
            fields = np.asarray(white @ self.signal.astype(white.dtype), dtype=np.float64)
            return bounded(theta * (fields - self.offset) - 0.5 * theta**2 * float(self.signal @ self.signal))

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
        noise = estimated_noise(
            [moments(half.tokens, center) for half in halves], center, varying_features(bags.tokens)
        )
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
    return [estimated_noise(parts[:k] + parts[k + 1 :], noise.mean, varies, noise.shrinkage) for k in range(len(folds))]


def _ratio(messages: Messages, noise: Noise | None) -> LikelihoodRatio:
    return LikelihoodRatio(messages.signal, messages.strength, messages.prior, noise, messages.offset)

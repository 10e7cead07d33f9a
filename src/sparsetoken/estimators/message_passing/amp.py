"""Approximate message passing for the signal direction, on the tokens A of the bags that hold the signal (unit noise).

    B_x = (theta/sqrt d) A^T vhat - (theta^2/d) (sum var_v) xhat_old
    xhat = B_x / (1 + theta^2 |vhat|^2/d),   var_x = 1/(1 + theta^2 |vhat|^2/d)
    B_v = (theta/sqrt d) A xhat - theta^2 var_x vhat_old
    vhat, var_v = posterior mean and variance of v under its prior, with evidence B_v - theta^2 |xhat|^2/(2d)

from vhat = expected share of signal tokens. The subtracted terms make B_v the field of a bag without its own contribution to
xhat: on training bags it has the law it would have on fresh ones. So strength and sparsity are learnt from the same fields, by
one step of expectation maximisation per iteration: B_v / (theta sqrt m), m = |xhat|^2/d, is N(theta sqrt m, 1) on signal tokens
and N(0, 1) on others. A bag of weight k counts as k copies of it.

Tokens are centred by the mean of N others, whose error is part of xhat and of every token alike: it shifts the fields of all
tokens but those N by theta^2 var_x (sum vhat)/N, which is subtracted as well (`Messages.offset`).

Which tokens of a positive bag carry the signal is a prior on v in {0,1}^L (`ExactCount`, `IndependentRate`). It sees token
evidence a_l, the log likelihood ratio "signal against noise" of each token, and gives for all bags at once

    log E_v exp(sum_l v_l a_l)    the log likelihood ratio of each bag
    P(v_l = 1 | a)                the posterior of each token
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, gammaln, logit

from ..._core.arrays import softplus
from ...bags.sums_per_bag import bag_softmax, bag_sum, lengths_of

# Numbers of signal tokens per bag to try, denser where one token more or less changes the likelihood most.
COUNTS = (1, 2, 3, 4, 6, 8, 12, 16)
# Where messages converge, 15 to 40 iterations are usual. Damping from the start would keep fits near the threshold at their
# start, so only messages that have not converged half-way continue with half steps.
ITERATIONS = 80
KEPT_STRENGTH = 5  # iterations before the strength is learnt: the first fields are mostly noise
TOLERANCE = 1e-4  # of the relative change of xhat, and ten times as much of the strength
LEAST_COUNT = 0.5  # least mean number of signal tokens per bag of a rate
LARGEST = 1e100  # evidence beyond this is cut off: sums over a bag stay finite


@dataclass(frozen=True)
class ExactCount:
    """Exactly `count` (R) signal tokens per bag, all subsets alike; a bag shorter than that is all signal."""

    count: int

    def expected_share(self, lengths: np.ndarray) -> np.ndarray:
        """Expected share of signal tokens in positive bags of these lengths."""
        return np.minimum(self.count, lengths) / lengths

    def posterior(self, evidence: np.ndarray, starts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(one log likelihood ratio per bag, one posterior per token)."""
        if self.count == 1:
            marginals, log_ratio = bag_softmax(evidence, starts)
            return log_ratio, marginals
        lengths = lengths_of(starts, len(evidence))
        log_ratio, marginals = bag_sum(evidence, starts), np.ones(len(evidence))
        # Bags whose lengths lie within a factor of two make one block, the shorter ones filled up with impossible tokens.
        sizes = np.where(lengths > self.count, np.ceil(np.log2(lengths)), -1)
        for size in np.unique(sizes[sizes >= 0]):
            bags = np.flatnonzero(sizes == size)
            place = np.arange(lengths[bags].max())[:, None]
            real = place < lengths[bags]
            rows = np.where(real, starts[bags] + place, 0)
            values, inside = _subset_posterior(np.where(real, evidence[rows], -np.inf), self.count)
            log_ratio[bags] = values - _log_subsets(lengths[bags], self.count)
            marginals[rows[real]] = inside[real]
        return log_ratio, marginals


@dataclass(frozen=True)
class IndependentRate:
    """Every token carries the signal with probability `rate`, independently: a random number of signal tokens per bag."""

    rate: float

    def expected_share(self, lengths: np.ndarray) -> np.ndarray:
        """Expected share of signal tokens in positive bags of these lengths."""
        return np.full(len(lengths), self.rate)

    def posterior(self, evidence: np.ndarray, starts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(one log likelihood ratio per bag, one posterior per token)."""
        odds = logit(self.rate) + evidence
        return bag_sum(softplus(odds) + np.log1p(-self.rate), starts), expit(odds)


Prior = ExactCount | IndependentRate


@dataclass(frozen=True)
class Messages:
    """The result of message passing: xhat/sqrt d, theta, the prior, the mean of <x, signal> over noise tokens, and the
    normalised field and vhat of each token."""

    signal: np.ndarray
    strength: float
    prior: Prior
    offset: float
    fields: np.ndarray
    share: np.ndarray
    iterations: int
    converged: bool

    @property
    def overlap(self) -> float:
        """m = |xhat|^2 / d."""
        return float(self.signal @ self.signal)

    def own_ratios(self, starts: np.ndarray) -> np.ndarray:
        """Log likelihood ratios of the bags that the messages were passed on, without their own contribution."""
        mu = self.strength * np.sqrt(self.overlap)
        return self.prior.posterior(bounded(mu * self.fields - 0.5 * mu**2), starts)[0]


def pass_messages(
    tokens: Any,
    starts: np.ndarray,
    weights: np.ndarray,
    prior: Prior,
    strength: float | None = None,
    learn_rate: bool = False,
    start: Messages | None = None,
) -> Messages:
    """Iterate the equations at the module's head on tokens of unit noise (`WhiteTokens`); a strength of None is learnt, and so
    is the prior's rate with `learn_rate`."""
    d, lengths = tokens.varying, lengths_of(starts, len(tokens))
    copies, expected = np.repeat(weights, lengths), prior.expected_share(lengths)
    theta = strength or (start.strength if start else _first_strength(float(np.mean(expected * lengths))))
    v = start.share if start else np.repeat(expected, lengths)
    x, root, tiny = np.zeros(tokens.shape[1]), np.sqrt(d), 1.0 / LARGEST
    learns, converged, iteration = strength is None, False, 0
    while iteration < ITERATIONS and not converged:
        iteration += 1
        step = 1.0 if iteration <= ITERATIONS // 2 else 0.5
        shares = copies * v
        precision = 1.0 + theta**2 * float(shares @ v) / d
        pull = np.asarray(shares.astype(tokens.dtype) @ tokens, dtype=np.float64)
        B_x = theta / root * pull - theta**2 / d * float(shares @ (1.0 - v)) * x
        length = max(float(np.linalg.norm(B_x)), tiny)
        target = min(1.0 / precision, root / length) * B_x  # on bags unlike the model, overlaps could exceed 1
        change = float(np.linalg.norm(target - x)) / max(float(np.linalg.norm(target)), tiny)
        x = x + step * (target - x) if iteration > 1 else target
        overlap = float(x @ x) / d
        offset = theta / precision * float(shares.sum()) * tokens.mean_error
        B_v = theta / root * np.asarray(tokens @ x.astype(tokens.dtype), dtype=np.float64)
        B_v -= theta**2 / precision * shares + theta * offset
        v = v + step * (prior.posterior(bounded(B_v - 0.5 * theta**2 * overlap), starts)[1] - v)
        # Along an estimate that has vanished (all tokens are alike) nothing is known of any token.
        fields = B_v / (theta * np.sqrt(overlap)) if overlap > 0.0 else np.zeros(len(v))
        converged = change <= TOLERANCE
        if iteration >= KEPT_STRENGTH and learns:
            noise = theta**2 * float(shares @ shares + shares.sum() ** 2 * tokens.mean_error)
            before, theta = theta, _strength(fields, copies * v, overlap, 1.0 - noise / length**2)
            converged &= abs(theta - before) <= 10 * TOLERANCE * before
        converged &= iteration > KEPT_STRENGTH or not learns
        if learn_rate and isinstance(prior, IndependentRate):
            prior = _with_rate(float(copies @ v / copies.sum()), float(np.mean(lengths)))
    return Messages(x / np.sqrt(d), theta, prior, offset, fields, v, iteration, converged)


def _first_strength(count: float) -> float:
    """Where the search for theta begins: strong enough to be seen with so many signal tokens per bag."""
    return float(np.clip(6.0 / np.sqrt(max(count, LEAST_COUNT)), 1.5, 6.0))


def _strength(fields: np.ndarray, shares: np.ndarray, overlap: float, seen: float) -> float:
    """theta = mu / sqrt m, mu the mean field of the signal tokens and m the squared cosine of xhat with xi.

    m is |xhat|^2/d; where xi is well known, that follows theta slowly, and m is `seen`, estimated from the length of B_x beyond
    its noise. The floor of m: a poorly known direction would make theta arbitrary.
    """
    mu = float(shares @ fields) / max(float(shares.sum()), np.finfo(float).tiny)
    m = seen if seen > 0.5 else max(overlap, 0.02)
    return float(np.clip(mu, 0.1, 15.0) / np.sqrt(m))


def _with_rate(rate: float, length: float) -> IndependentRate:
    return IndependentRate(float(np.clip(rate, min(LEAST_COUNT / length, 0.5), 0.5)))


def bounded(evidence: np.ndarray) -> np.ndarray:
    """Evidence cut off so that sums over bags stay finite, whatever the size of the tokens."""
    return np.nan_to_num(np.clip(evidence, -LARGEST, LARGEST), nan=0.0)


def _subset_posterior(evidence: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """log of the sum over subsets of `count` rows of exp(their evidence), one bag per column, and each row's posterior.

    Rows join independently with odds exp(evidence + tilt): given that `count` joined, the subset has the posterior law. The
    number of rows that joined is counted from above and from below; all terms are probabilities and nothing overflows.
    """
    length, bags = evidence.shape
    tilt = _balanced(evidence, count)
    joins = expit(evidence + tilt)
    above = np.zeros((length + 1, count + 1, bags))
    above[0, 0] = 1.0
    for row in range(length):
        above[row + 1] = above[row] * (1.0 - joins[row])
        above[row + 1, 1:] += above[row, :-1] * joins[row]
    total = above[length, count]
    marginals = np.empty_like(joins)
    below = np.zeros((count + 1, bags))
    below[0] = 1.0
    for row in range(length - 1, -1, -1):
        marginals[row] = joins[row] * np.sum(above[row, :-1] * below[count - 1 :: -1], axis=0) / total
        kept = below * (1.0 - joins[row])
        kept[1:] += below[:-1] * joins[row]
        below = kept
    log_sum = np.log(total) + softplus(evidence + tilt).sum(axis=0) - count * tilt
    return log_sum, np.minimum(marginals, 1.0)


def _balanced(evidence: np.ndarray, count: int) -> np.ndarray:
    """A tilt for each column with which about `count` rows join: from one over the count-th largest, by steps that never
    overshoot."""
    tilt = -np.partition(evidence, len(evidence) - count, axis=0)[len(evidence) - count]
    for _ in range(6):  # the mean count is then within a factor of two, and probabilities are far from underflow
        tilt += np.log(count / expit(evidence + tilt).sum(axis=0))
    return tilt


def _log_subsets(lengths: np.ndarray, count: int) -> np.ndarray:
    """log of the number of subsets of `count` among so many."""
    return gammaln(lengths + 1.0) - gammaln(count + 1.0) - gammaln(lengths - count + 1.0)

"""Which tokens of a positive bag carry the signal: priors on v in {0,1}^L and their posteriors.

A prior sees token evidence a_l, the log likelihood ratio "signal against noise" of each token, and gives

    log E_v exp(sum_l v_l a_l)    the log likelihood ratio of each bag
    P(v_l = 1 | a)                the posterior of each token

for all bags at once, ragged bags included.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, gammaln, logit

from ..._core.arrays import softplus
from ...bags.segments import bag_softmax, bag_sum, lengths_of

# Numbers of signal tokens per bag to try, denser where one token more or less changes the likelihood most.
COUNTS = (1, 2, 3, 4, 6, 8, 12, 16)
BALANCE_STEPS = 6  # of `_balanced`; probabilities stay far from underflow with the mean count within a factor of two


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
    for _ in range(BALANCE_STEPS):
        tilt += np.log(count / expit(evidence + tilt).sum(axis=0))
    return tilt


def _log_subsets(lengths: np.ndarray, count: int) -> np.ndarray:
    """log of the number of subsets of `count` among so many."""
    return gammaln(lengths + 1.0) - gammaln(count + 1.0) - gammaln(lengths - count + 1.0)

"""Which tokens of a positive bag carry the signal: priors on v in {0,1}^L and their posteriors.

A prior sees token evidence a_l, the log likelihood ratio "signal against noise" of each token, and gives
    log_ratio   log E_v exp(sum_l v_l a_l)         the bag's log likelihood ratio
    marginals   P(v_l = 1 | a)                     each token's posterior
for all bags at once, ragged bags included.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import gammaln, logit

from ..._core.arrays import sigmoid, softplus
from ...bags.segments import bag_softmax, bag_sum, lengths_of, rows_of

# Numbers of signal tokens per bag to try, denser where one token more or less changes the likelihood most.
COUNTS = (1, 2, 3, 4, 6, 8, 12, 16)


@dataclass(frozen=True)
class ExactCount:
    """Exactly `count` (R) signal tokens per bag, all subsets alike; a bag shorter than that is all signal."""

    count: int

    def expected_share(self, lengths: np.ndarray) -> np.ndarray:
        """Expected share of signal tokens in positive bags of these lengths."""
        return np.minimum(self.count, lengths) / lengths

    def posterior(self, evidence: Any, starts: np.ndarray) -> tuple[Any, Any]:
        """(one log_ratio per bag, one marginal per token)."""
        if self.count == 1:
            marginals, log_ratio = bag_softmax(evidence, starts)
            return log_ratio, marginals
        evidence = np.asarray(evidence)  # the loops over columns below are no work for a device
        lengths = lengths_of(starts, len(evidence))
        log_ratio, marginals = np.empty(len(starts)), np.empty(len(evidence))
        for length in np.unique(lengths):  # bags of one length make a dense block
            chosen = np.flatnonzero(lengths == length)
            rows = rows_of(starts[chosen], lengths[chosen])
            block = evidence[rows].reshape(len(chosen), length)
            log_ratio[chosen], inside = _subset_posterior(block, min(self.count, int(length)))
            marginals[rows] = inside.ravel()
        return log_ratio, marginals

    def log_ratio(self, evidence: Any, starts: np.ndarray) -> Any:
        """One log_ratio per bag: the first part of `posterior`, for less than half of its cost."""
        if self.count == 1:
            return bag_softmax(evidence, starts)[1]
        evidence = np.asarray(evidence)
        lengths = lengths_of(starts, len(evidence))
        found = np.empty(len(starts))
        for length in np.unique(lengths):
            chosen = np.flatnonzero(lengths == length)
            block = evidence[rows_of(starts[chosen], lengths[chosen])].reshape(len(chosen), length)
            count = min(self.count, int(length))
            found[chosen] = _log_polynomial(block, count) - _log_subsets(int(length), count)
        return found


@dataclass(frozen=True)
class IndependentRate:
    """Every token carries the signal with probability `rate`, independently: a random number of signal tokens per bag."""

    rate: float

    def expected_share(self, lengths: np.ndarray) -> np.ndarray:
        """Expected share of signal tokens in positive bags of these lengths."""
        return np.full(len(lengths), self.rate)

    def log_ratio(self, evidence: Any, starts: np.ndarray) -> Any:
        """One log_ratio per bag: the first part of `posterior`."""
        return bag_sum(softplus(logit(self.rate) + evidence) + np.log1p(-self.rate), starts)

    def posterior(self, evidence: Any, starts: np.ndarray) -> tuple[Any, Any]:
        """(one log_ratio per bag, one marginal per token)."""
        log_odds = logit(self.rate) + evidence
        return bag_sum(softplus(log_odds) + np.log1p(-self.rate), starts), sigmoid(log_odds)


# Sums of products of exp(evidence - the bag's largest evidence) above this are kept as they are; smaller ones would lose
# digits to underflow on their way, and are done in logarithms, which take ten times as long.
SAFE = 1e-200


def _subset_posterior(evidence: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """log of the mean of exp(sum of evidence) over all subsets of `count` columns, and each column's posterior.

    With e_r the elementary symmetric polynomials of exp(evidence), built column by column from the left and from the
    right, the subsets that hold column l are those with r columns left of it and count - 1 - r right of it.
    """
    length = evidence.shape[1]
    top = evidence.max(axis=1)
    sizes = np.exp(evidence - top[:, None])
    left = _running_polynomials(sizes, count)
    right = _running_polynomials(sizes[:, ::-1], count)[::-1]
    total = left[length][:, count]
    marginals = np.empty_like(evidence)
    safe = total > SAFE
    for column in range(length):
        pairs = np.einsum("nr,nr->n", left[column][:, :count], right[column + 1][:, count - 1 :: -1])
        marginals[:, column] = np.minimum(sizes[:, column] * pairs / np.where(safe, total, 1.0), 1.0)
    log_total = np.log(np.where(safe, total, 1.0)) + count * top
    if not safe.all():
        log_total[~safe], marginals[~safe] = _subset_posterior_in_logs(evidence[~safe], count)
    return log_total - _log_subsets(length, count), marginals


def _log_polynomial(evidence: np.ndarray, count: int) -> np.ndarray:
    """log e_count of exp(all columns)."""
    top = evidence.max(axis=1)
    current = np.zeros((len(evidence), count + 1))
    current[:, 0] = 1.0
    for column in np.exp(evidence - top[:, None]).T:
        current[:, 1:] += current[:, :-1] * column[:, None]
    total = current[:, count]
    safe = total > SAFE
    found = np.log(np.where(safe, total, 1.0)) + count * top
    if not safe.all():
        found[~safe] = _running_logs(evidence[~safe], count)[-1][:, count]
    return found


def _log_subsets(length: int, count: int) -> float:
    """log of the number of subsets of `count` among `length`."""
    return float(gammaln(length + 1) - gammaln(count + 1) - gammaln(length - count + 1))


def _running_polynomials(sizes: np.ndarray, count: int) -> np.ndarray:
    """After each number of columns, e_0 ... e_count of those columns: (columns + 1, bags, count + 1)."""
    n, length = sizes.shape
    steps = np.zeros((length + 1, n, count + 1))
    steps[0, :, 0] = 1.0
    for column in range(length):
        np.multiply(steps[column, :, :-1], sizes[:, column, None], out=steps[column + 1, :, 1:])
        steps[column + 1] += steps[column]
    return steps


def _subset_posterior_in_logs(evidence: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """log e_count of exp(evidence) and each column's posterior, whatever the evidence's range."""
    length = evidence.shape[1]
    left = _running_logs(evidence, count)
    right = _running_logs(evidence[:, ::-1], count)[::-1]
    total = left[length][:, count]
    marginals = np.empty_like(evidence)
    for column in range(length):
        pairs = left[column][:, :count] + right[column + 1][:, count - 1 :: -1]
        logs = evidence[:, column] + np.logaddexp.reduce(pairs, axis=1) - total
        marginals[:, column] = np.exp(np.minimum(logs, 0.0))  # rounding can leave a probability above one
    return total, marginals


def _running_logs(evidence: np.ndarray, count: int) -> list[np.ndarray]:
    """After each number of columns, log e_0 ... log e_count of exp(those columns)."""
    n, length = evidence.shape
    current = np.full((n, count + 1), -np.inf)
    current[:, 0] = 0.0
    steps = [current]
    for column in range(length):
        following = current.copy()
        following[:, 1:] = np.logaddexp(current[:, 1:], current[:, :-1] + evidence[:, column, None])
        steps.append(following)
        current = following
    return steps

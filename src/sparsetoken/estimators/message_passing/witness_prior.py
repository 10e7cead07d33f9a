"""Which tokens of a positive bag carry the signal: priors on v in {0,1}^L and their posteriors.

A prior sees token evidence a_l, the log likelihood ratio "signal against noise" of each token, and gives
    log_ratio   log E_v exp(sum_l v_l a_l)         the bag's log likelihood ratio
    marginals   P(v_l = 1 | a)                     each token's posterior
    posterior   both
for all bags at once, ragged bags included.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaln, logit

from ..._core.arrays import sigmoid, softplus
from ...bags.segments import bag_exponentials, bag_softmax, bag_sum, lengths_of, over_tokens, rows_of, starts_of

# Numbers of signal tokens per bag to try, denser where one token more or less changes the likelihood most.
COUNTS = (1, 2, 3, 4, 6, 8, 12, 16)
# Bags that are not shorter than this share of the longest among them make one block, the shorter ones filled up with tokens
# that cannot carry the signal: a loop over a block's columns takes its time however few bags the block has.
FILLED = 0.8


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
        layout = _layout(starts.tobytes(), len(evidence), self.count)
        log_ratio, marginals = layout.of_short_bags(evidence), np.ones(len(evidence))
        for block in layout.blocks:
            values, inside = _subset_posterior(block.columns(evidence), self.count)
            log_ratio[block.bags] = values - block.log_subsets
            block.put(marginals, inside)
        return log_ratio, marginals

    def marginals(self, evidence: Any, starts: np.ndarray) -> Any:
        """One marginal per token: the second part of `posterior`, of a single signal token for half of its cost."""
        if self.count > 1:
            return self.posterior(evidence, starts)[1]
        exponentials, total, _ = bag_exponentials(evidence, starts)
        return exponentials / (total if np.ndim(total) == 0 else over_tokens(total, starts, len(evidence)))

    def log_ratio(self, evidence: Any, starts: np.ndarray) -> Any:
        """One log_ratio per bag: the first part of `posterior`, for less than half of its cost."""
        if self.count == 1:
            return bag_exponentials(evidence, starts)[2]
        evidence = np.asarray(evidence)
        layout = _layout(starts.tobytes(), len(evidence), self.count)
        found = layout.of_short_bags(evidence)
        for block in layout.blocks:
            found[block.bags] = _log_polynomial(block.columns(evidence), self.count) - block.log_subsets
        return found


class _Block(NamedTuple):
    """Bags of about the same length, longer than the count.

    Attributes
    ----------
    bags : ndarray
        Which bags.
    rows : ndarray of shape (longest bag, bags) or None
        Their tokens, one bag per column; the number of all tokens where a bag has no more. None: all bags, of one length.
    log_subsets : ndarray
        The logarithm of each bag's number of subsets of the count.
    """

    bags: np.ndarray
    rows: np.ndarray | None
    log_subsets: np.ndarray

    def columns(self, evidence: np.ndarray) -> np.ndarray:
        """The evidence of these bags' tokens in the form of `rows`, -inf where a bag has no more."""
        if self.rows is None:
            return np.ascontiguousarray(evidence.reshape(len(self.bags), -1).T)
        return np.append(evidence, -np.inf)[self.rows]

    def put(self, values: np.ndarray, inside: np.ndarray) -> None:
        """Write what was found for `columns` to its places among the values of all tokens."""
        if self.rows is None:
            values.reshape(len(self.bags), -1)[:] = inside.T
        else:
            real = self.rows < len(values)
            values[self.rows[real]] = inside[real]


class _BagLayout(NamedTuple):
    """Bags told apart by their lengths: those no longer than the count, all of whose tokens carry the signal, and others."""

    bags: int
    short: np.ndarray
    short_rows: np.ndarray
    short_starts: np.ndarray
    blocks: tuple[_Block, ...]

    def of_short_bags(self, evidence: np.ndarray) -> np.ndarray:
        """One log_ratio per bag, filled in for the short ones."""
        found = np.empty(self.bags)
        if len(self.short):
            found[self.short] = bag_sum(evidence[self.short_rows], self.short_starts)
        return found


@lru_cache(maxsize=4)  # messages ask for the same bags hundreds of times
def _layout(starts_bytes: bytes, total: int, count: int) -> _BagLayout:
    starts = np.frombuffer(starts_bytes, dtype=np.intp)
    lengths = lengths_of(starts, total)
    short = np.flatnonzero(lengths <= count)
    blocks = []
    width = int(lengths.max())
    while width > count:
        least = max(FILLED * width, count + 1)
        bags = np.flatnonzero((lengths >= least) & (lengths <= width))
        rows = None
        if len(bags) < len(starts) or lengths.min() < width:
            place = np.arange(width)[:, None]
            rows = np.where(place < lengths[bags], starts[bags] + place, total)
        blocks.append(_Block(bags, rows, _log_subsets(lengths[bags], count)))
        width = int(lengths.max(initial=0, where=lengths < least))
    return _BagLayout(
        len(starts), short, rows_of(starts[short], lengths[short]), starts_of(lengths[short]), tuple(blocks)
    )


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

    def marginals(self, evidence: Any, starts: np.ndarray) -> Any:
        """One marginal per token: the second part of `posterior`, for a fraction of its cost."""
        return sigmoid(logit(self.rate) + evidence)

    def posterior(self, evidence: Any, starts: np.ndarray) -> tuple[Any, Any]:
        """(one log_ratio per bag, one marginal per token)."""
        return self.log_ratio(evidence, starts), self.marginals(evidence, starts)


# Sums of products of exp(evidence - the bag's largest evidence) above this are kept as they are; smaller ones would lose
# digits to underflow on their way, and are done in logarithms, which take ten times as long.
SAFE = 1e-200


def _subset_posterior(evidence: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """log e_count of exp(evidence), one bag per column, and each token's posterior.

    With e_r the elementary symmetric polynomials of exp(evidence), built row by row from above and from below, the subsets that
    hold row l are those with r rows above it and count - 1 - r below it.
    """
    length, n = evidence.shape
    top = evidence.max(axis=0)
    sizes = np.exp(evidence - top)
    above = np.zeros((length + 1, count + 1, n))
    above[:, 0] = 1.0
    for row in range(length):
        np.multiply(above[row, :-1], sizes[row], out=above[row + 1, 1:])
        above[row + 1, 1:] += above[row, 1:]
    total = above[length, count]
    safe = total > SAFE
    divisor = np.where(safe, total, 1.0)
    marginals = np.empty_like(evidence)
    below = np.zeros((count + 1, n))  # e_count first, e_0 last: products with those above pair off
    below[count] = 1.0
    products = np.empty((count, n))
    for row in range(length - 1, -1, -1):
        np.multiply(above[row, :-1], below[1:], out=products)
        np.sum(products, axis=0, out=marginals[row])
        np.multiply(below[1:], sizes[row], out=products)
        below[:-1] += products
    marginals *= sizes
    marginals /= divisor
    np.minimum(marginals, 1.0, out=marginals)
    log_total = np.log(divisor) + count * top
    if not safe.all():
        log_total[~safe], logs = _subset_posterior_in_logs(evidence[:, ~safe].T, count)
        marginals[:, ~safe] = logs.T
    return log_total, marginals


def _log_polynomial(evidence: np.ndarray, count: int) -> np.ndarray:
    """log e_count of exp(evidence), one bag per column."""
    top = evidence.max(axis=0)
    current = np.zeros((count + 1, evidence.shape[1]))
    current[0] = 1.0
    products = np.empty((count, evidence.shape[1]))
    for sizes in np.exp(evidence - top):
        np.multiply(current[:-1], sizes, out=products)
        current[1:] += products
    total = current[count]
    safe = total > SAFE
    found = np.log(np.where(safe, total, 1.0)) + count * top
    if not safe.all():
        found[~safe] = _running_logs(evidence[:, ~safe].T, count)[-1][:, count]
    return found


def _log_subsets(lengths: np.ndarray, count: int) -> np.ndarray:
    """log of the number of subsets of `count` among so many."""
    return gammaln(lengths + 1.0) - gammaln(count + 1.0) - gammaln(lengths - count + 1.0)


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

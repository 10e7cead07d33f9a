"""How far a bag lies outside what the training bags were like, and what becomes of its log odds there.

Clipped tokens and bounded log odds keep one wild number from deciding. They do not help where a whole bag is unlike anything
in training: shifted in all features, in other units, holding a token that is large everywhere, or hundreds of times as long.
What was learnt need not hold there, so the log odds of such bags are drawn towards the class frequencies', for all learners.

A bag is placed by its scaled tokens z as they are, and by their logarithms sign(z) log(1 + SHARPNESS |z|). Where features have
heavy tails, a few tokens make the standard deviations, and bags whose tokens have all moved still have a mean token like others
that hold one such token. In logarithms most tokens fill the range, and those bags lie apart.

One or two training bags that are far out themselves would hide all that lies nearer. So a bag is compared with the second and
the third farthest training bag, too. One that lies beyond those keeps what the bags at least as far out support: odds of 3 : 2
with one of them, 2 : 1 with two.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from .._core.arrays import is_jax_array, namespace
from ..bags.bags import Bags
from ..bags.cluster import ClusterBags
from ..bags.scaler import BagScaler
from ..bags.scratch import row_blocks
from ..bags.segments import bag_extremes, bag_sum

# Times the longest training bag from which on log odds of longer bags are drawn back, and by how much: they are divided by
# 1 + LENGTH_STEEPNESS log(length over that). Trained on bags of five tokens, one or a fifth of which carried the signal, log
# odds as they are had the least log loss on bags up to 10 times as long. At 400 times, the most that 1000 training bags
# support, 6.2, becomes 0.7: a log loss of at most 1.10 times the frequencies' even where the labels are chance.
FAR_LONGER = 30.0
LENGTH_STEEPNESS = 3.0
# Largest squared deviation that one feature contributes to a mean over features, and to a maximum, in its variance over the
# training bags: a few features that are rare or heavy-tailed in training neither hide nor make a bag that lies apart.
MEAN_CAP, LARGEST_CAP = 25.0, 100.0
# The largest in logarithms, whose tails are light: with 100 as well, a single training bag with an outlier in one feature would
# hide all that lies apart in another.
LOG_CAP = 400.0
# Logarithms begin at this fraction of a standard deviation. With 1 or 1/2 instead of 1/4, heavy-tailed bags that are shifted by
# two are missed more often; with 1/16, those with one feature far off are.
SHARPNESS = 4.0
# How far beyond the farthest training bag nothing is changed, in units of the distance between the usual one and the farthest.
# A fresh bag is farther than n training bags one time in n + 1, and hardly ever by half of that distance: of 4,168 held-out
# bags of eleven real sets, three were.
MARGIN = 0.5
# By how much more log odds are divided for every such unit beyond the margin. Of 30 drawn sets whose test bags were all shifted
# by one standard deviation in every feature, with 1 instead of 5 as many cost more than 1.10 times the frequencies' log loss,
# but up to 2.5 times instead of 2.1; bags of the training law are touched by neither.
STEEPNESS = 5.0
# How many of the farthest training bags count, at most one in so many training bags, and how many of them it takes to double
# the odds. With these, held-out bags of eleven real sets lose 0.5 % in log loss on average and 1.7 % at most, and 18 of 4,168
# are touched (with the third farthest of fewer bags, 1.2 and 5 %, in logarithms alone); with two bags, or one to double the
# odds, moved bags of some heavy-tailed sets cost up to 1.15 times the frequencies' log loss.
FAR_BAGS = 3
ONE_IN = 30
DOUBLING = 2.0
# A handful of bags does not tell how far bags scatter: the unit is at least this share of the usual distance, and longer by
# q + q^2 with q = FEW / n. Of fresh Gaussian bags 0.8, 1.1, 0.9 and 0.3 % are then beyond the farthest's margin after 8, 16, 30
# and 120 training bags (after 120, with the margins of the second and third, 1.7 %; after 300, 0.5 %).
LEAST_UNIT = 0.25
FEW = 24.0
SUMMARIES = "summaries"  # under this name bags on a cluster keep their `training_summaries`


@dataclass(frozen=True)
class TrainingRange:
    """What the training bags were like.

    Attributes
    ----------
    scaler : BagScaler
        Scales the tokens.
    center, spread : ndarray of shape (5 features,)
        Mean and standard deviation over the training bags of what places them (`Placed.rows`).
    farthest, unit : ndarray of shape (far bags, 7)
        How far apart the farthest training bag lies, seen from the others, and how much farther it does than the usual one:
        mean and largest squared deviation of the mean token's features, of its logarithms', and of the logarithms' mean square,
        least and largest; and the largest mean square of a token. Then the same of the next farthest bags: `FAR_BAGS` in all,
        at most one in `ONE_IN` training bags.
    quietest : float
        The least mean square of a training bag's scaled tokens.
    shortest, longest : int
        Tokens of the shortest and of the longest training bag.
    prior_odds : float
        Log odds of the training set's (weighted) class frequencies.
    """

    scaler: BagScaler
    center: np.ndarray
    spread: np.ndarray
    farthest: np.ndarray
    unit: np.ndarray
    quietest: float
    shortest: int
    longest: int
    prior_odds: float

    def beyond(self, bags: Bags) -> np.ndarray:
        """How far each bag lies beyond the farthest training bags, in units of their distance from the usual.

        Parameters
        ----------
        bags : Bags
            The bags as they are.

        Returns
        -------
        ndarray of shape (bags, far bags)
            Beyond the farthest, the second and the third; at most 0 within the range that these span.
        """
        seen = placed(bags, self.scaler)
        deviations = (seen.rows - self.center) / self.spread
        # The extremes of more tokens lie farther out, and of fewer farther in: that alone is nothing strange.
        least, most = _extremes(deviations)
        longer, shorter = bags.lengths > self.longest, bags.lengths < self.shortest
        least[longer], most[longer] = np.maximum(least[longer], 0.0), np.minimum(most[longer], 0.0)
        least[shorter], most[shorter] = np.minimum(least[shorter], 0.0), np.maximum(most[shorter], 0.0)
        squares = deviations**2
        squares *= np.minimum(bags.lengths / self.shortest, 1.0)[:, None]  # the mean of fewer tokens scatters more
        each = (_apart(squares, seen.largest)[:, None, :] - self.farthest) / self.unit
        each[longer, 1:, -1] = -np.inf  # the largest of more tokens: only one beyond all training bags is strange
        far = each.max(axis=2)
        if self.quietest > 0:  # tokens that hardly vary are in other units: one more halving is one unit more
            with np.errstate(divide="ignore"):
                far = np.maximum(far, np.log2(self.quietest / seen.quiet)[:, None])
        return far

    def drawn_back(self, odds: np.ndarray, bags: Bags) -> np.ndarray:
        """The log odds, drawn towards the class frequencies' as far as the bags lie outside the training range.

        Parameters
        ----------
        odds : ndarray
            Log odds of the bags.
        bags : Bags
            The bags as they are.

        Returns
        -------
        ndarray
            The very same numbers for bags within the range.
        """
        longer = np.maximum(bags.lengths / (FAR_LONGER * self.longest), 1.0)
        outside = STEEPNESS * np.maximum(self.beyond(bags) - MARGIN, 0.0) + LENGTH_STEEPNESS * np.log(longer)[:, None]
        evidence = odds - self.prior_odds
        kept = np.abs(evidence)[:, None] / (1.0 + outside)
        # Bags that lie as far out as this one, though few, allow some odds.
        kept[:, 1:] = np.maximum(kept[:, 1:], np.log1p(np.arange(1, kept.shape[1]) / DOUBLING))
        kept = kept.min(axis=1)
        return np.where(kept < np.abs(evidence), self.prior_odds + np.copysign(kept, evidence), odds)


class Placed(NamedTuple):
    """What places bags inside or outside the range, in NumPy's memory and in double precision.

    Attributes
    ----------
    rows : ndarray of shape (bags, 5 features)
        Of each feature the mean, then the mean, the mean square, the least and the largest of the logarithms.
    largest, quiet : ndarray of shape (bags,)
        The largest and the mean of the tokens' mean squares.
    spreads : ndarray of shape (bags, features)
        Standard deviation of each feature.
    """

    rows: np.ndarray
    largest: np.ndarray
    quiet: np.ndarray
    spreads: np.ndarray


def _extremes(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Least and largest of the logarithms among `Placed.rows`: views, not copies."""
    d = rows.shape[1] // 5
    return rows[:, 3 * d : 4 * d], rows[:, 4 * d :]


def _apart(squares: np.ndarray, largest: np.ndarray) -> np.ndarray:
    """(bags, 7): mean and maximum over features of squared deviations, capped, in the order of `TrainingRange.farthest`."""
    d, columns = squares.shape[1] // 5, []
    for part, cap in (
        (squares[:, :d], LARGEST_CAP),
        (squares[:, d : 2 * d], LOG_CAP),
        (squares[:, 2 * d :], LOG_CAP),
    ):
        columns += [np.minimum(part, MEAN_CAP).mean(axis=1), np.minimum(part.max(axis=1), cap)]
    return np.column_stack([*columns, largest])


def placed(bags: Bags, scaler: BagScaler) -> Placed:
    """What places bags inside or outside the range.

    Parameters
    ----------
    bags : Bags
        The bags as they are.
    scaler : BagScaler
        Scales their tokens.

    Returns
    -------
    Placed
        In one pass, whose steps are made while the tokens are still near the processor.
    """
    n, d = len(bags), bags.n_features
    sums, loudness = np.zeros((n, 4 * d)), np.zeros(n)
    least, most, largest = np.full((n, d), np.inf), np.full((n, d), -np.inf), np.zeros(n)
    for rows, some, starts in _token_blocks(bags):
        tokens = scaler.scaled_block(bags.tokens[rows])
        low, high = bag_extremes(tokens, starts)
        np.minimum(least[some], low, out=least[some])
        np.maximum(most[some], high, out=most[some])
        squares, logs = tokens * tokens, _logarithms(tokens)
        sums[some] += np.hstack([np.asarray(bag_sum(x, starts)) for x in (tokens, logs, logs * logs, squares)])
        loud = np.asarray(namespace(squares).minimum(squares, MEAN_CAP).mean(axis=1), dtype=np.float64)
        np.maximum(largest[some], np.maximum.reduceat(loud, starts), out=largest[some])
        loudness[some] += np.add.reduceat(loud, starts)
    sums /= bags.lengths[:, None]
    spreads = np.sqrt(np.maximum(sums[:, 3 * d :] - sums[:, :d] ** 2, 0.0))
    # Logarithms keep the order: the extremes are those of the tokens.
    places = np.hstack([sums[:, : 3 * d], _logarithms(least), _logarithms(most)])
    return Placed(places, largest, loudness / bags.lengths, spreads)


def _token_blocks(bags: Bags) -> Iterator[tuple[slice, slice, np.ndarray]]:
    """Rows of tokens, some megabytes at a time, the bags they belong to, and where these begin among the rows.

    Whole bags where one fits; on a device all at once.
    """
    total, starts = bags.n_tokens, bags.starts
    step = total if is_jax_array(bags.tokens) else next(row_blocks(bags.tokens)).stop
    first = 0
    while first < total:
        last = min(first + step, total)
        if last < total:
            whole = int(starts[np.searchsorted(starts, last, side="right") - 1])
            last = whole if whole > first else last
        some = slice(int(np.searchsorted(starts, first, side="right")) - 1, int(np.searchsorted(starts, last)))
        yield slice(first, last), some, np.maximum(starts[some] - first, 0)
        first = last


def _logarithms(tokens: Any) -> Any:
    xp = namespace(tokens)
    sizes = SHARPNESS * xp.abs(tokens)
    if xp is not np:
        return xp.copysign(xp.log1p(sizes), tokens)
    sizes += 1.0  # half of the time that log1p takes, to the rounding of numbers near one
    np.log(sizes, out=sizes)
    return np.copysign(sizes, tokens, out=sizes)


def training_summaries(part: Bags, scaler: BagScaler) -> np.ndarray:
    """What places training bags, side by side, the mean token first, and after it the spreads of each bag's features.

    Parameters
    ----------
    part : Bags
        Some bags as they are.
    scaler : BagScaler
        Scales their tokens.

    Returns
    -------
    ndarray of shape (bags, 6 features + 2)
        `Placed.rows`, largest and mean mean square of a token, standard deviations.
    """
    found = placed(part, scaler)
    return np.column_stack([found.rows, found.largest, found.quiet, found.spreads])


def fit_range(bags: Any, signs: np.ndarray, weights: np.ndarray) -> tuple[TrainingRange, np.ndarray]:
    """Learn the range of the training bags.

    Parameters
    ----------
    bags : Bags or ClusterBags
        The training bags.
    signs, weights : ndarray
        Their labels and weights.

    Returns
    -------
    tuple
        The range, and (bags, 2 features) what bags are compared by: mean and standard deviation of their scaled tokens.
    """
    scaler = BagScaler().fit(bags)
    rows = bags.scaled_by(scaler).kept_rows(SUMMARIES) if isinstance(bags, ClusterBags) else None
    if rows is None:
        rows = bags.per_bag(training_summaries, shared=(scaler,))
    n, d = len(rows), bags.n_features
    places, largest, quiet, spreads = rows[:, : 5 * d], rows[:, 5 * d], rows[:, 5 * d + 1], rows[:, 5 * d + 2 :]
    center = places.mean(axis=0)
    blocks = list(row_blocks(places))  # one after the other: squares of all would take the room of many tokens
    total = reduce(np.add, (_sums_of_squares(places[block] - center) for block in blocks))
    apart = np.concatenate(
        [_apart(_seen_from_others(places[block] - center, total, n), largest[block]) for block in blocks]
    )
    spread = np.sqrt(total / (n - 1.0))
    usual, few = apart.mean(axis=0), FEW / n
    farthest = np.sort(apart, axis=0)[::-1][: max(1, min(FAR_BAGS, n // ONE_IN))]
    unit = np.maximum(farthest - usual, LEAST_UNIT * usual) * (1.0 + few + few**2)
    found = TrainingRange(
        scaler,
        center,
        np.where(spread > 0, spread, 1.0),
        farthest,
        np.where(unit > 0, unit, 1.0),
        float(quiet.min()),
        int(np.min(bags.lengths)),
        int(np.max(bags.lengths)),
        float(np.log(weights[signs > 0].sum() / weights[signs < 0].sum())),
    )
    return found, np.hstack([places[:, :d], spreads])


def _seen_from_others(deviations: np.ndarray, total: np.ndarray, n: int) -> np.ndarray:
    """Squared deviations of some of n bags in the variance of the other n - 1, as that of a new bag will be (in their place).

    The mean of the others is n/(n - 1) times as far away as that of all, their sum of squares smaller by the bag's own part.
    """
    all_of_them = np.where(total > 0, total, 1.0)  # features that do not vary have no deviations
    squares = np.multiply(
        deviations, deviations, out=deviations
    )  # in place: room for results takes longer than they do
    others = squares * (-n / (n - 1.0))
    others += all_of_them
    np.maximum(others, 1e-12 * all_of_them, out=others)
    squares /= others
    squares *= (n / (n - 1.0)) ** 2 * max(n - 2.0, 1.0)
    return squares


def _sums_of_squares(values: np.ndarray) -> np.ndarray:
    return np.einsum("ij,ij->j", values, values)

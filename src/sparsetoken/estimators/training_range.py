"""How far a bag lies outside what the training bags were like, and what becomes of its log odds there.

Clipped tokens and bounded log odds keep one wild number from deciding. They do not help where a whole bag is unlike anything
in training: shifted in all features, in other units, holding a token that is large everywhere, or hundreds of times as long.
What was learnt need not hold there, so the log odds of such bags are drawn towards the class frequencies', for all learners.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .._core.arrays import namespace
from ..bags.bags import Bags
from ..bags.cluster import ClusterBags
from ..bags.scaler import BagScaler
from ..bags.scratch import rowwise
from ..bags.segments import bag_mean

# Times the longest training bag from which on log odds of longer bags are drawn back, and by how much: they are divided by
# 1 + LENGTH_STEEPNESS log(length over that). Trained on bags of five tokens, one or a fifth of which carried the signal, log
# odds as they are had the least log loss on bags up to 10 times as long. At 400 times, the most that 1000 training bags
# support, 6.2, becomes 0.7: a log loss of at most 1.10 times the frequencies' even where the labels are chance.
FAR_LONGER = 30.0
LENGTH_STEEPNESS = 3.0
# Largest squared deviation that one feature contributes to a mean over features, and to a maximum, in its variance over the
# training bags: a few features that are rare or heavy-tailed in training neither hide nor make a bag that lies apart.
MEAN_CAP, LARGEST_CAP = 25.0, 100.0
# How far beyond the farthest training bag nothing is changed, in units of the distance between the usual one and the farthest.
# A fresh bag is farther than n training bags one time in n + 1, and hardly ever by half of that distance: of 4,168 held-out
# bags of eleven real sets, three were.
MARGIN = 0.5
# By how much more log odds are divided for every such unit beyond the margin. Of 30 drawn sets whose test bags were all shifted
# by one standard deviation in every feature, with 1 instead of 5 as many cost more than 1.10 times the frequencies' log loss,
# but up to 2.5 times instead of 2.1; bags of the training law are touched by neither.
STEEPNESS = 5.0
# A handful of bags does not tell how far bags scatter: the unit is at least this share of the usual distance, and longer by
# FEW / n. Of fresh Gaussian bags 4.5, 2.4, 1.0 and 0.2 % are then beyond the margin after 8, 16, 30 and 120 training bags.
LEAST_UNIT = 0.25
FEW = 24.0
SUMMARIES = "summaries"  # under this name bags on a cluster keep their `summaries`


@dataclass(frozen=True)
class TrainingRange:
    """What the training bags were like.

    Attributes
    ----------
    scaler : BagScaler
        Scales the tokens.
    center, spread : ndarray of shape (features,)
        Mean and standard deviation of the scaled mean tokens over the training bags.
    farthest, unit : ndarray of shape (3,)
        How far apart the farthest training bag lies, seen from the others, and how much farther it does than the usual one:
        mean and largest squared deviation of the mean token's features, and the largest mean square of a token.
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
        """How far each bag lies beyond the farthest training bag, in units of that one's distance from the usual; at most 0
        within the range."""
        means, largest, quiet = summaries(bags, self.scaler)
        squares = ((means - self.center) / self.spread) ** 2
        squares *= np.minimum(bags.lengths / self.shortest, 1.0)[:, None]  # the mean of fewer tokens scatters more
        far = (_apart(squares, largest) - self.farthest) / self.unit
        if self.quietest > 0:  # tokens that hardly vary are in other units: one more halving is one unit more
            with np.errstate(divide="ignore"):
                far = np.column_stack([far, np.log2(self.quietest / quiet)])
        return np.max(far, axis=1)

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
        outside = STEEPNESS * np.maximum(self.beyond(bags) - MARGIN, 0.0) + LENGTH_STEEPNESS * np.log(longer)
        return np.where(outside > 0, self.prior_odds + (odds - self.prior_odds) / (1.0 + outside), odds)


def _apart(squares: np.ndarray, largest: np.ndarray) -> np.ndarray:
    """(bags, 3): mean and maximum over features of squared deviations, capped, beside the largest mean square of a token."""
    mean = np.minimum(squares, MEAN_CAP).mean(axis=1)
    return np.column_stack([mean, np.minimum(squares.max(axis=1), LARGEST_CAP), largest])


def summaries(bags: Bags, scaler: BagScaler) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What places bags inside or outside the range.

    Parameters
    ----------
    bags : Bags
        The bags as they are.
    scaler : BagScaler
        Scales their tokens.

    Returns
    -------
    tuple of ndarray
        Of each bag the mean scaled token, the largest and the mean mean square of its tokens, in NumPy's memory.
    """
    return _summaries(bags.scaled_by(scaler))


def _summaries(scaled: Bags) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    def mean_squares(tokens: Any) -> Any:
        xp = namespace(tokens)
        return xp.minimum(tokens * tokens, MEAN_CAP).mean(axis=1)[:, None]

    squares = np.asarray(rowwise(mean_squares, scaled.tokens, 1, scaled.dtype)[:, 0], dtype=np.float64)
    means = np.asarray(bag_mean(scaled.tokens, scaled.starts), dtype=np.float64)
    return means, np.maximum.reduceat(squares, scaled.starts), bag_mean(squares, scaled.starts)


def training_summaries(part: Bags, scaler: BagScaler) -> np.ndarray:
    """`summaries` of training bags side by side, and after them the spreads of each bag's features.

    Parameters
    ----------
    part : Bags
        Some bags as they are.
    scaler : BagScaler
        Scales their tokens.

    Returns
    -------
    ndarray of shape (bags, 2 features + 2)
        Mean token, largest and mean mean square of a token, standard deviations.
    """
    scaled = part.scaled_by(scaler)
    means, largest, quiet = _summaries(scaled)
    squared = rowwise(lambda tokens: tokens * tokens, scaled.tokens, scaled.n_features, scaled.dtype)
    squares = np.asarray(bag_mean(squared, scaled.starts), dtype=np.float64)
    return np.column_stack([means, largest, quiet, np.sqrt(np.maximum(squares - means**2, 0.0))])


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
    means, largest, quiet = rows[:, :d], rows[:, d], rows[:, d + 1]
    center = means.mean(axis=0)
    squares = (means - center) ** 2
    total = squares.sum(axis=0)
    # Each bag as seen from the others, as a new one will be: their mean is n/(n - 1) times as far away, their sum of squares
    # smaller by its own part.
    others = np.maximum(total - squares * (n / (n - 1.0)), 1e-12 * total) / max(n - 2.0, 1.0)
    seen = squares * (n / (n - 1.0)) ** 2 / np.where(others > 0, others, 1.0)
    apart = _apart(seen, largest)
    spread = np.sqrt(total / (n - 1.0))
    usual, farthest = apart.mean(axis=0), apart.max(axis=0)
    unit = np.maximum(farthest - usual, LEAST_UNIT * usual) * (1.0 + FEW / n)
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
    return found, np.hstack([means, rows[:, d + 2 :]])

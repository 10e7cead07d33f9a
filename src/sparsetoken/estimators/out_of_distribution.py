"""Bags unlike all training bags: predictions are shrunk towards the class frequencies or the mean label.

A bag is summarised by mean and standard deviation of its tokens' scaled features. Its distance is the root mean square of the
summaries' deviations from those of the training bags, in standard deviations of the training bags. Beyond MARGIN times the
farthest training bag, log odds are multiplied by the inverse square of the distance relative to that. This catches bags whose
tokens have moved in many features or come in much larger units. It does not see a change of a few features among many (clipping
to the training range bounds that) or of a bag's length, and heavy tails among the training bags widen the range.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..bags.bags import Bags
from ..bags.dask_cluster import MEAN_TOKENS
from ..bags.scaler import BagScaler
from ..bags.sums_per_bag import bag_mean_and_spread

# Distance, relative to the farthest training bag, up to which nothing is shrunk: a fresh bag is farther than all n training
# bags one time in n + 1, and hardly ever by half.
MARGIN = 1.5
SUMMARIES = "summaries"  # the name under which bags keep them


def summaries(part: Bags, scaler: BagScaler) -> np.ndarray:
    """Mean and standard deviation of each bag's scaled tokens, (bags, 2 features), in double precision."""
    return np.hstack(bag_mean_and_spread(scaler.scaled(part.tokens), part.starts))


@dataclass(frozen=True)
class TrainingRange:
    """Where the training bags lie."""

    scaler: BagScaler
    center: np.ndarray
    spread: np.ndarray
    farthest: float

    def factors(self, bags: Bags) -> np.ndarray:
        """The shrinkage factor of predictions towards the class frequencies (or the mean label): 1 within range."""
        beyond = _distances(summaries(bags, self.scaler), self.center, self.spread) / (MARGIN * self.farthest)
        return 1.0 / np.maximum(beyond, 1.0) ** 2


def fit_range(bags: Any) -> tuple[TrainingRange, np.ndarray]:
    """The range of the training bags, and their summaries; two passes over the bags, unless they have kept them."""
    scaler = BagScaler().fit(bags)
    rows = bags.once_per_bag(SUMMARIES, lambda: bags.per_bag(summaries, shared=(scaler,)))
    if bags.in_files:  # a pass reads all files: keep the mean tokens, which every learner needs next
        means = rows[:, : bags.n_features].astype(bags.dtype)
        bags.scaled_by(scaler).once_per_bag(MEAN_TOKENS, lambda: means)
    center, spread = rows.mean(axis=0), rows.std(axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    farthest = float(_distances(rows, center, spread).max())
    return TrainingRange(scaler, center, spread, farthest if farthest > 0 else 1.0), rows


def _distances(rows: np.ndarray, center: np.ndarray, spread: np.ndarray) -> np.ndarray:
    return np.sqrt(np.mean(((rows - center) / spread) ** 2, axis=1))

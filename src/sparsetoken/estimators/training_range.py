"""Bags unlike all training bags: their predictions are shrunk towards the class frequencies (or the mean label).

A bag is summarised by mean and standard deviation of its tokens' scaled features. Its distance is the root mean square of the
summaries' deviations from those of the training bags, in standard deviations of the training bags. Beyond MARGIN times the
farthest training bag, what was learnt counts by the inverse square of the distance. This catches bags whose tokens have moved
in many features or come in much larger units; it does not see a change of a few features among many (clipping to the training
range bounds that), nor of a bag's length, and heavy tails in training make it wide.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..bags.bags import MEAN_TOKENS, Bags
from ..bags.scaler import BagScaler
from ..bags.segments import bag_mean

# How far beyond the farthest training bag nothing is changed: a fresh bag is farther than all n training bags one time in
# n + 1, and hardly ever half as far again.
MARGIN = 1.5
SUMMARIES = "summaries"  # the name under which bags keep them


def summaries(part: Bags, scaler: BagScaler) -> np.ndarray:
    """Mean and standard deviation of each bag's scaled tokens, (bags, 2 features), in double precision."""
    tokens = scaler.scaled(part.tokens)
    mean, square = (np.asarray(bag_mean(x, part.starts), dtype=np.float64) for x in (tokens, tokens * tokens))
    return np.hstack([mean, np.sqrt(np.maximum(square - mean**2, 0.0))])


@dataclass(frozen=True)
class TrainingRange:
    """Where the training bags lie."""

    scaler: BagScaler
    center: np.ndarray
    spread: np.ndarray
    farthest: float

    def factors(self, bags: Bags) -> np.ndarray:
        """What the predictions' distance from the class frequencies (or the mean label) is multiplied by: 1 within range."""
        beyond = _distances(summaries(bags, self.scaler), self.center, self.spread) / (MARGIN * self.farthest)
        return 1.0 / np.maximum(beyond, 1.0) ** 2


def fit_range(bags: Any) -> tuple[TrainingRange, np.ndarray]:
    """The range of the training bags, and their summaries; two passes over the bags, unless they have kept them."""
    scaler = BagScaler().fit(bags)
    rows = bags.kept_rows(SUMMARIES)
    if rows is None:
        rows = bags.per_bag(summaries, shared=(scaler,))
        bags.keep_rows(SUMMARIES, rows)
    if bags.in_files:  # a pass reads all files: the mean tokens, which every learner asks for next, are known now
        bags.scaled_by(scaler).keep_rows(MEAN_TOKENS, rows[:, : bags.n_features].astype(bags.dtype))
    center, spread = rows.mean(axis=0), rows.std(axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    farthest = float(_distances(rows, center, spread).max())
    return TrainingRange(scaler, center, spread, farthest if farthest > 0 else 1.0), rows


def _distances(rows: np.ndarray, center: np.ndarray, spread: np.ndarray) -> np.ndarray:
    return np.sqrt(np.mean(((rows - center) / spread) ** 2, axis=1))

"""Statistics of a bag: what its tokens have in common, how far they reach, how much they differ, and how many they are."""

from __future__ import annotations

import numpy as np
from sklearn.base import BaseEstimator

from ...bags.bags import Bags
from ...bags.scaler import BagScaler
from ...bags.segments import bag_extremes, bag_mean
from .kernels import fit_kernel
from .lift import TokenLift

BAG_LANDMARKS = 150  # training bags as landmarks of the kernel on statistics, at most: its cost grows with their cube
BAG_WIDTH = 2.0  # gamma times the median squared distance, as for the tokens' near kernel
# Total variance of the kernel's features: ridges from 0.1 to 1e-4 then reach from a heavily smoothed to an interpolating fit.
KERNEL_VARIANCE = 100.0
STATISTIC_PART = 0.5  # times each of the four statistics of a feature: together they have its variance


def one_token_each(rows: np.ndarray) -> Bags:
    """Bags of one token each."""
    places = np.arange(len(rows), dtype=np.intp)
    return Bags.trusted(rows, places, places, None)


class BagStatistics(BaseEstimator):
    """Mean, maximum, minimum and spread of every feature over a bag's scaled tokens, and the logarithm of its length."""

    def __init__(self, lift: TokenLift):
        self.lift = lift

    def fit(self, bags: Bags, seed: int) -> BagStatistics:
        """Learn the statistics' scales and the kernel."""
        self.lengths_differ_ = bool(bags.lengths.min() < bags.lengths.max())
        raw = self.raw(bags)
        self.scaler_ = BagScaler(compress=True).fit(raw)
        scaled = self.scaler_.scaled(raw)
        chosen = np.random.default_rng(seed).choice(len(scaled), min(BAG_LANDMARKS, len(scaled)), replace=False)
        self.kernel_ = fit_kernel(scaled[np.sort(chosen)], BAG_WIDTH, scaled, KERNEL_VARIANCE)
        return self

    def raw(self, bags: Bags) -> np.ndarray:
        """(bags, statistics) in double precision, in NumPy's memory."""
        return bags.per_bag(self._of_part)

    def _of_part(self, part: Bags) -> np.ndarray:
        # On the host: bags that differ in length are no work for a device.
        tokens = np.asarray(self.lift.scaled(part.tokens)).astype(np.float64, copy=False)
        mean = bag_mean(tokens, part.starts)
        least, largest = bag_extremes(tokens, part.starts)
        with np.errstate(over="ignore", invalid="ignore"):  # tokens that nobody scaled may be of any size
            spread = np.sqrt(np.maximum(bag_mean(tokens**2, part.starts) - mean**2, 0.0))
        columns = [mean, largest, least, np.nan_to_num(spread, nan=0.0, posinf=0.0)]
        if self.lengths_differ_:
            columns.append(np.log(part.lengths)[:, None])
        return np.hstack(columns)

    def linear(self, raw: np.ndarray) -> np.ndarray:
        """The statistics standardised, heavy tails compressed."""
        return STATISTIC_PART * self.scaler_.scaled(raw)

    def kernel(self, raw: np.ndarray) -> np.ndarray:
        """The features of the kernel."""
        return self.kernel_(self.scaler_.scaled(raw), np.float64)

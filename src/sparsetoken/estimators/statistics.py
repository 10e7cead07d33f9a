"""Statistics of a bag: what its tokens have in common, how far they reach, how much they differ, and how many they are."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from ..bags.bags import Bags
from ..bags.scaler import BagScaler
from ..bags.segments import bag_extremes, bag_mean
from .heads import PASS_BYTES
from .kernels import distinct_rows, gaussian_kernel, nystrom_projection, squared_distances, typical_squared_distance
from .lift import TokenLift, seen_often

# Training bags the kernel on statistics is seen from, at most. Its cost grows with their cube.
BAG_LANDMARKS = 300
# gamma of the kernel on statistics, in units of 1 / median squared distance: the near kernel of the tokens' lift. It is also
# what support vector machines take by default (1 / (features x variance)).
BAG_WIDTH = 2.0
# Total variance of the kernel's features. Ridges from 0.1 to 1e-4 then reach from a heavily smoothed to an interpolating fit
# on sets of 50 to 2000 bags.
KERNEL_VARIANCE = 100.0
# The statistics come with a quarter (0.5^2) of unit variance each, four of them for every feature of a token.
STATISTIC_PART = 0.5


def one_token_each(rows: np.ndarray) -> Bags:
    """Bags of one token each."""
    places = np.arange(len(rows), dtype=np.intp)
    return Bags.trusted(rows, places, places, None)


class BagStatistics(BaseEstimator):
    """Mean, maximum, minimum and spread of every feature over a bag's scaled tokens, and the logarithm of its length.

    Parameters
    ----------
    lift : TokenLift
        What scales the tokens first, fitted.
    landmarks : int
        Number of training bags the kernel is seen from, at most (0: no kernel).
    """

    def __init__(self, lift: TokenLift, landmarks: int = BAG_LANDMARKS):
        self.lift = lift
        self.landmarks = landmarks

    def fit(self, bags: Bags, rng: np.random.Generator) -> BagStatistics:
        """Learn the statistics' scales and, where asked for, the kernel.

        Parameters
        ----------
        bags : Bags
            The training bags.
        rng : numpy.random.Generator
            Draws the landmarks.

        Returns
        -------
        BagStatistics
            Itself.
        """
        self.lengths_differ_ = bool(bags.lengths.min() < bags.lengths.max())
        self.kept_ = None
        raw = self.raw(bags)
        self.kept_ = seen_often(one_token_each(raw))
        if self.kept_ is not None:
            raw = np.ascontiguousarray(raw[:, self.kept_])
        self.bag_scaler_ = BagScaler(compress=True).fit(raw)
        self.points_ = None
        if self.landmarks:
            scaled = self.bag_scaler_.scaled(raw)
            count = min(self.landmarks, len(scaled))
            points = distinct_rows(scaled[np.sort(rng.choice(len(scaled), count, replace=False))])
            squared = squared_distances(points, points)
            typical = typical_squared_distance(squared)
            if typical is not None:
                self.points_, self.gamma_ = points, BAG_WIDTH / typical
                projection = nystrom_projection(squared, self.gamma_)
                phi = gaussian_kernel(scaled, self.points_, self.gamma_) @ projection
                total = float(np.sum(phi.var(axis=0)))
                self.projection_ = projection * (np.sqrt(KERNEL_VARIANCE / total) if total > 0 else 1.0)
                self.kernel_mean_ = phi.mean(axis=0) * (np.sqrt(KERNEL_VARIANCE / total) if total > 0 else 1.0)
        return self

    def raw(self, bags: Bags) -> np.ndarray:
        """(bags, statistics) in double precision, in NumPy's memory."""
        parts = []
        for some in bags.batches(PASS_BYTES):
            # On the host: bags that differ in length are no work for a device.
            tokens = np.asarray(self.lift.scaled(some.tokens)).astype(np.float64, copy=False)
            mean = bag_mean(tokens, some.starts)
            least, largest = bag_extremes(tokens, some.starts)
            with np.errstate(over="ignore", invalid="ignore"):  # tokens that nobody scaled may be of any size
                spread = np.sqrt(np.maximum(bag_mean(tokens**2, some.starts) - mean**2, 0.0))
            columns = [mean, largest, least, np.nan_to_num(spread, nan=0.0, posinf=0.0)]
            if self.lengths_differ_:
                columns.append(np.log(some.lengths)[:, None])
            together = np.hstack(columns)
            parts.append(together if self.kept_ is None else together[:, self.kept_])
        return np.concatenate(parts)

    def linear(self, raw: np.ndarray) -> np.ndarray:
        """The statistics standardised, heavy tails compressed."""
        return STATISTIC_PART * self.bag_scaler_.scaled(raw)

    def kernel(self, raw: np.ndarray) -> np.ndarray:
        """The features of the kernel; one constant feature where all training bags are alike."""
        if self.points_ is None:
            return np.zeros((len(raw), 1))
        scaled: Any = self.bag_scaler_.scaled(raw)
        return gaussian_kernel(scaled, self.points_, self.gamma_) @ self.projection_ - self.kernel_mean_

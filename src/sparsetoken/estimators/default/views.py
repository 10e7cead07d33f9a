"""The views of the bags that the candidates of the default learner use, each made when it is first needed.

    lifted      scaled tokens and two kernels of them (`lift`)
    tokens      the scaled tokens alone
    statistics  one token per bag: mean, maximum, minimum and spread of its tokens' features, and its length
    likeness    one token per bag: a kernel of these statistics

Views are learnt from the training bags without their labels, so one view serves all folds of the inner validation. Features
that are constant in training are left out (`varying_features`); the order and signs of the others do not matter.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from ...bags.bags import Bags
from ...bags.scaler import BagScaler
from ...bags.scratch import rowwise
from ...bags.segments import bag_extremes, bag_mean
from .lift import FEWEST_LANDMARKS, NEAR, PART, TokenLift, fit_kernel

TOKEN_VIEWS = ("tokens", "lifted")
BAG_VIEWS = ("statistics", "likeness")


def varying_features(bags: Bags) -> np.ndarray:
    """The features that are not constant."""
    spread = bags.combined(_squares, shared=(BagScaler(clip=False).fit(bags),))
    return np.flatnonzero(spread > 0)


def _squares(part: Bags, scaler: BagScaler) -> np.ndarray:
    """Sums over tokens of the squares of the standardised features."""
    z = np.asarray(scaler.scaled(part.tokens), dtype=np.float64)
    return np.einsum("ij,ij->j", z, z)


class BagViews(BaseEstimator):
    """Learns the views that are needed."""

    def __init__(self, names: tuple[str, ...], landmarks: int, scale: bool):
        self.names = names
        self.landmarks = landmarks
        self.scale = scale

    def fit(self, bags: Bags, seed: int) -> BagViews:
        """Learn the views; statistics when they are first needed."""
        self.varying_ = varying_features(bags)
        if not len(self.varying_):  # all tokens are alike
            self.varying_ = np.arange(1)
        bags = self.varying(bags)
        self.lift_ = TokenLift(self.landmarks, self.scale).fit(bags, seed)
        self.statistics_: Any = None
        if any(name in self.names for name in BAG_VIEWS):
            self.statistics_ = BagStatistics(self.lift_).fit(bags, seed)
        return self

    def varying(self, bags: Bags) -> Bags:
        """The bags without features that were constant in training."""
        if len(self.varying_) == bags.n_features:
            return bags
        return bags.with_tokens(rowwise(lambda t: t[:, self.varying_], bags.tokens, len(self.varying_), bags.dtype))

    def of(self, bags: Bags, dtype: Any = None) -> Views:
        """The views of these bags, in their precision or the given one."""
        return Views(self, self.varying(bags), dtype)


class Views:
    """The views of some bags."""

    def __init__(self, fitted: BagViews, bags: Bags, dtype: Any = None):
        self.fitted, self.bags, self.dtype = fitted, bags, dtype
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        """The view of that name: bags of tokens, or bags of one token each."""
        if name not in self._made:
            self._made[name] = self._make(name)
        return self._made[name]

    def _make(self, name: str) -> Any:
        fitted, bags = self.fitted, self.bags
        if name == "raw statistics":
            return fitted.statistics_.raw(bags)
        if name == "statistics":
            return one_token_each(fitted.statistics_.linear(self["raw statistics"]))
        if name == "likeness":
            return one_token_each(fitted.statistics_.kernel(self["raw statistics"]))
        if name == "tokens":
            return bags.with_tokens(fitted.lift_.linear(bags.tokens, self.dtype))
        return bags.with_tokens(fitted.lift_.features(bags.tokens, self.dtype))


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
        chosen = np.random.default_rng(seed).choice(len(scaled), min(FEWEST_LANDMARKS, len(scaled)), replace=False)
        self.kernel_ = fit_kernel(scaled[np.sort(chosen)], NEAR, scaled, scaled.shape[1])
        return self

    def raw(self, bags: Bags) -> np.ndarray:
        """(bags, statistics) in double precision, in NumPy's memory."""
        return bags.per_bag(self._of_part)

    def _of_part(self, part: Bags) -> np.ndarray:
        # On the host: bags of different lengths do not suit a device.
        tokens = np.asarray(self.lift.scaled(part.tokens)).astype(np.float64, copy=False)
        mean = bag_mean(tokens, part.starts)
        least, largest = bag_extremes(tokens, part.starts)
        with np.errstate(over="ignore", invalid="ignore"):  # unscaled tokens may be of any size
            spread = np.sqrt(np.maximum(bag_mean(tokens**2, part.starts) - mean**2, 0.0))
        columns = [mean, largest, least, np.nan_to_num(spread, nan=0.0, posinf=0.0)]
        if self.lengths_differ_:
            columns.append(np.log(part.lengths)[:, None])
        return np.hstack(columns)

    def linear(self, raw: np.ndarray) -> np.ndarray:
        """The statistics standardised, heavy tails compressed; the four of a feature together have its variance."""
        return PART**2 * self.scaler_.scaled(raw)

    def kernel(self, raw: np.ndarray) -> np.ndarray:
        """The features of the kernel."""
        return self.kernel_(self.scaler_.scaled(raw), np.float64)


def one_token_each(rows: np.ndarray) -> Bags:
    """Bags of one token each."""
    places = np.arange(len(rows), dtype=np.intp)
    return Bags.trusted(rows, places, places, None)

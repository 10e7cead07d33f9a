"""The views of the bags that the candidates of the default learner use, each made when it is first needed.

    lifted      scaled tokens and two kernels of them (`TokenLift`)
    tokens      the scaled tokens alone
    statistics  one token per bag: mean, maximum, minimum and spread of its tokens' features, and its length
    likeness    one token per bag: a kernel of these statistics

Views are learnt from the training bags without their labels, so one view serves all folds of the inner validation. Features
that are constant in training are left out (`varying_features`); the order and signs of the others do not matter.

A linear score cannot single out tokens that lie *between* others (an eight among digits, one bird among many), nor tokens
that are merely large. The lift adds kernels exp(-gamma |x - x'|^2) with some training tokens, the landmarks (Nystrom): a
wide one, gamma = 0.1 / median squared distance (sizes and quadratic shapes), of features scaled one by one, and a near one,
gamma = 2 / median squared distance (near neighbours), of features that keep their relative sizes, as pixels should.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.linalg import eigh
from sklearn.base import BaseEstimator

from ..._core.arrays import namespace
from ..._core.validation import whole_number
from ...bags.bags import Bags
from ...bags.scaler import BagScaler, varying_features
from ...bags.sums_per_bag import bag_extremes, bag_mean_and_spread
from ...bags.temporary_files import rowwise

TOKEN_VIEWS = ("tokens", "lifted")  # of tokens one by one
BAG_VIEWS = ("statistics", "likeness")

# Landmarks: three times the root of the number of tokens, within these bounds. Few landmarks among many tokens miss rare kinds;
# the time of a fit grows with their number.
FEWEST_LANDMARKS, MOST_LANDMARKS = 100, 300
WIDE, NEAR = 0.1, 2.0  # gamma times the median squared distance: a kernel for sizes, and one for near neighbours
SAMPLED_TOKENS = 2000  # tokens from which moments are estimated: variances are then known to a few hundredths
# Times each part: the linear part and one kernel together have the variance for which the ridges were chosen.
PART = 0.7


class BagViews(BaseEstimator):
    """Learns the views that are needed."""

    def __init__(self, names: tuple[str, ...], landmarks: int, scale: bool):
        self.names = names
        self.landmarks = landmarks
        self.scale = scale

    def fit(self, bags: Bags, seed: int) -> BagViews:
        """Learn the views; statistics when they are first needed."""
        self.varying_ = np.flatnonzero(varying_features(bags.tokens))
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
        least, largest = bag_extremes(tokens, part.starts)
        with np.errstate(over="ignore", invalid="ignore"):  # unscaled tokens may be of any size
            mean, spread = bag_mean_and_spread(tokens, part.starts)
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


def landmark_count(lift: Any, tokens: int) -> int:
    """The number of landmarks from a learner's parameter `lift`."""
    if isinstance(lift, str) and lift == "auto":
        return int(np.clip(3.0 * tokens**0.5, FEWEST_LANDMARKS, MOST_LANDMARKS))
    return whole_number("lift", lift, 0)


class TokenLift(BaseEstimator):
    """x -> 0.7 [x, phi_wide(x), phi_near(x)] of scaled tokens, each phi centred and of x's total variance."""

    def __init__(self, landmarks: int, scale: bool = True):
        self.landmarks = landmarks
        self.scale = scale

    def fit(self, bags: Bags, seed: int) -> TokenLift:
        """Learn scales, landmarks and kernels."""
        self.scaler_ = BagScaler(compress=True).fit(bags) if self.scale else None
        self.common_ = BagScaler(common=True).fit(bags) if self.scale else None
        self.kernels_: list[Any] = []
        if self.landmarks == 0:
            return self
        rng, rows = np.random.default_rng(seed), self._rows_in_order(bags)
        points, some = (
            rows[rng.choice(len(rows), min(count, len(rows)), replace=False)]
            for count in (self.landmarks, SAMPLED_TOKENS)
        )
        for width, scaler in ((WIDE, self.scaler_), (NEAR, self.common_)):
            landmarks, sample = (
                np.asarray(_scaled(scaler, bags.tokens[chosen]), dtype=np.float64) for chosen in (points, some)
            )
            self.kernels_.append(fit_kernel(landmarks, width, sample, bags.n_features))
        return self

    def _rows_in_order(self, bags: Bags) -> np.ndarray:
        """The tokens' numbers, those of a bag by their size: the same draw for tokens of a bag in any order."""

        def sizes(tokens: Any) -> Any:
            return (self.scaled(tokens).astype(np.float64) ** 2).sum(axis=1)[:, None]

        size = np.asarray(rowwise(sizes, bags.tokens, 1, np.float64))[:, 0]
        return np.lexsort((size, bags.bag_of_token))

    def features(self, tokens: Any, dtype: Any = None) -> Any:
        """(tokens, features) of the given tokens (NumPy's or JAX's), in their precision or the given one."""
        dtype = tokens.dtype if dtype is None else dtype
        width = tokens.shape[1] + sum(kernel.projection.shape[1] for kernel in self.kernels_)
        return rowwise(partial(self._lifted, dtype=dtype), tokens, width, dtype)

    def linear(self, tokens: Any, dtype: Any = None) -> Any:
        """The first of these features, the scaled tokens."""
        dtype = tokens.dtype if dtype is None else dtype
        return rowwise(lambda block: (PART * self.scaled(block)).astype(dtype), tokens, tokens.shape[1], dtype)

    def _lifted(self, tokens: Any, dtype: Any) -> Any:
        parts = [self.scaled(tokens)]
        for kernel, scaler in zip(self.kernels_, (self.scaler_, self.common_)):
            parts.append(kernel(_scaled(scaler, tokens), dtype))
        return namespace(parts[0]).hstack([(PART * part).astype(dtype, copy=False) for part in parts])

    def scaled(self, tokens: Any) -> Any:
        """The scaled tokens alone."""
        return _scaled(self.scaler_, tokens)


def _scaled(scaler: BagScaler | None, tokens: Any) -> Any:
    return tokens if scaler is None else scaler.scaled_block(tokens)


@dataclass(frozen=True)
class NystromKernel:
    """phi(x) = k_m(x) @ projection - mean with k_m(x) the kernel with m landmarks, relative to their `center`."""

    center: np.ndarray
    landmarks: np.ndarray
    gamma: float
    projection: np.ndarray
    mean: np.ndarray

    def __call__(self, x: Any, dtype: Any) -> Any:
        """phi of each row, computed in the given precision: differences from the centre lose nothing in single."""
        x = (x - self.center).astype(dtype, copy=False)
        squared = squared_distances(x, self.landmarks.astype(dtype))
        kernel = namespace(squared).exp(-np.dtype(dtype).type(self.gamma) * squared)
        return kernel @ self.projection.astype(dtype) - self.mean.astype(dtype)


def fit_kernel(landmarks: np.ndarray, width: float, sample: np.ndarray, variance: float) -> NystromKernel:
    """phi = K_mm^{-1/2} k_m at gamma = width / median squared distance, centred and of this total variance on the sample."""
    center = landmarks.mean(axis=0)
    points = landmarks - center
    squared = squared_distances(points, points)
    apart = squared[squared > 0]
    gamma = width / float(np.median(apart)) if apart.size else 1.0
    values, vectors = eigh(np.exp(-gamma * squared))
    keep = values > 1e-6 * values[-1]  # smaller eigenvalues are rounding
    projection = vectors[:, keep] / np.sqrt(values[keep])
    phi = np.exp(-gamma * squared_distances(sample - center, points)) @ projection
    total = float(phi.var(axis=0).sum())
    scale = np.sqrt(variance / total) if total > 0 else 1.0
    return NystromKernel(center, points, gamma, scale * projection, scale * phi.mean(axis=0))


def squared_distances(x: Any, points: np.ndarray) -> Any:
    """|x_i - p_j|^2; exactly zero between a set and itself."""
    xp = namespace(x)
    squared = (x * x).sum(axis=1)[:, None] + (points * points).sum(axis=1)
    if xp is not np:
        return xp.maximum(squared - 2.0 * (x @ points.T), 0.0)
    products = x @ points.T  # in place from here on: allocating results would take longer than computing them
    products *= 2.0
    squared -= products
    np.maximum(squared, 0.0, out=squared)
    if x is points:
        np.fill_diagonal(squared, 0.0)
    return squared

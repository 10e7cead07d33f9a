"""Per-feature scaling of tokens."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial, reduce
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils._set_output import _wrap_data_with_container
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d

from .._core.arrays import namespace
from .._core.validation import true_or_false
from .bags import Bags
from .checks import checked_bags, holds_bags
from .temporary_files import row_blocks, rowwise

# Fourth moment E z^4 from which a feature counts as heavy-tailed. A Gaussian has 3, an exponential 9; one token in twenty that
# carries a signal of four standard deviations gives 7, and should keep it.
HEAVY = 10.0
# A tail counts as specific to the second class only if at least this many of its bags hold it: values in one or two bags need
# not occur in the next.
LEAST_CARRIERS = 5
MOMENTS = "moments"  # the name under which bags on a cluster keep theirs


class BagScaler(OneToOneFeatureMixin, TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """Standardise every feature over all tokens of all bags: z = (x - mean) / standard deviation.

    A feature that is constant over the training tokens (up to rounding) becomes zero. Bags come back as `Bags`, a plain
    table comes back as a table (in the container chosen by `set_output`).

    Parameters
    ----------
    compress : bool
        Whether heavy-tailed features (fourth moment E z^4 > 10; a Gaussian has 3) are compressed, z <- asinh(z), and
        standardised again: linear within a standard deviation, logarithmic beyond. The standard deviation of rare features,
        such as word counts, comes from a handful of outliers; compressed, no single token dominates a fit. If labels are given,
        a feature is left alone where only the bags of the second class have the tail (E z^4 over the first class's bags is at
        most 10) and several of them hold it: large values that only these bags hold may be the signal itself.
    clip : bool
        Whether tokens are clipped to the range of the training tokens plus one standard deviation on either side
        (no margin for constant features), so that a value which training never saw cannot dominate a prediction.
    common : bool
        Whether all features are divided by one number, the root mean square of their standard deviations, rather than
        each by its own: for features whose sizes mean something, such as the pixels of an image.

    Attributes
    ----------
    mean_, scale_ : ndarray of shape (features,)
        Mean and divisor of each feature: its standard deviation (1 for a constant feature), or with
        `common` one number for all.
    lowest_, highest_ : ndarray of shape (features,)
        Bounds of the scaled tokens, if `clip` is set.
    heavy_ : ndarray of bool, shape (features,)
        The features that are compressed, if `compress` is set.
    """

    def __init__(self, compress: bool = False, clip: bool = True, common: bool = False):
        self.compress = compress
        self.clip = clip
        self.common = common

    def fit(self, X: Any, y: Any = None) -> BagScaler:
        """Learn means, scales and bounds; the labels y, one per bag, matter to `compress` alone."""
        true_or_false("compress", self.compress)
        true_or_false("clip", self.clip)
        if true_or_false("common", self.common) and self.compress:
            raise ValueError("common must be False where compress is True: tails are judged feature by feature")
        bags = checked_bags(self, X, reset=True, on_cluster=not self.compress)
        self.mean_, deviation, varies, extremes = _moments(bags)
        self.scale_ = deviation
        if self.common and varies.any():
            largest = deviation[varies].max()  # in its units no square overflows
            self.scale_ = np.full(len(deviation), largest * np.sqrt(np.mean((deviation[varies] / largest) ** 2)))
        if self.compress:
            self.heavy_ = _heavy_features(bags, y, self.mean_, deviation)
            # Standardised once, features without tails stay as they are.
            self.compressed_mean_, self.compressed_scale_ = np.zeros(len(deviation)), np.ones(len(deviation))
            if self.heavy_.any():
                mean, spread, _, _ = _moments(bags, self._compressed_tails)
                self.compressed_mean_[self.heavy_], self.compressed_scale_[self.heavy_] = mean, spread
        if self.clip:
            # Scaling is monotone: it keeps the extremes. Fresh Gaussian tokens leave the range of a few dozen training tokens
            # by less than a standard deviation.
            low, high = np.asarray(self._unclipped(extremes.astype(bags.dtype)), dtype=np.float64)
            margin = np.where(varies, deviation / self.scale_, 0.0)
            self.lowest_, self.highest_ = np.where(varies, low, 0.0) - margin, np.where(varies, high, 0.0) + margin
        return self

    def transform(self, X: Any) -> Any:
        """The scaled bags, or the scaled table where X is a plain table."""
        check_is_fitted(self)
        bags = checked_bags(self, X, reset=False, on_cluster=True)
        if holds_bags(X):
            return bags.scaled_by(self)
        tokens = self.scaled(bags.tokens)
        return _wrap_data_with_container("transform", tokens, X, self)

    def scaled(self, tokens: Any) -> Any:
        """The scaled tokens of a (tokens, features) array that has been checked already, NumPy's or JAX's."""
        return rowwise(self.scaled_block, tokens, tokens.shape[1], tokens.dtype)

    def scaled_block(self, tokens: Any) -> Any:
        """`scaled`, all rows at once."""
        z = self._unclipped(tokens)
        if not self.clip:
            return z
        low, high = self.lowest_.astype(z.dtype), self.highest_.astype(z.dtype)
        return np.clip(z, low, high, out=z) if namespace(z) is np else namespace(z).clip(z, low, high)

    def _unclipped(self, tokens: Any) -> Any:
        z = _standardised(tokens, self.mean_, self.scale_)
        if not self.compress or not self.heavy_.any():
            return z
        xp = namespace(z)
        mean, scale = self.compressed_mean_.astype(z.dtype), self.compressed_scale_.astype(z.dtype)
        if xp is not np:
            return xp.where(self.heavy_, (xp.arcsinh(z) - mean) / scale, z)
        columns = np.flatnonzero(self.heavy_)
        z[:, columns] = (np.arcsinh(z[:, columns]) - mean[columns]) / scale[columns]
        return z

    def _compressed_tails(self, tokens: Any) -> Any:
        """The heavy-tailed features alone, standardised and compressed."""
        columns = np.flatnonzero(self.heavy_)
        z = _standardised(tokens[:, columns], self.mean_[columns], self.scale_[columns])
        return namespace(z).arcsinh(z)


# scikit-learn's own wrapper of `transform` cannot tell bags from tables, so it is switched off above, and `transform` wraps
# tables itself; this declares that `set_output` is available.
BagScaler._sklearn_auto_wrap_output_keys = {"transform"}


def _standardised(tokens: Any, mean: np.ndarray, scale: np.ndarray) -> Any:
    z = tokens - mean.astype(tokens.dtype)
    z /= scale.astype(tokens.dtype)
    return z


class Moments(NamedTuple):
    """Moments of some tokens' features, in a form that can be merged (`merged_moments`)."""

    tokens: int
    low: np.ndarray
    high: np.ndarray
    mean: np.ndarray
    squares: np.ndarray


def _moments(
    bags: Any, change: Callable[[Any], Any] | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Mean and standard deviation of each feature after `change`, whether it varies (a constant one's deviation is 1), and its
    least and greatest value; by one pass over the bags, which is not made where the bags have kept them."""
    passed = partial(bags.combined, part_moments, merged_moments, shared=(change,))
    moments = bags.once(MOMENTS, passed) if change is None else passed()
    finite = np.isfinite(moments.squares)
    if not np.all(finite):
        raise ValueError(f"the values of feature {int(np.argmin(finite))} are too far apart to be scaled")
    deviation = np.sqrt(moments.squares / moments.tokens)
    # Values that differ by rounding alone have a deviation of about eps |mean|: that is no variation.
    varies = deviation > 10 * np.finfo(bags.dtype).eps * np.abs(moments.mean)
    return moments.mean, np.where(varies, deviation, 1.0), varies, np.stack([moments.low, moments.high])


def part_moments(part: Bags, change: Callable[[Any], Any] | None = None) -> Moments:
    """The moments of all tokens of some bags, after `change`.

    Sums are of differences from a block's first token: they vanish exactly where a feature is constant, while a sum of many
    large values would be off by more than rounding of one of them.
    """
    blocks = (part.tokens[block] for block in row_blocks(part.tokens))
    return reduce(merged_moments, map(_block_moments, blocks if change is None else map(change, blocks)))


def _block_moments(tokens: Any) -> Moments:
    first, low, high = (
        np.asarray(row, dtype=np.float64) for row in (tokens[0], tokens.min(axis=0), tokens.max(axis=0))
    )
    with np.errstate(over="ignore", invalid="ignore"):  # values too far apart: the caller checks
        z = tokens - first
        shift = np.asarray(z.mean(axis=0))
        z -= shift
        return Moments(len(tokens), low, high, first + shift, np.asarray(namespace(z).einsum("ij,ij->j", z, z)))


def varying_features(tokens: Any) -> np.ndarray:
    """Which features differ between any two of these tokens."""
    return np.logical_or.reduce([np.asarray((tokens[rows] != tokens[0]).any(axis=0)) for rows in row_blocks(tokens)])


def merged_moments(first: Moments, other: Moments) -> Moments:
    """The moments of both sets of tokens."""
    count = first.tokens + other.tokens
    with np.errstate(over="ignore", invalid="ignore"):
        gap = other.mean - first.mean
        squares = first.squares + other.squares + (first.tokens * other.tokens / count) * gap**2
        mean = first.mean + gap * (other.tokens / count)
    return Moments(count, np.minimum(first.low, other.low), np.maximum(first.high, other.high), mean, squares)


def _fourth_powers(part: Bags, mean: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Sum over tokens of ((x - mean)/scale)^4."""
    total: Any = 0.0
    for block in row_blocks(part.tokens):
        z = part.tokens[block] - mean
        z /= scale
        z *= z
        total = total + namespace(z).einsum("ij,ij->j", z, z)
    return np.asarray(total)


def _heavy_features(bags: Bags, labels: Any, mean: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Which features have heavy tails, as `BagScaler` judges them."""
    heavy = _fourth_moments(bags, mean, scale) > HEAVY
    if labels is None:
        return heavy
    labels = column_or_1d(labels)
    check_consistent_length(bags, labels)
    if not heavy.any():
        return heavy
    first = labels == np.unique(labels)[0]
    quiet_mean, quiet_scale, _, (low, high) = _moments(bags[first])
    candidates = np.flatnonzero(heavy & (_fourth_moments(bags[first], quiet_mean, quiet_scale) <= HEAVY))
    if len(candidates) and not first.all():
        share = 1.0 - first.mean()
        # d share^k features would have k carriers of the second class alone by chance: fewer than one in twenty.
        needed = max(LEAST_CARRIERS, math.log(0.05 / bags.n_features) / math.log(share))
        carried = bags[~first].combined(_carriers, shared=(candidates, low[candidates], high[candidates]))
        heavy[candidates[carried >= needed]] = False
    return heavy


def _carriers(part: Bags, features: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """How many bags hold a token outside [low, high], for each of the features (low and high of these)."""
    tokens = np.asarray(part.tokens[:, features])
    return np.logical_or.reduceat((tokens < low) | (tokens > high), part.starts, axis=0).sum(axis=0)


def _fourth_moments(bags: Any, mean: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """E z^4 of each feature when standardised by its mean and standard deviation."""
    return bags.combined(_fourth_powers, shared=(mean, scale)) / bags.n_tokens


def scaled_bags(scaler: BagScaler | None, bags: Any) -> Any:
    """The bags with scaled tokens, or the bags themselves without a scaler."""
    return bags if scaler is None else bags.scaled_by(scaler)

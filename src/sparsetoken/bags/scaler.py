"""Per-feature scaling of tokens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d

from .._core.arrays import namespace
from .bags import Bags
from .checks import checked_bags, holds_bags
from .scratch import row_blocks, rowwise

HEAVY = 4.0
CLEARLY = 1.5  # a margin, so that features which merely straddle the threshold are not taken for signals


class BagScaler(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Standardise every feature over all tokens of all bags: z = (x - mean) / standard deviation.

    compress   afterwards z <- asinh(z) for heavy-tailed features (fourth moment E z^4 > 4; a Gaussian has 3), and
               standardised again: linear within a standard deviation, logarithmic beyond. Rare features (word counts)
               owe their standard deviation to a handful of outliers; drawn in, no single token can own a fit. With
               labels, features are left alone whose tails the bags of the first class do not share (E z^4 there at most
               4, and clearly less than over all): large values that only the others hold may be the very signal.

    A feature that is constant over the training tokens (up to rounding) is centred and left at scale 1.
    Bags come back as Bags, a plain table comes back as a table.
    """

    def __init__(self, compress: bool = False):
        self.compress = compress

    def fit(self, X: Any, y: Any = None) -> BagScaler:
        """Learn means and scales; y, one label a bag, matters to `compress` alone."""
        bags = checked_bags(self, X, reset=True)
        tokens = bags.tokens
        self.mean_, self.scale_ = _moments(tokens)
        if self.compress:
            self.heavy_ = heavy_features(bags, y)
            self.compressed_mean_, self.compressed_scale_ = _moments(tokens, self._squeezed)
        return self

    def transform(self, X: Any) -> Any:
        check_is_fitted(self)
        bags = checked_bags(self, X, reset=False)
        tokens = self.scaled(bags.tokens)
        return bags.with_tokens(tokens, bags.feature_names) if holds_bags(X) else tokens

    def scaled(self, tokens: Any) -> Any:
        """The scaled tokens of a (tokens, features) array that has been checked already, NumPy's or JAX's."""
        return rowwise(self.scaled_block, tokens, tokens.shape[1], tokens.dtype)

    def scaled_block(self, tokens: Any) -> Any:
        """`scaled`, all rows at once."""
        if not self.compress:
            return _standardised(tokens, self.mean_, self.scale_)
        return _standardised(self._squeezed(tokens), self.compressed_mean_, self.compressed_scale_)

    def _squeezed(self, tokens: Any) -> Any:
        z = _standardised(tokens, self.mean_, self.scale_)
        xp = namespace(z)
        return np.arcsinh(z, out=z, where=self.heavy_) if xp is np else xp.where(self.heavy_, xp.arcsinh(z), z)


def _standardised(tokens: Any, mean: np.ndarray, scale: np.ndarray) -> Any:
    z = tokens - mean.astype(tokens.dtype)
    z /= scale.astype(tokens.dtype)
    return z


def _moments(tokens: Any, change: Callable[[Any], Any] = lambda block: block) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of each feature of the tokens, after `change`; a constant feature's deviation is 1."""
    total = sum(change(tokens[block]).sum(axis=0, dtype=np.float64) for block in row_blocks(tokens))
    mean = np.asarray(total) / len(tokens)
    squares = sum(((change(tokens[block]) - mean) ** 2).sum(axis=0) for block in row_blocks(tokens))
    deviation = np.sqrt(np.asarray(squares) / len(tokens))
    # Rounding leaves a constant feature a deviation of about eps |mean|: that is no variation.
    rounding = 10 * np.finfo(tokens.dtype).eps * np.abs(mean)
    return mean, np.where(deviation > rounding, deviation, 1.0)


def heavy_features(bags: Bags, labels: Any = None) -> np.ndarray:
    """Which features have heavy tails, as `BagScaler` judges them; labels: one a bag, or none."""
    tails = _fourth_moments(bags.tokens)
    heavy = tails > HEAVY
    if labels is None:
        return heavy
    labels = column_or_1d(labels)
    check_consistent_length(bags, labels)
    quiet = _fourth_moments(bags[labels == np.unique(labels)[0]].tokens)
    return heavy & ~((quiet <= HEAVY) & (tails > CLEARLY * quiet))


def _fourth_moments(tokens: Any) -> np.ndarray:
    """E z^4 of each feature when standardised."""
    mean, scale = _moments(tokens)
    squares = ((((tokens[block] - mean) / scale) ** 2) for block in row_blocks(tokens))
    return np.asarray(sum((square**2).sum(axis=0) for square in squares)) / len(tokens)


def scaled_bags(scaler: BagScaler | None, bags: Bags) -> Bags:
    """The bags with scaled tokens, or the bags themselves without a scaler."""
    return bags if scaler is None else bags.with_tokens(scaler.scaled(bags.tokens), bags.feature_names)

"""Token features for the heads: scaled tokens, and beside them a nonlinear lift.

A linear score cannot single out tokens that lie *between* others (an eight among digits, one bird among many), nor tokens
that are merely large. The lift adds Gaussian kernels k(x, x') = exp(-gamma |x - x'|^2) seen from some of the training
tokens (Nystrom's method), phi(x) = K_mm^{-1/2} k_m(x), at two widths: gamma = 2 / median squared distance (near
neighbours) and a twentieth of that (sizes and quadratic shapes).

Scaling compresses heavy tails. Where only the positive bags have them, rare large values of a single feature may be the very
signal: such features come along as they are, besides (`BagScaler` says when). Nothing else looks at the labels.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from scipy.linalg import eigh
from sklearn.base import BaseEstimator

from .._core.arrays import namespace
from ..bags.bags import Bags
from ..bags.scaler import BagScaler, heavy_features
from ..bags.scratch import BLOCK_BYTES, DEVICE_BLOCK_BYTES, row_blocks, rowwise
from ..bags.segments import bag_sum
from .kernels import distinct_rows, nystrom_projection, squared_distances, typical_squared_distance

# Training tokens the kernels are seen from. Other numbers gave the same accuracy on musk1 within its standard error
# (docs/learners.md, "What was tried"), and the time of a fit grows with their number.
LANDMARKS = 150
# gamma in units of 1 / median squared distance: a wide kernel, which sees sizes and quadratic shapes, and a near one. The
# near one alone leaves the hockey posts at an accuracy of .88 instead of .96, the wide one alone costs two points on
# musk1 (docs/learners.md, "What was tried").
WIDTHS = (0.1, 2.0)
# Tokens whose kernels' mean and variance stand for all: the variance is then known to about a hundredth, the mean matters to
# nothing but the bias.
MOMENT_TOKENS = 2000
# The linear part and each kernel come with half (0.7^2) of the scaled tokens' variance, so that the linear part and one
# kernel together have the variance for which the ridges were chosen. 0.5, 0.7 and 1 leave held-out log losses of .330,
# .323 and .316 on musk1 and of .133, .131 and .127 on the hockey posts (2 x 10 folds).
PART = 0.7


# Where the training tokens are fewer than this share of the features, the linear part is given in a basis of their span:
# a head's weights lie in it, so that nothing changes but the time it takes. Finding the basis costs as much as some tens
# of passes over the tokens, so it does not pay for a few directions less.
SPAN_SHARE = 0.5


# A feature counts if its value is unusual (other than the median) in at least this many bags: what fewer bags show says
# nothing about the next one. Of few bags, a fifth suffices.
LEAST_BAGS = 5


def seen_often(bags: Bags) -> np.ndarray | None:
    """The features whose value is other than their median in several bags; None where all are.

    Word counts and other sparse features have many that occur in a bag or two: a fit would remember these bags by them.

    Parameters
    ----------
    bags : Bags
        The training bags.

    Returns
    -------
    ndarray of int or None
        Places of the features to keep.
    """
    count = bags.n_tokens
    sample = np.asarray(bags.tokens[:: max(1, count // 1001)])
    usual = np.median(sample, axis=0).astype(bags.dtype)
    # An even number of tokens may have its median between two values: then both are unusual, as they should be.
    carriers = np.zeros(bags.n_features)
    for part in bags.batches(DEVICE_BLOCK_BYTES if namespace(bags.tokens) is not np else BLOCK_BYTES):
        other = part.tokens != usual
        if namespace(other) is np:
            carriers += np.logical_or.reduceat(other, part.starts, axis=0).sum(axis=0)
        else:
            carriers += np.asarray((bag_sum(other.astype(np.float32), part.starts) > 0).sum(axis=0))
    kept = np.flatnonzero(carriers >= min(LEAST_BAGS, len(bags) / 5))
    return kept if 0 < len(kept) < bags.n_features else None


class TokenLift(BaseEstimator):
    """x -> 0.7 [x, rare(x), phi_wide(x), phi_near(x)] of scaled tokens, each phi centred and of x's total variance.

    Parameters
    ----------
    landmarks : int
        Number of training tokens the kernels are seen from (0: no lift, the scaled tokens alone).
    scale : bool
        Whether the tokens are scaled first and clipped to the training range.
    common : bool
        Whether one scale serves all features; otherwise each is standardised by itself, heavy tails compressed.
    """

    def __init__(self, landmarks: int = LANDMARKS, scale: bool = True, common: bool = False):
        self.landmarks = landmarks
        self.scale = scale
        self.common = common

    def fit(self, bags: Bags, signs: np.ndarray, rng: np.random.Generator) -> TokenLift:
        """Learn scales, landmarks and kernels.

        Parameters
        ----------
        bags : Bags
            The training bags.
        signs : ndarray
            Their labels; they matter to the rare features alone.
        rng : numpy.random.Generator
            Draws the landmarks.

        Returns
        -------
        TokenLift
            The lift itself.
        """
        # Only where features outnumber tokens: elsewhere rare features do no harm, and how many a token holds may be the
        # signal (leaving them out costs the hockey posts nine points of AUC).
        self.kept_ = seen_often(bags) if self.scale and bags.n_tokens < bags.n_features else None
        if self.kept_ is not None:
            bags = bags.with_tokens(rowwise(self._chosen, bags.tokens, len(self.kept_), bags.dtype))
        self.scaler_ = BagScaler(compress=not self.common, common=self.common).fit(bags) if self.scale else None
        self.rare_ = np.empty(0, dtype=np.intp)
        self.rare_scaler_ = None
        if self.scaler_ is not None and not self.common:
            self.rare_ = np.flatnonzero(self.scaler_.heavy_ & ~heavy_features(bags, signs))
            if len(self.rare_):
                rare = rowwise(lambda tokens: tokens[:, self.rare_], bags.tokens, len(self.rare_), bags.dtype)
                self.rare_scaler_ = BagScaler().fit(bags.with_tokens(rare))
        self.points_, self.gammas_, self.projections_ = np.empty((0, bags.n_features)), [], []
        self.lift_means_, self.lift_scales_ = [], []
        self.basis_ = self._span(bags.tokens) if bags.n_tokens < SPAN_SHARE * bags.n_features else None
        if self.landmarks == 0:
            return self
        tokens = bags.tokens
        count = min(self.landmarks, len(tokens))
        chosen = np.sort(rng.choice(len(tokens), count, replace=False))
        self.points_ = distinct_rows(np.asarray(self._of_chosen(tokens[chosen]), dtype=np.float64))
        squared = squared_distances(self.points_, self.points_)
        typical = typical_squared_distance(squared)
        if typical is None:  # all tokens alike: there is nothing to lift
            return self
        self.gammas_ = [width / typical for width in WIDTHS]
        self.projections_ = [nystrom_projection(squared, gamma) for gamma in self.gammas_]
        if len(tokens) > MOMENT_TOKENS:
            tokens = tokens[np.sort(rng.choice(len(tokens), MOMENT_TOKENS, replace=False))]
        for mean, total in self._moments(tokens):
            self.lift_means_.append(mean)
            self.lift_scales_.append(float(np.sqrt(tokens.shape[1] / total)) if total > 0 else 1.0)
        return self

    def _span(self, tokens: Any) -> np.ndarray:
        """Orthonormal basis (features, rank) of the span of the scaled training tokens, from their Gram matrix."""
        scaled = np.asarray(self._of_chosen(tokens), dtype=np.float64)
        values, vectors = eigh(scaled @ scaled.T)
        keep = values > 1e-10 * max(values[-1], np.finfo(float).tiny)
        if not keep.any():  # all tokens are zero
            return np.eye(tokens.shape[1], 1)
        return scaled.T @ (vectors[:, keep] / np.sqrt(values[keep]))

    def _moments(self, tokens: Any) -> list[tuple[np.ndarray, float]]:
        """Mean of each phi(x) over the tokens, and its total variance, one pass over blocks of tokens.

        phi's entries are bounded by one in total square (they come from a kernel with k(x, x) = 1), so sums of squares
        lose nothing against sums of squared deviations.
        """
        sums = [(np.zeros(p.shape[1]), np.zeros(p.shape[1])) for p in self.projections_]
        for block in row_blocks(tokens):
            for phi, (total, squares) in zip(self._kernels(self._of_chosen(tokens[block])), sums):
                total += np.asarray(phi.sum(axis=0))
                squares += np.asarray((phi**2).sum(axis=0))
        means = [(total / len(tokens), squares / len(tokens)) for total, squares in sums]
        return [(mean, float(np.sum(np.maximum(square - mean**2, 0.0)))) for mean, square in means]

    @property
    def linear_width(self) -> int:
        """How many of the features, the first ones, are the scaled tokens themselves (or their coordinates in a basis)."""
        return self.points_.shape[1] if self.basis_ is None else self.basis_.shape[1]

    @property
    def width(self) -> int:
        """Number of features per token after lifting."""
        return self.linear_width + len(self.rare_) + sum(projection.shape[1] for projection in self.projections_)

    def features(self, tokens: Any, dtype: Any = None) -> Any:
        """(tokens, features) of the given tokens (NumPy's or JAX's), in their precision or the given one."""
        dtype = tokens.dtype if dtype is None else dtype
        return rowwise(partial(self._lifted, dtype=dtype), tokens, self.width, dtype)

    def _lifted(self, tokens: Any, dtype: Any) -> Any:
        tokens = self._chosen(tokens)
        scaled = self._of_chosen(tokens)
        parts = [scaled if self.basis_ is None else scaled @ self.basis_.astype(scaled.dtype)]
        if self.rare_scaler_ is not None:
            parts.append(self.rare_scaler_.scaled_block(tokens[:, self.rare_]))
        for phi, mean, scale in zip(self._kernels(scaled), self.lift_means_, self.lift_scales_):
            phi -= mean
            phi *= scale
            parts.append(phi)
        # Each part by itself: together they are several times what a block of tokens takes.
        return namespace(scaled).hstack([(PART * part).astype(dtype, copy=False) for part in parts])

    def scaled(self, tokens: Any) -> Any:
        """The scaled tokens alone, of the features that are kept."""
        return self._of_chosen(self._chosen(tokens))

    def _chosen(self, tokens: Any) -> Any:
        return tokens if self.kept_ is None else tokens[:, self.kept_]

    def _of_chosen(self, tokens: Any) -> Any:
        return tokens if self.scaler_ is None else self.scaler_.scaled_block(tokens)

    def _kernels(self, scaled: Any) -> Iterator[Any]:
        """phi(x) of scaled tokens, not centred, for each width: the distances to the points serve them all."""
        if self.gammas_:
            # In double precision: single would lose small distances among large norms.
            squared = squared_distances(scaled.astype(np.float64), self.points_)
            for gamma, projection in zip(self.gammas_, self.projections_):
                yield namespace(squared).exp(-gamma * squared) @ projection

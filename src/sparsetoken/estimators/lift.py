"""Token features for the refined training: scaled tokens, and beside them a nonlinear lift.

A linear score cannot single out tokens that lie *between* others (an eight among digits, one bird among many), nor tokens
that are merely large. The lift adds Gaussian kernels k(x, x') = exp(-gamma |x - x'|^2) seen from some of the training
tokens (Nystrom's method), phi(x) = K_mm^{-1/2} k_m(x), at two widths: gamma = 2 / median squared distance (near
neighbours) and a twentieth of that (sizes and quadratic shapes).

Scaling compresses heavy tails. Where only the positive bags have them, rare large values of a single feature may be the very
signal: such features come along as they are, besides (`BagScaler` says when). Nothing else looks at the labels.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import eigh
from sklearn.base import BaseEstimator

from .._core.arrays import namespace
from ..bags.bags import Bags
from ..bags.scaler import BagScaler, heavy_features
from ..bags.scratch import row_blocks, rowwise

# Training tokens the kernels are seen from. Other numbers gave the same accuracy on musk1 within its standard error
# (docs/learners.md, "What was tried"), and the time of a fit grows with their number.
LANDMARKS = 150
# gamma in units of 1 / median squared distance: a wide kernel, which sees sizes and quadratic shapes, and a near one. The
# near one alone leaves the hockey posts at an accuracy of .88 instead of .96, the wide one alone costs two points on
# musk1 (docs/learners.md, "What was tried").
WIDTHS = (0.1, 2.0)
# The linear part and each kernel come with half (0.7^2) of the scaled tokens' variance, so that the linear part and one
# kernel together have the variance for which the ridges were chosen. 0.5, 0.7 and 1 leave held-out log losses of .330,
# .323 and .316 on musk1 and of .133, .131 and .127 on the hockey posts (2 x 10 folds).
PART = 0.7


class TokenLift(BaseEstimator):
    """x -> 0.7 [x, rare(x), phi_wide(x), phi_near(x)] of scaled tokens, each phi centred and of x's total variance.

    Parameters
    ----------
    landmarks : int
        Number of training tokens the kernels are seen from (0: no lift, the scaled tokens alone).
    scale : bool
        Whether the tokens are standardised first, heavy tails compressed and values clipped to the training range.
    """

    def __init__(self, landmarks: int = LANDMARKS, scale: bool = True):
        self.landmarks = landmarks
        self.scale = scale

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
        self.scaler_ = BagScaler(compress=True).fit(bags) if self.scale else None
        self.rare_ = np.empty(0, dtype=np.intp)
        self.rare_scaler_ = None
        if self.scaler_ is not None:
            self.rare_ = np.flatnonzero(self.scaler_.heavy_ & ~heavy_features(bags, signs))
            if len(self.rare_):
                rare = rowwise(self._rare, bags.tokens, len(self.rare_), bags.dtype)
                self.rare_scaler_ = BagScaler().fit(bags.with_tokens(rare))
        self.points_, self.gammas_, self.projections_ = np.empty((0, bags.n_features)), [], []
        self.lift_means_, self.lift_scales_ = [], []
        if self.landmarks == 0:
            return self
        tokens = bags.tokens
        count = min(self.landmarks, len(tokens))
        chosen = np.sort(rng.choice(len(tokens), count, replace=False))
        self.points_ = np.unique(np.asarray(self._scaled(tokens[chosen])), axis=0).astype(np.float64)
        squared = _squared_distances(self.points_, self.points_)
        apart = squared[squared > 0]
        if apart.size == 0:  # all tokens alike: there is nothing to lift
            return self
        for width in WIDTHS:
            gamma = width / float(np.median(apart))
            values, vectors = eigh(np.exp(-gamma * squared))
            keep = values > 1e-6 * values[-1]
            projection = vectors[:, keep] / np.sqrt(values[keep])
            mean, total = self._moments(tokens, gamma, projection)
            self.gammas_.append(gamma)
            self.projections_.append(projection)
            self.lift_means_.append(mean)
            self.lift_scales_.append(float(np.sqrt(tokens.shape[1] / total)) if total > 0 else 1.0)
        return self

    def _moments(self, tokens: Any, gamma: float, projection: np.ndarray) -> tuple[np.ndarray, float]:
        """Mean of phi(x) over the tokens, and its total variance, one pass over blocks of tokens.

        phi's entries are bounded by one in total square (they come from a kernel with k(x, x) = 1), so sums of squares
        lose nothing against sums of squared deviations.
        """
        count = projection.shape[1]
        total, squares = np.zeros(count), np.zeros(count)
        for block in row_blocks(tokens):
            phi = self._kernel(self._scaled(tokens[block]), gamma) @ projection
            total += np.asarray(phi.sum(axis=0))
            squares += np.asarray((phi**2).sum(axis=0))
        mean = total / len(tokens)
        return mean, float(np.sum(np.maximum(squares / len(tokens) - mean**2, 0.0)))

    @property
    def width(self) -> int:
        """Number of features per token after lifting."""
        return self.points_.shape[1] + len(self.rare_) + sum(projection.shape[1] for projection in self.projections_)

    def features(self, tokens: Any, dtype: Any = None) -> Any:
        """(tokens, features) of the given tokens (NumPy's or JAX's), in their precision or the given one."""
        return rowwise(self._lifted, tokens, self.width, tokens.dtype if dtype is None else dtype)

    def _lifted(self, tokens: Any) -> Any:
        scaled = self._scaled(tokens)
        parts = [scaled]
        if self.rare_scaler_ is not None:
            parts.append(self.rare_scaler_.scaled_block(self._rare(tokens)))
        if not self.gammas_:
            return namespace(scaled).hstack(parts)
        for gamma, projection, mean, scale in zip(self.gammas_, self.projections_, self.lift_means_, self.lift_scales_):
            parts.append((self._kernel(scaled, gamma) @ projection - mean) * scale)
        return PART * namespace(scaled).hstack(parts)

    def _rare(self, tokens: Any) -> Any:
        return tokens[:, self.rare_]

    def _scaled(self, tokens: Any) -> Any:
        return tokens if self.scaler_ is None else self.scaler_.scaled_block(tokens)

    def _kernel(self, scaled: Any, gamma: float) -> Any:
        # Single precision would lose small distances among large norms.
        squared = _squared_distances(scaled.astype(np.float64), self.points_)
        return namespace(squared).exp(-gamma * squared)


def _squared_distances(x: Any, points: np.ndarray) -> Any:
    """|x_i - p_j|^2; exactly zero between a set and itself."""
    xp = namespace(x)
    squared = (x * x).sum(axis=1)[:, None] + (points * points).sum(axis=1) - 2.0 * (x @ points.T)
    squared = xp.maximum(squared, 0.0)
    if x is points:
        np.fill_diagonal(squared, 0.0)
    return squared

"""Token features for the heads: scaled tokens, and beside them Gaussian kernels.

A linear score cannot single out tokens that lie *between* others (an eight among digits, one bird among many), nor tokens
that are merely large. The lift adds kernels k(x, x') = exp(-gamma |x - x'|^2) of some training tokens, the landmarks
(Nystrom's method), phi(x) = K_mm^{-1/2} k_m(x), at two widths: gamma = 2 / median squared distance (near neighbours) and a
twentieth of that (sizes and quadratic shapes). Nothing looks at the labels.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from ..._core.arrays import namespace
from ...bags.bags import Bags
from ...bags.scaler import BagScaler
from ...bags.scratch import rowwise
from .kernels import nystrom_projection, squared_distances, typical_squared_distance

LANDMARKS = 150  # twice as many gain nothing on musk1, and the time of a fit grows with their number
WIDTHS = (
    0.1,
    2.0,
)  # gamma times the median squared distance; each of the two alone loses points on musk1 or the hockey posts
MOMENT_TOKENS = (
    2000  # tokens whose kernels' mean and variance stand for all: the variance is then known to about a hundredth
)
PART = (
    0.7  # times each part: the linear part and one kernel together have the variance for which the ridges were chosen
)


class TokenLift(BaseEstimator):
    """x -> 0.7 [x, phi_wide(x), phi_near(x)] of scaled tokens, each phi centred and of x's total variance."""

    def __init__(self, landmarks: int = LANDMARKS, scale: bool = True, common: bool = False):
        self.landmarks = landmarks
        self.scale = scale
        self.common = common

    def fit(self, bags: Bags, seed: int) -> TokenLift:
        """Learn scales, landmarks and kernels."""
        self.scaler_ = BagScaler(compress=not self.common, common=self.common).fit(bags) if self.scale else None
        self.points_, self.gammas_, self.projections_ = np.empty((0, bags.n_features)), [], []
        self.lift_means_, self.lift_scales_ = [], []
        if self.landmarks == 0:
            return self
        rng, rows = np.random.default_rng(seed), self._rows_in_order(bags)
        points = rows[rng.choice(len(rows), min(self.landmarks, len(rows)), replace=False)]
        self.points_ = np.asarray(self.scaled(bags.tokens[points]), dtype=np.float64)
        squared = squared_distances(self.points_, self.points_)
        typical = typical_squared_distance(squared)
        if typical is None:  # all tokens alike: there is nothing to lift
            return self
        self.gammas_ = [width / typical for width in WIDTHS]
        self.projections_ = [nystrom_projection(squared, gamma) for gamma in self.gammas_]
        some = rows[rng.choice(len(rows), min(MOMENT_TOKENS, len(rows)), replace=False)]
        for phi in self._kernels(self.scaled(bags.tokens[some])):
            phi = np.asarray(phi)
            total = float(phi.var(axis=0).sum())
            self.lift_means_.append(phi.mean(axis=0))
            self.lift_scales_.append(float(np.sqrt(bags.n_features / total)) if total > 0 else 1.0)
        return self

    def _rows_in_order(self, bags: Bags) -> np.ndarray:
        """The tokens' numbers, those of a bag by their size: the same draw for tokens of a bag in any order."""

        def sizes(tokens: Any) -> Any:
            return (self.scaled(tokens).astype(np.float64) ** 2).sum(axis=1)[:, None]

        size = np.asarray(rowwise(sizes, bags.tokens, 1, np.float64))[:, 0]
        return np.lexsort((size, bags.bag_of_token))

    @property
    def linear_width(self) -> int:
        """How many of the features, the first ones, are the scaled tokens themselves."""
        return self.points_.shape[1]

    def features(self, tokens: Any, dtype: Any = None) -> Any:
        """(tokens, features) of the given tokens (NumPy's or JAX's), in their precision or the given one."""
        dtype = tokens.dtype if dtype is None else dtype
        width = self.linear_width + sum(projection.shape[1] for projection in self.projections_)
        return rowwise(partial(self._lifted, dtype=dtype), tokens, width, dtype)

    def linear(self, tokens: Any, dtype: Any = None) -> Any:
        """The first of these features, the scaled tokens."""
        dtype = tokens.dtype if dtype is None else dtype
        return rowwise(lambda block: (PART * self.scaled(block)).astype(dtype), tokens, self.linear_width, dtype)

    def _lifted(self, tokens: Any, dtype: Any) -> Any:
        scaled = self.scaled(tokens)
        parts = [scaled]
        for phi, mean, scale in zip(self._kernels(scaled), self.lift_means_, self.lift_scales_):
            parts.append(scale * (phi - mean))
        return namespace(scaled).hstack([(PART * part).astype(dtype, copy=False) for part in parts])

    def scaled(self, tokens: Any) -> Any:
        """The scaled tokens alone."""
        return tokens if self.scaler_ is None else self.scaler_.scaled_block(tokens)

    def _kernels(self, scaled: Any) -> Iterator[Any]:
        """phi(x) of scaled tokens, not centred, for each width: the distances to the landmarks serve them all."""
        if self.gammas_:
            # In double precision: single would lose small distances among large norms.
            squared = squared_distances(scaled.astype(np.float64), self.points_)
            for gamma, projection in zip(self.gammas_, self.projections_):
                yield namespace(squared).exp(-gamma * squared) @ projection

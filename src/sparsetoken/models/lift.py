"""Token features for the refined training: scaled tokens, and beside them a nonlinear lift.

A linear score cannot single out tokens that lie *between* others (an eight among digits, one bird among many), nor tokens
that are merely large. The lift adds Gaussian kernels k(x, x') = exp(-gamma |x - x'|^2) seen from some of the training
tokens (Nystrom's method), phi(x) = K_mm^{-1/2} k_m(x), at two widths: gamma = 2 / median squared distance (near
neighbours) and a twentieth of that (sizes and quadratic shapes). It uses no labels.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import eigh
from sklearn.base import BaseEstimator
from sklearn.metrics.pairwise import euclidean_distances

from .bags import Bags
from .scaler import BagScaler

LANDMARKS = 150
WIDTHS = (0.1, 2.0)  # gamma in units of 1 / median squared distance
# The linear part and each kernel get half of the scaled tokens' variance (0.7^2).
PART = 0.7


class TokenLift(BaseEstimator):
    """scale -> 0.7 [x, phi_wide(x), phi_near(x)], each phi centred and given the total variance of the scaled tokens.

    landmarks  number of training tokens the kernels are seen from (0: no lift, the scaled tokens alone)
    scale      standardise the tokens first, heavy tails drawn in
    """

    def __init__(self, landmarks: int = LANDMARKS, scale: bool = True):
        self.landmarks = landmarks
        self.scale = scale

    def fit(self, bags: Bags, rng: np.random.Generator) -> TokenLift:
        self.scaler_ = BagScaler(compress=True).fit(bags) if self.scale else None
        self.points_, self.gammas_, self.projections_ = np.empty((0, bags.n_features)), [], []
        self.lift_means_, self.lift_scales_ = [], []
        if self.landmarks == 0:
            return self
        tokens = self._scaled(bags.tokens)
        count = min(self.landmarks, len(tokens))
        chosen = np.sort(rng.choice(len(tokens), count, replace=False))
        self.points_ = np.unique(tokens[chosen], axis=0).astype(np.float64)
        squared = euclidean_distances(self.points_, squared=True)
        apart = squared[squared > 0]
        if apart.size == 0:  # all tokens alike: there is nothing to lift
            return self
        for width in WIDTHS:
            gamma = width / float(np.median(apart))
            values, vectors = eigh(np.exp(-gamma * squared))
            keep = values > 1e-6 * values[-1]
            projection = vectors[:, keep] / np.sqrt(values[keep])
            lifted = self._kernel(tokens, gamma) @ projection
            total = float(np.sum(lifted.var(axis=0)))
            self.gammas_.append(gamma)
            self.projections_.append(projection)
            self.lift_means_.append(lifted.mean(axis=0))
            self.lift_scales_.append(float(np.sqrt(tokens.shape[1] / total)) if total > 0 else 1.0)
        return self

    def features(self, tokens: np.ndarray) -> np.ndarray:
        """(tokens, features) of the given tokens, in their precision."""
        scaled = self._scaled(tokens)
        if not self.gammas_:
            return scaled
        parts = [scaled]
        for gamma, projection, mean, scale in zip(self.gammas_, self.projections_, self.lift_means_, self.lift_scales_):
            parts.append((self._kernel(scaled, gamma) @ projection - mean) * scale)
        return (PART * np.hstack(parts)).astype(tokens.dtype)

    def _scaled(self, tokens: np.ndarray) -> np.ndarray:
        return tokens if self.scaler_ is None else self.scaler_.scaled(tokens)

    def _kernel(self, scaled: np.ndarray, gamma: float) -> np.ndarray:
        # Single precision would lose small distances among large norms.
        squared = euclidean_distances(scaled.astype(np.float64), self.points_, squared=True)
        return np.exp(-gamma * squared)

"""The convex problem of the readout, and the state of a point in it.

    F(w, b) = sum_i p_i l(<w, x_i> + b; y_i) + (ridge/2) ||w||^2,    p_i = sample_weight_i / sum of sample weights

(p_i = 1/n without weights: a mean, not a sum). The bias b is not penalised. Points, gradients and directions are vectors of
d + 1 numbers, the bias last.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..losses import Loss
from .features import Features

# A convex loss whose slope has its sign still at this margin has no minimiser that matters: e^-300 is nothing.
FAR_MARGIN = 300.0


@dataclass(frozen=True)
class FitPoint:
    """A point v = (w, b) of the problem: outputs z = X w + b, pulls r = p l'(z), gradient g of norm `size`, and F."""

    v: np.ndarray
    z: np.ndarray
    r: np.ndarray
    g: np.ndarray
    size: float
    value: float


@dataclass(frozen=True)
class FitProblem:
    """F and its derivatives."""

    features: Features
    labels: np.ndarray
    weights: np.ndarray
    ridge: float
    loss: Loss
    fit_bias: bool

    @cached_property
    def endless(self) -> bool:
        """Whether F may fall without end as the weights grow: no ridge, and a loss that always falls."""
        return self.ridge == 0.0 and always_falls(self.loss)

    def at(self, v: np.ndarray) -> FitPoint:
        """Outputs, gradient and F at v."""
        losses = 0.0

        def pulls(z: np.ndarray, rows: slice) -> np.ndarray:
            nonlocal losses
            value, slope = self.loss.value_and_slope(z, self.labels[rows])
            losses += float(self.weights[rows] @ value)
            return self.weights[rows] * slope

        w = v[:-1]
        if w.any():
            z, r, sums = self.features.both_products(w, float(v[-1]), pulls)
        else:
            z = np.full(len(self.labels), float(v[-1]))
            r = pulls(z, slice(None))
            sums = self.features.transposed_times(r)
        g = np.append(sums + self.ridge * w, r.sum() if self.fit_bias else 0.0)
        return FitPoint(v, z, r, g, float(np.linalg.norm(g)), losses + 0.5 * self.ridge * float(w @ w))

    def value_at_zero(self) -> float:
        """F(0, 0)."""
        return float(self.weights @ self.loss.value(np.zeros(len(self.labels)), self.labels))

    def curvatures(self, z: np.ndarray) -> np.ndarray:
        """D_i = p_i l''(z_i; y_i); averaged over [z - 1, z + 1] where all samples lie on straight parts of the loss."""
        curvature = np.maximum(self.loss.curvature(z, self.labels), 0.0)
        if not curvature.any():
            curvature = (self.loss.slope(z + 1.0, self.labels) - self.loss.slope(z - 1.0, self.labels)) / 2.0
        return self.weights * curvature

    def hessian_times(self, curvature: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(H v, dz) for H = sum_i D_i (x_i, 1)(x_i, 1)^T + ridge diag(1, ..., 1, 0) and dz the change of z along v."""
        dz, pulls, sums = self.features.both_products(v[:-1], float(v[-1]), lambda z, rows: curvature[rows] * z)
        return np.append(sums + self.ridge * v[:-1], pulls.sum() if self.fit_bias else 0.0), dz

    @cached_property
    def initial_pull(self) -> float:
        """Mean of |l'(0; y_i)| times the typical ||(x_i, 1)||: the size of one sample's share in the gradient at 0."""
        return float(self.weights @ np.abs(self.loss.slope(np.zeros(len(self.labels)), self.labels))) * self._row_norm

    @cached_property
    def _row_norm(self) -> float:
        """Root mean square of ||(x_i, 1)||, or of ||x_i|| without a bias."""
        return math.hypot(self.features.row_norm, 1.0 if self.fit_bias else 0.0)

    def gradient_scale(self, point: FitPoint) -> float:
        """What the tolerance is relative to: ridge ||w||, or the initial pull where there is no ridge."""
        return self.ridge * float(np.linalg.norm(point.v[:-1])) if self.ridge > 0.0 else self.initial_pull

    def relative_gradient(self, point: FitPoint) -> float:
        """||grad F|| over its scale, or over the initial pull at w = 0."""
        scale = self.gradient_scale(point) or self.initial_pull
        return point.size / scale if scale > 0.0 else 0.0

    def rounding(self, point: FitPoint) -> float:
        """What rounding leaves uncertain in ||grad F||: relative errors of the outputs z and of the sums over samples."""
        moved = float(self.curvatures(point.z).sum()) * float(np.abs(point.z).max())
        return float(np.finfo(np.float64).eps) * self._row_norm * (float(np.abs(point.r).sum()) + moved)

    def separates(self, z: np.ndarray) -> bool:
        """Whether every sample with a weight is on its label's side."""
        return bool(np.all((z * self.labels > 0.0) | (self.weights == 0.0)))


def always_falls(loss: Loss) -> bool:
    """Whether l falls as the margin grows without end, as the logistic loss does: separable data then have no minimiser."""
    return float(loss.slope(np.array([FAR_MARGIN]), np.ones(1))[0]) < 0.0

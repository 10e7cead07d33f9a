"""Features of Gaussian kernels k(x, x') = exp(-gamma |x - x'|^2) with a few landmarks (Nystrom's method)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import eigh

from ..._core.arrays import namespace


@dataclass(frozen=True)
class NystromKernel:
    """phi(x) = k_m(x) @ projection - mean with k_m(x) the kernel with m landmarks, seen from their `center`."""

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
    keep = values > 1e-6 * values[-1]  # what lies below is rounding
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

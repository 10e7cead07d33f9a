"""Gaussian kernels k(x, x') = exp(-gamma |x - x'|^2), seen from a few points (Nystrom's method)."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import eigh

from ..._core.arrays import namespace


def gaussian_kernel(x: Any, points: np.ndarray, gamma: float) -> Any:
    """exp(-gamma |x_i - p_j|^2), in double precision: single would lose small distances among large norms."""
    squared = squared_distances(x.astype(np.float64), points)
    return namespace(squared).exp(-gamma * squared)


def squared_distances(x: Any, points: np.ndarray) -> Any:
    """|x_i - p_j|^2; exactly zero between a set and itself."""
    xp = namespace(x)
    squared = (x * x).sum(axis=1)[:, None] + (points * points).sum(axis=1)
    if xp is not np:
        return xp.maximum(squared - 2.0 * (x @ points.T), 0.0)
    products = x @ points.T  # in place from here on: more time would go into room for results than into the results
    products *= 2.0
    squared -= products
    np.maximum(squared, 0.0, out=squared)
    if x is points:
        np.fill_diagonal(squared, 0.0)
    return squared


def typical_squared_distance(squared: np.ndarray) -> float | None:
    """The median squared distance of distinct points, the unit of 1/gamma; None where all points are alike."""
    apart = squared[squared > 0]
    return float(np.median(apart)) if apart.size else None


def nystrom_projection(squared: np.ndarray, gamma: float) -> np.ndarray:
    """What turns the kernel k_m(x) with m points into features phi(x) = k_m(x) @ projection, a root of K_mm^{-1}."""
    values, vectors = eigh(np.exp(-gamma * squared))
    keep = values > 1e-6 * values[-1]
    return vectors[:, keep] / np.sqrt(values[keep])

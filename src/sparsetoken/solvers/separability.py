"""Linear separability of samples, decided by non-negative least squares."""

from __future__ import annotations

import numpy as np
from scipy.optimize import nnls


def separable(features: np.ndarray, labels: np.ndarray) -> bool:
    """Whether a hyperplane with a bias separates the classes.

    p = sum_i a_i y_i (x_i, 1), at the a >= 0 that minimise |p|^2 + (sum a - 1)^2, is zero if none does; otherwise
    y_i <p, (x_i, 1)> >= 1 - sum a > 0 for all i. A margin below a millionth of the features' size counts as none.
    """
    scale = float(np.sqrt(np.mean(features**2)))
    points = labels[:, None] * np.column_stack([features / scale, np.ones(len(labels))])
    target = np.append(np.zeros(points.shape[1]), 1.0)
    weights, _ = nnls(np.vstack([points.T, np.ones(len(labels))]), target)
    return float((points @ (weights @ points)).min()) > 1e-12  # the square of a margin

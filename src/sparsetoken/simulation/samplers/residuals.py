"""The residuals of the two gradient steps on drawn bags, and the bias they are taken at."""

from __future__ import annotations

import numpy as np

from ...losses import balancing_bias
from ...training import Training


def first_slopes(training: Training, y: np.ndarray) -> np.ndarray:
    """c_i = l'(0; y_i), or with eta_b = "auto" l'(b0; y_i) at the intercept b0 for which they sum to zero."""
    loss, at = training.loss_function, np.zeros(len(y))
    if isinstance(training.eta_b, str):
        at += balancing_bias(loss, at, y, np.full(len(y), 1.0 / len(y)))
    return loss.slope(at, y)


def second_bias(training: Training, c: np.ndarray, fields: np.ndarray, y: np.ndarray) -> float:
    """b1 = -(eta_b/n) sum_i c_i, or with eta_b = "auto" the bias for which h_i = l'(<w1, xbar_i> + b1; y_i) sum to zero."""
    if not isinstance(training.eta_b, str):
        return -training.eta_b * float(c.mean())
    return float(balancing_bias(training.loss_function, fields, y, np.full(len(y), 1.0 / len(y))))

"""The bias that training ends with, the best one for the same directions, and one refitted to leave-one-out scores."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize, minimize_scalar

from ..trajectories import mistakes
from .bag_model_measures import MEASURES


def logistic_shift(scores: np.ndarray, y: np.ndarray, weights: np.ndarray) -> float:
    """c/a of the logistic regression of labels on a z + c, which adds to the bias: it minimises

    sum_i p_i log(1 + exp(-y_i (a z_i + c))),    p_i: weights that sum to one.
    """
    size = float(np.sqrt(weights @ scores**2)) or 1.0

    def loss(x: np.ndarray) -> tuple[float, np.ndarray]:
        margin = y * (x[0] * scores / size + x[1])
        slope = -weights * y * np.exp(-np.logaddexp(0.0, margin))
        return float(weights @ np.logaddexp(0.0, -margin)), np.array([slope @ scores / size, slope.sum()])

    # Scores that do not go with the labels leave the slope at its bound: the shift then decides alone, for the larger class.
    options = {"ftol": 1e-14, "gtol": 1e-9}
    a, c = minimize(
        loss, [size, 0.0], jac=True, method="L-BFGS-B", bounds=[(1e-3, None), (None, None)], options=options
    ).x
    return float(c * size / a)


def measures_by_bias(
    measures: Callable[[float], np.ndarray], bias: float, scores: np.ndarray, y: np.ndarray, weights: np.ndarray
) -> dict[str, float]:
    """`MEASURES` on fresh bags at the bias, and the least test error and that at the refitted bias, with these biases.

    `scores` are those of the training bags, each as if it had been left out; a bias adds to the score.
    """
    refitted = bias + logistic_shift(scores, y, weights)
    reach = float(np.abs(scores).max())
    best = minimize_scalar(lambda b: float(measures(b)[0]), bounds=(bias - reach, bias + reach), method="bounded")
    return {
        **dict(zip(MEASURES, map(float, measures(bias)), strict=True)),
        "best_bias": float(best.x),
        "best_bias_error": float(best.fun),
        "refitted_bias": refitted,
        "refitted_error": float(measures(refitted)[0]),
        "leave_one_out_error": float(weights @ mistakes(scores, y)),
    }

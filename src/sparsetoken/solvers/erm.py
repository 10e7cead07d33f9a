"""Convex, ridge-regularised empirical risk minimisation: the readout every classifier shares.

    F(w, b) = sum_i p_i l(<w, x_i> + b; y_i) + (ridge/2) ||w||^2,    p_i = sample_weight_i / sum of sample weights

(p_i = 1/n without weights: a mean, not a sum). The bias b is not penalised. With ridge = 0 the square loss means the minimiser
with the least ||w||.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.linalg
from scipy.optimize import brentq, nnls

from .._core.arrays import is_jax_array
from .._core.devices import checked_device, device_for, working_on
from .._core.validation import real_number
from ..losses import Loss, Square, Weighted, convex_loss
from .minimise import Solution, minimise
from .objective import Features, FitPoint, FitProblem, always_falls

# Why a fit ended, and whether it is a minimum.
REASONS = {
    "gradient": (True, "the gradient met the tolerance"),
    "precision": (True, "the gradient is zero to working precision, rounding errors allow no further decrease"),
    "iterations": (False, "the limit of iterations was reached; a larger ridge helps"),
    "stalled": (False, "rounding errors hide every descent direction before the minimum; a larger ridge helps"),
    "unbounded": (False, "F has no minimiser: it decreases forever as the weights grow; use a ridge above 0"),
    "one_class": (False, "F has no minimiser: all samples have one label, and it decreases forever as the bias grows"),
}


@dataclass(frozen=True)
class ReadoutFit:
    """A minimiser of F and how it was found."""

    coef: np.ndarray = field(repr=False)
    bias: float
    value: float
    gradient_norm: float
    iterations: int
    stopped: str

    @property
    def converged(self) -> bool:
        return REASONS[self.stopped][0]

    @property
    def reason(self) -> str:
        return REASONS[self.stopped][1]


def fit_erm(
    features: Any,
    labels: Any,
    ridge: float,
    loss: str | Loss = "logistic",
    sample_weight: Any = None,
    start: ReadoutFit | tuple[Any, float] | None = None,
    tolerance: float = 1e-7,
    device: str = "auto",
) -> ReadoutFit:
    """Minimise  F(w, b) = sum_i p_i l(<w, x_i> + b; y_i) + (ridge/2) ||w||^2,  p_i = sample_weight_i / sum, or 1/n."""
    x, y, p = _checked(features, labels, sample_weight, device)
    ridge = real_number("ridge", ridge, 0.0)
    tolerance = real_number("tolerance", tolerance, 0.0, 1.0, open_low=True)
    loss = convex_loss(loss)
    scale = 1.0
    if isinstance(loss, Weighted):  # weights of samples, so that the square loss keeps its one factorisation
        p = p * loss.weight(y)
        scale = float(p.sum())
        p, ridge, loss = p / scale, ridge / scale, loss.loss
    v = _start(start, x.shape[1])
    x, centre = _centred(x, p)
    v[-1] += float(centre @ v[:-1])
    problem = FitProblem(x, y, p, ridge, loss)
    solution = _one_class(problem, tolerance)
    if solution is None and ridge == 0.0 and isinstance(loss, Square):
        solution = Solution(_least_norm(problem), "precision")
    if solution is None:
        solution = minimise(problem, _better_than_zero(problem, v), tolerance)
    w, b = solution.point.v[:-1], float(solution.point.v[-1])
    return ReadoutFit(
        coef=w,
        bias=b - float(centre @ w),
        value=scale * solution.point.value,
        gradient_norm=problem.relative_gradient(solution.point),
        iterations=solution.iterations,
        stopped=solution.stopped,
    )


def _checked(features: Any, labels: Any, sample_weight: Any, device: str) -> tuple[Features, np.ndarray, np.ndarray]:
    """Features, labels and normalised weights."""
    x = _placed(features, device)
    if not math.isfinite(x.mean_square):
        raise ValueError("features must be finite and smaller than 1e150, got NaN, infinity or larger numbers")
    y = np.asarray(labels, dtype=np.float64)
    if y.shape != (x.shape[0],):
        raise ValueError(f"labels must hold one label per sample ({x.shape[0]}), got shape {y.shape}")
    if not np.all(np.abs(y) == 1.0):
        raise ValueError("labels must be -1 or +1")
    if sample_weight is None:
        p = np.full(len(y), 1.0 / len(y))
    else:
        p = np.asarray(sample_weight, dtype=np.float64)
        if p.shape != y.shape or not np.all(np.isfinite(p)) or np.any(p < 0) or p.sum() <= 0:
            raise ValueError("sample_weight must hold one finite number >= 0 per sample, not all zero")
        p = p / p.sum()
    return x, y, p


def _placed(features: Any, device: str) -> Features:
    """The features where they are to be worked on, in double or single precision as they come."""
    placed = is_jax_array(features)
    x: Any = features if placed else np.asarray(features)
    if x.ndim != 2 or 0 in x.shape:
        raise ValueError(f"features must be a non-empty (samples, features) array, got shape {x.shape}")
    if placed and checked_device(device) != "auto":
        raise ValueError(f"these features are on a device already: use device='auto', not {device!r}")
    if not placed:
        x = x if x.dtype == np.float32 else np.asarray(x, dtype=np.float64)
        where = device_for(device, x)
        if where is not None:
            import jax

            with working_on(where):
                x = jax.device_put(x, where)
        elif not (x.flags.c_contiguous or x.flags.f_contiguous):
            x = np.ascontiguousarray(x)
    return Features(x)


def _centred(x: Features, p: np.ndarray) -> tuple[Features, np.ndarray]:
    """Features far from the origin, moved to it: the free bias makes this a change of coordinates, and a better one."""
    mean = x.transposed_times(p)
    # Below this share of the mean square the mean is one direction among others; above, its rounding errors exceed the rest.
    if float(mean @ mean) <= 0.9 * x.row_norm**2:
        return x, np.zeros_like(mean)
    return x.centred(mean), mean


def _start(start: ReadoutFit | tuple[Any, float] | None, d: int) -> np.ndarray:
    if start is None:
        return np.zeros(d + 1)
    w, b = (start.coef, start.bias) if isinstance(start, ReadoutFit) else start
    w = np.array(w, dtype=np.float64)
    if w.shape != (d,) or not np.all(np.isfinite(w)) or not math.isfinite(b):
        raise ValueError(f"start must be {d} finite weights and a finite bias, got weights of shape {w.shape}")
    return np.append(w, b)


def _better_than_zero(problem: FitProblem, v: np.ndarray) -> FitPoint:
    """The start, or zero where F is less there."""
    point = problem.at(v)
    return point if point.value <= problem.value_at_zero() else problem.at(np.zeros_like(v))


def _one_class(problem: FitProblem, tolerance: float) -> Solution | None:
    """Where all samples with a weight have one label, w = 0 is best and only the bias is left; None elsewhere."""
    labels = problem.labels[problem.weights > 0.0]
    label = float(labels[0])
    if np.any(labels != label):
        return None

    def slope(margin: float) -> float:
        return label * float(problem.loss.slope(np.array([label * margin]), np.array([label]))[0])

    def at(margin: float) -> FitPoint:
        return problem.at(np.append(np.zeros(problem.features.shape[1]), label * margin))

    margin, at_zero = 1.0, slope(0.0)
    if not at_zero < 0.0:  # no loss of the usual kind: leave it to Newton's method
        return None
    if always_falls(problem.loss):  # a bias at which F can hardly decrease further
        while slope(margin) < tolerance * at_zero:
            margin *= 2.0
        return Solution(at(margin), "one_class")
    while slope(margin) < 0.0:
        margin *= 2.0
    return Solution(at(margin if slope(margin) == 0.0 else float(brentq(slope, 0.0, margin, xtol=1e-15))), "gradient")


def _least_norm(problem: FitProblem) -> FitPoint:
    """The least-squares solution of least ||w||, by a QR factorisation of the centred features."""
    x, y, p = problem.features.on_host(), problem.labels, problem.weights
    centre, middle, root = p @ x, float(p @ y), np.sqrt(p)
    # Directions below this share of the largest are rounding errors (LAPACK's usual bound).
    cutoff = max(x.shape) * float(np.finfo(np.float64).eps)
    a, b = root[:, None] * (x - centre), root * (y - middle)
    w, *_ = scipy.linalg.lstsq(a, b, cond=cutoff, lapack_driver="gelsy", check_finite=False)
    return problem.at(np.append(w, middle - math.fsum(centre * w)))


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

"""Convex, ridge-regularised empirical risk minimisation: the readout every classifier shares.

    F(w, b) = sum_i p_i l(<w, x_i> + b; y_i) + (ridge/2) ||w||^2,    p_i = sample_weight_i / sum of sample weights

(p_i = 1/n without weights: a mean, not a sum). The bias b is not penalised.

Newton's method with an almost exact line search. The Newton systems are solved by conjugate gradients, at first without
a preconditioner, later with the Cholesky factor of a recent Hessian: whenever the products spent since the last
factorisation have cost as much as one, the next system gets a fresh factor. Easy problems thus never pay for a
factorisation, hard ones (separable, tiny ridge) pay for few. With fewer samples than features the problem is first
rewritten in n coordinates, an orthogonal change of basis of the samples' span.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .._core.arrays import is_jax_array
from .._core.devices import checked_device, device_for, working_on
from .._core.threads import single_blas_thread
from .._core.validation import real_number, whole_number
from ..losses import Loss, get_loss
from .newton_system import Cholesky, Features, Problem, Scaling, conjugate_gradients, reduced

# Features this large are kept out of single precision, where their squares would overflow.
LARGEST_SINGLE = 1e15
# Largest relative residual left in a Newton system.
FORCING = 0.1


@dataclass(frozen=True)
class ERMResult:
    """A minimiser of F and how it was found.

    coef           w
    bias           b (0 when it is not fitted)
    value          F(w, b)
    gradient_norm  ||grad F|| / (ridge ||w||); with ridge = 0, ||grad F|| / (mean of |l'| ||x||). Features far from the
                   origin are centred first, and the gradient is that of the centred problem
    iterations     Newton iterations
    stopped        "gradient": gradient_norm reached the tolerance; "precision": rounding errors allow no further
                   decrease; "iterations": the iteration limit was hit first
    products       Hessian-vector products spent
    factorisations Cholesky factorisations spent
    """

    coef: np.ndarray
    bias: float
    value: float
    gradient_norm: float
    iterations: int
    stopped: str
    products: int
    factorisations: int

    @property
    def converged(self) -> bool:
        return self.stopped != "iterations"


def fit_erm(
    features: Any,
    labels: Any,
    ridge: float,
    loss: str | Loss = "logistic",
    sample_weight: Any = None,
    start: ERMResult | tuple[Any, float] | None = None,
    tolerance: float = 1e-7,
    fit_bias: bool = True,
    max_iterations: int = 200,
    device: str = "auto",
) -> ERMResult:
    """Minimise  F(w, b) = sum_i p_i l(<w, x_i> + b; y_i) + (ridge/2) ||w||^2,  p_i = sample_weight_i / sum, or 1/n.

    features       (n, d) array, double or single precision (single is kept as it is; sums are still made in double)
    labels         n labels, -1 or +1
    ridge          lambda >= 0; with 0 a minimiser need not exist (separable data), and `stopped` then says "iterations"
    start          (w, b) or an earlier result to start from; zero otherwise
    tolerance      stop once ||grad F|| <= tolerance * ridge ||w||: against an absolute bound separable data with a tiny
                   ridge would stop far from the minimum
    device         "auto": large features go to an accelerator if JAX has one, JAX arrays stay where they are; "numpy";
                   "gpu" or "cpu": JAX there. The result is the same up to the tolerance
    """
    x, y, p, largest = _checked(features, labels, sample_weight, device)
    ridge = real_number("ridge", ridge, 0.0)
    tolerance = real_number("tolerance", tolerance, 0.0, 1.0, open_low=True)
    max_iterations = whole_number("max_iterations", max_iterations, 1)
    loss = get_loss(loss)
    with single_blas_thread():
        w, b = _start(start, x.shape[1], bool(fit_bias))
        x, centre = _centred(x, p) if fit_bias else (x, None)
        if centre is not None:
            b += float(centre @ w)
        single = largest < LARGEST_SINGLE  # centring, done for features far from the origin, makes them no larger
        problem = Problem(x.in_single() if single else x, y, p, ridge, loss, bool(fit_bias))
        if start is None and ridge > 0.0 and not _strictly_convex(loss):
            w, b = _approach(problem, w, b, max_iterations)
        found = _newton(problem, w, b, tolerance, max_iterations)
    return found if centre is None else replace(found, bias=found.bias - float(centre @ found.coef))


def _checked(
    features: Any, labels: Any, sample_weight: Any, device: str
) -> tuple[Features, np.ndarray, np.ndarray, float]:
    """Features, labels, normalised weights, and the largest |feature|."""
    x = _placed(features, device)
    largest = x.largest()
    if not math.isfinite(largest):
        raise ValueError("features must be finite, got NaN or infinity")
    y = np.asarray(labels, dtype=np.float64)
    if y.shape != (x.shape[0],):
        raise ValueError(f"labels must hold one label a sample ({x.shape[0]}), got shape {y.shape}")
    if not np.all(np.abs(y) == 1.0):
        raise ValueError("labels must be -1 or +1")
    if sample_weight is None:
        p = np.full(len(y), 1.0 / len(y))
    else:
        p = np.asarray(sample_weight, dtype=np.float64)
        if p.shape != y.shape or not np.all(np.isfinite(p)) or np.any(p < 0) or p.sum() <= 0:
            raise ValueError("sample_weight must hold one finite number >= 0 a sample, not all zero")
        p = p / p.sum()
    return x, y, p, largest


def _placed(features: Any, device: str) -> Features:
    """The features where they are to be worked on, double or single precision as they come."""
    placed = is_jax_array(features)
    x: Any = features if placed else np.asarray(features)
    if x.ndim != 2 or 0 in x.shape:
        raise ValueError(f"features must be a non-empty (samples, features) array, got shape {x.shape}")
    if placed and checked_device(device) != "auto":
        raise ValueError(f"these features are on a device already: use device='auto', not {device!r}")
    if x.dtype != np.float32 and not placed:
        x = np.asarray(x, dtype=np.float64)
    where = None if placed else device_for(device, x)
    if placed or where is not None:
        import jax

        from .jax_features import PlacedFeatures

        with working_on(where or next(iter(x.devices()))):
            x = x if placed else jax.device_put(x, where)
            return PlacedFeatures(x if x.dtype in (np.float32, np.float64) else x.astype(np.float64), exact=True)
    if not (x.flags.c_contiguous or x.flags.f_contiguous):
        x = np.ascontiguousarray(x)
    return Features(x, exact=True)


def _centred(x: Features, p: np.ndarray) -> tuple[Features, np.ndarray | None]:
    """Features far from the origin, moved to it: the free bias makes this a change of coordinates, and a better one."""
    mean = x.transposed_times(p)
    square = float(mean @ mean)
    if square <= 0.9 * x.shape[1] * x.mean_square():
        return x, None
    return x.moved(mean), mean


def _start(start: ERMResult | tuple[Any, float] | None, d: int, fit_bias: bool) -> tuple[np.ndarray, float]:
    if start is None:
        return np.zeros(d), 0.0
    w, b = (start.coef, start.bias) if isinstance(start, ERMResult) else start
    w = np.array(w, dtype=np.float64)
    if w.shape != (d,) or not np.all(np.isfinite(w)) or not math.isfinite(b):
        raise ValueError(f"start must be {d} finite weights and a finite bias, got weights of shape {w.shape}")
    return w, float(b) if fit_bias else 0.0


def _strictly_convex(loss: Loss) -> bool:
    z = np.linspace(-20.0, 20.0, 81)
    return bool(np.all(loss.curvature(z, np.ones(81)) > 0.0) and np.all(loss.curvature(z, -np.ones(81)) > 0.0))


def _approach(problem: Problem, w: np.ndarray, b: float, max_iterations: int) -> tuple[np.ndarray, float]:
    """A start for losses with flat or straight parts: follow the minimiser from a large ridge down, ten times a step.

    There Newton's method from afar meets a Hessian that says nothing about most samples.
    """
    ridge = problem.features.mean_square()
    while ridge > problem.ridge:
        stage = replace(problem, ridge=ridge)
        found = _newton(stage, w, b, 0.1, max_iterations)
        w, b, ridge = found.coef, found.bias, ridge / 10.0
    return w, b


def _mean_curvature(loss: Loss, z: np.ndarray, y: np.ndarray, width: float) -> np.ndarray:
    """l'' averaged over [z - width, z + width]: the curvature a step of that size meets when l'' jumps."""
    if width > 0.0:
        return (loss.slope(z + width, y) - loss.slope(z - width, y)) / (2.0 * width)
    return np.maximum(loss.curvature(z, y), 0.0)


def _line_search(problem: Problem, z: np.ndarray, dz: np.ndarray, w: np.ndarray, dw: np.ndarray) -> float:
    """t > 0 with |phi'(t)| <= 0.1 |phi'(0)|, phi(t) = F along the direction; 0 when phi does not fall.

    Newton's method on phi', kept inside a bracket.
    """
    loss, p, y, ridge = problem.loss, problem.p, problem.y, problem.ridge
    linear, quadratic = ridge * float(w @ dw), ridge * float(dw @ dw)
    pdz = p * dz
    slope0 = float(pdz @ loss.slope(z, y)) + linear
    if not slope0 < 0.0:
        return 0.0
    low, high, t = 0.0, math.inf, 1.0
    for _ in range(40):
        zt = z + t * dz
        slope = float(pdz @ loss.slope(zt, y)) + linear + t * quadratic
        if abs(slope) <= 0.1 * abs(slope0):
            break
        low, high = (t, high) if slope < 0.0 else (low, t)
        bend = float((pdz * dz) @ loss.curvature(zt, y)) + quadratic
        newton = t - slope / bend if bend > 0.0 else math.inf
        if math.isinf(high):
            t = min(max(newton, 1.5 * t), 4.0 * t)
        else:
            t = newton if low < newton < high else 0.5 * (low + high)
    return t


def _newton(problem: Problem, w: np.ndarray, b: float, tolerance: float, max_iterations: int) -> ERMResult:
    original, back = problem, None
    n, d = problem.features.shape
    loss, y, p, ridge = problem.loss, problem.y, problem.p, problem.ridge
    row_norm = math.sqrt(d * problem.features.mean_square())
    preconditioner: Scaling | Cholesky = Scaling(problem)
    # Prices in products; with n < d the first factorisation also pays for the change of coordinates.
    prices = problem.features
    price = d / prices.cholesky_price if n >= d else n / prices.reduction_price + n / prices.cholesky_price
    spent, products, factorisations, iteration = 0, 0, 0, 0
    width, used = 0.0, 0
    stopped = "iterations"
    z = problem.features.times(w) + b
    while True:
        r = p * loss.slope(z, y)
        g = problem.gradient(r, w)
        size = float(np.linalg.norm(g))
        noise = float(np.abs(r).sum()) * row_norm
        scale = ridge * float(np.linalg.norm(w)) if ridge > 0.0 else noise
        small = size <= tolerance * scale
        rounded = size <= 2 * np.finfo(np.float64).eps * (noise + scale)
        if small or rounded:
            stopped = "gradient" if small else "precision"
        if stopped != "iterations" or iteration == max_iterations:
            break
        iteration += 1
        curvature = p * _mean_curvature(loss, z, y, width)
        if not curvature.max() > 0.0:
            width = max(width, 1.0)
            curvature = p * _mean_curvature(loss, z, y, width)
        # A factor that is due can wait where the rest of the way, at the last system's cost a system, is shorter than it.
        systems = math.log(size / (tolerance * scale)) / -math.log(FORCING) if scale > 0.0 else math.inf
        near_end = spent < 2 * price and 1.5 * used * (systems + 1.0) < price
        fresh = spent >= price and not near_end
        if fresh:
            if n < d and back is None:
                problem, w, back = reduced(problem, w)
                g = problem.gradient(r, w)
                price = n / problem.features.cholesky_price
            try:
                preconditioner = Cholesky(problem, curvature)
            except np.linalg.LinAlgError:
                problem.features.be_exact()
                preconditioner = Cholesky(problem, curvature)
            factorisations += 1
            spent = 0
        # Solve no more exactly than the distance to the minimum, or to the tolerance, is worth.
        forcing = max(min(FORCING, math.sqrt(size / scale)), 0.3 * tolerance * scale / size) if scale > 0 else FORCING
        limit = 200 if fresh else max(3, math.ceil(max(price - spent, 2 * used if near_end else 0)))
        v, dz, used = conjugate_gradients(problem, curvature, preconditioner, g, forcing, limit)
        products, spent = products + used, spent + used
        if (fresh and used > 15) or iteration > 30:  # single precision does not carry here
            problem.features.be_exact()
        t = _line_search(problem, z, dz, w, v[:-1])
        if t == 0.0 and fresh and problem.features.exact:
            stopped = "precision"
            break
        if t == 0.0:  # rounding spoilt the direction: once more, with a fresh factor
            problem.features.be_exact()
            spent = math.ceil(price)
            continue
        w, b = w + t * v[:-1], b + t * float(v[-1])
        z = problem.features.times(w) + b
        width = t * float(np.abs(dz).max()) if t < 0.5 else (0.3 * width if width > 1e-3 else 0.0)
    if back is not None:
        w = back(w)
    z = original.features.times(w) + b
    size = float(np.linalg.norm(original.gradient(p * loss.slope(z, y), w)))
    relative = size / scale if scale > 0.0 else 0.0
    if stopped == "gradient" and relative > tolerance:  # met in the n coordinates, lost on the way back
        stopped = "precision"
    return ERMResult(w, b, original.value(z, w), relative, iteration, stopped, products, factorisations)

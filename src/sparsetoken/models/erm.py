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
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg

from ..losses import Loss, get_loss
from ..task import real_number, whole_number
from ..threads import single_blas_thread

# One factorisation costs about as much as  (features / CHOLESKY_PRICE)  Hessian-vector products (measured, one thread).
CHOLESKY_PRICE = 45.0
# Rows converted to double precision at a time when the features come in single precision.
BLOCK_ROWS = 512


@dataclass(frozen=True)
class ERMResult:
    """A minimiser of F and how it was found.

    coef           w
    bias           b (0 when it is not fitted)
    value          F(w, b)
    gradient_norm  ||grad F|| / (ridge ||w||); with ridge = 0, ||grad F|| / (mean of |l'| ||x||)
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
) -> ERMResult:
    """Minimise  F(w, b) = sum_i p_i l(<w, x_i> + b; y_i) + (ridge/2) ||w||^2,  p_i = sample_weight_i / sum (1/n without).

    features       (n, d) array, double or single precision (single is kept as it is; sums are still made in double)
    labels         n labels, -1 or +1
    ridge          lambda >= 0; with 0 a minimiser need not exist (separable data), and `stopped` then says "iterations"
    start          (w, b) or an earlier result to start from; zero otherwise
    tolerance      stop once ||grad F|| <= tolerance * ridge ||w||: against an absolute bound separable data with a tiny
                   ridge would stop far from the minimum
    """
    x, y, p = _checked(features, labels, sample_weight)
    ridge = real_number("ridge", ridge, 0.0)
    tolerance = real_number("tolerance", tolerance, 0.0, 1.0, open_low=True)
    max_iterations = whole_number("max_iterations", max_iterations, 1)
    with single_blas_thread():
        problem = _Problem(_Features(x), y, p, ridge, get_loss(loss), bool(fit_bias))
        w, b = _start(start, x.shape[1], bool(fit_bias))
        return _newton(problem, w, b, tolerance, max_iterations)


def _checked(features: Any, labels: Any, sample_weight: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    x = np.asarray(features)
    if x.dtype != np.float32:
        x = np.asarray(x, dtype=np.float64)
    if x.ndim != 2 or 0 in x.shape:
        raise ValueError(f"features must be a non-empty (samples, features) array, got shape {x.shape}")
    if not (x.flags.c_contiguous or x.flags.f_contiguous):
        x = np.ascontiguousarray(x)
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
    return x, y, p


def _start(start: ERMResult | tuple[Any, float] | None, d: int, fit_bias: bool) -> tuple[np.ndarray, float]:
    if start is None:
        return np.zeros(d), 0.0
    w, b = (start.coef, start.bias) if isinstance(start, ERMResult) else start
    w = np.array(w, dtype=np.float64)
    if w.shape != (d,) or not np.all(np.isfinite(w)) or not math.isfinite(b):
        raise ValueError(f"start must be {d} finite weights and a finite bias, got weights of shape {w.shape}")
    return w, float(b) if fit_bias else 0.0


class _Features:
    """X with products in double precision whatever X is stored in, and quick ones at X's own precision."""

    def __init__(self, x: np.ndarray):
        self.x = x
        self.shape = x.shape
        self.single = x.dtype == np.float32

    def times(self, v: np.ndarray) -> np.ndarray:
        if not self.single:
            return self.x @ v
        blocks = range(0, self.shape[0], BLOCK_ROWS)
        return np.concatenate([self.x[i : i + BLOCK_ROWS].astype(np.float64) @ v for i in blocks])

    def transposed_times(self, r: np.ndarray) -> np.ndarray:
        if not self.single:
            return self.x.T @ r
        total = np.zeros(self.shape[1])
        for i in range(0, self.shape[0], BLOCK_ROWS):
            total += self.x[i : i + BLOCK_ROWS].astype(np.float64).T @ r[i : i + BLOCK_ROWS]
        return total

    def quick_times(self, v: np.ndarray) -> np.ndarray:
        return self.x @ v.astype(self.x.dtype)

    def quick_transposed_times(self, r: np.ndarray) -> np.ndarray:
        return self.x.T @ r.astype(self.x.dtype)

    def mean_square(self) -> float:
        rows = self.x[: min(self.shape[0], BLOCK_ROWS)]
        return float(np.mean(np.square(rows, dtype=np.float64)))

    def row_norms(self) -> np.ndarray:
        return np.sqrt(np.einsum("ij,ij->i", self.x, self.x, dtype=np.float64))


@dataclass
class _Problem:
    features: _Features
    y: np.ndarray
    p: np.ndarray
    ridge: float
    loss: Loss
    fit_bias: bool

    def value(self, z: np.ndarray, w: np.ndarray) -> float:
        return float(self.p @ self.loss.value(z, self.y)) + 0.5 * self.ridge * float(w @ w)

    def gradient(self, r: np.ndarray, w: np.ndarray) -> np.ndarray:
        """(dF/dw, dF/db) from r_i = p_i l'_i; the last entry stays 0 when the bias is not fitted."""
        g = np.empty(len(w) + 1)
        g[:-1] = self.features.transposed_times(r) + self.ridge * w
        g[-1] = r.sum() if self.fit_bias else 0.0
        return g

    def hessian_times(self, curvature: np.ndarray, v: np.ndarray) -> np.ndarray:
        t = curvature * (self.features.quick_times(v[:-1]) + v[-1])
        out = np.empty_like(v)
        out[:-1] = self.features.quick_transposed_times(t) + self.ridge * v[:-1]
        out[-1] = t.sum() if self.fit_bias else v[-1]
        return out


class _Cholesky:
    """Inverse of the Hessian at given curvatures, as a preconditioner, in single or double precision."""

    def __init__(self, problem: _Problem, curvature: np.ndarray, dtype: type):
        n, d = problem.features.shape
        scale = curvature.max()
        root = np.sqrt(curvature / scale).astype(dtype)
        b = np.empty((n, d + 1), dtype=dtype)
        np.multiply(problem.features.x, root[:, None], out=b[:, :d], casting="same_kind")
        b[:, d] = root if problem.fit_bias else 0.0
        h = b.T @ b
        del b
        diagonal = h.reshape(-1)[:: d + 2]
        diagonal[:d] += problem.ridge / scale
        # The bias has no ridge of its own, and X may span the constant: keep the factor defined.
        diagonal[d] += np.finfo(dtype).eps * diagonal[d] if problem.fit_bias else 1.0
        self.factor = scipy.linalg.cho_factor(h, lower=True, overwrite_a=True, check_finite=False)
        self.dtype = dtype

    def solve(self, r: np.ndarray) -> np.ndarray:
        size = np.abs(r).max()
        if size == 0.0:
            return r
        solved = scipy.linalg.cho_solve(self.factor, (r / size).astype(self.dtype), check_finite=False)
        return solved.astype(np.float64) * size


class _Scaling:
    """Preconditioner before the first factorisation: the bias counts like a feature of typical size."""

    def __init__(self, problem: _Problem):
        self.bias_gain = problem.features.mean_square() or 1.0

    def solve(self, r: np.ndarray) -> np.ndarray:
        out = r.copy()
        out[-1] *= self.bias_gain
        return out


def _conjugate_gradients(problem, curvature, preconditioner, g, relative, limit):
    """v with ||H v + g|| <= relative ||g||, or the best after `limit` products (any iterate is a descent direction)."""
    v, r = np.zeros_like(g), -g
    s = preconditioner.solve(r)
    direction, rs = s, float(r @ s)
    goal = relative * np.linalg.norm(g)
    for k in range(1, limit + 1):
        h = problem.hessian_times(curvature, direction)
        bend = float(direction @ h)
        if not bend > 0.0:  # rounding: the direction carries no curvature that can be resolved
            return (v if k > 1 else s), k, False
        step = rs / bend
        v = v + step * direction
        r = r - step * h
        if np.linalg.norm(r) <= goal:
            return v, k, True
        s = preconditioner.solve(r)
        rs, rs_old = float(r @ s), rs
        direction = s + (rs / rs_old) * direction
    return v, limit, False


def _line_search(problem, z, dz, w, dw):
    """t > 0 with |phi'(t)| <= 0.1 |phi'(0)|, phi(t) = F along the direction: Newton's method kept inside a bracket."""
    loss, p, y, ridge = problem.loss, problem.p, problem.y, problem.ridge
    linear, quadratic = ridge * float(w @ dw), ridge * float(dw @ dw)
    pdz = p * dz
    slope0 = float(pdz @ loss.slope(z, y)) + linear
    if not slope0 < 0.0:
        return 0.0, slope0
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
    return t, slope0


def _reduced(problem: _Problem, w: np.ndarray):
    """The same problem in n < d coordinates: X = C E with E's rows orthonormal; also w's coordinates and the way back.

    C is the Cholesky factor of the Gram matrix X X^T when that is well conditioned, else it comes from a QR
    factorisation of X^T (three times the work).
    """
    x = problem.features.x.astype(np.float64, copy=False)
    gram = x @ x.T
    try:
        c = scipy.linalg.cholesky(gram, lower=True, overwrite_a=True, check_finite=False)
        diagonal = np.diag(c)
        well = diagonal.min() > 1e-5 * diagonal.max()
    except scipy.linalg.LinAlgError:
        well = False
    if well:

        def forward(w):
            return scipy.linalg.solve_triangular(c, x @ w, lower=True, check_finite=False)

        def back(v):
            return x.T @ scipy.linalg.solve_triangular(c, v, lower=True, trans="T", check_finite=False)

    else:
        e, upper = scipy.linalg.qr(x.T, mode="economic", check_finite=False)
        c = np.ascontiguousarray(upper.T)

        def forward(w):
            return e.T @ w

        def back(v):
            return e @ v

    small = _Problem(
        _Features(np.ascontiguousarray(c)), problem.y, problem.p, problem.ridge, problem.loss, problem.fit_bias
    )
    return small, forward(w), back


def _newton(problem: _Problem, w: np.ndarray, b: float, tolerance: float, max_iterations: int) -> ERMResult:
    n, d = problem.features.shape
    loss, y, p, ridge = problem.loss, problem.y, problem.p, problem.ridge
    row_norms = problem.features.row_norms()
    preconditioner: _Scaling | _Cholesky = _Scaling(problem)
    original, back = problem, None
    dtype: type = np.float32
    price = d / CHOLESKY_PRICE if n >= d else n / 25.0 + n / CHOLESKY_PRICE
    spent, products, factorisations = 0.0, 0, 0
    damping = 0.0
    previous = math.inf
    stopped = "iterations"
    z = problem.features.times(w) + b
    iteration = 0
    while True:
        slope = loss.slope(z, y)
        r = p * slope
        g = problem.gradient(r, w)
        size = float(np.linalg.norm(g))
        noise = float(np.abs(r) @ row_norms)
        scale = ridge * float(np.linalg.norm(w)) if ridge > 0.0 else noise
        if size <= tolerance * scale or size == 0.0:
            stopped = "gradient"
        elif size <= 2 * np.finfo(np.float64).eps * (noise + scale):
            stopped = "precision"
        if stopped != "iterations" or iteration == max_iterations:
            break
        curvature = p * (np.maximum(loss.curvature(z, y), 0.0) + damping)
        if not curvature.max() > 0.0:
            damping = 1.0
            curvature = p * damping
        fresh = spent >= price
        if fresh:
            if back is None and n < d:
                problem, w, back = _reduced(problem, w)
                d = n
                price = d / CHOLESKY_PRICE
                g = problem.gradient(r, w)
            try:
                preconditioner = _Cholesky(problem, curvature, dtype)
            except scipy.linalg.LinAlgError:
                dtype = np.float64
                preconditioner = _Cholesky(problem, curvature, dtype)
            factorisations += 1
            spent = 0.0
        relative = min(0.1, math.sqrt(size / scale) if scale > 0 else 0.1)
        relative = max(relative, 0.3 * tolerance * scale / size)
        limit = 200 if fresh else max(3, math.ceil(price - spent))
        v, used, solved = _conjugate_gradients(problem, curvature, preconditioner, g, relative, limit)
        products += used
        spent = spent + used
        if fresh and used > 15 and dtype is np.float32:
            dtype = np.float64
        dw, db = v[:-1], float(v[-1])
        dz = problem.features.times(dw) + db
        t, slope0 = _line_search(problem, z, dz, w, dw)
        if t == 0.0:
            if fresh:
                stopped = "precision"
                break
            spent = math.inf
            iteration += 1
            continue
        w, b = w + t * dw, b + t * db
        z = problem.features.times(w) + b
        damping = max(4.0 * damping, 1e-3) if t < 0.1 else (damping / 10.0 if damping > 1e-6 else 0.0)
        iteration += 1
    if back is not None:
        w = back(w)
        z = original.features.times(w) + b
        g = original.gradient(p * loss.slope(z, y), w)
        size = float(np.linalg.norm(g))
    value = original.value(z, w)
    return ERMResult(w, b, value, size / scale if scale > 0 else 0.0, iteration, stopped, products, factorisations)

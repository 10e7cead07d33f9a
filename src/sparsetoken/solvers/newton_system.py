"""The linear algebra of one Newton step: products with the Hessian, preconditioners, conjugate gradients.

    H = sum_i D_i (x_i, 1)(x_i, 1)^T + ridge diag(1, ..., 1, 0),   D_i = p_i l''(z_i; y_i)

Vectors have d + 1 entries, the bias last.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg

from ..losses import Loss

# Rows converted to double precision at a time when the features come in single precision.
BLOCK_ROWS = 512


class Features:
    """X with products summed in double precision, and with quick ones in single precision.

    Gradients and outputs need the former; Newton directions may be inexact and take the latter, until told otherwise.

    cholesky_price   one factorisation costs about as much as  features / cholesky_price  products with the Hessian
    reduction_price  the change to n < d coordinates costs about as much as  samples / reduction_price  of them
    (both measured, one thread)
    """

    cholesky_price = 12.0
    reduction_price = 10.0

    def __init__(self, x: np.ndarray, exact: bool = False):
        self.x = x
        self.shape = x.shape
        self.single = x.dtype == np.float32
        self.exact = exact
        self.quick = x if exact else x.astype(np.float32, copy=False)

    def be_exact(self) -> None:
        """From now on the quick products are exact ones."""
        self.exact, self.quick = True, self.x

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
        return self.times(v) if self.exact else self.quick @ v.astype(np.float32)

    def quick_transposed_times(self, r: np.ndarray) -> np.ndarray:
        return self.transposed_times(r) if self.exact else self.quick.T @ r.astype(np.float32)

    def mean_square(self) -> float:
        """Mean of x_ij^2, from the first rows: it only sets scales."""
        return float(np.mean(np.square(self.x[:BLOCK_ROWS], dtype=np.float64)))

    def in_single(self) -> Features:
        """The features with quick products in single precision."""
        return type(self)(self.x)

    def largest(self) -> float:
        """max |x_ij|, NaN where there is one."""
        return float(max(self.x.max(), -self.x.min()))

    def moved(self, centre: np.ndarray) -> Features:
        """The features less their centre."""
        return Features(self.x - centre, exact=True)

    def factor(self, root: np.ndarray, ridge: float, fit_bias: bool) -> Callable[[np.ndarray], np.ndarray]:
        """r -> (B^T B + ridge diag(1, ..., 1, 0))^{-1} r,  B = diag(root) (X, 1),  in quick precision.

        Raises LinAlgError where that matrix is not positive in this precision.
        """
        n, d = self.shape
        dtype = np.float64 if self.exact else np.float32
        b = np.empty((n, d + 1), dtype=dtype)
        np.multiply(self.quick, root.astype(dtype)[:, None], out=b[:, :d], casting="same_kind")
        b[:, d] = root if fit_bias else 0.0
        h = b.T @ b
        del b
        diagonal = h.reshape(-1)[:: d + 2]
        diagonal[:d] += ridge
        # The bias has no ridge of its own, and X may span the constant: keep the factor defined.
        diagonal[d] += np.finfo(dtype).eps * diagonal[d] if fit_bias else 1.0
        factor = scipy.linalg.cho_factor(h, lower=True, overwrite_a=True, check_finite=False)
        return lambda r: scipy.linalg.cho_solve(factor, r.astype(dtype), check_finite=False)

    def orthogonal(self) -> tuple[Features, Callable[[np.ndarray], np.ndarray], Callable[[np.ndarray], np.ndarray]]:
        """C of  X = C E  with E's rows orthonormal (n < d), w -> E w, and v -> E^T v.

        C is the Cholesky factor of the Gram matrix X X^T when that is well conditioned, else it comes from a QR
        factorisation of X^T (three times the work).
        """
        x = self.x.astype(np.float64, copy=False)
        gram = x @ x.T
        try:
            c = scipy.linalg.cholesky(gram, lower=True, overwrite_a=True, check_finite=False)
            diagonal = np.diag(c)
            well = diagonal.min() > 1e-5 * diagonal.max()
        except scipy.linalg.LinAlgError:
            well = False
        if not well:
            e, upper = scipy.linalg.qr(x.T, mode="economic", check_finite=False)
            return Features(np.ascontiguousarray(upper.T)), lambda w: e.T @ w, lambda v: e @ v

        def forward(w):
            return scipy.linalg.solve_triangular(c, x @ w, lower=True, check_finite=False)

        def back(v):
            return x.T @ scipy.linalg.solve_triangular(c, v, lower=True, trans="T", check_finite=False)

        return Features(np.ascontiguousarray(c)), forward, back


@dataclass
class Problem:
    features: Features
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

    def hessian_times(self, curvature: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(H v, X v): the second is the change of the outputs z along v."""
        dz = self.features.quick_times(v[:-1]) + v[-1]
        t = curvature * dz
        out = np.empty_like(v)
        out[:-1] = self.features.quick_transposed_times(t) + self.ridge * v[:-1]
        out[-1] = t.sum() if self.fit_bias else v[-1]
        return out, dz


class Cholesky:
    """Inverse of the Hessian at given curvatures, as a preconditioner."""

    def __init__(self, problem: Problem, curvature: np.ndarray):
        scale = curvature.max()
        self.inverse = problem.features.factor(np.sqrt(curvature / scale), problem.ridge / scale, problem.fit_bias)

    def solve(self, r: np.ndarray) -> np.ndarray:
        size = np.abs(r).max()
        if size == 0.0:
            return r
        return self.inverse(r / size).astype(np.float64) * size


class Scaling:
    """Preconditioner before the first factorisation: the bias counts like a feature of typical size."""

    def __init__(self, problem: Problem):
        self.bias_gain = problem.features.mean_square() or 1.0

    def solve(self, r: np.ndarray) -> np.ndarray:
        out = r.copy()
        out[-1] *= self.bias_gain
        return out


def conjugate_gradients(problem, curvature, preconditioner, g, relative, limit):
    """v with ||H v + g|| <= relative ||g||, or the best after `limit` products (any iterate is a descent direction).

    Returns v, the change X v of the outputs, and the number of products.
    """
    v, dz, r = np.zeros_like(g), np.zeros(problem.features.shape[0]), -g
    s = preconditioner.solve(r)
    direction, rs = s, float(r @ s)
    goal = relative * np.linalg.norm(g)
    for k in range(1, limit + 1):
        h, direction_z = problem.hessian_times(curvature, direction)
        bend = float(direction @ h)
        if not bend > 0.0:  # rounding: no curvature can be resolved along this direction
            return v, dz, k
        step = rs / bend
        v += step * direction
        dz += step * direction_z
        r -= step * h
        if np.linalg.norm(r) <= goal:
            break
        s = preconditioner.solve(r)
        rs, rs_old = float(r @ s), rs
        direction = s + (rs / rs_old) * direction
    return v, dz, k


def reduced(problem: Problem, w: np.ndarray):
    """The same problem in n < d coordinates (see `Features.orthogonal`); also w's coordinates and the way back."""
    small, forward, back = problem.features.orthogonal()
    return replace(problem, features=small), forward(w), back

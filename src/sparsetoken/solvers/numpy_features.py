"""Features in NumPy's memory."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from functools import cached_property

import numpy as np
import scipy.linalg

from .features import CONSTANT, LEAST_PIVOT, Coordinates, Features, NotPositiveError, Pulls, Solve

# Rows converted to double precision at a time when the features come in single precision.
BLOCK_ROWS = 512
# Both products of a pass over X are made block by block where X is larger than a shared cache, so that the second finds
# its block in the cache: 20,000 x 300 in double precision 4.9 ms instead of 6.6. Blocks of 0.25 to 2 MB are equal within
# 10%; below 16 MB the calls cost more than the memory.
LARGER_THAN_CACHE, BLOCK_BYTES = 2**24, 2**20
# Elements of X scaled at a time on the way to a Gram matrix: the copy stays in the cache. At least 2 d rows at a time, or
# adding up the blocks' results would show.
GRAM_BLOCK = 2**18
# Rows of no curvature are left out of a Gram matrix where they are more than a tenth: choosing rows copies the others, which
# costs more than it saves with few features.
WORTH_CHOOSING, WORTH_CHOOSING_FROM = 0.9, 64
# With so few features the single-precision copy goes by columns: BLAS works on whole columns then. A pass over 50,000 x 10
# takes 67 microseconds instead of 196, at 20 columns 34 instead of 51, but the copy costs as much as eight of them there.
FEW_COLUMNS = 16
# Larger numbers are left in double precision: sums of their squares would come near the end of single precision's range.
LARGEST_IN_SINGLE = 1e15


class NumpyFeatures(Features):
    """X as a NumPy array, C- or Fortran-ordered, in double or single precision.

    Parameters
    ----------
    x : ndarray of shape (n, d)
        The features, contiguous in either order.
    exact : bool
        See `Features`.
    """

    # One BLAS thread. In single precision a Gram matrix takes 43 ms and a product 0.9 on 4,000 x 1,000, 24 ms and 2.8 on
    # 20,000 x 300: the prices are on the high side, which favours products.
    cholesky_price = 12.0
    coordinates_price = 10.0

    def __init__(self, x: np.ndarray, exact: bool = True):
        self.x = x
        self.shape = x.shape
        self.single = x.dtype == np.float32
        self._set_precision(exact)

    def _set_precision(self, exact: bool) -> None:
        # No number is larger than the root of the sum of all squares.
        self.exact = exact or self.mean_square * self.x.size > LARGEST_IN_SINGLE**2
        if self.exact:
            self.quick = self.x
        elif self.shape[1] <= FEW_COLUMNS:
            self.quick = self.x.astype(np.float32, order="F", copy=False)
        else:
            self.quick = self.x.astype(np.float32, copy=False)

    @cached_property
    def mean_square(self) -> float:  # type: ignore[override]
        flat = self.x.ravel(order="K")
        total = float(np.vdot(flat, flat))
        if self.single and not total < 1e30:  # single precision may have overflowed
            total = sum(float(np.sum(np.square(b, dtype=np.float64))) for b in self._blocks(BLOCK_ROWS))
        return total / flat.size

    def _blocks(self, rows: int):
        return (self.x[i : i + rows] for i in range(0, self.shape[0], rows))

    def be_exact(self) -> None:
        self.exact, self.quick = True, self.x

    def with_single_precision(self) -> NumpyFeatures:
        other = copy(self)  # with what is known about X
        other._set_precision(exact=False)
        return other

    def times(self, v: np.ndarray, rough: bool = False) -> np.ndarray:
        if rough and not self.exact:
            return (self.quick @ v.astype(np.float32)).astype(np.float64)
        if not self.single:
            return self.x @ v
        return np.concatenate([b.astype(np.float64) @ v for b in self._blocks(BLOCK_ROWS)])

    def transposed_times(self, r: np.ndarray, rough: bool = False) -> np.ndarray:
        if rough and not self.exact:
            return (self.quick.T @ r.astype(np.float32)).astype(np.float64)
        if not self.single:
            return self.x.T @ r
        total = np.zeros(self.shape[1])
        for i, b in enumerate(self._blocks(BLOCK_ROWS)):
            total += b.astype(np.float64).T @ r[i * BLOCK_ROWS : (i + 1) * BLOCK_ROWS]
        return total

    def both_products(
        self, v: np.ndarray, shift: float, pulls: Pulls, rough: bool = False
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        rough = rough and not self.exact
        x = self.quick if rough else self.x
        dtype = x.dtype
        if self.single and not rough:
            return super().both_products(v, shift, pulls)
        v = v.astype(dtype, copy=False)
        if not _larger_than_cache(x):
            z = (x @ v).astype(np.float64, copy=False)
            z += shift
            r = pulls(z, slice(None))
            return z, r, (x.T @ r.astype(dtype, copy=False)).astype(np.float64, copy=False)
        z, r, total = np.empty(len(x)), np.empty(len(x)), np.zeros(len(v))
        for rows in _row_slices(x):
            block = x[rows]
            z[rows] = block @ v
            z[rows] += shift
            r[rows] = pulls(z[rows], rows)
            total += r[rows].astype(dtype, copy=False) @ block
        return z, r, total

    def normal_product(self, v: np.ndarray, shift: float, curvature: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if self.exact and self.single:
            dz = self.times(v) + shift
            return self.transposed_times(curvature * dz), dz
        x, dtype = self.quick, self.quick.dtype
        v, curvature = v.astype(dtype, copy=False), curvature.astype(dtype, copy=False)
        if not _larger_than_cache(x):
            dz = x @ v
            dz += dtype.type(shift)
            return x.T @ (curvature * dz), dz
        dz, total = np.empty(len(x), dtype), np.zeros(len(v))
        for rows in _row_slices(x):
            block = x[rows]
            part = block @ v
            part += dtype.type(shift)
            dz[rows] = part
            part *= curvature[rows]
            total += part @ block
        return total, dz

    def hessian_factor(
        self, curvature: np.ndarray, ridge: float, fit_bias: bool, jitter: float = 0.0, least_pivot: float = 0.0
    ) -> Solve:
        d = self.shape[1]
        dtype = np.float64 if self.exact else np.float32
        h = np.zeros((d + 1, d + 1), dtype)
        h[:d, :d] = self._weighted_gram(curvature, dtype)
        if fit_bias:
            h[:d, d] = self.transposed_times(curvature) if self.exact else self.quick.T @ curvature.astype(dtype)
            # The bias has no ridge of its own, and X may span the constant: keep the factor defined.
            h[d, d] = curvature.sum() * (1.0 + np.finfo(dtype).eps)
        else:
            h[d, d] = 1.0
        diagonal = h.reshape(-1)[: d * (d + 2) : d + 2]
        diagonal += ridge + jitter * (diagonal.mean() + ridge or 1.0)
        factor = _cholesky(h, least_pivot)

        def solve(r: np.ndarray) -> np.ndarray:
            return scipy.linalg.cho_solve((factor, True), r.astype(dtype), check_finite=False).astype(np.float64)

        return solve

    def _weighted_gram(self, curvature: np.ndarray, dtype: type) -> np.ndarray:
        """X^T diag(curvature) X, symmetric."""
        x = self.quick
        n, d = x.shape
        if x.dtype == dtype and curvature.min() == curvature.max():
            return (x.T @ x) * dtype(curvature[0])
        root = np.sqrt(curvature).astype(dtype)
        counted = np.flatnonzero(curvature)
        chosen = d >= WORTH_CHOOSING_FROM and len(counted) < WORTH_CHOOSING * n
        rows = max(GRAM_BLOCK // d, 2 * d)
        buffer: np.ndarray = np.empty((min(rows, n), d), dtype, order="C" if x.flags.c_contiguous else "F")
        total: np.ndarray = np.zeros((d, d), dtype)
        for i in range(0, len(counted) if chosen else n, rows):
            part = counted[i : i + rows] if chosen else slice(i, i + rows)
            block = x[part]
            scaled = buffer[: len(block)]
            np.multiply(block, root[part, None], out=scaled, casting="same_kind")
            total += scaled.T @ scaled
        return total

    def gram_factor(self, root: np.ndarray, ridge: float) -> Solve:
        x = self.x.astype(np.float64, copy=False)
        gram = x @ x.T
        gram *= root[:, None]
        gram *= root
        gram.reshape(-1)[:: len(gram) + 1] += ridge
        factor = _cholesky(gram, LEAST_PIVOT)
        return lambda r: scipy.linalg.cho_solve((factor, True), r, check_finite=False)

    def coordinates(self) -> Coordinates:
        """C is the Cholesky factor of X X^T where that is well conditioned, else it comes from a QR factorisation of X^T.

        The second takes three times the work.
        """
        x = self.x.astype(np.float64, copy=False)
        try:
            c = _cholesky(x @ x.T, LEAST_PIVOT)
        except NotPositiveError:
            e, upper = scipy.linalg.qr(x.T, mode="economic", check_finite=False)
            c = np.ascontiguousarray(upper.T)
            return Coordinates(NumpyFeatures(c, exact=False), lambda w: e.T @ w, lambda v: e @ v)

        def forward(w: np.ndarray) -> np.ndarray:
            return scipy.linalg.solve_triangular(c, x @ w, lower=True, check_finite=False)

        def back(v: np.ndarray) -> np.ndarray:
            return x.T @ scipy.linalg.solve_triangular(c, v, lower=True, trans="T", check_finite=False)

        return Coordinates(NumpyFeatures(np.ascontiguousarray(np.tril(c)), exact=False), forward, back)

    def sample_rows(self, count: int) -> np.ndarray:
        return self.x[:: max(1, self.shape[0] // count)].astype(np.float64)

    def centred(self, centre: np.ndarray) -> NumpyFeatures:
        x = self.x - centre
        x[:, np.abs(x).max(axis=0) <= CONSTANT * np.abs(centre)] = 0.0
        return NumpyFeatures(x)

    def on_host(self) -> np.ndarray:
        return self.x.astype(np.float64, copy=False)


def _larger_than_cache(x: np.ndarray) -> bool:
    return x.nbytes > LARGER_THAN_CACHE and x.flags.c_contiguous


def _row_slices(x: np.ndarray) -> Iterator[slice]:
    rows = max(1, BLOCK_BYTES // (x.itemsize * x.shape[1]))
    return (slice(i, i + rows) for i in range(0, len(x), rows))


def _cholesky(matrix: np.ndarray, least_pivot: float = 0.0) -> np.ndarray:
    """The lower Cholesky factor of a symmetric matrix, which is overwritten; what lies above the diagonal is undefined."""
    try:
        # LAPACK counts by columns: it overwrites the transpose of a C-ordered matrix in place.
        factor, _ = scipy.linalg.cho_factor(matrix.T, lower=True, overwrite_a=True, check_finite=False)
    except scipy.linalg.LinAlgError as error:
        raise NotPositiveError(str(error)) from None
    pivots = factor.diagonal()
    if not pivots.min() > least_pivot * pivots.max():
        raise NotPositiveError("the matrix is singular to working precision")
    return factor

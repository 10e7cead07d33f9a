"""Features on a JAX device, for the same Newton method that serves features in NumPy's memory.

The matrix stays on the device and everything of size n d or d^2 happens there; vectors of n or d numbers come back to
NumPy, where the method's decisions are taken. A pass over the matrix takes far longer than that once it is worth a
device at all.
"""

from __future__ import annotations

from functools import cached_property, lru_cache
from types import SimpleNamespace
from typing import Any

import numpy as np

from .._core.devices import working_on
from .features import CONSTANT, LEAST_PIVOT, Coordinates, Features, NotPositiveError, Solve


class JaxFeatures(Features):
    """X as a JAX array; all products are sums in the precision of the factors' wider type.

    Parameters
    ----------
    x : jax.Array of shape (n, d)
        The features, in double or single precision.
    exact : bool
        See `Features`.
    """

    # Matrix products gain more from a device than passes over the matrix do (from an H200's rates, not tuned).
    cholesky_price = 50.0
    coordinates_price = 40.0

    def __init__(self, x: Any, exact: bool = True):
        (self.device,) = x.devices()
        self.kernels = _kernels()
        self.x, self.shape, self.exact = x, x.shape, exact
        with working_on(self.device):
            self.quick = x if exact else x.astype(np.float32)

    def _call(self, kernel: str, *arguments: Any) -> np.ndarray:
        with working_on(self.device):
            return np.asarray(getattr(self.kernels, kernel)(*arguments))

    @cached_property
    def mean_square(self) -> float:  # type: ignore[override]
        return float(self._call("mean_square", self.x))

    def be_exact(self) -> None:
        self.exact, self.quick = True, self.x

    def with_single_precision(self) -> JaxFeatures:
        return JaxFeatures(self.x, exact=False)

    def times(self, v: np.ndarray, rough: bool = False) -> np.ndarray:
        return self._product("times", v, rough)

    def transposed_times(self, r: np.ndarray, rough: bool = False) -> np.ndarray:
        return self._product("transposed_times", r, rough)

    def _product(self, kernel: str, v: np.ndarray, rough: bool) -> np.ndarray:
        if rough and not self.exact:
            return self._call(kernel, self.quick, v.astype(np.float32)).astype(np.float64)
        return self._call(kernel, self.x, v)

    def normal_product(self, v: np.ndarray, shift: float, curvature: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        dtype = np.float64 if self.exact else np.float32
        with working_on(self.device):
            total, dz = self.kernels.normal_product(self.quick, v.astype(dtype), dtype(shift), curvature.astype(dtype))
            return np.asarray(total), np.asarray(dz)

    def hessian_factor(
        self, curvature: np.ndarray, ridge: float, fit_bias: bool, jitter: float = 0.0, least_pivot: float = 0.0
    ) -> Solve:
        dtype = np.float64 if self.exact else np.float32
        with working_on(self.device):
            x = self.quick.astype(dtype)
            found = self.kernels.factor(x, curvature.astype(dtype), dtype(ridge), dtype(jitter), fit_bias)
        self._check_pivots(found, least_pivot)
        return lambda r: self._call("solve", found, r.astype(dtype)).astype(np.float64)

    def gram_factor(self, root: np.ndarray, ridge: float) -> Solve:
        with working_on(self.device):
            found = self.kernels.gram_factor(self.x.astype(np.float64), root, ridge)
        self._check_pivots(found, LEAST_PIVOT)
        return lambda r: self._call("solve", found, r)

    def _check_pivots(self, factor: Any, least_pivot: float) -> None:
        pivots = self._call("diagonal", factor)  # JAX marks a failed factorisation by NaN
        if not pivots.min() > least_pivot * pivots.max():
            raise NotPositiveError("the matrix is singular to working precision")

    def coordinates(self) -> Coordinates:
        """C is the Cholesky factor of X X^T where that is well conditioned, else it comes from a QR factorisation of X^T."""
        with working_on(self.device):
            x = self.x.astype(np.float64)
            c = self.kernels.gram_factor(x, np.ones(self.shape[0]), 0.0)
        try:
            self._check_pivots(c, LEAST_PIVOT)
        except NotPositiveError:
            with working_on(self.device):
                e, c = self.kernels.orthonormal(x)
                small = JaxFeatures(c, exact=False)
            return Coordinates(
                small, lambda w: self._call("transposed_times", e, w), lambda v: self._call("times", e, v)
            )
        return Coordinates(
            JaxFeatures(c, exact=False),
            lambda w: self._call("forward", c, x, w),
            lambda v: self._call("back", c, x, v),
        )

    def sample_rows(self, count: int) -> np.ndarray:
        with working_on(self.device):
            return np.asarray(self.x[:: max(1, self.shape[0] // count)], dtype=np.float64)

    def centred(self, centre: np.ndarray) -> JaxFeatures:
        with working_on(self.device):
            return JaxFeatures(self.kernels.centred(self.x, centre))

    def on_host(self) -> np.ndarray:
        return np.asarray(self.x, dtype=np.float64)


@lru_cache(maxsize=1)
def _kernels() -> SimpleNamespace:
    """The compiled pieces (JAX is imported here, not before)."""
    import jax
    import jax.numpy as jnp
    from jax.scipy.linalg import cho_solve, solve_triangular

    def hessian_factor(x, curvature, ridge, jitter, fit_bias):
        d, root = x.shape[1], jnp.sqrt(curvature)
        b = jnp.append(x * root[:, None], (root if fit_bias else 0.0 * root)[:, None], axis=1)
        h = b.T @ b
        mean = jnp.trace(h[:d, :d]) / d + ridge
        mean = jnp.where(mean > 0.0, mean, 1.0)
        last = jnp.finfo(x.dtype).eps * h[-1, -1] if fit_bias else jnp.ones((), x.dtype)
        diagonal = jnp.append(jnp.full(d, ridge + jitter * mean, x.dtype), last)
        return jnp.linalg.cholesky(h + jnp.diag(diagonal))

    def gram_factor(x, root, ridge):
        return jnp.linalg.cholesky((x @ x.T) * root[:, None] * root + ridge * jnp.eye(len(x)))

    def centred(x, centre):
        x = x - centre
        return jnp.where(jnp.abs(x).max(axis=0) <= CONSTANT * jnp.abs(centre), 0.0, x)

    def normal_product(x, v, shift, curvature):
        dz = x @ v + shift
        return (curvature * dz) @ x, dz

    def orthonormal(x):
        e, upper = jnp.linalg.qr(x.T)
        return e, upper.T

    return SimpleNamespace(
        mean_square=jax.jit(lambda x: jnp.mean(jnp.square(x.astype(jnp.float64)))),
        diagonal=jax.jit(jnp.diagonal),
        times=jax.jit(lambda x, v: x @ v),
        transposed_times=jax.jit(lambda x, r: r @ x),
        centred=jax.jit(centred),
        normal_product=jax.jit(normal_product),
        factor=jax.jit(hessian_factor, static_argnums=4),
        solve=jax.jit(lambda factor, r: cho_solve((factor, True), r)),
        gram_factor=jax.jit(gram_factor),
        orthonormal=jax.jit(orthonormal),
        forward=jax.jit(lambda c, x, w: solve_triangular(c, x @ w, lower=True)),
        back=jax.jit(lambda c, x, v: solve_triangular(c, v, lower=True, trans="T") @ x),
    )

"""Features on a JAX device, for the same Newton method that serves features in NumPy's memory.

The matrix stays on the device and everything of size n d or d^2 happens there; vectors of n or d numbers come back to NumPy,
where the method's decisions are taken. A pass over the matrix takes longer than that by far once it is worth a device at all.
"""

from __future__ import annotations

from functools import lru_cache
from types import SimpleNamespace
from typing import Any

import numpy as np

from .._core.devices import working_on
from .newton_system import BLOCK_ROWS, Features


class PlacedFeatures(Features):
    """`Features` on a device; all products are sums in the precision of the factors' wider type."""

    # Matrix products gain more from a device than passes over the matrix do (from an H200's rates, not tuned).
    cholesky_price = 50.0
    reduction_price = 40.0

    def __init__(self, x: Any, exact: bool = False):
        (self.device,) = x.devices()
        self.kernels = _kernels()
        self.x, self.shape, self.exact = x, x.shape, exact
        with working_on(self.device):
            self.quick = x if exact else x.astype(np.float32)

    def _call(self, kernel: str, *arguments: Any) -> np.ndarray:
        with working_on(self.device):
            return np.asarray(getattr(self.kernels, kernel)(*arguments))

    def times(self, v: np.ndarray) -> np.ndarray:
        return self._call("times", self.x, v)

    def transposed_times(self, r: np.ndarray) -> np.ndarray:
        return self._call("transposed_times", self.x, r)

    def quick_times(self, v: np.ndarray) -> np.ndarray:
        return self.times(v) if self.exact else self._call("times", self.quick, v.astype(np.float32))

    def quick_transposed_times(self, r: np.ndarray) -> np.ndarray:
        return (
            self.transposed_times(r) if self.exact else self._call("transposed_times", self.quick, r.astype(np.float32))
        )

    def mean_square(self) -> float:
        return float(self._call("mean_square", self.x[:BLOCK_ROWS]))

    def largest(self) -> float:
        with working_on(self.device):
            return float(max(self.x.max(), -self.x.min()))

    def moved(self, centre: np.ndarray) -> PlacedFeatures:
        with working_on(self.device):
            return PlacedFeatures(self.x - centre, exact=True)

    def factor(self, root: np.ndarray, ridge: float, fit_bias: bool) -> Any:
        dtype = np.float64 if self.exact else np.float32
        with working_on(self.device):
            found = self.kernels.factor(self.quick.astype(dtype), root.astype(dtype), dtype(ridge), fit_bias)
            if not np.isfinite(np.asarray(found.diagonal())).all():
                raise np.linalg.LinAlgError("the Hessian is not positive in this precision")

        def solve(r: np.ndarray) -> np.ndarray:
            return self._call("solve", found, r.astype(dtype))

        return solve

    def orthogonal(self) -> tuple[PlacedFeatures, Any, Any]:
        with working_on(self.device):
            x = self.x.astype(np.float64)
            c, e = self.kernels.gram_factor(x), None
            diagonal = np.asarray(c.diagonal())
            if not (np.isfinite(diagonal).all() and diagonal.min() > 1e-5 * diagonal.max()):
                e, c = self.kernels.orthonormal(x)
        if e is not None:
            return (
                PlacedFeatures(c),
                lambda w: self._call("transposed_times", e, w),
                lambda v: self._call("times", e, v),
            )
        return PlacedFeatures(c), lambda w: self._call("forward", c, x, w), lambda v: self._call("back", c, x, v)


@lru_cache(maxsize=1)
def _kernels() -> SimpleNamespace:
    """The compiled pieces (JAX is imported here, not before)."""
    import jax
    import jax.numpy as jnp
    from jax.scipy.linalg import cho_solve, solve_triangular

    def hessian_factor(x, root, ridge, fit_bias):
        b = jnp.append(x * root[:, None], (root if fit_bias else 0.0 * root)[:, None], axis=1)
        h = b.T @ b
        last = jnp.finfo(x.dtype).eps * h[-1, -1] if fit_bias else jnp.ones((), x.dtype)
        diagonal = jnp.append(jnp.full(x.shape[1], ridge, x.dtype), last)
        return jnp.linalg.cholesky(h + jnp.diag(diagonal))

    def orthonormal(x):
        e, upper = jnp.linalg.qr(x.T)
        return e, upper.T

    return SimpleNamespace(
        mean_square=jax.jit(lambda x: jnp.mean(jnp.square(x.astype(jnp.float64)))),
        times=jax.jit(lambda x, v: x @ v),
        transposed_times=jax.jit(lambda x, r: r @ x),
        factor=jax.jit(hessian_factor, static_argnums=3),
        solve=jax.jit(lambda factor, r: cho_solve((factor, True), r)),
        gram_factor=jax.jit(lambda x: jnp.linalg.cholesky(x @ x.T)),
        orthonormal=jax.jit(orthonormal),
        forward=jax.jit(lambda c, x, w: solve_triangular(c, x @ w, lower=True)),
        back=jax.jit(lambda c, x, v: solve_triangular(c, v, lower=True, trans="T") @ x),
    )

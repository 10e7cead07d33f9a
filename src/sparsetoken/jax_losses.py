"""Losses inside compiled JAX code: directly where JAX can trace them, else through a callback to NumPy."""

from __future__ import annotations

from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np

from .losses import Loss


class HostLoss(Loss):
    """A loss written in NumPy, made callable from compiled JAX code."""

    def __init__(self, inner: Loss):
        self.inner, self.name = inner, inner.name

    def __hash__(self):
        return hash(("host", self.inner))

    def __eq__(self, other):
        return isinstance(other, HostLoss) and other.inner == self.inner

    def _call(self, method: str, *arrays):
        inputs = jnp.broadcast_arrays(*[jnp.asarray(a, dtype=float) for a in arrays])
        function = getattr(self.inner, method)

        def host(*words):
            doubles = (np.ascontiguousarray(w).view(np.float64)[..., 0] for w in words)
            out = np.ascontiguousarray(function(*doubles), dtype=np.float64)
            return out.view(np.uint32).reshape(*out.shape, 2)

        # The callback runs in a thread where double precision is not switched on, and JAX would round its numbers to single;
        # as pairs of 32-bit words they pass unharmed.
        words = [jax.lax.bitcast_convert_type(a, jnp.uint32) for a in inputs]
        shape = jax.ShapeDtypeStruct((*inputs[0].shape, 2), jnp.uint32)
        out = jax.pure_callback(host, shape, *words, vmap_method="broadcast_all")
        return jax.lax.bitcast_convert_type(out, jnp.float64)

    def value(self, z, y):
        return self._call("value", z, y)

    def slope(self, z, y):
        return self._call("slope", z, y)

    def curvature(self, z, y):
        return self._call("curvature", z, y)

    def prox(self, h, step, y):
        return self._call("prox", h, step, y)


@lru_cache(maxsize=64)  # tracing a loss takes longer than a warm solve
def traceable(loss: Loss) -> Loss:
    """The loss itself if JAX can trace it, else the loss behind a callback to NumPy."""
    probe = jax.ShapeDtypeStruct((2,), np.float32)
    try:
        for method in ("value", "slope", "curvature"):
            jax.eval_shape(getattr(loss, method), probe, probe)
        jax.eval_shape(loss.prox, probe, probe, probe)
    except (jax.errors.JAXTypeError, TypeError):
        return HostLoss(loss)
    return loss

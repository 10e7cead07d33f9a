"""Reduced features drawn on a JAX device: exact in law (see `sampling.reduced`), from JAX's generator, in float64.

A seed gives other numbers than NumPy's path does, of the same distribution.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..._core.devices import working_on


@partial(jax.jit, static_argnums=(1, 2))
def _scaled_bulk(key, n: int, d: int, scale):
    return jax.random.normal(key, (n, d), dtype=jnp.float64) * scale[:, None]


def place_features(leading: np.ndarray, scale: np.ndarray, d: int, seed: int, device: Any) -> jax.Array:
    """Features (n, d) on the device: the given leading columns, then kappa_i times standard normals."""
    n, special = leading.shape
    with working_on(device):
        bulk = _scaled_bulk(jax.random.key(seed), n, d, jnp.asarray(scale))
        return bulk.at[:, :special].set(jnp.asarray(leading))

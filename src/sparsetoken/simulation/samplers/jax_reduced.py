"""Reduced features drawn on a JAX device: exact in law (see `samplers.reduced`), from JAX's generator, in float64.

A seed gives other numbers than NumPy's path does, of the same distribution.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..._core.devices import working_on

# Bits of a seed that JAX takes at a time.
_SEED_BITS = 63


@partial(jax.jit, static_argnums=(1, 2))
def _scaled_bulk(key, n: int, d: int, scale):
    return jax.random.normal(key, (n, d), dtype=jnp.float64) * scale[:, None]


def key_of(seed: int) -> jax.Array:
    """JAX's key for a seed of any size: the first 63 bits make the key, and what is left is folded in, 32 bits at a time."""
    key = jax.random.key(seed & (2**_SEED_BITS - 1))
    rest = seed >> _SEED_BITS
    while rest:
        key = jax.random.fold_in(key, rest & 0xFFFFFFFF)
        rest >>= 32
    return key


def place_features(leading: np.ndarray, scale: np.ndarray, d: int, seed: int, device: Any) -> jax.Array:
    """Features (n, d) on a device: the given leading columns, then kappa_i times standard normals.

    Parameters
    ----------
    leading : ndarray (n, m)
        The special coordinates.
    scale : ndarray (n,)
        kappa of each bag.
    d : int
        Number of coordinates, the leading ones included.
    seed : int
        Of the trial.
    device : jax.Device
        Where the features are to live.

    Returns
    -------
    jax.Array (n, d)
    """
    n, special = leading.shape
    with working_on(device):
        bulk = _scaled_bulk(key_of(seed), n, d, jnp.asarray(scale))
        return bulk.at[:, :special].set(jnp.asarray(leading))

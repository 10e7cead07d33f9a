"""NumPy or JAX, whichever the arguments call for, and elementary functions that serve both."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np


def is_jax_array(array: Any) -> bool:
    """Whether the array is one of JAX's (JAX is not imported to find out)."""
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(array, jax.Array)


def namespace(*arrays: Any):
    """jax.numpy when any argument is a JAX array, else numpy (JAX is not imported for NumPy callers)."""
    jax = sys.modules.get("jax")
    # NumPy's own arrays are told first: asking whether something is an array of JAX's takes longer than small sums do.
    if jax is not None and any(type(a) is not np.ndarray and isinstance(a, jax.Array) for a in arrays):
        return jax.numpy
    return np


def softplus(x):
    """log(1 + exp(x)) without overflow (`logaddexp` also differentiates rightly at 0 under JAX, but NumPy's is slow)."""
    xp = namespace(x)
    return np.maximum(x, 0.0) + np.log1p(np.exp(-np.abs(x))) if xp is np else xp.logaddexp(x, 0.0)


def sigmoid(x):
    """1/(1 + exp(-x)) without overflow."""
    xp = namespace(x)
    e = xp.exp(-xp.abs(x))
    return xp.where(x >= 0, 1.0, e) / (1.0 + e)

"""Double precision for JAX inside our own calls only: nothing global changes on import or afterwards."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import jax
import jax.experimental

P = ParamSpec("P")
R = TypeVar("R")


def double_precision():
    """Context in which JAX computes in float64."""
    if hasattr(jax, "enable_x64"):
        return jax.enable_x64(True)
    return jax.experimental.enable_x64()  # type: ignore[attr-defined]  # JAX before 0.8


def in_double_precision(function: Callable[P, R]) -> Callable[P, R]:
    """Decorator: run `function` in float64, whatever JAX's global setting is."""

    @functools.wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        with double_precision():
            return function(*args, **kwargs)

    return wrapped

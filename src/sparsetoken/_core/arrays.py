"""NumPy or JAX, whichever the arguments call for: elementary functions and loops that serve both, and a cache of arrays."""

from __future__ import annotations

import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

import numpy as np

State = TypeVar("State")
ROUNDING = 1e-12  # relative size of rounding errors


def is_jax_array(array: Any) -> bool:
    """Whether the array is one of JAX's (JAX is not imported to find out)."""
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(array, jax.Array)


def namespace(*arrays: Any):
    """jax.numpy when any argument is a JAX array, else numpy (JAX is not imported for NumPy callers)."""
    jax = sys.modules.get("jax")
    # NumPy's arrays are recognised first: the test for a JAX array takes longer than small sums do.
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


def repeat_while(unfinished: Callable[[State], object], body: Callable[[State], State], state: State, xp) -> State:
    """`state = body(state)` while `unfinished(state)`; xp is numpy or jax.numpy."""
    if xp is np:
        while unfinished(state):
            state = body(state)
        return state
    import jax

    return jax.lax.while_loop(unfinished, body, state)


def repeat(count: int, body: Callable[[State], State], state: State, xp) -> State:
    """`state = body(state)`, `count` times; xp is numpy or jax.numpy."""
    if xp is np:
        for _ in range(count):
            state = body(state)
        return state
    import jax

    return jax.lax.fori_loop(0, count, lambda _, current: body(current), state)


class ByteCache:
    """Values by key; the least recently used ones go when the total exceeds `limit` bytes. Safe under threads, which may make
    one value twice."""

    def __init__(self, limit: int, size_of: Callable[[Any], int]):
        self.limit, self._size_of = limit, size_of
        self._kept: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """The value under `key`, made by `make()` where there is none."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key][0]
        value = make()
        size = self._size_of(value)
        if size <= self.limit:
            with self._lock:
                self._kept[key] = (value, size)
                self._kept.move_to_end(key)
                while self._bytes() > self.limit:
                    self._kept.popitem(last=False)
        return value

    @property
    def bytes(self) -> int:
        """Bytes kept now."""
        with self._lock:
            return self._bytes()

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._kept.clear()

    def _bytes(self) -> int:
        return sum(size for _, size in self._kept.values())

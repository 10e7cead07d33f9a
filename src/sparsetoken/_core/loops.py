"""Loops that run in Python on NumPy numbers, and as one compiled loop on JAX ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np

State = TypeVar("State")


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

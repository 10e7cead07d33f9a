"""Checks of single values: the value in its proper type, or one sentence that names the field and what is allowed."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any


def rejection(name: str, value: Any, allowed: str) -> ValueError:
    return ValueError(f"{name} must be {allowed}, got {value!r}")


def whole_number(name: str, value: Any, minimum: int) -> int:
    """`value` as an int, or a ValueError naming the field."""
    allowed = f"a whole number >= {minimum}"
    if isinstance(value, bool) or not isinstance(value, Real):
        raise rejection(name, value, allowed)
    if not isinstance(value, Integral) and not float(value).is_integer():
        raise rejection(name, value, allowed)
    number = int(float(value)) if not isinstance(value, Integral) else int(value)
    if number < minimum:
        raise rejection(name, value, allowed)
    return number


def real_number(name: str, value: Any, low: float, high: float = math.inf, *, open_low=False, open_high=False) -> float:
    """`value` as a finite float inside the interval, or a ValueError naming the field."""
    left, right = "(" if open_low else "[", ")" if open_high or math.isinf(high) else "]"
    allowed = f"a number in {left}{low:g}, {high:g}{right}"
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(float(value)):
        raise rejection(name, value, allowed)
    x = float(value)
    if x < low or x > high or (open_low and x == low) or (open_high and x == high):
        raise rejection(name, value, allowed)
    return x

"""Checks of single values: the value in its proper type, or one sentence that names the field and what is allowed.

Also where a warning should point: at the user's own line.
"""

from __future__ import annotations

import math
import sys
from numbers import Integral, Real
from typing import Any

import numpy as np

LARGEST_RATIO = 1e12  # of n/d and ridge (and 1 over it of n/d): limits are reached, rounding does not matter yet
LONGEST_SHOWN = 60  # characters of a rejected value in a message, which is to stay one readable line


def shown(value: Any) -> str:
    """The value as a message shows it: its `repr`, cut short where it is long."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # Python does not print integers of more than 4300 digits
        return f"a value of type {type(value).__name__} too long to print"
    return text if len(text) <= LONGEST_SHOWN else f"{text[: LONGEST_SHOWN - 3]}..."


def rejection(name: str, value: Any, allowed: str) -> ValueError:
    """The error for a value that is not allowed: one sentence with the field, what it may be, and what was given."""
    return ValueError(f"{name} must be {allowed}, got {shown(value)}")


def as_float(value: Any) -> float | None:
    """A real number as a finite float; None for anything else, booleans and numbers beyond the floats included."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return None
    try:
        x = float(value)
    except OverflowError:
        return None
    return x if math.isfinite(x) else None


def whole_number(name: str, value: Any, minimum: int, maximum: int | None = None) -> int:
    """`value` as an int, or a ValueError naming the field."""
    allowed = f"a whole number >= {minimum}" if maximum is None else f"a whole number from {minimum} to {maximum:,}"
    if isinstance(value, Integral) and not isinstance(value, bool):
        number = int(value)
    else:
        x = as_float(value)
        if x is None or not x.is_integer():
            raise rejection(name, value, allowed)
        number = int(x)
        value = number if abs(number) < 10**15 else value  # shown without the ".0" that nobody wrote
    if number < minimum or number > (10**300 if maximum is None else maximum):  # larger numbers are no floats
        raise rejection(name, value, allowed)
    return number


def real_number(name: str, value: Any, low: float, high: float = math.inf, *, open_low=False, open_high=False) -> float:
    """`value` as a finite float inside an interval, or a ValueError naming the field."""
    left, right = "(" if open_low else "[", ")" if open_high or math.isinf(high) else "]"
    x = as_float(value)
    if x is None or x < low or x > high or (open_low and x == low) or (open_high and x == high):
        raise rejection(name, value, f"a number in {left}{low:g}, {high:g}{right}")
    return x


def check_real(name: str, values: Any) -> None:
    """Refuse complex numbers in one sentence (scikit-learn's would list all of them)."""
    if values is not None and np.iscomplexobj(np.asarray(values)):  # as an array: not every array-like has a dtype
        raise ValueError(f"Complex data not supported: {name} must hold real numbers")


def true_or_false(name: str, value: Any) -> bool:
    """`value` as a bool, or a ValueError naming the field (a text such as "no" would otherwise count as true)."""
    if not isinstance(value, bool | np.bool_):
        raise rejection(name, value, "True or False")
    return bool(value)


def caller_level() -> int:
    """The `stacklevel` for `warnings.warn`, called where this function is called, that names the first outside line."""
    between = ("sparsetoken", "sklearn", "joblib")  # whose frames lie between the user and the warning
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] in between:
        level, frame = level + 1, frame.f_back
    return level

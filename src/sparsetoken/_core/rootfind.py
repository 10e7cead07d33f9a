"""Searches along one parameter: where a falling function passes zero, the last whole number that will do, the first valley.

All of them call a function that is expensive (a forecast, a fit) and never evaluate a point twice. The first two bracket from a
first guess on a logarithmic scale, and say when there is nothing to find within the range instead of raising.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, NamedTuple

from scipy.optimize import brentq

FOUND: Literal["found"] = "found"
ALWAYS: Literal["always"] = "always"
BEYOND: Literal["beyond"] = "beyond"
Status = Literal["found", "always", "beyond"]

_GROWTH = 1.5  # every further step of the bracket is longer by this power: a guess off by 10^4 costs eight evaluations


class Root(NamedTuple):
    """Where a search ended."""

    status: Status
    x: float


def falling_root(
    gap: Callable[[float], float], first: float, low: float, high: float, *, precision: float = 0.01
) -> Root:
    """Where a function that falls with x passes zero, by bracketing from `first` and Brent's method on log x.

    The function may jump: the place of the jump is then the answer.
    """
    known: dict[float, float] = {}

    def value(u: float) -> float:
        if u not in known:
            known[u] = float(gap(math.exp(u)))
            if math.isnan(known[u]):
                raise ArithmeticError(f"the function whose root is sought gives NaN at {math.exp(u):.6g}")
        return known[u]

    bottom, top = math.log(low), math.log(high)
    here = min(max(math.log(first), bottom), top)
    step = math.log(2.0)
    positive = value(here) > 0
    while True:
        if positive and here >= top:
            return Root(BEYOND, high)
        if not positive and here <= bottom:
            return Root(ALWAYS, low)
        further = min(here + step, top) if positive else max(here - step, bottom)
        if (value(further) > 0) != positive:
            break
        here, step = further, step * _GROWTH
    root = brentq(value, min(here, further), max(here, further), xtol=precision)
    return Root(FOUND, math.exp(root))


def last_that_holds(
    holds: Callable[[int], bool], first: int, low: int, high: int, *, precision: float = 0.02
) -> tuple[Status | Literal["never"], int]:
    """The largest whole number for which a condition holds; it holds up to some number and not beyond."""
    first = min(max(first, low), high)
    good, bad = (first, None) if holds(first) else (None, first)
    while bad is None:
        assert good is not None
        if good == high:
            return BEYOND, high
        further = min(2 * good, high)
        good, bad = (further, None) if holds(further) else (good, further)
    while good is None:
        if bad == low:
            return "never", low
        nearer = max(bad // 2, low)
        good, bad = (nearer, bad) if holds(nearer) else (None, nearer)
    while bad - good > max(1, int(precision * good)):
        middle = min(max(round(math.sqrt(good * bad)), good + 1), bad - 1)
        good, bad = (middle, bad) if holds(middle) else (good, middle)
    return FOUND, good

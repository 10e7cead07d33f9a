"""Roots and minima: searches along one parameter; elementwise, on NumPy or JAX arrays, proximal points, roots of rising
functions and Wright's omega function.

A search for a root calls its function (a forecast, a fit) at no point twice, brackets from a first guess on a logarithmic
scale, and reports a root outside the range by a status instead of raising.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np

from .arrays import namespace, repeat, repeat_while, sigmoid

FOUND: Literal["found"] = "found"
ALWAYS: Literal["always"] = "always"
BEYOND: Literal["beyond"] = "beyond"
Status = Literal["found", "always", "beyond"]

# The bracket of log(1 + |r - h|) is halved at least once in three steps, so that 200 steps are 66 halvings: enough for all of a
# double's 53 bits even where the loss is as steep as exp(300), and the bracket as wide.
NEWTON_STEPS = 200


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
    from scipy.optimize import brentq  # takes longer to import than all losses

    evaluated: dict[float, float] = {}

    def value(u: float) -> float:
        if u not in evaluated:
            evaluated[u] = float(gap(math.exp(u)))
            if math.isnan(evaluated[u]):
                raise ArithmeticError(f"the function whose root is sought gives NaN at {math.exp(u):.6g}")
        return evaluated[u]

    bottom, top = math.log(low), math.log(high)
    place = min(max(math.log(first), bottom), top)
    step = math.log(2.0)
    positive = value(place) > 0
    while True:
        if positive and place >= top:
            return Root(BEYOND, high)
        if not positive and place <= bottom:
            return Root(ALWAYS, low)
        further = min(place + step, top) if positive else max(place - step, bottom)
        if (value(further) > 0) != positive:
            break
        place, step = further, 1.5 * step  # a guess off by 10^4 costs eight evaluations
    root = brentq(value, min(place, further), max(place, further), xtol=precision)
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


def least_on_grid(function: Callable[[float], Any], grid: np.ndarray, precision: float = 1e-4) -> tuple[float, float]:
    """Where a function is least, and its value there: the best of rising places, refined between its neighbours.

    `precision` is that of the place, as a share of the distance between the neighbours: the function is flat at its minimum.
    """
    from scipy.optimize import minimize_scalar

    values = [float(function(float(x))) for x in grid]
    best = int(np.argmin(values))
    low, high = float(grid[max(best - 1, 0)]), float(grid[min(best + 1, len(grid) - 1)])
    options = {"xatol": precision * (high - low)}
    minimum = minimize_scalar(function, bounds=(low, high), method="bounded", options=options)
    return (float(minimum.x), float(minimum.fun)) if minimum.fun < values[best] else (float(grid[best]), values[best])


def proximal_point(slope: Callable[[Any], Any], curvature: Callable[[Any], Any], h: Any, step: Any) -> Any:
    """The r with r + step l'(r) = h, elementwise.

    By Newton's method kept inside a bracket that starts as h and h - step l'(h), since l' is increasing; a point outside, or
    one that shrinks it too slowly, is replaced by the middle (in log(1 + |r - h|): a steep loss makes wide brackets).
    """
    xp = namespace(h, step)

    def middle(low, high):
        side = xp.where(high > h, 1.0, -1.0)
        return h + side * (xp.sqrt((1.0 + xp.abs(low - h)) * (1.0 + xp.abs(high - h))) - 1.0)

    def settled(r, r_new, low, high):
        tolerance = 4 * np.finfo(r_new.dtype).eps * (1.0 + xp.abs(r_new))
        return (xp.abs(r_new - r) <= tolerance) | (high - low <= tolerance)

    def closer(state):
        i, r, low, high, width, _ = state
        g = r + step * slope(r) - h
        low, high = xp.where(g < 0, r, low), xp.where(g > 0, r, high)
        newton = r - g / (1.0 + step * curvature(r))
        between = middle(low, high)
        inside = (newton > low) & (newton < high)
        r_new = xp.where(g == 0, r, xp.where(inside, newton, between))
        check = i % 3 == 2
        # Where Newton's method converges slowly from one side of the bracket, the bracket is halved instead.
        slow = check & (high - low > 0.5 * width) & ~settled(r, r_new, low, high)
        r_new = xp.where(slow, between, r_new)
        width = xp.where(check, high - low, width)
        return i + 1, r_new, low, high, width, xp.all(settled(r, r_new, low, high))

    def unfinished(state):
        return (state[0] < NEWTON_STEPS) & ~state[5]

    other = h - step * slope(h)
    low, high = xp.minimum(h, other), xp.maximum(h, other)
    start = (0, middle(low, high), low, high, high - low, xp.asarray(False))
    return repeat_while(unfinished, closer, start, xp)[1]


def root_of_rising(f: Callable[[Any], Any], slope: Callable[[Any], Any], start: Any) -> Any:
    """The b with f(b) = 0, elementwise, f rising: Newton's method, inside the bracket of the signs seen so far.

    Under JAX the result has the derivatives of the implicit function: the search is constant, one step follows it.
    """
    xp = namespace(start)

    def moved(b: Any, g: Any) -> Any:
        steep = slope(b)
        return xp.clip(g / xp.where(steep > 0, steep, 1e-300), -1.0 - xp.abs(b), 1.0 + xp.abs(b))

    def closer(state):
        i, b, low, high, _ = state
        g = f(b)
        low, high = xp.where(g < 0, b, low), xp.where(g > 0, b, high)
        new = b - moved(b, g)
        inside = (new == b) | (new > low) & (new < high)
        new = xp.where(inside, new, 0.5 * (low + high))
        return i + 1, new, low, high, xp.all(xp.abs(new - b) <= 4 * np.finfo(float).eps * (1.0 + xp.abs(b)))

    def unfinished(state):
        return (state[0] < NEWTON_STEPS) & ~state[4]

    far = xp.full_like(start, 1e300)  # not infinite: ends of brackets are added
    b = repeat_while(unfinished, closer, (0, start, -far, far, xp.asarray(False)), xp)[1]
    if xp is np:
        return b
    import jax

    b = jax.lax.stop_gradient(b)
    return b - f(b) / jax.lax.stop_gradient(slope(b))


def wright_omega(x: Any) -> Any:
    """The g > 0 with g + log g = x, to rounding error for all real x.

    The iteration of Fritsch, Shafer and Crowley. exp(x) is never formed where it could overflow.
    """
    xp = namespace(x)
    small = xp.minimum(x, 1.0)
    large = xp.maximum(x, 1.0)
    start = xp.where(x < 1.0, sigmoid(small), large - xp.log(large))
    inside = xp.maximum(x, -40.0)  # below, omega is exp(x) up to e^-40 of it

    def closer(g):
        rest = inside - g - xp.log(g)
        bend = (1.0 + g) * (1.0 + g + 2.0 * rest / 3.0)
        return g * (1.0 + rest / (1.0 + g) * (bend - 0.5 * rest) / (bend - rest))

    # A compiled loop, because XLA copies straight-line code into every sum that uses its result: the loop runs once.
    # Its steps are of fourth order: three reach rounding error.
    omega = repeat(3, closer, xp.maximum(start, np.exp(-40.0)), xp)
    return xp.where(x < -40.0, xp.exp(small), omega)

"""Proximal points: the r with r + step l'(r) = h for a convex l; roots of rising functions; Wright's omega function.

Elementwise, on NumPy or JAX arrays alike.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .arrays import namespace, repeat, repeat_while, sigmoid

# The bracket of log(1 + |r - h|) is halved at least once in three steps, so that 200 steps are 66 halvings: enough for all of a
# double's 53 bits even where the loss is as steep as exp(300), and the bracket as wide.
NEWTON_STEPS = 200
# Steps of fourth order towards omega. From the start below two leave 1e-10 of the gap, three nothing.
OMEGA_STEPS = 3


def proximal_point(slope: Callable[[Any], Any], curvature: Callable[[Any], Any], h: Any, step: Any) -> Any:
    """The r with r + step l'(r) = h, elementwise.

    By Newton's method kept inside a shrinking bracket: l' is increasing, so the root lies between h and h - step l'(h); a
    Newton point outside the bracket, or one that shrinks it too slowly, is replaced by the bracket's middle (in
    log(1 + |r - h|): a steep loss makes wide brackets).
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
        # Where Newton's method creeps along one side of the bracket, it is halved instead.
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
    found = repeat(OMEGA_STEPS, closer, xp.maximum(start, np.exp(-40.0)), xp)
    return xp.where(x < -40.0, xp.exp(small), found)

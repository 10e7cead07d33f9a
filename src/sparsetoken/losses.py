"""Convex losses l(z; y), y = -1 or +1, z the classifier's real output.

A loss knows four things, each elementwise on NumPy or JAX arrays alike:

    value(z, y)      l
    slope(z, y)      l'  = dl/dz
    curvature(z, y)  l'' = d^2 l/dz^2
    prox(h, step, y) the r with  r + step * l'(r; y) = h,  step >= 0 (up to 1e8 and beyond)

A loss of one's own subclasses `Loss` and gives the first three; its prox then comes from a safeguarded Newton method.
Inside the methods `namespace(z)` is numpy or jax.numpy, whichever the arguments call for. `register_loss` makes it known by
its name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ._core.arrays import namespace, sigmoid, softplus
from ._core.own import add_own

# Halley steps of the logistic prox. Six reach rounding error for |h| <= 400 at any step; where h = -step with both huge, six
# leave 2e-4 of the gap and sixteen nothing. NumPy stops when nothing moves; compiled code cannot, and takes six.
HALLEY_STEPS_NUMPY, HALLEY_STEPS_JAX = 30, 6
# The bracket is halved at least once in three steps, so that 200 steps are 66 halvings: all of a double's 53 bits and more.
NEWTON_STEPS_GENERIC = 200


class Loss:
    """Base class of losses: a subclass gives `value`, `slope` and `curvature`; `prox` is then generic.

    Attributes
    ----------
    name : str
        What the loss is called in messages and tables.
    """

    name: str = "custom"

    def value(self, z, y):
        """l(z; y), elementwise."""
        raise NotImplementedError

    def slope(self, z, y):
        """l'(z; y), the derivative in z, elementwise."""
        raise NotImplementedError

    def curvature(self, z, y):
        """l''(z; y), the second derivative in z, elementwise."""
        raise NotImplementedError

    def prox(self, h, step, y):
        """The proximal point: the r with r + step l'(r; y) = h.

        By Newton's method kept inside a shrinking bracket: l' is increasing, so the root lies between h and h - step l'(h);
        a Newton point outside the bracket, or one that shrinks it too slowly, is replaced by the bracket's middle.

        Parameters
        ----------
        h : array
            The field.
        step : array
            The step, at least 0; up to 1e8 and beyond.
        y : array
            Labels, -1 or +1.

        Returns
        -------
        array
            r, of the arguments' common shape.
        """
        xp = namespace(h, step, y)
        h, step, y = xp.broadcast_arrays(xp.asarray(h), xp.asarray(step), xp.asarray(y))
        other = h - step * self.slope(h, y)
        low, high = xp.minimum(h, other), xp.maximum(h, other)
        if xp is np:
            return _bracketed_newton_numpy(self, h, step, y, low, high)
        return _bracketed_newton_jax(self, h, step, y, low, high)


def _newton_candidate(loss, r, h, step, y, low, high, xp):
    """One safeguarded step of the prox equation g(r) = r + step l'(r) - h = 0: new point and bracket."""
    g = r + step * loss.slope(r, y) - h
    low, high = xp.where(g < 0, r, low), xp.where(g > 0, r, high)
    newton = r - g / (1.0 + step * loss.curvature(r, y))
    middle = 0.5 * (low + high)
    inside = (newton > low) & (newton < high)
    return xp.where(g == 0, r, xp.where(inside, newton, middle)), low, high


def _settled(r, r_new, low, high, xp):
    tolerance = 4 * np.finfo(r_new.dtype).eps * (1.0 + xp.abs(r_new))
    return (xp.abs(r_new - r) <= tolerance) | (high - low <= tolerance)


def _bracketed_newton_numpy(loss, h, step, y, low, high):
    r = 0.5 * (low + high)
    width = high - low
    for i in range(NEWTON_STEPS_GENERIC):
        r_new, low, high = _newton_candidate(loss, r, h, step, y, low, high, np)
        if i % 3 == 2:  # Newton's method creeps along one side of the bracket: halve it instead
            slow = high - low > 0.5 * width
            r_new = np.where(slow & ~_settled(r, r_new, low, high, np), 0.5 * (low + high), r_new)
            width = high - low
        done = bool(np.all(_settled(r, r_new, low, high, np)))
        r = r_new
        if done:
            break
    return r


def _bracketed_newton_jax(loss, h, step, y, low, high):
    import jax
    import jax.numpy as jnp

    def body(state):
        i, r, low, high, width, _ = state
        r_new, low, high = _newton_candidate(loss, r, h, step, y, low, high, jnp)
        check = i % 3 == 2
        slow = check & (high - low > 0.5 * width) & ~_settled(r, r_new, low, high, jnp)
        r_new = jnp.where(slow, 0.5 * (low + high), r_new)
        width = jnp.where(check, high - low, width)
        return i + 1, r_new, low, high, width, jnp.all(_settled(r, r_new, low, high, jnp))

    def unfinished(state):
        return (state[0] < NEWTON_STEPS_GENERIC) & ~state[5]

    start = (0, 0.5 * (low + high), low, high, high - low, jnp.asarray(False))
    return jax.lax.while_loop(unfinished, body, start)[1]


@dataclass(frozen=True)
class Logistic(Loss):
    """l = log(1 + exp(-y z))."""

    name = "logistic"

    def value(self, z, y):
        return softplus(-y * z)

    def slope(self, z, y):
        return -y * sigmoid(-y * z)

    def curvature(self, z, y):
        s = sigmoid(-y * z)
        return s * (1.0 - s)

    def prox(self, h, step, y):
        """In the margin m = y r, a = y h, the gap g = m - a solves  g = step sigmoid(-(a + g)).

        The start is the smaller of two upper bounds of the root: g < step sigmoid(-a), and g < max(1, log(step) - a).
        Halley's third-order iteration from there falls to the root without ever leaving the positive numbers, and keeps
        the relative precision of g, hence of the slope g/step, however small.
        """
        xp = namespace(h, step, y)
        h, step = xp.asarray(h), xp.asarray(step)
        a = y * h
        gap = xp.minimum(step * sigmoid(-a), xp.maximum(1.0, xp.log(xp.maximum(step, 1e-300)) - a))

        def halley(gap):
            m = a + gap
            e = xp.exp(-xp.abs(m))
            down = xp.where(m >= 0, e, 1.0) / (1.0 + e)  # sigmoid(-m)
            f = gap - step * down
            bend = step * down * (1.0 - down)
            return gap - 2.0 * f * (1.0 + bend) / (2.0 * (1.0 + bend) ** 2 + f * bend * (1.0 - 2.0 * down))

        if xp is np:
            for _ in range(HALLEY_STEPS_NUMPY):
                last, gap = gap, halley(gap)
                if not (np.abs(gap - last) > 1e-15 * gap).any():
                    break
            return h + y * gap
        import jax

        # A compiled loop, because XLA copies straight-line code into every sum that uses its result: the loop runs once.
        gap = gap + 0.0 * (h + step)  # the loop's carry needs its final shape
        gap = jax.lax.fori_loop(0, HALLEY_STEPS_JAX // 3, lambda _, g: halley(halley(halley(g))), gap)
        return h + y * gap


@dataclass(frozen=True)
class Square(Loss):
    """l = (z - y)^2 / 2."""

    name = "square"

    def value(self, z, y):
        return 0.5 * (z - y) ** 2

    def slope(self, z, y):
        return z - y

    def curvature(self, z, y):
        xp = namespace(z, y)
        return xp.ones_like(z + 0.0 * y)

    def prox(self, h, step, y):
        return (h + step * y) / (1.0 + step)


@dataclass(frozen=True)
class SmoothedHinge(Loss):
    """In the margin m = y z: 0 for m >= 1, (1 - m)^2/2 for 0 <= m <= 1, 1/2 - m for m <= 0."""

    name = "smoothed_hinge"

    def value(self, z, y):
        xp = namespace(z, y)
        m = y * z
        c = xp.clip(1.0 - m, 0.0, 1.0)
        return c * (1.0 - m) - 0.5 * c * c

    def slope(self, z, y):
        xp = namespace(z, y)
        return -y * xp.clip(1.0 - y * z, 0.0, 1.0)

    def curvature(self, z, y):
        xp = namespace(z, y)
        m = y * z
        return xp.where((m > 0.0) & (m < 1.0), 1.0, 0.0)

    def prox(self, h, step, y):
        xp = namespace(h, step, y)
        a = y * h
        m = xp.where(a >= 1.0, a, xp.where(a + step <= 0.0, a + step, (a + step) / (1.0 + step)))
        return y * m


LOSSES: dict[str, Loss] = {loss.name: loss for loss in (Logistic(), Square(), SmoothedHinge())}


_BUILT_IN = tuple(LOSSES)
# Where a new loss is tried: margins on both sides of zero, off the round numbers at which losses have corners.
_TRIED = np.array([-3.137, -1.618, -0.577, -0.033, 0.271, 0.843, 1.414, 2.718])


def register_loss(loss: Loss) -> Loss:
    """Make a loss of one's own known by its name, in `Training`, `simulate`, `forecast`, studies and the command line.

    Parameters
    ----------
    loss : Loss
        Convex in z; its `name` is a letter followed by letters, digits, _ and -. One of that name that was registered before
        is replaced; the built-in ones stay.

    Returns
    -------
    Loss
        The same loss.

    Raises
    ------
    ValueError
        If the name is taken, the slope is not the derivative of the value, or the loss is not convex.
    """
    found = get_loss(loss)
    y = np.repeat([-1.0, 1.0], len(_TRIED))
    z, step = np.tile(_TRIED, 2), 1e-6
    value, slope, curvature = (np.asarray(f(z, y), dtype=float) for f in (found.value, found.slope, found.curvature))
    for name, array in (("value", value), ("slope", slope), ("curvature", curvature)):
        if array.shape != z.shape or not np.isfinite(array).all():
            raise ValueError(f"{name} of loss {found.name!r} must be finite and of its arguments' shape")
    change = (found.value(z + step, y) - found.value(z - step, y)) / (2 * step)
    if not np.allclose(change, slope, rtol=1e-4, atol=1e-6):
        raise ValueError(f"slope of loss {found.name!r} must be the derivative of its value")
    if (curvature < 0).any() or (np.diff(slope.reshape(2, -1), axis=1) < -1e-9).any():
        raise ValueError(f"loss {found.name!r} must be convex")
    add_own("loss", found.name, found, _BUILT_IN)
    LOSSES[found.name] = found
    return loss


def get_loss(loss: str | Loss) -> Loss:
    """The loss of that name, or the loss itself.

    Parameters
    ----------
    loss : str or Loss
        A name in `LOSSES`, a `Loss`, or any object with `value`, `slope` and `curvature` (and perhaps `prox`).

    Returns
    -------
    Loss
        The loss object.

    Raises
    ------
    ValueError
        If there is no such loss.
    """
    if isinstance(loss, str):
        if loss not in LOSSES:
            raise ValueError(f"loss must be one of {', '.join(LOSSES)} or a Loss object, got {loss!r}")
        return LOSSES[loss]
    if isinstance(loss, type) or not all(callable(getattr(loss, m, None)) for m in ("value", "slope", "curvature")):
        raise ValueError(
            f"loss must be one of {', '.join(LOSSES)} or an object with value, slope and curvature, got {loss!r}"
        )
    if not isinstance(loss, Loss):
        return _Adapted(loss)
    return loss


def loss_name(loss: str | Loss) -> str:
    """The registered name of a loss, for plain data.

    Parameters
    ----------
    loss : str or Loss
        As in `get_loss`.

    Returns
    -------
    str
        Its name in `LOSSES`.

    Raises
    ------
    ValueError
        For a loss of the user's own, which could not be found again by a name.
    """
    name = loss if isinstance(loss, str) else get_loss(loss).name
    if name not in LOSSES or (not isinstance(loss, str) and LOSSES[name] != loss):
        raise ValueError(f"loss {name!r} is not one of {', '.join(LOSSES)} and cannot be written as plain data")
    return name


@dataclass(frozen=True)
class _Adapted(Loss):
    """A duck-typed loss (value, slope, curvature, maybe prox) behind the `Loss` interface."""

    inner: Any

    @property
    def name(self) -> str:  # type: ignore[override]
        return getattr(self.inner, "name", type(self.inner).__name__)

    def value(self, z, y):
        return self.inner.value(z, y)

    def slope(self, z, y):
        return self.inner.slope(z, y)

    def curvature(self, z, y):
        return self.inner.curvature(z, y)

    def prox(self, h, step, y):
        if callable(getattr(self.inner, "prox", None)):
            return self.inner.prox(h, step, y)
        return super().prox(h, step, y)

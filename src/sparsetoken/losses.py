"""Losses l(z; y), y = -1 or +1, z the classifier's real output.

A loss has four methods, each elementwise on NumPy or JAX arrays: `value`, `slope` and `curvature` (l and its derivatives in z),
and `prox`, the proximal point.

A user's loss subclasses `Loss` and defines the first three; its prox then comes from a safeguarded Newton method.
Losses are convex, so that a readout has one minimum; a loss with `convex = False` is for gradient descent only.

A name may carry numbers: "focal:2" is the focal loss with gamma = 2, and ":positives=9" after any name weighs the loss of
positive bags nine times, for classes of which one is rare.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ._core.arrays import namespace, repeat, sigmoid, softplus
from ._core.root_finding import proximal_point, root_of_rising, wright_omega
from ._core.user_code import add_own
from ._core.validation import real_number

# Halley steps of the logistic prox. Six reach rounding error for |h| <= 400 at any step; where h = -step with both huge, six
# leave 2e-4 of the gap and sixteen nothing. NumPy stops when nothing moves; compiled code cannot, and takes six.
HALLEY_STEPS_NUMPY, HALLEY_STEPS_JAX = 30, 6


class Loss:
    """Base class of losses: a subclass gives `value`, `slope` and `curvature`, elementwise; `prox` is then generic.

    Attributes
    ----------
    name : str
        What the loss is called in messages and tables.
    convex : bool
        Whether l is convex in z. Only then has the readout one minimum, and the prox one value.
    """

    name: str = "custom"
    convex: bool = True

    def value(self, z, y):
        """l(z; y), elementwise."""
        raise NotImplementedError

    def slope(self, z, y):
        """l'(z; y), the derivative in z, elementwise."""
        raise NotImplementedError

    def curvature(self, z, y):
        """l''(z; y), the second derivative in z, elementwise."""
        raise NotImplementedError

    def value_and_slope(self, z, y):
        """l and l' together, for labels y that NumPy broadcasts to z: what gradient descent needs at every step."""
        y = namespace(z).broadcast_to(y, z.shape)
        return self.value(z, y), self.slope(z, y)

    def prox(self, h, step, y):
        """The r with r + step l'(r; y) = h, for any step >= 0; it needs nothing but a slope that never falls."""
        xp = namespace(h, step, y)
        h, step, y = xp.broadcast_arrays(xp.asarray(h), xp.asarray(step), xp.asarray(y))
        return proximal_point(lambda r: self.slope(r, y), lambda r: self.curvature(r, y), h, step)


@dataclass(frozen=True)
class Logistic(Loss):
    """l = log(1 + exp(-y z))."""

    name = "logistic"

    def value(self, z, y):
        return softplus(-y * z)

    def slope(self, z, y):
        return -y * sigmoid(-y * z)

    def value_and_slope(self, z, y):
        if namespace(z) is not np or type(self) is not Logistic:  # a subclass may have a value or slope of its own
            return super().value_and_slope(z, y)
        margin = y * z
        e = np.exp(-np.abs(margin))
        return np.log1p(e) - np.minimum(margin, 0.0), np.where(margin >= 0, e, 1.0) / (1.0 + e) * -y

    def curvature(self, z, y):
        s = sigmoid(-y * z)
        return s * (1.0 - s)

    def prox(self, h, step, y):
        """In the margin m = y r, a = y h, the gap g = m - a solves  g = step sigmoid(-(a + g)).

        Halley's iteration, from the smaller of the upper bounds step sigmoid(-a) and max(1, log(step) - a), falls to the root
        within the positive numbers, and keeps the relative precision of g however small.
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
        # A compiled loop, because XLA copies straight-line code into every sum that uses its result: the loop runs once.
        gap = gap + 0.0 * (h + step)  # the loop's carry needs its final shape
        return h + y * repeat(HALLEY_STEPS_JAX // 3, lambda g: halley(halley(halley(g))), gap, xp)


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
        return y * (xp.clip(y * z, 0.0, 1.0) - 1.0)

    def curvature(self, z, y):
        xp = namespace(z, y)
        m = y * z
        return xp.where((m > 0.0) & (m < 1.0), 1.0, 0.0)

    def prox(self, h, step, y):
        xp = namespace(h, step, y)
        a = y * h
        m = xp.where(a >= 1.0, a, xp.where(a + step <= 0.0, a + step, (a + step) / (1.0 + step)))
        return y * m


@dataclass(frozen=True)
class Exponential(Loss):
    """l = exp(-y z), the loss of boosting; margins y z below -320 count as -320."""

    name = "exponential"

    def value(self, z, y):
        xp = namespace(z, y)
        # The squares of exp(320) are still numbers: a line search that tries far too long a step sees no infinite slopes.
        return xp.exp(-xp.maximum(y * z, -320.0))

    def slope(self, z, y):
        return -y * self.value(z, y)

    def curvature(self, z, y):
        return self.value(z, y)

    def prox(self, h, step, y):
        """In the margin m = y r, a = y h, the gap g = m - a solves  g exp(g) = step exp(-a): Lambert's W, in logarithms."""
        xp = namespace(h, step, y)
        h, step = xp.asarray(h), xp.asarray(step)
        logarithm = xp.log(xp.where(step > 0, step, 1.0)) - y * h
        return h + y * xp.where(step > 0, wright_omega(logarithm), 0.0)


@dataclass(frozen=True)
class Focal(Loss):
    """l = (1 - p)^gamma (-log p), p = 1/(1 + exp(-y z)): the logistic loss, with less weight on bags that are easy already.

    It is not convex, at margins below about -2 - 1/gamma, and serves gradient descent alone.

    Parameters
    ----------
    gamma : float
        The exponent, above 0; at 0 it would be the logistic loss.
    """

    gamma: float = 2.0
    convex = False

    def __post_init__(self):
        object.__setattr__(self, "gamma", real_number("gamma of the focal loss", self.gamma, 0.0, open_low=True))

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"focal:{_number(self.gamma)}"

    def value(self, z, y):
        m = y * z
        return sigmoid(-m) ** self.gamma * softplus(-m)

    def slope(self, z, y):
        m = y * z
        p, s = sigmoid(m), sigmoid(-m)
        return -y * s**self.gamma * (self.gamma * p * softplus(-m) + s)

    def curvature(self, z, y):
        m, gamma = y * z, self.gamma
        p, s = sigmoid(m), sigmoid(-m)
        return s**gamma * p * ((1.0 + 2.0 * gamma) * s + gamma * softplus(-m) * (gamma * p - s))


@dataclass(frozen=True)
class Weighted(Loss):
    """A loss multiplied by `positive_weight` for positive bags: w_y l(z; y) with w_- = 1.

    The mean over the data still divides by the number of bags, not by the sum of the weights. A weight of (1 - pi)/pi balances
    the classes.

    Parameters
    ----------
    loss : Loss or str
        l.
    positive_weight : float
        w_+, above 0.
    """

    loss: Loss
    positive_weight: float

    def __post_init__(self):
        loss = get_loss(self.loss)
        weight = real_number("positive_weight", self.positive_weight, 0.0, open_low=True)
        if isinstance(loss, Weighted):
            weight *= loss.positive_weight
        object.__setattr__(self, "loss", loss.loss if isinstance(loss, Weighted) else loss)
        object.__setattr__(self, "positive_weight", weight)

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"{self.loss.name}{_POSITIVES}{_number(self.positive_weight)}"

    @property
    def convex(self) -> bool:  # type: ignore[override]
        return self.loss.convex

    def weight(self, y):
        """w_y, elementwise."""
        return namespace(y).where(y > 0, self.positive_weight, 1.0)

    def value(self, z, y):
        return self.weight(y) * self.loss.value(z, y)

    def slope(self, z, y):
        return self.weight(y) * self.loss.slope(z, y)

    def curvature(self, z, y):
        return self.weight(y) * self.loss.curvature(z, y)

    def prox(self, h, step, y):
        """r + step w_y l'(r; y) = h: the prox of the loss that is weighted, at the step w_y step."""
        return self.loss.prox(h, step * self.weight(y), y)


_POSITIVES = ":positives="


def _number(value: float) -> str:
    """A number as short as it can be written and read back the same."""
    return repr(value).removesuffix(".0")


LOSSES: dict[str, Loss] = {loss.name: loss for loss in (Logistic(), Square(), SmoothedHinge(), Exponential())}
_BUILT_IN = tuple(LOSSES)
# Where a new loss is tried: margins on both sides of zero, off the round numbers at which losses have corners.
_TRIED = np.array([-3.137, -1.618, -0.577, -0.033, 0.271, 0.843, 1.414, 2.718])


def register_loss(loss: Loss) -> Loss:
    """Register a loss by its name, for `Training`, studies and the command line, and return it.

    Parameters
    ----------
    loss : Loss
        Convex in z, or with `convex` False, for gradient descent alone; its `name` is a letter followed by letters, digits,
        _ and -. It may replace another registered loss, not a built-in one.

    Raises
    ------
    ValueError
        If the name is taken, the slope is not the derivative of the value, or the loss is not convex and `convex` is True.
    """
    checked = get_loss(loss)
    y = np.repeat([-1.0, 1.0], len(_TRIED))
    z, step = np.tile(_TRIED, 2), 1e-6
    value, slope, curvature = (
        np.asarray(f(z, y), dtype=float) for f in (checked.value, checked.slope, checked.curvature)
    )
    for name, array in (("value", value), ("slope", slope), ("curvature", curvature)):
        if array.shape != z.shape or not np.isfinite(array).all():
            raise ValueError(f"{name} of loss {checked.name!r} must be finite and of its arguments' shape")
    change = (checked.value(z + step, y) - checked.value(z - step, y)) / (2 * step)
    if not np.allclose(change, slope, rtol=1e-4, atol=1e-6):
        raise ValueError(f"slope of loss {checked.name!r} must be the derivative of its value")
    bends_down = (curvature < 0).any() or (np.diff(slope.reshape(2, -1), axis=1) < -1e-9).any()
    if checked.convex and bends_down:
        raise ValueError(f"loss {checked.name!r} must be convex, or have convex = False")
    add_own("loss", checked.name, checked, _BUILT_IN)
    LOSSES[checked.name] = checked
    return loss


def get_loss(loss: str | Loss) -> Loss:
    """The loss of that name, or the loss itself."""
    if isinstance(loss, str):
        return _loss_of_name(loss)
    if not isinstance(loss, Loss):
        raise ValueError(f"loss must be one of {_known()} or a Loss object, got {loss!r}")
    return loss.loss if isinstance(loss, Weighted) and loss.positive_weight == 1.0 else loss


def _known() -> str:
    return f"{', '.join(LOSSES)}, focal:GAMMA, each also with {_POSITIVES}WEIGHT,"


def _loss_of_name(name: str) -> Loss:
    plain, weighted, weight = name.partition(_POSITIVES)
    if weighted:
        return get_loss(Weighted(_loss_of_name(plain), _read(weight, "positives", name)))
    if plain == "focal" or plain.startswith("focal:"):
        return Focal(_read(plain[6:], "gamma", name)) if plain != "focal" else Focal()
    if plain not in LOSSES:
        raise ValueError(f"loss must be one of {_known()} or a Loss object, got {name!r}")
    return LOSSES[plain]


def _read(text: str, what: str, name: str) -> float:
    try:
        return real_number(what, float(text), 0.0, open_low=True)
    except ValueError:
        raise ValueError(f"{what} in loss {name!r} must be a finite number above 0, got {text!r}") from None


def convex_loss(loss: str | Loss) -> Loss:
    """`get_loss` for functions that minimise a readout: refuses a loss that is not convex."""
    checked = get_loss(loss)
    if not checked.convex:
        raise ValueError(
            f"loss must be convex where a readout is minimised, got {checked.name!r}: it is for gradient descent "
            "(theory.trajectory, simulate_trajectory, schedule 'joint')"
        )
    return checked


def balancing_bias(loss: Loss, z: Any, y: Any, weights: Any) -> Any:
    """The b with  sum_i weights_i l'(z_i + b; y_i) = 0  over the last axis, both classes being present; JAX differentiates it.

    The sum rises with b. Weights are positive and sum to about one.
    """
    z, y, weights = np.broadcast_arrays(z, y, weights) if namespace(z, weights) is np else (z, y, weights)

    def mean_of(derivative: Any) -> Any:
        return lambda b: (weights * derivative(z + b[..., None], y)).sum(-1)

    return root_of_rising(mean_of(loss.slope), mean_of(loss.curvature), 0.0 * z.sum(-1))


def name_in_plain_data(loss: Loss) -> str | None:
    """The name under which `get_loss` finds this very loss again; None for one that was not registered."""
    try:
        return loss.name if _loss_of_name(str(loss.name)) == loss else None
    except ValueError:
        return None


def loss_name(loss: str | Loss) -> str:
    """The registered name of a loss, for plain data."""
    checked = get_loss(loss)
    name = name_in_plain_data(checked)
    if name is None:
        raise ValueError(f"loss {checked.name!r} is not one of {', '.join(LOSSES)} and cannot be written as plain data")
    return name

"""How tokens are weighted: softmax attention, or elementwise activations sigma.

    softmax      p_l = exp(k t_l) / sum_m exp(k t_m)
    elementwise  p_l = sigma(k t_l) / L

`k` is the sharpness beta ||q||, `t_l` a token's coordinate along q/||q||. NumPy and JAX arrays both work.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ._core.arrays import namespace, sigmoid, softplus
from ._core.user_code import add_own
from ._core.validation import real_number

DEFAULT_ACTIVATION = "sigmoid"


def _relu(x: Any) -> Any:
    return namespace(x).maximum(x, 0.0)


def _tanh(x: Any) -> Any:
    return namespace(x).tanh(x)


def _identity(x: Any) -> Any:
    return x


@dataclass(frozen=True)
class Threshold:
    """The activation relu(x - level)."""

    level: float = 1.0

    def __call__(self, x: Any) -> Any:
        return _relu(x - self.level)


ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "sigmoid": sigmoid,
    "relu": _relu,
    "tanh": _tanh,
    "identity": _identity,
    "softplus": softplus,
    "threshold": Threshold(),
}
_BUILT_IN = tuple(ACTIVATIONS)
_TRIED = np.array([[-3.1, -0.7, 0.2, 1.3], [2.9, 0.4, -1.9, 0.8]])  # scores of two bags


@dataclass(frozen=True)
class Weighting:
    """Weights of a bag's tokens by a rule that depends on all of them, instead of an elementwise activation."""

    weights: Callable[[Any], Any]

    def __call__(self, scores: Any) -> Any:
        """L p: like an activation's values, the weights are divided by L afterwards."""
        return scores.shape[-1] * self.weights(scores)


def sparsemax(scores: Any) -> Any:
    """The point of the simplex nearest to the scores (Martins and Astudillo, 2016): softmax's sparse relative."""
    xp = namespace(scores)
    ordered = -xp.sort(-scores, axis=-1)
    total = xp.cumsum(ordered, axis=-1)
    place = xp.arange(1, scores.shape[-1] + 1)
    count = (1.0 + place * ordered > total).sum(axis=-1, keepdims=True)
    level = (xp.take_along_axis(total, count - 1, axis=-1) - 1.0) / count
    return xp.maximum(scores - level, 0.0)


def hardmax(scores: Any) -> Any:
    """All weight on the largest score; shared where several are equal."""
    top = (scores == scores.max(axis=-1, keepdims=True)) * 1.0
    return top / top.sum(axis=-1, keepdims=True)


@dataclass(frozen=True)
class TopSoftmax:
    """The softmax over the `count` largest scores; the others have no weight."""

    count: int = 2

    def __call__(self, scores: Any) -> Any:
        xp = namespace(scores)
        kept = min(self.count, scores.shape[-1])
        last = xp.sort(scores, axis=-1)[..., scores.shape[-1] - kept, None]
        weights = xp.where(scores >= last, xp.exp(scores - scores.max(axis=-1, keepdims=True)), 0.0)
        return weights / weights.sum(axis=-1, keepdims=True)


# Rules for all tokens of a bag together, by name; "top:K" is the softmax over the K largest scores.
WEIGHTINGS: dict[str, Weighting] = {"sparsemax": Weighting(sparsemax), "hardmax": Weighting(hardmax)}


def register_activation(name: str, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Register an elementwise activation by name, as the model "elementwise:NAME", and return it.

    Parameters
    ----------
    name : str
        A letter followed by letters, digits, _ and -.
    function : callable
        sigma, elementwise on an array.

    Raises
    ------
    ValueError
        If the name is taken, or the function is not elementwise.
    """
    values = _tried(f"activation {name!r}", function, _TRIED)
    alone = _tried(f"activation {name!r}", function, _TRIED[:1, :1])
    if values[0, 0] != alone[0, 0]:
        raise ValueError(f"activation {name!r} must act on every score separately: register it as a classifier")
    add_own("activation", name, function, _BUILT_IN)
    ACTIVATIONS[name] = function
    return function


def own_weighting(name: str, weights: Callable[[Any], Any]) -> Weighting:
    """Check a user's rule for the weights of a bag's tokens on two bags: it must not depend on the tokens' order."""
    what = f"the weights of classifier {name!r}"
    order = np.array([2, 0, 3, 1])
    plain, turned = _tried(what, weights, _TRIED), _tried(what, weights, _TRIED[:, order])
    if not np.allclose(plain[:, order], turned, rtol=1e-9, atol=1e-12):
        raise ValueError(f"{what} must not depend on the order of the tokens")
    one_by_one = np.stack([_tried(what, weights, row) for row in _TRIED])
    if not np.allclose(plain, one_by_one, rtol=1e-9, atol=1e-12):
        raise ValueError(f"{what} must not depend on other bags: the tokens are the last axis")
    return Weighting(weights)


def _tried(what: str, function: Callable[[Any], Any], scores: np.ndarray) -> np.ndarray:
    if not callable(function):
        raise ValueError(f"{what} must be a function of an array of scores, got {function!r}")
    passed = scores.copy()
    try:
        values = np.asarray(function(passed))
    except Exception as error:  # whatever a user's function may raise
        raise ValueError(
            f"{what} must be a function of an array of scores, it raises {type(error).__name__}: {error}"
        ) from error
    if not np.array_equal(passed, scores):
        raise ValueError(f"{what} must leave the scores as they are and give new values")
    if values.dtype.kind not in "fiub" or values.shape != scores.shape or not np.isfinite(values).all():
        raise ValueError(
            f"{what} must be finite numbers of the scores' shape, got {values.dtype} of shape {values.shape}"
        )
    return values.astype(float)


def get_activation(activation: str | Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The activation of that name, or the given function itself."""
    if isinstance(activation, str):
        name, _, level = activation.partition(":")
        if activation in WEIGHTINGS:
            return WEIGHTINGS[activation]
        if name == "top" and level.isascii() and level.isdigit() and int(level) > 0:
            return Weighting(TopSoftmax(int(level)))
        if name == "threshold" and level:
            try:
                return Threshold(real_number("threshold", float(level), -np.inf))
            except ValueError:
                raise ValueError(f"the level of activation 'threshold:level' must be a number, got {level!r}") from None
        if name in ACTIVATIONS and not level:
            return ACTIVATIONS[name]
    elif isinstance(activation, Weighting):
        return activation
    elif callable(activation):
        _tried("activation", activation, _TRIED)
        return activation
    raise ValueError(
        f"activation must be one of {', '.join([*ACTIVATIONS, *WEIGHTINGS])}, 'threshold:level', 'top:K' or a function, "
        f"got {activation!r}"
    )


def softmax(x: Any) -> Any:
    """Softmax over the last axis, without overflow."""
    xp = namespace(x)
    e = xp.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def token_weights(scores: Any, activation: Callable[[Any], Any] | None) -> Any:
    """The weights p of the tokens of each bag."""
    if activation is None:
        return softmax(scores)
    return activation(scores) / scores.shape[-1]

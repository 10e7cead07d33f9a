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
    """The activation relu(x - level).

    Parameters
    ----------
    level : float
        Scores below it count as zero.
    """

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


def get_activation(activation: str | Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The activation of that name, or the given function itself.

    Parameters
    ----------
    activation : str or callable
        A name in `ACTIVATIONS`, "threshold:2.5" for relu(x - 2.5), or a function of an array.

    Returns
    -------
    callable
        sigma, elementwise on NumPy and JAX arrays.
    """
    if isinstance(activation, str):
        name, _, level = activation.partition(":")
        if name == "threshold" and level:
            try:
                return Threshold(real_number("threshold", float(level), -np.inf))
            except ValueError:
                raise ValueError(f"the level of activation 'threshold:level' must be a number, got {level!r}") from None
        if name in ACTIVATIONS and not level:
            return ACTIVATIONS[name]
    elif callable(activation):
        return activation
    raise ValueError(
        f"activation must be one of {', '.join(ACTIVATIONS)}, 'threshold:level' or a function, got {activation!r}"
    )


def softmax(x: Any) -> Any:
    """Softmax over the last axis, without overflow."""
    xp = namespace(x)
    e = xp.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def token_weights(scores: Any, activation: Callable[[Any], Any] | None) -> Any:
    """The weights p of the tokens of each bag.

    Parameters
    ----------
    scores : array (..., L)
        The scores k t, one per token.
    activation : callable or None
        sigma for p = sigma(scores)/L; None for the softmax.

    Returns
    -------
    array (..., L)
        p.
    """
    if activation is None:
        return softmax(scores)
    return activation(scores) / scores.shape[-1]

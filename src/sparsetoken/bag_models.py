"""Bag models: classifiers that see the tokens of a bag through a few directions.

All a bag model sees of a bag X (L x d) are its fields H = X Theta (L x r) along r trained directions; with one bias b its real
output is the score z = score(H, b), and sign(z) its decision. Defining another model takes five lines::

    def score(H, bias):
        t, w = H[:, 0], H[:, 1]
        return (t * w).mean() + bias

    model = BagModel(score, ("t", "w"), "product")

The score should be differentiable twice: the dynamics need the derivative of its gradient, and a jump in the gradient (such
as a rectifier's multiplied by a field) would be missed by automatic differentiation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from ._core.arrays import is_jax_array, namespace, softplus
from ._core.user_code import add_own
from ._core.validation import real_number, rejection
from .activations import softmax
from .classifiers import heads_of


@dataclass(frozen=True)
class BagModel:
    """A classifier of bags that sees its tokens through r directions.

    Parameters
    ----------
    score : callable
        ``score(H, bias)`` gives the real score z of one bag from its fields H = X Theta, an array (L, r), and the bias. It
        must be traceable by JAX, and hashable (a plain function is). With a `sharpness` it is called as
        ``score(H, bias, sharpness)``.
    directions : tuple of str
        Names of the r columns of Theta, in order. "bias" is taken.
    name : str
        The model's name in tables and figures.
    sharpness : float, optional
        A positive number that the score takes as its third argument, kept apart so that results can be differentiated
        with respect to it.
    """

    score: Callable[..., Any]
    directions: tuple[str, ...]
    name: str = "custom"
    sharpness: float | None = None

    def __post_init__(self):
        if not callable(self.score):
            raise ValueError(f"score must be a function of (H, bias), got {self.score!r}")
        if isinstance(self.directions, str):
            raise ValueError(f"directions must be a tuple of names, got {self.directions!r}")
        directions = tuple(self.directions)
        if not directions or not all(isinstance(n, str) and n for n in directions):
            raise ValueError(f"directions must be one or more names, got {self.directions!r}")
        if len(set(directions)) < len(directions) or "bias" in directions:
            raise ValueError(f"directions must be distinct names other than 'bias', got {self.directions!r}")
        object.__setattr__(self, "directions", directions)
        if self.sharpness is not None:
            sharpness = real_number("sharpness", self.sharpness, 0.0, open_low=True)
            object.__setattr__(self, "sharpness", sharpness)

    @property
    def rank(self) -> int:
        """r, the number of directions."""
        return len(self.directions)

    def __call__(self, H: Any, bias: Any) -> Any:
        """The score of one bag from its fields H (L, r), at the model's sharpness where it has one."""
        return self.score(H, bias) if self.sharpness is None else self.score(H, bias, self.sharpness)

    @property
    def start_names(self) -> tuple[str, ...]:
        """What a start may name: norms of the directions, their cosines with the signal, and the bias."""
        return (*self.directions, *(f"cosine[{name}]" for name in self.directions), "bias")

    def start_norms(self, start: Mapping[str, float] | None) -> tuple[float, ...]:
        """Norms of the directions at a start that names some of `start_names`; what is not named is zero."""
        if start is not None and not isinstance(start, Mapping):
            raise rejection("start", start, f"a mapping from {', '.join(self.start_names)} to numbers")
        for name in start or {}:
            if name not in self.start_names:
                raise ValueError(f"start must name {', '.join(self.start_names)}, got {name!r}")
        return tuple(real_number(f"start[{name!r}]", (start or {}).get(name, 0.0), 0.0) for name in self.directions)

    def start_cosines(self, start: Mapping[str, float] | None) -> tuple[float, ...]:
        """Cosines of the directions with the signal at such a start."""
        cosines = []
        for name, norm in zip(self.directions, self.start_norms(start)):
            key = f"cosine[{name}]"
            cosine = real_number(f"start[{key!r}]", (start or {}).get(key, 0.0), -1.0, 1.0)
            if cosine and not norm:
                raise ValueError(f"start[{key!r}] needs a norm: start[{name!r}] must be positive")
            cosines.append(cosine)
        return tuple(cosines)

    def start_bias(self, start: Mapping[str, float] | None) -> float:
        """The bias of such a start."""
        return real_number("start['bias']", (start or {}).get("bias", 0.0), -math.inf)

    def with_sharpness(self, sharpness: float) -> BagModel:
        """The same model at another sharpness, which its name includes."""
        if self.sharpness is None:
            raise ValueError(f"model {self.name!r} has no sharpness")
        base = self.name.partition("@")[0]
        return replace(self, sharpness=sharpness, name=f"{base}@{sharpness:g}")


@lru_cache(maxsize=256)
def score_with_sharpness(model: BagModel) -> Callable[..., Any]:
    """The score as a function of (H, bias, sharpness): one function object per model, so that it is compiled once."""
    if model.sharpness is None:
        return lambda H, bias, sharpness: model.score(H, bias)
    return model.score


def attention_score(H: Any, bias: Any, sharpness: Any) -> Any:
    """z = sum_l p_l H[l, 1] + bias with p = softmax(sharpness H[:, 0]) over the tokens."""
    return (softmax(sharpness * H[:, 0]) * H[:, 1]).sum() + bias


def pooled_score(H: Any, bias: Any) -> Any:
    """z = mean_l H[l, 0] + bias."""
    return H[:, 0].mean() + bias


def tied_score(H: Any, bias: Any, sharpness: Any) -> Any:
    """z = log(mean_l exp(s H[l, 0]))/s + bias with s the sharpness: between the tokens' mean and their maximum."""
    xp = namespace(H, sharpness)
    t = sharpness * H[:, 0]
    top = t.max()
    if is_jax_array(top):  # the largest token is only a shift, which cancels: no derivative goes through it
        import jax

        top = jax.lax.stop_gradient(top)
    return (top + xp.log(xp.exp(t - top).mean())) / sharpness + bias


def heads_score(H: Any, bias: Any, sharpness: Any) -> Any:
    """z = sum_h <softmax(sharpness q_h), w_h> + bias with the fields' columns in the order q1, w1, q2, w2, ..."""
    weights = softmax(sharpness * H[:, 0::2].T)
    return (weights.T * H[:, 1::2]).sum() + bias


def gated_score(H: Any, bias: Any, sharpness: Any) -> Any:
    """z = <softmax(sharpness tanh(v) sigmoid(u)), w> + bias with columns v, u, w: the gated attention of Ilse, Tomczak and
    Welling (2018) with one hidden unit."""
    xp = namespace(H)
    # The logistic function through tanh, whose derivatives are right at zero too, where training often starts.
    gate = xp.tanh(H[:, 0]) * 0.5 * (1.0 + xp.tanh(0.5 * H[:, 1]))
    return (softmax(sharpness * gate) * H[:, 2]).sum() + bias


def two_layer_score(H: Any, bias: Any, sharpness: Any) -> Any:
    """Two attention layers, columns k, v, q, w: the first mixes the tokens, the second pools the mixed tokens.

    Self-attention with k as query and key and a value map u v^T makes token l into x_l + m_l u, m_l = sum_j A_lj v_j, A_l =
    softmax over j of k_l k_j. Then z = <softmax(q + <u, q> m), w + <u, w> m> + bias, where <u, q> is 1, as the length of v is
    free, and <u, w> is the sharpness. At k = 0 all m_l are equal: a saddle that only a start with k not zero leaves.
    """
    k, v, q, w = H[:, 0], H[:, 1], H[:, 2], H[:, 3]
    m = softmax(k[:, None] * k[None, :]) @ v
    return (softmax(q + m) * (w + sharpness * m)).sum() + bias


def self_attention_score(H: Any, bias: Any) -> Any:
    """One layer of self-attention and a path around it, columns q, k, v, w.

    z = mean_l (w_l + m_l) + bias, m_l = sum_j A_lj v_j, A_l = softmax over j of q_l k_j. At q = k = 0 it is the mean of the
    tokens along v + w: a saddle that only a start with q and k not zero leaves.
    """
    q, k, v, w = H[:, 0], H[:, 1], H[:, 2], H[:, 3]
    return (w + softmax(q[:, None] * k[None, :]) @ v).mean() + bias


def thresholded_score(H: Any, bias: Any, sharpness: Any) -> Any:
    """Elementwise attention with a smooth threshold, columns q, w: z = (1/L) sum_l sigma(q_l) w_l + bias with sigma(x) =
    log(1 + exp(s (x - 1)))/s, the rectifier of x - 1 rounded off at sharpness s."""
    weights = softplus(sharpness * (H[:, 0] - 1.0)) / sharpness
    return (weights * H[:, 1]).mean() + bias


BAG_MODELS: dict[str, BagModel] = {
    model.name: model
    for model in (
        BagModel(attention_score, ("q", "w"), "attention", 1.0),
        BagModel(pooled_score, ("w",), "pooled"),
        BagModel(tied_score, ("w",), "tied", 1.0),
        BagModel(gated_score, ("v", "u", "w"), "gated", 4.0),  # a gate in [-1, 1] needs a factor to choose
        BagModel(two_layer_score, ("k", "v", "q", "w"), "two_layer", 1.0),
        BagModel(self_attention_score, ("q", "k", "v", "w"), "self_attention"),
        BagModel(thresholded_score, ("q", "w"), "thresholded", 2.0),
    )
}
_BUILT_IN = tuple(BAG_MODELS)


def register_bag_model(model: BagModel) -> BagModel:
    """Register a bag model by its name, for the dynamics, studies and `sparsetoken train`, and return it.

    Parameters
    ----------
    model : BagModel
        Its `name` is a letter followed by letters, digits, _ and -; it may replace a registered model, not a built-in one.

    Raises
    ------
    ValueError
        If the name is taken, or it is not a bag model.
    """
    if not isinstance(model, BagModel):
        raise ValueError(f"model must be a BagModel, got {model!r}")
    add_own("bag model", model.name, model, (*_BUILT_IN, "heads"))
    BAG_MODELS[model.name] = model
    return model


def _heads(count: int) -> BagModel:
    directions = tuple(f"{kind}{h}" for h in range(1, count + 1) for kind in "qw")
    return BagModel(heads_score, directions, f"heads:{count}", 1.0)


def get_bag_model(model: str | BagModel) -> BagModel:
    """The bag model of that name, or the model itself.

    Parameters
    ----------
    model : str or BagModel
        One of

        - ``"attention"`` (q, w): softmax attention, z = <softmax(s X q), X w> + b; s = 1, ``"attention:2"`` for s = 2;
        - ``"pooled"`` (w): the mean of the tokens, z = mean(X w) + b;
        - ``"tied"`` (w): query and readout are one, z = log(mean(exp(s X w)))/s + b; s = 1, ``"tied:2"`` for s = 2;
        - ``"heads:H"`` (q1, w1, q2, w2, ...): the sum of H attention heads;
        - ``"gated"`` (v, u, w): gated attention with one hidden unit (`gated_score`); ``"gated:6"`` for another sharpness;
        - ``"two_layer"`` (k, v, q, w): self-attention whose mixed tokens are pooled by attention (`two_layer_score`);
        - ``"self_attention"`` (q, k, v, w): rank-one self-attention, its tokens averaged (`self_attention_score`);
        - ``"thresholded"`` (q, w): elementwise attention with a smooth threshold (`thresholded_score`).
    """
    if isinstance(model, BagModel):
        return model
    if isinstance(model, str):
        base, _, detail = model.partition(":")
        if base == "heads":
            return _heads(heads_of(f"heads:{detail}") or 0)
        if base in BAG_MODELS:
            registered = BAG_MODELS[base]
            if not detail:
                return registered
            if registered.sharpness is not None:
                return replace(registered, sharpness=_sharpness(detail), name=model)
            raise ValueError(f"model {base!r} has no sharpness, got {model!r}")
    raise ValueError(f"model must be one of {', '.join((*BAG_MODELS, 'heads:H'))} or a BagModel, got {model!r}")


def _sharpness(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    return real_number("sharpness", value, 0.0, open_low=True)

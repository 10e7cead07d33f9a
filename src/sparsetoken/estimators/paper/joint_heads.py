"""Attention heads trained jointly: query, readout and bias together, for all folds of a cross-validation at once.

A head maps a bag of token features x_l to one number z (the log odds of y = +1):

    free    z = sum_l p_l <w, x_l> + b,                p = softmax(<q, x_l>)        query and readout apart
    tied    z = log((1/L) sum_l exp(s <w, x_l>)) / s + b                            query = s times the readout

The tied head is a smooth maximum whose gradient in the token scores is exactly the attention weights softmax(s <w, x_l>).
Tied heads are fitted by `fit_heads`, free ones by gradient descent (`descent`); a linear classifier on the mean token is a free
head whose query is zero.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

import numpy as np

from ..._core.arrays import is_jax_array, namespace
from ...bags.bags import Bags
from ...bags.sums_per_bag import bag_exponentials, bag_softmax, bag_sum, layout_of, over_tokens
from ...losses import Loss
from ...solvers.minimise_together import minimise_together


@dataclass(frozen=True)
class Head:
    """One attention head."""

    kind: str
    query: np.ndarray
    readout: np.ndarray
    bias: float
    sharpness: float = 1.0

    def scores(self, tokens: Any) -> Any:
        """<q, x_l>, in double precision."""
        return (tokens @ self.query.astype(tokens.dtype)).astype(np.float64)

    def evidence(self, tokens: Any) -> Any:
        """<w, x_l>: a token's evidence for y = +1, before it is weighted by attention."""
        return (tokens @ self.readout.astype(tokens.dtype)).astype(np.float64)

    def attention(self, tokens: Any, starts: np.ndarray) -> Any:
        """softmax(<q, x_l>) within each bag."""
        return bag_softmax(self.scores(tokens), starts)[0]

    def decide(self, tokens: Any, starts: np.ndarray) -> np.ndarray:
        """z of each bag."""
        attention, smooth_maximum = bag_softmax(self.scores(tokens), starts)
        if self.kind == "tied":
            return np.asarray(smooth_maximum) / self.sharpness + self.bias
        return np.asarray(bag_sum(attention * self.evidence(tokens), starts)) + self.bias


def fit_heads(
    bags: Bags,
    signs: np.ndarray,
    weights: np.ndarray,
    loss: Loss,
    ridge: float,
    starts: Sequence[Head],
    tolerance: float = 1e-8,
) -> list[Head]:
    """Minimise  sum_i p_i l(z_i; y_i) + (ridge/2) ||w||^2  (p_i normalised weights, b free) for tied heads, by L-BFGS from
    `starts`: it is not convex."""
    along, p = starts[0].sharpness, weights / weights.sum(axis=1, keepdims=True)
    first = np.array([np.append(h.readout, h.bias) for h in starts])
    objective = shared_objective("tied", loss, along, bags, signs, p, ridge)
    found, _ = minimise_together(objective, first, tolerance, 100)  # more do not change the scores of real bags
    return [replace(h, query=along * x[:-1], readout=x[:-1], bias=float(x[-1])) for h, x in zip(starts, found)]


def shared_objective(
    kind: str,
    loss: Loss,
    sharpness: float,
    bags: Bags,
    signs: np.ndarray,
    p: np.ndarray,
    ridge: float,
    scores: np.ndarray | None = None,
) -> Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """The objectives of heads of one kind as one function, by one pass over the tokens."""
    part = _compiled(kind, loss) if is_jax_array(bags.tokens) else partial(_PARTS[kind], loss)
    blocks = _blocks(bags)
    penalty = np.full(bags.n_features * (2 if kind == "free" else 1) + 1, ridge)
    penalty[-1] = 0.0  # the bias is free
    columns, asked = np.ascontiguousarray(p.T), np.arange(len(p))  # the weights of the last heads

    def evaluate(x: np.ndarray, which: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        nonlocal columns, asked
        if not np.array_equal(which, asked):
            columns, asked = np.ascontiguousarray(p[which].T), which.copy()
        gradient = penalty * x
        value = 0.5 * np.einsum("kp,kp->k", gradient, x)
        for tokens, starts, members in blocks:
            z, some, slopes = part(x, tokens, starts, signs[members], columns[members], sharpness)
            value += np.asarray(some)
            gradient += np.asarray(slopes)
            if scores is not None:
                scores[which, members] = np.asarray(z).T
        return value, gradient

    return evaluate


def decisions(heads: Sequence[Head], bags: Bags) -> np.ndarray:
    """z of all bags by tied heads of one sharpness, by one pass over the tokens."""
    queries, found = np.array([head.query for head in heads]), np.empty((len(heads), len(bags)))
    for tokens, starts, own in _blocks(bags):
        found[:, own] = np.asarray(bag_exponentials(_scores(tokens, queries), starts)[2]).T / heads[0].sharpness
    return found + np.array([head.bias for head in heads])[:, None]


def _blocks(bags: Bags) -> list[tuple[Any, Any, slice]]:
    """The tokens of some bags at a time, where these begin, and which bags they are; on a device all at once."""
    if is_jax_array(bags.tokens):
        return [(bags.tokens, layout_of(bags.starts, bags.n_tokens), slice(0, len(bags)))]
    blocks, first = [], 0
    for some in bags.batches():
        blocks.append((some.tokens, some.starts, slice(first, first + len(some))))
        first += len(some)
    return blocks


@lru_cache(maxsize=16)
def _compiled(kind: str, loss: Loss) -> Callable[..., Any]:
    """A pass over tokens on a device, compiled as one: only the parameters and the gradients travel."""
    import jax

    from ...jax_losses import traceable

    return jax.jit(partial(_PARTS[kind], traceable(loss)))


def _tied_part(loss, x, tokens, starts, signs, p, sharpness):
    w, b = x[:, :-1], x[:, -1]
    exponentials, total, smooth_maximum = bag_exponentials(_scores(tokens, sharpness * w), starts)
    z = smooth_maximum / sharpness + b
    value, slope = _losses(loss, z, signs, p)
    pull = over_tokens(slope / total, starts, len(tokens)) * exponentials
    return z, value, namespace(tokens).concatenate([_back(pull, tokens), slope.sum(axis=0)[:, None]], axis=1)


def _free_part(loss, x, tokens, starts, signs, p, sharpness):
    xp, d, total = namespace(tokens), tokens.shape[1], len(tokens)
    count, b = len(x), x[:, -1]
    both = _scores(tokens, xp.concatenate([x[:, :d], x[:, d:-1]]))
    attention, _ = bag_softmax(both[:, :count], starts)
    values = both[:, count:]
    mean_value = bag_sum(attention * values, starts)
    z = mean_value + b
    value, slope = _losses(loss, z, signs, p)
    pull = over_tokens(slope, starts, total) * attention
    pulls = xp.concatenate([pull * (values - over_tokens(mean_value, starts, total)), pull], axis=1)
    back = _back(pulls, tokens)
    return z, value, xp.concatenate([back[:count], back[count:], slope.sum(axis=0)[:, None]], axis=1)


def _losses(loss, z, signs, p):
    """Weighted sum of the losses of each column, and the weighted slopes."""
    value, slope = loss.value_and_slope(z, signs[:, None])
    return (p * value).sum(axis=0), p * slope


def _scores(tokens: Any, directions: Any) -> Any:
    """<w_k, x_l> for each token l and direction k, in double precision."""
    return (tokens @ directions.T.astype(tokens.dtype)).astype(np.float64)


def _back(pull: Any, tokens: Any) -> Any:
    """sum_l pull_lk x_l for each column k, in double precision."""
    return (pull.astype(tokens.dtype).T @ tokens).astype(np.float64)


_PARTS = {"tied": _tied_part, "free": _free_part}

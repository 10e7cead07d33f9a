"""Attention heads trained jointly: query, readout and bias together, from the two-step start.

A head maps a bag of token features x_l to one number z (the log odds of y = +1):

    free    z = sum_l p_l <w, x_l> + b,                p = softmax(<q, x_l>)        query and readout apart
    pooled  z = (1/L) sum_l <w, x_l> + b                                            query = 0
    tied    z = log((1/L) sum_l exp(<w, x_l>)) + b                                  query = readout

The tied head is attention with q = w less its own entropy cost, z = sum_l p_l <w, x_l> - KL(p || uniform) + b: the
smooth maximum whose gradient in the token scores is exactly the attention weights p. A head minimises

    sum_i p_i l(z_i; y_i) + (ridge/2) (||w||^2 + QUERY_RIDGE ||q||^2)      (tied, pooled: ||w||^2 alone; the bias is free)

with p_i the normalised sample weights. The pooled head's objective is convex and solved as such; the others are not, and
L-BFGS minimises them from the start it is given (the two-step query for a free head).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
from scipy.optimize import minimize

from .._core.arrays import is_jax_array, namespace
from .._core.devices import to_host
from ..bags.segments import bag_mean, bag_softmax, bag_sum, layout_of, over_tokens
from ..losses import Loss
from ..solvers.erm import fit_erm

ITERATIONS = 100  # 300 change nothing on musk1 and the hockey posts
# The query's ridge over the readout's. A query fits the noise sooner than a readout does: what it adds to z is quadratic
# in the tokens, sum_l p_l <q, x_l> <w, x_l>. The choice is not delicate: 1, 10 and 100 leave held-out log losses of .329,
# .323 and .317 on musk1 and of .132, .131 and .131 on the hockey posts (2 x 10 folds).
QUERY_RIDGE = 10.0


@dataclass(frozen=True)
class Head:
    """One attention head.

    Attributes
    ----------
    kind : str
        "free", "pooled" (query zero) or "tied" (query and readout the same array).
    query, readout : ndarray
        q and w.
    bias : float
        b.
    """

    kind: str
    query: np.ndarray
    readout: np.ndarray
    bias: float

    def scores(self, tokens: Any) -> Any:
        """<q, x_l>, in double precision."""
        return (tokens @ self.query.astype(tokens.dtype)).astype(np.float64)

    def evidence(self, tokens: Any) -> Any:
        """<w, x_l>: what a token says for y = +1 where it is attended to (the query only says whether it is)."""
        return (tokens @ self.readout.astype(tokens.dtype)).astype(np.float64)

    def decide(self, tokens: Any, starts: np.ndarray) -> np.ndarray:
        """z of each bag."""
        attention, smooth_maximum = bag_softmax(self.scores(tokens), starts)
        if self.kind == "tied":
            return np.asarray(smooth_maximum) + self.bias
        return np.asarray(bag_sum(attention * self.evidence(tokens), starts)) + self.bias


def fit_head(
    kind: str,
    tokens: Any,
    starts: np.ndarray,
    signs: np.ndarray,
    weights: np.ndarray,
    loss: Loss,
    ridge: float,
    start: Head,
    tolerance: float = 1e-8,
) -> Head:
    """Minimise a head's objective, sum_i p_i l(z_i; y_i) + (ridge/2) (||w||^2 + QUERY_RIDGE ||q||^2), b free.

    Parameters
    ----------
    kind : str
        "free", "pooled" or "tied".
    tokens : array of shape (tokens, features)
        All tokens, NumPy's or JAX's.
    starts : ndarray
        First row of each bag.
    signs, weights : ndarray
        Labels and weights of the bags.
    loss : Loss
        l.
    ridge : float
        The ridge.
    start : Head
        Where to start.
    tolerance : float
        Relative decrease of the objective at which to stop.

    Returns
    -------
    Head
        The minimiser that was found.
    """
    p = weights / weights.sum()
    d = tokens.shape[1]
    if kind == "pooled":  # convex
        features = to_host(bag_mean(tokens, starts))
        found = fit_erm(features, signs, ridge, loss, weights, (start.readout, start.bias), 1e-4)
        return Head(kind, np.zeros(d), found.coef, found.bias)
    on_device = is_jax_array(tokens)
    objective = _jax_objective if on_device else _objective
    where = layout_of(starts, len(tokens)) if on_device else starts
    first = np.append(start.readout, start.bias)
    if kind == "free":
        first = np.concatenate([start.query, first])
    optimum = minimize(
        objective(kind, loss),
        first,
        args=(tokens, where, signs, p, ridge),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": ITERATIONS, "ftol": tolerance},
    ).x
    if kind == "tied":
        return Head(kind, optimum[:d], optimum[:d], float(optimum[d]))
    return Head(kind, optimum[:d], optimum[d : 2 * d], float(optimum[2 * d]))


def _objective(kind: str, loss: Loss) -> Callable[..., Any]:
    """(parameters, tokens, starts, signs, p, ridge) -> value and gradient, on NumPy or JAX arrays."""
    return partial(_tied_objective if kind == "tied" else _free_objective, loss)


@lru_cache(maxsize=16)
def _jax_objective(kind: str, loss: Loss) -> Callable[..., Any]:
    """The same for tokens on a device: compiled as one, and only the parameters and the gradient travel."""
    import jax

    from ..jax_losses import traceable

    compiled = jax.jit(_objective(kind, traceable(loss)))

    def evaluate(parameters, *arguments):
        value, gradient = compiled(parameters, *arguments)
        return float(value), np.asarray(gradient)

    return evaluate


def _tied_objective(loss, parameters, tokens, starts, signs, p, ridge):
    w, b = parameters[:-1], parameters[-1]
    scores = (tokens @ w.astype(tokens.dtype)).astype(np.float64)
    attention, smooth_maximum = bag_softmax(scores, starts)
    z = smooth_maximum + b
    value = p @ loss.value(z, signs) + 0.5 * ridge * (w @ w)
    slope = p * loss.slope(z, signs)
    pull = over_tokens(slope, starts, len(tokens)) * attention
    return value, namespace(tokens).append(_back(pull, tokens) + ridge * w, slope.sum())


def _free_objective(loss, parameters, tokens, starts, signs, p, ridge):
    xp, d, total = namespace(tokens), tokens.shape[1], len(tokens)
    q, w, b = parameters[:d], parameters[d:-1], parameters[-1]
    both = (tokens @ xp.stack([q, w], axis=1).astype(tokens.dtype)).astype(np.float64)
    attention, _ = bag_softmax(both[:, 0], starts)
    values = both[:, 1]
    mean_value = bag_sum(attention * values, starts)
    z = mean_value + b
    value = p @ loss.value(z, signs) + 0.5 * ridge * (QUERY_RIDGE * (q @ q) + w @ w)
    slope = p * loss.slope(z, signs)
    pull = over_tokens(slope, starts, total) * attention
    pulls = xp.stack([pull * (values - over_tokens(mean_value, starts, total)), pull], axis=1)
    back = _back(pulls, tokens)
    gradients = [back[:, 0] + QUERY_RIDGE * ridge * q, back[:, 1] + ridge * w, slope.sum()[None]]
    return value, xp.concatenate(gradients)


def _back(pull: Any, tokens: Any) -> Any:
    return (tokens.T @ pull.astype(tokens.dtype)).astype(np.float64)

"""The query after two gradient steps from zero (stages 0 to 2 of the staged training), on ragged bags.

    c_i = l'(b0; y_i),              w1 = -eta_w sum_i p_i c_i xbar_i,     b1 = -eta_b sum_i p_i c_i
    h_i = l'(<w1, xbar_i> + b1; y_i), q2 = -sum_i p_i h_i (1/L_i) X_i^T P_i X_i w1,   P_i = I - 11^T/L_i

b0 = 0; with eta_b = "auto" residuals are centred as in `Training(eta_b="auto")`: b0 is such that sum_i p_i c_i = 0, b1 such
that sum_i p_i h_i = 0. A spectral start multiplies q2 further with -sum_i p_i h_i (1/L_i) X_i^T P_i X_i, which on long bags
leads nearer to the signal (`theory.recovery`). p_i are the normalised sample weights (1/n0 without). The factor eta_q beta of
q2 is left out: only the direction of q2 is used, and the sharpness sets its length.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...bags.bags import Bags
from ...bags.sums_per_bag import bag_mean, bag_sum, over_tokens
from ...losses import Loss, balancing_bias


class Steps(NamedTuple):
    """The result of two steps, one row per run."""

    readout: np.ndarray
    bias: Any
    query: np.ndarray
    pull: np.ndarray  # p_i h_i/L_i


def two_gradient_steps(
    bags: Any,
    pooled: np.ndarray,
    signs: np.ndarray,
    weights: np.ndarray,
    loss: Loss,
    eta_w: float = 1.0,
    eta_b: float | str = "auto",
) -> Steps:
    """Two full-batch gradient steps of  sum_i p_i l(<w, f_q(X_i)> + b; y_i)  from zero, for many rows of weights at once.

    On the model's data <q2, xi> has the sign of  -(pi E[h+] theta^2 R(1 - R/L) + (L - 1) E[h]). With
    residuals centred (eta_b = "auto") the query cannot point away from the signal.
    """
    p = weights / weights.sum(axis=1, keepdims=True)
    centred = isinstance(eta_b, str)
    b0 = balancing_bias(loss, np.zeros(p.shape), signs, p) if centred else np.zeros(len(p))
    c = np.stack([loss.slope(np.full(len(signs), b), signs) for b in b0])
    w1 = -eta_w * ((p * c) @ pooled)
    z = w1 @ pooled.T
    b1 = balancing_bias(loss, z, signs, p) if isinstance(eta_b, str) else -eta_b * (p * c).sum(axis=1)
    pull = p * np.stack([loss.slope(row + b, signs) for row, b in zip(z, b1)]) / bags.lengths
    return Steps(w1, b1, one_product(bags, pull, w1), pull)


def one_product(bags: Any, pull: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """-sum_i pull_i X_i^T P_i X_i v of each vector v, with its own row of pulls."""
    return -bags.combined(_pulled_tokens, by_bag=(pull.T,), shared=(vectors.T,))


def pooled_tokens(bags: Any) -> np.ndarray:
    """xbar of each bag, (bags, features), in double precision."""
    return np.asarray(bags.mean_tokens(), dtype=np.float64)


def _pulled_tokens(part: Bags, pull: np.ndarray, readouts: np.ndarray) -> np.ndarray:
    """sum_i pull_i X_i^T P_i X_i w of each readout w: (readouts, features)."""
    tokens, count = part.tokens, len(part.tokens)
    centred = _centred_scores(part, readouts)
    pulled = over_tokens(pull, part.starts, count) * centred
    return np.asarray(pulled.T.astype(tokens.dtype) @ tokens, dtype=np.float64)


def _centred_scores(part: Bags, directions: np.ndarray) -> Any:
    """P_i X_i v of each direction v, bag after bag: (tokens, directions)."""
    scores = (part.tokens @ directions.astype(part.tokens.dtype)).astype(np.float64)
    return scores - over_tokens(bag_mean(scores, part.starts), part.starts, len(scores))


def noise_scales(
    bags: Any,
    pooled: np.ndarray,
    signs: np.ndarray,
    weights: np.ndarray,
    queries: np.ndarray,
    sides: tuple[float, ...] = (1.0, -1.0),
) -> tuple[np.ndarray, np.ndarray]:
    """Standard deviation of <x_l, q> over the tokens within bags of the noise class, and the side of the other, the signal's.

    The signal's side is the one of `sides` that spreads more. In the model the tokens of the noise class are pure
    noise and this is ||q||; on real bags, whose noise is neither white nor of unit size, it gives `sharpness` the same meaning.
    One value per query, with its row of weights; bags of weight zero are left out. Bags of one token have no spread within
    bags: then the spread over all tokens is used.
    """
    lengths = bags.lengths
    within = np.asarray(bags.per_bag(_squares_within, shared=(queries.T,))).T
    used = weights > 0
    spreads = np.full((len(sides), len(queries)), np.inf)
    for spread, side in zip(spreads, sides):
        inside = used & (signs == -side)  # where this side holds the signal, the other class is noise
        freedom = inside @ (lengths - 1)
        some = freedom > 1
        spread[some] = np.sqrt(np.einsum("jn,jn->j", inside, within)[some] / freedom[some])
    scales, side = spreads.min(axis=0), np.array(sides)[spreads.argmin(axis=0)]
    for j in np.flatnonzero(np.isinf(scales)):
        on, means = used[j], pooled @ queries[j]
        count = lengths[on].sum()
        centre = lengths[on] @ means[on] / count
        scales[j] = np.sqrt((within[j, on].sum() + lengths[on] @ (means[on] - centre) ** 2) / count)
    return scales, side


def _squares_within(part: Bags, directions: np.ndarray) -> Any:
    """Sum over each bag's tokens of (<x_l, v> - its mean over the bag)^2, of each direction v: (bags, directions)."""
    centred = _centred_scores(part, directions)
    return bag_sum(centred * centred, part.starts)

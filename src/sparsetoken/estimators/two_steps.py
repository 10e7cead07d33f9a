"""The query after two gradient steps from zero (stages 0 to 2 of the staged training), on ragged bags.

    c_i = l'(0; y_i),               w1 = -eta_w sum_i p_i c_i xbar_i,     b1 = -eta_b sum_i p_i c_i
    h_i = l'(<w1, xbar_i> + b1; y_i), q2 = -sum_i p_i h_i (1/L_i) X_i^T P_i X_i w1,   P_i = I - 11^T/L_i

p_i are the normalised sample weights (1/n0 without). The factor eta_q beta of q2 is left out: what is used of q2 is its
direction; the sharpness sets its length.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..bags.bags import Bags
from ..bags.segments import bag_mean, over_tokens
from ..losses import Loss


@dataclass(frozen=True)
class TwoSteps:
    """readout w1, bias b1 and (unscaled) query q2."""

    readout: np.ndarray
    bias: float
    query: np.ndarray


def two_gradient_steps(
    bags: Bags, signs: np.ndarray, weights: np.ndarray, loss: Loss, eta_w: float = 1.0, eta_b: float = 1.0
) -> TwoSteps:
    """Two full-batch gradient steps of  sum_i p_i l(<w, f_q(X_i)> + b; y_i)  from w = q = 0, b = 0."""
    p = weights / weights.sum()
    tokens, starts, lengths = bags.tokens, bags.starts, bags.lengths
    pooled = bag_mean(tokens, starts)
    c = loss.slope(np.zeros(len(signs)), signs)
    w1 = -eta_w * np.asarray((p * c).astype(tokens.dtype) @ pooled, dtype=np.float64)
    b1 = -eta_b * float(p @ c)
    scores = (tokens @ w1.astype(tokens.dtype)).astype(np.float64)
    pooled_scores = bag_mean(scores, starts)
    h = loss.slope(np.asarray(pooled_scores) + b1, signs)
    pull = over_tokens(p * h / lengths, starts, len(tokens)) * (
        scores - over_tokens(pooled_scores, starts, len(tokens))
    )
    q2 = -np.asarray(pull.astype(tokens.dtype) @ tokens, dtype=np.float64)
    return TwoSteps(w1, b1, q2)


def noise_scale(bags: Bags, signs: np.ndarray, weights: np.ndarray, query: np.ndarray) -> float:
    """Standard deviation of <x_l, q> over the tokens of the negative bags of positive weight, within bags.

    In the model these tokens are pure noise and this is ||q||; on real bags, whose noise is neither white nor of unit
    size, it is what makes `sharpness` mean the same thing. Bags of one token have no spread of their own: then the
    spread over all tokens stands in.
    """
    scores = np.asarray(bags.tokens @ query.astype(bags.tokens.dtype), dtype=np.float64)
    lengths = bags.lengths
    centred = scores - np.repeat(bag_mean(scores, bags.starts), lengths)
    quiet = (signs < 0) & (weights > 0)
    freedom = int(np.sum(lengths[quiet] - 1))
    if freedom >= 2:
        return float(np.sqrt(np.sum(centred[np.repeat(quiet, lengths)] ** 2) / freedom))
    return float(np.std(scores[np.repeat(weights > 0, lengths)]))

"""The query after two gradient steps from zero (stages 0 to 2 of the staged training), on ragged bags.

    c_i = l'(0; y_i),               w1 = -eta_w sum_i p_i c_i xbar_i,     b1 = -eta_b sum_i p_i c_i
    h_i = l'(<w1, xbar_i> + b1; y_i), q2 = -sum_i p_i h_i (1/L_i) X_i^T P_i X_i w1,   P_i = I - 11^T/L_i

p_i are the normalised sample weights (1/n0 without). The factor eta_q beta of q2 is left out: only the direction of q2 is
used, and the sharpness sets its length.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq

from ..bags.bags import Bags
from ..bags.segments import bag_mean, over_tokens
from ..losses import Loss


class _Steps(NamedTuple):
    """readout w1, bias b1 and (unscaled) query q2."""

    readout: np.ndarray
    bias: float
    query: np.ndarray


def two_gradient_steps(
    bags: Bags,
    signs: np.ndarray,
    weights: np.ndarray,
    loss: Loss,
    eta_w: float = 1.0,
    eta_b: float | str = "auto",
) -> _Steps:
    """Two full-batch gradient steps of  sum_i p_i l(<w, f_q(X_i)> + b; y_i)  from w = q = 0, b = 0.

    On the model's data <q2, xi> has the sign of  -(pi E[h+] theta^2 R(1 - R/L) + (L - 1) E[h]):  with h+ < 0, a query can
    point away from the signal only if the mean slope E[h] is positive, as it is with a rare positive class and a bias
    that has not followed. eta_b="auto" takes the bias b1 at which sum_i p_i h_i = 0, so it cannot; the noise of q2
    loses a term as well.

    Parameters
    ----------
    bags : Bags
        The bags of the two steps (D0).
    signs, weights : ndarray
        Their labels and weights.
    loss : Loss
        l of the objective.
    eta_w : float
        Learning rate of the readout.
    eta_b : float or "auto"
        Learning rate of the bias.

    Returns
    -------
    tuple
        readout w1, bias b1 and query q2.
    """
    p = weights / weights.sum()
    tokens, starts, lengths = bags.tokens, bags.starts, bags.lengths
    pooled = bag_mean(tokens, starts)
    c = loss.slope(np.zeros(len(signs)), signs)
    w1 = -eta_w * np.asarray((p * c).astype(tokens.dtype) @ pooled, dtype=np.float64)
    scores = (tokens @ w1.astype(tokens.dtype)).astype(np.float64)
    pooled_scores = bag_mean(scores, starts)
    z = np.asarray(pooled_scores)
    b1 = _balancing_bias(z, signs, p, loss) if isinstance(eta_b, str) else -eta_b * float(p @ c)
    h = loss.slope(z + b1, signs)
    pull = over_tokens(p * h / lengths, starts, len(tokens)) * (
        scores - over_tokens(pooled_scores, starts, len(tokens))
    )
    q2 = -np.asarray(pull.astype(tokens.dtype) @ tokens, dtype=np.float64)
    return _Steps(w1, b1, q2)


def _balancing_bias(z: np.ndarray, signs: np.ndarray, p: np.ndarray, loss: Loss) -> float:
    """b with  sum_i p_i l'(z_i + b; y_i) = 0  (a rising function of b, of both signs where both classes are there)."""

    def mean_slope(b: float) -> float:
        return float(p @ loss.slope(z + b, signs))

    reach = 1.0 + float(np.abs(z).max())
    while not mean_slope(-reach) < 0.0 < mean_slope(reach):
        reach *= 2.0
        if reach > 1e12:  # a loss of one's own whose slopes do not cancel
            return 0.0
    return float(brentq(mean_slope, -reach, reach, xtol=1e-12 * reach))


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

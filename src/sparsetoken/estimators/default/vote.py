"""One vote for all candidates, from one set of held-out scores.

With u_ki the calibrated held-out score of candidate k for bag i (log odds; of numbers, the prediction), the shares c minimise

    n sum_i p_i l(sum_k c_k u_ki; y_i) + sum_k c_k log(K c_k)        over c >= 0, sum_k c_k = 1

with p_i normalised weights, n the number of bags, K that of the candidates, and l the logistic (or half the squared) loss:
equal shares where little is known, stacking where there are many bags. So with more bags the vote is not worse than its best
candidate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

from ...losses import Loss
from ..calibration import Calibration

LEAST_SHARE = (
    0.02  # smaller ones are dropped: each costs a fit on all bags and a pass over the tokens at every prediction
)


@dataclass(frozen=True)
class Member:
    """A model of the vote."""

    name: str
    view: str
    model: Any
    side: float
    share: float
    token_share: float
    calibration: Calibration


def vote_shares(odds: np.ndarray, y: np.ndarray, weights: np.ndarray, loss: Loss, count: float) -> np.ndarray:
    """The shares c of the module's head; `count` is n, the number of bags or fewer where groups repeat themselves."""
    k, p = len(odds), weights / weights.sum()
    if k == 1:
        return np.ones(1)

    def objective(a: np.ndarray) -> tuple[float, np.ndarray]:
        c, log_c = softmax(a), log_softmax(a)
        z = c @ odds
        value = count * float(p @ loss.value(z, y)) + float(c @ log_c)
        slope = count * odds @ (p * loss.slope(z, y)) + log_c
        return value, c * (slope - c @ slope)

    shares = softmax(minimize(objective, np.zeros(k), jac=True, method="L-BFGS-B").x)
    shares[shares < LEAST_SHARE] = 0.0
    return shares / shares.sum()

"""How the candidates of a regression share its prediction: non-negative weights that leave the least squared error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import nnls
from scipy.special import expit

from .calibration import CHANCE_GAIN
from .repetition import design_effect

# Shares below this are dropped: each member costs a pass over the tokens at every prediction.
LEAST_SHARE = 0.02
# What the sum-to-one constraint weighs in the least-squares problem of the shares, in units of the targets' variance: enough to
# hold it to four digits before the shares are normalised.
CONSTRAINT = 1e4


@dataclass(frozen=True)
class RegressionMember:
    """A model that takes part in the prediction.

    Attributes
    ----------
    name : str
        The candidate and its ridge.
    view : str
        What it looks at.
    model : Head or RegressionForest
        As fitted to all bags, to standardised targets.
    sign : float
        -1 where it was fitted to the targets turned round.
    share : float
        Its share in the prediction (zero for one that only explains).
    token_share : float
        Its share in what is said about tokens.
    """

    name: str
    view: str
    model: Any
    sign: float
    share: float
    token_share: float


def stacked_shares(predictions: np.ndarray, targets: np.ndarray, p: np.ndarray) -> np.ndarray:
    """Shares c >= 0, sum at most one, that minimise  sum_i p_i (sum_k c_k f_ki - y_i)^2,  small ones dropped.

    What is missing to one is the share of the mean (zero, for standardised targets).

    Parameters
    ----------
    predictions : ndarray of shape (candidates, bags)
        f_ki, on held-out bags.
    targets, p : ndarray of shape (bags,)
        Standardised targets and normalised weights.

    Returns
    -------
    ndarray of shape (candidates,)
        c.
    """
    root = np.sqrt(p)
    with_mean = np.vstack([predictions, np.zeros(len(targets))])
    kept = np.ones(len(with_mean), dtype=bool)
    shares = np.zeros(len(with_mean))
    for _ in range(2):  # once more without the small ones
        matrix = np.vstack([(with_mean[kept] * root).T, np.sqrt(CONSTRAINT) * np.ones(kept.sum())])
        found, _ = nnls(matrix, np.append(root * targets, np.sqrt(CONSTRAINT)))
        shares[:] = 0.0
        shares[kept] = found / max(found.sum(), 1e-300)
        kept &= shares >= LEAST_SHARE
        kept[-1] = True
        if np.all(shares[~kept] == 0.0):
            break
    shares[shares < LEAST_SHARE] = 0.0
    return shares[:-1]


def trust_in(predictions: np.ndarray, targets: np.ndarray, p: np.ndarray, groups: np.ndarray | None = None) -> float:
    """How far the stacked predictions are to be preferred to the mean: 1 / (1 + exp(CHANCE_GAIN - gain)).

    The gain is that in the log likelihood of Gaussian targets, -(n/2) log(held-out squared error), with n the number of bags
    over the `design_effect` of what each bag gains: bags of one patient, all of one target, are little more than one bag.

    Parameters
    ----------
    predictions, targets, p : ndarray of shape (bags,)
        What is predicted of held-out bags, standardised targets and normalised weights.
    groups : ndarray of int, optional
        The bags' groups.

    Returns
    -------
    float
        Between 0 and 1; 0 where it would be less than LEAST_SHARE.
    """
    errors = (predictions - targets) ** 2
    count = float(len(targets))
    if groups is not None:
        count /= design_effect(targets**2 - errors, p, groups)
    left = max(float(p @ errors), np.finfo(float).tiny)
    trust = float(expit(-0.5 * count * np.log(left) - CHANCE_GAIN))
    return trust if trust >= LEAST_SHARE else 0.0

"""The refined training: heads of both kinds at several ridges, trained jointly, weighed by what they do on held-out bags.

1. Every candidate (kind of head, ridge) is fitted on four fifths of the bags and scores the last fifth, in turn.
2. Its held-out scores are calibrated; with l_c the mean loss they leave, candidate c gets the weight
   exp(-n l_c) / sum (pseudo Bayesian model averaging, n bags); small weights are dropped.
3. The candidates kept are fitted again on all bags. The log odds are the weighted sum of their calibrated scores,
   calibrated once more as a whole, weighed against the class frequencies and bounded (`calibration.final_calibration`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..bags.bags import Bags
from ..losses import Loss
from .calibration import (
    Calibration,
    final_calibration,
    fit_calibration,
    held_apart,
    stratified_folds,
    supported_range,
)
from .heads import Head, fit_head
from .two_steps import noise_scale, two_gradient_steps

# Ridges, largest first: each fit starts the next. The objective's terms are of order one and the features of unit size.
RIDGES = {"pooled": (0.1, 0.01), "tied": (0.1, 0.01), "free": (0.1, 0.03)}
# The middle one of the sharpnesses that the staged training tries.
START_SHARPNESS = 1.5
# Candidates below this share of the vote are dropped: each costs a fit on all bags and a pass over the tokens at every
# prediction. Keeping all of them would change the held-out log loss from .323 to .321 on musk1 and not on the hockey posts.
LEAST_WEIGHT = 0.05
SEARCH_TOLERANCE = 1e-5  # the comparison of candidates does not need more


@dataclass(frozen=True)
class Member:
    """A head of the vote.

    Attributes
    ----------
    head : Head
        As fitted to all bags.
    ridge : float
        The ridge it was fitted at.
    share : float
        Its share in the vote.
    calibration : Calibration
        Of its scores.
    """

    head: Head
    ridge: float
    share: float
    calibration: Calibration


@dataclass(frozen=True)
class Refined:
    """The outcome of the refined training.

    Attributes
    ----------
    members : tuple of Member
        The heads that vote.
    calibration : Calibration
        Of the vote.
    held_out : ndarray or None
        The vote on bags that its heads had not seen; None where none could be held out.
    """

    members: tuple[Member, ...]
    calibration: Calibration
    held_out: np.ndarray | None


def start_head(kind: str, bags: Bags, signs: np.ndarray, weights: np.ndarray, loss: Loss) -> Head:
    """Where the joint training starts: the two-step query for a free head, zero (uniform attention) for the others.

    The steps count both classes alike: with a rare class and the bias still at zero, the query could point backwards.

    Parameters
    ----------
    kind : str
        "free", "pooled" or "tied".
    bags : Bags
        The (lifted) training bags.
    signs, weights : ndarray
        Their labels and weights.
    loss : Loss
        l.

    Returns
    -------
    Head
        The start.
    """
    share = np.where(signs > 0, weights[signs > 0].sum(), weights[signs < 0].sum())
    odds = float(np.log(weights[signs > 0].sum() / weights[signs < 0].sum()))
    if kind != "free":
        zero = np.zeros(bags.n_features)
        return Head(kind, zero, zero, odds)
    steps = two_gradient_steps(bags, signs, weights / share, loss, eta_b=0.0)
    spread = noise_scale(bags, signs, weights, steps.query)
    query = steps.query * (START_SHARPNESS / spread) if spread > 0 else steps.query
    return Head(kind, query, steps.readout, odds)


def _path(
    kind: str,
    bags: Bags,
    signs: np.ndarray,
    weights: np.ndarray,
    loss: Loss,
    ridges: tuple[float, ...],
    tolerance: float = 1e-8,
) -> list[Head]:
    """Heads of one kind along decreasing ridges."""
    heads = []
    head = start_head(kind, bags, signs, weights, loss)
    for ridge in ridges:
        head = fit_head(kind, bags.tokens, bags.starts, signs, weights, loss, ridge, head, tolerance)
        heads.append(head)
    return heads


def fit_refined(
    bags: Bags,
    signs: np.ndarray,
    weights: np.ndarray,
    loss: Loss,
    ridge: float | str,
    rng: np.random.Generator,
) -> Refined:
    """Heads on the given bags, weighed and calibrated as the module's head says.

    Parameters
    ----------
    bags : Bags
        The (lifted) training bags.
    signs, weights : ndarray
        Their labels and weights.
    loss : Loss
        l of the heads' objectives.
    ridge : float or "auto"
        The ridge of all heads; "auto" tries those of `RIDGES`.
    rng : numpy.random.Generator
        Deals out the folds.

    Returns
    -------
    Refined
        The heads and their vote.
    """
    ridges = RIDGES if ridge == "auto" else {kind: (float(ridge),) for kind in RIDGES}
    candidates = [(kind, r) for kind in ridges for r in ridges[kind]]
    folds = stratified_folds(signs, rng)
    if not folds:  # a class of one bag: nothing can be held out, all candidates vote alike
        heads = [h for kind in ridges for h in _path(kind, bags, signs, weights, loss, ridges[kind])]
        members = [Member(h, r, 1.0 / len(heads), Calibration()) for h, (_, r) in zip(heads, candidates)]
        low, high = supported_range(signs, weights)
        return Refined(tuple(members), Calibration(low=low, high=high), None)
    scores = np.empty((len(candidates), len(signs)))
    for held in folds:
        training, held_out, scored = held_apart(bags, signs, weights, held)
        row = 0
        for kind in ridges:
            for head in _path(kind, *training, loss, ridges[kind], SEARCH_TOLERANCE):
                scores[row, held] = head.decide(held_out.tokens, held_out.starts)[scored]
                row += 1
    calibrations = [fit_calibration(s, signs, weights) for s in scores]
    shares = _shares(np.array([c.loss for c in calibrations]), len(signs))
    members = []
    for kind in ridges:
        chosen = [k for k, r in enumerate(ridges[kind]) if shares[candidates.index((kind, r))] > 0]
        heads = _path(kind, bags, signs, weights, loss, ridges[kind][: max(chosen) + 1]) if chosen else []
        for k in chosen:
            place = candidates.index((kind, ridges[kind][k]))
            members.append(Member(heads[k], ridges[kind][k], float(shares[place]), calibrations[place]))
    vote = np.sum([share * c(s) for share, c, s in zip(shares, calibrations, scores)], axis=0)
    calibration = final_calibration(fit_calibration(vote, signs, weights), signs, weights, len(candidates))
    return Refined(tuple(members), calibration, vote)


def _shares(losses: np.ndarray, bags: int) -> np.ndarray:
    """exp(-n loss), normalised, the small ones dropped."""
    shares = np.exp(-bags * (losses - losses.min()))
    shares /= shares.sum()
    shares[shares < LEAST_WEIGHT] = 0.0
    return shares / shares.sum()

"""One inner validation and one vote for all candidates of the default learner.

1. Every candidate scores every bag by fits that have not seen it (`candidates`), and its scores are calibrated.
2. With l_ci the loss that candidate c then has on bag i (the mean over the rounds of folds, where there are several), its share
   in the vote is the mean over random weights g of the bags (the Bayesian bootstrap: flat Dirichlet weights, n in sum) of
   exp(-sum_i g_i l_ci) / sum over candidates:  pseudo Bayesian model averaging that knows how much the losses owe to the choice
   of the bags. Small shares are dropped.
3. The candidates kept are fitted on all bags. The log odds are the weighted sum of their calibrated scores, calibrated once
   more as a whole, weighed against the class frequencies and bounded (`calibration.final_calibration`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from .calibration import (
    CHANCE_GAIN,
    Calibration,
    final_calibration,
    fit_calibration,
    gains_of_groups,
    gains_over_frequencies,
    unvalidated_calibration,
)
from .candidates import Model, Problem, Validated
from .views import TOKEN_VIEWS

# Settings below this share of the vote are dropped: each costs a fit on all bags and a pass over the tokens at every
# prediction.
LEAST_SHARE = 0.05
# What the vote must explain more than the class frequencies, in nats, to have half of the trust: what slope and offset gain by
# chance one time in twenty, and two more for the choice among candidates. On 216 sets of pure noise the log loss was then
# at most 1.03 times that of the class frequencies (1.07 without these two); on UCSB and web 1 it fell from .82 and 1.02 of
# theirs, where every setting had counted, to .79 and .98.
TRUST_GAIN = CHANCE_GAIN + 2.0
DRAWS = 200  # of the bags' weights: shares are then known to a few hundredths


@dataclass(frozen=True)
class Member:
    """A model of the vote.

    Attributes
    ----------
    name : str
        The candidate and its setting.
    view : str
        What it looks at.
    model : Head, Forest or LikelihoodRatio
        As fitted to all bags.
    share : float
        Its share in the vote (zero for one that only explains).
    token_share : float
        Its share in what is said about tokens: that of the vote among members that see them.
    calibration : Calibration
        Of its scores.
    """

    name: str
    view: str
    model: Model
    share: float
    token_share: float
    calibration: Calibration

    @property
    def sees_tokens(self) -> bool:
        """Whether it scores tokens one by one."""
        return self.view in TOKEN_VIEWS


@dataclass(frozen=True)
class Vote:
    """The outcome of the inner validation.

    Attributes
    ----------
    members : tuple of Member
        The models that vote or explain.
    calibration : Calibration
        Of the vote.
    held_out : ndarray or None
        The vote on bags that its models had not seen, in the first round; None where none could be held out.
    losses : dict
        Held-out mean log loss of every setting that was tried.
    """

    members: tuple[Member, ...]
    calibration: Calibration
    held_out: np.ndarray | None
    losses: dict[str, float]


def take_vote(tried: Sequence[Validated], problem: Problem) -> Vote:
    """Share out the vote among the candidates' settings, fit what is kept.

    Parameters
    ----------
    tried : sequence of Validated
        What may vote; at least one sees tokens.
    problem : Problem
        The training bags.

    Returns
    -------
    Vote
        The models and their vote.
    """
    signs, weights = problem.signs, problem.weights
    sees = np.array([setting.sees_tokens for setting in tried])
    if not problem.rounds:  # nothing can be held out: all vote alike
        even = np.full(len(tried), 1.0 / len(tried))
        members = _members(tried, even, np.where(sees, 1.0 / sees.sum(), 0.0), [Calibration()] * len(tried))
        return Vote(members, unvalidated_calibration(signs, weights), None, {})
    calibrations = [s.calibration or Calibration() for s in tried]
    one_each = (len(problem.rounds), len(signs))
    odds = np.array([np.broadcast_to(c(s.scores), one_each) for c, s in zip(calibrations, tried)])  # type: ignore[arg-type]
    losses = np.logaddexp(0.0, -signs * odds).mean(axis=1)
    shares = vote_shares(losses, weights, problem.seed, problem.groups)
    token_shares = np.zeros(len(tried))
    token_shares[sees] = vote_shares(losses[sees], weights, problem.seed, problem.groups)
    held_out = np.tensordot(shares, odds, 1)
    found = fit_calibration(held_out, signs, weights)
    trust = vote_trust(found, held_out, signs, weights, problem.seed, problem.groups)
    calibration = final_calibration(found, signs, weights, trust=trust, scores=held_out, groups=problem.groups)
    members = _members(tried, shares, token_shares, calibrations)
    return Vote(members, calibration, held_out[0], {s.name: c.loss for s, c in zip(tried, calibrations)})


def vote_shares(losses: np.ndarray, weights: np.ndarray, seed: int, groups: np.ndarray | None = None) -> np.ndarray:
    """Shares of the candidates in the vote, as the module's head says, the small ones dropped.

    Parameters
    ----------
    losses : ndarray of shape (candidates, bags)
        Held-out loss of every candidate on every bag.
    weights : ndarray of shape (bags,)
        Weights of the bags.
    seed : int
        Of the bootstrap.
    groups : ndarray of int, optional
        Bags of one group are drawn together.

    Returns
    -------
    ndarray of shape (candidates,)
        They sum to one.
    """
    total = _drawn_weights(weights, seed, groups) @ losses.T
    shares = np.exp(total.min(axis=1, keepdims=True) - total)
    shares = np.mean(shares / shares.sum(axis=1, keepdims=True), axis=0)
    shares[shares < min(LEAST_SHARE, shares.max())] = 0.0
    return shares / shares.sum()


def _drawn_weights(weights: np.ndarray, seed: int, groups: np.ndarray | None) -> np.ndarray:
    """The Bayesian bootstrap's weights of the bags, (draws, bags); bags of one group are drawn together."""
    n = len(weights)
    units, own = (n, slice(None)) if groups is None else (int(groups.max()) + 1, groups)
    draws = np.random.default_rng(seed).standard_exponential((DRAWS, units))[:, own] * weights
    return draws * (n / draws.sum(axis=1, keepdims=True))


def vote_trust(
    calibration: Calibration,
    scores: np.ndarray,
    signs: np.ndarray,
    weights: np.ndarray,
    seed: int,
    groups: np.ndarray | None = None,
) -> float:
    """How far the vote is to be preferred to the class frequencies: its share beside them, as the module's head has shares.

    It is the mean over the bootstrap of 1 / (1 + exp(TRUST_GAIN - gain)), the gain being what the calibrated vote explains
    more than the frequencies, in nats, over the groups' `repetition`. The vote is an average, and its settings are much alike:
    their number does not count against it. Where it did, what fifty bags can show was thrown away.

    Parameters
    ----------
    calibration : Calibration
        As fitted to the held-out scores.
    scores, signs, weights : ndarray
        The vote on held-out bags (rounds, bags), their labels and weights.
    seed : int
        Of the bootstrap.
    groups : ndarray of int, optional
        Bags of one group are drawn together.

    Returns
    -------
    float
        Between 0 and 1.
    """
    if groups is None:
        gains, repeated = gains_over_frequencies(calibration, scores, signs, weights), 1.0
    else:
        gains, repeated = gains_of_groups(calibration, scores, signs, weights, groups)
    return float(np.mean(expit(_drawn_weights(weights, seed, groups) @ gains / repeated - TRUST_GAIN)))


def _members(
    tried: Sequence[Validated], shares: np.ndarray, token_shares: np.ndarray, calibrations: list[Calibration]
) -> tuple[Member, ...]:
    return tuple(
        Member(setting.name, setting.view, setting.finish(), float(share), float(token_share), calibration)
        for setting, share, token_share, calibration in zip(tried, shares, token_shares, calibrations)
        if share > 0 or token_share > 0
    )

"""The default learner: one design for classes and numbers.

1. Views of the bags are learnt without labels (`views`).
2. Every candidate is fitted without each of the inner folds, and scores the bags held out (`candidates`).
3. The held-out scores choose each candidate's ridge, calibrate it, and determine the shares of the vote. With u_ki the
   calibrated held-out score of candidate k for bag i (log odds; of numbers, the prediction), the shares c minimise

    n sum_i p_i l(sum_k c_k u_ki; y_i) + sum_k c_k log(K c_k)        over c >= 0, sum_k c_k = 1

   with p_i normalised weights, n the number of bags, K that of the candidates, and l the logistic (or half the squared) loss:
   equal shares where little is known, stacking where there are many bags.
4. Candidates with a share are fitted to all bags. The vote is calibrated once more as a whole and shrunk towards the class
   frequencies (or the mean label) by as much as chance may explain it, and further where a bag is unlike all training bags.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

from ...bags.bags import Bags
from ...bags.sums_per_bag import weighted_bag_sum
from ...losses import Logistic, Loss, Square
from ..calibration import Calibration, design_effect
from .candidates import Candidate, LearningProblem, try_candidates
from .views import TOKEN_VIEWS, BagViews, Views

# Smaller shares are dropped: each costs a fit on all bags and a pass over the tokens at every prediction.
LEAST_SHARE = 0.02


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


@dataclass(frozen=True)
class Vote:
    """The members of the vote, and its scores of held-out bags."""

    views: BagViews
    members: tuple[Member, ...]
    held_out: np.ndarray | None
    losses: dict[str, float]
    turn: float  # the label (or its sign) of the first bag: fits take it as +1, so that they do not depend on the other's name
    side: float | None  # of the signal, by the best candidate that looks for tokens of one side
    width: int
    either_side: bool = False  # held-out bags do not decide which class that is

    def scores(self, views: Views) -> np.ndarray:
        """The vote's score of each bag, before its calibration as a whole."""
        total = np.zeros(len(views.bags))
        for m in self.members:
            if m.share > 0:
                bags = views[m.view]
                total += m.share * m.calibration(m.side * np.asarray(m.model.decide(bags.tokens, bags.starts)))
        return self.turn * total

    def shares(self) -> list[str]:
        """The members that vote and their shares, in words."""
        return [f"{m.name} share {m.share:.2f}" for m in self.members if m.share > 0]

    def explainers(self) -> list[Member]:
        """The members that see tokens."""
        return [m for m in self.members if m.token_share > 0]

    def attention(self, bags: Bags) -> np.ndarray:
        """Attention weights of all tokens, averaged over the members that see tokens."""
        total, views = np.zeros(bags.n_tokens), self.views.of(bags)
        for m in self.explainers():
            total += m.token_share * np.asarray(m.model.attention(views[m.view].tokens, bags.starts))
        return total

    def evidence(self, bags: Bags) -> np.ndarray:
        """The evidence of each token for the second class (or a larger label)."""
        total, views = np.zeros(bags.n_tokens), self.views.of(bags)
        for m in self.explainers():
            scores = np.asarray(m.model.evidence(views[m.view].tokens))
            total += m.token_share * m.side * m.calibration.slope * scores
        return self.turn * total

    def features(self, bags: Bags) -> np.ndarray:
        """The attention features of each bag, those of the members that see tokens side by side."""
        parts, views = [], self.views.of(bags)
        for m in self.explainers():
            tokens = views[m.view].tokens
            parts.append(weighted_bag_sum(m.model.attention(tokens, bags.starts), tokens, bags.starts))
        return np.hstack(parts)


def take_vote(candidates: list[Candidate], bags: Bags, problem: LearningProblem, landmarks: int, scale: bool) -> Vote:
    """Views, candidates, shares and final fits; the problem comes without its views."""
    names = tuple(candidate.view for candidate in candidates)
    fitted = BagViews(names, landmarks, scale).fit(bags, problem.seed)
    # Single precision is ample for choosing and fitting, and twice as fast; predictions keep the input's precision.
    turn = -1.0 if problem.y[0] < 0 else 1.0
    y, sides = turn * problem.y, tuple(turn * side for side in problem.sides)
    problem = replace(problem, views=fitted.of(bags, np.float32), y=y, sides=sides)
    tried = try_candidates(candidates, problem)
    sees = np.array([one.view in TOKEN_VIEWS for one in tried])
    if not problem.folds:  # nothing can be held out: all vote alike
        shares, held_out = np.full(len(tried), 1.0 / len(tried)), None
        token_shares = np.where(sees, 1.0 / sees.sum(), 0.0)
    else:
        odds = np.stack([one.calibration(one.scores) for one in tried if one.scores is not None])
        shares, token_shares = _shares(odds, problem), np.zeros(len(tried))
        token_shares[sees] = _shares(odds[sees], problem)
        held_out = turn * (shares @ odds)
    members = tuple(
        Member(one.name, one.view, one.finish(), one.side, float(share), float(token_share), one.calibration)
        for one, share, token_share in zip(tried, shares, token_shares)
        if share > 0 or token_share > 0
    )
    losses = {one.name: one.calibration.loss for one in tried}
    one_sided = [one for one in tried if one.one_sided]
    finder = min(one_sided, key=lambda one: one.calibration.loss, default=None)
    side, either_side = (turn * finder.side, finder.either_side) if finder else (None, False)
    width = sum(problem.views[m.view].n_features for m in members if m.token_share > 0)
    return Vote(fitted, members, held_out, losses, turn, side, width, either_side)


def _shares(odds: np.ndarray, problem: LearningProblem) -> np.ndarray:
    loss = Logistic() if problem.classes else Square()
    best = min(odds, key=lambda row: float(problem.weights @ loss.value(row, problem.y)))
    count = len(problem.y) / design_effect(loss.value(best, problem.y), problem.weights, problem.groups)
    return vote_shares(odds, problem.y, problem.weights, loss, count)


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

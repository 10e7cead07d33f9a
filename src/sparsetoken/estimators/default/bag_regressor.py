"""The default learner for labels that are numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin

from ..._core.validation import true_or_false
from ...bags.bags import Bags
from ...bags.checks import checked_bags
from ...losses import Square
from ..base import BagLearner, per_bag
from ..calibration import design_effect, trust
from ..labels import checked_groups, checked_numbers, checked_seed, checked_weights, number_folds
from .candidates import CANDIDATES, LearningProblem, chosen_candidates
from .views import landmark_count
from .vote import Vote, take_vote

REGRESSION = tuple(candidate for candidate in CANDIDATES if candidate.kind != "likelihood")


class BagRegressor(RegressorMixin, BagLearner):
    """Predict a real number for each bag: the design of `BagClassifier`, with the square loss.

    Parameters
    ----------
    candidates : "auto" or sequence of str
        What may take part, as for `BagClassifier`: "pooled", "attention", "tied", "statistics", "likeness"; "auto": all. At
        least one of the first three, which see tokens.
    lift, scale, random_state, missing
        As for `BagClassifier`.

    Attributes
    ----------
    vote_, range_
        As for `BagClassifier`; predictions for bags far outside the range are shrunk towards the mean label.
    trust_ : float
        Share of the vote in the prediction; the rest is the mean label's.
    mean_, spread_ : float
        Mean and standard deviation of the training targets.
    low_, high_ : float
        Bounds of the predictions: the training targets' range and one standard deviation more on either side.
    diagnostics_ : dict
        Diagnostics of the training, the held-out R^2 included.
    """

    vote_: Vote | None

    def __init__(
        self,
        candidates: str | Sequence[str] = "auto",
        lift: int | str = "auto",
        scale: bool = True,
        random_state: int | None = 0,
        missing: str = "error",
    ):
        self.candidates = candidates
        self.lift = lift
        self.scale = scale
        self.random_state = random_state
        self.missing = missing

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> BagRegressor:
        """Learn from bags with one number each; the other arguments as for `BagClassifier.fit`."""
        if y is None:
            raise ValueError("BagRegressor requires y to be passed, but the target y is None")
        bags = checked_bags(self, X, reset=True)
        targets = checked_numbers(y, len(bags))
        weights = checked_weights(sample_weight, targets)
        together = checked_groups(groups, len(bags))
        used = weights > 0
        if not used.any():
            raise ValueError("sample_weight must be above 0 for at least one bag")
        bags, together = self._training_bags(bags, used, None, together)
        self._fit(bags, targets[used], weights[used], together)
        return self

    def _fit(self, bags: Bags, targets: np.ndarray, weights: np.ndarray, groups: np.ndarray | None) -> None:
        candidates, seed = chosen_candidates(self.candidates, REGRESSION), checked_seed(self.random_state)
        landmarks, scale = landmark_count(self.lift, bags.n_tokens), true_or_false("scale", self.scale)
        p, size = weights / weights.sum(), max(float(np.abs(targets).max()), np.finfo(float).tiny)
        self.mean_ = float(p @ targets)
        # In units of the largest: squares of huge numbers overflow.
        self.spread_ = size * float(np.sqrt(p @ ((targets - self.mean_) / size) ** 2))
        self.low_, self.high_ = targets.min() - self.spread_, targets.max() + self.spread_
        self.diagnostics_, self.vote_, self.trust_ = {"bags": len(bags), "dimensions": bags.n_features}, None, 0.0
        folds = number_folds(len(bags), seed, groups)
        if np.ptp(targets) > 0 and folds:
            y = (targets - self.mean_) / self.spread_
            problem = LearningProblem(None, y, weights, folds, Square(), seed, False, groups=groups)
            self.vote_ = take_vote(candidates, bags, problem, landmarks, scale)
            held_out = self.vote_.held_out
            assert held_out is not None  # there are folds
            errors = (held_out - y) ** 2
            count = len(y) / design_effect(y**2 - errors, weights, groups)
            # Gain in the log likelihood of Gaussian labels over their mean.
            gain = -0.5 * count * np.log(max(float(p @ errors), np.finfo(float).tiny))
            self.trust_ = trust(float(gain), len(candidates))
            left = float(p @ (self.trust_ * held_out - y) ** 2)
            self.diagnostics_ |= {
                "held_out_r2": 1.0 - left,
                "held_out_rmse": self.spread_ * float(np.sqrt(left)),
                "trust": self.trust_,
                "members": self.vote_.shares(),
                "held_out_r2_of_candidates": {name: 1.0 - 2.0 * loss for name, loss in self.vote_.losses.items()},
            }
        if self.trust_ < 0.5:
            found = "no candidate predicts held-out bags clearly better than their mean"
            self._warn([f"{found}: predictions stay near the mean"])

    def predict(self, X: Any) -> np.ndarray:
        """One number per bag."""
        bags = self._checked(X)
        return self._by_parts(bags, self._numbers).astype(bags.dtype, copy=False)

    def _numbers(self, bags: Bags) -> np.ndarray:
        if self.vote_ is None:
            return np.full(len(bags), self.mean_)
        z = self.trust_ * self.range_.factors(bags) * self.vote_.scores(self.vote_.views.of(bags))
        return np.clip(self.mean_ + self.spread_ * z, self.low_, self.high_)

    def token_scores(self, X: Any) -> list[np.ndarray]:
        """The evidence of each token for a higher label, in units of the label, comparable across bags, one array per bag."""
        bags = self._checked(X)
        scores = np.zeros(bags.n_tokens) if self.vote_ is None else self.spread_ * self.vote_.evidence(bags)
        return per_bag(scores, bags)

    def attention_weights(self, X: Any) -> list[np.ndarray]:
        """How much each token counts (sum 1 per bag), averaged over the members that see tokens, one array per bag."""
        bags = self._checked(X)
        even = np.repeat(1.0 / bags.lengths, bags.lengths)
        return per_bag(even if self.vote_ is None else self.vote_.attention(bags), bags)

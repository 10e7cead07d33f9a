"""Real-valued labels of bags: heads on tokens, ridge regressions on a bag's statistics and trees, weighed on held-out bags.

1. The candidates (`regression_candidates`) are fitted to all bags and without each fold.
2. The prediction is a mean of the candidates' and of the mean target, with the non-negative weights (sum one) that leave the
   least squared error on held-out bags (`regression_shares`). Where nothing can be learnt the mean target is left.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import _check_sample_weight, check_consistent_length, check_is_fitted, column_or_1d

from .._core.callers import caller_level
from .._core.validation import check_real, true_or_false, whole_number
from ..bags.bags import Bags
from ..bags.checks import checked_bags
from .base import TrainingWarning, check_weights, per_bag
from .candidates import chosen_candidates
from .canonical import canonical, joined_groups
from .folds import checked_groups, even_folds
from .lift import LANDMARKS
from .regression_candidates import CANDIDATES, KNOWN, RegressionProblem, held_out_error
from .regression_shares import RegressionMember, stacked_shares, trust_in
from .views import TOKEN_VIEWS, BagViews


class BagRegressor(RegressorMixin, BaseEstimator):
    """Predict a real number for each bag.

    Several candidates learn from the same bags: ridge regressions on the mean of lifted tokens and on a bag's statistics
    (linear and by a kernel), attention heads with the square loss (a smooth maximum of token scores, of either sign, and
    softmax attention with a query of its own), and trees. Held-out bags choose ridges and weigh the candidates.

    Parameters
    ----------
    candidates : "auto" or sequence of str
        What may take part: "pooled", "statistics", "likeness", "tied up", "tied down", "free", "trees"; "auto": all. At least
        one that sees tokens ("pooled", "tied up", "tied down" or "free").
    lift : int
        Number of training tokens the kernels are seen from; 0: linear in the (scaled) tokens.
    scale : bool
        Whether the tokens' features are standardised first, heavy tails compressed.
    random_state : int or None
        Seed of folds, landmarks and trees.

    Attributes
    ----------
    members_ : tuple of RegressionMember
        What takes part, with its share.
    mean_, spread_ : float
        Mean and standard deviation of the training targets.
    low_, high_ : float
        Bounds of the predictions: the training targets' range and one standard deviation more on either side.
    diagnostics_ : dict
        What the training found out about itself, the held-out R^2 included.
    """

    def __init__(
        self,
        candidates: str | Sequence[str] = "auto",
        lift: int = LANDMARKS,
        scale: bool = True,
        random_state: int | None = 0,
    ):
        self.candidates = candidates
        self.lift = lift
        self.scale = scale
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> BagRegressor:
        """Learn from bags with real-valued labels.

        Parameters
        ----------
        X : bags
            Any form that `Bags` takes; a plain table is one token per bag.
        y : array-like
            One number per bag.
        sample_weight : array-like, optional
            One weight >= 0 per bag.
        groups : array-like, optional
            One group per bag, such as its patient: bags of one group stay on one side of every inner split.

        Returns
        -------
        BagRegressor
            The fitted regressor itself.
        """
        if y is None:
            raise ValueError("BagRegressor requires y to be passed, but the target y is None")
        bags = checked_bags(self, X, reset=True)
        bags.memory = {}  # an object of the fit's own, whose tokens have been checked
        targets = checked_targets(y, len(bags))
        check_consistent_length(bags, targets)
        check_real("sample_weight", sample_weight)
        weights = _check_sample_weight(sample_weight, targets, dtype=np.float64)
        check_weights(weights)
        together = checked_groups(groups, len(bags))
        used = canonical(bags, targets, weights, real_valued=True)
        chosen = bags[used.rows]
        chosen.memory = {}
        self._fit(chosen, targets[used.rows], used.weights, joined_groups(together, used.places))
        return self

    def _fit(self, bags: Bags, targets: np.ndarray, weights: np.ndarray, groups: np.ndarray | None) -> None:
        rng = np.random.default_rng(self.random_state)
        candidates, seed = chosen_candidates(self.candidates, KNOWN, CANDIDATES), int(rng.integers(2**31))
        landmarks, scale = whole_number("lift", self.lift, 0), true_or_false("scale", self.scale)
        p = weights / weights.sum()
        # In units of the largest: squares of very large labels would overflow, those of very small ones vanish.
        size = max(float(np.abs(targets).max()), np.finfo(float).tiny)
        self.mean_ = size * float(p @ (targets / size))
        self.spread_ = size * float(np.sqrt(p @ ((targets - self.mean_) / size) ** 2))
        self.low_, self.high_ = float(targets.min() - self.spread_), float(targets.max() + self.spread_)
        folds = even_folds(targets, rng, groups=groups)
        self.members_: tuple[RegressionMember, ...] = ()
        self.views_: BagViews | None = None
        self.diagnostics_: dict[str, Any] = {"bags": len(targets)}
        constant = self.spread_ <= 1e-12 * size
        if constant or not folds:
            said = "all training targets are equal" if constant else "nothing can be held out of a single bag or group"
            warnings.warn(f"{said}: every prediction is their mean", TrainingWarning, stacklevel=caller_level())
            return
        above = np.where(targets > np.median(targets), 1.0, -1.0)
        names = tuple(candidate.view for candidate in candidates)
        self.views_ = BagViews(names, landmarks, scale).fit(bags, above, seed)
        views = self.views_.of(bags, np.float32)
        problem = RegressionProblem(views, (targets - self.mean_) / self.spread_, p, folds, groups, seed)
        tried = [candidate.tried(problem) for candidate in candidates]
        table = np.stack([one.predictions for one in tried])
        shares = stacked_shares(table, problem.targets, p)
        shares = shares * trust_in(shares @ table, problem.targets, p, groups)
        left = float(p @ (shares @ table - problem.targets) ** 2)
        errors = np.array([held_out_error(row, problem) for row in table])
        sees = np.array([one.view in TOKEN_VIEWS for one in tried])
        token_shares = np.where(sees, shares, 0.0)
        if not token_shares.any():
            token_shares[np.flatnonzero(sees)[np.argmin(errors[sees])]] = 1.0
        token_shares = token_shares / token_shares.sum()
        self.members_ = tuple(
            RegressionMember(one.name, one.view, one.finish(), one.sign, float(share), float(token_share))
            for one, share, token_share in zip(tried, shares, token_shares)
            if share > 0 or token_share > 0
        )
        self.diagnostics_ |= {
            "held_out_r2": 1.0 - left,
            "held_out_rmse": self.spread_ * float(np.sqrt(left)),
            "members": [f"{m.name} share {m.share:.2f}" for m in self.members_ if m.share > 0],
            "held_out_r2_of_candidates": {one.name: float(1.0 - error) for one, error in zip(tried, errors)},
        }
        if not shares.any():
            said = "no candidate predicts held-out bags better than their mean does: every prediction is the mean"
            warnings.warn(said, TrainingWarning, stacklevel=caller_level())

    def _checked(self, X: Any) -> Bags:
        check_is_fitted(self)
        return checked_bags(self, X, reset=False)

    def predict(self, X: Any) -> np.ndarray:
        """One number per bag."""
        bags = self._checked(X)
        parts = []
        for some in bags.batches():
            z = np.zeros(len(some))
            if self.views_ is not None:
                views = self.views_.of(some)
                for member in self.members_:
                    if member.share > 0:
                        own = views[member.view]
                        z += member.share * member.sign * np.asarray(member.model.decide(own.tokens, own.starts))
            parts.append(np.clip(self.mean_ + self.spread_ * z, self.low_, self.high_))
        return np.concatenate(parts).astype(bags.dtype, copy=False)

    def _explainers(self) -> list[RegressionMember]:
        return [m for m in self.members_ if m.token_share > 0]

    def token_scores(self, X: Any) -> list[np.ndarray]:
        """What each token says for a higher label, in units of the label, comparable across bags, one array per bag."""
        bags = self._checked(X)
        scores = np.zeros(bags.n_tokens)
        if self.views_ is not None:
            views = self.views_.of(bags)
            for m in self._explainers():
                scores += m.token_share * m.sign * self.spread_ * np.asarray(m.model.evidence(views[m.view].tokens))
        return per_bag(scores.astype(bags.dtype), bags)

    def attention_weights(self, X: Any) -> list[np.ndarray]:
        """How much each token counts (sum 1 per bag), averaged over the members that see tokens, one array per bag."""
        bags = self._checked(X)
        if not self._explainers() or self.views_ is None:
            return per_bag(np.repeat(1.0 / bags.lengths, bags.lengths).astype(bags.dtype), bags)
        views = self.views_.of(bags)
        weights = sum(
            m.token_share * np.asarray(m.model.attention(views[m.view].tokens, bags.starts)) for m in self._explainers()
        )
        return per_bag(np.asarray(weights, dtype=bags.dtype), bags)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        return tags


def checked_targets(y: Any, count: int) -> np.ndarray:
    """Real-valued labels, one finite number per bag.

    Parameters
    ----------
    y : array-like
        The labels.
    count : int
        The number of bags.

    Returns
    -------
    ndarray of float
        The labels.

    Raises
    ------
    ValueError
        If they are not numbers, or not one per bag.
    """
    check_real("y", y)
    raw = column_or_1d(y, warn=True)
    if raw.dtype.kind in "mM":
        raise ValueError("y must hold numbers for a regression, not dates or times")
    try:
        targets = raw.astype(np.float64)
    except (TypeError, ValueError):
        raise ValueError("y must hold numbers for a regression; for classes take a classifier") from None
    if len(targets) != count:
        raise ValueError(f"y must hold one number per bag: there are {count} bags and {len(targets)} labels")
    if not np.all(np.isfinite(targets)):
        raise ValueError(
            f"y must hold finite numbers; that of bag {int(np.argmin(np.isfinite(targets)))} is NaN or inf"
        )
    return targets

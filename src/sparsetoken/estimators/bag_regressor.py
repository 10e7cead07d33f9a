"""Real-valued labels of bags: heads on tokens, ridge regressions on a bag's statistics and trees, weighed on held-out bags.

1. Every candidate is fitted along a path of ridges, on all bags and without each fold; held-out bags choose its ridge.
   With targets y in units of their standard deviation, heads and regressions minimise

       sum_i p_i (z_i - y_i)^2 / 2 + (ridge/2) (||w||^2 + QUERY_RIDGE ||q||^2),     p_i: normalised weights, the bias is free

2. The prediction is a mean of the candidates' and of the mean target, with the non-negative weights (sum one) that leave the
   least squared error on held-out bags. Where nothing can be learnt the mean target is left.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import eigh
from scipy.optimize import nnls
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import _check_sample_weight, check_consistent_length, check_is_fitted, column_or_1d

from .._core.callers import caller_level
from .._core.validation import true_or_false, whole_number
from ..bags.bags import Bags
from ..bags.checks import checked_bags
from ..bags.segments import bag_mean
from ..losses import Logistic, Square
from .base import TrainingWarning, per_bag
from .candidates import FINAL_TOLERANCE, LEAST_FEATURES, SEARCH_TOLERANCE, TREES
from .canonical import canonical, joined_groups
from .folds import checked_groups, even_folds
from .heads import Head, fit_heads, start_head
from .lift import LANDMARKS
from .trees import PlainTrees, grow_trees
from .views import TOKEN_VIEWS, BagViews, Views

# Shares below this are dropped: each member costs a pass over the tokens at every prediction.
LEAST_SHARE = 0.02
# What the sum-to-one constraint weighs in the least-squares problem of the shares, in units of the targets' variance: enough to
# hold it to four digits before the shares are normalised.
CONSTRAINT = 1e4
# A path of falling ridges ends where the held-out squared error exceeds the least one by this factor.
RISEN = 1.1


@dataclass(frozen=True)
class RegressionForest:
    """Fitted trees, behind the interface of a head.

    Attributes
    ----------
    trees : PlainTrees
        As grown.
    """

    trees: PlainTrees

    def decide(self, tokens: Any, starts: np.ndarray) -> np.ndarray:
        """The trees' mean, one number per bag."""
        return self.trees.mean(tokens)


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


@dataclass(frozen=True)
class _Problem:
    """Training bags as the candidates see them, standardised targets, normalised weights, folds to hold out in turn."""

    views: Views
    targets: np.ndarray
    weights: np.ndarray
    folds: list[np.ndarray]
    grouped: bool
    seed: int

    def fold_weights(self) -> np.ndarray:
        rows = np.tile(self.weights, (len(self.folds) + 1, 1))
        for row, held in zip(rows, self.folds):
            row[held] = 0.0
        return rows


@dataclass(frozen=True)
class _Tried:
    """A candidate at its best ridge: held-out predictions, and a way to the model fitted to all bags."""

    name: str
    view: str
    sign: float
    predictions: np.ndarray
    finish: Callable[[], Any]


@dataclass(frozen=True)
class _Ridges:
    """Linear on the mean token of a view, solved exactly at all ridges by one decomposition per fold."""

    name: str
    view: str
    ridges: tuple[float, ...]

    def tried(self, problem: _Problem) -> _Tried:
        bags = problem.views[self.view]
        features = np.asarray(bag_mean(bags.tokens, bags.starts) if bags.n_tokens > len(bags) else bags.tokens)
        features = features.astype(np.float64)
        scores = np.empty((len(self.ridges), len(bags)))
        rows = problem.fold_weights()
        for row, held in zip(rows, problem.folds):
            for k, (w, b) in enumerate(ridge_path(features, problem.targets, row, self.ridges)):
                scores[k, held] = features[held] @ w + b
        best = _best(scores, problem)

        def finish() -> Head:
            ((w, b),) = ridge_path(features, problem.targets, problem.weights, self.ridges[best : best + 1])
            return Head("pooled", np.zeros(len(w)), w, b)

        return _Tried(f"{self.name} ridge {self.ridges[best]:g}", self.view, 1.0, scores[best], finish)


@dataclass(frozen=True)
class _Heads:
    """Attention heads of one kind, at falling ridges, all folds at once; `sign` -1: fitted to the targets turned round."""

    name: str
    view: str
    kind: str
    ridges: tuple[float, ...]
    sign: float = 1.0

    def tried(self, problem: _Problem) -> _Tried:
        bags, weights, y = problem.views[self.view], problem.fold_weights(), self.sign * problem.targets
        above = np.where(y > np.median(y), 1.0, -1.0)
        both = all(np.unique(above[row > 0]).size == 2 for row in weights)
        starts = [
            start_head(self.kind, bags, above, row, Logistic())
            if both or self.kind != "free"
            else Head(self.kind, np.zeros(bags.n_features), np.zeros(bags.n_features), 0.0)
            for row in weights
        ]
        heads, scores, paths = starts, [], []
        for ridge in self.ridges:
            heads = fit_heads(bags, y, weights, Square(), ridge, heads, SEARCH_TOLERANCE)
            held_out = np.empty(len(bags))
            for head, held in zip(heads, problem.folds):
                part = bags[held]
                held_out[held] = self.sign * head.decide(part.tokens, part.starts)
            scores.append(held_out)
            paths.append(heads[-1])
            errors = [_error(s, problem) for s in scores]
            if errors[-1] > RISEN * min(errors):
                break
        best = _best(np.array(scores), problem)
        ridge, found = self.ridges[best], paths[best]

        def finish() -> Head:
            return fit_heads(bags, y, problem.weights[None, :], Square(), ridge, [found], FINAL_TOLERANCE)[0]

        return _Tried(f"{self.name} ridge {ridge:g}", self.view, self.sign, scores[best], finish)


@dataclass(frozen=True)
class _Trees:
    """Extremely randomised trees on a bag's statistics, scored by the bags that a tree has not seen (with groups: by folds)."""

    name: str = "trees"
    view: str = "statistics"

    def tried(self, problem: _Problem) -> _Tried:
        bags, y = problem.views[self.view], problem.targets
        weights, everything = problem.weights / problem.weights.mean(), np.arange(len(y))
        share = max(LEAST_FEATURES, 1.0 / np.sqrt(bags.n_features))

        def grown(rows: np.ndarray) -> tuple[PlainTrees, np.ndarray]:
            return grow_trees(bags.tokens[rows], y[rows], weights[rows], TREES, share, problem.seed, least=2)

        trees, scores = grown(everything)
        if problem.grouped:
            for held in problem.folds:
                scores[held] = grown(np.setdiff1d(everything, held))[0].mean(bags.tokens[held])
        # A bag that every tree has seen gets the mean of the standardised targets.
        return _Tried(self.name, self.view, 1.0, np.nan_to_num(scores), lambda: RegressionForest(trees))


def ridge_path(
    features: np.ndarray, targets: np.ndarray, weights: np.ndarray, ridges: Sequence[float]
) -> Iterator[tuple[np.ndarray, float]]:
    """Minimisers of  sum_i p_i (<w, f_i> + b - y_i)^2 / 2 + (ridge/2) ||w||^2,  p_i normalised weights, b free.

    Parameters
    ----------
    features : ndarray of shape (n, d)
        f_i.
    targets, weights : ndarray of shape (n,)
        y_i, and weights >= 0.
    ridges : sequence of float
        Above zero.

    Yields
    ------
    tuple of ndarray and float
        w and b at each ridge.
    """
    used = weights > 0
    f, y, p = features[used], targets[used], weights[used] / weights[used].sum()
    centre, level = p @ f, float(p @ y)
    root = np.sqrt(p)
    x, r = root[:, None] * (f - centre), root * (y - level)
    wide = x.shape[0] < x.shape[1]
    values, vectors = eigh(x @ x.T if wide else x.T @ x)
    values = np.maximum(values, 0.0)
    along = vectors.T @ (r if wide else x.T @ r)
    for ridge in ridges:
        solved = vectors @ (along / (values + ridge))
        w = x.T @ solved if wide else solved
        yield w, level - float(centre @ w)


def _error(predictions: np.ndarray, problem: _Problem) -> float:
    return float(problem.weights @ (predictions - problem.targets) ** 2)


def _best(scores: np.ndarray, problem: _Problem) -> int:
    return int(np.argmin([_error(row, problem) for row in scores])) if problem.folds else len(scores) // 2


# Ridges reach from heavy smoothing to nearly none: the objective's terms are of order one and the features of unit size.
_KNOWN: tuple[Any, ...] = (
    _Ridges("pooled", "lifted", (1.0, 0.1, 0.01, 1e-3, 1e-4)),
    _Ridges("statistics", "statistics", (10.0, 1.0, 0.1, 0.01, 1e-3)),
    _Ridges("likeness", "likeness", (10.0, 1.0, 0.1, 0.01, 1e-3)),
    _Heads("tied up", "tokens", "tied", (0.3, 0.1, 0.03, 0.01)),
    _Heads("tied down", "tokens", "tied", (0.3, 0.1, 0.03, 0.01), sign=-1.0),
    _Heads("free", "tokens", "free", (0.1, 0.03, 0.01)),
    _Trees(),
)
CANDIDATES = tuple(candidate.name for candidate in _KNOWN)


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
        targets = checked_targets(y, len(bags))
        check_consistent_length(bags, targets)
        weights = _check_sample_weight(sample_weight, targets, dtype=np.float64)
        if np.any(weights < 0):
            raise ValueError("sample_weight must be >= 0 for every bag")
        together = checked_groups(groups, len(bags))
        used = canonical(bags, targets, weights, real_valued=True)
        self._fit(bags[used.rows], targets[used.rows], used.weights, joined_groups(together, used.places))
        return self

    def _chosen(self) -> list[Any]:
        names = CANDIDATES if isinstance(self.candidates, str) and self.candidates == "auto" else self.candidates
        if isinstance(names, str) or not all(isinstance(name, str) for name in names):
            raise ValueError(f"candidates must be 'auto' or a list of names, got {self.candidates!r}")
        for name in names:
            if name not in CANDIDATES:
                raise ValueError(f"candidates must be among {', '.join(CANDIDATES)}, got {name!r}")
        chosen = [candidate for candidate in _KNOWN if candidate.name in names]
        if not any(candidate.view in TOKEN_VIEWS for candidate in chosen):
            seeing = ", ".join(candidate.name for candidate in _KNOWN if candidate.view in TOKEN_VIEWS)
            raise ValueError(f"candidates must hold at least one that sees tokens: {seeing}")
        return chosen

    def _fit(self, bags: Bags, targets: np.ndarray, weights: np.ndarray, groups: np.ndarray | None) -> None:
        rng = np.random.default_rng(self.random_state)
        candidates, seed = self._chosen(), int(rng.integers(2**31))
        landmarks, scale = whole_number("lift", self.lift, 0), true_or_false("scale", self.scale)
        p = weights / weights.sum()
        size = max(
            float(np.abs(targets).max()), np.finfo(float).tiny
        )  # squares of very large or small labels do not exist
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
        problem = _Problem(views, (targets - self.mean_) / self.spread_, p, folds, groups is not None, seed)
        tried = [candidate.tried(problem) for candidate in candidates]
        table = np.stack([one.predictions for one in tried])
        shares = stacked_shares(table, problem.targets, p)
        errors = np.array([_error(row, problem) for row in table])
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
        left = float(p @ (shares @ table - problem.targets) ** 2)
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
    raw = column_or_1d(y, warn=True)
    if np.iscomplexobj(raw):
        raise ValueError("Complex data not supported: y must hold real numbers")
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

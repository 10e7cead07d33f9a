"""What may take part in a regression: heads on tokens, ridge regressions on a bag's statistics, trees.

Every candidate is fitted along a path of ridges, on all bags and without each fold; held-out bags choose its ridge. With
targets y in units of their standard deviation, heads and regressions minimise

    sum_i p_i (z_i - y_i)^2 / 2 + (ridge/2) (||w||^2 + QUERY_RIDGE ||q||^2),     p_i: normalised weights, the bias is free
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import eigh

from ..bags.segments import bag_mean
from ..losses import Logistic, Square
from .candidates import FINAL_TOLERANCE, LEAST_FEATURES, LEAST_GROUPS, SEARCH_TOLERANCE, TREES
from .folds import held_out_scores, weights_without_folds
from .heads import Head, decisions, fit_heads, start_head
from .trees import PlainTrees, grow_trees
from .views import Views

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
class RegressionProblem:
    """What every candidate is given.

    Attributes
    ----------
    views : Views
        The training bags as the candidates see them.
    targets : ndarray
        y: the labels, standardised (mean 0, variance 1 under the weights).
    weights : ndarray
        p: the bags' weights, sum 1.
    folds : list of ndarray
        The bags to hold out in turn.
    groups : ndarray of int or None
        The bags' groups, each of which is in one fold.
    seed : int
        Of whatever a candidate draws.
    """

    views: Views
    targets: np.ndarray
    weights: np.ndarray
    folds: list[np.ndarray]
    groups: np.ndarray | None
    seed: int


@dataclass(frozen=True)
class TriedCandidate:
    """A candidate at its best ridge: held-out predictions, and a way to the model fitted to all bags."""

    name: str
    view: str
    sign: float
    predictions: np.ndarray
    finish: Callable[[], Any]


@dataclass(frozen=True)
class RidgeRegressions:
    """Linear on the mean token of a view, solved exactly at all ridges by one decomposition per fold."""

    name: str
    view: str
    ridges: tuple[float, ...]

    def tried(self, problem: RegressionProblem) -> TriedCandidate:
        bags = problem.views[self.view]
        features = np.asarray(bag_mean(bags.tokens, bags.starts) if bags.n_tokens > len(bags) else bags.tokens)
        features = features.astype(np.float64)
        scores = np.empty((len(self.ridges), len(bags)))
        rows = weights_without_folds(problem.weights, problem.folds)
        for row, held in zip(rows, problem.folds):
            for k, (w, b) in enumerate(ridge_path(features, problem.targets, row, self.ridges)):
                scores[k, held] = features[held] @ w + b
        best = _index_of_best(scores, problem)

        def finish() -> Head:
            ((w, b),) = ridge_path(features, problem.targets, problem.weights, self.ridges[best : best + 1])
            return Head("pooled", np.zeros(len(w)), w, b)

        return TriedCandidate(f"{self.name} ridge {self.ridges[best]:g}", self.view, 1.0, scores[best], finish)


@dataclass(frozen=True)
class RegressionHeads:
    """Attention heads of one kind, at falling ridges, all folds at once; `sign` -1: fitted to the targets turned round."""

    name: str
    view: str
    kind: str
    ridges: tuple[float, ...]
    sign: float = 1.0

    def tried(self, problem: RegressionProblem) -> TriedCandidate:
        bags, y = problem.views[self.view], self.sign * problem.targets
        weights = weights_without_folds(problem.weights, problem.folds)
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
            for z, held in zip(decisions(heads, bags), problem.folds):
                held_out[held] = self.sign * z[held]
            scores.append(held_out)
            paths.append(heads[-1])
            errors = [held_out_error(s, problem) for s in scores]
            if errors[-1] > RISEN * min(errors):
                break
        best = _index_of_best(np.array(scores), problem)
        ridge, found = self.ridges[best], paths[best]

        def finish() -> Head:
            return fit_heads(bags, y, problem.weights[None, :], Square(), ridge, [found], FINAL_TOLERANCE)[0]

        return TriedCandidate(f"{self.name} ridge {ridge:g}", self.view, self.sign, scores[best], finish)


@dataclass(frozen=True)
class RegressionTrees:
    """Extremely randomised trees on a bag's statistics, scored by the bags that a tree has not seen.

    Bags of one group are drawn together. Where there are few groups, trees are grown on samples of the bags instead, and each
    fold is scored by trees grown without it, as `candidates.Trees` are.
    """

    name: str = "trees"
    view: str = "statistics"

    def tried(self, problem: RegressionProblem) -> TriedCandidate:
        bags, y = problem.views[self.view], problem.targets
        weights = problem.weights / problem.weights.mean()
        share = max(LEAST_FEATURES, 1.0 / np.sqrt(bags.n_features))

        few = problem.groups is not None and len(np.unique(problem.groups)) < LEAST_GROUPS
        together = None if few else problem.groups

        def grown(rows: np.ndarray) -> tuple[PlainTrees, np.ndarray]:
            own = None if together is None else together[rows]
            return grow_trees(bags.tokens[rows], y[rows], weights[rows], TREES, share, problem.seed, 2, own)

        trees, scores = grown(np.arange(len(y)))
        if few and problem.folds:
            scores = held_out_scores(problem.folds, len(y), lambda rest, held: grown(rest)[0].mean(bags.tokens[held]))
        # A bag that every tree has seen gets the mean of the standardised targets.
        return TriedCandidate(self.name, self.view, 1.0, np.nan_to_num(scores), lambda: RegressionForest(trees))


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


def held_out_error(predictions: np.ndarray, problem: RegressionProblem) -> float:
    """sum_i p_i (f_i - y_i)^2 of predictions f: 1 for predicting the mean, as the targets are standardised."""
    return float(problem.weights @ (predictions - problem.targets) ** 2)


def _index_of_best(scores: np.ndarray, problem: RegressionProblem) -> int:
    """Which ridge's held-out scores err least; the middle one where nothing can be held out."""
    return int(np.argmin([held_out_error(row, problem) for row in scores])) if problem.folds else len(scores) // 2


# Ridges reach from heavy smoothing to nearly none: the objective's terms are of order one and the features of unit size.
KNOWN: tuple[Any, ...] = (
    RidgeRegressions("pooled", "lifted", (1.0, 0.1, 0.01, 1e-3, 1e-4)),
    RidgeRegressions("statistics", "statistics", (10.0, 1.0, 0.1, 0.01, 1e-3)),
    RidgeRegressions("likeness", "likeness", (10.0, 1.0, 0.1, 0.01, 1e-3)),
    RegressionHeads("tied up", "tokens", "tied", (0.3, 0.1, 0.03, 0.01)),
    RegressionHeads("tied down", "tokens", "tied", (0.3, 0.1, 0.03, 0.01), sign=-1.0),
    RegressionHeads("free", "tokens", "free", (0.1, 0.03, 0.01)),
    RegressionTrees(),
)
CANDIDATES = tuple(candidate.name for candidate in KNOWN)

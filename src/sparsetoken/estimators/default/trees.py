"""Grown trees as plain arrays: they can be written to a model file and read back without trusting what is in it.

scikit-learn's own trees are compiled objects that follow the node numbers they are given; a model file with wrong numbers would
make them read whatever lies in memory. Here NumPy checks every index.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import logit

TREES = 40  # more change held-out losses in the third digit, and take as long as all the rest
MOST_ROWS = 2000  # bags that a tree is grown on, at most: the time of a fit stays bounded
LEAST_FEATURES = (
    0.05  # share that a split tries, at least: the usual square root leaves thousands of sparse features to chance
)
ROWS = 4096  # that walk down all trees at a time: some megabytes of node numbers


@dataclass(frozen=True)
class PlainTrees:
    """Trees, their nodes one after the other."""

    feature: np.ndarray
    threshold: np.ndarray
    left: np.ndarray
    right: np.ndarray
    value: np.ndarray
    roots: np.ndarray
    depth: int
    log_odds: bool  # whether the values are votes for a class, and wanted as log odds

    def decide(self, tokens: Any, starts: np.ndarray) -> np.ndarray:
        """The trees' mean, or the log odds of their votes, for each bag of one token."""
        rows = np.asarray(tokens, dtype=np.float32)  # as the trees were grown
        mean = np.concatenate([self._block(rows[k : k + ROWS]) for k in range(0, len(rows), ROWS)])
        # One vote more on either side: unanimity is not certainty.
        return logit((len(self.roots) * mean + 1.0) / (len(self.roots) + 2.0)) if self.log_odds else mean

    def _block(self, rows: np.ndarray) -> np.ndarray:
        count = len(rows)
        node, row = np.repeat(self.roots, count), np.tile(np.arange(count), len(self.roots))
        for _ in range(self.depth):
            smaller = rows[row, self.feature[node]] <= self.threshold[node]
            node = np.where(smaller, self.left[node], self.right[node])
        return self.value[node].reshape(-1, count).mean(axis=0)


def grow_trees(rows: np.ndarray, targets: np.ndarray, weights: np.ndarray, seed: int, log_odds: bool) -> PlainTrees:
    """Extremely randomised trees; targets 0 and 1 are classes (least squares then chooses the splits of Gini's index)."""
    from sklearn import config_context
    from sklearn.tree import ExtraTreeRegressor

    rows, targets = np.ascontiguousarray(rows, dtype=np.float32), targets.astype(np.float64)
    share, rng = min(1.0, max(LEAST_FEATURES, 1.0 / np.sqrt(rows.shape[1]))), np.random.RandomState(seed)
    trees, even = [], np.ptp(weights) == 0.0
    # One by one: what a forest of scikit-learn's adds takes longer than growing small trees.
    with config_context(skip_parameter_validation=True, assume_finite=True):
        for _ in range(TREES):
            some = slice(None) if len(rows) <= MOST_ROWS else rng.choice(len(rows), MOST_ROWS, replace=False)
            tree = ExtraTreeRegressor(max_features=share, random_state=rng)
            own = None if even else weights[some]  # checks of weights take as long as growing a small tree
            trees.append(tree.fit(rows[some], targets[some], own, check_input=False).tree_)
    return plain_trees(trees, log_odds)


def plain_trees(trees: Sequence[Any], log_odds: bool) -> PlainTrees:
    """Trees of scikit-learn's as arrays."""

    def together(name: str) -> np.ndarray:
        return np.concatenate([getattr(tree, name) for tree in trees])

    counts = np.array([tree.node_count for tree in trees])
    roots = np.append(0, np.cumsum(counts)[:-1])
    places, first, child = np.arange(counts.sum()), np.repeat(roots, counts), together("children_left")
    leaf = child < 0
    left, right = (np.where(leaf, places, below + first) for below in (child, together("children_right")))
    feature, value = np.where(leaf, 0, together("feature")), together("value")[:, 0, -1]
    depth = max(tree.max_depth for tree in trees)
    return PlainTrees(
        feature, together("threshold"), left, right, np.ascontiguousarray(value), roots, int(depth), log_odds
    )

"""Grown trees as plain arrays: they can be written to a model file and read back without trusting what is in it.

scikit-learn's own trees are compiled objects that follow the node numbers they are given; a model file with wrong numbers would
make them read whatever lies in memory. Here NumPy checks every index.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

COPIED_ROWS = 200  # up to which the rows of a bootstrap sample are copied rather than weighted
ROWS = 4096  # that walk down all trees at a time: some megabytes of node numbers


@dataclass(frozen=True)
class PlainTrees:
    """Trees, their nodes one after the other.

    Attributes
    ----------
    feature, threshold : ndarray of shape (nodes,)
        A row goes left where its feature is at most the threshold.
    left, right : ndarray of shape (nodes,)
        Where to go from a node; a leaf's are the leaf itself.
    value : ndarray of shape (nodes,)
        What a leaf says.
    roots : ndarray of shape (trees,)
        The first node of each tree.
    depth : int
        The most steps from a root to a leaf.
    """

    feature: np.ndarray
    threshold: np.ndarray
    left: np.ndarray
    right: np.ndarray
    value: np.ndarray
    roots: np.ndarray
    depth: int

    def mean(self, rows: Any) -> np.ndarray:
        """The trees' mean, for each row of features."""
        features = np.asarray(rows, dtype=np.float32)  # as the trees were grown
        return np.concatenate([self._block(features[k : k + ROWS]) for k in range(0, len(features), ROWS)])

    def _block(self, rows: np.ndarray) -> np.ndarray:
        count = len(rows)
        # A place for every tree and row, one tree after the other: a tree's nodes lie close together. Most rows arrive at a
        # leaf long before the deepest does.
        node, row = np.repeat(self.roots, count), np.tile(np.arange(count), len(self.roots))
        going = np.arange(len(node))
        for _ in range(self.depth):
            at = node[going]
            smaller = rows[row[going], self.feature[at]] <= self.threshold[at]
            node[going] = after = np.where(smaller, self.left[at], self.right[at])
            going = going[self.left[after] != after]
        total = np.zeros(count)
        for leaves in node.reshape(-1, count):  # one tree after the other, in the order in which scikit-learn adds them
            total += self.value[leaves]
        return total / len(self.roots)


def grow_trees(
    features: Any,
    targets: np.ndarray,
    weights: np.ndarray,
    count: int,
    max_features: float,
    seed: int | None,
    least: int = 1,
    groups: np.ndarray | None = None,
    best: bool = False,
    most: int | None = None,
) -> tuple[PlainTrees, np.ndarray]:
    """Randomised trees, each on a bootstrap sample of the rows (or of groups of them), drawn with their weights.

    The trees are those of scikit-learn's forests for the same seed (as of 1.9; earlier forests draw without weights), without
    what these repeat for every tree: copies of the estimator and checks of parameters and labels took longer than the growing.
    Targets 0 and 1 are classes: least squares then chooses the splits that Gini's index does.

    Parameters
    ----------
    features : array of shape (rows, features)
        What the trees see.
    targets : ndarray of shape (rows,)
        What they are to tell.
    weights : ndarray of shape (rows,)
        Weights of the rows, not all zero.
    count : int
        How many trees.
    max_features : float
        Share of the features that are tried at every node.
    seed : int or None
        Of the samples and the splits.
    least : int
        The least number of rows in a leaf.
    groups : ndarray of int, optional
        The rows of one group are drawn together, each time with their weights relative to their mean.
    best : bool
        Whether a feature is split where that tells most, as in random forests, or anywhere (extremely randomised trees).
    most : int, optional
        The most rows (or groups) that a sample has; as many as there are by default.

    Returns
    -------
    tuple
        The trees, and for every row the mean of those that have not seen it, or any of its group (NaN where all have).
    """
    from sklearn import config_context
    from sklearn.tree import DecisionTreeRegressor, ExtraTreeRegressor
    from sklearn.utils import check_random_state

    rows = np.ascontiguousarray(features, dtype=np.float32)
    y = np.ascontiguousarray(targets, dtype=np.float64)[:, None]
    own = np.arange(len(rows)) if groups is None else np.unique(groups, return_inverse=True)[1]
    mean = np.bincount(own, weights) / np.bincount(own)
    p, relative = mean / mean.sum(), weights / np.where(mean > 0, mean, 1.0)[own]
    below = np.cumsum(p)
    below /= below[-1]
    draws = check_random_state(seed)
    # Seeded anew for each tree: making another takes longer than growing a small tree.
    own_draws = np.random.RandomState(0)
    kind = DecisionTreeRegressor if best else ExtraTreeRegressor
    tree = kind(max_features=max_features, min_samples_leaf=least)
    size = len(p) if most is None else min(len(p), most)
    # Copies of rows give the same tree as their weights do where a leaf may hold a single row. They take longer to sort, and
    # spare the check of weights, which takes longer for a few hundred rows.
    copied = least == 1 and len(rows) <= COPIED_ROWS and groups is None
    grown, total, unseen_by = [], np.zeros(len(rows)), np.zeros(len(rows), dtype=int)
    with config_context(skip_parameter_validation=True, assume_finite=True):  # all that was checked before
        for own_seed in [draws.randint(np.iinfo(np.int32).max) for _ in range(count)]:
            own_draws.seed(own_seed)
            # What `choice` does with these probabilities, without its checks of them.
            sampled = below.searchsorted(own_draws.random_sample(size), side="right")
            times = np.bincount(sampled, minlength=len(p))[own] * relative
            own_draws.seed(own_seed)
            tree.random_state = own_draws
            if copied:
                tree.fit(rows[sampled], y[sampled], check_input=False)
            else:
                tree.fit(rows, y, times, check_input=False)
            unseen = times == 0
            total[unseen] += tree.tree_.predict(rows[unseen])[:, 0] if unseen.any() else 0.0
            unseen_by += unseen
            grown.append(tree.tree_)
    with np.errstate(invalid="ignore"):
        return plain_trees(grown), np.where(unseen_by > 0, total / unseen_by, np.nan)


def plain_trees(trees: Sequence[Any]) -> PlainTrees:
    """Trees as arrays.

    Parameters
    ----------
    trees : sequence of sklearn.tree._tree.Tree
        As grown; a node's last value is what it says (of a classifier of two classes, the share of the second).

    Returns
    -------
    PlainTrees
        With the same predictions.
    """

    def together(name: str) -> np.ndarray:
        return np.concatenate([getattr(tree, name) for tree in trees])

    counts = np.array([tree.node_count for tree in trees])
    roots = np.append(0, np.cumsum(counts)[:-1])
    own, first, child = np.arange(counts.sum()), np.repeat(roots, counts), together("children_left")
    leaf = child < 0
    left, right = (np.where(leaf, own, below + first) for below in (child, together("children_right")))
    feature, value = np.where(leaf, 0, together("feature")), together("value")[:, 0, -1]
    depth = max(tree.max_depth for tree in trees)
    return PlainTrees(feature, together("threshold"), left, right, np.ascontiguousarray(value), roots, int(depth))

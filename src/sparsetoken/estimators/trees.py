"""Grown trees as plain arrays: they can be written to a model file and read back without trusting what is in it.

scikit-learn's own trees are compiled objects that follow the node numbers they are given; a model file with wrong numbers would
make them read whatever lies in memory. Here NumPy checks every index.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

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
        node = np.tile(self.roots, (len(rows), 1))
        own = np.arange(len(rows))[:, None]
        for _ in range(self.depth):
            smaller = rows[own, self.feature[node]] <= self.threshold[node]
            node = np.where(smaller, self.left[node], self.right[node])
        total = np.zeros(len(rows))
        for column in node.T:  # one tree after the other, in the order in which scikit-learn adds them
            total += self.value[column]
        return total / len(self.roots)


def plain_trees(forest: Any) -> PlainTrees:
    """The trees of a fitted forest.

    Parameters
    ----------
    forest : ForestRegressor or ForestClassifier
        scikit-learn's, fitted; a classifier of two classes, whose trees' values are the shares of the second.

    Returns
    -------
    PlainTrees
        With the same predictions.
    """
    parts: list[tuple[np.ndarray, ...]] = []
    roots, first = [], 0
    for grown in forest.estimators_:
        tree = grown.tree_
        own = np.arange(tree.node_count)
        leaf = tree.children_left < 0
        left, right = (np.where(leaf, own, child) + first for child in (tree.children_left, tree.children_right))
        feature = np.where(leaf, 0, tree.feature)
        parts.append((feature, tree.threshold, left, right, tree.value[:, 0, -1]))
        roots.append(first)
        first += tree.node_count
    feature, threshold, left, right, value = (np.concatenate(columns) for columns in zip(*parts))
    depth = max(grown.tree_.max_depth for grown in forest.estimators_)
    return PlainTrees(feature, threshold, left, right, value, np.array(roots), int(depth))

"""Comparing regressors: folds, what labels mean, cross-validation and baselines."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

from sparsetoken import BagRegressor, Bags
from sparsetoken.estimators.folds import even_folds
from sparsetoken.estimators.learners import chosen_regressors, inferred_task
from sparsetoken.estimators.regression_evaluation import evaluate_regression, regression_splits

LIGHT = BagRegressor(lift=0, candidates=["pooled", "tied up", "tied down"])


def planted(seed: int, n: int = 150, length: int = 6, d: int = 8, sign: float = 1.0):
    """The label is `sign` times the largest first feature of the bag's tokens, and a little noise."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, length, d))
    return X, 100 + 10 * sign * (sign * X[:, :, 0]).max(axis=1) + rng.standard_normal(n), X[:, :, 0].argmax(axis=1)


def test_folds_are_even_in_the_targets():
    y = np.random.default_rng(8).standard_normal(53)
    folds = even_folds(y, np.random.default_rng(0))
    np.testing.assert_array_equal(np.sort(np.concatenate(folds)), np.arange(53))
    assert all(abs(y[held].mean() - y.mean()) < 0.25 for held in folds)
    assert even_folds(y[:1], np.random.default_rng(0)) == []


def test_what_labels_mean():
    assert inferred_task(np.array(["a", "b"]))[0] == "classification"
    assert inferred_task(np.array([0, 1, 2] * 30))[0] == "classification"
    assert inferred_task(np.array([0.5, 1.0]))[0] == "regression"
    assert inferred_task(np.arange(60))[0] == "regression"


def test_evaluation_and_baselines():
    X, y, _ = planted(9, n=60)
    bags = Bags(X)
    makers = {**chosen_regressors(["mean-pool ridge", "statistics forest"]), "light": lambda: clone(LIGHT)}
    splits = regression_splits(y, 3, 1, 0)
    found = {e.learner: e for e in evaluate_regression(bags, y, makers, splits) if e is not None}
    assert found["light"].r2 > found["mean-pool ridge"].r2 and found["light"].mae < found["light"].rmse
    with pytest.raises(ValueError, match="'pooled' tells classes apart"):
        chosen_regressors(["pooled"])
    with pytest.raises(ValueError, match="folds must lie between 2 and the 5 groups"):
        regression_splits(y, 6, 1, 0, np.arange(60) % 5)

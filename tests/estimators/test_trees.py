"""Trees as plain arrays: the same predictions as scikit-learn's, in model files too."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor

from sparsetoken.estimators.default import trees
from sparsetoken.estimators.default.trees import grow_trees, plain_trees


def plain(forest) -> trees.PlainTrees:
    return plain_trees([grown.tree_ for grown in forest.estimators_], log_odds=False)


def test_plain_trees_predict_as_grown(monkeypatch):
    monkeypatch.setattr(trees, "ROWS", 7)
    rng = np.random.default_rng(0)
    X, y, fresh = rng.standard_normal((60, 5)), rng.integers(0, 2, 60), rng.standard_normal((50, 5))
    weights, starts = rng.random(60), np.arange(50)
    grown = ExtraTreesClassifier(30, random_state=0).fit(X, y, weights)
    np.testing.assert_allclose(plain(grown).decide(fresh, starts), grown.predict_proba(fresh)[:, 1], rtol=1e-12)
    target = X[:, 0] ** 2
    regressor = ExtraTreesRegressor(30, random_state=0, min_samples_leaf=2).fit(X, target, weights)
    np.testing.assert_allclose(plain(regressor).decide(fresh, starts), regressor.predict(fresh), rtol=1e-12)
    stump = ExtraTreesRegressor(2, random_state=0).fit(X, np.full(60, 3.0))
    np.testing.assert_array_equal(plain(stump).decide(fresh, starts), 3.0)


@pytest.mark.parametrize("most", [2000, 50], ids=["all rows", "some rows"])
def test_trees_learn_a_product(most, monkeypatch):
    monkeypatch.setattr(trees, "MOST_ROWS", most)
    rng = np.random.default_rng(1)
    X, fresh = rng.standard_normal((400, 4)), rng.standard_normal((300, 4))
    votes = grow_trees(X, (X[:, 0] * X[:, 1] > 0).astype(float), np.ones(400), 0, log_odds=True)
    odds = votes.decide(fresh, np.arange(300))
    assert np.mean((odds > 0) == (fresh[:, 0] * fresh[:, 1] > 0)) > (0.85 if most == 2000 else 0.75)
    assert np.all(np.isfinite(odds)) and np.abs(odds).max() <= np.log(trees.TREES + 1.0) + 1e-9


def test_weights_of_zero_are_rows_left_out():
    rng = np.random.default_rng(2)
    X, y, weights = rng.standard_normal((40, 3)), rng.standard_normal(40), np.ones(40)
    y[:20] += 100.0
    weights[:20] = 0.0
    assert grow_trees(X, y, weights, 0, log_odds=False).decide(X, np.arange(40)).max() < 10.0


def test_numbers_that_lead_nowhere_are_refused():
    """A model file with wrong node numbers ends in an error, not in memory that is not its own."""
    from dataclasses import replace

    rng = np.random.default_rng(3)
    X = rng.standard_normal((30, 3))
    grown = grow_trees(X, X[:, 0], np.ones(30), 0, log_odds=False)
    with pytest.raises(IndexError):
        replace(grown, left=grown.left + 10**6, right=grown.right + 10**6).decide(X, np.arange(30))

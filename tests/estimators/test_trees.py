"""Trees as plain arrays: the same predictions as scikit-learn's, in model files too."""

from __future__ import annotations

import numpy as np
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor

from sparsetoken import BagClassifier, BagRegressor
from sparsetoken.estimators import trees
from sparsetoken.estimators.persistence import load_model, save_model
from sparsetoken.estimators.trees import plain_trees


def test_plain_trees_predict_as_grown(monkeypatch):
    monkeypatch.setattr(trees, "ROWS", 7)
    rng = np.random.default_rng(0)
    X, y, fresh = rng.standard_normal((60, 5)), rng.integers(0, 2, 60), rng.standard_normal((50, 5))
    weights = rng.random(60)
    grown = ExtraTreesClassifier(30, bootstrap=True, random_state=0).fit(X, y, weights)
    np.testing.assert_array_equal(plain_trees(grown).mean(fresh), grown.predict_proba(fresh)[:, 1])
    target = X[:, 0] ** 2
    regressor = ExtraTreesRegressor(30, bootstrap=True, random_state=0, min_samples_leaf=2).fit(X, target, weights)
    np.testing.assert_allclose(plain_trees(regressor).mean(fresh), regressor.predict(fresh), rtol=1e-14)
    stump = ExtraTreesRegressor(2, random_state=0).fit(X, np.full(60, 3.0))
    np.testing.assert_array_equal(plain_trees(stump).mean(fresh), 3.0)


def test_models_with_trees_can_be_saved(tmp_path):
    """Labels that only an interaction of two features explains, so that the trees have a share."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((100, 3, 4))
    both = (X[:, :, 0].max(axis=1) > 0.8).astype(int) ^ (X[:, :, 1].max(axis=1) > 0.8).astype(int)
    for model, y in (
        (BagClassifier(lift=0, candidates=["linear", "trees"], ridge=1.0), both),
        (BagRegressor(lift=0, candidates=["tied up", "trees"]), both + 0.1 * rng.standard_normal(100)),
    ):
        model.fit(X, y)
        assert any("trees" in member.name and member.share > 0 for member in model.members_)
        save_model(tmp_path / "model.skops", model)
        read = load_model(tmp_path / "model.skops")
        np.testing.assert_array_equal(read.predict(X), model.predict(X))

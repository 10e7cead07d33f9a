"""Trees as plain arrays: the same predictions as scikit-learn's, in model files too."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor

from sparsetoken import BagClassifier, BagRegressor
from sparsetoken.estimators import trees
from sparsetoken.estimators.persistence import load_model, save_model
from sparsetoken.estimators.trees import grow_trees, plain_trees


def plain(forest) -> trees.PlainTrees:
    return plain_trees([grown.tree_ for grown in forest.estimators_])


def test_plain_trees_predict_as_grown(monkeypatch):
    monkeypatch.setattr(trees, "ROWS", 7)
    rng = np.random.default_rng(0)
    X, y, fresh = rng.standard_normal((60, 5)), rng.integers(0, 2, 60), rng.standard_normal((50, 5))
    weights = rng.random(60)
    grown = ExtraTreesClassifier(30, bootstrap=True, random_state=0).fit(X, y, weights)
    np.testing.assert_array_equal(plain(grown).mean(fresh), grown.predict_proba(fresh)[:, 1])
    target = X[:, 0] ** 2
    regressor = ExtraTreesRegressor(30, bootstrap=True, random_state=0, min_samples_leaf=2).fit(X, target, weights)
    np.testing.assert_allclose(plain(regressor).mean(fresh), regressor.predict(fresh), rtol=1e-14)
    stump = ExtraTreesRegressor(2, random_state=0).fit(X, np.full(60, 3.0))
    np.testing.assert_array_equal(plain(stump).mean(fresh), 3.0)


def test_trees_are_grown_as_in_forests():
    rng = np.random.default_rng(2)
    X, fresh, weights = rng.standard_normal((80, 12)), rng.standard_normal((50, 12)), rng.uniform(0.5, 2.0, 80)
    target = X[:, 0] * X[:, 1] + 0.3 * rng.standard_normal(80)
    options = {"max_features": 0.3, "bootstrap": True, "oob_score": True, "random_state": 3}
    forest = ExtraTreesRegressor(40, min_samples_leaf=2, **options).fit(X, target, weights)
    grown, unseen = grow_trees(X, target, weights, 40, 0.3, 3, least=2)
    # Forests before scikit-learn 1.9 draw their samples without weights: then the trees agree in what they say on the whole.
    exact = np.allclose(grown.mean(fresh), forest.predict(fresh), rtol=1e-12)
    assert exact == np.allclose(unseen, forest.oob_prediction_, rtol=1e-12)
    assert exact or np.corrcoef(grown.mean(fresh), forest.predict(fresh))[0, 1] > 0.9
    # Least squares of 0 and 1 splits as Gini's index does, but for ties that rounding breaks in one of many trees.
    classes = ExtraTreesClassifier(40, **options).fit(X, target > 0, weights)
    shares, _ = grow_trees(X, (target > 0).astype(float), weights, 40, 0.3, 3)
    assert np.abs(shares.mean(fresh) - classes.predict_proba(fresh)[:, 1]).max() < (0.11 if exact else 0.3)
    _, alone = grow_trees(X[:2], target[:2], np.array([1.0, 1e-12]), 3, 1.0, 0)
    assert np.isnan(alone[0]) and np.isfinite(alone[1])  # a row that every tree has seen, and one that none has


def test_trees_that_have_not_seen_a_group_score_it():
    """Labels that nothing tells but the group: siblings give each other away, unless groups are drawn together."""
    rng = np.random.default_rng(5)
    groups = np.repeat(np.arange(40), 3)
    X = rng.standard_normal((40, 6))[groups] + 0.01 * rng.standard_normal((120, 6))
    target, weights = rng.integers(0, 2, 40)[groups].astype(float), rng.uniform(0.5, 2.0, 120)
    _, betrayed = grow_trees(X, target, weights, 60, 0.5, 0)
    _, honest = grow_trees(X, target, weights, 60, 0.5, 0, groups=groups * 7 + 2)
    assert np.mean((betrayed > 0.5) == target) > 0.9
    assert np.mean((honest > 0.5) == target) < 0.7
    # Groups of one row are rows: the same trees.
    alone, unseen = grow_trees(X[::3], target[::3], weights[::3], 20, 0.5, 0, groups=np.arange(40))
    rows, expected = grow_trees(X[::3], target[::3], weights[::3], 20, 0.5, 0)
    np.testing.assert_allclose(unseen, expected)
    np.testing.assert_allclose(alone.mean(X), rows.mean(X))


@pytest.mark.parametrize("count", [10, 40])
def test_siblings_do_not_score_each_other_in_the_vote(count):
    """Few groups (scored by folds) and many (by samples of groups): what only the group tells is not held-out evidence."""
    rng = np.random.default_rng(6)
    groups = np.repeat(np.arange(count), 80 // count)
    X = rng.standard_normal((count, 3, 6))[groups] + 0.05 * rng.standard_normal((80, 3, 6))
    y = rng.permutation(np.arange(count) % 2)[groups]
    losses = [
        BagClassifier(candidates=["linear", "trees"], lift=0, ridge=1.0)
        .fit(X, y, groups=own)
        .diagnostics_["held_out_losses"]["trees"]
        for own in (groups, np.arange(80))
    ]
    assert losses[1] < 0.2 < 0.4 < losses[0], losses


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


def test_the_best_places_to_split_tell_one_feature_among_many():
    rng = np.random.default_rng(7)
    X = rng.standard_normal((400, 60))
    target = (X[:, 0] > 0.5).astype(float)
    told = {}
    for best in (False, True):
        trees, unseen = grow_trees(X, target, np.ones(400), 30, 0.12, 0, best=best, most=300)
        told[best] = np.mean(np.abs(unseen - target))
        assert np.all(np.isfinite(unseen)) and len(trees.roots) == 30
    assert told[True] < 0.7 * told[False]
    # A small sample makes small trees, and leaves every row unseen by some of them.
    trees, unseen = grow_trees(X, target, np.ones(400), 5, 0.5, 0, best=True, most=10)
    assert len(trees.feature) <= 5 * 19 and np.all(np.isfinite(unseen))

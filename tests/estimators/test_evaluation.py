"""Comparing learners: what labels mean, cross-validation, baselines, and how an evaluation shows itself."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

from sparsetoken import BagRegressor, Bags, PooledClassifier
from sparsetoken.estimators.evaluation import (
    area_error,
    evaluate,
    evaluate_regression,
    regression_splits,
    stratified_splits,
)
from sparsetoken.estimators.learners import ABMIL, LEARNERS, chosen_learners, inferred_task

LIGHT = BagRegressor(lift=0, candidates=["pooled", "tied"])


def planted(seed: int, n: int = 150, length: int = 6, d: int = 8, sign: float = 1.0):
    """The label is `sign` times the largest first feature of the bag's tokens, and a little noise."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, length, d))
    return X, 100 + 10 * sign * (sign * X[:, :, 0]).max(axis=1) + rng.standard_normal(n), X[:, :, 0].argmax(axis=1)


def test_what_labels_mean():
    assert inferred_task(np.array(["a", "b"]))[0] == "classification"
    assert inferred_task(np.array([0, 1, 2] * 30))[0] == "classification"
    assert inferred_task(np.array([0.5, 1.0]))[0] == "regression"
    assert inferred_task(np.arange(60))[0] == "regression"


def test_evaluation_and_baselines():
    X, y, _ = planted(9, n=60)
    bags = Bags(X)
    makers = {
        **chosen_learners(["mean-pool ridge", "statistics forest"], bags, regression=True),
        "light": lambda: clone(LIGHT),
    }
    splits = regression_splits(60, 3, 1, 0)
    found = {e.learner: e for e in evaluate_regression(bags, y, makers, splits) if e is not None}
    assert found["light"].r2 > found["mean-pool ridge"].r2 and found["light"].mae < found["light"].rmse
    with pytest.raises(ValueError, match="'pooled' tells classes apart"):
        chosen_learners(["pooled"], bags, regression=True)
    with pytest.raises(ValueError, match="folds must lie between 2 and the 5 groups"):
        regression_splits(60, 6, 1, 0, np.arange(60) % 5)


def test_an_evaluation_shows_roc_calibration_and_thresholds():
    rng = np.random.default_rng(3)
    X, y = rng.standard_normal((120, 4, 5)), np.arange(120) % 2
    X[y == 1, :, 0] += 0.8
    splits = stratified_splits(y, 3, 2, 0)
    *_, found = evaluate(Bags(X), y, {"pooled": PooledClassifier}, splits)
    assert area_error(0.8, 10, 40) == pytest.approx(area_error(0.8, 40, 10))  # names of classes decide nothing
    low, high = found.auc_interval
    assert low < found.auc < high < 1 and f"AUC {found.auc:.3f}" in repr(found)
    assert (high - low) / (2 * 1.96 * found.auc_error) == pytest.approx(1.0, abs=0.15)
    table = found.frame()
    assert (np.diff(table["sensitivity"]) <= 0).all() and (np.diff(table["specificity"]) >= 0).all()
    half = table[np.isclose(table["threshold"], 0.5)]
    assert half["accuracy"].item() == pytest.approx(found.accuracy)
    roc, calibration, thresholds = found.plot()
    line = roc.lines[0].get_xydata()
    area = np.trapezoid(line[:, 1], line[:, 0])
    assert area == pytest.approx(np.mean([found.auc]), abs=0.02)
    assert "predicted probability" in calibration.get_xlabel() and len(thresholds.lines) == 3
    several = evaluate(
        Bags(X), np.arange(120) % 3, {"pooled": PooledClassifier}, stratified_splits(np.arange(120) % 3, 3, 1, 0)
    )
    *_, more = several
    with pytest.raises(ValueError, match="two classes"):
        more.plot()


def test_gated_attention_is_offered_where_it_can_run(monkeypatch):
    bags = Bags(np.zeros((4, 2, 3)))
    monkeypatch.setattr("sparsetoken.estimators.learners.find_spec", lambda name: None)
    assert ABMIL not in chosen_learners([], bags)
    with pytest.raises(ValueError, match="needs PyTorch"):
        LEARNERS[ABMIL].make()
    monkeypatch.setattr("sparsetoken.estimators.learners.find_spec", lambda name: object())
    assert ABMIL in chosen_learners([], bags)


@pytest.mark.slow  # importing PyTorch takes seconds
def test_gated_attention_learns():
    pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((300, 6, 8)), np.arange(300) % 2
    X[y == 1, 0, 0] += 4.0
    *_, found = evaluate(Bags(X), y, {ABMIL: LEARNERS[ABMIL].make}, stratified_splits(y, 3, 1, 0))
    assert found.auc > 0.9
    *_, three = evaluate(
        Bags(X), np.arange(300) % 3, {ABMIL: LEARNERS[ABMIL].make}, stratified_splits(np.arange(300) % 3, 3, 1, 0)
    )
    assert three.scores.shape == (1, 300, 3) and np.allclose(np.exp(three.scores).sum(axis=2), 1.0, atol=1e-5)

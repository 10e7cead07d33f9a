"""Bags unlike all training bags: predictions are shrunk towards the class frequencies, and nothing else is touched."""

from __future__ import annotations

import numpy as np
import pytest

from sparsetoken import BagClassifier, BagRegressor, Bags, PooledClassifier
from sparsetoken.estimators.out_of_distribution import MARGIN, fit_range
from tests.helpers import planted_bags


def test_distances_are_those_of_means_and_spreads():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 6, 4)) * [1, 10, 100, 0] + 5
    found, rows = fit_range(Bags(X))
    z = (X - X.mean(axis=(0, 1))) / np.where([1, 1, 1, 0], X.std(axis=(0, 1)), 1)
    np.testing.assert_allclose(rows, np.hstack([z.mean(axis=1), z.std(axis=1)]), atol=1e-9)
    np.testing.assert_array_equal(found.factors(Bags(X)), 1.0)
    far = X + [3, 30, 300, 0]
    moved = found.scaler.scaled(far.reshape(-1, 4)).reshape(X.shape)
    deviations = (np.hstack([moved.mean(axis=1), moved.std(axis=1)]) - found.center) / found.spread
    distance = np.sqrt(np.mean(deviations**2, axis=1))
    np.testing.assert_allclose(found.factors(Bags(far)), (MARGIN * found.farthest / distance) ** 2)


@pytest.mark.parametrize("model", [PooledClassifier(), BagClassifier(lift=20)], ids=["pooled", "bag-classifier"])
def test_gross_shifts_bring_the_odds_to_the_frequencies(model):
    bags, labels, _ = planted_bags(0, n=120, prevalence=0.3)
    model.fit(bags, labels)
    prior = np.log(labels.mean() / (1 - labels.mean()))
    moved = model.decision_function([b + 4.0 for b in bags])
    usual = model.decision_function(bags)
    assert np.abs(moved - prior).max() < 0.35 * np.abs(usual - prior).max()
    fresh, _, _ = planted_bags(1, n=300, prevalence=0.3)
    assert np.mean(model.range_.factors(Bags(fresh)) < 1.0) < 0.01


def test_predictions_of_numbers_go_to_the_mean_label():
    rng = np.random.default_rng(2)
    X = rng.standard_normal((100, 5, 6))
    y = 50 + 10 * X[:, :, 0].mean(axis=1)
    model = BagRegressor(lift=0, candidates=["pooled"]).fit(X, y)
    assert np.abs(model.predict(X + 5.0) - y.mean()).max() < 0.5 * np.abs(model.predict(X) - y.mean()).max()

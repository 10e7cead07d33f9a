"""Pooled and vectorized classifiers against scikit-learn's logistic regression."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from sparsetoken import (
    PooledClassifier,
    VectorizedClassifier,
)
from tests.helpers import planted_bags


def test_pooled_and_vectorized_match_logistic_regression():
    bags, labels, _ = planted_bags(16, n=150, d=4)
    pooled = PooledClassifier(ridge=0.05, scale=False).fit(bags, labels)
    reference = LogisticRegression(C=1 / (0.05 * 150), tol=1e-10, max_iter=5000)
    means = np.array([b.mean(axis=0) for b in bags])
    np.testing.assert_allclose(pooled.coef_, reference.fit(means, labels).coef_, rtol=1e-4)
    flat = np.array([b.ravel() for b in bags])
    vectorized = VectorizedClassifier(ridge=0.05, scale=False).fit(bags, labels)
    np.testing.assert_allclose(vectorized.coef_, reference.fit(flat, labels).coef_, rtol=1e-3, atol=1e-6)
    assert vectorized.token_coef_.shape == (6, 4)
    with pytest.raises(ValueError, match="bag 0 has 5 tokens, the training bags had 6"):
        vectorized.predict([b[:5] for b in bags])


def test_numbers_of_a_user_mean_exactly_that():
    bags, labels, _ = planted_bags(8, n=60, d=40, strength=9.0)
    model = PooledClassifier(ridge=1e-8, scale=False).fit(bags, labels)
    raw = [b.mean(axis=0) @ model.coef_[0] + model.intercept_[0] for b in bags]
    np.testing.assert_allclose(model.decision_function(bags), raw, rtol=1e-9)
    assert np.abs(raw).max() > np.log(60)

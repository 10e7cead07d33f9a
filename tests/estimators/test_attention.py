"""The paper's attention as an estimator: its definition, its split, and rare classes."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from sparsetoken import (
    AttentionClassifier,
    Bags,
)
from sparsetoken.bags import temporary_files
from sparsetoken.estimators.base import TrainingWarning
from sparsetoken.estimators.paper import staged
from sparsetoken.estimators.paper.two_steps import noise_scales, pooled_tokens
from sparsetoken.losses import get_loss
from tests.helpers import planted_bags

from .settings import STAGED


def test_staged_training_is_the_definition():
    """Query of unit noise spread times the sharpness, features X^T softmax(X q), and the minimiser's gradient zero."""
    bags, labels, _ = planted_bags(15, n=200, d=5)
    model = AttentionClassifier(**STAGED).set_params(split="reuse").fit(bags, labels)
    data, signs = Bags(bags), np.where(labels == 1, 1.0, -1.0)
    (spread,), (side,) = noise_scales(data, pooled_tokens(data), signs, np.ones((1, len(signs))), model.query_[None, :])
    np.testing.assert_allclose(spread, 1.5, rtol=1e-10)
    noise = np.concatenate([bag - bag.mean(axis=0) for bag, y in zip(bags, labels) if y == 0]) @ model.query_
    np.testing.assert_allclose(spread, np.sqrt(np.sum(noise**2) / np.sum((data.lengths - 1)[labels == 0])), rtol=1e-10)
    assert side == model.side_ == 1.0 and model.diagnostics_["signal_class"] == 1
    features = []
    for bag in bags:
        a = np.exp(bag @ model.query_)
        features.append((a / a.sum()) @ bag)
    np.testing.assert_allclose(model.transform(bags), features, rtol=1e-9)
    z = features @ model.coef_[0] + model.intercept_
    np.testing.assert_allclose(model.decision_function(bags), z, rtol=1e-9)
    slope = get_loss("logistic").slope(z, signs) / len(signs)
    np.testing.assert_allclose(slope @ np.array(features) + 1e-2 * model.coef_[0], 0, atol=1e-8)
    assert abs(slope.sum()) < 1e-8


def test_a_rare_class_cannot_turn_the_query_round():
    """Three per cent positives: with a bias that has not followed, the query points away from the signal."""
    bags, labels, _ = planted_bags(12, n=3000, strength=6.0, prevalence=0.03, d=4)
    with pytest.warns(TrainingWarning, match="anti-aligned"):
        turned = AttentionClassifier(eta_b=0.0, **STAGED).fit(bags, labels)
    assert turned.query_.sum() < 0
    for loss in ("logistic", "square", "smoothed_hinge"):
        model = AttentionClassifier(loss=loss, **STAGED).fit(bags, labels)
        assert model.query_.sum() > 0 and model.diagnostics_["query_statistic"] > 2


def test_split_reports_what_happened():
    bags, labels, _ = planted_bags(13, n=40, d=4)
    assert AttentionClassifier(split=0.3, sharpness=1.0).fit(bags, labels).split_ == 0.3
    rare = np.zeros(40, dtype=int)
    rare[:1] = 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TrainingWarning)
        assert AttentionClassifier(split=0.3, sharpness=1.0, ridge=0.1).fit(bags, rare).split_ == "reuse"


def test_features_of_few_settings_at_a_time_are_the_same(monkeypatch):
    """Features of all settings are made in as few passes over the tokens as memory allows; that must not show."""
    rng = np.random.default_rng(8)
    X, y = rng.standard_normal((60, 5, 6)), np.arange(60) % 2
    X[y == 1, 0, 0] += 4.0
    model = AttentionClassifier(sharpness=1.5, ridge=0.1)
    together = model.fit(X, y).decision_function(X)
    monkeypatch.setattr(staged, "FEATURE_BYTES", 1)
    monkeypatch.setattr(temporary_files, "BLOCK_BYTES", 2000)  # and tokens some bags at a time
    np.testing.assert_allclose(model.fit(X, y).decision_function(X), together, rtol=1e-9)


def test_a_second_product_finds_weak_signals_in_long_bags():
    """Chosen by held-out bags; as the theory of recovery says, the query's cosine rises."""
    from sparsetoken import Task
    from sparsetoken.simulation.samplers.tensor import sample_bags

    tokens, labels, signal = sample_bags(Task(length=150, strength=5.5), 500, 30, 5)
    fixed = {"split": 0.5, "sharpness": 3.0, "ridge": 0.03, "scale": False}
    cosines = []
    for way in ("steps", "products:2"):
        query = AttentionClassifier(query_by=way, **fixed).fit(tokens[:120], labels[:120]).query_
        cosines.append(query @ signal / np.linalg.norm(query))
    assert cosines[1] > cosines[0] + 0.1
    steps, chosen = (AttentionClassifier(query_by=way).fit(tokens[:120], labels[:120]) for way in ("steps", "auto"))
    assert (steps.query_by_, chosen.query_by_) == ("steps", "products:2")
    assert chosen.score(tokens[120:], labels[120:]) > steps.score(tokens[120:], labels[120:])


def test_queries_by_products():
    """On given numbers nothing is held out, so "auto" stays with the theory's steps; the side of the signal is kept."""
    bags, labels, _ = planted_bags(15, n=120, d=5)
    assert AttentionClassifier(**STAGED).fit(bags, labels).query_by_ == "steps"
    one, other = (AttentionClassifier(**STAGED, query_by="products:2").fit(bags, y) for y in (labels, 1 - labels))
    np.testing.assert_allclose(one.query_, other.query_, rtol=1e-8)
    with pytest.raises(ValueError, match="query_by must be auto, steps"):
        AttentionClassifier(query_by="eigenvector").fit(bags, labels)
    with pytest.raises(ValueError, match="needs eta_b='auto'"):
        AttentionClassifier(query_by="products:2", eta_b=1.0).fit(bags, labels)
    with pytest.raises(ValueError, match="query_by must be left"):
        AttentionClassifier(training="joint", query_by="steps").fit(bags, labels)

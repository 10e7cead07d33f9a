"""The likelihood ratio as a candidate of the default learner: where its model holds, and where it does not."""

from __future__ import annotations

import numpy as np
import pytest

from sparsetoken import BagClassifier, Bags, Task
from sparsetoken.estimators.calibration import area_under_curve
from sparsetoken.estimators.default.candidates import looks_gaussian
from sparsetoken.estimators.message_passing.likelihood_ratio import fit_ratio
from sparsetoken.estimators.persistence import load_model, save_model
from sparsetoken.theory import bayes_limit

D = 60
pytestmark = pytest.mark.filterwarnings("ignore::sparsetoken.estimators.base.TrainingWarning")


def model_bags(seed, n=400, length=6, strength=5.0, d=D):
    """Bags by the definition of the model, and which tokens carry the signal."""
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % 2
    tokens = rng.standard_normal((n, length, d))
    witness = np.zeros((n, length), dtype=bool)
    witness[np.flatnonzero(labels == 1), rng.integers(length, size=n // 2)] = True
    tokens[witness] += strength / np.sqrt(d)
    return tokens, labels, witness


def signs_of(labels):
    return np.where(labels == 1, 1.0, -1.0)


def test_where_the_model_holds_the_likelihood_ratio_comes_near_the_limit(tmp_path):
    X, y, witness = model_bags(0, n=3400)
    X[:, :, 0] = 1e3 + 50.0 * X[:, :, 0]  # units and origins do not matter
    model = BagClassifier(candidates=["likelihood"]).fit(X[:400], y[:400])
    assert model.diagnostics_["signal_class"] == 1
    limit = bayes_limit(Task(length=6, strength=5.0), 400 / D).reachable_test_error
    assert np.mean(model.predict(X[400:]) != y[400:]) < 1.3 * limit + 0.005
    assert area_under_curve(np.concatenate(model.token_scores(X[400:])), witness[400:].ravel()) > 0.98
    weights = model.attention_weights(X[400:500])
    np.testing.assert_allclose([w.sum() for w in weights], 1.0)
    assert model.transform(X[:5]).shape == (5, D) == (5, len(model.get_feature_names_out()))
    p = model.predict_proba(X[400:])[:, 1]
    sure = p > 0.9
    assert y[400:][sure].mean() == pytest.approx(p[sure].mean(), abs=0.03)
    pytest.importorskip("skops")
    save_model(tmp_path / "model.skops", model)
    np.testing.assert_array_equal(load_model(tmp_path / "model.skops").predict_proba(X[400:500])[:, 1], p[:100])


def uniform(rng, X, y):
    return rng.uniform(-1.0, 1.0, X.shape)


def heavy(rng, X, y):
    return rng.standard_t(4, X.shape)


def marks(rng, X, y):
    return (X > 1.5) * 1.0


def constant(rng, X, y):
    return np.concatenate([X[:, :, :-1], np.ones_like(X[:, :, :1])], axis=2)


@pytest.mark.parametrize("other", [uniform, heavy, marks, constant])
def test_tokens_unlike_the_models_are_told_at_once(other):
    X, y, _ = model_bags(1)
    assert looks_gaussian(Bags(X), signs_of(y))
    assert not looks_gaussian(Bags(other(np.random.default_rng(2), X, y)), signs_of(y))


def test_few_bags_or_features_are_not_worth_the_look():
    X, y, _ = model_bags(1)
    assert not looks_gaussian(Bags(X[:100]), signs_of(y[:100]))
    assert not looks_gaussian(Bags(X[:, :, :10]), signs_of(y))


def test_coloured_noise_is_whitened_and_competes_with_the_others():
    X, y, _ = model_bags(3, n=1200)
    mix = np.linalg.qr(np.random.default_rng(4).standard_normal((D, D)))[0] * np.geomspace(0.2, 3.0, D)
    coloured = X @ mix.T
    bags, signs = Bags(coloured[:400]), signs_of(y[:400])
    assert looks_gaussian(bags, signs)
    model = BagClassifier(candidates=["pooled", "likelihood"]).fit(coloured[:400], y[:400])
    losses = model.diagnostics_["held_out_losses"]
    assert len(losses) == 2 and min(losses, key=losses.get) == "likelihood"
    assert model.score(coloured[400:], y[400:]) > 0.9


def test_siblings_of_a_group_do_not_vouch_for_each_other():
    """Three near copies of every bag of pure noise: seen apart they give each other away."""
    rng = np.random.default_rng(7)
    base = np.repeat(rng.standard_normal((400, 4, 40)), 3, axis=0)
    X, y = base + 0.01 * rng.standard_normal(base.shape), np.repeat(np.arange(400) % 2, 3)
    groups = np.repeat(np.arange(400), 3)
    aware = BagClassifier(candidates=["likelihood"]).fit(X, y, groups=groups)
    assert aware.diagnostics_["held_out_auc"] < 0.6


def test_strength_and_count_are_those_of_the_model():
    X, y, _ = model_bags(8)
    fit = fit_ratio(Bags(X), signs_of(y), np.ones(len(y)))
    assert fit.ratio.prior.count == 1 and fit.ratio.strength == pytest.approx(5.0, rel=0.15)
    assert fit.messages.converged

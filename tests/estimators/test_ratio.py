"""The likelihood ratio as a candidate of the default learner: where its model holds, and where it does not."""

from __future__ import annotations

import numpy as np
import pytest

from sparsetoken import BagClassifier, Bags, Task
from sparsetoken.estimators.calibration import area_under_curve
from sparsetoken.estimators.message_passing.amp import SEARCH
from sparsetoken.estimators.message_passing.fitting import two_classes
from sparsetoken.estimators.message_passing.ratio import could_hold, fit_ratio, noise_of
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


def test_where_the_model_holds_the_likelihood_ratio_decides_alone(tmp_path):
    X, y, witness = model_bags(0, n=3400)
    X[:, :, 0] = 1e3 + 50.0 * X[:, :, 0]  # units and origins do not matter
    model = BagClassifier().fit(X[:400], y[:400])
    assert model.diagnostics_["model_holds"] and [m.name for m in model.members_] == ["likelihood"]
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
    assert could_hold(Bags(X), signs_of(y))
    assert not could_hold(Bags(other(np.random.default_rng(2), X, y)), signs_of(y))


def test_few_bags_or_features_are_not_worth_the_look():
    X, y, _ = model_bags(1)
    assert not could_hold(Bags(X[:100]), signs_of(y[:100]))
    assert not could_hold(Bags(X[:, :, :10]), signs_of(y))


def test_coloured_noise_is_whitened_and_competes_with_the_others():
    X, y, _ = model_bags(3, n=1200)
    mix = np.linalg.qr(np.random.default_rng(4).standard_normal((D, D)))[0] * np.geomspace(0.2, 3.0, D)
    coloured = X @ mix.T
    bags, signs = Bags(coloured[:400]), signs_of(y[:400])
    assert could_hold(bags, signs)
    assert noise_of(bags, signs).whitening is not None and noise_of(Bags(X[:400]), signs).whitening is None
    model = BagClassifier(candidates=["linear", "likelihood"]).fit(coloured[:400], y[:400])
    losses = model.diagnostics_["held_out_losses"]
    assert not model.diagnostics_["model_holds"] and len(losses) > 1
    assert min(losses, key=losses.get) == "likelihood"
    assert model.score(coloured[400:], y[400:]) > 0.9


def longer_positives(rng, X, y):
    return [x if label else x[:4] for x, label in zip(X, y)]


def two_directions(rng, X, y):
    X = X.copy()
    X[y == 1, 0] += np.where(np.arange(D) < D // 2, 8.0, -8.0) / np.sqrt(D) * rng.choice([-1.0, 1.0], (y.sum(), 1))
    return X


def unrelated(rng, X, y):
    return rng.permutation(X)


@pytest.mark.parametrize("other", [longer_positives, two_directions, unrelated])
def test_what_speaks_against_the_model_lets_the_others_compete(other):
    X, y, _ = model_bags(5)
    model = BagClassifier(candidates=["linear", "likelihood"], lift=0)
    model.fit(other(np.random.default_rng(6), X, y), y)
    assert not model.diagnostics_["model_holds"]
    assert {name.split()[0] for name in model.diagnostics_["held_out_losses"]} == {"linear", "likelihood"}


def test_siblings_of_a_group_do_not_vouch_for_each_other():
    """Three near copies of every bag of pure noise: seen apart they give each other away."""
    rng = np.random.default_rng(7)
    base = np.repeat(rng.standard_normal((400, 4, 40)), 3, axis=0)
    X, y = base + 0.01 * rng.standard_normal(base.shape), np.repeat(np.arange(400) % 2, 3)
    groups = np.repeat(np.arange(400), 3)
    aware = BagClassifier(candidates=["likelihood"]).fit(X, y, groups=groups)
    assert aware.diagnostics_["held_out_auc"] < 0.6


def test_the_fit_of_a_fold_keeps_the_number_of_signal_tokens():
    X, y, _ = model_bags(8)
    bags, signs, weights = Bags(X), signs_of(y), np.ones(len(y))
    whole = fit_ratio(bags, signs, weights)
    classes = two_classes(bags[:300], signs[:300], weights[:300], None, False)
    part = classes.fit(whole.found.prior, SEARCH, whole.found.strength)
    assert part.prior == whole.found.prior
    assert part.strength == pytest.approx(5.0, rel=0.15) and whole.excess_variance < 1.5

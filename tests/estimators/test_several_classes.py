"""More than two classes: one learner per class against the others, probabilities calibrated together."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

from sparsetoken import (
    AttentionClassifier,
    BagClassifier,
    Bags,
    ElementwiseAttentionClassifier,
    MessagePassingClassifier,
    PooledClassifier,
    VectorizedClassifier,
)
from sparsetoken.estimators.evaluation import evaluate, stratified_splits
from sparsetoken.estimators.persistence import load_model, save_model
from sparsetoken.estimators.several_classes import fit_joint_calibration

LIGHT = [
    BagClassifier(lift=0, candidates=["tied"], ridge=0.1),
    AttentionClassifier(split=0.5, sharpness=1.5),
    AttentionClassifier(training="tied"),
    ElementwiseAttentionClassifier(split=0.5, sharpness=1.5),
    PooledClassifier(),
    VectorizedClassifier(),
    MessagePassingClassifier(sparsity=1),
]
NAMES = ["bag-classifier", "staged", "tied", "elementwise", "pooled", "vectorized", "message-passing"]


def planted(seed: int, n: int, length: int = 4, d: int = 8, strength: float = 4.0):
    """Bags of classes "a" (noise), "b" and "c" (one token shifted along the first, the second axis), and that token."""
    rng = np.random.default_rng(seed)
    X, codes, places = rng.standard_normal((n, length, d)), rng.integers(3, size=n), rng.integers(length, size=n)
    for i in np.flatnonzero(codes):
        X[i, places[i], codes[i] - 1] += strength
    return X, np.array(["a", "b", "c"])[codes], places


@pytest.mark.parametrize("estimator", LIGHT, ids=NAMES)
def test_three_classes(estimator, tmp_path):
    X, y, _ = planted(0, 240)
    fresh, truth, places = planted(1, 300)
    model = clone(estimator).fit(X, y)
    probabilities = model.predict_proba(fresh)
    assert probabilities.shape == (300, 3) and list(model.classes_) == ["a", "b", "c"]
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, rtol=1e-12)
    assert model.decision_function(fresh).shape == (300, 3)
    np.testing.assert_array_equal(model.predict(fresh), model.classes_[probabilities.argmax(axis=1)])
    np.testing.assert_allclose(np.exp(model.predict_log_proba(fresh)), probabilities, rtol=1e-9)
    least = {"vectorized": 0.5, "pooled": 0.55, "elementwise": 0.6}.get(NAMES[LIGHT.index(estimator)], 0.75)
    assert model.score(fresh, truth) > least
    loss = -np.mean(np.log(probabilities[np.arange(300), np.searchsorted(model.classes_, truth)]))
    assert loss < 0.95 * np.log(3)
    # Calibrated together: each class is as frequent as it is said to be, within four standard errors.
    for k, label in enumerate(model.classes_):
        error = np.sqrt(np.sum(probabilities[:, k] * (1 - probabilities[:, k]))) / 300
        assert abs(probabilities[:, k].mean() - np.mean(truth == label)) < 4 * error + 0.02
    save_model(tmp_path / "model.skops", model)
    np.testing.assert_array_equal(load_model(tmp_path / "model.skops").predict_proba(fresh), probabilities)
    if hasattr(model, "transform"):
        assert model.transform(fresh[:5]).shape == (5, len(model.get_feature_names_out()))
    if hasattr(model, "token_scores"):
        weights, scores = model.attention_weights(fresh), model.token_scores(fresh)
        assert weights[0].shape == scores[0].shape == (4, 3)
        np.testing.assert_allclose([w.sum(axis=0) for w in weights], 1.0, rtol=1e-6)
        for k, label in enumerate("bc", start=1):
            found = [np.argmax(s[:, k]) == place for s, place, t in zip(scores, places, truth) if t == label]
            assert np.mean(found) > 0.85


def test_a_binary_learner_is_untouched():
    X, y, _ = planted(2, 90)
    two = y != "c"
    model = PooledClassifier().fit(X, y)
    assert len(model.estimators_) == 3 and model.coef_.shape == (3, 8) and model.intercept_.shape == (3,)
    again = model.fit(X[two], y[two])
    assert not hasattr(again, "estimators_") and again.decision_function(X).shape == (90,)
    np.testing.assert_array_equal(
        again.decision_function(X), PooledClassifier().fit(X[two], y[two]).decision_function(X)
    )
    np.testing.assert_array_equal(
        PooledClassifier().fit(X, y).estimators_[2].decision_function(X),
        PooledClassifier().fit(X, y == "c").decision_function(X),
    )


def test_class_weights():
    X, y, _ = planted(4, 150)
    rare = np.flatnonzero((y != "c") | (np.cumsum(y == "c") <= 12))
    plain, even = (PooledClassifier(class_weight=w).fit(X[rare], y[rare]) for w in (None, "balanced"))
    assert even.predict_proba(X)[:, 2].mean() > plain.predict_proba(X)[:, 2].mean() + 0.05
    with pytest.raises(ValueError, match="class 'c' has none"):
        PooledClassifier(class_weight={"c": 0.0}).fit(X, y)


def test_noise_is_brought_back_to_the_class_frequencies():
    rng = np.random.default_rng(5)
    X, y = rng.standard_normal((120, 3, 10)), rng.choice(4, 120, p=[0.5, 0.3, 0.1, 0.1])
    model = PooledClassifier()
    with pytest.warns(UserWarning, match="class 1 against the others: signal too weak"):
        model.fit(X, y)
    share = np.bincount(y) / 120
    assert np.abs(model.predict_proba(rng.standard_normal((50, 3, 10))) - share).max() < 0.05


def test_joint_calibration_of_right_odds_changes_little_and_repairs_wrong_ones():
    rng = np.random.default_rng(6)
    truth = rng.dirichlet([0.5, 0.5, 0.5], 3000)
    codes = np.array([rng.choice(3, p=p) for p in truth])
    odds = np.log(truth) - np.log1p(-truth)
    found = fit_joint_calibration(odds, codes, np.ones(3000))
    assert abs(found.slope - 1) < 0.15 and np.abs(found.offsets - found.offsets.mean()).max() < 0.15
    wrong = fit_joint_calibration(3 * odds + [1.0, 0.0, -1.0], codes, np.ones(3000))
    assert np.exp(found(odds)).sum(axis=1) == pytest.approx(1.0)
    loss = {name: -np.mean(c(o)[np.arange(3000), codes]) for name, c, o in (
        ("right", found, odds), ("repaired", wrong, 3 * odds + [1.0, 0.0, -1.0]))}  # fmt: skip
    entropy = -np.mean(np.log(truth[np.arange(3000), codes]))
    assert loss["right"] < entropy + 0.01 and loss["repaired"] < entropy + 0.1


def test_evaluate_takes_several_classes():
    X, y, _ = planted(7, 90)
    makers = {"pooled": PooledClassifier}
    *_, found = evaluate(Bags(X), y, makers, stratified_splits(y, 3, 1, 0))
    assert 0.5 < found.accuracy < 1 and 0.6 < found.auc < 1 and found.log_loss < np.log(3)
    assert found.scores.shape == (1, 90, 3)


@pytest.mark.filterwarnings("ignore::sparsetoken.estimators.base.TrainingWarning")
@pytest.mark.parametrize("labels", [[0, 1, 2], [0, 1, 2] * 2 + [3]], ids=["three bags", "a lone bag"])
def test_classes_of_one_bag(labels):
    """Nothing can be held out of a class of one bag: probabilities are there all the same."""
    X = np.random.default_rng(8).standard_normal((len(labels), 2, 3))
    probabilities = PooledClassifier().fit(X, labels).predict_proba(X)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    assert probabilities.min() > 0.01 and probabilities.max() < 0.99

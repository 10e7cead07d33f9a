"""Changes that carry no information leave the predictions as they are: names of classes, order and sign of features, ..."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

from sparsetoken import (
    AttentionClassifier,
    BagClassifier,
    BagRegressor,
    Bags,
    ElementwiseAttentionClassifier,
    MessagePassingClassifier,
    PooledClassifier,
    VectorizedClassifier,
)

LEARNERS = [
    BagClassifier(),
    BagRegressor(),
    AttentionClassifier(),
    AttentionClassifier(training="tied"),
    AttentionClassifier(training="joint"),
    ElementwiseAttentionClassifier(),
    MessagePassingClassifier(),
    PooledClassifier(),
    VectorizedClassifier(),
]
NAMES = ["bag-classifier", "bag-regressor", "staged", "tied", "joint", "elementwise", "message-passing", "pooled"]
NAMES.append("vectorized")
CLASSIFIERS = [(name, one) for name, one in zip(NAMES, LEARNERS) if name != "bag-regressor"]
FITS = {"rtol": 0, "atol": 1e-5}


def drawn(seed=0, n=90, length=6, d=8):
    """Bags one token of which is large where the label is 1; features that are skewed, so that their sign can be found."""
    rng = np.random.default_rng(seed)
    X, y = rng.gamma(4.0, 0.5, (n, length, d)), rng.integers(0, 2, n)
    X[y == 1, 0, :3] += 2.0
    return X, y


def predictions(model, X, y, fresh, **fitted):
    """Probabilities (or numbers) for fresh bags after a fit."""
    model = clone(model).fit(X, y, **fitted)
    return model.predict_proba(fresh)[:, 1] if hasattr(model, "predict_proba") else model.predict(fresh)


@pytest.mark.parametrize("model", LEARNERS, ids=NAMES)
@pytest.mark.parametrize("change", ["constant column", "permuted", "negated", "other units", "tokens permuted"])
def test_features_and_tokens(model, change):
    X, y = drawn()
    fresh, _ = drawn(1, 40)
    rng = np.random.default_rng(2)
    order, position = rng.permutation(8), rng.permutation(6)
    sign, unit = np.where(np.arange(8) == 2, -1.0, 1.0), 2.0 ** rng.integers(-9, 9, 8)
    changed = {
        "constant column": lambda x: np.concatenate(
            [x[:, :, :3], np.full((*x.shape[:2], 1), 7.0), x[:, :, 3:]], axis=2
        ),
        "permuted": lambda x: x[:, :, order],
        "negated": lambda x: x * sign,
        "other units": lambda x: x * unit + unit,
        "tokens permuted": lambda x: x[:, position],
    }[change]
    if change == "other units" and isinstance(model, BagClassifier | BagRegressor):
        # The near kernel takes the features' sizes relative to each other as information.
        model = clone(model).set_params(lift=0)
    plain, moved = predictions(model, X, y, fresh), predictions(model, changed(X), y, changed(fresh))
    np.testing.assert_allclose(moved, plain, **FITS)


@pytest.mark.parametrize(("name", "model"), CLASSIFIERS, ids=[name for name, _ in CLASSIFIERS])
def test_names_of_classes_decide_nothing(name, model):
    X, y = drawn()
    fresh, _ = drawn(1, 40)
    first = clone(model).fit(X, np.where(y == 1, "tumour", "normal"))
    second = clone(model).fit(X, np.where(y == 1, "cancer", "normal"))
    np.testing.assert_allclose(
        second.predict_proba(fresh)[:, 0], first.predict_proba(fresh)[:, 1], rtol=0, atol=1e-6, err_msg=name
    )
    if name not in ("pooled", "vectorized"):  # which treat both classes alike
        assert first.diagnostics_["signal_class"] == "tumour" and second.diagnostics_["signal_class"] == "cancer"
    if hasattr(first, "token_scores"):
        for one, other in zip(first.token_scores(fresh[:5]), second.token_scores(fresh[:5])):
            np.testing.assert_allclose(other, -one, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("model", [BagClassifier(), PooledClassifier()], ids=["bag-classifier", "pooled"])
def test_names_of_three_classes_decide_nothing(model):
    """With groups and identical bags in two classes, the last class's groups used to decide for all."""
    rng = np.random.default_rng(4)
    X, y, groups = rng.standard_normal((60, 4, 5)), np.arange(60) % 3, np.arange(60) // 2
    X[np.arange(60), 0, y] += 2.0
    X[10] = X[11]
    plain = clone(model).fit(X, np.array(["a", "b", "c"])[y], groups=groups).predict_proba(X)
    renamed = clone(model).fit(X, np.array(["c", "a", "b"])[y], groups=groups).predict_proba(X)
    np.testing.assert_allclose(renamed[:, [2, 0, 1]], plain, rtol=0, atol=1e-6)


@pytest.mark.parametrize("model", LEARNERS, ids=NAMES)
def test_groups_of_one_bag_each_are_no_groups(model):
    X, y = drawn()
    np.testing.assert_array_equal(predictions(model, X, y, X, groups=np.arange(90)[::-1]), predictions(model, X, y, X))


def test_numbers_turned_round_turn_the_predictions_round():
    X, y = drawn()
    target = X[:, :, 0].max(axis=1) + 0.1 * y
    model, turned = BagRegressor().fit(X, target), BagRegressor().fit(X, -target)
    np.testing.assert_allclose(turned.predict(X), -model.predict(X), rtol=0, atol=1e-3)


def test_a_positive_label_can_be_fixed():
    X, y = drawn()
    for model in (BagClassifier(candidates=["tied"]), AttentionClassifier(training="tied")):
        fixed = clone(model).set_params(positive_label=0).fit(X, y)
        assert fixed.diagnostics_["signal_class"] == 0
        assert clone(model).fit(X, y).diagnostics_["signal_class"] == 1
    with pytest.raises(ValueError, match="positive_label must be None or one of 0 and 1, got 2"):
        BagClassifier(positive_label=2).fit(X, y)
    with pytest.raises(ValueError, match="positive_label must be None for 3 classes"):
        BagClassifier(positive_label=1).fit(X, np.arange(90) % 3)


def test_identical_bags_stay_on_one_side_of_every_fold():
    """Noise, every bag four times: without that, copies give each other away, and the odds are far too sure."""
    rng = np.random.default_rng(3)
    X, y = np.tile(rng.standard_normal((20, 4, 10)), (4, 1, 1)), np.tile(np.arange(20) % 2, 4)
    fresh, truth = rng.standard_normal((400, 4, 10)), np.arange(400) % 2
    for model in (BagClassifier(lift=20), PooledClassifier()):
        odds = model.fit(Bags(X), y).decision_function(fresh)
        assert np.mean(np.logaddexp(0.0, np.where(truth == 1, -odds, odds))) < 1.1 * np.log(2.0)

"""Real-valued labels: the regressor, its candidates and their shares."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from sparsetoken import BagRegressor
from sparsetoken.estimators.base import TrainingWarning
from sparsetoken.estimators.persistence import load_model, save_model

LIGHT = BagRegressor(lift=0, candidates=["pooled", "tied"])


def planted(seed: int, n: int = 150, length: int = 6, d: int = 8, sign: float = 1.0):
    """The label is `sign` times the largest first feature of the bag's tokens, and a little noise."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, length, d))
    return X, 100 + 10 * sign * (sign * X[:, :, 0]).max(axis=1) + rng.standard_normal(n), X[:, :, 0].argmax(axis=1)


def expected_failures(estimator):
    return {"check_sample_weight_equivalence_on_dense_data": "inner folds follow the order of the bags"}


@parametrize_with_checks([BagRegressor()], expected_failed_checks=expected_failures)
def test_scikit_learn_checks(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TrainingWarning)
        check(estimator)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_finds_the_token_that_decides(sign, tmp_path):
    X, y, _ = planted(0, sign=sign)
    fresh, truth, places = planted(1, sign=sign)
    model = BagRegressor().fit(X, y)
    assert model.score(fresh, truth) > 0.75  # Ridge on the mean token has about 0.3
    assert model.diagnostics_["held_out_r2"] > 0.75
    scores, weights = model.token_scores(fresh), model.attention_weights(fresh)
    np.testing.assert_allclose([w.sum() for w in weights], 1.0, rtol=1e-6)
    if sign > 0:
        assert np.mean([np.argmax(s) for s in scores] == places) > 0.8
    save_model(tmp_path / "model.skops", model)
    np.testing.assert_array_equal(load_model(tmp_path / "model.skops").predict(fresh), model.predict(fresh))


def test_weights_of_zero_and_units():
    X, y, _ = planted(2, n=60)
    weights = (np.arange(60) % 3 > 0).astype(float)
    kept = np.flatnonzero(weights)
    left_out = clone(LIGHT).fit(X, y, sample_weight=weights).predict(X)
    np.testing.assert_array_equal(clone(LIGHT).fit(X[kept], y[kept]).predict(X), left_out)
    plain = clone(LIGHT).fit(X, y).predict(X)
    np.testing.assert_allclose(clone(LIGHT).fit(X * 4, 2 * y - 7).predict(X * 4), 2 * plain - 7, rtol=1e-5)
    for unit in (1e200, 1e-200):
        np.testing.assert_allclose(clone(LIGHT).fit(X, unit * y).predict(X) / unit, plain, rtol=1e-5)


def test_noise_gives_the_mean_and_says_so():
    rng = np.random.default_rng(3)
    X, y = rng.standard_normal((40, 3, 5)), rng.standard_normal(40)
    model = clone(LIGHT)
    with pytest.warns(TrainingWarning, match="predictions stay near the mean"):
        model.fit(X, y)
    assert np.mean((model.predict(rng.standard_normal((200, 3, 5))) - y.mean()) ** 2) < 0.15 * y.var()
    with pytest.warns(TrainingWarning, match="predictions stay near the mean"):
        flat = clone(LIGHT).fit(X, np.full(40, 3.0))
    np.testing.assert_allclose(flat.predict(X), 3.0)
    assert flat.attention_weights(X)[0].sum() == pytest.approx(1.0) and not flat.token_scores(X)[0].any()
    with pytest.warns(TrainingWarning, match="predictions stay near the mean"):
        assert clone(LIGHT).fit(X, y, groups=np.zeros(40)).predict(X)[0] == pytest.approx(y.mean())


def test_predictions_stay_near_the_training_range():
    X, y, _ = planted(4, n=60)
    model = BagRegressor(lift=0, candidates=["pooled"], scale=False).fit(X, y)
    far = model.predict(X * 1e6)
    assert far.max() <= y.max() + y.std() * 1.01 and far.min() >= y.min() - y.std() * 1.01


def test_groups_stay_together_in_all_candidates():
    """A mark per patient gives the label away to siblings; new patients cannot be predicted."""
    rng = np.random.default_rng(5)
    patients = np.repeat(np.arange(20), 4)
    X = (rng.standard_normal((20, 10))[patients] + 0.1 * rng.standard_normal((80, 10)))[:, None, :]
    y = rng.standard_normal(20)[patients]
    naive = BagRegressor(lift=0).fit(X, y).diagnostics_["held_out_r2_of_candidates"]
    honest = BagRegressor(lift=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TrainingWarning)
        honest.fit(X, y, groups=patients)
    fair = honest.diagnostics_["held_out_r2_of_candidates"]
    assert max(naive.values()) > 0.6 and max(fair.values()) < 0.35


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": list("abcdef")}, "y must hold numbers for a regression"),
        ({"y": [1.0, 2.0, np.inf, 1, 2, 3]}, "finite numbers; that of bag 2"),
        ({"y": [1.0, 2.0]}, "6 bags and 2 labels"),
        ({"sample_weight": [1, 1, 1, 1, 1, -1]}, "sample_weight must be >= 0"),
        ({"sample_weight": [0] * 6}, "at least one"),
        ({"candidates": "tied"}, "'auto' or a list of names"),
        ({"candidates": ["forest"]}, "among pooled, attention"),
        ({"candidates": ["likeness"]}, "at least one that sees tokens: pooled"),
        ({"lift": -1}, "lift must be"),
    ],
)
def test_bad_input_ends_in_a_sentence(change, message):
    X = np.random.default_rng(0).standard_normal((6, 2, 3))
    given = {"y": np.arange(6.0)} | {k: v for k, v in change.items() if k in ("y", "sample_weight")}
    model = BagRegressor(**{k: v for k, v in change.items() if k not in given})
    with pytest.raises(ValueError, match=message):
        model.fit(X, **given)


def test_copies_add_nothing_to_the_trust_in_a_regression():
    """Twelve bags of a weak signal, and the same ten times with the copies marked as groups."""
    rng = np.random.default_rng(12)
    X = rng.standard_normal((12, 3, 4))
    y = X[:, :, 0].mean(axis=1) + 0.3 * rng.standard_normal(12)
    many = np.repeat(np.arange(12), 10)
    noisy = X[many] + 1e-3 * rng.standard_normal((120, 3, 4))
    grouped, naive = BagRegressor(lift=0, candidates=["pooled"]), BagRegressor(lift=0, candidates=["pooled"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TrainingWarning)
        grouped.fit(noisy, y[many], groups=many)
        naive.fit(noisy, y[many])
    assert grouped.trust_ < 0.95 < naive.trust_

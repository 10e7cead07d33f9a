"""Safe outside the training range and without a signal: log odds bounded, no log loss far above the class frequencies'."""

from __future__ import annotations

import inspect
import warnings

import numpy as np
import pytest

from sparsetoken import AttentionClassifier, BagClassifier, MessagePassingClassifier, PooledClassifier
from sparsetoken.estimators.base import TrainingWarning
from sparsetoken.estimators.learners import LEARNERS
from tests.helpers import planted_bags

NAMES = ["bag-classifier", "attention", "message-passing", "elementwise", "pooled", "vectorized"]


def excess(name: str, X, y, test, test_labels) -> float:
    """Log loss of a learner on test bags over that of the training set's class frequencies."""
    return loss_ratio(fitted(name, X, y), test, test_labels, y.mean())


def fitted(name: str, X, y):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", TrainingWarning)
        return LEARNERS[name].make().fit(X, y)


def loss_ratio(model, test, labels, share=0.5) -> float:
    """Log loss of a model over that of the class frequencies."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        log_odds = model.decision_function(test)
    plain = -np.mean(np.where(labels == 1, np.log(share), np.log1p(-share)))
    return float(np.mean(np.logaddexp(0.0, np.where(labels == 1, -log_odds, log_odds)))) / plain


def noise(rng, n, length, d):
    return rng.standard_normal((n, length, d))


def rare_marks(rng, n, length, d):
    """Mostly zeros: whatever training finds in the few ones is chance."""
    return (rng.random((n, length, d)) < 0.003) * 1.0


def word_counts(rng, n, length, d):
    return rng.poisson(0.05, (n, length, d)) * rng.exponential(1.0, (n, length, d))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("make", [noise, rare_marks, word_counts])
@pytest.mark.parametrize(("n", "d", "share"), [(20, 40, 2), (100, 6, 2), (100, 40, 2), (100, 10, 8)])
def test_without_a_signal_learners_fall_back_to_the_class_frequencies(name, make, n, d, share):
    rng = np.random.default_rng([n, d, share])
    X, y = make(rng, n + 400, 5, d), (np.arange(n + 400) % share == 0).astype(int)
    assert excess(name, X[:n], y[:n], X[n:], y[n:]) < 1.10


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("damage", ["outliers", "constant", "unseen", "far"])
def test_adversarial_test_bags_do_not_cost_more_than_the_class_frequencies(name, damage):
    """A true signal, and test bags that hold in other features what training has never seen."""
    rng = np.random.default_rng(5)
    y = np.arange(600) % 2
    X = rng.standard_normal((600, 6, 12))
    X[:, 0, 0] += 5.0 * y
    X[:, :, 5], X[:, :, 6] = 0.1, (rng.random((600, 6)) < 0.004) * 1.0
    test = X[200:]
    if damage == "outliers":  # one number in a hundred is wild
        test[rng.random(test.shape) < 0.01] *= 1e5
    elif damage == "constant":  # a feature that was constant in training
        test[rng.random(test.shape[:2]) < 0.2, 5] = -40.0
    elif damage == "unseen":  # a mark that training saw in a few tokens
        test[rng.random(test.shape[:2]) < 0.2, 6] = 30.0
    else:  # every tenth bag is far away
        test[::10, :, 7:] += 1e6
    assert excess(name, X[:200], y[:200], test, y[200:]) < 1.10


@pytest.mark.parametrize("name", NAMES)
def test_bags_unlike_all_training_bags_do_not_cost_more_than_the_class_frequencies(name):
    """A true signal; at test all bags are shifted in every feature, or in other units."""
    rng = np.random.default_rng(6)
    y = np.arange(300) % 2
    X = rng.standard_normal((300, 6, 12))
    X[:, 0, 0] += 5.0 * y
    X[:, :, 1] += 0.8 * y[:, None]
    model = fitted(name, X[:120], y[:120])
    test, labels = X[120:], y[120:]
    assert loss_ratio(model, test, labels) < 0.5
    for what, bags in {"up": test + 4.0, "down": test - 4.0, "in other units": test * 10.0}.items():
        assert loss_ratio(model, bags, labels) < 1.10, what


def few_positives(rng):
    """Five positive bags among a hundred, and nothing that tells them."""
    y = (np.arange(600) % 20 == 0).astype(int)
    return rng.standard_normal((600, 5, 10)), y, 100


def contradicting_copies(rng):
    """Every training bag comes once with each label."""
    X, y = rng.standard_normal((400, 5, 10)), np.arange(400) % 2
    X[1:80:2] = X[:80:2]
    return X, y, 80


def scales_apart(rng):
    X, y = rng.standard_normal((400, 5, 10)), np.arange(400) % 2
    return X * 10.0 ** np.linspace(-12.0, 12.0, 10), y, 100


def cauchy(rng):
    return rng.standard_cauchy((400, 5, 10)), np.arange(400) % 2, 100


def constant(rng):
    X, y = np.ones((300, 5, 4)), np.arange(300) % 3 // 2
    X[60:] += 1e6 * rng.standard_normal((240, 5, 4))
    return X, y, 60


def wide(rng):
    return rng.standard_normal((260, 3, 500)), np.arange(260) % 2, 60


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("make", [few_positives, contradicting_copies, scales_apart, cauchy, constant, wide])
def test_odd_training_bags_do_not_cost_more_than_the_class_frequencies(name, make):
    X, y, n = make(np.random.default_rng(12))
    assert excess(name, X[:n], y[:n], X[n:], y[n:]) < 1.10


def test_a_class_of_two_examples_does_no_harm_to_the_others():
    rng = np.random.default_rng(13)
    y = np.repeat([0, 1, 2], [30, 30, 2])
    share = np.array([30, 30, 2]) / 62
    test = rng.choice(3, 400, p=share)
    for name in ("bag-classifier", "pooled", "message-passing"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TrainingWarning)
            model = LEARNERS[name].make().fit(rng.standard_normal((62, 5, 8)), y)
        logs = model.predict_log_proba(rng.standard_normal((400, 5, 8)))
        assert -np.mean(logs[np.arange(400), test]) < -1.10 * np.mean(np.log(share[test]))


@pytest.mark.parametrize("make", [BagClassifier, AttentionClassifier, PooledClassifier, MessagePassingClassifier])
def test_log_odds_stay_within_what_the_training_bags_support(make):
    """After n bags of a class the rule of succession leaves 1/(n + 2) to the other; the ranking is kept."""
    bags, labels, _ = planted_bags(7, n=90, d=6, strength=12.0, prevalence=0.3)
    wild = [10.0**k * b for k in range(8) for b in bags[:20]]
    model = make().fit(bags, labels)
    scores = model.decision_function([*bags, *wild])
    positive = labels.sum()
    assert scores.max() < np.log1p(positive) and scores.min() > -np.log1p(90 - positive)
    assert model.score(bags, labels) > 0.9
    assert len(np.unique(scores[:90])) == 90


def test_token_scores_are_evidence_for_the_positive_class():
    """Tokens of two kinds draw attention, and only one of them speaks for the positive class.

    Bags of both classes hold one large token; its sign decides. The query alone cannot tell the two kinds apart.
    """
    rng = np.random.default_rng(9)
    y = np.arange(400) % 2
    X = rng.standard_normal((400, 8, 5))
    X[:, 0, 0] += 6.0  # large in every bag: attended to
    X[:, 0, 1] += np.where(y == 1, 4.0, -4.0)
    from sparsetoken.estimators.calibration import area_under_curve

    for model in (BagClassifier(), BagClassifier(lift=0, candidates=["attention"]), AttentionClassifier()):
        model.fit(X[:200], y[:200])
        scores = np.array(model.token_scores(X[200:]))
        large = scores[:, 0]
        assert area_under_curve(large, y[200:] == 1) > 0.95
        assert np.median(scores[:, 1:]) < large[y[200:] == 1].mean()
        if (
            model.get_params().get("candidates") != "auto"
        ):  # a tied head cannot say no: it looks for tokens that say yes
            assert large[y[200:] == 0].mean() < np.median(scores[:, 1:])


@pytest.mark.parametrize("scale", [1e-100, 1.0, 1e100])
@pytest.mark.parametrize("parameters", [{}, {"scale": False}, {"whiten": False}, {"scale": False, "whiten": False}])
def test_message_passing_does_not_overflow(scale, parameters):
    rng = np.random.default_rng(11)
    y = np.arange(60) % 2
    X = rng.standard_normal((60, 12, 6))
    X[y == 1, :4, 0] += 30.0
    test = X.copy()
    test[:5] *= 1e30
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        warnings.simplefilter("ignore", TrainingWarning)
        for sparsity in ("auto", 4):
            model = MessagePassingClassifier(sparsity=sparsity, **parameters).fit(scale * X, y)
            assert np.all(np.isfinite(model.decision_function(scale * test)))
            assert np.all(np.isfinite(np.concatenate(model.attention_weights(scale * test))))


def test_message_passing_does_not_depend_on_one_unit_for_all_features():
    X, y = np.random.default_rng(0).standard_normal((60, 3, 4)), np.arange(60) % 2
    X[y == 1, 0] += 2.0
    plain = MessagePassingClassifier(scale=False).fit(X, y).decision_function(X)
    for unit in (1e-140, 1e140):
        found = MessagePassingClassifier(scale=False).fit(unit * X, y).decision_function(unit * X)
        np.testing.assert_allclose(found, plain, rtol=1e-6)


def test_warnings_point_at_the_callers_line():
    from sklearn.model_selection import cross_val_score

    bags, labels, _ = planted_bags(14, n=60, strength=0.0)
    for call in (
        lambda: PooledClassifier().fit(bags, labels),
        lambda: BagClassifier(lift=0).fit(bags, labels),
        lambda: PooledClassifier().fit_transform(bags, labels),
        lambda: cross_val_score(PooledClassifier(), bags, labels, cv=3),
    ):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            call()
        found = [w for w in caught if w.category is TrainingWarning]
        assert found
        line = inspect.getsourcelines(call)[1]
        assert {(w.filename, w.lineno) for w in found} == {(__file__, line)}

"""The estimators: scikit-learn's own checks, input forms, weights, and agreement with the definitions."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from sparsetoken import (
    AttentionClassifier,
    BagClassifier,
    Bags,
    BagScaler,
    ElementwiseAttentionClassifier,
    MessagePassingClassifier,
    PooledClassifier,
    VectorizedClassifier,
)
from sparsetoken.estimators.base import TrainingWarning
from sparsetoken.estimators.calibration import fit_calibration, stratified_folds
from sparsetoken.estimators.heads import _objective
from sparsetoken.estimators.two_steps import noise_scale, two_gradient_steps
from sparsetoken.losses import get_loss

STAGED = {"split": 0.5, "sharpness": 1.5, "ridge": 1e-2, "scale": False}
CLASSIFIERS = [
    BagClassifier(),
    AttentionClassifier(**STAGED),
    PooledClassifier(),
    VectorizedClassifier(),
    ElementwiseAttentionClassifier(split=0.5),
    MessagePassingClassifier(),
]
EVERY = [BagClassifier, AttentionClassifier, PooledClassifier, ElementwiseAttentionClassifier, MessagePassingClassifier]
NAMES = ["bag-classifier", "attention", "pooled", "vectorized", "elementwise", "message-passing"]


def draw(seed: int, n=160, length=6, d=12, strength=5.0, prevalence=0.5, ragged=False):
    """Bags with one shifted token in the positive ones, their labels, and where that token is."""
    rng = np.random.default_rng(seed)
    labels = (rng.random(n) < prevalence).astype(int)
    lengths = rng.integers(2, 2 * length, n) if ragged else np.full(n, length)
    signal = np.ones(d) / np.sqrt(d)
    bags, places = [], []
    for label, count in zip(labels, lengths):
        bag = rng.standard_normal((count, d))
        place = int(rng.integers(count))
        bag[place] += label * strength * signal
        bags.append(bag)
        places.append(place)
    return bags, labels, np.array(places)


@parametrize_with_checks([*CLASSIFIERS, BagScaler(), BagScaler(compress=True)])
def test_scikit_learn_checks(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TrainingWarning)
        check(estimator)


@pytest.mark.parametrize("estimator", CLASSIFIERS, ids=NAMES)
def test_learns_where_one_token_carries_the_signal(estimator):
    bags, labels, _ = draw(0, n=300)
    fresh, fresh_labels, places = draw(1, n=400)
    model = clone(estimator).fit(bags, labels)
    least = {"bag-classifier": 0.93, "attention": 0.88, "message-passing": 0.93, "elementwise": 0.85, "pooled": 0.78}
    # A correct rule at these accuracies falls below by chance with probability < 1e-4 (binomial, 400 bags).
    assert model.score(fresh, fresh_labels) > least.get(NAMES[CLASSIFIERS.index(estimator)], 0.72)
    probabilities = model.predict_proba(fresh)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    assert abs(probabilities[:, 1].mean() - fresh_labels.mean()) < 0.08
    np.testing.assert_allclose(model.predict_log_proba(fresh), np.log(probabilities), rtol=1e-6, atol=1e-9)
    if hasattr(model, "token_scores"):
        weights = model.attention_weights(fresh)
        np.testing.assert_allclose([w.sum() for w in weights], 1.0, rtol=1e-6)
        found = [np.argmax(s) for s, y in zip(model.token_scores(fresh), fresh_labels) if y]
        assert np.mean(np.array(found) == places[fresh_labels == 1]) > 0.9


@pytest.mark.parametrize("estimator", CLASSIFIERS, ids=NAMES)
def test_every_form_of_input_gives_the_same_answer(estimator):
    bags, labels, _ = draw(2, n=60, d=4)
    cube = np.stack(bags)
    frame = pd.DataFrame(cube.reshape(-1, 4), columns=list("abcd")).assign(bag=np.repeat(np.arange(60), 6))
    model = clone(estimator).fit(bags, labels)
    expected = model.decision_function(bags)
    for form in (cube, Bags(bags), Bags(cube, mask=np.ones((60, 6), bool)), Bags(cube.reshape(-1, 4), ids=frame.bag)):
        np.testing.assert_array_equal(model.decision_function(form), expected)
        np.testing.assert_array_equal(clone(estimator).fit(form, labels).decision_function(bags), expected)
    named = clone(estimator).fit(frame.groupby("bag"), labels)
    assert list(named.feature_names_in_) == list("abcd")
    np.testing.assert_array_equal(named.decision_function(frame.groupby("bag")), expected)
    assert model.n_features_in_ == 4


@pytest.mark.parametrize("estimator", CLASSIFIERS, ids=NAMES)
def test_single_precision_stays_single(estimator):
    bags, labels, _ = draw(3, n=80, d=5)
    single = [b.astype(np.float32) for b in bags]
    model = clone(estimator).fit(single, labels)
    assert model.decision_function(single).dtype == np.float32
    assert model.predict_proba(single).dtype == np.float32
    assert model.transform(single).dtype == np.float32
    if hasattr(model, "attention_weights"):
        assert model.attention_weights(single)[0].dtype == np.float32


@pytest.mark.parametrize("estimator", CLASSIFIERS, ids=NAMES)
def test_any_two_labels_clone_pickle_and_order(estimator):
    bags, labels, _ = draw(4, n=80, d=5)
    words = np.where(labels == 1, "sick", "healthy")
    model = clone(estimator).fit(bags, words)
    assert list(model.classes_) == ["healthy", "sick"]
    assert set(model.predict(bags)) <= {"healthy", "sick"}
    same = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(same.decision_function(bags), model.decision_function(bags))
    order = np.random.default_rng(0).permutation(80)
    shuffled = clone(estimator).fit([bags[i] for i in order], words[order])
    np.testing.assert_array_equal(shuffled.decision_function(bags), model.decision_function(bags))


@pytest.mark.parametrize("estimator", CLASSIFIERS, ids=NAMES)
def test_weights_are_repetitions(estimator):
    bags, labels, _ = draw(5, n=50, d=4)
    counts = np.random.default_rng(1).integers(0, 3, 50)
    counts[:4] = 1
    repeated = np.repeat(np.arange(50), counts)
    weighted = clone(estimator).fit(bags, labels, sample_weight=counts)
    plain = clone(estimator).fit([bags[i] for i in repeated], labels[repeated])
    np.testing.assert_allclose(weighted.decision_function(bags), plain.decision_function(bags), rtol=1e-6, atol=1e-6)


def test_class_weights_move_the_threshold():
    bags, labels, _ = draw(6, n=200, prevalence=0.15, strength=2.5)
    for estimator in (PooledClassifier(), BagClassifier(), MessagePassingClassifier()):
        plain = clone(estimator).fit(bags, labels)
        balanced = clone(estimator).set_params(class_weight="balanced").fit(bags, labels)
        heavy = clone(estimator).set_params(class_weight={1: 20.0}).fit(bags, labels)
        assert plain.predict(bags).mean() < balanced.predict(bags).mean() <= heavy.predict(bags).mean()


def test_ragged_bags_pipelines_searches_and_set_output():
    bags, labels, _ = draw(7, n=120, ragged=True)
    data = Bags(bags)
    scores = cross_val_score(BagClassifier(lift=20), data, labels, cv=3)
    assert scores.mean() > 0.85
    search = GridSearchCV(PooledClassifier(), {"ridge": [1e-3, 1.0]}, cv=3).fit(data, labels)
    assert search.best_params_["ridge"] in (1e-3, 1.0)
    pipeline = make_pipeline(BagScaler(), AttentionClassifier(**STAGED), LogisticRegression()).fit(data, labels)
    assert pipeline.score(data, labels) > 0.8
    framed = PooledClassifier().set_output(transform="pandas").fit(bags, labels).transform(bags)
    assert isinstance(framed, pd.DataFrame) and framed.shape == (120, 12)
    with pytest.raises(ValueError, match=r"same number of tokens: bag \d+ has \d+, bag \d+ has"):
        VectorizedClassifier().fit(bags, labels)


@pytest.mark.parametrize("estimator", CLASSIFIERS, ids=NAMES)
def test_bad_input_names_the_bag_and_the_problem(estimator):
    bags, labels, _ = draw(8, n=20, d=3)
    model = clone(estimator)
    with pytest.raises(ValueError, match=r"only one class: 1\.0"):
        model.fit(bags, np.ones(20))
    with pytest.raises(ValueError, match="20 bags and 19 labels"):
        model.fit(bags, labels[:-1])
    with pytest.raises(ValueError, match="bag 3 has no tokens"):
        model.fit([*bags[:3], np.empty((0, 3)), *bags[4:]], labels)
    broken = [b.copy() for b in bags]
    broken[7][2, 1] = np.nan
    with pytest.raises(ValueError, match="NaN: bag 7, token 2, feature 1"):
        model.fit(broken, labels)
    model.fit(bags, labels)
    with pytest.raises(ValueError, match="has 2 features"):
        model.predict([b[:, :2] for b in bags])


@pytest.mark.parametrize(
    ("make", "parameters", "words"),
    [
        (AttentionClassifier, {"training": "deep"}, "training must be one of"),
        (AttentionClassifier, {"split": 1.5}, "split must be"),
        (AttentionClassifier, {"sharpness": "x"}, "sharpness must be"),
        (AttentionClassifier, {"eta_b": "x"}, "eta_b must be"),
        (AttentionClassifier, {"scale": "no"}, "scale must be True or False"),
        (BagClassifier, {"lift": -3}, "lift must be a whole number"),
        (BagClassifier, {"lift": "many"}, "lift must be a whole number"),
        (BagClassifier, {"scale": 0.5}, "scale must be True or False"),
        (MessagePassingClassifier, {"calibrate": "never"}, "calibrate must be True, False or 'auto'"),
        (MessagePassingClassifier, {"sparsity": 100}, "sparsity must be at most the 6 tokens"),
        (MessagePassingClassifier, {"whiten": "no"}, "whiten must be True or False"),
        *((make, {"class_weight": 5}, "class_weight must be") for make in EVERY),
        *((make, {"class_weight": "x"}, "class_weight must be") for make in EVERY),
        *((make, {"class_weight": {1: -1.0}}, "class_weight must map") for make in EVERY),
        *((make, {"class_weight": {7: 2.0}}, "class_weight names the class 7") for make in EVERY),
        *((make, {"ridge": -1}, "ridge must be a number") for make in EVERY[:4]),
        *((make, {"ridge": "large"}, "ridge must be 'auto'") for make in EVERY[:4]),
        *((make, {"loss": "x"}, "loss must be one of") for make in EVERY[:4]),
    ],
)
def test_bad_parameters_are_named(make, parameters, words):
    bags, labels, _ = draw(9, n=20, d=3)
    with pytest.raises(ValueError, match=words):
        make(**parameters).fit(bags, labels)


def test_parameters_that_a_training_does_not_use_are_refused():
    with pytest.raises(TypeError, match="lift"):
        AttentionClassifier(lift=10)
    with pytest.raises(TypeError, match="split"):
        BagClassifier(split=0.5)


def test_warnings_say_what_is_wrong():
    noise, labels, _ = draw(10, n=60, strength=0.0)
    with pytest.warns(TrainingWarning, match="signal too weak"):
        model = PooledClassifier().fit(noise, labels)
    assert model.diagnostics_["signal_found"] is False
    bags, labels, _ = draw(11, n=400, strength=2.0, d=3)
    with pytest.warns(TrainingWarning, match="beyond the readout's capacity"):
        PooledClassifier(ridge=1e-6).fit(bags, labels)
    rare, labels, _ = draw(12, n=3000, strength=6.0, prevalence=0.03, d=4)
    with pytest.warns(TrainingWarning, match="anti-aligned"):
        model = AttentionClassifier(**STAGED).set_params(eta_b=0.0).fit(rare, labels)
    assert model.diagnostics_["query_statistic"] < -2
    with warnings.catch_warnings():
        warnings.simplefilter("error", TrainingWarning)
        balanced = AttentionClassifier(**STAGED).set_params(class_weight="balanced").fit(rare, labels)
    assert balanced.diagnostics_["query_statistic"] > 2


def test_two_steps_are_the_gradients_of_the_mean_loss():
    bags, labels, _ = draw(13, n=15, d=4, ragged=True)
    data, signs = Bags(bags), np.where(labels == 1, 1.0, -1.0)
    loss, weights = get_loss("logistic"), np.random.default_rng(0).random(15) + 0.5
    steps = two_gradient_steps(data, signs, weights, loss, eta_w=0.7, eta_b=0.3)
    p = weights / weights.sum()

    def objective(q, w, b):
        total = 0.0
        for bag, y, share in zip(bags, signs, p):
            a = np.exp(bag @ q)
            total += share * loss.value((a / a.sum()) @ bag @ w + b, y)
        return total

    zero, h = np.zeros(4), 1e-5
    for k, e in enumerate(np.eye(4)):
        slope = (objective(zero, h * e, 0) - objective(zero, -h * e, 0)) / (2 * h)
        np.testing.assert_allclose(steps.readout[k], -0.7 * slope, rtol=1e-6, atol=1e-9)
        w, b = steps.readout, steps.bias
        slope = (objective(h * e, w, b) - objective(-h * e, w, b)) / (2 * h)
        np.testing.assert_allclose(steps.query[k], -slope, rtol=1e-5, atol=1e-9)
    slope = (objective(zero, zero, h) - objective(zero, zero, -h)) / (2 * h)
    np.testing.assert_allclose(steps.bias, -0.3 * slope, rtol=1e-6)


@pytest.mark.parametrize("kind", ["tied", "free"])
def test_head_gradients_agree_with_differences(kind):
    rng = np.random.default_rng(3)
    bags, labels, _ = draw(14, n=10, d=3, ragged=True)
    data, signs = Bags(bags), np.where(labels == 1, 1.0, -1.0)
    objective, size = _objective(kind, get_loss("logistic")), 4 if kind == "tied" else 7
    x, p = rng.standard_normal(size), np.full(10, 0.1)
    arguments = (data.tokens, data.starts, signs, p, 0.3)
    _, gradient = objective(x, *arguments)
    for k in range(size):
        step = np.zeros(size)
        step[k] = 1e-6
        slope = (objective(x + step, *arguments)[0] - objective(x - step, *arguments)[0]) / 2e-6
        np.testing.assert_allclose(gradient[k], slope, rtol=1e-6, atol=1e-8)


def test_staged_training_is_the_definition():
    """Query of unit noise spread times the sharpness, features X^T softmax(X q), and the minimiser's gradient zero."""
    bags, labels, _ = draw(15, n=200, d=5)
    model = AttentionClassifier(**STAGED).set_params(split="reuse").fit(bags, labels)
    data, signs = Bags(bags), np.where(labels == 1, 1.0, -1.0)
    np.testing.assert_allclose(noise_scale(data, signs, np.ones(len(signs)), model.query_), 1.5, rtol=1e-10)
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


def test_pooled_and_vectorized_match_logistic_regression():
    bags, labels, _ = draw(16, n=150, d=4)
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


def test_probabilities_are_calibrated_for_a_rare_class():
    bags, labels, _ = draw(17, n=600, prevalence=0.12, strength=4.0)
    fresh, fresh_labels, _ = draw(18, n=4000, prevalence=0.12, strength=4.0)
    for estimator in (BagClassifier(lift=20), PooledClassifier(), MessagePassingClassifier()):
        p = clone(estimator).fit(bags, labels).predict_proba(fresh)[:, 1]
        # Standard error of the mean over 4000 fresh bags is 0.005, of the 600 training ones' share 0.013.
        assert abs(p.mean() - fresh_labels.mean()) < 0.045
        sure = p > 0.8
        assert fresh_labels[sure].mean() > 0.65


def test_calibration_recovers_the_log_odds_of_gaussian_scores():
    rng = np.random.default_rng(0)
    signs = np.where(rng.random(20000) < 0.3, 1.0, -1.0)
    scores = 7 + 3 * (signs + rng.standard_normal(20000))  # log odds: 2 (s - 7)/3 + log(0.3/0.7)
    found = fit_calibration(scores, signs, np.ones(20000))
    assert abs(found.slope - 2 / 3) < 0.03
    assert abs(found(np.array([7.0]))[0] - np.log(0.3 / 0.7)) < 0.1
    turned = fit_calibration(-scores, signs, np.ones(20000))
    assert turned.slope > 0


def test_folds_deal_both_classes_evenly():
    signs = np.array([1.0] * 7 + [-1.0] * 23)
    folds = stratified_folds(signs, np.random.default_rng(0))
    assert sorted(np.concatenate(folds)) == list(range(30))
    assert {int((signs[f] > 0).sum()) for f in folds} <= {1, 2}
    assert stratified_folds(np.array([1.0, -1.0, -1.0]), np.random.default_rng(0)) == []


@pytest.mark.parametrize("make", [lambda: BagClassifier(lift=0), lambda: MessagePassingClassifier(sparsity=1)])
def test_a_signal_in_a_single_feature_is_not_drawn_in(make):
    """Rare large values that only positive bags hold look like a heavy tail, and are the signal.

    One token in 300 carries it; with its feature's tail drawn in, both learners were at chance (AUC 0.51 and 0.47).
    """
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((400, 300, 150)), np.arange(400) % 2
    X[y == 1, rng.integers(300, size=200), 0] += 8.0
    assert (
        BagScaler(compress=True).fit(X[:200]).heavy_[0] and not BagScaler(compress=True).fit(X[:200], y[:200]).heavy_[0]
    )
    fitted = make().fit(X[:200], y[:200])
    assert roc_auc_score(y[200:], fitted.decision_function(X[200:])) > 0.95

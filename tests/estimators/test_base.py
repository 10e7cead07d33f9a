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
from sklearn.utils.estimator_checks import check_sample_weight_equivalence_on_dense_data, parametrize_with_checks

from sparsetoken import (
    AttentionClassifier,
    BagClassifier,
    BagRegressor,
    Bags,
    BagScaler,
    ElementwiseAttentionClassifier,
    MessagePassingClassifier,
    PooledClassifier,
    Stage,
    VectorizedClassifier,
)
from sparsetoken.estimators.base import TrainingWarning
from tests.helpers import planted_bags

from .settings import STAGED

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


def expected_failures(estimator):
    """Inner folds follow the order of the bags, as in scikit-learn's own estimators with inner cross-validation."""
    if isinstance(estimator, BagScaler):
        return {}
    return {"check_sample_weight_equivalence_on_dense_data": "inner folds follow the order of the bags"}


@pytest.mark.slow  # five hundred checks of scikit-learn's interface
@parametrize_with_checks(
    [*CLASSIFIERS, BagScaler(), BagScaler(compress=True)], expected_failed_checks=expected_failures
)
def test_scikit_learn_checks(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TrainingWarning)
        check(estimator)


@pytest.mark.parametrize(
    "estimator",
    [
        PooledClassifier(ridge=0.1, scale=False),
        VectorizedClassifier(ridge=0.1, scale=False),
        AttentionClassifier(split="reuse", sharpness=1.5, ridge=1e-2, scale=False),
        ElementwiseAttentionClassifier(split="reuse", sharpness=1.5, ridge=1e-2, scale=False),
        AttentionClassifier(training="tied", stages=Stage(5, 1.0, {"w": 1.0, "bias": 0.5}), sharpness=1.0, scale=False),
    ],
    ids=["pooled", "vectorized", "staged", "elementwise", "tied"],
)
def test_without_anything_held_out_a_weight_of_two_is_a_repetition(estimator):
    check_sample_weight_equivalence_on_dense_data("the learner", estimator)


@pytest.mark.parametrize("estimator", [*CLASSIFIERS, BagRegressor()], ids=[*NAMES, "bag-regressor"])
def test_every_learner_takes_missing_values(estimator):
    bags, labels, _ = planted_bags(4, n=60, d=4)
    holed = [bag.copy() for bag in bags]
    holed[3][1, 2] = np.nan
    with pytest.raises(ValueError, match="missing='drop-token'"):
        clone(estimator).fit(holed, labels)
    model = clone(estimator).set_params(missing="impute").fit(holed, labels)
    assert np.all(np.isfinite(model.predict(holed)))
    if not isinstance(estimator, VectorizedClassifier):  # which needs bags of one length
        assert np.all(np.isfinite(clone(estimator).set_params(missing="drop-token").fit(holed, labels).predict(holed)))


@pytest.mark.parametrize("estimator", CLASSIFIERS, ids=NAMES)
def test_learns_where_one_token_carries_the_signal(estimator):
    bags, labels, _ = planted_bags(0, n=300)
    fresh, fresh_labels, places = planted_bags(1, n=400)
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
    bags, labels, _ = planted_bags(2, n=60, d=4)
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
    bags, labels, _ = planted_bags(3, n=80, d=5)
    single = [b.astype(np.float32) for b in bags]
    model = clone(estimator).fit(single, labels)
    assert model.decision_function(single).dtype == np.float32
    assert model.predict_proba(single).dtype == np.float32
    assert model.transform(single).dtype == np.float32
    if hasattr(model, "attention_weights"):
        assert model.attention_weights(single)[0].dtype == np.float32


@pytest.mark.parametrize("estimator", CLASSIFIERS, ids=NAMES)
def test_any_two_labels_clone_pickle_and_order(estimator):
    bags, labels, _ = planted_bags(4, n=80, d=5)
    words = np.where(labels == 1, "sick", "healthy")
    model = clone(estimator).fit(bags, words)
    assert list(model.classes_) == ["healthy", "sick"]
    assert set(model.predict(bags)) <= {"healthy", "sick"}
    same = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(same.decision_function(bags), model.decision_function(bags))


@pytest.mark.parametrize("estimator", CLASSIFIERS, ids=NAMES)
def test_a_weight_of_zero_leaves_a_bag_out(estimator):
    bags, labels, _ = planted_bags(5, n=60, d=4)
    weights = np.ones(60)
    weights[::4] = 0
    kept = np.flatnonzero(weights)
    weighted = clone(estimator).fit(bags, labels, sample_weight=weights)
    plain = clone(estimator).fit([bags[i] for i in kept], labels[kept])
    np.testing.assert_array_equal(weighted.decision_function(bags), plain.decision_function(bags))


def test_class_weights_move_the_threshold():
    bags, labels, _ = planted_bags(6, n=200, prevalence=0.15, strength=2.5)
    for estimator in (PooledClassifier(), BagClassifier(), MessagePassingClassifier()):
        plain = clone(estimator).fit(bags, labels)
        balanced = clone(estimator).set_params(class_weight="balanced").fit(bags, labels)
        heavy = clone(estimator).set_params(class_weight={1: 20.0}).fit(bags, labels)
        assert plain.predict(bags).mean() < balanced.predict(bags).mean() <= heavy.predict(bags).mean()


def test_ragged_bags_pipelines_searches_and_set_output():
    bags, labels, _ = planted_bags(7, n=120, ragged=True)
    data = Bags(bags)
    scores = cross_val_score(BagClassifier(lift=20), data, labels, cv=3)
    assert scores.mean() > 0.85
    search = GridSearchCV(PooledClassifier(), {"ridge": [1e6, 0.1]}, cv=3).fit(data, labels)
    large, small = search.cv_results_["mean_test_score"]
    assert search.best_params_ == {"ridge": 0.1} and small > large + 0.1
    pipeline = make_pipeline(BagScaler(), AttentionClassifier(**STAGED), LogisticRegression()).fit(data, labels)
    assert pipeline.score(data, labels) > 0.8
    framed = PooledClassifier().set_output(transform="pandas").fit(bags, labels).transform(bags)
    assert isinstance(framed, pd.DataFrame) and framed.shape == (120, 12)
    with pytest.raises(ValueError, match=r"same number of tokens: bag \d+ has \d+, bag \d+ has"):
        VectorizedClassifier().fit(bags, labels)


@pytest.mark.parametrize("estimator", CLASSIFIERS, ids=NAMES)
def test_bad_input_names_the_bag_and_the_problem(estimator):
    bags, labels, _ = planted_bags(8, n=20, d=3)
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
        (MessagePassingClassifier, {"strength": "strong"}, "strength must be 'auto' or a number > 0, got 'strong'"),
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
    bags, labels, _ = planted_bags(9, n=20, d=3)
    with pytest.raises(ValueError, match=words):
        make(**parameters).fit(bags, labels)


def test_parameters_that_a_training_does_not_use_are_refused():
    with pytest.raises(TypeError, match="lift"):
        AttentionClassifier(lift=10)
    with pytest.raises(TypeError, match="split"):
        BagClassifier(split=0.5)


def test_warnings_say_what_is_wrong():
    noise, labels, _ = planted_bags(10, n=60, strength=0.0)
    with pytest.warns(TrainingWarning, match="signal too weak"):
        model = PooledClassifier().fit(noise, labels)
    assert model.diagnostics_["signal_found"] is False
    bags, labels, _ = planted_bags(11, n=400, strength=2.0, d=3)
    with pytest.warns(TrainingWarning, match="beyond the readout's capacity"):
        PooledClassifier(ridge=1e-6).fit(bags, labels)
    rare, labels, _ = planted_bags(12, n=3000, strength=6.0, prevalence=0.03, d=4)
    with pytest.warns(TrainingWarning, match="anti-aligned"):
        model = AttentionClassifier(**STAGED).set_params(eta_b=0.0).fit(rare, labels)
    assert model.diagnostics_["query_statistic"] < -2
    with warnings.catch_warnings():
        warnings.simplefilter("error", TrainingWarning)
        balanced = AttentionClassifier(**STAGED).set_params(class_weight="balanced").fit(rare, labels)
    assert balanced.diagnostics_["query_statistic"] > 2


def test_log_odds_of_zero_are_half_a_mistake():
    """As in simulations: without half of each, a held-out error of 100 % for bags that are alike."""
    labels = np.arange(60) % 2
    model = MessagePassingClassifier().fit([np.full((4, 3), 5.0)] * 60, labels)
    assert model.diagnostics_["held_out_error"] == 0.5


@pytest.mark.parametrize("make", [lambda: BagClassifier(lift=0), lambda: MessagePassingClassifier(sparsity=1)])
def test_a_signal_in_a_single_feature_is_not_drawn_in(make):
    """Rare large values that only positive bags hold look like a heavy tail, and are the signal.

    One token in 200 carries it. With 300 tokens and 150 features, and the feature's tail compressed, both learners were at
    chance (AUC 0.51 and 0.47).
    """
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((400, 200, 50)), np.arange(400) % 2
    X[y == 1, rng.integers(200, size=200), 0] += 8.0
    assert (
        BagScaler(compress=True).fit(X[:200]).heavy_[0] and not BagScaler(compress=True).fit(X[:200], y[:200]).heavy_[0]
    )
    fitted = make().fit(X[:200], y[:200])
    assert roc_auc_score(y[200:], fitted.decision_function(X[200:])) > 0.95


@pytest.mark.parametrize("model", [PooledClassifier(), BagRegressor()], ids=lambda m: type(m).__name__)
def test_weights_beyond_what_can_be_added_are_refused(model):
    X, y = np.random.default_rng(0).standard_normal((20, 3, 2)), np.arange(20) % 2
    for size in (1e-320, 1e308):
        with pytest.raises(ValueError, match="sample_weight must have its largest value between 1e-100 and 1e\\+100"):
            model.fit(X, y, sample_weight=np.full(20, size))
    with pytest.raises(ValueError, match="sample_weight must be >= 0"):
        model.fit(X, y, sample_weight=-np.ones(20))


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["a", None] * 4, "none at place 1"),
        (["a", float("nan")] * 4, "none at place 1"),
        (["a", pd.NA] * 4, "none at place 1"),
        ([0.0, 1.0, np.nan, 1.0] * 2, "none at place 2"),
        (["a", 1] * 4, "text or numbers, got both"),
    ],
)
def test_missing_and_mixed_labels_are_named(labels, message):
    bags = [np.full((2, 1), float(i)) for i in range(8)]
    with pytest.raises(ValueError, match=message):
        PooledClassifier().fit(bags, np.array(labels, dtype=float if isinstance(labels[0], float) else object))


@pytest.mark.parametrize("learner", [PooledClassifier, BagRegressor])
@pytest.mark.parametrize("field", ["y", "sample_weight", "X"])
def test_complex_numbers_are_refused_in_one_line(learner, field):
    X = np.random.default_rng(0).standard_normal((20, 3, 4))
    given = {"X": X, "y": np.arange(20) % 2, "sample_weight": np.ones(20)}
    given[field] = given[field] + 1j
    with pytest.raises(ValueError, match=r"Complex data not supported: .* real numbers$") as error:
        learner().fit(**given)
    assert "\n" not in str(error.value) and (field == "X" or field in str(error.value))


def test_numbers_as_objects_name_the_remedy():
    bags = [np.full((2, 1), float(i)) for i in range(8)]
    with pytest.raises(ValueError, match=r"y holds int values as objects; give it a type, such as np\.asarray"):
        PooledClassifier().fit(bags, np.array([0, 1] * 4, dtype=object))

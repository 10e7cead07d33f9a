"""Calibration: log odds of known scores, folds, bounds, and the class frequencies."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

from sparsetoken import (
    AttentionClassifier,
    BagClassifier,
    MessagePassingClassifier,
    PooledClassifier,
)
from sparsetoken.estimators.base import TrainingWarning
from sparsetoken.estimators.calibration import (
    LOG_SLOPE,
    OFFSET,
    Calibration,
    final_calibration,
    fit_calibration,
    gains_over_frequencies,
    platt_targets,
    supported_range,
)
from sparsetoken.estimators.folds import stratified_folds
from tests.helpers import planted_bags


def test_probabilities_are_calibrated_for_a_rare_class():
    bags, labels, _ = planted_bags(17, n=600, prevalence=0.12, strength=4.0)
    fresh, fresh_labels, _ = planted_bags(18, n=4000, prevalence=0.12, strength=4.0)
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


def test_rounds_of_scores_are_averaged_and_are_no_further_bags():
    rng = np.random.default_rng(3)
    signs = np.where(np.arange(60) % 3, -1.0, 1.0)
    scores, weights = signs + rng.standard_normal((2, 60)), rng.uniform(0.5, 2.0, 60)
    one = fit_calibration(scores[0], signs, weights)
    twice = fit_calibration(scores[[0, 0]], signs, weights)
    assert (twice.slope, twice.offset, twice.loss) == pytest.approx((one.slope, one.offset, one.loss), rel=1e-9)
    both = fit_calibration(scores, signs, weights)
    gains = gains_over_frequencies(both, scores, signs, weights)
    apart = [gains_over_frequencies(both, round_, signs, weights) for round_ in scores]
    np.testing.assert_allclose(gains, np.mean(apart, axis=0), rtol=1e-12)


def test_folds_deal_both_classes_evenly():
    signs = np.array([1.0] * 7 + [-1.0] * 23)
    folds = stratified_folds(signs, np.random.default_rng(0))
    assert sorted(np.concatenate(folds)) == list(range(30))
    assert {int((signs[f] > 0).sum()) for f in folds} <= {1, 2}
    assert stratified_folds(np.array([1.0, -1.0, -1.0]), np.random.default_rng(0)) == []


def test_bounds_are_smooth_and_keep_the_order():
    calibration = Calibration(2.0, 1.0, low=-3.0, high=4.0)
    scores = np.linspace(-50, 50, 10001)
    found = calibration(scores)
    assert np.all(np.diff(found) > 0) and found.min() > -3.0 and found.max() < 4.0
    slope = np.gradient(found, scores)
    assert np.abs(np.diff(slope)).max() < 0.12  # no kink: steps of 0.01 in the score
    middle = np.abs(2.0 * scores + 1.0) < 2.4
    np.testing.assert_allclose(found[middle], (2.0 * scores + 1.0)[middle], rtol=1e-12)
    far = calibration(np.array([1e6, 1e9, -1e9]))
    assert np.all(np.isfinite(far)) and far[0] < far[1]


def test_a_learner_is_weighed_against_the_class_frequencies():
    rng = np.random.default_rng(0)
    signs = np.where(np.arange(300) % 4 == 0, 1.0, -1.0)
    weights = np.ones(300)
    nothing = fit_calibration(rng.standard_normal(300), signs, weights)
    final = final_calibration(nothing, signs, weights)
    assert abs(final.slope) < 0.05 and abs(final.offset - np.log(1 / 3)) < 0.1
    told = fit_calibration(2.0 * signs + rng.standard_normal(300), signs, weights)
    final = final_calibration(told, signs, weights, candidates=50)
    np.testing.assert_allclose([final.slope, final.offset], [told.slope, told.offset], rtol=1e-6)


def calibration_objective(slope, offset, scores, signs):
    """What `fit_calibration` says that it minimises, with equal weights."""
    targets, u = platt_targets(signs, np.ones(len(signs))), slope * scores + offset
    prior = (np.log(slope) / LOG_SLOPE) ** 2 + (offset / OFFSET) ** 2
    return np.mean(np.logaddexp(0.0, u) - targets * u) + 0.5 * prior / len(signs)


@pytest.mark.parametrize("told", [0.0, 1.0, -1.0])
@pytest.mark.parametrize("size", [1.0, 1e6, 1e20])
def test_scores_of_any_size_are_drawn_in(size, told):
    """A learner without a scale may be sure of itself by a factor of a billion; slopes that stop at e^-12 cost 10^6 nats."""
    signs = np.where(np.arange(300) % 4 == 0, 1.0, -1.0)
    scores = size * (np.random.default_rng(3).standard_normal(300) + told * signs)
    found = fit_calibration(scores, signs, np.ones(300))
    slopes, offsets = np.exp(np.linspace(-52.0, 3.0, 441)), np.linspace(-0.8, 0.8, 9)
    best = min(calibration_objective(slope, offset, scores, signs) for slope in slopes for offset in offsets)
    assert calibration_objective(found.slope, found.offset, scores, signs) < best + 1e-6
    assert found.loss < 0.75  # the class frequencies have 0.57


def test_copies_do_not_count_as_evidence_again():
    weights, groups = np.ones(60), np.repeat(np.arange(20), 3)
    low, high = supported_range(np.where(np.arange(100) % 2, 1.0, -1.0), np.ones(100), 5.0)
    np.testing.assert_allclose((-low, high), np.log(11.0))
    signs = np.where(np.arange(20) % 2, 1.0, -1.0)
    scores = 0.6 * signs + np.random.default_rng(5).standard_normal(20)
    found = fit_calibration(scores[groups], signs[groups], weights)
    plain = final_calibration(found, signs[groups], weights)
    aware = final_calibration(found, signs[groups], weights, scores=scores[groups], groups=groups)
    assert plain.slope > 0.9 * found.slope and aware.slope < 0.5 * found.slope


@pytest.mark.parametrize(
    "model",
    [
        BagClassifier(lift=20, candidates=["pooled", "tied"]),
        AttentionClassifier(),
        AttentionClassifier(training="joint"),
        PooledClassifier(),
    ],
    ids=["bag", "staged", "joint", "pooled"],
)
@pytest.mark.parametrize("positive, groups", [(15, np.zeros(30)), (15, np.arange(30) // 15), (1, None), (29, None)])
def test_where_nothing_can_be_held_out_odds_stay_near_the_frequencies(model, positive, groups):
    """Labels of pure noise; a single group cost up to 1.5 times the frequencies' log loss, a single bag of 200 2.7 times."""
    rng = np.random.default_rng(0)
    labels = np.arange(30) < positive
    with pytest.warns(TrainingWarning, match="no bag could be held out"):
        fitted = clone(model).fit(rng.standard_normal((30, 5, 6)), labels, groups=groups)
    odds = fitted.decision_function(rng.standard_normal((200, 5, 6)))
    prior = np.log(positive / (30 - positive))
    assert np.abs(odds - prior).max() < np.log(2)
    assert len(np.unique(odds)) == 200  # bags are still told apart


def test_the_centre_is_left_alone_and_the_bounds_are_approached():
    calibration = Calibration(low=-4.0, high=-2.0, center=-3.0)
    found = calibration(np.array([-1e3, -3.5, -3.0, -2.5, 0.0, 1e3]))
    assert np.all(np.diff(found) > 0) and -4.0 < found[0] < -3.99 and -2.01 < found[-1] < -2.0
    np.testing.assert_allclose(found[1:4], [-3.5, -3.0, -2.5])


@pytest.mark.filterwarnings("ignore::sparsetoken.estimators.base.TrainingWarning")
@pytest.mark.parametrize("classes, patients", [(2, 4), (3, 9)])
@pytest.mark.parametrize(
    "model", [PooledClassifier(), BagClassifier(lift=20, candidates=["mean", "pooled"])], ids=["pooled", "bag"]
)
def test_patients_that_differ_are_not_taken_for_classes(model, classes, patients):
    """Twenty bags per patient say little more about the patients' labels than one: chance alone told held-out patients apart
    well enough to be trusted, at up to 2.3 times the class frequencies' log loss on new patients."""
    worst = 0.0
    for seed in range(10):
        rng = np.random.default_rng(seed)

        def bags_of(count, rng=rng):
            own = 1.5 * rng.standard_normal((count, 1, 1, 8))
            return (rng.standard_normal((count, 20, 4, 8)) + own).reshape(-1, 4, 8)

        labels = np.repeat(rng.permutation(np.arange(patients) % classes), 20)
        fitted = clone(model).fit(bags_of(patients), labels, groups=np.repeat(np.arange(patients), 20))
        worst = max(worst, -np.log(fitted.predict_proba(bags_of(20))).mean() / np.log(classes))
    assert worst < 1.1

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
    OFFSET,
    SLOPE,
    Calibration,
    best_calibrated,
    design_effect,
    final_calibration,
    fit_calibration,
    platt_targets,
)
from sparsetoken.estimators.labels import checked_groups, class_folds, number_folds
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
    assert turned.slope == 0.0  # a ranking is never reversed


def test_folds_hold_both_classes_and_every_bag_once():
    signs = np.array([1.0] * 7 + [-1.0] * 23)
    folds = class_folds(signs, 0)
    assert sorted(np.concatenate(folds)) == list(range(30))
    assert {int((signs[f] > 0).sum()) for f in folds} <= {1, 2}
    assert class_folds(np.array([1.0, -1.0, -1.0]), 0) == []
    groups = np.arange(30) // 3
    for held in class_folds(signs, 0, groups):
        rest = np.setdiff1d(np.arange(30), held)
        assert not set(groups[held]) & set(groups[rest]) and len(np.unique(signs[rest])) == 2
    assert class_folds(signs, 0, np.zeros(30, dtype=int)) == [] == number_folds(30, 0, np.zeros(30, dtype=int))
    assert sorted(np.concatenate(number_folds(11, 0))) == list(range(11))


def test_folds_do_not_depend_on_the_names_of_classes():
    signs = np.where(np.random.default_rng(0).random(40) < 0.4, 1.0, -1.0)
    for groups in (None, np.arange(40) // 2):
        for one, other in zip(class_folds(signs, 3, groups), class_folds(-signs, 3, groups)):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (3, "one group per bag, got 3"),
        ([1, 2], "4 bags and 2 groups"),
        ([1, 2, None, 1], "a group for every bag, bag 2 has none"),
        ([[1], [2], [3], [1]], "text or numbers"),
    ],
)
def test_bad_groups_end_in_a_sentence(groups, message):
    with pytest.raises(ValueError, match=message):
        checked_groups(groups, 4)
    assert checked_groups(["a", "b", "c", "d"], 4) is None
    np.testing.assert_array_equal(checked_groups(["a", "b", "a", "d"], 4), [0, 1, 0, 2])


@pytest.mark.parametrize("model", [PooledClassifier, BagClassifier, AttentionClassifier])
def test_a_bad_random_state_is_named(model):
    X, y = np.random.default_rng(0).standard_normal((20, 3, 2)), np.arange(20) % 2
    with pytest.raises(ValueError, match="random_state must be None, a whole number"):
        model(random_state="x").fit(X, y)


def test_of_several_settings_the_one_of_least_calibrated_loss_is_chosen():
    rng = np.random.default_rng(3)
    signs, weights = np.where(np.arange(80) % 2, 1.0, -1.0), np.ones(80)
    rows = [rng.standard_normal(80), 2.0 * signs + rng.standard_normal(80), -2.0 * signs]
    place, scores, calibration = best_calibrated(iter(rows), signs, weights, None)
    assert place == 1 and scores is rows[1]
    assert calibration == final_calibration(fit_calibration(rows[1], signs, weights), rows[1], signs, weights, 3)


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
    noise = rng.standard_normal(300)
    nothing = fit_calibration(noise, signs, weights)
    final = final_calibration(nothing, noise, signs, weights, 1)
    assert abs(final.slope) < 0.05 and abs(final.offset - np.log(1 / 3)) < 0.1
    scores = 2.0 * signs + rng.standard_normal(300)
    found = fit_calibration(scores, signs, weights)
    final = final_calibration(found, scores, signs, weights, 50)
    np.testing.assert_allclose([final.slope, final.offset], [found.slope, found.offset], rtol=1e-6)


def calibration_objective(slope, offset, scores, signs):
    """What `fit_calibration` says that it minimises, with equal weights."""
    targets, u = platt_targets(signs, np.ones(len(signs))), slope * scores + offset
    prior = ((slope - 1.0) / SLOPE) ** 2 + (offset / OFFSET) ** 2
    return np.mean(np.logaddexp(0.0, u) - targets * u) + 0.5 * prior / len(signs)


@pytest.mark.parametrize("signal", [0.0, 1.0, -1.0])
@pytest.mark.parametrize("size", [1.0, 1e6, 1e20])
def test_scores_of_any_size_are_shrunk(size, signal):
    """A learner without a scale may be sure of itself by a factor of a billion."""
    signs = np.where(np.arange(300) % 4 == 0, 1.0, -1.0)
    scores = size * (np.random.default_rng(3).standard_normal(300) + signal * signs)
    found = fit_calibration(scores, signs, np.ones(300))
    slopes, offsets = np.append(0.0, np.exp(np.linspace(-52.0, 3.0, 441))), np.linspace(-1.2, 0.8, 41)
    best = min(calibration_objective(slope, offset, scores, signs) for slope in slopes for offset in offsets)
    assert calibration_objective(found.slope, found.offset, scores, signs) < best + 1e-4
    assert found.loss < 0.75  # the class frequencies have 0.57


def test_copies_do_not_count_as_evidence_again():
    weights, groups = np.ones(60), np.repeat(np.arange(20), 3)
    signs = np.where(np.arange(20) % 2, 1.0, -1.0)
    scores = 0.6 * signs + np.random.default_rng(5).standard_normal(20)
    np.testing.assert_allclose(design_effect(scores[groups], weights, groups), 3.0)
    assert design_effect(scores, np.ones(20), None) == 1.0
    found = fit_calibration(scores[groups], signs[groups], weights)
    plain = final_calibration(found, scores[groups], signs[groups], weights, 1)
    aware = final_calibration(found, scores[groups], signs[groups], weights, 1, groups)
    assert plain.slope > 0.9 * found.slope and aware.slope < 0.5 * found.slope
    np.testing.assert_allclose((plain.high, aware.high), np.log([31.0, 11.0]))


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
    assert len(np.unique(odds)) == 200  # bags still have different odds


def test_the_centre_is_left_alone_and_the_bounds_are_approached():
    calibration = Calibration(low=-4.0, high=-2.0, center=-3.0)
    found = calibration(np.array([-1e3, -3.5, -3.0, -2.5, 0.0, 1e3]))
    assert np.all(np.diff(found) > 0) and -4.0 < found[0] < -3.99 and -2.01 < found[-1] < -2.0
    np.testing.assert_allclose(found[1:4], [-3.5, -3.0, -2.5])


@pytest.mark.filterwarnings("ignore::sparsetoken.estimators.base.TrainingWarning")
@pytest.mark.parametrize("classes, patients", [(2, 4), (2, 8), (3, 9)])
@pytest.mark.parametrize(
    "model", [PooledClassifier(), BagClassifier(lift=20, candidates=["pooled"])], ids=["pooled", "bag"]
)
def test_patients_that_differ_are_not_taken_for_classes(model, classes, patients):
    """Twenty bags per patient say little more about the patients' labels than one: by chance alone held-out patients were
    separated well enough to be trusted, at up to 2.3 times the class frequencies' log loss on new patients."""
    worst = 0.0
    for seed in range(10):
        rng = np.random.default_rng(seed)

        def bags_of(count, rng=rng):
            own = 1.5 * rng.standard_normal((count, 1, 1, 8))
            return (rng.standard_normal((count, 20, 4, 8)) + own).reshape(-1, 4, 8)

        labels = np.repeat(rng.permutation(np.arange(patients) % classes), 20)
        fitted = clone(model).fit(bags_of(patients), labels, groups=np.repeat(np.arange(patients), 20))
        worst = max(worst, -np.log(fitted.predict_proba(bags_of(20))).mean() / np.log(classes))
    assert worst < 1.05

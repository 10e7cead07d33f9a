"""Groups: bags of one patient stay on one side of every inner split."""

from __future__ import annotations

import numpy as np
import pytest

from sparsetoken import AttentionClassifier, BagClassifier, Bags, MessagePassingClassifier, PooledClassifier
from sparsetoken.estimators import descent, folds, readout, staged
from sparsetoken.estimators.canonical import canonical, joined_groups
from sparsetoken.estimators.evaluation import stratified_splits
from sparsetoken.estimators.folds import checked_groups, stratified_folds
from sparsetoken.estimators.message_passing import classifier as message_passing
from tests.helpers import planted_bags


@pytest.mark.parametrize("seed", range(5))
def test_groups_stay_together_and_classes_even(seed):
    rng = np.random.default_rng(seed)
    groups = rng.integers(0, 25, 120)
    signs = np.where(rng.random(120) < 0.3, 1.0, -1.0)
    folds = stratified_folds(signs, rng, groups=groups)
    assert len(folds) == 5
    np.testing.assert_array_equal(np.sort(np.concatenate(folds)), np.arange(120))
    for held in folds:
        assert not set(groups[held]) & set(np.delete(groups, held))
        assert 0.05 < np.mean(signs[np.flatnonzero(signs > 0)].size and np.isin(np.flatnonzero(signs > 0), held)) < 0.45


def test_too_few_groups_hold_nothing_out():
    signs, rng = np.array([1.0, 1.0, 1.0, -1.0, -1.0, -1.0]), np.random.default_rng(0)
    assert stratified_folds(signs, rng, groups=np.array([0, 0, 0, 1, 2, 3])) == []
    assert stratified_folds(signs, rng, groups=np.zeros(6, dtype=int)) == []
    two = stratified_folds(signs, rng, groups=np.array([0, 0, 1, 1, 2, 3]))
    assert len(two) == 2 and all(len(np.unique(np.delete(signs, held))) == 2 for held in two)


def test_copies_of_a_bag_join_their_groups():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((6, 2, 3))
    X[4] = X[0]
    used = canonical(Bags(X), np.array([1.0, -1, 1, -1, 1, -1]), np.array([1.0, 1, 1, 1, 1, 0]))
    assert used.places[0] == used.places[4] and used.places[5] == -1 and len(used.rows) == 4
    np.testing.assert_array_equal(used.rows[used.places[[1, 2, 3]]], [1, 2, 3])
    joined = joined_groups(np.array([7, 7, 3, 5, 3, 5]), used.places)
    of = joined[used.places]
    assert of[0] == of[1] == of[2] == of[4] != of[3]


@pytest.mark.parametrize(
    ("module", "model"),
    [
        (folds, BagClassifier(lift=0, candidates=["linear", "trees"], ridge=0.1)),
        (staged, AttentionClassifier()),
        (descent, AttentionClassifier(training="tied")),
        (readout, PooledClassifier()),
        (message_passing, MessagePassingClassifier(sparsity=1)),
    ],
    ids=["bag-classifier", "staged", "tied", "pooled", "message-passing"],
)
def test_every_learner_splits_by_group(module, model, monkeypatch):
    """Patients of four bags each, which share a mark: held-out bags are never siblings of those learnt from."""
    X, y, _ = planted_bags(0, n=80, length=3, d=6)
    patients = np.repeat(np.arange(20), 4)
    seen = []

    def watched(signs, rng, *rest, groups=None, **more):
        found = stratified_folds(signs, rng, *rest, groups=groups, **more)
        seen.append((groups, found))
        return found

    monkeypatch.setattr(module, "stratified_folds", watched)
    model.fit(X, y, groups=[f"patient {p}" for p in patients])
    assert seen
    for groups, dealt in seen:
        assert len(np.unique(groups)) == 20 and len(dealt) == 5
        for held in dealt:
            assert not set(groups[held]) & set(np.delete(groups, held))
    assert model.fit(X, y).predict(X).shape == (80,)


def test_the_two_stages_keep_groups_apart():
    signs = np.where(np.arange(40) % 2, 1.0, -1.0)
    groups = np.arange(40) // 4
    order = staged._dealt(signs, np.random.default_rng(0), groups)
    first, second, share = staged._parts(order, signs, 0.5, groups)
    assert share == 0.5 and not set(groups[first]) & set(groups[second]) and len(first) == len(second) == 20


def test_siblings_that_give_themselves_away_fool_only_a_learner_without_groups():
    """Noise with a mark per patient, and one label per patient: nothing can be learnt for new patients."""
    rng = np.random.default_rng(2)
    patients = np.repeat(np.arange(24), 5)
    marks, labels = rng.standard_normal((24, 30)), rng.permutation(np.arange(24) % 2)
    y = labels[patients]
    copies = (marks[patients] + 0.1 * rng.standard_normal((120, 30)))[:, None, :]
    siblings = np.concatenate([copies, rng.standard_normal((120, 1, 50))], axis=2)  # alike in some features only
    naive = PooledClassifier().fit(siblings, y)
    assert naive.diagnostics_["held_out_auc"] > 0.9 and "near_copies" not in naive.diagnostics_
    for X, groups, found in ((siblings, patients, None), (copies, patients, None), (copies, None, 96)):
        with pytest.warns(UserWarning, match="signal too weak"):
            honest = PooledClassifier().fit(X, y, groups=groups)
        assert honest.diagnostics_["held_out_auc"] < 0.75 and honest.diagnostics_.get("near_copies") == found


def test_bad_groups_end_in_a_sentence():
    X, y, _ = planted_bags(0, n=20, length=3, d=4)
    with pytest.raises(ValueError, match="there are 20 bags and 3 groups"):
        PooledClassifier().fit(X, y, groups=[1, 2, 3])
    with pytest.raises(ValueError, match="bag 19 has no group"):
        PooledClassifier().fit(X, y, groups=[*range(19), None])
    with pytest.raises(ValueError, match="groups must be text or numbers"):
        PooledClassifier().fit(X, y, groups=[[1]] * 20)


def test_outer_splits_keep_groups_together():
    rng = np.random.default_rng(3)
    groups = rng.integers(0, 12, 60)
    labels = np.array(list("abc"))[rng.integers(0, 3, 60)]
    for fold in stratified_splits(labels, 3, 2, 0, groups):
        assert all(len(np.unique(fold[groups == g])) == 1 for g in np.unique(groups))
    with pytest.raises(ValueError, match="all bags of class 'a' are in one group"):
        stratified_splits(labels, 3, 1, 0, np.zeros(60))


def test_groups_of_the_wrong_form():
    with pytest.raises(ValueError, match="groups must hold one group per bag, got 3"):
        checked_groups(3, 20)

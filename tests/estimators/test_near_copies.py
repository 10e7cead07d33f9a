"""Near copies of bags: found where they are beyond doubt, and nowhere else."""

from __future__ import annotations

import numpy as np
import pytest

from sparsetoken import Bags, PooledClassifier
from sparsetoken.estimators import near_copies as module
from sparsetoken.estimators.near_copies import near_copies
from sparsetoken.estimators.training_range import fit_range


def groups_of(X, classes=None) -> np.ndarray | None:
    """The groups that a learner would keep together."""
    n = len(X)
    classes = np.arange(n) % 2 if classes is None else classes
    _, rows = fit_range(Bags(X), np.where(classes, 1.0, -1.0), np.ones(n))
    return near_copies(rows, classes)


def copies(rng, distinct, times, length, d, noise):
    """Bags that come several times, with some noise and their tokens in another order."""
    X = rng.standard_normal((distinct, length, d))
    X = np.concatenate([X[:, rng.permutation(length)] for _ in range(times)])
    return X + noise * rng.standard_normal(X.shape)


@pytest.mark.parametrize(("distinct", "times", "d"), [(50, 2, 10), (25, 4, 40), (10, 10, 40), (8, 6, 150)])
@pytest.mark.parametrize("noise", [0.01, 0.1])
def test_near_copies_are_kept_together(distinct, times, d, noise):
    X = copies(np.random.default_rng(1), distinct, times, 5, d, noise)
    found = groups_of(X)
    truth = np.tile(np.arange(distinct), times)
    assert found is not None and len(found) == len(X)
    for one in range(distinct):
        assert len(np.unique(found[truth == one])) == 1  # copies are together
    assert found.max() + 1 >= 0.96 * distinct  # and hardly anything else is
    _, first = np.unique(found, return_index=True)
    assert np.all(np.diff(first) > 0)  # numbered in the order in which they first come


def test_blocks_of_bags_change_nothing(monkeypatch):
    X = copies(np.random.default_rng(2), 30, 2, 5, 40, 0.1)
    X[7] *= 30.0  # a bag far from the others, which makes single precision rougher for all
    whole = groups_of(X)
    monkeypatch.setattr(module, "SAMPLE", 59)  # every second bag tells the distances between bags
    for rows in (250, 7):
        monkeypatch.setattr(module, "ROWS", rows)
        np.testing.assert_array_equal(groups_of(X), whole)
    monkeypatch.setattr(module, "MOST_BAGS", 50)
    assert groups_of(X) is None


@pytest.mark.parametrize("share", [0.2, 0.5])
def test_quantiles_are_numpys(share):
    rng = np.random.default_rng(4)
    drawn = rng.chisquare(5, 5000)
    for values in (drawn, drawn[:7], drawn[:1], np.sort(drawn), np.round(drawn), np.zeros(50), np.tile(drawn[:37], 90)):
        assert module._quantile(values, share) == pytest.approx(np.quantile(values, share), rel=1e-12)


@pytest.mark.parametrize("rows", [3, 250])
def test_close_pairs_are_those_of_all_distances(rows, monkeypatch):
    monkeypatch.setattr(module, "ROWS", rows)
    rng = np.random.default_rng(3)
    points = rng.standard_normal((40, 6)) * np.append(np.ones(39), 1e3)[:, None]
    points[5] = points[4] + 1e-3
    squares = np.sum((points[:, None] - points) ** 2, axis=2)
    for most in (1e-9, 1.0, 4.0, 1e9):
        pairs = np.argwhere(np.triu(squares < most, 1))
        norms = np.sum(points**2, axis=1)
        pairs_of_all, closest = module._distances(points.astype(np.float32), norms)
        np.testing.assert_allclose(pairs_of_all, squares[np.triu_indices(40, 1)], rtol=1e-4, atol=1e-4)
        i, j, distance = module._close_pairs(points, norms, closest, most)
        assert sorted(zip(i, j)) == [tuple(pair) for pair in pairs]
        np.testing.assert_allclose(distance, squares[i, j], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_bags_that_have_nothing_to_do_with_each_other_stay_apart(seed):
    rng = np.random.default_rng(seed)
    places = 3.0 * rng.standard_normal((3, 1, 40))
    for X in (
        rng.standard_normal((80, 5, 40)),
        rng.standard_t(3, (80, 5, 40)),
        rng.standard_normal((80, 5, 40)) + places[rng.integers(3, size=80)],  # three clusters
        rng.poisson(0.3, (200, 5, 3)) * 1.0,  # many bags agree, as new ones will
        rng.standard_normal((5, 3, 4)),
        np.ones((20, 3, 4)),
    ):
        assert groups_of(X) is None


@pytest.mark.parametrize("others", [0, 2])
def test_a_class_whose_bags_are_all_alike_is_not_taken_for_copies_of_one_bag(others):
    rng = np.random.default_rng(3)
    y = (np.arange(100) % 10 == 0).astype(int)
    X = rng.standard_normal((100, 5, 20))
    alike = np.flatnonzero(y)[others:]  # all of the class, or all but two
    X[alike] = 0.7 * rng.standard_normal(20) + X[alike] / 20.0
    assert groups_of(X, y) is None
    model = PooledClassifier().fit(X, y)
    assert model.diagnostics_["held_out_auc"] > 0.8 and "near_copies" not in model.diagnostics_


def test_copies_in_the_other_class_are_found_all_the_same():
    rng = np.random.default_rng(4)
    y = (np.arange(100) % 10 == 0).astype(int)
    X = rng.standard_normal((100, 5, 20))
    X[y == 1] = 0.7 * rng.standard_normal(20) + X[y == 1] / 20.0
    X[1:10] = X[11] + 0.05 * rng.standard_normal((9, 5, 20))
    found = groups_of(X, y)
    assert len(np.unique(found[[*range(1, 10), 11]])) == 1 and len(np.unique(found)) == 91
    # Few different bags, each several times: none of them makes up most of its class, and they stay together.
    few = copies(rng, 8, 6, 5, 20, 0.05)
    assert len(np.unique(groups_of(few, np.arange(48) % 2))) == 8


def test_a_class_of_several_whose_bags_are_all_alike_stays_apart():
    rng = np.random.default_rng(5)
    y = np.where(np.arange(90) % 9 == 0, 2, np.arange(90) % 2)
    X = rng.standard_normal((90, 5, 20))
    X[y == 2] = 0.7 * rng.standard_normal(20) + X[y == 2] / 20.0
    X[y == 1, :, 0] += 2.0
    found = PooledClassifier().fit(X, y).diagnostics_["per_class"]
    assert all("near_copies" not in one and one["held_out_auc"] > 0.9 for one in found.values())

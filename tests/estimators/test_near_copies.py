"""Near copies of bags: found where they are beyond doubt, and nowhere else."""

from __future__ import annotations

import numpy as np
import pytest

from sparsetoken import Bags
from sparsetoken.estimators import near_copies as module
from sparsetoken.estimators.near_copies import near_copies
from sparsetoken.estimators.training_range import fit_range


def groups_of(X) -> np.ndarray | None:
    """The groups that a learner would keep together."""
    n = len(X)
    _, rows = fit_range(Bags(X), np.where(np.arange(n) % 2, 1.0, -1.0), np.ones(n))
    return near_copies(rows)


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
    whole = groups_of(X)
    monkeypatch.setattr(module, "SAMPLE", 13)
    np.testing.assert_array_equal(groups_of(X), whole)
    monkeypatch.setattr(module, "MOST_BAGS", 50)
    assert groups_of(X) is None


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

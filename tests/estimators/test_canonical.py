"""Inner splits follow what the bags hold: not their order, not the features' units, not the precision."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.base import clone

from sparsetoken import AttentionClassifier, BagClassifier, Bags, MessagePassingClassifier, PooledClassifier
from sparsetoken.estimators.base import TrainingWarning
from sparsetoken.estimators.candidates import DEFAULT
from sparsetoken.estimators.canonical import canonical
from tests.helpers import planted_bags

MODELS = [BagClassifier(lift=20), AttentionClassifier(), PooledClassifier(), MessagePassingClassifier(sparsity=1)]


def order(bags: Bags, labels: np.ndarray) -> list[int]:
    return canonical(bags, np.where(labels > 0, 1.0, -1.0), np.ones(len(labels)))[0].tolist()


def test_the_order_depends_on_content_alone():
    bags, labels, _ = planted_bags(0, n=300, ragged=True)
    data = Bags(bags)
    found = order(data, labels)
    assert sorted(found) == list(range(300)) and found != sorted(found)
    units = np.geomspace(1e-3, 1e3, data.n_features)
    shifted = data.with_tokens(data.tokens * units + 10 * units)
    assert order(shifted, labels) == found
    assert order(data.astype(np.float32), labels) == found
    for extreme in (1e-200, 1e-40, 1e200):  # beyond single precision, to which the numbers are rounded
        assert order(data.with_tokens(data.tokens * extreme), labels) == found
    turned = np.random.default_rng(0).permutation(300)
    assert turned[order(data[turned], labels[turned])].tolist() == found


def test_copies_are_merged_and_bags_that_only_look_like_copies_are_not():
    rng = np.random.default_rng(2)
    X = rng.standard_normal((12, 5, 3))
    X[1] = X[0]  # a copy, with the same label
    X[3] = X[2]  # a copy with the other label
    X[4, 0, 0], X[5] = 0.0, X[4]
    X[5, 0, 0] = -0.0  # the same number
    X[7, [0, 2, 4]] = X[6, [0, 2, 4]]  # first, middle and last token
    X[9] = X[8]  # a copy that does not count
    labels, weights = np.array([0, 0, 0, 1, 1, 1, 0, 0, 1, 1, 0, 1]), np.arange(1.0, 13.0)
    weights[9] = 0.0
    rows, total, places = canonical(Bags(X), np.where(labels > 0, 1.0, -1.0), weights)
    assert sorted(rows) == [0, 2, 3, 4, 6, 7, 8, 10, 11]
    assert dict(zip(rows.tolist(), total)) == {0: 3, 2: 3, 3: 4, 4: 11, 6: 7, 7: 8, 8: 9, 10: 11, 11: 12}
    assert places[0] == places[1] and places[4] == places[5] and places[9] == -1
    np.testing.assert_array_equal(rows[np.delete(places, 9)], [0, 0, 2, 3, 4, 4, 6, 7, 8, 10, 11])
    turned = rng.permutation(12)  # bags that the numbers cannot tell apart, 2 and 3, come in the same order
    again = canonical(Bags(X[turned]), np.where(labels > 0, 1.0, -1.0)[turned], weights[turned])
    np.testing.assert_array_equal(X[turned][again.rows], X[rows])
    np.testing.assert_array_equal(labels[turned][again.rows], labels[rows])


def test_bags_of_equal_means_are_told_apart():
    rng = np.random.default_rng(1)
    halves = rng.standard_normal((40, 1, 3))
    bags = Bags(np.concatenate([halves, -halves], axis=1))  # all means are zero
    labels = np.arange(40) % 2
    turned = rng.permutation(40)
    assert turned[order(bags[turned], labels[turned])].tolist() == order(bags, labels)
    assert order(bags.with_tokens(8 * bags.tokens), labels) == order(bags, labels)


@pytest.mark.parametrize("model", MODELS, ids=lambda m: type(m).__name__)
def test_units_and_precision_leave_probabilities_alone(model):
    """Twice the features, or single precision, changed probabilities by up to .70 when splits followed the bytes."""
    bags, labels, _ = planted_bags(3, n=90, d=6, strength=3.0)
    fresh, _, _ = planted_bags(4, n=50, d=6, strength=3.0)
    units = np.array([2.0, 3.7, 1e-3, 1e4, 0.3, 60.0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TrainingWarning)
        if isinstance(
            model, BagClassifier
        ):  # one scale for all features minds their units by design, but not a common one
            plain = clone(model).fit(bags, labels).predict_proba(fresh)
            doubled = clone(model).fit([2.0 * b for b in bags], labels).predict_proba([2.0 * b for b in fresh])
            np.testing.assert_allclose(doubled, plain, atol=1e-3)
            model = clone(model).set_params(candidates=[name for name in DEFAULT if name != "even"])
        plain = clone(model).fit(bags, labels).predict_proba(fresh)
        other = clone(model).fit([b * units for b in bags], labels).predict_proba([b * units for b in fresh])
        single = clone(model).fit([b.astype(np.float32) for b in bags], labels)
    np.testing.assert_allclose(other, plain, atol=1e-3)
    np.testing.assert_allclose(single.predict_proba([b.astype(np.float32) for b in fresh]), plain, atol=2e-2)


def test_zero_weights_are_left_out_and_copies_merged():
    bags, labels, _ = planted_bags(5, n=10, d=3)
    data = Bags([*bags, bags[0], bags[1]])
    signs = np.where(np.append(labels, labels[:2]) > 0, 1.0, -1.0)
    weights = np.append(np.ones(10), [2.0, 0.5])
    weights[4] = 0.0
    rows, merged, _ = canonical(data, signs, weights)
    assert sorted(rows) == [0, 1, 2, 3, 5, 6, 7, 8, 9]
    assert dict(zip(rows.tolist(), merged))[0] == 3.0 and dict(zip(rows.tolist(), merged))[1] == 1.5

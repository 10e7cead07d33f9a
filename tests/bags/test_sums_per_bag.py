"""Reductions over ragged bags."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparsetoken import Bags
from sparsetoken.bags.sums_per_bag import (
    bag_exponentials,
    bag_extremes,
    bag_mean,
    bag_softmax,
    bag_sum,
    over_tokens,
    rows_of,
    weighted_bag_sum,
)


def ragged(rng, lengths=(3, 1, 5, 2), d=4, dtype=np.float64):
    return [rng.standard_normal((n, d)).astype(dtype) for n in lengths]


@pytest.fixture
def rng():
    return np.random.default_rng(7)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("longest", [40, 700, 2000])
def test_sums_and_extremes_of_wide_tokens_agree_with_loops(rng, dtype, longest):
    """Wide tokens are added row by row, longer bags in single precision pair by pair or bag by bag, to the last digits."""
    bags = Bags([100 + x for x in ragged(rng, lengths=(longest, 1, 33), d=40, dtype=dtype)] * (1 + 2000 // longest))
    least, largest = bag_extremes(bags.tokens, bags.starts)
    np.testing.assert_array_equal(least, [bag.min(axis=0) for bag in bags])
    np.testing.assert_array_equal(largest, [bag.max(axis=0) for bag in bags])
    tolerance = {np.float64: 1e-13, np.float32: 2e-6}[dtype]
    expected = [bag.astype(np.float64).sum(axis=0) for bag in bags]
    found = bag_sum(bags.tokens, bags.starts)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, expected, rtol=tolerance)
    np.testing.assert_array_equal(
        bag_sum(bags.tokens[:, :5], bags.starts), np.add.reduceat(bags.tokens[:, :5], bags.starts)
    )


def test_ragged_reductions_agree_with_loops(rng):
    bags = Bags(ragged(rng, lengths=(1, 4, 2, 7)))
    scores = rng.standard_normal(bags.n_tokens) * 50
    weights, smooth = bag_softmax(scores, bags.starts)
    pooled = weighted_bag_sum(weights, bags.tokens, bags.starts)
    for i, (x, s) in enumerate(zip(bags, np.split(scores, bags.starts[1:]))):
        p = np.exp(s - s.max())
        p /= p.sum()
        np.testing.assert_allclose(weights[bags.bag_of_token == i], p, rtol=1e-12)
        np.testing.assert_allclose(smooth[i], np.log(np.mean(np.exp(s - s.max()))) + s.max(), rtol=1e-12)
        np.testing.assert_allclose(pooled[i], p @ x, rtol=1e-12)
        np.testing.assert_allclose(bag_mean(bags.tokens, bags.starts)[i], x.mean(axis=0), rtol=1e-12)
        np.testing.assert_allclose(bag_sum(scores, bags.starts)[i], s.sum(), rtol=1e-12)
        least, largest = bag_extremes(bags.tokens, bags.starts)
        np.testing.assert_array_equal((least[i], largest[i]), (x.min(axis=0), x.max(axis=0)))
    for lengths in (
        (1, 4, 2, 7, 1, 3, 3, 2),
        (40, 1, 2, 60),
        (5, 1),
    ):  # tokens or bags one after the other, or first the ones
        wide = Bags([rng.standard_normal((length, 20)) for length in lengths])
        for mine, reference in zip(bag_extremes(wide.tokens, wide.starts), (np.min, np.max)):
            np.testing.assert_array_equal(mine, [reference(x, axis=0) for x in wide])
    even = rng.standard_normal((12, 3))
    for mine, reference in zip(bag_extremes(even, np.array([0, 4, 8])), (np.min, np.max)):
        np.testing.assert_array_equal(mine, reference(even.reshape(3, 4, 3), axis=1))
    chosen = np.array([3, 1])
    rows = rows_of(bags.starts[chosen], bags.lengths[chosen])
    assert np.array_equal(bags.tokens[rows], np.concatenate([bags[3], bags[1]]))


@pytest.mark.parametrize("size", [1.0, 50.0, 400.0, 5000.0])
def test_exponentials_over_their_sum_are_the_softmax(rng, size):
    starts = np.array([0, 1, 5, 7])
    scores = size * rng.uniform(-1.0, 1.0, (14, 3))
    scores[2] = -size  # far below the largest
    exponentials, total, smooth = bag_exponentials(scores, starts)
    weights, expected = bag_softmax(scores, starts)
    np.testing.assert_allclose(exponentials / over_tokens(total * np.ones((4, 3)), starts, 14), weights, rtol=1e-12)
    np.testing.assert_allclose(smooth, expected, rtol=1e-12, atol=1e-13)
    assert np.all(np.isfinite(exponentials)) and np.all(total > 0)


@given(st.lists(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=9), min_size=1, max_size=9))
def test_attention_of_every_bag_is_a_probability(scores):
    starts = np.cumsum([0, *map(len, scores[:-1])])
    weights, smooth = bag_softmax(np.concatenate(scores), starts)
    for own, found, level in zip(scores, np.split(weights, starts[1:]), smooth, strict=True):
        assert found.sum() == pytest.approx(1.0) and found.min() >= 0.0
        assert found[np.argmax(own)] == found.max()
        # The smooth maximum lies between the mean and the maximum.
        slack = 1e-9 * (1.0 + np.abs(own).max())
        assert np.mean(own) - slack <= level <= np.max(own) + slack

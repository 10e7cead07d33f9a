"""BagScaler: constant features, the range of the training tokens, tails of one class only, and containers."""

from __future__ import annotations

from functools import reduce

import numpy as np
import pandas as pd
import pytest

from sparsetoken import Bags, BagScaler
from sparsetoken.bags.scaler import LEAST_CARRIERS, merged_moments, part_moments


@pytest.mark.parametrize("value", [0.1, 1e7 + 0.1, -3e-5, 0.0])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("compress", [False, True])
def test_a_constant_feature_stays_harmless_whatever_its_value_later(value, dtype, compress):
    """A sum of 40000 times 0.1 is off by more than ten roundings of 0.1: taken for a spread, it multiplies by 1e16."""
    tokens = np.random.default_rng(0).standard_normal((40000, 2)).astype(dtype)
    tokens[:, 1] = value
    scaler = BagScaler(compress=compress).fit(tokens)
    assert scaler.scale_[1] == 1.0
    later = tokens[:5].copy()
    later[:, 1] = [0.0, 1.0, -50.0, 1e6, value]
    np.testing.assert_array_equal(scaler.transform(later)[:, 1], 0.0)


def test_tokens_are_clipped_to_a_margin_around_the_training_range():
    rng = np.random.default_rng(1)
    tokens = rng.standard_normal((500, 3)) * [1.0, 100.0, 1e-3] + [0.0, 7.0, 5.0]
    later = rng.standard_normal((200, 3)) * [1e6, 1.0, 1.0]
    for compress in (False, True):
        scaler = BagScaler(compress=compress).fit(tokens)
        inside, outside = scaler.transform(tokens), scaler.transform(later)
        np.testing.assert_array_equal(inside, BagScaler(compress=compress, clip=False).fit(tokens).transform(tokens))
        assert np.all(outside <= inside.max(axis=0) + 1.0) and np.all(outside >= inside.min(axis=0) - 1.0)
    assert np.abs(BagScaler(clip=False).fit(tokens).transform(later)).max() > 1e5


def test_scaling_is_invariant_to_units_at_any_size():
    tokens = np.random.default_rng(2).standard_normal((50, 4))
    plain = BagScaler().fit_transform(tokens)
    for unit in (1e-100, 1e100, 3.7):
        np.testing.assert_allclose(BagScaler().fit_transform(unit * tokens), plain, rtol=1e-9, atol=1e-12)
    with pytest.raises(ValueError, match="feature 1 are too far apart"):
        BagScaler().fit([[0.0, 1.7e308], [1.0, -1.7e308]])


def test_a_tail_needs_several_bags_of_its_class_before_it_is_spared():
    """Heavy tails of the second class's own are left alone, unless chance explains that no other bag holds them."""
    rng = np.random.default_rng(3)
    labels = np.arange(200) % 2
    for carriers in (2, LEAST_CARRIERS - 1, 40):
        X = rng.standard_normal((200, 10, 6))
        X[np.flatnonzero(labels == 1)[:carriers], 0, 2] += 60.0
        bags = Bags(X)
        assert BagScaler(compress=True).fit(bags).heavy_[2]
        assert BagScaler(compress=True).fit(bags, labels).heavy_[2] == (carriers < 40)


def test_set_output_serves_tables_and_leaves_bags_alone():
    frame = pd.DataFrame(np.random.default_rng(4).standard_normal((12, 3)), columns=list("abc"))
    scaler = BagScaler().set_output(transform="pandas")
    table = scaler.fit_transform(frame)
    assert isinstance(table, pd.DataFrame) and list(table.columns) == list("abc")
    bags = Bags(frame, ids=np.repeat([0, 1, 2], 4))
    scaled = scaler.fit(bags).transform(bags)
    assert isinstance(scaled, Bags) and list(scaled.feature_names) == list("abc")
    np.testing.assert_allclose(scaled.tokens, table.to_numpy())


@pytest.mark.parametrize("parameters", [{"compress": "yes"}, {"clip": 1}])
def test_bad_parameters_are_named(parameters):
    with pytest.raises(ValueError, match="must be True or False"):
        BagScaler(**parameters).fit(np.ones((3, 2)))


def test_scaler_is_fitted_on_tokens_and_guards_constant_features():
    rng = np.random.default_rng(7)
    parts = [rng.standard_normal((n, 4)) for n in (40, 3, 17)]
    for part in parts:
        part[:, 2] = 1e7 + 0.1  # constant up to rounding
        part[:, 1] = 5 + 100 * part[:, 1]
    bags = Bags(parts)
    scaled = BagScaler().fit(bags).transform(bags)
    assert isinstance(scaled, Bags)
    np.testing.assert_allclose(scaled.tokens.mean(axis=0)[[0, 1, 3]], 0, atol=1e-12)
    np.testing.assert_allclose(scaled.tokens.std(axis=0)[[0, 1, 3]], 1, rtol=1e-9)
    np.testing.assert_allclose(scaled.tokens[:, 2], 0, atol=50 * np.spacing(1e7))
    squeezed = BagScaler(compress=True).fit(bags).transform(bags)
    np.testing.assert_allclose(squeezed.tokens.std(axis=0)[[0, 1, 3]], 1, rtol=1e-9)
    order = np.argsort(bags.tokens[:, 0])
    assert np.all(np.diff(squeezed.tokens[order, 0]) > 0)
    assert BagScaler().fit(bags.astype(np.float32)).transform(bags.astype(np.float32)).dtype == np.float32
    named = BagScaler().set_output(transform="pandas").fit_transform(pd.DataFrame(bags.tokens, columns=list("wxyz")))
    assert list(named.columns) == list("wxyz")


def test_moments_of_parts_are_those_of_the_whole():
    rng = np.random.default_rng(0)
    tokens = rng.standard_normal((600, 6)) * [1.0, 1e-100, 1e100, 1.0, 0.0, 1e-3] + [0.0, 0.0, 0.0, 1e8, 0.1, -7.0]
    tokens[:300, 5] = tokens[0, 5]  # constant in some parts only
    parts = [part_moments(Bags(tokens[a:b])) for a, b in ((0, 1), (1, 120), (120, 290), (290, 600))]
    for found in (reduce(merged_moments, parts), merged_moments(parts[0], reduce(merged_moments, parts[1:]))):
        assert found.tokens == 600
        np.testing.assert_array_equal(found.low, tokens.min(axis=0))
        np.testing.assert_array_equal(found.high, tokens.max(axis=0))
        np.testing.assert_allclose(found.mean, tokens.mean(axis=0), rtol=1e-12)
        units = np.array([1.0, 1e-100, 1e100, 1.0, 1.0, 1.0])
        deviation = np.sqrt(found.squares / found.tokens) / units
        np.testing.assert_allclose(deviation, (tokens / units).std(axis=0), rtol=1e-7, atol=1e-15)
        assert found.squares[4] == 0.0 and found.mean[4] == 0.1  # constant, exactly


def test_moments_are_those_of_the_tokens_as_they_are_now(monkeypatch):
    from sparsetoken import PooledClassifier
    from sparsetoken.bags import scaler as module

    rng = np.random.default_rng(3)
    bags, labels = Bags(rng.standard_normal((30, 4, 3))), np.arange(30) % 2
    before = BagScaler().fit(bags).mean_
    bags.tokens += 5.0
    np.testing.assert_allclose(BagScaler().fit(bags).mean_, before + 5.0)
    passes, found = [], module.part_moments

    def counted(part, change=None):
        passes.extend([1] if change is None else [])
        return found(part, change)

    monkeypatch.setattr(module, "part_moments", counted)
    one = PooledClassifier().fit(bags, labels).decision_function(bags)
    assert (
        len(passes) == 2
    )  # for the order of the bags, and for the range of the copy, whose moments the learner's scaler takes
    bags.tokens *= 2.0
    np.testing.assert_allclose(PooledClassifier().fit(bags, labels).decision_function(bags), one, rtol=1e-6, atol=1e-8)
    assert len(passes) == 4

"""Log odds outside the training range: the very same numbers within it, drawn towards the class frequencies' beyond."""

from __future__ import annotations

import numpy as np
import pytest

from sparsetoken import AttentionClassifier, Bags, PooledClassifier
from sparsetoken.estimators.training_range import DOUBLING, FAR_BAGS, FAR_LONGER, MARGIN, fit_range


def drawn(seed=0, n=120, length=6, d=15):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, length, d))


def range_of(X):
    signs = np.where(np.arange(len(X)) % 4 == 0, 1.0, -1.0)
    return fit_range(Bags(X), signs, np.ones(len(X)))[0]


def beyond(found, X):
    """How far the bags lie beyond the farthest training bag."""
    return found.beyond(Bags(X))[:, 0]


def test_bags_of_the_training_law_are_within():
    X = drawn()
    found = range_of(X)
    assert beyond(found, X).max() <= 0.0  # training bags are within by definition
    fresh = found.beyond(Bags(drawn(1, 2000)))
    assert np.mean(fresh[:, 0] > 0) < 0.06 and np.mean(fresh[:, 0] > MARGIN) < 0.01 and np.mean(fresh > MARGIN) < 0.02
    odds = np.linspace(-4.0, 4.0, 2000)
    same = found.drawn_back(odds, Bags(drawn(1, 2000))) == odds
    np.testing.assert_array_equal(same[np.abs(odds) > 2.5], np.all(fresh <= MARGIN, axis=1)[np.abs(odds) > 2.5])
    for length, share in ((1, 0.1), (2, 0.04), (40, 0.01)):  # bags that are shorter or longer are not strange for that
        assert np.mean(beyond(found, drawn(2, 300, length)) > MARGIN) < share


@pytest.mark.parametrize("few", [4, 8])
def test_a_handful_of_bags_knows_how_little_it_has_seen(few):
    apart = [beyond(range_of(drawn(seed, few)), drawn(100 + seed, 50)) for seed in range(20)]
    assert np.mean(np.array(apart) > MARGIN) < 0.1


@pytest.mark.parametrize(
    "strange",
    [
        lambda X: X + 2.0,
        lambda X: X * 5.0,
        lambda X: X * 0.05,
        lambda X: X * 1e300,
        lambda X: np.where(np.arange(X.shape[1])[:, None] == 0, 10.0, X),
        lambda X: X + 6.0 * (np.arange(X.shape[2]) == 3),
        lambda X: np.tile(X, (1, 400, 1)),
    ],
    ids=["shift", "scale", "quiet", "huge", "token", "one feature", "long"],
)
def test_bags_unlike_all_training_bags_get_the_class_frequencies(strange):
    found = range_of(drawn())
    bags = Bags(strange(drawn(1, 20)))
    odds = np.linspace(-5.0, 5.0, 20)
    prior = np.log(1 / 3)
    seen = found.drawn_back(odds, bags)
    assert np.all(np.abs(seen - prior) < 0.2 * np.abs(odds - prior))


def heavy(seed, n, d=15, length=6):
    """Tokens with a few large values, which make the standard deviation of 2.5; half of them lie within 0.4 of zero."""
    X = drawn(seed, n, length, d)
    return np.sign(X) * np.abs(X) ** 2.5


@pytest.mark.parametrize(
    "strange",
    [
        lambda X: X + 2.0,
        lambda X: X - 2.0,
        lambda X: X + 3.0 * np.where(np.arange(X.shape[2]) % 2, 1.0, -1.0),
        lambda X: X + 5.0 * (np.arange(X.shape[1])[:, None] < 3),
        lambda X: X + 10.0 * (np.arange(X.shape[2]) == 3),
        lambda X: 5.0 * X,
    ],
    ids=["shift", "shift back", "both ways", "half of the tokens", "one feature", "scale"],
)
def test_heavy_tails_do_not_hide_bags_that_have_moved(strange):
    """The farthest training bags owe their distance to single tokens: a bag that has moved as a whole is told from them."""
    found, fresh = range_of(heavy(0, 120)), heavy(1, 400)
    assert np.mean(beyond(found, fresh) > MARGIN) < 0.01
    assert np.mean(beyond(found, strange(fresh)) > MARGIN + 0.2) > 0.9


def test_one_or_two_far_training_bags_do_not_hide_the_rest():
    """What lies beyond all but one or two training bags keeps the odds that one or two bags support, and no more."""
    X, odds = drawn(), np.linspace(-6.0, 6.0, 40)
    moved = Bags(drawn(1, 40) + 2.0)
    prior = np.log(1 / 3)
    for far in range(FAR_BAGS + 1):
        X[:far] = drawn(2, far) + 4.0
        evidence = np.abs(range_of(X).drawn_back(odds, moved) - prior)
        if far == 0:
            assert evidence.max() < 0.3
        elif far < FAR_BAGS:
            assert evidence.max() == pytest.approx(np.log1p(far / DOUBLING))
        else:
            np.testing.assert_allclose(evidence, np.abs(odds - prior), rtol=1e-12)


@pytest.mark.parametrize(("n", "compared"), [(2, 1), (59, 1), (60, 2), (500, FAR_BAGS)])
def test_few_training_bags_are_all_usual(n, compared):
    found = range_of(drawn(0, n))
    assert found.farthest.shape == found.unit.shape == (compared, 7)
    fresh = found.beyond(Bags(drawn(1, 400)))
    assert fresh.shape == (400, compared) and np.mean(fresh > MARGIN) < 0.02


def test_extremes_of_longer_and_shorter_bags_are_not_strange():
    """The largest of many tokens is larger: bags of other lengths are judged by what their length does not explain."""
    found = range_of(drawn(0, 120, 6))
    for length in (1, 2, 4, 12, 100):
        X = drawn(3, 200, length)
        assert np.mean(beyond(found, X) > MARGIN) < (0.1 if length == 1 else 0.04), length
        assert np.all(beyond(found, X + 4.0) > MARGIN), length


@pytest.mark.parametrize("size", [2000, 300])  # bytes of almost three bags; of less than one
def test_blocks_of_bags_change_nothing(monkeypatch, size):
    from sparsetoken.bags import scratch

    X = [bag[: 1 + i % 6] for i, bag in enumerate(drawn(0, 60))]
    whole = range_of(X)
    monkeypatch.setattr(scratch, "BLOCK_BYTES", size)
    parts = range_of(X)
    for name in ("center", "spread", "farthest", "unit", "quietest"):
        np.testing.assert_allclose(getattr(parts, name), getattr(whole, name), rtol=1e-11, atol=1e-13)


def test_longer_bags_are_drawn_back_gradually():
    found = range_of(drawn())
    odds = np.full(1, 3.0)
    seen = [found.drawn_back(odds, Bags(np.tile(drawn(1, 1), (1, k, 1))))[0] for k in (1, int(FAR_LONGER), 60, 400)]
    assert seen[0] == seen[1] == 3.0 > seen[2] > seen[3] > np.log(1 / 3)


def test_constant_features_and_single_precision():
    X = drawn()
    X[:, :, 2] = 7.0
    found = range_of(X)
    odd = drawn(1, 20)
    odd[:, :, 2] = -1e6  # it counts for nothing, as for the learners
    assert beyond(found, odd).max() < MARGIN
    single = beyond(range_of(X.astype(np.float32)), odd.astype(np.float32))
    np.testing.assert_allclose(single, beyond(found, odd), atol=1e-3)


def test_numbers_of_ones_own_are_fitted_as_they_stand():
    """What the theory forecasts is not touched, however strange a bag."""
    X, y = drawn(n=60), np.arange(60) % 2
    X[y == 1, 0, 0] += 4.0
    for model in (
        PooledClassifier(ridge=0.1, scale=False),
        AttentionClassifier(split=0.5, sharpness=1.5, ridge=0.01, eta_b=1.0, scale=False),
    ):
        model.fit(X, y)
        features = model.transform(X + 50.0)
        plain = features @ model.coef_[0] + model.intercept_[0]
        np.testing.assert_allclose(model.decision_function(X + 50.0), plain, rtol=1e-12)
    guarded = PooledClassifier().fit(X, y)
    assert np.abs(guarded.decision_function(X + 50.0)).max() < 0.2

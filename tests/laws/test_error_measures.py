"""Averages over the law of a score: one classifier measured by counting, by pairs of replicates, and in the two worlds."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from sparsetoken.laws.error_measures import (
    ScoreLaw,
    _auc_by_bins,
    _auc_by_ranks,
    above_zero,
    auc_within,
    fresh_measures,
    point_law,
    shares_beaten,
)


def drawn_law(seed: int, shift: float, replicates: int = 8, entries: int = 500) -> ScoreLaw:
    rng = np.random.default_rng(seed)
    shape = (replicates, entries)
    weight = rng.random(shape)
    return ScoreLaw(shift + rng.standard_normal(shape), 0.2 + rng.random(shape), weight / weight.sum(1, keepdims=True))


def every_pair(positive: ScoreLaw, negative: ScoreLaw) -> np.ndarray:
    """The AUC as the plain sum over all pairs."""
    found = []
    for (m1, s1, w1), (m0, s0, w0) in zip(*(zip(*np.broadcast_arrays(*law)) for law in (positive, negative))):
        above = stats.norm.cdf((m1[:, None] - m0) / np.hypot(s1[:, None], s0))
        found.append(w1 @ above @ w0)
    return np.array(found)


def test_measures_are_shares_of_drawn_scores():
    """Scores drawn from the law itself, 400,000 per class: every share within five of its standard errors."""
    laws = drawn_law(0, 1.0), drawn_law(1, -0.5)
    rng = np.random.default_rng(2)
    scores = []
    for law in laws:
        flat = (law.weight / len(law.weight)).ravel()
        which = rng.choice(flat.size, 400_000, p=flat)
        scores.append(law.mean.ravel()[which] + law.deviation.ravel()[which] * rng.standard_normal(400_000))
    found = {name: values.mean() for name, values in fresh_measures(*laws, 0.3).items()}
    tolerance = 5 * 0.5 / 400_000**0.5
    sensitivity, specificity = (scores[0] > 0).mean(), (scores[1] < 0).mean()
    assert found["sensitivity"] == pytest.approx(sensitivity, abs=tolerance)
    assert found["specificity"] == pytest.approx(specificity, abs=tolerance)
    assert found["test_error"] == pytest.approx(0.3 * (1 - sensitivity) + 0.7 * (1 - specificity), abs=tolerance)
    assert found["balanced_error"] == pytest.approx(1 - (sensitivity + specificity) / 2, abs=tolerance)
    auc = stats.mannwhitneyu(*scores).statistic / 400_000**2
    assert auc_within(*laws).mean() == pytest.approx(auc, abs=0.02)  # pairs at random: some 0.005 of noise


def test_pairs_of_one_entry_are_exact():
    positive, negative = point_law(1.0, 0.6), point_law(-1.0, 0.8)
    expected = stats.norm.cdf(2.0)
    assert auc_within(positive, negative)[0] == pytest.approx(expected)
    assert fresh_measures(positive, negative, 0.5)["auc"][0] == pytest.approx(expected)


def test_all_pairs_histograms_and_ranks_agree(monkeypatch):
    laws = drawn_law(3, 0.5, entries=150), drawn_law(4, -0.5, entries=120)
    every = auc_within(*laws)
    assert every == pytest.approx(every_pair(*laws), abs=1e-12)
    assert _auc_by_bins(*laws) == pytest.approx(every, abs=1e-4)  # some percent of the weight lies in every one entry
    monkeypatch.setattr("sparsetoken.laws.error_measures._ALL_PAIRS", 0)
    np.testing.assert_array_equal(auc_within(*laws), _auc_by_bins(*laws))
    monkeypatch.setattr("sparsetoken.laws.error_measures._MOST_BINS", 0)
    paired = auc_within(*laws)
    assert not np.array_equal(every, paired)
    assert abs(every.mean() - paired.mean()) < 0.02


def test_drawn_scores_are_each_replicates_own():
    """The same entries in every replicate: draws that all share would leave no scatter, and an error all the same."""
    laws = [
        ScoreLaw(*(np.tile(v[:1], (8, 1)) for v in drawn_law(seed, shift))) for seed, shift in ((5, 0.5), (6, -0.5))
    ]
    paired, every = _auc_by_ranks(*laws), every_pair(*laws)
    assert len(set(paired)) == 8
    assert abs(paired.mean() - every[0]) < 5 * paired.std(ddof=1) / 8**0.5


@pytest.mark.parametrize("spread", [0.0, 0.3, 1.5])
def test_histograms_of_thousands_of_entries(spread):
    """Means that go with deviations, of one size and of many: right to 1e-5."""
    rng = np.random.default_rng(7)
    mean = rng.standard_normal((2, 4, 1500))
    laws = [
        ScoreLaw(m + shift, np.exp(spread * np.tanh(m)), np.full((1, 1), 1 / 1500))
        for m, shift in zip(mean, (0.7, 0.0))
    ]
    assert _auc_by_bins(*laws) == pytest.approx(every_pair(*laws), abs=1e-5)


def test_histograms_of_means_that_are_all_alike():
    """Every entry at the same place between two means: nothing averages out, and the AUC is right all the same."""
    weight, deviation = np.full((1, 1), 1 / 600), np.ones((2, 600))
    for step in np.linspace(0.0, 1.0, 13):
        laws = [ScoreLaw(np.full((2, 600), mean), deviation, weight) for mean in (0.4 + step / 6, 0.0)]
        laws[1].mean[:, 0] = -0.3
        assert _auc_by_bins(*laws) == pytest.approx(every_pair(*laws), abs=3e-5)


def test_scores_that_are_nearly_certain_are_ranked():
    laws = [ScoreLaw(law.mean, 1e-7 * law.deviation, law.weight) for law in (drawn_law(3, 0.5), drawn_law(4, -0.5))]
    assert _auc_by_bins(*laws) is None
    assert auc_within(*laws) == pytest.approx(every_pair(*laws), abs=1e-9)


def test_ranked_scores_are_all_pairs():
    """Against all pairs, with ties and weights; a score among its own kind wins as often as it loses."""
    rng = np.random.default_rng(5)
    signal, noise = rng.integers(0, 6, 30) + 1.0, rng.integers(0, 6, 40) + 0.0
    weights = [w / w.sum() for w in (rng.random(30), rng.random(40))]
    won = (signal[:, None] > noise) + 0.5 * (signal[:, None] == noise)
    assert shares_beaten(signal, noise, weights[1]) == pytest.approx(won @ weights[1], rel=1e-12)
    assert shares_beaten(signal, noise) == pytest.approx(won.mean(1), rel=1e-12)
    assert weights[0] @ shares_beaten(signal, signal, weights[0]) == pytest.approx(0.5, rel=1e-12)


def test_a_score_without_noise():
    mean = np.array([[-1.0, 0.0, 2.0]])
    np.testing.assert_array_equal(above_zero(mean, np.zeros((1, 3))), [[0.0, 0.5, 1.0]])

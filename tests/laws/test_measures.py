"""Averages over the law of a score: one classifier measured by counting, by pairs of replicates, and in the two worlds."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from sparsetoken.laws.measures import ScoreLaw, above_zero, auc_across, auc_within, fresh_measures, point_law


def drawn_law(seed: int, shift: float, replicates: int = 8, entries: int = 500) -> ScoreLaw:
    rng = np.random.default_rng(seed)
    shape = (replicates, entries)
    weight = rng.random(shape)
    return ScoreLaw(shift + rng.standard_normal(shape), 0.2 + rng.random(shape), weight / weight.sum(1, keepdims=True))


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
    for estimate in (auc_within(*laws).mean(), auc_across(*laws).mean()):  # pairs at random: some 0.005 of noise
        assert estimate == pytest.approx(auc, abs=0.02)


def test_pairs_of_one_entry_are_exact():
    positive, negative = point_law(1.0, 0.6), point_law(-1.0, 0.8)
    expected = stats.norm.cdf(2.0)
    assert auc_within(positive, negative)[0] == pytest.approx(expected)
    assert fresh_measures(positive, negative, 0.5)["auc"][0] == pytest.approx(expected)


def test_all_pairs_and_random_pairings_agree(monkeypatch):
    laws = drawn_law(3, 0.5, entries=150), drawn_law(4, -0.5, entries=120)
    every = auc_within(*laws)
    monkeypatch.setattr("sparsetoken.laws.measures._ALL_PAIRS", 0)
    paired = auc_within(*laws)
    assert not np.array_equal(every, paired)
    assert abs(every.mean() - paired.mean()) < 0.02


def test_a_score_without_noise():
    mean = np.array([[-1.0, 0.0, 2.0]])
    np.testing.assert_array_equal(above_zero(mean, np.zeros((1, 3))), [[0.0, 0.5, 1.0]])

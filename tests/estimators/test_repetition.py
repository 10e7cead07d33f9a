"""How often groups of bags repeat themselves."""

from __future__ import annotations

import numpy as np

from sparsetoken.estimators.calibration import fit_calibration, gains_over_frequencies
from sparsetoken.estimators.repetition import design_effect, repetition


def test_the_design_effect_of_copies_is_their_number():
    rng = np.random.default_rng(4)
    gains, weights = rng.standard_normal(60), np.ones(60)
    alone, groups = np.arange(60), np.repeat(np.arange(20), 3)
    assert design_effect(gains, weights, alone) == 1.0
    assert design_effect(gains, weights, groups) < 2.0
    np.testing.assert_allclose(design_effect(gains[groups], weights, groups), 3.0)
    assert design_effect(np.ones(60), weights, groups) == 1.0


def test_bags_that_differ_within_patients_count_one_by_one():
    rng = np.random.default_rng(0)
    signs, groups = np.repeat(np.where(np.arange(20) % 2, 1.0, -1.0), 10), np.repeat(np.arange(20), 10)
    alone = 1.5 * signs + rng.standard_normal(200)
    # Told apart without fault, bags gain much the same; what the patients of one class differ by tells all the same.
    shared = 10.0 * signs + rng.standard_normal(20)[groups] + 0.5 * rng.standard_normal(200)
    weights = np.ones(200)
    found = [fit_calibration(scores, signs, weights) for scores in (alone, shared)]
    gains = [gains_over_frequencies(one, scores, signs, weights) for one, scores in zip(found, (alone, shared))]
    assert repetition(gains[0], alone, signs, weights, groups) < 3.0
    assert repetition(gains[1], shared, signs, weights, groups) > 1.2 * design_effect(gains[1], weights, groups) > 3.0

"""What is to be made small: criteria, their targets, their closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm

from sparsetoken import Task
from sparsetoken.laws.populations import gaussian_population
from sparsetoken.planning import Criterion
from sparsetoken.theory import erm, pooled_law


@pytest.mark.parametrize("text", ["error", "threshold_error", "balanced_error", "auc", "sensitivity@0.9"])
def test_criteria_read_back(text):
    assert str(Criterion.of(text)) == text
    assert Criterion.of(Criterion.of(text)) == Criterion.of(text)


@pytest.mark.parametrize("text", ["accuracy", "auc@0.9", "sensitivity", "sensitivity@x", "sensitivity@1.5"])
def test_criteria_refuse(text):
    with pytest.raises(ValueError, match=r"criterion|specificity"):
        Criterion.of(text)


def test_targets_must_lie_between_chance_and_perfection():
    assert Criterion.of("auc").target_loss(0.9, 0.1) == pytest.approx(0.1)
    for criterion, target in (("error", 0.2), ("error", 0.0), ("auc", 0.4), ("sensitivity@0.9", 0.05)):
        with pytest.raises(ValueError, match="target"):
            Criterion.of(criterion).target_loss(target, 0.1)


def test_criteria_of_two_normals_are_the_closed_forms():
    gap = 1.3
    cut = gap / 2 + math.log(0.8 / 0.2) / gap
    error = 0.2 * norm.cdf(cut - gap) + 0.8 * norm.cdf(-cut)
    expected = {
        "error": error,
        "threshold_error": error,
        "balanced_error": norm.cdf(-gap / 2),
        "auc": norm.cdf(-gap / math.sqrt(2)),
        "sensitivity@0.9": norm.cdf(norm.ppf(0.9) - gap),
    }
    rng = np.random.default_rng(0)
    drawn = rng.normal(gap, size=(16, 20_000)), rng.normal(size=(16, 20_000))
    for name, value in expected.items():
        criterion = Criterion.of(name)
        assert criterion.of_gaussians(gaussian_population(0.2, gap, 0.0, 1.0)) == pytest.approx(value, abs=1e-8)
        measured = criterion.of_scores(*drawn, 0.2)
        # 5 standard errors: a false alarm once in a million; the threshold chosen on the draws lowers errors slightly
        assert abs(measured.loss - value) < 5 * measured.standard_error + 2e-4
        assert measured.standard_error < 2e-3


def test_criteria_of_a_trained_readout_follow_its_score_law():
    """The pooled readout's score is Gaussian in each class: every criterion is a function of one gap."""
    task = Task(prevalence=0.2)
    result = erm(pooled_law(task), 3.0, 0.05)
    spread = result.norm_w / math.sqrt(task.length)
    gap = result.m_q * task.strength * task.sparsity / task.length / spread
    for name in ("threshold_error", "balanced_error", "auc", "sensitivity@0.8"):
        criterion = Criterion.of(name)
        assert criterion.of_readout(result).loss == pytest.approx(
            criterion.of_gaussians(gaussian_population(0.2, gap, 0.0, 1.0)), abs=1e-6
        )
    assert Criterion.of("threshold_error").of_readout(result).loss <= result.test_error

"""Test error and its relatives in closed form, against brute force, formulas by hand and their own error bars."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from sparsetoken import Positions, Task
from sparsetoken.laws.measures import ScoreLaw
from sparsetoken.simulation.measures import (
    attention_measures,
    pooled_measures,
    summarised,
    vectorized_measures,
)

TASK = Task(length=6, sparsity=2, strength=3.0, prevalence=0.4)


def brute_force(task: Task, cosine: float, k: float, w: np.ndarray, bias: float, count: int) -> tuple:
    """Scores of `count` bags per class in d = len(w), from tokens; qhat is the first axis."""
    rng = np.random.default_rng(5)
    xi = np.zeros(len(w))
    xi[:2] = cosine, math.sqrt(1 - cosine**2)
    scores = []
    for positive in (True, False):
        x = rng.standard_normal((count, task.length, len(w)))
        if positive:
            x[:, : task.sparsity] += task.strength * xi
        p = np.exp(k * x[:, :, 0])
        p /= p.sum(axis=1, keepdims=True)
        scores.append(np.einsum("nl,nld,d->n", p, x, w) + bias)
    return tuple(scores)


def test_every_measure_against_brute_force():
    w = np.array([1.0, 0.5, -0.7, 0.2])
    cosine, k, bias, count = 0.6, 1.2, -1.5, 200_000
    positive, negative = brute_force(TASK, cosine, k, w, bias, count)
    found = attention_measures(
        TASK, cosine, k, w[0], w[1], float(np.linalg.norm(w)), bias, None, np.random.default_rng(0)
    )
    sensitivity, specificity = np.mean(positive > 0), np.mean(negative < 0)
    auc = stats.mannwhitneyu(positive, negative).statistic / count**2
    tolerance = 4 * 0.5 / math.sqrt(count)  # four standard errors of a share, at most
    assert found.sensitivity == pytest.approx(sensitivity, abs=tolerance)
    assert found.specificity == pytest.approx(specificity, abs=tolerance)
    assert found.auc == pytest.approx(auc, abs=tolerance)
    assert found.balanced_error == pytest.approx(1 - (sensitivity + specificity) / 2, abs=tolerance)
    error = TASK.prevalence * (1 - sensitivity) + (1 - TASK.prevalence) * (1 - specificity)
    assert found.test_error == pytest.approx(error, abs=tolerance)


def test_integration_errors_are_honest():
    """Forty integrations of one classifier spread as their stated standard errors say.

    Chi-square at level 1e-4 on either side, in five measures: a false alarm has probability 1e-3 for fresh seeds.
    """
    runs = [
        attention_measures(Task(), 0.9, 1.5, 5.4, 3.0, 8.6, -16.9, None, np.random.default_rng(seed))
        for seed in range(40)
    ]
    low, high = stats.chi2.ppf([1e-4, 1 - 1e-4], 39)
    for name in ("test_error", "auc", "sensitivity", "specificity", "balanced_error"):
        values = np.array([getattr(run, name) for run in runs])
        stated = np.array([run.standard_error if name == "test_error" else run.errors[name] for run in runs])
        assert low < 39 * values.var(ddof=1) / np.mean(stated**2) < high, name
    assert np.mean([run.standard_error for run in runs]) < 2e-4


def test_pooled_and_vectorized_formulas_by_hand():
    phi = stats.norm.cdf
    found = pooled_measures(TASK, 2.0, 5.0, -1.0)
    sd, shift = 5 / math.sqrt(6), 3.0 * 2 / 6 * 2.0
    assert found.sensitivity == pytest.approx(phi((shift - 1) / sd))
    assert found.specificity == pytest.approx(phi(1 / sd))
    assert found.auc == pytest.approx(phi(shift / (sd * math.sqrt(2))))
    assert found.standard_error == 0.0
    fixed = TASK.but(positions=Positions("fixed", places=(1, 4)))
    overlaps = np.arange(6.0)
    found = vectorized_measures(fixed, overlaps, 9.0, -2.0, np.random.default_rng(0))
    assert found.sensitivity == pytest.approx(phi((3.0 * (1 + 4) - 2) / 9))
    listed = vectorized_measures(TASK, overlaps, 9.0, -2.0, np.random.default_rng(0))
    pairs = [phi((3.0 * (i + j) - 2) / 9) for i in range(6) for j in range(i)]
    assert listed.sensitivity == pytest.approx(np.mean(pairs))


def test_sampled_subsets_agree_with_listed_ones(monkeypatch):
    overlaps = np.linspace(-1, 2, 6)
    listed = vectorized_measures(TASK, overlaps, 3.0, -2.0, np.random.default_rng(0))
    monkeypatch.setattr("sparsetoken.laws.positions.MOST_LISTED_SUBSETS", 1)
    sampled = vectorized_measures(TASK, overlaps, 3.0, -2.0, np.random.default_rng(0))
    assert 0 < sampled.standard_error < 1e-2
    assert abs(sampled.test_error - listed.test_error) < 4 * sampled.standard_error
    assert sampled.auc == pytest.approx(listed.auc, abs=0.01)


def test_a_silent_classifier():
    """No weights: the sign of the bias decides, and a bias of zero is a coin."""
    law = ScoreLaw(np.zeros((1, 1)), np.zeros((1, 1)), np.ones((1, 1)))
    assert summarised(law, law, 0.3).test_error == 0.5 and summarised(law, law, 0.3).auc == 0.5
    assert pooled_measures(TASK, 0.0, 0.0, -1.0).test_error == pytest.approx(0.4)


def test_long_bags_are_integrated_in_parts(monkeypatch):
    """Points in parts are the same points; beyond Sobol's coordinates others of the same law come in."""
    from sparsetoken.simulation import measures

    task = Task(length=40, sparsity=2, strength=3.0)
    setting = (task, 0.8, 1.5, 4.0, 2.0, 6.0, -6.0, None)
    whole = attention_measures(*setting, np.random.default_rng(0))
    monkeypatch.setattr(measures, "HELD_NORMALS", 40 * 64)
    parts = attention_measures(*setting, np.random.default_rng(0))
    assert parts == whole
    monkeypatch.setattr(measures.qmc.Sobol, "MAXDIM", 39)
    monkeypatch.setattr(measures, "SOBOL_TOKENS", 5)
    other = attention_measures(*setting, np.random.default_rng(0))
    assert other != whole
    for name in ("test_error", "auc", "sensitivity", "specificity"):
        errors = [r.standard_error if name == "test_error" else r.errors[name] for r in (whole, other)]
        assert abs(getattr(whole, name) - getattr(other, name)) < 4.5 * math.hypot(*errors), name

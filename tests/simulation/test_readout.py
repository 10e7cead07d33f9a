"""Test error and its relatives in closed form, against brute force, formulas by hand and their own error bars."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from sparsetoken import Deployment, Positions, Task, Training, simulate
from sparsetoken.laws.error_measures import ScoreLaw
from sparsetoken.laws.law import attention_law, pooled_law
from sparsetoken.simulation import readout
from sparsetoken.simulation.readout import readout_measures, summarised, vectorized_measures

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
    found = readout_measures(attention_law(TASK, cosine, k), w[0], w[1], float(np.linalg.norm(w)), bias)
    sensitivity, specificity = np.mean(positive > 0), np.mean(negative < 0)
    auc = stats.mannwhitneyu(positive, negative).statistic / count**2
    tolerance = 4 * 0.5 / math.sqrt(count)  # four standard errors of a share, at most
    assert found.sensitivity == pytest.approx(sensitivity, abs=tolerance)
    assert found.specificity == pytest.approx(specificity, abs=tolerance)
    assert found.auc == pytest.approx(auc, abs=tolerance)
    assert found.balanced_error == pytest.approx(1 - (sensitivity + specificity) / 2, abs=tolerance)
    error = TASK.prevalence * (1 - sensitivity) + (1 - TASK.prevalence) * (1 - specificity)
    assert found.test_error == pytest.approx(error, abs=tolerance)


def test_integration_errors_are_honest(monkeypatch):
    """Against thirty times as many points, at four standard errors."""
    setting = (attention_law(Task(), 0.9, 1.5), 5.4, 3.0, 8.6, -16.9)
    found = readout_measures(*setting)
    monkeypatch.setattr(readout, "POINTS", 2**14)
    exact = readout_measures(*setting)
    for name in ("test_error", "auc", "sensitivity", "specificity", "balanced_error"):
        error = found.standard_error if name == "test_error" else found.errors[name]
        assert 0 < abs(getattr(found, name) - getattr(exact, name)) < 4 * error < 2e-3, name


def test_pooled_and_vectorized_formulas_by_hand():
    phi = stats.norm.cdf
    found = readout_measures(pooled_law(TASK), 2.0, 0.0, 5.0, -1.0)
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
    monkeypatch.setattr("sparsetoken.laws.signals.MOST_LISTED_SUBSETS", 1)
    sampled = vectorized_measures(TASK, overlaps, 3.0, -2.0, np.random.default_rng(0))
    assert 0 < sampled.standard_error < 1e-2
    assert abs(sampled.test_error - listed.test_error) < 4 * sampled.standard_error
    assert sampled.auc == pytest.approx(listed.auc, abs=0.01)


def test_a_silent_classifier():
    """No weights: the sign of the bias decides, and a bias of zero is a coin."""
    law = ScoreLaw(np.zeros((1, 1)), np.zeros((1, 1)), np.ones((1, 1)))
    assert summarised(law, law, 0.3).test_error == 0.5 and summarised(law, law, 0.3).auc == 0.5
    assert readout_measures(pooled_law(TASK), 0.0, 0.0, 0.0, -1.0).test_error == pytest.approx(0.4)


@pytest.mark.parametrize("model", ["attention", "elementwise:top:3"])
def test_long_bags(model):
    """Beyond the lengths whose tokens the theory draws one by one, against counted errors."""
    training, counted = Training(alpha0=8.0, alpha1=8.0), Deployment(samples=4000)
    found = simulate(Task(length=500, strength=6.0), training, 20, 0, model, sampler="tensor", deployment=counted)
    assert abs(found.test_error - found.sampled_error) < 4 * math.hypot(
        found.standard_error, found.sampled_standard_error
    )
    assert 0.01 < found.test_error < 0.49

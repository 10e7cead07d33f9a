"""One number fitted again on other bags: the threshold or the sharpness."""

import math

import pytest

from sparsetoken import Task, theory


@pytest.fixture(scope="module")
def trained():
    return theory.erm(theory.attention_law(Task(), 0.9, 1.5), alpha=2.0, ridge=0.01)


@pytest.mark.parametrize("prevalence", [0.5, 0.2])
def test_threshold_of_pooling_is_the_one_of_two_gaussians(prevalence):
    result = theory.erm(theory.pooled_law(Task()), alpha=2.0, ridge=0.01)
    task = Task(length=40, sparsity=3, prevalence=prevalence)
    found = theory.refit(result, task)
    gap, variance = result.m_q * 5.0 * 3 / 40, result.norm_w**2 / 40
    best = -gap / 2 + variance / gap * math.log(prevalence / (1 - prevalence))
    assert result.bias + found.tested["bias_shift"] == pytest.approx(best, abs=1e-3 * math.sqrt(variance))
    assert found.test_error <= result.on(task).test_error


def test_without_a_signal_the_larger_class_is_all_there_is():
    result = theory.erm(theory.pooled_law(Task()), alpha=2.0, ridge=0.01)
    found = theory.refit(result, Task(strength=0.0, prevalence=0.2))
    assert found.test_error == pytest.approx(0.2, abs=1e-9)


def test_threshold_is_the_best_near_by(trained):
    law = theory.attention_law(Task(length=100), 0.9, 1.5)
    found = theory.refit(trained, law)
    shift = found.tested["bias_shift"]
    assert found.test_error == pytest.approx(0.0636, abs=3e-4)
    assert found.auc == pytest.approx(trained.on(law).auc, rel=1e-12)
    for other in (-0.3, 0.3):
        assert trained.on(law, shift + other).test_error > found.test_error


def test_sharpness_is_the_best_near_by(trained):
    task = Task(length=100)
    found = theory.refit(trained, task, "sharpness")
    k = found.tested["sharpness"]
    assert found.test_error == pytest.approx(0.0631, abs=3e-4) and found.tested["bias_shift"] == 0.0
    for factor in (0.85, 1.15):
        assert trained.on(theory.attention_law(task, 0.9, factor * k)).test_error > found.test_error
    held = theory.refit(trained, task, "sharpness", bounds=(0.5, 1.8))
    assert held.tested["sharpness"] == pytest.approx(1.8, rel=1e-3)


@pytest.mark.parametrize(
    ("where", "options", "words"),
    [
        (Task(), {"what": "query"}, "what must be one of threshold, sharpness"),
        (theory.attention_law(Task(), 0.9, 2.0), {"what": "sharpness"}, "where must be a Task"),
        (Task(), {"what": "threshold", "bounds": (1, 2)}, "bounds are for what='sharpness'"),
        (Task(), {"what": "sharpness", "bounds": (2, 1)}, "bounds must be"),
        (Task(), {"what": "sharpness", "bounds": 3}, "bounds must be a pair"),
        (theory.attention_law(Task(), 0.5, 1.5), {"what": "threshold"}, "seen by the training's query"),
    ],
)
def test_bad_input(trained, where, options, words):
    with pytest.raises(ValueError, match=words):
        theory.refit(trained, where, **options)


def test_sharpness_needs_a_query():
    pooled = theory.erm(theory.pooled_law(Task()), 2.0, 0.01)
    with pytest.raises(ValueError, match="is for classifiers with a query, not for 'pooled'"):
        theory.refit(pooled, Task(), "sharpness")
    flat = theory.erm(theory.attention_law(Task(), 0.9, 0.0), 2.0, 0.01)
    with pytest.raises(ValueError, match="bounds must be given"):
        theory.refit(flat, Task(), "sharpness")

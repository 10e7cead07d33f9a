"""Inverse questions: samples, strength and length for a target."""

from __future__ import annotations

from typing import ClassVar

import pytest

from sparsetoken import Task, theory
from sparsetoken.planning import Outlook
from sparsetoken.planning.questions import (
    all_samples_needed,
    attention_over_pooling,
    longest_length,
    samples_needed,
    weakest_strength,
)

TASK = Task()  # L = 10, R = 1, theta = 5, pi = 1/2
HARD = Task(length=1000, sparsity=1, strength=5.0, prevalence=0.5)


class KnownLosses(Outlook):
    """Losses by formula, so that the questions' answers are known."""

    scales: ClassVar = {"attention": 1.0, "pooled": 30.0, "vectorized": 60.0, "message_passing": 0.5, "optimal": 0.2}

    def measured(self, learner, task, alpha, accuracy=None):
        from sparsetoken.planning.criterion import Measured

        return Measured(self.limit(learner, task) + self.scales[learner] * task.length / task.strength**2 / alpha, 0.0)

    def limit(self, learner, task):
        return 0.2 if learner in ("pooled", "vectorized") else 0.01


def test_questions_on_known_losses():
    outlook = KnownLosses()
    task = Task(length=20, strength=4.0)  # attention: 0.01 + 1.25/alpha
    answers = {a.learner: a for a in all_samples_needed(outlook, task, 100, 0.06, 2.0)}
    assert answers["attention"].status == "found"
    assert answers["attention"].value == pytest.approx(2500, rel=0.02)
    assert answers["message_passing"].value == pytest.approx(1250, rel=0.02)
    assert answers["optimal"].status == "hard" and answers["optimal"].value == pytest.approx(500, rel=0.02)
    assert "no known fast method" in answers["optimal"].words
    assert answers["pooled"].status == "impossible" and "impossible for pooled" in answers["pooled"].words
    lower = samples_needed(outlook, task, 100, 0.005, 2.0, "attention")
    assert lower.status == "impossible" and lower.value is None and "even with the signal known" in lower.words
    length = longest_length(outlook, task, 40.0, 0.0605)  # 0.01 + L/640 <= 0.0605 up to L = 32
    assert length.status == "found" and length.value == 32
    assert attention_over_pooling(outlook, task, 100, 2.0).status == "always"


class SlowAttention(KnownLosses):
    """Attention needs many samples: it overtakes pooling at a size that is known."""

    scales: ClassVar = KnownLosses.scales | {"attention": 40.0, "pooled": 1.0}


def test_crossing_is_where_attention_is_a_twentieth_better():
    """0.01 + 50/alpha = 0.95 (0.2 + 1.25/alpha) at alpha = 48.8125/0.18."""
    found = attention_over_pooling(SlowAttention(), Task(length=20, strength=4.0), 100, 2.0)
    assert found.status == "found" and found.value == pytest.approx(100 * 48.8125 / 0.18, rel=0.02)
    assert "27," in found.words


def test_tails_beyond_the_draws_are_refused_for_attention_alone():
    outlook = Outlook()
    asked = weakest_strength(outlook, TASK, 2.0, 1e-9, "attention")
    assert asked.status == "unresolved" and asked.value is None and "does not resolve" in asked.words
    best = weakest_strength(outlook, TASK, 2.0, 1e-9, "message_passing")
    assert best.status == "found"
    assert theory.bayes_limit(TASK.but(strength=best.value), 2.0).test_error == pytest.approx(1e-9, rel=0.5)


def test_a_forecast_below_the_bayes_limit_is_an_internal_error():
    from sparsetoken.planning.criterion import Measured

    outlook = Outlook()
    limit = theory.bayes_limit(TASK, 2.0).test_error
    outlook.require_possible("attention", Measured(limit, 1e-5), TASK, 2.0)
    with pytest.raises(theory.AccuracyError, match=r"internal error.*below the Bayes limit"):
        outlook.require_possible("attention", Measured(0.9 * limit, 1e-5), TASK, 2.0)


def test_samples_needed_lead_to_the_target(small_plan):
    answers = {a.learner: a for a in small_plan.answers}
    assert answers["pooled"].status == "impossible"  # known direction: 0.2146
    n = answers["message_passing"].value
    assert theory.bayes_limit(TASK, n / 200).test_error == pytest.approx(0.1, rel=0.05)
    n = answers["attention"].value
    assert Outlook(d=200).measured("attention", TASK, n / 200).loss == pytest.approx(0.1, rel=0.1)


def test_hard_phase_is_seen():
    """L = 1000, R = 1, theta = 5, alpha = 1: message passing is nearly blind, the optimum is not."""
    outlook = Outlook()
    assert outlook.bayes(HARD, 1.0).hard
    target = 0.25
    assert outlook.measured("optimal", HARD, 1.0).loss < target < outlook.measured("message_passing", HARD, 1.0).loss

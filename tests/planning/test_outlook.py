"""What each learner reaches, and what moves it."""

from __future__ import annotations

import math

import pytest

from sparsetoken import Task
from sparsetoken.planning import Criterion, Outlook
from sparsetoken.planning.criterion import RESOLVED, Measured
from sparsetoken.planning.outlook import learners_of, sensitivities

TASK = Task()  # L = 10, R = 1, theta = 5, pi = 1/2


@pytest.mark.slow
def test_sensitivities_are_slopes_of_the_best_loss(small_plan):
    """In the limit and at the best settings, slopes at fixed settings equal those of settings tuned anew.

    15 %: the search ends where the log loss changes by less than a thousandth per step.
    """
    outlook = Outlook()
    slopes = {
        s.parameter: s
        for s in sensitivities(TASK, outlook.settings("attention", TASK, 2.0, True).training, Criterion())
    }
    step = 0.15
    up, down = (outlook.measured("attention", TASK.but(strength=5.0 * math.exp(s)), 2.0).loss for s in (step, -step))
    assert slopes["strength"].slope == pytest.approx((up - down) / (2 * step), rel=0.15)
    assert slopes["length"].slope > 0  # more noise tokens never help
    assert small_plan.slopes[0].parameter == "strength"


def test_rare_positives_have_criteria_that_mean_something():
    rare, outlook = Task(prevalence=0.03), Outlook(Criterion.of("auc"))
    pooled, attention, optimal = (outlook.measured(name, rare, 5.0).loss for name in ("pooled", "attention", "optimal"))
    assert 0.5 > pooled > 1.1 * attention > 1.1 * optimal > 0
    assert outlook.limit("optimal", rare) < optimal


def test_losses_that_draws_do_not_resolve_are_bounds():
    """Attention's forecast was 5.4e-37 ± 5.4e-37 where the Bayes limit is 1.8e-6."""
    easy = Task(3, 2, 6.69, 0.7)
    found = Outlook(Criterion.of("error")).measured("attention", easy, 77.2)
    assert found.loss == RESOLVED and found.standard_error >= RESOLVED / 2
    assert Measured(2 * RESOLVED, 0.0).resolved() == Measured(2 * RESOLVED, 0.0)
    assert Measured(0.0, float("nan")).resolved() == Measured(RESOLVED, RESOLVED / 2)


def test_bags_of_several_lengths_have_no_vectorized_classifier():
    assert "vectorized" in learners_of(TASK)
    assert "vectorized" not in learners_of(Task({5: 0.5, 10: 0.5})) + learners_of(Task(correlation=0.2))

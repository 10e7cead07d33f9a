"""What moves the error."""

from __future__ import annotations

import math

import pytest

from sparsetoken import Task
from sparsetoken.planning import Criterion, Outlook
from sparsetoken.planning.sensitivity import sensitivities

TASK = Task()  # L = 10, R = 1, theta = 5, pi = 1/2


def test_sensitivities_are_slopes_of_the_best_loss(small_plan):
    """In the limit and at the best settings, slopes at fixed settings equal those of settings tuned anew.

    15 %: the search ends where the log loss changes by less than a thousandth per step.
    """
    outlook = Outlook()
    slopes = {s.parameter: s for s in sensitivities(TASK, outlook.attention(TASK, 2.0, starts=2).training, Criterion())}
    step = 0.15
    up, down = (outlook.measured("attention", TASK.but(strength=5.0 * math.exp(s)), 2.0).loss for s in (step, -step))
    assert slopes["strength"].slope == pytest.approx((up - down) / (2 * step), rel=0.15)
    assert slopes["length"].slope > 0  # more noise tokens never help
    assert small_plan.slopes[0].parameter == "strength"

"""Schedules designed by theory."""

import numpy as np
import pytest

from sparsetoken import Task, theory
from sparsetoken.schedules import Stage, expand


@pytest.mark.slow
def test_a_design_beats_its_starting_point_and_says_how_far_it_is_from_the_limit():
    task = Task(4, 1, 4.0)
    found = theory.design(task, "tied:1.5", 2.0, 6, stages=2, most_evaluations=12)
    first = theory.trajectory(task, "tied:1.5", Stage(6, 2.0, {"w": 1.0, "bias": 0.5}, {"w": 0.15}), accuracy=0.02)
    assert found.test_error < first.test_error.min() - 3 * np.hypot(found.standard_error, first.standard_error[-1])
    assert found.bayes_error == pytest.approx(theory.bayes_limit(task, 2.0).test_error)
    assert found.excess == pytest.approx(found.test_error - found.bayes_error) and found.excess > 0
    assert found.test_error == found.trajectory.test_error[found.stopping_step]
    # The search's draws and the confirmation's are independent, and agree.
    last_two = np.exp(np.log(found.trajectory.test_error[-2:]).mean())
    assert found.search_error == pytest.approx(last_two, abs=0.02)
    assert found.evaluations <= 12 + 2  # a line search may end beyond
    schedule = expand(found.stages, found.model.directions)
    assert schedule.steps == found.stopping_step and len(schedule.alpha) == 1 and schedule.alpha[0] == 2.0
    assert "above the Bayes limit" in found.summary()


@pytest.mark.parametrize(("alpha", "steps", "match"), [(0.0, 4, "alpha"), (1.0, 0, "budget_of_steps")])
def test_arguments_are_checked(alpha, steps, match):
    with pytest.raises(ValueError, match=match):
        theory.design(Task(4), "tied", alpha, steps)


@pytest.mark.parametrize(("change", "match"), [({"start": "q"}, "start"), ({"task": None}, "task")])
def test_options_are_named_in_a_sentence(change, match):
    with pytest.raises(ValueError, match=f"^{match} must be"):
        theory.design(**({"task": Task(4), "model": "tied", "alpha": 1.0, "budget_of_steps": 2} | change))

"""Schedules designed by theory."""

import numpy as np
import pytest

from sparsetoken import Task, theory
from sparsetoken._core.devices import double_precision
from sparsetoken.bag_models import get_bag_model
from sparsetoken.schedules import Stage, expand
from sparsetoken.theory.dynamics.design_end import EndSearch


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


@pytest.mark.parametrize(
    "model, p", [("tied:2", [0.2, 2.0]), pytest.param("attention", [0.2, 0.15, 1.0], marks=pytest.mark.slow)]
)
def test_gradients_through_the_end_are_right(model, p):
    with double_precision():
        search = EndSearch(Task(4, 1, 4.0), get_bag_model(model), 2.0, "logistic", "uninformed", 128)
        at, h = np.log(p), 1e-3
        slope = search.replicate(at, 0)[1]
        moved = [[search.replicate(at + sign * h * e, 0)[0] for sign in (1, -1)] for e in np.eye(len(p))]
    assert slope == pytest.approx([(up - down) / (2 * h) for up, down in moved], abs=2e-5)
    if model == "attention":  # only sharpness^2/decay of the query counts
        assert slope[2] == pytest.approx(-2 * slope[0], abs=1e-7)


def test_a_designed_end_is_better_than_a_usual_one():
    task, sampling = Task(4, 1, 4.0), theory.Sampling(128, 2)
    found = theory.design_end(task, "tied:2", 2.0, most_evaluations=8, sampling=sampling)
    usual = theory.statics(task, "tied:2", 2.0, 0.05, sampling=sampling)
    assert found.end.best_bias_error < usual.best_bias_error - 3 * usual.errors["best_bias_error"]
    assert found.excess == pytest.approx(found.end.refitted_error - found.bayes_error) and found.excess > 0
    assert set(found.decay) == {"w"} and found.evaluations <= 10 and "above the Bayes limit" in repr(found)
    row = found.frame().iloc[0]
    assert row["decay_w"] == found.decay["w"] and row["excess"] == found.excess and found.plot().lines

"""Rough forecasts agree with the library's own within their error bars."""

from __future__ import annotations

import numpy as np
import pytest

from sparsetoken import Task, Training, forecast
from sparsetoken.explorer import rough
from sparsetoken.explorer.rough import few_draws, rough_forecast, rough_test_elsewhere
from sparsetoken.theory.errors import ConvergenceError
from sparsetoken.theory.forecast import law_of

CASES = [
    (Task(), Training()),
    (Task(30, 3, 3.0, 0.2), Training(alpha0=5.0, eta_b=3.0, alpha1=1.0, ridge=0.1)),
    (Task(8, 8, 1.0), Training(loss="square", ridge=0.01)),
    (Task(10, 2, 4.0), Training(beta=0.0)),  # attention that does not attend: no draws
]


@pytest.mark.parametrize(("task", "training"), CASES)
@pytest.mark.parametrize("model", ["attention", "pooled", "vectorized"])
def test_rough_forecasts_lie_within_their_error_bars(task, training, model):
    found = rough_forecast(task, training, model, equal_samples=True)
    expected = forecast(task, training, model, equal_samples=True, accuracy=1e-3, with_capacity=False)
    bars = np.hypot(found.standard_error, expected.standard_error)
    assert abs(found.test_error - expected.test_error) <= 4 * bars + 1e-5
    assert found.standard_error < 0.004


def test_a_start_from_far_away_changes_nothing():
    task, training = Task(strength=3.0), Training(ridge=1e-5)
    usual = rough_forecast(task, training, "attention", equal_samples=True)
    far = rough_forecast(task, training, "attention", equal_samples=True, near=np.array([50.0, -50.0, 9.0, 30.0, -9.0]))
    nowhere = rough_forecast(task, training, "attention", equal_samples=True, near=np.full(5, np.nan))
    assert [far.test_error, nowhere.test_error] == pytest.approx([usual.test_error] * 2, abs=1e-5)


def test_draws_are_few_and_of_one_shape():
    for task in (Task(), Task(300, 5, 3.0)):
        population = few_draws(task, law_of(task, Training(), "attention")[0])
        assert population.positive.T.shape == (rough.REPLICATES, rough.POINTS)


def test_longer_bags_on_few_draws():
    task, training = Task(length=5), Training()
    found = rough_test_elsewhere(task, training, task.but(length=50))
    expected = forecast(task, training, "attention", test_task={"length": 50}, accuracy=5e-3, with_capacity=False)
    for name, value in found.items():
        assert value == pytest.approx(getattr(expected, name), abs=0.02), name


def test_a_fixed_point_that_is_lost_in_rounding_is_an_error_and_no_warning():
    with pytest.raises(ConvergenceError, match="lost in rounding errors"):
        rough_forecast(Task(strength=1e9), Training(loss="square"), "vectorized", equal_samples=True)

"""Simulated training, and its combination with forecasts."""

from __future__ import annotations

from importlib import import_module

import numpy as np
import pytest

from sparsetoken import Task, Training, theory
from sparsetoken.planning import Criterion
from sparsetoken.planning.criterion import Measured
from sparsetoken.planning.forecast_at import (
    TEST_BAGS,
    TRIALS,
    combined,
    mean_loss,
    message_passing_error,
    simulated_losses,
    simulated_message_passing,
)

FORECAST_AT = import_module("sparsetoken.planning.forecast_at")  # the package's name is that of the function
SHORT = Task(length=6, strength=4.0)
TASK = Task()  # L = 10, R = 1, theta = 5, pi = 1/2


def test_sizes_too_large_to_simulate_are_left_to_the_forecast():
    training = Training(alpha0=1.0, alpha1=5.0, ridge=0.1)
    assert simulated_losses(TASK, training, 5000, "pooled", Criterion()) == []
    assert simulated_losses(TASK, training.but(alpha1=1e-6), 10**8, "attention", Criterion()) == []
    assert len(simulated_losses(TASK, training, 40, "pooled", Criterion())) == TRIALS


def test_forecast_and_simulation_count_by_their_errors():
    forecast, simulated = Measured(0.10, 0.01), Measured(0.13, 0.02)
    both = combined(forecast, simulated)
    assert both.loss == pytest.approx((0.10 * 4 + 0.13) / 5)
    assert both.standard_error == pytest.approx(0.01 * 0.02 / np.hypot(0.01, 0.02) * 0.03 / np.hypot(0.01, 0.02))
    assert combined(forecast, Measured(0.1, 0.02)).standard_error < 0.01  # they agree
    assert combined(Measured(0.3, 0.0), Measured(0.3, 0.0)).loss == pytest.approx(0.3)


def test_a_few_lucky_trials_do_not_outweigh_the_forecast():
    """Eight trials of a skewed loss: 0.0407 by luck where the truth is 0.055 and the forecast 0.0499 ± 0.003."""
    lucky = mean_loss([0.036, 0.038, 0.039, 0.040, 0.041, 0.042, 0.044, 0.046], scatter=0.02)
    assert lucky.loss == pytest.approx(0.0407, abs=1e-4) and lucky.standard_error == pytest.approx(0.02 / 8**0.5)
    assert combined(Measured(0.0499, 0.003), lucky).loss > 0.048


def test_message_passing_is_simulated_where_that_says_something():
    task = Task(20, 2, 4.0, 0.3)
    found = simulated_message_passing(task, 60, 100, Criterion(), 2)
    limit = theory.bayes_limit(task, 0.6).reachable_test_error
    assert found is not None and found.loss > limit  # so few bags are far from the limit
    assert simulated_message_passing(task, 60, 100, Criterion("auc"), 2) is None
    assert simulated_message_passing(task, 20, 100, Criterion(), 2) is None  # six positive bags


def test_the_error_of_message_passing_lies_above_the_limit_and_below_chance():
    found = message_passing_error(SHORT, 120, 40, 0, 2)
    assert theory.bayes_limit(SHORT, 3.0).reachable_test_error < found.loss < 0.3
    assert found == message_passing_error(SHORT, 120, 40, 0, 2)
    assert found.loss > message_passing_error(SHORT, 480, 40, 0, 2).loss


def test_fewer_dimensions_stand_for_more(monkeypatch):
    """Three standard errors (.02) of four draws, each scattering by about .015."""
    full = message_passing_error(SHORT, 400, 100, 0, 4)
    monkeypatch.setattr(FORECAST_AT, "AFFORDABLE", 400 * 6 * 100 / 4)
    assert message_passing_error(SHORT, 400, 100, 0, 4).loss == pytest.approx(full.loss, abs=0.02)


def test_what_is_extrapolated_does_not_fall_below_the_limit(monkeypatch):
    """Four lucky draws in fewer dimensions had printed 0.0364 ± 0.00015 beside a limit of 0.0365."""
    limit = theory.bayes_limit(SHORT, 4.0).reachable_test_error
    monkeypatch.setattr(FORECAST_AT, "_error_of_a_draw", lambda task, n, d, seed: limit - 1e-3)
    monkeypatch.setattr(FORECAST_AT, "AFFORDABLE", 400 * 6 * 100 / 4)
    found = message_passing_error(SHORT, 400, 100, 0, 4)
    assert found.loss == limit
    assert found.standard_error > 0.5 * np.sqrt(limit * (1 - limit) / (4 * TEST_BAGS))


def test_bags_that_differ():
    mixed = Task(length={4: 0.5, 9: 0.5}, strength=4.0, correlation=0.2, label_noise=0.05)
    assert message_passing_error(mixed, 200, 20, 0, 1).loss < 0.3

"""Simulations beside a forecast."""

from __future__ import annotations

import pytest

from sparsetoken import Task, Training
from sparsetoken.planning import Confirmation, confirm
from sparsetoken.planning.confirmation import simulated_size

TASK = Task()  # L = 10, R = 1, theta = 5, pi = 1/2


def test_sizes_too_large_to_simulate_are_scaled_at_the_same_ratio():
    training = Training(alpha0=1.0, alpha1=5.0, ridge=0.1)
    assert simulated_size(0, 5000, 1000) < 1 == simulated_size(0, 500, 1000)
    found = confirm(TASK, training, 5000, "pooled", 0.0, trials=2)
    assert found.d < 5000 and found.n == pytest.approx(5 * found.d, abs=1)
    assert found.forecast == pytest.approx(found.value, abs=0.02)  # made anew at the size simulated


def test_few_bags_in_a_huge_dimension_are_simulated_in_a_smaller_one(monkeypatch):
    """The dimension alone can be too large, and few bags stay as many."""
    assert simulated_size(8, 8, 10**8) == pytest.approx(0.02, rel=1e-3)
    monkeypatch.setattr("sparsetoken.planning.confirmation._LONGEST_STEPS", 2000)
    found = confirm(TASK, Training(alpha0=8e-4, alpha1=8e-4, ridge=1.0), 20_000, "attention", 0.5, trials=2)
    assert (found.n, found.d) == (32, 1998) and found.agrees


def test_agreement_is_fifteen_percent_or_three_standard_errors():
    row = Confirmation("pooled", 0.2, 0.001, 8, 100, 100, 0.229)
    assert row.agrees
    assert not Confirmation("pooled", 0.2, 0.001, 8, 100, 100, 0.231).agrees
    assert Confirmation("pooled", 0.2, 0.02, 8, 100, 100, 0.255).agrees
    assert Confirmation("pooled", 0.0, 0.0, 8, 100, 100, 3.7e-64).agrees  # both are perfect
    assert not Confirmation("pooled", 1e-4, 1e-6, 8, 100, 100, 2e-4).agrees
    assert Confirmation(
        "attention", 0.0, 0.0, 8, 100, 100, 3e-4, forecast_error=1.3e-4
    ).agrees  # the forecast has an error, too

"""Simulations beside a forecast."""

from __future__ import annotations

import pytest

from sparsetoken import Task, Training
from sparsetoken.planning import Confirmation, confirm
from sparsetoken.planning.confirmation import simulated_size

TASK = Task()  # L = 10, R = 1, theta = 5, pi = 1/2


def test_sizes_too_large_to_simulate_are_scaled_at_the_same_ratio():
    training = Training(alpha0=1.0, alpha1=5.0, ridge=0.1)
    assert simulated_size(5000, 1000) < 1 == simulated_size(500, 1000)
    found = confirm(TASK, training, 5000, "pooled", 0.0, trials=2)
    assert found.d < 5000 and found.n == pytest.approx(5 * found.d, abs=1)
    assert found.forecast == pytest.approx(found.value, abs=0.02)  # made anew at the size simulated


def test_agreement_is_fifteen_percent_or_three_standard_errors():
    row = Confirmation("pooled", 0.2, 0.001, 8, 100, 100, 0.229)
    assert row.agrees
    assert not Confirmation("pooled", 0.2, 0.001, 8, 100, 100, 0.231).agrees
    assert Confirmation("pooled", 0.2, 0.02, 8, 100, 100, 0.255).agrees
    assert Confirmation("pooled", 0.0, 0.0, 8, 100, 100, 3.7e-64).agrees  # both are perfect
    assert not Confirmation("pooled", 1e-4, 1e-6, 8, 100, 100, 2e-4).agrees

"""The simulated error of message passing: exact draws where affordable, fewer dimensions beyond."""

from __future__ import annotations

import pytest

from sparsetoken import Task
from sparsetoken.estimators.message_passing import finite_size
from sparsetoken.estimators.message_passing.finite_size import simulated_error

TASK = Task(length=6, strength=4.0)


def test_the_error_lies_above_the_limit_and_below_chance():
    found = simulated_error(TASK, 120, 40, draws=2)
    assert found.dimension == 40 and found.limit < found.test_error < 0.3
    assert found == simulated_error(TASK, 120, 40, draws=2)
    assert found.test_error > simulated_error(TASK, 480, 40, draws=2).test_error


def test_fewer_dimensions_stand_for_more(monkeypatch):
    """Three standard errors (.02) of four draws, each scattering by about .015."""
    full = simulated_error(TASK, 400, 100, draws=4)
    monkeypatch.setattr(finite_size, "AFFORDABLE", 400 * 6 * 100 / 4)
    reduced = simulated_error(TASK, 400, 100, draws=4)
    assert reduced.dimension == 50
    assert reduced.test_error == pytest.approx(full.test_error, abs=0.02)


def test_bags_that_differ():
    mixed = Task(length={4: 0.5, 9: 0.5}, strength=4.0, correlation=0.2, label_noise=0.05)
    assert simulated_error(mixed, 200, 20, draws=1).test_error < 0.3

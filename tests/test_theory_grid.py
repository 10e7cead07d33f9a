"""Grids of forecasts: the same numbers however the grid is walked through."""

import numpy as np
import pytest

from sparsetoken import Task, Training, theory
from sparsetoken.losses import Logistic
from sparsetoken.theory import grid

OVER = {"strength": [2.0, 4.0], "alpha1": [1.0, 2.0, 4.0, 5.0]}
OPTIONS = {"accuracy": 2e-3, "with_capacity": False}


def numbers(rows):
    return np.array([[row[k] for k in ("strength", "alpha1", "test_error", "norm_w", "bias")] for row in rows])


def test_starts_from_neighbours_change_nothing():
    rows = theory.forecast_grid(Task(), Training(), over=OVER, **OPTIONS)
    alone = [
        theory.forecast(Task(strength=theta), Training(alpha1=alpha), **OPTIONS).test_error
        for theta in OVER["strength"]
        for alpha in OVER["alpha1"]
    ]
    # Both are solutions to a residual of 1e-8 on the same draws.
    np.testing.assert_allclose([row["test_error"] for row in rows], alone, atol=1e-7)


def test_two_processes_give_the_same_rows_in_the_same_order():
    seen = []
    models = ["pooled", "vectorized"]
    rows = theory.forecast_grid(
        Task(), Training(), models, over=OVER, workers=2, progress=lambda *p: seen.append(p), **OPTIONS
    )
    expected = theory.forecast_grid(Task(), Training(), models, over=OVER, **OPTIONS)
    assert [row["model"] for row in rows] == [row["model"] for row in expected]
    np.testing.assert_allclose(numbers(rows), numbers(expected), rtol=1e-6)
    assert seen[-1] == (16, 16) and [done for done, _ in seen] == sorted(done for done, _ in seen)


def test_what_cannot_be_sent_to_a_process_is_said():
    class Local(Logistic):
        pass

    with pytest.raises(ValueError, match="workers must be 1"):
        theory.forecast_grid(Task(), Training(loss=Local()), over=OVER, workers=2)
    with pytest.raises(ValueError, match="workers must be a whole number"):
        theory.forecast_grid(Task(), Training(), over=OVER, workers=0)


def test_path_extends_lines_and_begins_new_ones_where_the_last_began():
    path = grid._Path()
    at = lambda a, b: {"strength": a, "alpha1": b}  # noqa: E731
    assert path.start(at(1.0, 1.0)) is None
    for place, x in ((1.0, 10.0), (2.0, 12.0), (4.0, 16.0)):
        path.add(at(1.0, place), np.full(5, x))
    assert path.start(at(1.0, 5.0))[0] == pytest.approx(18.0)
    assert path.start(at(1.0, 40.0))[0] == pytest.approx(24.0)  # no further than twice the last step
    assert path.start(at(2.0, 1.0))[0] == 10.0
    path.add(at(2.0, 1.0), None)
    assert path.start(at(2.0, 2.0)) is None

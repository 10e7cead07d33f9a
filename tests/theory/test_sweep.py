"""Grids of forecasts: the same numbers however the grid is walked through."""

from types import SimpleNamespace

import numpy as np
import pytest

from sparsetoken import Task, Training, theory
from sparsetoken.losses import Logistic
from sparsetoken.theory.sweep import next_start

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


@pytest.mark.slow
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


def result(x: float, points: int = 2048, standard_error: float = 7e-5):
    """A solution at x (in every unknown), as far as starts go by it."""
    law = SimpleNamespace(first_points=256)
    return SimpleNamespace(fixed_point=np.full(5, x), points=points, standard_error=standard_error, law=law)


def test_points_start_from_the_last_one_and_lines_from_where_the_last_line_began():
    starts = []

    def solve(point, start):
        starts.append(None if start is None else start.x[0])
        lost = point == {"strength": 2.0, "alpha1": 1.0}
        return point, None if lost else result(10 * point["strength"] + point["alpha1"])

    points = [{"strength": a, "alpha1": b} for a in (1.0, 2.0, 3.0) for b in (1.0, 2.0, 4.0)]
    assert theory.sweep(points, solve, 2e-4) == points
    # The point before it; after one that failed nothing, and nor for the line after the one that it began.
    assert starts == [None, 11.0, 12.0, 11.0, None, 22.0, None, 31.0, 32.0]


def test_an_interpolator_is_no_start():
    """Its V is infinite: the next point begins anew."""
    assert next_start(theory.erm(theory.pooled_law(Task()), 0.5, 0.0, "square"), 2e-4) is None


def test_draws_follow_what_the_neighbour_needed():
    levels = {(8192, 7e-5): 8192, (8192, 2e-5): 4096, (2048, 2e-5): 256, (2048, 7e-5): 2048, (256, 1e-5): 256}
    for (points, standard_error), expected in levels.items():
        assert next_start(result(1.0, points, standard_error), 2e-4).points == expected


def test_a_misspelt_model_is_refused_and_not_a_row_of_nan():
    with pytest.raises(ValueError, match="model must be one of"):
        theory.forecast_grid(Task(), Training(), "atention", over={"alpha1": [1.0, 2.0]})


def test_sweep_meets_its_accuracy_and_equals_points_alone():
    law = theory.attention_law(Task(), 0.9, 1.5)
    sweep = theory.erm_sweep(law, [1.0, 2.0, 3.0], 1e-3, accuracy=1e-3)
    for found, alpha in zip(sweep, (1.0, 2.0, 3.0)):
        assert found.alpha == alpha and found.standard_error <= 4e-4
        alone = theory.erm(law, alpha, 1e-3, accuracy=1e-3)
        # The same draws, or finer ones: within the accuracy of both.
        assert found.test_error == pytest.approx(alone.test_error, abs=2e-3)

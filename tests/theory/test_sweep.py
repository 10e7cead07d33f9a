"""Grids of forecasts: the same numbers however the grid is walked through."""

from types import SimpleNamespace

import numpy as np
import pytest

from sparsetoken import Task, Training, theory
from sparsetoken.losses import Logistic
from sparsetoken.theory.sweep import SweepPath

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
    start = theory.WarmStart(np.full(5, x), points)
    return SimpleNamespace(warm_start=start, points=points, standard_error=standard_error, law=law)


def test_path_extrapolates_lines_and_begins_new_ones_where_the_last_began():
    path = SweepPath(accuracy=2e-4)

    def at(a, b):
        return {"strength": a, "alpha1": b}

    assert path.start(at(1.0, 1.0)) is None
    for place in (1.0, 2.0, 4.0):
        path.add(at(1.0, place), result(9.0 + place**2))
    assert path.start(at(1.0, 5.0)).x[0] == pytest.approx(34.0)
    assert path.start(at(1.0, 40.0)).x[0] == 25.0  # too far ahead: the last solution as it is
    assert path.start(at(2.0, 1.0)).x[0] == 10.0
    path.add(at(2.0, 1.0), None)
    assert path.start(at(2.0, 2.0)) is None


def test_an_interpolator_is_no_start():
    """Its V is infinite: the next point begins anew."""
    path = SweepPath(accuracy=2e-4)
    path.add({"alpha": 0.5}, theory.erm(theory.pooled_law(Task()), 0.5, 0.0, "square"))
    assert path.start({"alpha": 0.6}) is None


def test_draws_follow_what_the_neighbour_needed():
    levels = {(8192, 7e-5): 8192, (8192, 2e-5): 4096, (2048, 2e-5): 256, (2048, 7e-5): 2048, (256, 1e-5): 256}
    for (points, standard_error), expected in levels.items():
        path = SweepPath(accuracy=2e-4)
        path.add({"alpha": 1.0}, result(1.0, points, standard_error))
        assert path.start({"alpha": 2.0}).points == expected


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

"""Grids of forecasts: the same numbers however the grid is walked through."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from sparsetoken import Task, Training, theory
from sparsetoken.losses import Logistic
from sparsetoken.theory.sweep import Path

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


def result(x: float, points: int = 2048, standard_error: float = 7e-5):
    """A solution at x (in every unknown) that refining had moved by x/100, as far as starts go by it."""
    law = SimpleNamespace(first_points=256)
    start = theory.WarmStart(np.full(5, x), points, np.full(5, x) / 100)
    return SimpleNamespace(warm_start=start, points=points, standard_error=standard_error, law=law)


def test_path_extends_lines_and_begins_new_ones_where_the_last_began():
    path = Path(accuracy=2e-4)

    def at(a, b):
        return {"strength": a, "alpha1": b}

    assert path.start(at(1.0, 1.0)) is None
    for place, x in ((1.0, 10.0), (2.0, 12.0), (4.0, 16.0)):
        path.add(at(1.0, place), result(x))
    assert path.start(at(1.0, 5.0)).x[0] == pytest.approx(18.0)
    assert path.start(at(1.0, 5.0)).offset[0] == pytest.approx(0.18)
    assert path.start(at(1.0, 40.0)).x[0] == pytest.approx(24.0)  # no further than twice the last step
    assert path.start(at(2.0, 1.0)).x[0] == 10.0
    path.add(at(2.0, 1.0), None)
    assert path.start(at(2.0, 2.0)) is None


def test_an_interpolator_is_no_start():
    """Its V is infinite: the next point begins anew."""
    path = Path(accuracy=2e-4)
    path.add({"alpha": 0.5}, theory.erm(theory.pooled_law(Task()), 0.5, 0.0, "square"))
    assert path.start({"alpha": 0.6}) is None


def test_an_offset_is_extended_only_between_equal_draws():
    few, many = theory.WarmStart(np.ones(5), 256, np.ones(5)), theory.WarmStart(np.full(5, 3.0), 2048, np.full(5, 2.0))
    assert many.extended(few, 0.5).x[0] == 4.0 and many.extended(few, 0.5).offset[0] == 2.0
    assert many.extended(theory.WarmStart(np.ones(5), 2048, np.ones(5)), 0.5).offset[0] == 2.5


def test_draws_follow_what_the_neighbour_needed():
    levels = {(8192, 7e-5): 8192, (8192, 2e-5): 4096, (2048, 2e-5): 256, (2048, 7e-5): 2048, (256, 1e-5): 256}
    for (points, standard_error), expected in levels.items():
        path = Path(accuracy=2e-4)
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


def test_an_offset_saves_steps_and_changes_nothing():
    """From a neighbour's offset the many draws see fewer steps; the fixed point is theirs all the same."""
    law = theory.attention_law(Task(), 0.9, 1.5)
    before, here = (theory.erm(law, alpha, 1e-4, accuracy=2.5e-4) for alpha in (2.0, 2.4))
    assert before.points > law.first_points
    start = theory.WarmStart(before.fixed_point, here.points)
    plain = theory.erm(law, 2.4, 1e-4, accuracy=2.5e-4, warm_start=start)
    offset = before.warm_start.offset
    quick = theory.erm(law, 2.4, 1e-4, accuracy=2.5e-4, warm_start=replace(start, offset=offset))
    assert quick.iterations < plain.iterations
    for name in ("test_error", "norm_w", "V", "train_loss"):
        assert getattr(quick, name) == pytest.approx(getattr(plain, name), rel=1e-7)
    wild = theory.erm(law, 2.4, 1e-4, accuracy=2.5e-4, warm_start=replace(start, offset=np.full(5, 50.0)))
    assert wild.test_error == pytest.approx(plain.test_error, rel=1e-7)

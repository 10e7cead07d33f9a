"""Other random numbers behind the sampled limits: error bars mean what they say, and nothing stays behind."""

from __future__ import annotations

import numpy as np
import pytest

from sparsetoken import Stage, Task, Training, theory


@pytest.mark.parametrize(
    "number",
    [
        lambda: theory.forecast(Task(6), Training(), with_capacity=False, accuracy=0.02),
        lambda: theory.bayes_limit(Task(12, 2, 4.0), 2.0),
    ],
    ids=["forecast", "bayes_limit"],
)
def test_redrawn_numbers_scatter_as_their_errors_say(number):
    usual, found = number(), []
    for seed in range(1, 13):
        with theory.redrawn(seed):
            found.append(number())
    assert number().test_error == usual.test_error
    values = np.array([one.test_error for one in found])
    error = np.mean([getattr(one, "standard_error", 0.0) or one.errors["test_error"] for one in found])
    assert len(set(values.tolist())) == len(values)
    assert 0.5 * error < values.std(ddof=1) < 1.8 * error  # 99.9 % of twelve draws


@pytest.mark.slow
def test_every_kind_of_draw_is_redrawn():
    stage = Stage(2, 1.0, {"q": 1.0, "w": 1.0, "bias": 0.5})
    calls = (
        lambda: theory.trajectory(
            Task(4), "attention", stage, accuracy=1.0, sampling=theory.Sampling(32, 2)
        ).test_error[-1],
        lambda: theory.erm(theory.heads_law(Task(4), [0.8, 0.8], [1.0, 2.0]), 2.0, 0.1, accuracy=0.1).test_error,
        lambda: theory.bayes_limit(Task(200, 60, 1.0), 2.0).test_error,
    )
    for call in calls:
        with theory.redrawn(5):
            other = call()
        assert other != call()
    with pytest.raises(ValueError, match="seed"), theory.redrawn(-1):
        pass

"""One registry of models: a name that is misspelt is refused everywhere, in the same words."""

from __future__ import annotations

import pytest

from sparsetoken import Task, Training, forecast, forecast_grid, simulate, theory
from sparsetoken.models import FORECAST, MODELS, SIMULATED, check_model, has_query

MESSAGE = "model must be one of attention, pooled, vectorized, elementwise"


def test_the_registry():
    assert (*SIMULATED, "bayes") == tuple(FORECAST)
    assert [name for name in MODELS if has_query(name)] == ["attention", "elementwise"]
    assert check_model("pooled").label == "pooled"


@pytest.mark.parametrize("name", ["atention", None, "Attention", ("pooled",)])
def test_a_misspelt_model_is_refused(name):
    calls = [
        lambda: simulate(Task(), Training(), 30, 0, model=name),
        lambda: forecast(Task(), Training(), name),
        lambda: theory.gradient(Task(), Training(), name),
        lambda: forecast_grid(Task(), Training(), ["pooled", name], over={"alpha1": [1.0, 2.0]}),
    ]
    for call in calls:
        with pytest.raises(ValueError, match=MESSAGE):
            call()


def test_a_grid_of_one_misspelt_model_gives_no_rows():
    with pytest.raises(ValueError, match="got 'atention'"):
        forecast_grid(Task(), Training(), "atention", over={"alpha1": [1.0]})


@pytest.mark.parametrize("schedule", ["reuse", "joint"])
@pytest.mark.parametrize("model", list(FORECAST))
def test_the_theory_refuses_other_schedules(model, schedule):
    with pytest.raises(ValueError, match=f"staged schedule .* not '{schedule}'"):
        forecast(Task(), Training(schedule=schedule), model)


def test_the_limit_of_all_learners_cannot_be_simulated():
    with pytest.raises(ValueError, match=f"{MESSAGE}, got 'bayes'"):
        simulate(Task(), Training(), 30, 0, model="bayes")

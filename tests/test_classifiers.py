"""One registry of models: a name that is misspelt is refused everywhere, in the same words."""

from __future__ import annotations

import pytest

from sparsetoken import Task, Training, forecast, forecast_grid, simulate, theory
from sparsetoken.activations import get_activation
from sparsetoken.classifiers import CLASSIFIERS, FORECAST, SIMULATED, check_model, classifier, has_query

MESSAGE = "model must be one of attention, pooled, vectorized, elementwise"


def test_the_registry():
    assert (*SIMULATED, "bayes") == tuple(FORECAST)
    assert [name for name in CLASSIFIERS if has_query(name)] == ["attention", "elementwise"]
    assert check_model("pooled").label == "pooled"
    assert classifier("heads:3").heads == 3 and has_query("heads:3")
    assert check_model("elementwise:relu").weighting is get_activation("relu")
    for name in ("elementwise:", "elementwise:step", "heads:", "heads:0", "heads:10000000000", "pooled:1"):
        with pytest.raises(ValueError, match=r"must be one of|whole number of heads"):
            classifier(name)


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
    with pytest.raises(ValueError, match=f"{MESSAGE}, heads, got 'bayes'"):
        simulate(Task(), Training(), 30, 0, model="bayes")

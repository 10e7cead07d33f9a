"""Theory over simulation in one call."""

from __future__ import annotations

import math

import pytest

from sparsetoken import Deployment, Task, Tokens, Training, compare, forecast, simulate
from sparsetoken.simulation import mean_and_error, trial_seeds

TASK, TRAINING = Task(5, strength=4.0), Training(ridge=0.1)


def test_it_is_forecast_and_simulate():
    found = compare(TASK, TRAINING, ("pooled", "bayes"), d=60, trials=3, seed=5)
    trials = [simulate(TASK, TRAINING, 60, seed, "pooled").test_error for seed in trial_seeds(5, 3)]
    pooled, bayes = found.frame().to_dict("records")
    assert (pooled["measured"], pooled["measured_se"]) == mean_and_error(trials)
    assert pooled["theory"] == forecast(TASK, TRAINING, "pooled", with_capacity=False).test_error
    assert math.isnan(bayes["measured"]) and bayes["theory"] < pooled["theory"]
    pooled_line, bayes_line = str(found).splitlines()
    assert "measured" in pooled_line and "measured" not in bayes_line
    assert repr(found) == "Comparison(pooled, bayes: theory and 3 trials each)"
    assert "pooled" in found._repr_html_()
    assert [text.get_text() for text in found.plot().get_xticklabels()] == ["pooled", "Bayes limit"]


def test_tokens_and_deployment_reach_both():
    options = {"tokens": Tokens(covariance="power:0.5"), "deployment": Deployment({"strength": 2.0})}
    found = compare(TASK, TRAINING, "pooled", d=40, trials=2, **options)
    assert found.forecasts["pooled"].tested["strength"] == 2.0 == found.trials["pooled"][0].tested["strength"]
    assert found.trials["pooled"][0].noise == "coloured"
    with pytest.raises(ValueError, match="noise must be Gaussian in theory"):
        compare(TASK, TRAINING, "pooled", d=40, trials=1, tokens=Tokens(noise="sparse"))

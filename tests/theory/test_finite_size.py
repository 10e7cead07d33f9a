"""The law of the two steps at a given dimension, and forecasts averaged over it."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

from sparsetoken import Task, Training, forecast, simulate, theory
from sparsetoken.simulation.two_steps import two_steps

LONG = Task(200, 1, 0.8 * 200 ** (1 / 3), 0.5)
CASES = {
    "long, plain": (LONG, Training(alpha0=4.0), 100),
    "long, centred": (LONG, Training(alpha0=4.0, eta_b="auto"), 100),
    "short, plain": (Task(), Training(), 100),
    "short, centred": (Task(), Training(eta_b="auto"), 100),
    "rare, plain": (Task(10, 2, 3.0, 0.1), Training(alpha0=3.0, eta_b=3.0), 80),
    "large rate": (Task(), Training(alpha0=1.0, eta_w=5.0), 60),
    "differing": (
        Task("5:0.5,15:0.5", 1, 4.0, 0.3, label_noise=0.1, contamination=0.1, correlation=0.2),
        Training(alpha0=3.0, eta_b=2.0),
        80,
    ),
}


@pytest.mark.parametrize("name", list(CASES))
def test_the_law_is_that_of_the_steps(name):
    """Means within four standard errors and 0.02, spreads within a fifth: what is of relative order 1/d remains."""
    task, training, d = CASES[name]
    law = theory.alignment(task, training, d=d, seed=1)
    steps = [two_steps(task, training, d, seed) for seed in range(400)]
    for found, of_law, spread in (
        (np.array([s.query_cosine for s in steps]), law.cosine["q"], law.spread["cosine_q"]),
        (np.array([s.norm["q"] for s in steps]), law.norm["q"], law.spread["norm_q"]),
    ):
        assert abs(found.mean() - of_law) < 4 * found.std() / 20 + 0.02 * abs(of_law)
        assert found.std() == pytest.approx(spread, rel=0.2)
        assert np.mean(found < 0) == pytest.approx(law.share_negative if of_law == law.cosine["q"] else 0.0, abs=0.05)


def test_plain_steps_scatter_on_long_bags_and_centred_ones_do_not():
    """Simulated on full tensors: a spread of .225 and 9 % of the queries turned round, where the limit knows neither."""
    plain, centred = (theory.alignment(LONG, Training(alpha0=4.0, eta_b=b), d=100) for b in (1.0, "auto"))
    assert plain.spread["cosine_q"] == pytest.approx(0.225, abs=0.015)
    assert plain.share_negative == pytest.approx(0.095, abs=0.025)
    assert centred.share_negative < 0.01 and centred.spread["cosine_q"] < 0.14
    assert plain.quantiles["0.05"] < 0 < centred.quantiles["0.05"]
    assert plain.errors["cosine_q"] == pytest.approx(plain.spread["cosine_q"] / 2048**0.5)


@pytest.mark.parametrize("eta_b", [1.0, "auto"])
def test_large_dimensions_are_the_limit(eta_b):
    training = Training(eta_b=eta_b)
    law, limit = theory.alignment(Task(), training, d=10**8), theory.alignment(Task(), training)
    assert law.query_cosine == pytest.approx(limit.query_cosine, abs=1e-5)
    assert law.norm == pytest.approx(dict(limit.norm), rel=1e-3) and law.bias == pytest.approx(limit.bias, abs=1e-4)


@pytest.mark.parametrize("model", [pytest.param("attention", marks=pytest.mark.slow), "pooled"])
def test_a_forecast_at_d_is_the_mean_of_simulations(model):
    task, training, d = Task(20, 1, 4.0, 0.5), Training(alpha0=1.0, alpha1=1.0, ridge=0.1, eta_q=150.0), 100
    found, limit = forecast(task, training, model, d=d), forecast(task, training, model, with_capacity=False)
    runs = [simulate(task, training, d, seed, model) for seed in range(50)]
    for name in ("test_error", "auc", "specificity", "norm_w"):
        values = np.array([getattr(run, name) for run in runs])
        error = values.std(ddof=1) / len(runs) ** 0.5
        assert getattr(found, name) == pytest.approx(values.mean(), abs=4 * error + 0.02 * abs(values.mean())), name
    errors = np.array([run.test_error for run in runs])
    assert abs(found.test_error - errors.mean()) < abs(limit.test_error - errors.mean())
    assert 0.7 < found.spread["test_error"] / errors.std() < 1.3
    assert found.d == d and np.isnan(found.train_loss) and found.to_row()["spread_test_error"] > 0


@pytest.mark.parametrize("model", ["attention", "elementwise"])
def test_a_forecast_at_d_has_the_accuracy_asked_for(model):
    task, training = Task(), Training(loss="square")
    found = forecast(task, training, model, d=100)
    aim = found.standard_error  # that is 2.5 times better than the error allowed
    finer = forecast(task, training, model, d=100, accuracy=aim)
    assert 0 < 2.5 * finer.standard_error <= aim
    assert abs(finer.test_error - found.test_error) < 4 * found.standard_error
    assert forecast(task, training, model, d=100, accuracy=0.5) == found


def test_an_accuracy_out_of_reach_at_d_is_a_warning_or_an_error(monkeypatch):
    monkeypatch.setattr(importlib.import_module("sparsetoken.theory.forecast"), "FINEST", 1)
    task, training = Task(), Training(loss="square")
    with pytest.warns(theory.AccuracyWarning, match="finest sampling for d = 100"):
        found = forecast(task, training, d=100, accuracy=1e-7)
    assert found == forecast(task, training, d=100)
    with pytest.raises(theory.AccuracyError, match="accuracy 1e-07"):
        forecast(task, training, d=100, accuracy=theory.Accuracy(1e-7, strict=True))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"with_capacity": True}, "for the limit"),
        ({"accuracy": theory.Accuracy(1e-3, warm_start=theory.WarmStart(np.zeros(5)))}, "for the limit"),
        ({"accuracy": 0.0}, "accuracy"),
        ({"model": "bayes"}, "one query or none"),
        ({"model": "heads:2"}, "one query or none"),
        ({"training": Training(alpha1=1e-3)}, "alpha1"),
        ({"training": Training(schedule="joint")}, "staged"),
        ({"task": Task(prevalence=1e-6)}, "holds one class only"),
    ],
)
def test_refusals(arguments, words):
    with pytest.raises(ValueError, match=words):
        forecast(**({"task": Task(), "training": Training(), "d": 100} | arguments))

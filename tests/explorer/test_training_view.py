"""The explorer's view of training step by step."""

from __future__ import annotations

import contextlib
import io
import warnings
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("dash", reason="the explorer's extra is not installed")

from sparsetoken import Stage, Task, forecast, theory
from sparsetoken.explorer import answers, create_app, forecasts
from sparsetoken.explorer.answers import code_of, numbers
from sparsetoken.explorer.fields import DEFAULTS
from sparsetoken.explorer.forecasts import Superseded, wanted_while
from sparsetoken.theory.accuracy import UnstableTrainingWarning
from tests.explorer.asking import ask, follow, state_of, trace

TIED = {"view": "training", "model": "tied", "steps": 6, "rate_w": 2, "decay": 0.2, "sharpness": 2, "alpha1": 1}


@pytest.mark.slow
def test_training_view_is_the_library_s_trajectory_beside_the_staged_forecast_and_the_limit():
    state = state_of(**TIED)
    figure = answers.figure_of(state, quick=False)
    expected = theory.trajectory(
        Task(),
        "tied:2",
        Stage(6, 3.0, {"w": 2.0, "bias": 0.5}, {"w": 0.2}),
        accuracy=1.0,
        sampling=theory.Sampling(1024, 8),
    )
    test, train, best = (trace(figure, meta) for meta in ("test", "train", "best"))
    assert test["x"] == train["x"] == list(range(7))
    assert test["y"] == pytest.approx(expected.test_error, rel=1e-9)
    assert train["y"] == pytest.approx(expected.train_error, rel=1e-9)
    assert test["customdata"] == pytest.approx(expected.standard_error, rel=1e-6)
    assert trace(figure, "test_band")["y"][:7] == pytest.approx(expected.test_error + 2 * expected.standard_error)
    assert (best["x"], best["y"]) == ([expected.best_step], [pytest.approx(expected.test_error.min())])
    for meta, model in (("staged", "attention"), ("bayes", "bayes")):
        found = forecast(state.task, state.training, model, accuracy=2e-4, with_capacity=False)
        assert trace(figure, meta)["y"] == [pytest.approx(found.test_error, abs=1e-9)] * 2
    assert not figure["failures"]
    rows = {row["model"]: row for row in numbers(state, quick=False)}
    assert list(rows) == ["best", "last", "attention", "bayes"]
    assert rows["last"]["label"] == "tied query and readout, at the end, step 6"
    assert rows["last"]["test_error"] == pytest.approx(expected.test_error[-1])
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(code_of(state), {})
    assert f"{expected.test_error[-1]:.4f}" in out.getvalue()


@pytest.mark.slow
def test_training_that_diverges_or_takes_long_is_told_beside_the_other_lines():
    client = create_app().server.test_client()
    values = {**DEFAULTS, **TIED, "model": "pooled", "loss": "square", "rate_w": 1e4, "decay": 1e4, "steps": 6}
    far = follow(client, ask(client, values), values)
    assert far["stage"] == "exact" and "training diverges" in far["failures"][0]
    assert [t["meta"] for t in far["data"]] == ["staged", "bayes"]
    assert "training diverges" in far["rows"][0]["failure"] and far["rows"][0]["test_error"] is None
    long = answers.figure_of(state_of(view="training", length=1000, steps=60), quick=False)
    assert long["failures"] == [
        "60 steps on bags of 1000 tokens take too long for this page; take fewer or shorter ones"
    ]
    assert [t["meta"] for t in long["data"]] == ["staged", "bayes"]


@pytest.mark.parametrize(
    ("changes", "bags"),
    [
        ({}, 1024),
        ({"length": 100}, 512),
        ({"length": 100, "steps": 60}, 256),
        ({"length": 3000, "steps": 3, "model": "pooled"}, 256),
        ({"length": 200, "steps": 60}, 0),
    ],
)
def test_bags_of_a_training_page_are_bounded(changes, bags):
    state = state_of(**{"view": "training", **changes})
    assert forecasts.bags_for(state.task, state.descent) == bags


def run_of(errors, **details):
    """A run as `trajectory` gives it, with these test and training errors."""
    values = np.array(errors)
    return SimpleNamespace(
        test_error=values,
        standard_error=values,
        train_error=values,
        errors={"train_error": values},
        details=details,
        best_step=int(np.argmin(values)),
    )


def test_equal_heads_and_errors_of_zero_are_remarked_on(monkeypatch):
    def remark(errors, start, **details):
        curve = run_of(errors, **details)
        monkeypatch.setattr("sparsetoken.explorer.training.descent_curve", lambda *_, **__: curve)
        return answers.figure_of(state_of(view="training", model="heads:2", steps=1, start=start), quick=False)[
            "remark"
        ]

    assert remark([0.5, 0.1], 0) == "from a start at zero both heads stay equal"
    assert remark([0.5, 0.1], 0.5) == ""
    assert remark([0.5, 0.1], 0.5, unstable_from=1) == "training is unstable from step 1 on, take smaller rates"
    assert remark([0.5, 0.0], 0.5) == "training errors of zero cannot be shown on the logarithmic axis"


def test_an_unstable_training_is_remarked_on_the_page_and_nowhere_else(monkeypatch):
    """What `trajectory` warns of would stand on the server's terminal, and stop the answer where warnings are errors."""

    def unstable(*arguments, **options):
        warnings.warn("training is unstable", UnstableTrainingWarning, stacklevel=2)
        return run_of([0.5, 0.5], unstable_from=1)

    monkeypatch.setattr(theory, "trajectory", unstable)
    state = state_of(**{**TIED, "rate_w": 77})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = forecasts.descent_curve(state.task, state.descent, 1.0, state.training.loss)
    assert found.details["unstable_from"] == 1


def test_the_quick_answer_has_the_staged_forecast_alone():
    state = state_of(**TIED | {"steps": 5})
    first = answers.figure_of(state, quick=True)
    assert [t["meta"] for t in first["data"]] == ["staged"] and "follow" in first["remark"]


def test_training_stops_between_replicates_when_nobody_waits():
    calls = []

    def gone():
        calls.append(None)
        if len(calls) == 3:  # before the first replicate, after it, and after the second
            raise Superseded

    state = state_of(**TIED | {"decay": 0.3})
    with pytest.raises(Superseded), wanted_while(gone):
        answers.figure_of(state, quick=False)
    assert len(calls) == 3
    assert trace(answers.figure_of(state, quick=False), "test")["y"]  # nothing is left locked

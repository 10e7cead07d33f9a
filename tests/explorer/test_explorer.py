"""The explorer without a browser: its state, its figures, its background jobs, its server."""

from __future__ import annotations

import contextlib
import io
import socket
import threading
import time
from types import SimpleNamespace
from urllib.request import urlopen

import numpy as np
import pytest

pytest.importorskip("dash", reason="the explorer's extra is not installed")

from sparsetoken import Stage, Task, Training, forecast, get_bag_model, simulate, theory
from sparsetoken.explorer import create_app, points, simulation, views, words
from sparsetoken.explorer.patience import Background
from sparsetoken.explorer.points import Superseded
from sparsetoken.explorer.simulation import Simulations
from sparsetoken.explorer.state import DEFAULTS, DESCENT, VIEWS, check, from_query, other_of
from sparsetoken.plotting.style import SIGNAL_TOKEN
from sparsetoken.simulation.repeats import trial_seeds
from sparsetoken.theory.forecast import law_of

pytestmark = pytest.mark.xdist_group("browser")  # with the browser's tests: points computed once serve both


def state_of(**changes):
    state, messages = check({**DEFAULTS, **changes})
    assert state is not None, messages
    return state


def trace(figure, meta):
    return next(t for t in figure["data"] if t["meta"] == meta)


def test_defaults_are_the_library_s():
    state = state_of()
    assert state.task == Task() and state.training == Training()


def test_query_holds_the_state():
    values, remarks = from_query("?length=30&strength=4.5&loss=square&view=phase&x=ridge&y=length&d=77")
    assert not remarks
    assert (values["length"], values["strength"], values["loss"], values["x"]) == (30, 4.5, "square", "ridge")
    assert values["alpha0"] == 2
    state, _ = check(values)
    assert state is not None and state.task.length == 30 and state.training.loss == "square" and state.d == 77


@pytest.mark.parametrize("query", ["length=ten", "view=weather", "nonsense=1", "length=", "loss=%3Cscript%3E"])
def test_bad_queries_are_remarked_on(query):
    values, remarks = from_query("?" + query)
    assert values == DEFAULTS and len(remarks) == 1


@pytest.mark.parametrize(
    ("changes", "name", "message"),
    [
        ({"length": 0}, "length", "length must be a whole number >= 1, got 0"),
        ({"length": 10.5}, "length", "length must be a whole number >= 1, got 10.5"),
        ({"length": None}, "length", "length must be a number"),
        ({"length": 10**9}, "length", "length must be at most 5,000 on this page; the library takes longer bags"),
        ({"sparsity": 11}, "sparsity", "sparsity must be at most length (10), got 11"),
        ({"strength": -1}, "strength", "strength must be a number in [0, 1e+50], got -1"),
        ({"strength": 1e20}, "strength", "strength must be at most 1e+09 on this page"),
        ({"strength": [1]}, "strength", "strength must be a number in [0, 1e+50], got [1]"),
        ({"prevalence": 1}, "prevalence", "prevalence must be a number in (0, 1), got 1"),
        ({"alpha0": 0}, "alpha0", "alpha0 must be a number in (0, inf), got 0"),
        ({"alpha1": 1e9}, "alpha1", "alpha1 must be between 0.001 and 10,000 on this page"),
        ({"ridge": 0}, "ridge", "ridge must be at least 1e-09 on this page"),
        ({"eta_q": -3}, "eta_q", "eta_q must be a number in [0, inf), got -3"),
        ({"beta": 1e250}, "beta", "beta must be at most 1e+09 on this page"),
        ({"beta": 1e-250}, "beta", "beta must be 0 or at least 1e-09 on this page"),
        ({"d": 10**7}, "d", "d must be at most 5,000"),
        ({"trials": 1}, "trials", "trials must be a whole number >= 2, got 1"),
        ({"view": "phase", "x": "length", "y": "length"}, "y", "the two axes must differ"),
        ({"loss": "hinge"}, "loss", "loss must be one of logistic, square, smoothed_hinge"),
        ({"view": "training", "steps": 0}, "steps", "steps must be a whole number >= 1, got 0"),
        ({"view": "training", "steps": 61}, "steps", "steps must be at most 60 on this page"),
        ({"view": "training", "rate_q": -1}, "rate_q", "rate_q must be a number in [0, inf), got -1"),
        ({"view": "training", "rate_b": None}, "rate_b", "rate_b must be a number in [0, inf), got None"),
        ({"view": "training", "decay": 1e5}, "decay", "decay must be at most 10,000 on this page"),
        ({"view": "training", "sharpness": 0}, "sharpness", "sharpness must be a number in (0, inf), got 0"),
        ({"view": "training", "start": 1e-12}, "start", "start must be 0 or at least 1e-09 on this page"),
        ({"model": "gated"}, "model", "model must be one of attention, tied, pooled, heads:2"),
    ],
)
def test_bad_fields_get_a_message_of_their_own(changes, name, message):
    state, messages = check({**DEFAULTS, **changes})
    assert state is None
    assert messages == {name: message}


def test_a_phase_diagram_around_zero_is_drawn_with_a_remark():
    figure = views.figure_of(state_of(view="phase", x="beta", y="alpha1", beta=0), "quick")
    heat = trace(figure, "phase")
    assert all(isinstance(value, float) for row in heat["z"] for value in row)
    assert min(heat["x"]) > 0
    assert "beta = 0 has no place on a logarithmic axis" in figure["remark"]


def test_axes_end_where_the_page_does():
    assert max(views.axis_values("length", 5000.0)) == 5000
    assert views.axis_values("eta_q", 0.0, 3) == pytest.approx([0.1, 31.62, 10_000])  # zero has no place there
    assert views.axis_values("strength", 0.0, 3) == [0.0, 6.0, 12.0]
    assert views.axis_values("strength", 20.0, 3) == [0.0, 10.0, 20.0]  # a value beyond the slider's end is on the axis
    # Within the range the axis does not move with the value, so that a click moves the mark and not the picture.
    assert views.axis_values("beta", 1.0) == views.axis_values("beta", 5.0)
    assert len(views.axis_values("beta", 1.0)) == 25


def test_several_bad_fields_are_all_named():
    _, messages = check({**DEFAULTS, "length": -1, "beta": "x", "trials": None})
    assert set(messages) == {"length", "beta", "trials"}


def test_curves_are_the_library_s_forecasts():
    state = state_of(strength=4.0, alpha1=1.0)
    figure = views.figure_of(state, "exact")
    total = state.training.alpha0 + state.training.alpha1
    for model in ("attention", "pooled", "vectorized", "bayes"):
        line = trace(figure, model)
        here = line["y"][line["x"].index(total)]
        found = forecast(state.task, state.training, model, equal_samples=True, accuracy=1e-3, with_capacity=False)
        assert here == pytest.approx(found.test_error, abs=1e-9)
    rough = trace(views.figure_of(state_of(strength=4.0, alpha1=1.01), "quick"), "attention")
    assert rough["y"][2] == pytest.approx(trace(figure, "attention")["y"][4], rel=0.1)
    assert all(a > b for a, b in zip(rough["y"], rough["y"][1:]))


def test_alignment_view_is_the_closed_form():
    state = state_of(view="alignment", prevalence=0.1, eta_b=3.0)
    line = trace(views.figure_of(state, "exact"), "cosine_q")
    at = line["x"].index(2.0)
    assert line["y"][at] == theory.alignment(state.task, state.training).cosine["q"]


def test_capacity_view_is_the_library_s():
    state = state_of(view="capacity", strength=3.0)
    figure = views.figure_of(state, "models")
    for model, law in (
        ("pooled", theory.pooled_law(state.task)),
        ("attention", law_of(state.task, state.training, "attention")[0]),
    ):
        line = trace(figure, model)
        at, expected = line["x"].index(3.0), theory.capacity(law)
        bars = line["error_y"]["array"][at] + expected.standard_error
        assert abs(line["y"][at] - expected.alpha) <= max(4 * bars, 1e-6 * expected.alpha), model
    assert all(isinstance(value, float) for t in figure["data"] for value in t["y"])  # what is infinite is not drawn


def test_longer_bags_view_is_the_library_s():
    state = state_of(view="lengths", length=5)
    figure = views.figure_of(state, "models")
    found = {name: trace(figure, name) for name in ("test_error", "threshold_error", "auc", "sensitivity")}
    assert found["test_error"]["x"][0] == 5 and found["test_error"]["x"][-1] == 500
    expected = forecast(
        state.task, state.training, "attention", test_task={"length": 500}, accuracy=5e-3, with_capacity=False
    )
    for name in ("test_error", "auc", "sensitivity"):
        assert found[name]["y"][-1] == pytest.approx(getattr(expected, name), abs=0.01), name
    assert all(a <= b for a, b in zip(found["threshold_error"]["y"], found["test_error"]["y"]))
    assert "test_task" in views.code_of(state)


def test_phase_view_leaves_gaps_where_there_is_no_task():
    state = state_of(view="phase", x="sparsity", y="length", length=4, sparsity=1, colour="gain")
    heat = trace(views.figure_of(state, "quick"), "phase")
    for y, row in zip(heat["y"], heat["z"]):
        for x, value in zip(heat["x"], row):
            assert (value is None) == (x > y)


def test_bag_view_shows_weights_that_sum_to_one():
    figure = views.figure_of(state_of(view="bag", length=30, sparsity=2, seed=3), "exact")
    signal, noise = trace(figure, "signal"), trace(figure, "noise")
    assert sum(signal["y"]) + sum(noise["y"]) == pytest.approx(1.0)
    assert signal["marker"]["color"] == SIGNAL_TOKEN and len(signal["x"]) == 2
    assert sorted(signal["x"] + noise["x"]) == list(range(1, 31))
    assert {len(row) for row in trace(figure, "tokens")["z"]} == {30}


# -- training step by step ---------------------------------------------------------------------------------------------


def test_training_fields_count_where_they_are_shown():
    """A field that is not on the screen cannot be put right there, so it cannot be wrong either."""
    assert state_of(view="curves", steps=0).descent.steps == DEFAULTS["steps"]
    pooled = state_of(view="training", model="pooled", rate_q=-1, sharpness=-1, rate_w=3)
    assert pooled.descent == state_of(view="training", model="pooled", rate_w=3).descent
    assert pooled.descent.rate_w == 3 and pooled.descent.bag_model == get_bag_model("pooled")
    values, remarks = from_query("?view=training&model=heads%3A2&steps=12&rate_q=2&rate_w=0.5&decay=0&start=0.3")
    heads = state_of(**values).descent
    assert not remarks and heads.stage(3.0) == Stage(
        12, 3.0, {"q1": 2.0, "w1": 0.5, "q2": 2.0, "w2": 0.5, "bias": 0.5}, dict.fromkeys(("q1", "w1", "q2", "w2"), 0.0)
    )
    assert heads.start_norms == dict.fromkeys(("q1", "w1", "q2", "w2"), 0.3)


TIED = {"view": "training", "model": "tied", "steps": 6, "rate_w": 2, "decay": 0.2, "sharpness": 2, "alpha1": 1}


def test_training_view_is_the_library_s_trajectory_beside_the_staged_forecast_and_the_limit():
    state = state_of(**TIED)
    figure = views.figure_of(state, "exact")
    expected = theory.trajectory(
        Task(), "tied:2", Stage(6, 3.0, {"w": 2.0, "bias": 0.5}, {"w": 0.2}), accuracy=1.0, bags=1024, replicates=8
    )
    test, train, best = (trace(figure, meta) for meta in ("test", "train", "best"))
    assert test["x"] == train["x"] == list(range(7))
    assert test["y"] == pytest.approx(expected.test_error, rel=1e-9)
    assert train["y"] == pytest.approx(expected.train_error, rel=1e-9)
    assert test["customdata"] == pytest.approx(expected.standard_error, rel=1e-6)
    assert trace(figure, "test_band")["y"][:7] == pytest.approx(expected.test_error + 2 * expected.standard_error)
    assert (best["x"], best["y"]) == ([expected.best_step], [pytest.approx(expected.test_error.min())])
    for meta, model in (("staged", "attention"), ("bayes", "bayes")):
        found = forecast(state.task, state.training, model, accuracy=1e-3, with_capacity=False)
        assert trace(figure, meta)["y"] == [pytest.approx(found.test_error, abs=1e-9)] * 2
    assert not figure["failures"]
    rows = {row["model"]: row for row in views.numbers(state, "exact")}
    assert list(rows) == ["best", "last", "attention", "bayes"]
    assert rows["last"]["label"] == "tied query and readout, at the end, step 6"
    assert rows["last"]["test_error"] == pytest.approx(expected.test_error[-1])
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(views.code_of(state), {})
    assert f"{expected.test_error[-1]:.4f}" in out.getvalue()


def test_training_comes_after_the_first_answer_and_with_fewer_replicates_at_first(monkeypatch):
    asked = []

    def few(*_, replicates, bags, **__):
        asked.append((replicates, bags))
        raise ArithmeticError("nothing to see")

    monkeypatch.setattr(points, "trajectory", few)
    monkeypatch.setattr(points, "_curves", points._Memory(10))
    state = state_of(**TIED | {"steps": 5})
    first = views.figure_of(state, "quick")
    assert not asked and [t["meta"] for t in first["data"]] == ["staged"] and "follow" in first["remark"]
    for stage in views.STAGES[1:]:
        assert views.figure_of(state, stage)["failures"] == ["nothing to see"]
    # Equally many bags, for which the code is compiled once.
    assert asked == [(points.QUICK_REPLICATES, 1024), (points.REPLICATES, 1024)]
    assert views.figure_of(state, "quick")["failures"] == ["nothing to see"]  # what is known is shown at once


def test_training_stops_between_replicates_when_nobody_waits():
    calls = []

    def alive():
        calls.append(None)
        if len(calls) == 3:  # before the first replicate, after it, and after the second
            raise Superseded

    with pytest.raises(Superseded):
        views.figure_of(state_of(**TIED | {"decay": 0.3}), "models", alive)
    assert len(calls) == 3
    assert points._one_at_a_time.acquire(blocking=False)
    points._one_at_a_time.release()


def test_training_that_diverges_or_takes_long_is_told_beside_the_other_lines():
    client = create_app().server.test_client()
    values = {**DEFAULTS, **TIED, "model": "pooled", "loss": "square", "rate_w": 1e4, "decay": 1e4, "steps": 6}
    far = follow(client, ask(client, values), values)
    assert far["stage"] == "models" and "training diverges" in far["failures"][0]
    assert [t["meta"] for t in far["data"]] == ["staged"]
    assert "training diverges" in far["rows"][0]["failure"] and far["rows"][0]["test_error"] is None
    long = views.figure_of(state_of(view="training", length=1000, steps=60), "quick")
    assert long["failures"] == [
        "60 steps on bags of 1000 tokens take too long for this page; take fewer or shorter ones"
    ]
    assert [t["meta"] for t in long["data"]] == ["staged"]


@pytest.mark.parametrize(
    ("changes", "bags"),
    [
        ({}, 1024),
        ({"length": 100}, 512),  # time
        ({"length": 3000, "steps": 3, "model": "pooled"}, 256),  # memory
        ({"length": 100, "steps": 60}, 0),
    ],
)
def test_bags_of_a_training_page_are_bounded(changes, bags):
    state = state_of(**{"view": "training", **changes})
    assert points.bags_for(state.task, state.descent) == bags


def test_equal_heads_and_errors_of_zero_are_remarked_on(monkeypatch):
    def remark(errors, start, **more):
        curve = points.Curve(*(np.array(errors),) * 4, **more)
        monkeypatch.setattr(views.rows, "descent_curve", lambda *_, **__: curve)
        return views.figure_of(state_of(view="training", model="heads:2", steps=1, start=start), "models")["remark"]

    assert remark([0.5, 0.1], 0) == "from a start at zero both heads stay equal"
    assert remark([0.5, 0.1], 0.5) == ""
    assert remark([0.5, 0.1], 0.5, unstable_from=1) == "training is unstable from step 1 on, take smaller rates"
    assert remark([0.5, 0.0], 0.5) == "training errors of zero have no place on the logarithmic axis"


def test_the_page_has_a_place_for_every_message_on_training():
    from sparsetoken.explorer.layout import MESSAGES

    assert set(DESCENT) <= set(MESSAGES)


def test_work_stops_when_nobody_waits():
    def gone():
        raise Superseded

    with pytest.raises(Superseded):
        views.figure_of(state_of(strength=3.33), "quick", gone)


@pytest.mark.parametrize("view", ["curves", "phase", "alignment"])
def test_exported_code_runs(view):
    state = state_of(view=view, x="strength", y="alpha1")
    code = views.code_of(state)
    if view == "phase":
        compile(code, "export", "exec")
        assert "forecast_grid(task, training" in code
        return
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(code, {})
    assert ("attention" if view == "curves" else "of q2") in out.getvalue()


# -- what the page says and where it starts ----------------------------------------------------------------------------


def test_every_field_and_every_view_has_its_words():
    assert set(DEFAULTS) - {"view", "compare"} == set(words.TIPS)
    assert set(words.CAPTIONS) == set(words.STATUS) == set(VIEWS)
    assert words.STORY.count(". ") == 1  # two sentences


@pytest.mark.parametrize("name", words.PRESETS)
def test_presets_are_valid_and_show_what_they_say(name):
    state = state_of(**words.PRESETS[name][2])
    limit = theory.bayes_limit(state.task, state.training.alpha0 + state.training.alpha1)
    assert limit.hard == (name == "hard")
    cosine = theory.alignment(state.task, state.training).cosine["q"]
    assert (cosine < -0.2) if name == "anti" else (name == "hard" or cosine > 0.3)


# -- the Bayes limit may take long -------------------------------------------------------------------------------------


def test_a_bayes_limit_that_takes_long_is_left_out_with_a_remark_and_comes_later(monkeypatch):
    held, slow = threading.Event(), theory.bayes_limit

    def waiting(task, alpha):
        assert held.wait(60)
        return slow(task, alpha)

    monkeypatch.setattr(points, "bayes_limit", waiting)
    monkeypatch.setattr(points, "BAYES_SECONDS", 0.1)
    monkeypatch.setattr(points, "_background", Background())
    values = {**DEFAULTS, "strength": 4.32, "loss": "square"}
    client = create_app().server.test_client()
    first = ask(client, values)
    refined = follow(client, first, values)
    shown = follow(client, refined, values)
    assert shown["stage"] == "exact" and shown["late"]
    assert trace(shown, "bayes")["y"] == [None] * 7 and len(trace(shown, "attention")["y"]) == 9
    assert "takes more than" in shown["remark"] and "7 of its 7 points" in shown["remark"]
    row = next(row for row in shown["rows"] if row["model"] == "bayes")
    assert row["test_error"] is None and "later" in row["failure"]
    assert ask(client, values)["stage"] == "quick"  # an unfinished answer is not kept
    held.set()
    monkeypatch.setattr(points, "BAYES_SECONDS", 60.0)
    again = follow(client, refined, values)
    assert not again["late"] and all(trace(again, "bayes")["y"])
    assert ask(client, values)["stage"] == "exact"


# -- phase diagrams ----------------------------------------------------------------------------------------------------


def test_phase_diagrams_get_finer_and_lie_within_their_error():
    state = state_of(view="phase", x="strength", y="ridge", loss="square", strength=3.3)
    sizes, values = [], {}
    for stage in views.STAGES:
        figure = views.figure_of(state, stage)
        heat = trace(figure, "phase")
        sizes.append((len(heat["y"]), len(heat["x"])))
        for y, row in zip(heat["y"], heat["z"]):
            for x, z in zip(heat["x"], row):
                assert values.setdefault((x, y), z) == z  # cells stay when others come between them
    assert sizes == [(4, 4), (13, 13), (25, 25)]
    assert [t["meta"] for t in figure["data"]] == ["phase", "contours", "here"]
    assert (trace(figure, "here")["x"], trace(figure, "here")["y"]) == ([3.3], [0.001])
    for x, y in ((heat["x"][7], heat["y"][3]), (heat["x"][12], heat["y"][20])):
        expected = forecast(state.task.but(strength=x), state.training.but(ridge=y), accuracy=1e-3, with_capacity=False)
        assert values[x, y] == pytest.approx(expected.test_error, abs=0.005)
    said = float(figure["remark"].split("up to ")[1])
    assert 1e-5 < said < 0.01


# -- several heads -----------------------------------------------------------------------------------------------------


def test_heads_come_one_number_after_the_other(monkeypatch):
    asked = []

    def few(task, training, model, **options):
        asked.append(model)
        fixed = SimpleNamespace(warm_start=SimpleNamespace(x=np.zeros(5)))
        return SimpleNamespace(test_error=0.1 + len(model) / 100, standard_error=0.001, result=fixed)

    monkeypatch.setattr(points, "forecast", few)
    monkeypatch.setattr(points, "_memory", points._Memory(1000))
    state = state_of(view="heads", loss="square")
    lines = [[t["meta"] for t in views.figure_of(state, stage)["data"]] for stage in views.STAGES]
    assert lines == [["attention"], ["attention", "heads:2"], ["attention", "heads:2", "heads:4", "bayes"]]
    assert asked.count("heads:2") == asked.count("heads:4") == 5
    assert [row["model"] for row in views.numbers(state, "exact")] == ["attention", "heads:2", "heads:4", "bayes"]
    assert "heads:4" in views.code_of(state)
    long = state_of(view="heads", loss="square", length=1001)
    figure = views.figure_of(long, "models")
    assert [t["meta"] for t in figure["data"]] == ["attention"] and "more than 1,000 tokens" in figure["remark"]
    assert [row["model"] for row in views.numbers(long, "models")] == ["attention"]


# -- two settings side by side -----------------------------------------------------------------------------------------


def test_another_setting_is_shown_in_the_same_view():
    values = {**DEFAULTS, "view": "alignment", "strength": 4, "compare": "strength=6&prevalence=0.3"}
    state, why = other_of(values)
    assert why == "" and state == state_of(view="alignment", strength=6, prevalence=0.3)
    shown = ask(create_app().server.test_client(), values)
    other = shown["other"]
    expected = [theory.alignment(s.task, s.training).cosine["q"] for s in (state_of(strength=4), state)]
    for answer, cosine in zip((shown, other), expected):
        line = trace(answer, "cosine_q")
        assert line["y"][line["x"].index(2)] == cosine
    assert "θ = 6" in other["setting"] and "θ = 4" in shown["setting"]
    assert "other" not in ask(create_app().server.test_client(), {**values, "compare": ""})


@pytest.mark.parametrize(
    ("text", "words_of_it"),
    [
        ("sparsity=50", "at most length"),
        ("strength=-1", "strength must be"),
        (5, "cannot be read"),
        ("x" * 9999, "cannot be read"),
    ],
)
def test_a_setting_that_cannot_be_compared_with_is_told(text, words_of_it):
    values = {**DEFAULTS, "view": "alignment", "compare": text}
    shown = ask(create_app().server.test_client(), values)
    assert shown["stage"] == "quick" and "other" not in shown and words_of_it in shown["no_other"]


def test_an_address_holds_both_settings():
    values, remarks = from_query("?strength=4&compare=strength%3D6%26loss%3Dsquare")
    assert not remarks and values["strength"] == 4 and values["compare"] == "strength=6&loss=square"
    values, remarks = from_query("?compare=strength%3Dmuch")
    assert values["compare"] == "" and "to compare with" in remarks[0]


# -- simulations in the background ------------------------------------------------------------------------------------


def finished(jobs: Simulations, page: str):
    for _ in range(600):
        job = jobs.get(page)
        assert job is not None
        if job.finished:
            return job
        time.sleep(0.05)
    raise AssertionError("the simulation did not end")


def test_simulated_points_are_the_library_s():
    jobs, state = Simulations(), state_of(d=40, trials=2, seed=5)
    jobs.start("page", state, "key")
    job = finished(jobs, "page")
    assert job.done == job.total == 18 and not job.notes and job.key == "key"
    row = next(r for r in job.rows if r["model"] == "attention" and r["x"] == 4.0)
    errors = [simulate(state.task, state.training, 40, seed).test_error for seed in trial_seeds(5, 2)]
    assert row["y"] == pytest.approx(sum(errors) / 2)
    assert row["error"] == pytest.approx(abs(errors[0] - errors[1]) / 2)


def test_simulations_can_be_cancelled_and_replaced():
    jobs, state = Simulations(), state_of(d=60, trials=200)
    jobs.start("one", state, "a")
    jobs.cancel("one")
    job = finished(jobs, "one")
    assert job.cancelled and job.done < job.total
    first = jobs.start("one", state, "a")
    second = jobs.start("one", state_of(d=40, trials=2), "b")
    assert first.cancelled and finished(jobs, "one") is second and not second.cancelled
    assert jobs.get("other") is None


def test_simulations_too_large_are_refused_in_words():
    jobs = Simulations()
    jobs.start("page", state_of(d=5000, trials=2, alpha0=4.0, alpha1=4.0), "key")
    jobs.cancel("page")
    assert any("smaller d" in note for note in finished(jobs, "page").notes)


@pytest.mark.parametrize(
    ("changes", "small"),
    [
        ({"length": 5000, "alpha1": 2400.0, "d": 50}, {"pooled"}),  # a block of 65,536 samples with 5000 tokens: 10 GB
        ({"length": 5000, "d": 500}, {"attention", "pooled"}),
        ({}, {"attention", "pooled", "vectorized"}),
    ],
)
def test_parameters_that_multiply_to_gigabytes_are_refused(changes, small):
    cases, notes = simulation._cases(state_of(**changes))
    assert {model for model, _ in cases} == small
    assert {note.split()[0] for note in notes} == {"attention", "pooled", "vectorized"} - small
    assert all("too large to simulate here" in note for note in notes)


def test_threads_are_bounded_however_many_pages_ask(monkeypatch):
    free = threading.Event()
    monkeypatch.setattr(simulation, "simulate", lambda *_, **__: free.wait(60) and SimpleNamespace(test_error=0.1))
    before, jobs = threading.active_count(), Simulations()
    started = [jobs.start(f"page {i}", state_of(d=40, trials=2), "key") for i in range(100)]
    time.sleep(0.2)
    assert threading.active_count() - before <= simulation.JOBS_AT_WORK
    refused = [job for job in started if any("too many simulations" in note for note in job.notes)]
    assert len(refused) >= 100 - simulation.JOBS_AT_WORK - simulation.JOBS_WAITING
    assert all(job.finished for job in refused)
    last = max(i for i, job in enumerate(started) if not job.finished)
    jobs.cancel(f"page {last}")  # it waits, so it ends at once and leaves its place to another
    assert started[last].finished
    assert not jobs.start("another", state_of(d=40, trials=2), "key").finished
    for i in range(100):
        jobs.cancel(f"page {i}")
    jobs.cancel("another")
    free.set()


def test_simulations_that_fail_say_why():
    jobs = Simulations()
    jobs.start("page", state_of(d=4, trials=2, prevalence=0.02), "key")
    job = finished(jobs, "page")
    assert job.notes and job.done == job.total


# -- the server --------------------------------------------------------------------------------------------------------


def test_server_answers_local_names_only():
    client = create_app().server.test_client()
    assert client.get("/", base_url="http://127.0.0.1:8050").status_code == 200
    assert client.get("/", base_url="http://localhost:8050").status_code == 200
    assert client.get("/", base_url="http://attacker.example:8050").status_code == 403


def ask(client, values, key="key", page="page"):
    """The server's answer to a page's fields: the first stage, as the page would get it."""
    from sparsetoken.explorer.layout import MESSAGES

    outputs = ["answer.data", *(f"message-{name}.children" for name in MESSAGES)]
    names = [dict(zip(("id", "property"), output.split("."))) for output in outputs]
    body = {
        "output": f"..{'...'.join(outputs)}..",
        "outputs": names,
        "inputs": [{"id": "raw", "property": "data", "value": {"key": key, "values": values}}],
        "state": [{"id": "page", "property": "data", "value": page}],
        "changedPropIds": ["raw.data"],
    }
    found = client.post("/_dash-update-component", json=body, base_url="http://127.0.0.1:8050")
    assert found.status_code == 200, found.get_data(as_text=True)
    return found.get_json()["response"]["answer"]["data"]


def follow(client, shown, values, key="key", page="page"):
    """The stage after the one that is shown."""
    body = {
        "output": "refined.data" if shown["stage"] == "quick" else "completed.data",
        "outputs": {"id": "refined" if shown["stage"] == "quick" else "completed", "property": "data"},
        "inputs": [{"id": "answer" if shown["stage"] == "quick" else "refined", "property": "data", "value": shown}],
        "state": [
            {"id": "raw", "property": "data", "value": {"key": key, "values": values}},
            {"id": "page", "property": "data", "value": page},
        ],
        "changedPropIds": ["answer.data" if shown["stage"] == "quick" else "refined.data"],
    }
    found = client.post("/_dash-update-component", json=body, base_url="http://127.0.0.1:8050")
    assert found.status_code == 200, found.get_data(as_text=True)
    return next(iter(found.get_json()["response"].values()))["data"]


def test_a_key_of_the_pages_making_gets_no_answer_to_another_state():
    client = create_app().server.test_client()
    near, far = ({**DEFAULTS, "view": "alignment", "strength": strength} for strength in (2, 6))
    shown = ask(client, near, key="same")
    while shown["stage"] != "exact":
        shown = follow(client, shown, near, key="same")
    assert ask(client, near, key="other")["stage"] == "exact"  # computed before, whatever the page calls it
    assert ask(client, near, key="other")["key"] == "other"
    other = ask(client, far, key="same")
    assert other["stage"] == "quick"
    assert trace(other, "cosine_q")["y"] != trace(shown, "cosine_q")["y"]


@pytest.mark.parametrize(
    ("changes", "stage"),
    [
        ({"view": "phase", "x": "beta", "beta": 0}, "quick"),
        ({"view": "phase", "x": "eta_q", "eta_q": 1e201}, "invalid"),
        ({"strength": 1e300}, "invalid"),
        ({"length": 10**400}, "invalid"),
        ({"length": {"a": 1}}, "invalid"),
        ({"alpha1": "many"}, "invalid"),
        ({"view": ["phase"]}, "invalid"),
    ],
)
def test_no_values_break_the_server(changes, stage):
    assert ask(create_app().server.test_client(), {**DEFAULTS, **changes})["stage"] == stage


def test_a_failure_inside_is_told_on_the_page(monkeypatch, capsys):
    monkeypatch.setattr(views, "figure_of", lambda *_: 1 / 0)
    found = ask(create_app().server.test_client(), {**DEFAULTS})
    assert found["stage"] == "failed" and "division by zero" in found["message"]
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_page_loads_nothing_from_elsewhere():
    client = create_app().server.test_client()
    page = client.get("/", base_url="http://127.0.0.1:8050").get_data(as_text=True)
    assert "//cdn" not in page and "https://" not in page


def test_command_says_when_the_port_is_taken(command):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        code, _, err = command("explore", "--no-browser", "--port", taken.getsockname()[1])
    assert code == 2 and "is taken" in err


def test_server_serves_on_this_machine_only():
    from sparsetoken.explorer import make_server

    server = make_server(0)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        with urlopen(f"http://127.0.0.1:{server.server_port}/") as page:
            assert b"sparsetoken explorer" in page.read()
        with pytest.raises(OSError, match="refused"):  # another address of this same machine
            socket.create_connection(("127.0.0.2", server.server_port), timeout=5)
    finally:
        server.shutdown()
        server.server_close()

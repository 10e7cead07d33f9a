"""The explorer's figures: every view shows the library's numbers."""

from __future__ import annotations

import contextlib
import io
import json
import threading
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("dash", reason="the explorer's extra is not installed")

from sparsetoken import forecast, theory
from sparsetoken.explorer import points, views
from sparsetoken.explorer.background import Background
from sparsetoken.explorer.points import Superseded
from sparsetoken.plotting.style import SIGNAL_TOKEN
from sparsetoken.theory.forecast import law_of
from tests.explorer.asking import state_of, trace


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


@pytest.mark.parametrize(
    ("length", "quick", "most"), [(10, True, 512), (10, False, 4096), (300, False, 2048), (5000, False, 1024)]
)
def test_capacities_of_long_bags_take_fewer_draws(length, quick, most, monkeypatch):
    asked = []
    monkeypatch.setattr(points, "capacity", lambda law, **options: asked.append(options["most_points"]))
    state = state_of(view="capacity", length=length, strength=3.21)
    points.threshold(state.task, state.training, "attention", quick)
    assert asked == [most]


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


def test_one_bag_under_a_query_of_zero():
    assert "(the query is zero at d = 400)" in json.dumps(views.figure_of(state_of(view="bag", beta=0), "exact"))


def test_a_query_that_stays_at_zero_is_remarked_on():
    for changes in ({"beta": 0}, {"eta_q": 0}, {"length": 1}):
        figure = views.figure_of(state_of(view="alignment", **changes), "exact")
        assert set(trace(figure, "cosine_q")["y"]) == {None} and "stays at zero" in figure["remark"]


def test_two_settings_are_told_apart_in_few_words():
    here = state_of(view="training", model="pooled", rate_w=2, loss="smoothed_hinge")
    there = state_of(view="training", model="tied", length=20)
    assert views.differences(here, there) == (
        "L = 10, smoothed hinge loss, pooled, readout rate 2",
        "L = 20, logistic loss, tied query and readout, readout rate 1, …",  # and a sharpness, which pooling has not
    )
    assert views.differences(here, here) == ("", "")
    assert views.describe(here).endswith(
        "smoothed hinge loss; pooled, steps 30, readout rate 2, bias rate 0.5, weight decay 0.1, norm at the start 0"
    )
    fair, other = (state_of(equal=equal) for equal in ("yes", "no"))
    assert views.differences(fair, other) == ("pooled, vectorized: all samples", "pooled, vectorized: α₁")


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


def test_heads_come_point_by_point_and_are_not_waited_for(monkeypatch):
    """The state's own samples first; an answer has the points that are there, and its page asks again for the others."""
    asked, held, reached = [], threading.Event(), threading.Barrier(3)

    def few(task, training, model, **options):
        asked.append((model, training.alpha0))
        if model.startswith("heads") and training.alpha0 != 2 and not held.is_set():
            reached.wait(60)
            assert held.wait(60)
        fixed = SimpleNamespace(warm_start=SimpleNamespace(x=np.zeros(5)))
        return SimpleNamespace(test_error=0.1 + len(model) / 100, standard_error=0.001, result=fixed)

    monkeypatch.setattr(points, "forecast", few)
    monkeypatch.setattr(points, "_memory", points.Recent(1000))
    monkeypatch.setattr(points, "_heads_background", Background())
    state = state_of(view="heads", loss="square")
    assert [t["meta"] for t in views.figure_of(state, "quick")["data"]] == ["attention"]
    monkeypatch.setattr(points, "HEADS_SECONDS", 0.01)
    views.figure_of(state, "models")
    reached.wait(60)  # both numbers of heads are at their second point
    figure = views.figure_of(state, "exact")
    assert figure["late"] and "8 points of several heads are still being computed" in figure["remark"]
    for model in ("heads:2", "heads:4"):
        assert trace(figure, model)["y"] == [None, None, pytest.approx(0.17), None, None]
    rows = {row["model"]: row for row in views.numbers(state, "exact")}
    assert list(rows) == ["attention", "heads:2", "heads:4", "bayes"]
    assert rows["heads:4"]["test_error"] == pytest.approx(0.17) and not rows["heads:4"]["late"]
    held.set()
    for patience in ("HEADS_SECONDS", "BAYES_SECONDS"):  # however busy the machine
        monkeypatch.setattr(points, patience, 60.0)
    figure = views.figure_of(state, "exact")
    assert not figure["late"] and None not in trace(figure, "heads:2")["y"] + trace(figure, "heads:4")["y"]
    assert len([model for model, _ in asked if model == "heads:2"]) == 5  # each once
    assert "heads:4" in views.code_of(state)
    long = state_of(view="heads", loss="square", length=1001)
    figure = views.figure_of(long, "models")
    assert [t["meta"] for t in figure["data"]] == ["attention"] and "more than 1,000 tokens" in figure["remark"]
    assert [row["model"] for row in views.numbers(long, "models")] == ["attention"]


def test_heads_that_nobody_waits_for_are_not_computed_on(monkeypatch):
    asked, moved_on = [], threading.Event()

    def few(task, training, model, **options):
        asked.append(model)
        moved_on.set()
        raise ArithmeticError("nothing to see")

    def alive():
        if moved_on.is_set():
            raise Superseded

    monkeypatch.setattr(points, "forecast", few)
    monkeypatch.setattr(points, "_memory", points.Recent(1000))
    background = Background()
    monkeypatch.setattr(points, "_heads_background", background)
    state = state_of(loss="square")
    with contextlib.suppress(Superseded):  # unless the work has ended before
        points.several_heads(state.task, [state.training.but(alpha0=a) for a in (1.0, 2.0, 3.0)], ["heads:2"],
                             equal_samples=True, alive=alive)  # fmt: skip
    for thread in background._running.values():
        thread.join(60)
    assert asked == ["heads:2"]

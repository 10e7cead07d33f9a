"""The explorer's figures: every view shows the library's numbers."""

from __future__ import annotations

import contextlib
import io
import json

import numpy as np
import pytest

pytest.importorskip("dash", reason="the explorer's extra is not installed")

from sparsetoken import Deployment, forecast, theory
from sparsetoken.explorer import answers, drawing, forecasts
from sparsetoken.explorer.answers import code_of, numbers
from sparsetoken.explorer.drawing import describe, differences, refined
from sparsetoken.explorer.forecasts import Superseded, wanted_while
from sparsetoken.explorer.maps import axis_values
from sparsetoken.plotting.style import SIGNAL_TOKEN
from sparsetoken.theory.forecast import law_of
from tests.explorer.asking import state_of, trace


def test_a_phase_diagram_around_zero_is_drawn_with_a_remark():
    figure = answers.figure_of(state_of(view="phase", x="beta", y="alpha1", beta=0), quick=True)
    heat = trace(figure, "phase")
    assert all(isinstance(value, float) for row in heat["z"] for value in row)
    assert min(heat["x"]) > 0
    assert "beta = 0 cannot be shown on a logarithmic axis" in figure["remark"]


def test_axes_end_where_the_page_does():
    assert max(axis_values("length", 5000.0)) == 5000
    assert axis_values("eta_q", 0.0, 3) == pytest.approx([0.1, 31.62, 10_000])  # zero has no place there
    assert axis_values("strength", 0.0, 3) == [0.0, 6.0, 12.0]
    assert axis_values("strength", 20.0, 3) == [0.0, 10.0, 20.0]  # a value beyond the slider's end is on the axis
    # Within the range the axis does not move with the value, so that a click moves the mark and not the picture.
    assert axis_values("beta", 1.0) == axis_values("beta", 5.0)
    assert len(axis_values("beta", 1.0)) == 21


def found_at(line, x):
    return line["y"][line["x"].index(x)]


def turn(line) -> float:
    """The largest turn at a point of a line, in degrees, on a logarithmic plot of its own height, twice as wide as high."""
    x, y = np.log(line["x"]), np.log(line["y"])
    steps = np.diff(np.stack([2 * (x - x[0]) / (x[-1] - x[0]), (y - y.min()) / max(np.ptp(y), 1.0)]))
    angles = np.degrees(np.arctan2(steps[1], steps[0]))
    return float(np.abs(np.diff(angles)).max())


def test_lines_have_as_many_points_as_they_need():
    bend = refined(lambda x: np.tanh(20 * np.log(x)), [0.1, 0.3, 1.0, 3.0, 10.0], float)
    flat = refined(lambda x: 0.3 * np.log(x), [0.1, 0.3, 1.0, 3.0, 10.0], float)
    assert len(flat) == 5 and 15 < len(bend) <= 33
    assert np.diff(np.log([*bend])).min() < 0.1 < np.diff(np.log([*bend])).max()  # where it bends
    assert (
        len(refined(lambda x: None if x > 1 else x**3, [0.1, 1.0, 10.0], float)) == 2
    )  # what has no value is left out
    assert set(map(type, refined(lambda x: 10.0 / x, [1, 5, 9], float, whole=True))) == {int}


def test_strength_needed_is_the_library_s_and_grows_with_its_exponents():
    state = state_of(view="needed", goal="cosine", alpha0=3)
    figure = answers.figure_of(state, quick=True)
    expected = theory.ladder(state.task, 5.0, ["products:1"], over={"length": [1000]}).needed["products:1"][0]
    assert found_at(trace(figure, "products:1"), 1000) == pytest.approx(expected, rel=1e-2)
    for meta, power in (("pooled", 1 / 2), ("products:1", 1 / 3), ("products:2", 3 / 10), ("eigenvector", 1 / 4)):
        line, guide = trace(figure, meta), trace(figure, f"{meta}_guide")
        slope = np.log(line["y"][-1] / line["y"][-2]) / np.log(line["x"][-1] / line["x"][-2])
        assert slope == pytest.approx(power, abs=0.01)
        drawn = np.log(guide["y"][-1] / guide["y"][0]) / np.log(guide["x"][-1] / guide["x"][0])
        assert drawn == pytest.approx(power) and guide["text"][-1].startswith(
            "L<sup>1/" if power != 0.3 else "L<sup>3/10"
        )
    assert "strong enough for: pooled" in figure["finding"]
    assert "theory.ladder(task, 5," in code_of(state)


@pytest.mark.slow
def test_trained_classifiers_need_the_strengths_of_the_ladder():
    state = state_of(view="needed", ridge=0.01)
    figure = answers.figure_of(state, quick=True)
    for method in ("trained:pooled", "trained:attention"):
        expected = theory.ladder(
            state.task, 4.0, [method], over={"length": [30]}, test_error=0.1, training=state.training
        )
        assert found_at(trace(figure, method), 30) == pytest.approx(expected.needed[method][0], rel=0.02)
    assert "follow" in figure["remark"]
    assert (
        state_of(prevalence=0.05)
        and "1 % test error" in answers.figure_of(state_of(view="needed", prevalence=0.05), quick=True)["title"]
    )


def test_curves_are_the_library_s_forecasts(monkeypatch):
    monkeypatch.setattr(drawing, "PATIENCE", 600.0)
    state = state_of(strength=4.0, alpha1=1.0)
    figure = answers.figure_of(state, quick=False)
    total = state.training.alpha0 + state.training.alpha1
    for model in ("attention", "pooled", "vectorized", "bayes"):
        line = trace(figure, model)
        here = line["y"][line["x"].index(total)]
        found = forecast(state.task, state.training, model, accuracy=2e-4, with_capacity=False)
        assert here == pytest.approx(found.test_error, abs=1e-9)
        assert turn(line) < 6, model  # degrees at any point, on a plot twice as wide as high: no corners
    rough = trace(answers.figure_of(state_of(strength=4.0, alpha1=1.01), quick=True), "attention")
    assert rough["y"][3] == pytest.approx(found_at(trace(figure, "attention"), total), rel=0.1)
    assert all(a > b for a, b in zip(rough["y"], rough["y"][1:]))


def test_alignment_view_is_the_closed_form():
    state = state_of(view="alignment", prevalence=0.1, eta_b=3.0)
    line = trace(answers.figure_of(state, quick=False), "cosine_q")
    at = line["x"].index(2.0)
    assert trace(answers.figure_of(state, quick=False), "k")["yaxis"] == "y2"  # a panel and a scale of its own
    assert line["y"][at] == theory.alignment(state.task, state.training).cosine["q"]


def test_capacity_view_is_the_library_s():
    state = state_of(view="capacity", strength=3.0)
    figure = answers.figure_of(state, quick=False)
    for model, law in (
        ("pooled", theory.pooled_law(state.task)),
        ("attention", law_of(state.task, state.training, "attention")[0]),
    ):
        line = trace(figure, model)
        at, expected = line["x"].index(3.0), theory.capacity(law)
        bars = line["customdata"][at] + expected.standard_error
        assert abs(line["y"][at] - expected.alpha) <= max(4 * bars, 1e-6 * expected.alpha), model
    assert all(value is None or np.isfinite(value) for t in figure["data"] for value in t["y"])  # infinite: not drawn


def test_longer_bags_view_is_the_library_s():
    state = state_of(view="lengths", length=5)
    figure = answers.figure_of(state, quick=False)
    found = {name: trace(figure, name) for name in ("test_error", "threshold_error", "auc", "sensitivity")}
    assert found["test_error"]["x"][0] == 5 and found["test_error"]["x"][-1] == 500
    expected = forecast(
        state.task,
        state.training,
        "attention",
        deployment=Deployment(task={"length": 500}),
        accuracy=5e-3,
        with_capacity=False,
    )
    for name in ("test_error", "auc", "sensitivity"):
        assert found[name]["y"][-1] == pytest.approx(getattr(expected, name), abs=0.01), name
    assert all(a <= b for a, b in zip(found["threshold_error"]["y"], found["test_error"]["y"]))
    assert "Deployment" in code_of(state)


def test_phase_view_leaves_gaps_where_there_is_no_task():
    state = state_of(view="phase", x="sparsity", y="length", length=4, sparsity=1, colour="gain")
    heat = trace(answers.figure_of(state, quick=True), "phase")
    for y, row in zip(heat["y"], heat["z"]):
        for x, value in zip(heat["x"], row):
            assert (value is None) == (x > y)


def test_bag_view_shows_weights_that_sum_to_one():
    figure = answers.figure_of(state_of(view="bag", length=30, sparsity=2, seed=3), quick=False)
    signal, noise = trace(figure, "signal"), trace(figure, "noise")
    assert sum(signal["y"]) + sum(noise["y"]) == pytest.approx(1.0)
    assert signal["marker"]["color"] == SIGNAL_TOKEN and len(signal["x"]) == 2
    assert signal["width"] == noise["width"] < 1  # a bar per token, however far apart those of a kind are
    assert sorted(signal["x"] + noise["x"]) == list(range(1, 31))
    assert {len(row) for row in trace(figure, "tokens")["z"]} == {30}


def test_one_bag_under_a_query_of_zero():
    assert "(the query is zero at d = 500)" in json.dumps(answers.figure_of(state_of(view="bag", beta=0), quick=False))


def test_a_query_that_stays_at_zero_is_remarked_on():
    for changes in ({"beta": 0}, {"eta_q": 0}, {"length": 1}):
        figure = answers.figure_of(state_of(view="alignment", **changes), quick=False)
        assert set(trace(figure, "cosine_q")["y"]) == {0.0} and "stays at zero" in figure["remark"]
    assert answers.figure_of(state_of(view="alignment"), quick=False)["remark"] == ""


def test_two_settings_are_told_apart_in_few_words():
    here = state_of(view="training", model="pooled", rate_w=2, loss="smoothed_hinge")
    there = state_of(view="training", model="tied", length=20)
    assert differences(here, there) == (
        "L = 10, smoothed hinge loss, pooled, readout rate 2",
        "L = 20, logistic loss, tied query and readout, readout rate 1, …",  # and a sharpness, which pooling has not
    )
    assert differences(here, here) == ("", "")
    assert describe(here).endswith(
        "smoothed hinge loss; pooled, steps 30, readout rate 2, bias rate 0.5, weight decay 0.1, norm at the start 0"
    )
    fair, other = (state_of(equal=equal) for equal in ("yes", "no"))
    assert differences(fair, other) == ("pooled, vectorized: all samples", "pooled, vectorized: α₁")


@pytest.mark.parametrize("view", ["curves", "phase", "alignment"])
def test_exported_code_runs(view):
    state = state_of(view=view, x="strength", y="alpha1")
    code = code_of(state)
    if view == "phase":
        compile(code, "export", "exec")
        assert "forecast_grid(task, training" in code
        return
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(code, {})
    assert ("attention" if view == "curves" else "of q2") in out.getvalue()


CASES = [
    {},
    {"length": 30, "sparsity": 3, "strength": 3, "prevalence": 0.2, "alpha0": 5, "eta_b": 3, "alpha1": 1, "ridge": 0.1},
    {"length": 8, "sparsity": 8, "strength": 1, "loss": "square", "ridge": 0.01},
    {"sparsity": 2, "strength": 4, "beta": 0},  # attention that does not attend: no draws
]


@pytest.mark.parametrize("changes", CASES)
@pytest.mark.parametrize("model", ["attention", "pooled", "vectorized"])
def test_quick_points_lie_within_their_error_bars(changes, model):
    state = state_of(**changes)
    quick, exact = (forecasts.point(state.task, state.training, model, quick) for quick in (True, False))
    bars = np.hypot(quick.standard_error, exact.standard_error)
    assert abs(quick.test_error - exact.test_error) <= 4 * bars + 1e-5
    assert quick.standard_error < 0.004


def test_a_point_does_not_depend_on_the_points_before_it():
    state = state_of(strength=3, ridge=1e-5)
    key = ("attention", "logistic")
    found = []
    for start in ([50.0, -50.0, 9.0, 30.0, -9.0], [np.nan] * 5, [0.5, 0.5, 0.0, 0.0, 0.0]):
        forecasts._starts[key] = np.array(start)
        forecasts.point.cache_clear()
        found.append(forecasts.point(state.task, state.training, "attention", quick=True).test_error)
    assert found == pytest.approx([found[0]] * 3, abs=1e-5)


def test_a_phase_diagram_keeps_its_cells_when_others_come_between_and_lies_within_its_error():
    state = state_of(view="phase", x="strength", y="ridge", loss="square", strength=3.3)
    sizes, values = [], {}
    for quick in (True, False):
        figure = answers.figure_of(state, quick)
        heat = trace(figure, "phase")
        sizes.append((len(heat["y"]), len(heat["x"])))
        for y, row in zip(heat["y"], heat["z"]):
            for x, z in zip(heat["x"], row):
                assert values.setdefault((x, y), z) == z
    assert sizes == [(6, 6), (21, 21)]
    assert (trace(figure, "here")["x"], trace(figure, "here")["y"]) == ([3.3], [0.001])
    for x, y in ((heat["x"][7], heat["y"][3]), (heat["x"][12], heat["y"][16])):
        expected = forecast(state.task.but(strength=x), state.training.but(ridge=y), accuracy=1e-3, with_capacity=False)
        assert values[x, y] == pytest.approx(expected.test_error, abs=0.005)
    contours = trace(figure, "contours")
    assert np.shape(contours["z"]) == (81, 81) and contours["z"][12][28] == pytest.approx(
        values[heat["x"][7], heat["y"][3]], abs=1e-5
    )
    said = float(figure["remark"].split("up to ")[1])
    assert 1e-5 < said < 0.01


@pytest.mark.slow
def test_heads_are_the_library_s_and_end_at_long_bags(monkeypatch):
    monkeypatch.setattr(drawing, "PATIENCE", 600.0)  # however busy the machine
    state = state_of(view="heads", loss="square", length=4)
    figure = answers.figure_of(state, quick=False)
    rows = {row["model"]: row for row in numbers(state, quick=False)}
    assert list(rows) == ["attention", "heads:2", "heads:4", "bayes"]
    for model in ("heads:2", "heads:4"):
        line = trace(figure, model)
        expected = forecast(state.task, state.training, model, accuracy=5e-3, with_capacity=False).test_error
        assert line["y"][line["x"].index(4)] == rows[model]["test_error"] == pytest.approx(expected, abs=1e-6)
        assert None not in line["y"]
    assert "heads:4" in code_of(state)
    assert "no difference" in figure["finding"] or "better than" in figure["finding"]
    long = state_of(view="heads", loss="square", length=1001)
    assert "more than 1,000 tokens" in answers.figure_of(long, quick=True)["remark"]
    assert [row["model"] for row in numbers(long, quick=True)] == ["attention"]


def test_points_that_take_longer_than_the_page_waits_are_left_out_but_never_the_state_s_own(monkeypatch):
    monkeypatch.setattr(drawing, "PATIENCE", 0.0)
    figure = answers.figure_of(state_of(strength=4.32, loss="square"), quick=False)
    assert trace(figure, "bayes")["x"] == [4.0]
    assert figure["remark"] == "24 points are left out because they take too long for this page"


def test_work_stops_when_nobody_waits():
    def gone():
        raise Superseded

    with pytest.raises(Superseded), wanted_while(gone):
        answers.figure_of(state_of(strength=3.33), quick=True)
    assert trace(answers.figure_of(state_of(strength=3.33), quick=True), "attention")[
        "y"
    ]  # asked for again, it is made

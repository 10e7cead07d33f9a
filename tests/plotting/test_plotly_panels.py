"""Panels as data for the web page: what is under the pointer, the scales, no upload."""

import json

import numpy as np

from sparsetoken.plotting.panels import Heat, Histogram, Line, Panel, Points, Rule
from sparsetoken.plotting.plotly_panels import CONFIG, plotly_panel

LAYERS = (
    Line([1.0, 100.0], [0.1, 0.2], "theory", "#D55E00"),
    Points([1.0, 10.0], [0.1, np.nan], [0.01, np.nan], "measured", "#D55E00"),
    Points([2.0], [0.1], None, "measured", "#D55E00"),
    Rule("x", 3.0, "here"),
    Histogram([0.0, 1.0, 2.0], [0.5, 0.5], "share", "#0072B2"),
)


def test_a_panel_is_plain_data_with_names_values_and_errors():
    found = plotly_panel(Panel("T", "alpha", "error", LAYERS, logx=True))
    json.dumps(found, allow_nan=False)
    line, points, bare, rule, histogram = found["data"]
    assert line["hovertemplate"] == "<b>theory</b><br>alpha: %{x:.4g}<br>error: %{y:.4g}<extra></extra>"
    assert "%{y:.4g} ± %{customdata:.2g}" in points["hovertemplate"] and points["customdata"] == [0.01, 0.0]
    assert points["y"] == [0.1, None] and "±" not in bare["hovertemplate"] and "error_y" not in bare
    assert [t["showlegend"] for t in found["data"]] == [True, True, False, True, True]
    assert (
        found["layout"]["xaxis"]["ticktext"] == ["1", "3", "10", "30", "100"]
        and found["layout"]["yaxis"]["type"] == "linear"
    )
    (shape,) = found["layout"]["shapes"]
    assert shape["x0"] == shape["x1"] == 3.0 and shape["yref"] == "y domain"
    assert rule["x"] == [3.0] and len(rule["y"]) == 1  # the axes reach it
    assert histogram["fillcolor"] == "rgba(0,114,178,0.4)"


def test_a_map_tells_its_values_not_their_logarithms():
    heat = Heat([1.0, 2.0], [1.0, 2.0], [[0.1, 1.0], [10.0, np.nan]], "error", log=True)
    found = plotly_panel(Panel("T", "a", "b", (heat,), ylim=(0.0, 3.0)))
    json.dumps(found, allow_nan=False)
    (trace,) = found["data"]
    assert trace["z"] == [[-1.0, 0.0], [1.0, None]] and trace["text"] == [["0.1", "1"], ["10", ""]]
    assert trace["colorbar"]["ticktext"] == ["0.1", "0.3", "1", "3", "10"] and found["layout"]["yaxis"]["range"] == [
        0.0,
        3.0,
    ]


def test_nothing_is_uploaded_or_selected():
    assert {"sendChartToCloud", "lasso2d", "select2d"} <= set(CONFIG["modeBarButtonsToRemove"])


def test_names_stand_at_their_places_and_under_the_pointer():
    points = Points([0.9, 2.1], [1.0, 2.0], None, "η_b", "#D55E00")
    found = plotly_panel(Panel("At η_w", "task", "error", (points,), names=["plain", "long bags of tokens"]))
    axis, (trace,) = found["layout"]["xaxis"], found["data"]
    assert axis["tickvals"] == [1, 2] and axis["ticktext"] == ["plain", "long bags of<br>tokens"]
    assert axis["range"] == [0.5, 2.5]
    assert trace["text"] == ["plain", "long bags of tokens"] and "%{text}<br>error" in trace["hovertemplate"]
    assert trace["name"] == "η<sub>b</sub>" and "title" not in found["layout"]  # the page has it, above the toolbar


def test_names_with_theory_and_simulation_stand_once_in_the_legend():
    layers = [
        part
        for name in ("attention", "pooled")
        for part in (Line([1], [1], f"{name}: theory"), Points([1], [1], None, f"{name}: simulated, d → ∞"))
    ]
    found = plotly_panel(Panel("T", "x", "y", [*layers, Rule("y", 1.0, "limit")]))["data"]
    shown = [trace["name"] for trace in found if trace["showlegend"]]
    assert shown == ["attention", "pooled", "limit", "theory", "simulated, d → ∞"]
    assert "<b>pooled: simulated, d → ∞</b>" in found[3]["hovertemplate"]
    alone = plotly_panel(Panel("T", "x", "y", layers[:2]))["data"]
    assert [trace["name"] for trace in alone] == ["attention: theory", "attention: simulated, d → ∞"]


def test_counts_are_labelled_by_whole_numbers():
    steps = plotly_panel(Panel("T", "step", "error", (Line([1.0, 2.0, 5.0], [0.1, 0.2, 0.3]),)))
    shares = plotly_panel(Panel("T", "share", "error", (Line([0.5, 2.0, 5.0], [0.1, 0.2, 0.3]),)))
    assert steps["layout"]["xaxis"]["dtick"] == 1 and "dtick" not in shares["layout"]["xaxis"]

"""Panels drawn by Plotly's script on the web page: plain data, a figure per panel so that narrow pages stack them.

Ink, grid and paper are named, not coloured: the page's own script gives them the colours of its light or dark mode.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .panels import Heat, Histogram, Line, Panel, Points, Rule, with_names
from .style import in_lines, plain_number, round_numbers, with_indices

# Buttons removed from the toolbar above a figure: upload to Plotly's server, and selections, which nothing here uses.
CONFIG: dict[str, Any] = {
    "displaylogo": False,
    "responsive": True,
    "modeBarButtonsToRemove": ["sendChartToCloud", "lasso2d", "select2d", "autoScale2d"],
}
INK, GRID, PAPER = "@ink", "@grid", "@paper"


def plotly_panel(panel: Panel) -> dict[str, Any]:
    """One panel, with names, values and errors under the pointer and its legend below; the page has its title above."""
    data: list[dict[str, Any]] = []
    shapes: list[dict[str, Any]] = []
    shown: set[str] = set()
    for layer, name in with_names(panel):
        trace, shape = _trace(layer, panel)
        group = "" if isinstance(layer, Heat) else layer.label.partition(": ")[0]
        data.append(
            {"name": _lowered(name), "legendgroup": group, "showlegend": bool(name) and name not in shown, **trace}
        )
        shown.add(name)
        shapes += shape
    axis = {"gridcolor": GRID, "linecolor": INK, "zeroline": False, "ticks": "outside", "automargin": True}
    layout = {
        "xaxis": axis | {"title": {"text": _lowered(panel.xlabel), "standoff": 10}} | _scale(panel, "x"),
        "yaxis": axis | {"title": {"text": _lowered(panel.ylabel)}} | _scale(panel, "y"),
        "shapes": shapes,
        "legend": {"font": {"size": 12}, "orientation": "h", "tracegroupgap": 0}
        | {"x": 0, "xanchor": "left", "y": 0, "yref": "container", "yanchor": "top"},
        "margin": {"l": 60, "r": 12, "t": 12, "b": 50},
        "hovermode": "closest",
        "font": {"family": "system-ui, sans-serif", "size": 13, "color": INK},
        "paper_bgcolor": PAPER,
        "plot_bgcolor": PAPER,
    }
    return {"data": data, "layout": layout}


def _trace(layer: Any, panel: Panel) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A layer as a trace, and the shapes that go with it."""
    if isinstance(layer, Line):
        line = {"color": layer.colour, "dash": layer.dash, "width": 2}
        x, y = plain_list(layer.x), plain_list(layer.y)
        return {"type": "scatter", "mode": "lines", "x": x, "y": y, "line": line, **_hover(panel, layer)}, []
    if isinstance(layer, Points):
        star = layer.marker == "star"
        trace: dict[str, Any] = {
            "type": "scatter",
            "mode": "markers",
            "x": plain_list(layer.x),
            "y": plain_list(layer.y),
            "marker": {
                "color": layer.colour,
                "symbol": layer.marker,
                "size": 15 if star else 7,
                "line": {"color": INK if star else PAPER, "width": 0.7},
            },
        }
        if layer.error is not None:
            errors = np.nan_to_num(np.asarray(layer.error, float))
            trace["error_y"] = {"type": "data", "array": plain_list(errors), "thickness": 1.2, "width": 3}
            trace["customdata"] = plain_list(errors)
        return trace | _hover(panel, layer, error=layer.error is not None), []
    if isinstance(layer, Histogram):
        edges, density = np.repeat(layer.edges, 2)[1:-1], np.repeat(layer.density, 2)
        x, y = plain_list(edges), plain_list(density)
        trace = {"type": "scatter", "mode": "lines", "x": x, "y": y, "fill": "tozeroy", "line": {"width": 0}}
        return trace | {"fillcolor": _paler(layer.colour), **_hover(panel, layer)}, []
    if isinstance(layer, Heat):
        return _heat(layer, panel), []
    if isinstance(layer, Rule):
        line = {"color": layer.colour, "dash": "dot", "width": 1.5}
        other = "y" if layer.axis == "x" else "x"
        across = {f"{other}0": 0, f"{other}1": 1, f"{other}ref": f"{other} domain"}
        shape = {"type": "line", layer.axis + "0": layer.value, layer.axis + "1": layer.value, "line": line} | across
        # A line of one point: nothing to see, but it has a sign in the legend and the axes reach it.
        at = {other: [panel.middle(other)], layer.axis: [float(layer.value)]}
        return {"type": "scatter", "mode": "lines", **at, "line": line, "hoverinfo": "skip"}, [shape]
    raise TypeError(f"no layer: {layer!r}")


def _heat(layer: Heat, panel: Panel) -> dict[str, Any]:
    low, high = layer.ends()
    matrix = np.asarray(layer.z, float)
    bar: dict[str, Any] = {"title": {"text": layer.label, "side": "right"}, "thickness": 12, "outlinewidth": 0}
    texts = [["" if not math.isfinite(v) else f"{v:.4g}" for v in line] for line in matrix]
    if layer.log:  # colours are logarithmic, the text is not
        ticks = round_numbers(low, high)
        matrix, low, high = np.log10(matrix), float(np.log10(low)), float(np.log10(high))
        bar |= {"tickvals": plain_list(np.log10(ticks)), "ticktext": [plain_number(v) for v in ticks]}
    return {
        "type": "heatmap",
        "x": plain_list(layer.x),
        "y": plain_list(layer.y),
        "z": [plain_list(line) for line in matrix],
        "text": texts,
        "zmin": low,
        "zmax": high,
        "colorscale": "RdBu" if layer.diverging else "Viridis",
        "colorbar": bar,
        "hovertemplate": _lowered(
            f"{panel.xlabel}: %{{x:.4g}}<br>{panel.ylabel}: %{{y:.4g}}<br>{layer.label}: %{{text}}<extra></extra>"
        ),
    }


def _hover(panel: Panel, layer: Any, error: bool = False) -> dict[str, Any]:
    """The text under the pointer: the layer's name, both values, the standard error."""
    head = f"<b>{_lowered(layer.label)}</b><br>" if layer.label else ""
    y = "%{y:.4g} ± %{customdata:.2g}" if error else "%{y:.4g}"
    extra: dict[str, Any] = {}
    x = f"{panel.xlabel}: %{{x:.4g}}"
    if panel.names:
        nearest = np.clip(np.round(layer.x), 1, len(panel.names)).astype(int)
        extra["text"], x = [panel.names[place - 1] for place in nearest], "%{text}"
    return extra | {"hovertemplate": _lowered(f"{head}{x}<br>{panel.ylabel}: {y}<extra></extra>")}


def _scale(panel: Panel, axis: str) -> dict[str, Any]:
    """Linear, or logarithmic with plain numbers; the ends where the panel sets them."""
    limits, log = getattr(panel, f"{axis}lim"), getattr(panel, f"log{axis}")
    if not log:
        scale: dict[str, Any] = {"type": "linear", **({"range": list(limits)} if limits else {})}
        if axis == "x" and panel.names:
            lines = [in_lines(name).replace("\n", "<br>") for name in panel.names]
            places = list(range(1, len(lines) + 1))
            scale |= {"tickvals": places, "ticktext": lines, "ticks": "", "tickfont": {"size": 11}}
        elif axis == "x" and panel.counts and panel.span <= 10:  # further apart Plotly's own steps are whole numbers
            scale["dtick"] = 1
        return scale
    arrays = [np.asarray(getattr(layer, axis), float) for layer in panel.layers if hasattr(layer, axis)]
    positive = np.concatenate([v[np.isfinite(v) & (v > 0)] for v in arrays] or [np.ones(1)])
    low, high = limits or (float(positive.min()), float(positive.max()))
    ticks = round_numbers(low, high)
    scale = {"type": "log", "tickvals": ticks, "ticktext": [plain_number(v) for v in ticks]}
    return scale | ({"range": plain_list(np.log10(limits))} if limits else {})


def _lowered(text: str) -> str:
    return with_indices(text, "<sub>", "</sub>")


def _paler(colour: str) -> str:
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},0.4)"


def plain_list(values: Any) -> list[float | None]:
    """Plain numbers for JSON; None where there is none."""
    return [float(v) if math.isfinite(v) else None for v in np.asarray(values, float)]

"""The view "Phase diagram"."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..points import Point, point
from ..state import COLOURS, NUMBERS, State
from .drawing import axis, figure, finite, log_axis, value_of

CELLS = 21  # values along each axis; fewer where whole numbers run out
_QUICK_STRIDE = 4  # of those values, one in so many in the quick answer: 6


def axis_values(name: str, here: float, count: int = CELLS) -> list[float]:
    """Values of a phase diagram's axis: the slider's range, made wider where the state's own value lies outside.

    The range does not follow the state's value within it, so that a click moves the mark and not the picture.
    """
    field = NUMBERS[name]
    low, high = max(field.low, 0.0), field.high
    if here > 0 or not field.logarithmic:  # zero has no place on a logarithmic axis
        low, high = min(low, here), max(high, here)
    values = np.geomspace(low, high, count) if field.logarithmic else np.linspace(low, high, count)
    if field.whole:
        return [float(v) for v in dict.fromkeys(round(v) for v in values)]
    return [float(f"{v:.4g}") for v in values]


def phase_view(state: State, quick: bool) -> dict[str, Any]:
    """Attention's test error, or attention minus pooling, over two parameters; quick points, which share their draws."""
    stride = _QUICK_STRIDE if quick else 1
    values = {name: axis_values(name, float(value_of(state, name)))[::stride] for name in (state.x, state.y)}
    cells: dict[tuple[float, float], list[Point]] = {}
    columns = values[state.x]
    for y in values[state.y]:
        for x in columns:
            cells[x, y] = _cell(state, {state.x: x, state.y: y})
        columns = columns[::-1]  # back along the next row: every point has its neighbour's solution to start from
    points = [p for cell in cells.values() for p in cell]
    spread = max((p.standard_error for p in points), default=0.0)
    remarks = [f"standard errors of the cells up to {spread:.1g}"]
    off = [name for name in (state.x, state.y) if NUMBERS[name].logarithmic and value_of(state, name) <= 0.0]
    if off:
        remarks.append(f"{' and '.join(off)} = 0 has no place on a logarithmic axis, which shows the slider's range")
    z = [[_colour(cells[x, y]) for x in values[state.x]] for y in values[state.y]]
    return figure(
        COLOURS[state.colour].capitalize(),
        [*_layers(state, values, z, contours=not quick), _mark(state)],
        *(_axis(name, values[name]) for name in (state.x, state.y)),
        failures=[p.failure for p in points if p.failure],
        remark="; ".join(remarks),
        showlegend=False,
    )


def _cell(state: State, changes: dict[str, float]) -> list[Point]:
    """The points behind a cell's colour; none for a combination that does not exist, such as R > L."""
    models = ("attention",) if state.colour == "error" else ("attention", "pooled")
    groups = {
        group: {name: value for name, value in changes.items() if NUMBERS[name].group == group}
        for group in ("task", "training")
    }
    try:
        task, training = state.task.but(**groups["task"]), state.training.but(**groups["training"])
    except ValueError:
        return []
    return [point(task, training, model, quick=True) for model in models]


def _colour(cell: Sequence[Point]) -> float | None:
    errors = [p.test_error for p in cell]
    return finite(errors[0] - sum(errors[1:])) if errors else None


def _layers(state: State, values: dict[str, list[float]], z: list[list[float | None]], contours: bool) -> list[dict]:
    gain = state.colour == "gain"
    scale: dict[str, Any] = {"colorscale": "RdBu", "zmid": 0.0} if gain else {"colorscale": "Viridis"}
    common = {"x": values[state.x], "y": values[state.y], "z": z}
    names = [NUMBERS[name].symbol.split(" ")[0] for name in (state.x, state.y)]
    heat = {
        "type": "heatmap", **common, "zsmooth": False, **scale, "meta": "phase",
        "colorbar": {"thickness": 12, "xpad": 4},
        "hovertemplate": f"{names[0]} = %{{x}}<br>{names[1]} = %{{y}}<br>%{{z:.4f}}<extra>click to go there</extra>",
    }  # fmt: skip
    if not contours:
        return [heat]
    ink = "rgba(0,0,0,0.65)" if gain else "rgba(255,255,255,0.85)"
    lines = {
        "type": "contour", **common, "meta": "contours", "showscale": False, "hoverinfo": "skip", "ncontours": 10,
        "colorscale": [[0, ink], [1, ink]], "line": {"width": 1, "smoothing": 0.6},
        "contours": {"coloring": "lines", "showlabels": True, "labelfont": {"size": 10, "color": ink}},
    }  # fmt: skip
    return [heat, lines]


def _mark(state: State) -> dict[str, Any]:
    return {
        "type": "scatter", "mode": "markers", "x": [value_of(state, state.x)], "y": [value_of(state, state.y)],
        "marker": {"symbol": "x", "size": 12, "color": "white", "line": {"color": "black", "width": 1.5}},
        "name": "here", "showlegend": False, "meta": "here", "hovertemplate": "here<extra></extra>",
    }  # fmt: skip


def _axis(name: str, values: Sequence[float]) -> dict[str, Any]:
    field = NUMBERS[name]
    title = f"{field.label.lower()} {field.symbol}"
    return log_axis(title, values) if field.logarithmic else axis(title)

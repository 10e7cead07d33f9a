"""The view "Phase diagram"."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...task import Task
from ...training import Training
from ..points import Alive, BayesLimits, Point, point
from ..state import COLOURS, NUMBERS, State
from .drawing import axis, figure, finite, log_axis, value_of

CELLS = 25  # values along each axis; fewer where whole numbers run out
_STRIDES = {"quick": 8, "models": 2, "exact": 1}  # of those values, one in this many at each stage: 4, 13 and 25


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


def _some(values: Sequence[float], stride: int) -> list[float]:
    """One value in `stride`, and the last."""
    return [v for i, v in enumerate(values) if i % stride == 0 or i == len(values) - 1]


def phase(state: State, stage: str, alive: Alive, limits: BayesLimits) -> dict[str, Any]:
    """Attention's test error, or attention minus pooling, over two parameters; rough forecasts, which share their draws."""
    values = {
        name: _some(axis_values(name, float(value_of(state, name))), _STRIDES[stage]) for name in (state.x, state.y)
    }
    models = ("attention",) if state.colour == "error" else ("attention", "pooled")
    z: list[list[float | None]] = []
    failures: list[str] = []
    spread = 0.0
    above: list[dict[str, Point]] = [{} for _ in values[state.x]]
    for y in values[state.y]:
        row: list[float | None] = []
        before: dict[str, Point] = {}
        for place, x in enumerate(values[state.x]):
            alive()
            try:
                task, training = _with(state, {state.x: x, state.y: y})
            except ValueError:  # a combination that does not exist, such as R > L: a gap in the picture
                row.append(None)
                continue
            found = {}
            for model in models:
                near = above[place].get(model) or before.get(model)
                found[model] = point(task, training, model, equal_samples=state.equal_samples, quick=True, near=near)
            above[place] = before = {model: p for model, p in found.items() if not p.failure}
            failures += [p.failure for p in found.values() if p.failure]
            spread = max([spread, *(p.standard_error for p in before.values())])
            errors = [p.test_error for p in found.values()]
            row.append(finite(errors[0] if len(errors) == 1 else errors[0] - errors[1]))
        z.append(row)
    off = [name for name in (state.x, state.y) if NUMBERS[name].logarithmic and value_of(state, name) <= 0.0]
    remarks = [f"standard errors of the cells up to {spread:.1g}"]
    if off:
        remarks.append(f"{' and '.join(off)} = 0 has no place on a logarithmic axis, which shows the slider's range")
    return figure(
        COLOURS[state.colour].capitalize(),
        [*_layers(state, values, z, contours=stage != "quick"), _mark(state)],
        *(_axis(name, values[name]) for name in (state.x, state.y)),
        failures=failures,
        remark="; ".join(remarks),
        showlegend=False,
    )


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


def _with(state: State, changes: dict[str, float]) -> tuple[Task, Training]:
    task = {k: v for k, v in changes.items() if NUMBERS[k].group == "task"}
    training = {k: v for k, v in changes.items() if NUMBERS[k].group == "training"}
    return state.task.but(**task), state.training.but(**training)

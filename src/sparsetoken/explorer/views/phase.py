"""The view "Phase diagram"."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..points import Alive, Point, point
from ..state import COLOURS, LONGEST, NUMBERS, State
from .drawing import axis, describe, finite, layout_of, small, value_of


def axis_values(name: str, here: float, count: int) -> list[float]:
    """Values of a phase diagram's axis: around the state's value on logarithmic axes, the slider's range otherwise."""
    field = NUMBERS[name]
    if not field.logarithmic:
        values = np.linspace(max(field.low, 0.0), field.high, count)
    elif here <= 0.0:  # zero has no place on a logarithmic axis
        values = np.geomspace(field.low, field.high, count)
    elif name == "length":
        values = np.geomspace(max(2.0, here / 8), min(here * 8, LONGEST), count)
    else:
        values = np.geomspace(here / 30, here * 30, count)
    if field.whole:
        return [float(v) for v in dict.fromkeys(round(v) for v in values)]
    return [float(f"{v:.4g}") for v in values]


def phase(state: State, stage: str, alive: Alive) -> dict[str, Any]:
    """Attention's test error, or attention minus pooling, over two parameters."""
    quick = stage == "quick"
    count = 5 if quick else 9
    values = {axis: axis_values(axis, float(value_of(state, axis)), count) for axis in (state.x, state.y)}
    models = ("attention",) if state.colour == "error" else ("attention", "pooled")
    z: list[list[float | None]] = []
    failures = []
    for y in values[state.y]:
        row: list[float | None] = []
        near: dict[str, Point | None] = dict.fromkeys(models)
        for x in values[state.x]:
            alive()
            try:
                task, training = _with(state, {state.x: x, state.y: y})
            except ValueError:  # a combination that does not exist, such as R > L: a gap in the picture
                row.append(None)
                continue
            for model in models:
                near[model] = point(
                    task, training, model, equal_samples=state.equal_samples, quick=quick, near=near[model]
                )
            points = [near[model] for model in models]
            failures += [p.failure for p in points if p is not None and p.failure][:1]
            errors = [p.test_error for p in points if p is not None]
            row.append(finite(errors[0] if len(errors) == 1 else errors[0] - errors[1]))
        z.append(row)
    scale = {"colorscale": "Viridis"} if state.colour == "error" else {"colorscale": "RdBu", "zmid": 0.0}
    trace = {
        "type": "heatmap", "x": values[state.x], "y": values[state.y], "z": z, "zsmooth": False, **scale,
        "colorbar": {"title": {"text": COLOURS[state.colour], "side": "right"}}, "meta": "phase",
        "hovertemplate": f"{state.x} %{{x}}<br>{state.y} %{{y}}<br>%{{z:.4f}}<extra></extra>",
    }  # fmt: skip
    here = {
        "type": "scatter", "mode": "markers", "x": [value_of(state, state.x)], "y": [value_of(state, state.y)],
        "marker": {"symbol": "x", "size": 12, "color": "white", "line": {"color": "black", "width": 1}},
        "name": "here", "showlegend": False, "meta": "here",
    }  # fmt: skip
    layout = layout_of(
        f"{COLOURS[state.colour].capitalize()}<br>{small(describe(state))}",
        axis(_title(state.x), type=_scale(state.x)),
        axis(_title(state.y), type=_scale(state.y)),
    )
    off = [name for name in (state.x, state.y) if _scale(name) == "log" and value_of(state, name) <= 0.0]
    remark = (
        f"{' and '.join(off)} = 0 has no place on a logarithmic axis, which shows the slider's range" if off else ""
    )
    return {"data": [trace, here], "layout": layout, "failures": failures[:1], "remark": remark}


def _title(name: str) -> str:
    return f"{NUMBERS[name].label.lower()} {NUMBERS[name].symbol}"


def _scale(name: str) -> str:
    return "log" if NUMBERS[name].logarithmic else "linear"


def _with(state: State, changes: dict[str, float]):
    task = {k: v for k, v in changes.items() if NUMBERS[k].group == "task"}
    training = {k: v for k, v in changes.items() if NUMBERS[k].group == "training"}
    return state.task.but(**task), state.training.but(**training)

"""What the figures have in common: smooth lines, axes, layout and captions."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np

from ..plotting.style import REFERENCE, plain_number, round_numbers
from .fields import BAG_MODELS, NUMBERS, TASK, State, descent_fields, tidy

MOST_POINTS = 33  # of a line, whatever its bends
PATIENCE = 20.0  # seconds for the points of one line after the first; what is not there then is left out
_GRID = "rgba(128,128,128,0.25)"
_Value = TypeVar("_Value")


def refined(
    at: Callable[[float], _Value | None],
    places: Iterable[float],
    height: Callable[[_Value], float | tuple[float, ...]],
    *,
    most: int = MOST_POINTS,
    logarithmic: bool = True,
    whole: bool = False,
) -> dict[float, _Value]:
    """A line's values at `places` that are not None, in the order of x, and, up to `most`, others where its `height` bends.

    Heights are shares of the plot, several for a value of several lines; a bend is a point 0.4 % off its neighbours' line.
    """
    points: dict[float, _Value] = {}
    ends = math.inf

    def added(places: Iterable[float]) -> bool:
        nonlocal ends
        before = len(points)
        for x in places:
            if x not in points and time.monotonic() < ends and (value := at(x)) is not None:
                points[x] = value
            ends = min(ends, time.monotonic() + PATIENCE)  # what is compiled for the first point does not count
        return len(points) > before

    more = added(places)
    while more:
        xs = sorted(points)
        middles = []
        for a, b in _bent(np.log(xs) if logarithmic else np.array(xs), np.array([height(points[x]) for x in xs]).T):
            middle = math.sqrt(xs[a] * xs[b]) if logarithmic else (xs[a] + xs[b]) / 2
            middles.append(round(middle) if whole else float(f"{middle:.6g}"))
        more = added(middles[: max(most - len(points), 0)])
    return dict(sorted(points.items()))


def _bent(x: np.ndarray, y: np.ndarray) -> list[tuple[int, int]]:
    """Neighbouring points around every one that lies off the line through its neighbours; not the closest ones."""
    if len(x) < 3:
        return []
    share = (x[1:-1] - x[:-2]) / (x[2:] - x[:-2])
    y = np.atleast_2d(y)
    off = (np.abs(y[:, 1:-1] - (1 - share) * y[:, :-2] - share * y[:, 2:]) > 0.004).any(0)
    wide = np.diff(x) > (x[-1] - x[0]) / 100
    return [(i, i + 1) for i in np.flatnonzero(wide).tolist() if off[max(i - 1, 0) : i + 1].any()]


def line(name: str, x: Sequence[float], y: Iterable[float], ink: str, meta: str, **more: Any) -> dict[str, Any]:
    """A smooth line; `more` may have `errors`, shown with its values under the pointer, a `dash`, and the `shape` "linear"."""
    style = {"color": ink, "width": 2.5, "shape": more.pop("shape", "spline"), "dash": more.pop("dash", "solid")}
    errors = more.pop("errors", None)
    if errors is not None:
        more |= {"customdata": [finite(e) for e in errors], "hovertemplate": "%{y:.4g} ± %{customdata:.1g}"}
    values = [finite(value) for value in y]
    return {"type": "scatter", "mode": "lines", "name": name, "x": list(x), "y": values, "line": style, "meta": meta,
            "connectgaps": True, **more}  # fmt: skip


def axis(title: str, **more: Any) -> dict[str, Any]:
    """An axis with the page's grid."""
    return {"title": {"text": title}, "gridcolor": _GRID, "zerolinecolor": _GRID, "automargin": True, **more}


def log_axis(title: str, values: Iterable[float | None], **more: Any) -> dict[str, Any]:
    """A logarithmic axis for these values, with plain numbers at its ticks."""
    positive = [v for v in values if v is not None and v > 0 and np.isfinite(v)] or [1.0]
    ticks = round_numbers(min(positive), max(positive))
    return axis(title, type="log", tickvals=ticks, ticktext=[plain_number(v) for v in ticks], **more)


def error_axis(title: str, errors: Iterable[float | None]) -> dict[str, Any]:
    """A logarithmic axis of errors, from a little below the least (but not below 1e-6) to a little above one half."""
    least = min((e for e in errors if e is not None and e > 0), default=0.1)
    ends = [max(0.8 * least, 1e-6), 0.6]
    return log_axis(title, ends, range=np.log10(ends).tolist())


def figure(
    title: str,
    data: Sequence[dict[str, Any]],
    x: dict[str, Any],
    y: dict[str, Any],
    *,
    failures: Sequence[str] = (),
    remark: str = "",
    finding: str = "",
    **layout: Any,
) -> dict[str, Any]:
    """A figure for the page; `finding` states its result at the state's own values."""
    below = {"x": 0, "xanchor": "left", "y": 0, "yref": "container", "yanchor": "bottom"}
    frame = {
        "xaxis": x,
        "yaxis": y,
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "margin": {"l": 60, "r": 20, "t": 20, "b": 50},
        "legend": {"orientation": "h", "font": {"size": 12}, **below},
        **layout,
    }
    texts = {"title": title, "remark": remark, "finding": finding, "failures": list(failures)[:1]}
    return {**texts, "data": list(data), "layout": frame}


def upright(x: float) -> dict[str, Any]:
    """A dotted line across the plot at the state's own value."""
    line = {"color": REFERENCE, "dash": "dot", "width": 1}
    return {"type": "line", "x0": x, "x1": x, "y0": 0, "y1": 1, "yref": "paper", "line": line}


def cross(name: str, x: float, y: float | None, **more: Any) -> dict[str, Any]:
    """A cross at the state's own values."""
    marker = {"symbol": "x", "size": 12, "color": "white", "line": {"color": "black", "width": 1.5}}
    place = {"mode": "markers", "x": [x], "y": [y], "marker": marker}
    return {"type": "scatter", "name": name, "meta": "here", **place, **more}


def _fields(state: State) -> dict[str, str]:
    names = (*(field.name for field in TASK), "alpha0", "alpha1", "ridge", "beta", "eta_w", "eta_b", "eta_q")
    shown = {name: f"{letter(name)} = {value_of(state, name):g}" for name in names}
    return {**shown, "loss": f"{state.training.loss} loss".replace("_", " ")}


def letter(name: str) -> str:
    """A field's symbol, without what it stands for."""
    return NUMBERS[name].symbol.partition(" ")[0]


def describe(state: State) -> str:
    """The parameters in a line, so that a figure always shows its settings."""
    texts = list(_fields(state).values())
    steps = f"; {', '.join(_descent(state).values())}" if state.view == "training" else ""
    return f"{', '.join(texts[:4])}; {', '.join(texts[4:])}{steps}"


def _descent(state: State) -> dict[str, str]:
    used = descent_fields(state.descent.model)
    texts = {name: f"{NUMBERS[name].label.lower()} {getattr(state.descent, name):g}" for name in used}
    return {"model": BAG_MODELS[state.descent.model], **texts}


def differences(state: State, other: State) -> tuple[str, str]:
    """The differences between two settings, as text for each; the first few, where there are many."""

    def written(setting: State) -> dict[str, str]:
        texts = _fields(setting)
        if setting.view in ("curves", "phase", "capacity"):
            texts["equal"] = f"pooled, vectorized: {'all samples' if setting.training.equal_samples else 'α₁'}"
        if setting.view == "training":
            texts |= _descent(setting)
        return texts

    here, there = written(state), written(other)
    names = [name for name in {**here, **there} if here.get(name) != there.get(name)]
    described = []
    for texts in (here, there):
        differing = [texts[name] for name in names if name in texts]
        described.append(", ".join(differing[:4]) + (", …" if len(differing) > 4 else ""))  # a legend has room for four
    return described[0], described[1]


def finite(value: float) -> float | None:
    """The value, or None where there is none to draw."""
    return float(value) if np.isfinite(value) else None


def value_of(state: State, name: str) -> float:
    """The state's value of a field of the task or the training."""
    return tidy(float(getattr(state.task if NUMBERS[name].group == "task" else state.training, name)))

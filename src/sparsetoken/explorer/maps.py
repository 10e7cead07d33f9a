"""The views "Phase diagram" and "One bag": maps, of which two settings stand below each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.interpolate import RectBivariateSpline

from ..plotting.style import NOISE_TOKEN, REFERENCE, SIGNAL_TOKEN
from ..simulation.two_steps import two_steps
from .drawing import axis, cross, figure, finite, letter, log_axis, value_of
from .fields import COLOURS, NUMBERS, State
from .forecasts import Point, point


def axis_values(name: str, here: float, count: int = 21) -> list[float]:
    """The slider's range, wider where the state's own value lies outside: a click moves the mark and not the picture."""
    field = NUMBERS[name]
    low, high = max(field.low, 0.0), field.high
    if here > 0 or not field.logarithmic:  # a logarithmic axis cannot show zero
        low, high = min(low, here), max(high, here)
    values = np.geomspace(low, high, count) if field.logarithmic else np.linspace(low, high, count)
    if field.whole:
        return [float(v) for v in dict.fromkeys(round(v) for v in values)]
    return [float(f"{v:.4g}") for v in values]


def phase_view(state: State, quick: bool) -> dict[str, Any]:
    """Attention's test error, or attention minus pooling, over two parameters; quick points, which share their draws."""
    stride = 4 if quick else 1
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
        remarks.append(f"{' and '.join(off)} = 0 cannot be shown on a logarithmic axis, which has the slider's range")
    z = [[_colour(cells[x, y]) for x in values[state.x]] for y in values[state.y]]
    here = (value_of(state, name) for name in (state.x, state.y))
    mark = cross("here", *here, showlegend=False, hovertemplate="here<extra></extra>")
    at_cross = _colour([point(state.task, state.training, model, quick=True) for model in _models(state)])
    return figure(
        COLOURS[state.colour].capitalize(),
        [*_layers(state, values, z, contours=not quick), mark],
        *(_axis(name, values[name]) for name in (state.x, state.y)),
        failures=[p.failure for p in points if p.failure],
        remark="; ".join(remarks),
        finding="" if at_cross is None else f"At the cross it is {at_cross:.3g}.",
        showlegend=False,
    )


def _models(state: State) -> tuple[str, ...]:
    return ("attention",) if state.colour == "error" else ("attention", "pooled")


def _cell(state: State, changes: dict[str, float]) -> list[Point]:
    """The points behind a cell's colour; none for a combination that does not exist, such as R > L."""
    of_task = {name: value for name, value in changes.items() if NUMBERS[name].group == "task"}
    of_training = {name: value for name, value in changes.items() if name not in of_task}
    try:
        task, training = state.task.but(**of_task), state.training.but(**of_training)
    except ValueError:
        return []
    return [point(task, training, model, quick=True) for model in _models(state)]


def _colour(cell: Sequence[Point]) -> float | None:
    errors = [p.test_error for p in cell]
    return finite(errors[0] - sum(errors[1:])) if errors else None


def _smooth(state: State, values: dict[str, list[float]], z: list[list[float | None]]) -> dict[str, Any] | None:
    """The same surface through a finer grid; None where it has gaps or too few cells."""
    cells = np.array(z, dtype=float)
    if not np.isfinite(cells).all() or min(cells.shape) < 4:
        return None
    rows, columns = (np.arange(n) for n in cells.shape)
    fine_rows, fine_columns = (np.linspace(0, n - 1, 4 * n - 3) for n in cells.shape)
    surface = RectBivariateSpline(rows, columns, cells)(fine_rows, fine_columns)

    def along(name: str, fine: np.ndarray, places: np.ndarray) -> list[float]:
        if NUMBERS[name].logarithmic:
            return np.exp(np.interp(fine, places, np.log(values[name]))).tolist()
        return np.interp(fine, places, values[name]).tolist()

    x, y = along(state.x, fine_columns, columns), along(state.y, fine_rows, rows)
    return {"x": x, "y": y, "z": np.round(surface, 5).tolist()}


def _layers(state: State, values: dict[str, list[float]], z: list[list[float | None]], contours: bool) -> list[dict]:
    gain = state.colour == "gain"
    scale: dict[str, Any] = {"colorscale": "RdBu", "zmid": 0.0} if gain else {"colorscale": "Viridis"}
    common = {"x": values[state.x], "y": values[state.y], "z": z}
    names = [letter(name) for name in (state.x, state.y)]
    finer = _smooth(state, values, z)
    heat = {
        "type": "heatmap", **common, "zsmooth": "best" if finer else False, **scale, "meta": "phase",
        "colorbar": {"thickness": 12, "xpad": 4},
        "hovertemplate": f"{names[0]} = %{{x}}<br>{names[1]} = %{{y}}<br>%{{z:.4f}}<extra>click to go there</extra>",
    }  # fmt: skip
    if not contours:
        return [heat]
    ink = "rgba(0,0,0,0.65)" if gain else "rgba(255,255,255,0.85)"
    lines = {
        "type": "contour", **(finer or common), "meta": "contours", "showscale": False, "hoverinfo": "skip",
        "colorscale": [[0, ink], [1, ink]], "line": {"width": 1.2}, "autocontour": False,
        "contours": {"coloring": "lines", "start": -0.45, "end": 0.45, "size": 0.05, "showlabels": True,
                     "labelfont": {"size": 11, "color": ink}},
    }  # fmt: skip
    return [heat, lines]


def _axis(name: str, values: Sequence[float]) -> dict[str, Any]:
    field = NUMBERS[name]
    title = f"{field.label.lower()} {field.symbol}"
    return log_axis(title, values) if field.logarithmic else axis(title)


def bag_view(state: State, quick: bool) -> dict[str, Any]:
    """Each token's attention before and after the two steps, and the tokens of one positive bag, the signal's coordinate first.

    Of the other coordinates some are drawn, and the sum of the rest, which is all that the scores depend on.
    """
    task, training, d, shown = state.task, state.training, state.d, min(24, state.d)
    length, sparsity, strength, _ = task.only_kind("the view of one bag")
    rng = np.random.default_rng([state.seed, 1])
    steps = two_steps(task, training, d, state.seed)
    tokens = rng.standard_normal((length, shown))
    rest = rng.standard_normal(length) * np.linalg.norm(steps.query[shown:])
    places = np.sort(rng.choice(length, sparsity, replace=False))
    tokens[places, 0] += strength
    scores = training.beta * (tokens @ steps.query[:shown] + rest)
    after = np.exp(scores - scores.max())
    after /= after.sum()
    rest_of_bag = np.setdiff1d(np.arange(length), places)
    bars = [
        {"type": "bar", "name": f"{kind} tokens", "marker": {"color": ink}, "meta": kind, "yaxis": "y2", "width": 0.9,
         "x": (tokens_of_kind + 1).tolist(), "y": after[tokens_of_kind].tolist()}
        for kind, ink, tokens_of_kind in (("signal", SIGNAL_TOKEN, places), ("noise", NOISE_TOKEN, rest_of_bag))
    ]  # fmt: skip
    before = {
        "type": "scatter", "mode": "lines", "name": "before: 1/L", "x": [0.5, length + 0.5],
        "y": [1.0 / length] * 2, "line": {"color": REFERENCE, "dash": "dash"}, "yaxis": "y2", "meta": "before",
    }  # fmt: skip
    heat = {
        "type": "heatmap", "x": list(range(1, length + 1)), "y": list(range(1, shown + 1)), "yaxis": "y",
        "z": np.round(tokens.T, 3).tolist(), "colorscale": "RdBu", "zmid": 0.0,
        "reversescale": True, "meta": "tokens",
        "colorbar": {"thickness": 10, "len": 0.55, "y": 0.0, "yanchor": "bottom", "x": 1.0, "xpad": 4},
        "hovertemplate": "token %{x}, coordinate %{y}: %{z}<extra></extra>",
    }  # fmt: skip
    share, cosine = float(after[places].sum()), steps.cosine["q"]
    query = f"cos(q₂, ξ) = {cosine:.2f}" if steps.norm["q"] > 0 else "the query is zero"
    return figure(
        f"A positive bag: the weight of its signal tokens goes from {sparsity / length:.2f} to {share:.2f} "
        f"({query} at d = {d})",
        [heat, *bars, before],
        axis("token", range=[0.5, length + 0.5]),
        axis("coordinate", domain=[0.0, 0.55], range=[shown + 0.5, 0.5]),
        yaxis2=axis("attention", domain=[0.65, 1.0], rangemode="tozero", anchor="x"),
        barmode="overlay",
    )

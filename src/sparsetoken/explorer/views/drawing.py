"""What the figures have in common: axes, layout, and the line that says what is shown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ...plotting.scales import plain_number, round_numbers
from ...plotting.style import REFERENCE
from ..state import NUMBERS, State, tidy

_GRID = "rgba(128,128,128,0.25)"


def axis(title: str, **more: Any) -> dict[str, Any]:
    """An axis with the page's grid."""
    return {"title": {"text": title}, "gridcolor": _GRID, "zerolinecolor": _GRID, "automargin": True, **more}


def log_axis(title: str, values: Iterable[float | None], **more: Any) -> dict[str, Any]:
    """A logarithmic axis for these values, with plain numbers at its ticks."""
    positive = [v for v in values if v is not None and v > 0 and np.isfinite(v)] or [1.0]
    ticks = round_numbers(min(positive), max(positive))
    return axis(title, type="log", tickvals=ticks, ticktext=[plain_number(v) for v in ticks], **more)


def figure(
    title: str,
    data: Sequence[dict[str, Any]],
    x: dict[str, Any],
    y: dict[str, Any],
    *,
    failures: Sequence[str] = (),
    remark: str = "",
    late: bool = False,
    **layout: Any,
) -> dict[str, Any]:
    """A figure as the page takes it.

    Parameters
    ----------
    title : str
        What is shown. The page has it above the plot, and puts it into the pictures that it saves.
    data : sequence of dict
        Plotly's traces; their `meta` tells them apart.
    x, y : dict
        The axes, from `axis`.
    failures : sequence of str
        Why some points have no answer; the first is told.
    remark : str
        What else should be said.
    late : bool
        Whether something is still being computed: the figure may look better the next time.
    **layout
        Further entries of Plotly's layout.

    Returns
    -------
    dict
    """
    frame = {
        "xaxis": x,
        "yaxis": y,
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "margin": {"l": 60, "r": 20, "t": 20, "b": 50},
        "legend": {
            "orientation": "h",
            "x": 0,
            "xanchor": "left",
            "y": 0,
            "yref": "container",
            "yanchor": "bottom",
            "font": {"size": 12},
        },
        **layout,
    }
    return {
        "title": title,
        "data": list(data),
        "layout": frame,
        "failures": list(failures)[:1],
        "remark": remark,
        "late": late,
    }


def upright(x: float) -> dict[str, Any]:
    """A dotted line across the plot at the state's own value."""
    line = {"color": REFERENCE, "dash": "dot", "width": 1}
    return {"type": "line", "x0": x, "x1": x, "y0": 0, "y1": 1, "yref": "paper", "line": line}


def describe(state: State) -> str:
    """The parameters in a line, so that a figure always says what it shows."""
    t, tr = state.task, state.training
    return (
        f"L = {t.length}, R = {t.sparsity}, θ = {t.strength:g}, π = {t.prevalence:g}; α₀ = {tr.alpha0:g}, "
        f"α₁ = {tr.alpha1:g}, λ = {tr.ridge:g}, β = {tr.beta:g}, η_w = {tr.eta_w:g}, η_b = {tr.eta_b:g}, "
        f"η_q = {tr.eta_q:g}, {tr.loss} loss"
    )


def finite(value: float) -> float | None:
    """The value, or None where there is none to draw."""
    return float(value) if np.isfinite(value) else None


def value_of(state: State, name: str) -> float:
    """The state's value of a field of the task or the training."""
    return tidy(float(getattr(state.task if NUMBERS[name].group == "task" else state.training, name)))

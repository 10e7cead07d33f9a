"""What the figures have in common: axes, layout, and the line that says what is shown."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..state import NUMBERS, State, tidy

_GRID = "rgba(128,128,128,0.25)"


def axis(title: str, **more: Any) -> dict[str, Any]:
    """An axis with the page's grid; plain ticks on logarithmic ones."""
    if more.get("type") == "log":
        more |= {"dtick": "D2", "exponentformat": "power"}
    return {"title": {"text": title}, "gridcolor": _GRID, "zerolinecolor": _GRID, "automargin": True, **more}


def layout_of(title: str, x: dict[str, Any], y: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The layout of a figure with a title, two axes and the legend below."""
    return {
        "title": {"text": title, "font": {"size": 14}, "x": 0.02, "xanchor": "left"},
        "xaxis": x,
        "yaxis": y,
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "margin": {"l": 60, "r": 20, "t": 60, "b": 50},
        "legend": {"orientation": "h", "yref": "container", "y": 0, "yanchor": "bottom"},
        **more,
    }


def describe(state: State) -> str:
    """The parameters in a line, so that a figure always says what it shows."""
    t, tr = state.task, state.training
    return (
        f"L = {t.length}, R = {t.sparsity}, θ = {t.strength:g}, π = {t.prevalence:g}; α₀ = {tr.alpha0:g}, "
        f"α₁ = {tr.alpha1:g}, λ = {tr.ridge:g}, η_q = {tr.eta_q:g}, {tr.loss}"
    )


def small(text: str) -> str:
    """Text in small letters."""
    return f'<span style="font-size:11px">{text}</span>'


def finite(value: float) -> float | None:
    """The value, or None where there is none to draw."""
    return float(value) if np.isfinite(value) else None


def value_of(state: State, name: str) -> float:
    """The state's value of a field of the task or the training."""
    return tidy(float(getattr(state.task if NUMBERS[name].group == "task" else state.training, name)))

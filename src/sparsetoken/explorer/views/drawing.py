"""What the figures have in common: axes, layout, and the line that says what is shown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ...plotting.style import REFERENCE, plain_number, round_numbers
from ..state import BAG_MODELS, NUMBERS, State, descent_fields, tidy

_NAMED = 4  # differences between two settings that a legend has room for
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
    **layout: Any,
) -> dict[str, Any]:
    """A figure as the page takes it."""
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
    }


def upright(x: float) -> dict[str, Any]:
    """A dotted line across the plot at the state's own value."""
    line = {"color": REFERENCE, "dash": "dot", "width": 1}
    return {"type": "line", "x0": x, "x1": x, "y0": 0, "y1": 1, "yref": "paper", "line": line}


def _fields(state: State) -> dict[str, str]:
    """The task's and the training's fields, as they are written."""
    t, tr = state.task, state.training
    shown = {
        "length": f"L = {t.length}", "sparsity": f"R = {t.sparsity}", "strength": f"θ = {t.strength:g}",
        "prevalence": f"π = {t.prevalence:g}", "alpha0": f"α₀ = {tr.alpha0:g}", "alpha1": f"α₁ = {tr.alpha1:g}",
        "ridge": f"λ = {tr.ridge:g}", "beta": f"β = {tr.beta:g}", "eta_w": f"η_w = {tr.eta_w:g}",
        "eta_b": f"η_b = {tr.eta_b:g}", "eta_q": f"η_q = {tr.eta_q:g}", "loss": f"{tr.loss} loss",
    }  # fmt: skip
    return {name: text.replace("_hinge", " hinge") for name, text in shown.items()}


def describe(state: State) -> str:
    """The parameters in a line, so that a figure always says what it shows."""
    texts = list(_fields(state).values())
    steps = f"; {', '.join(_descent(state).values())}" if state.view == "training" else ""
    return f"{', '.join(texts[:4])}; {', '.join(texts[4:])}{steps}"


def _descent(state: State) -> dict[str, str]:
    """The fields of step-by-step training that its model has a use for, as they are written."""
    used = descent_fields(state.descent.model)
    texts = {name: f"{NUMBERS[name].label.lower()} {getattr(state.descent, name):g}" for name in used}
    return {"model": BAG_MODELS[state.descent.model], **texts}


def differences(state: State, other: State) -> tuple[str, str]:
    """What tells two settings apart, in the words of each; the first few, where much does."""

    def written(one: State) -> dict[str, str]:
        texts = _fields(one)
        if one.view in ("curves", "phase", "capacity"):
            texts["equal"] = (
                "pooled, vectorized: all samples" if one.training.equal_samples else "pooled, vectorized: α₁"
            )
        if one.view == "training":
            texts |= _descent(one)
        return texts

    here, there = written(state), written(other)
    names = [name for name in {**here, **there} if here.get(name) != there.get(name)]
    found = []
    for texts in (here, there):
        own = [texts[name] for name in names if name in texts]
        found.append(", ".join(own[:_NAMED]) + (", …" if len(own) > _NAMED else ""))
    return found[0], found[1]


def finite(value: float) -> float | None:
    """The value, or None where there is none to draw."""
    return float(value) if np.isfinite(value) else None


def value_of(state: State, name: str) -> float:
    """The state's value of a field of the task or the training."""
    return tidy(float(getattr(state.task if NUMBERS[name].group == "task" else state.training, name)))

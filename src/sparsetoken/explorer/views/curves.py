"""The view "Learning curves"."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...plotting.style import REFERENCE, colour, label, marker
from ...training import Training
from ..points import Alive, Point, point
from ..state import State
from .drawing import axis, describe, finite, layout_of, small
from .stages import models_at


def at_total(training: Training, total: float) -> Training:
    """The training with alpha0 + alpha1 = total and the same share of D0."""
    factor = total / (training.alpha0 + training.alpha1)
    return training.but(alpha0=training.alpha0 * factor, alpha1=training.alpha1 * factor)


def curve_totals(state: State, count: int) -> list[float]:
    """alpha0 + alpha1 along the curves, the state's own value in the middle (exactly)."""
    total = state.training.alpha0 + state.training.alpha1
    steps = np.linspace(-3.0, 3.0, count)
    return [total if step == 0 else float(f"{total * 2.0**step:.6g}") for step in steps]


def curves(state: State, stage: str, alive: Alive) -> dict[str, Any]:
    """Test error against the total number of samples, the share of D0 kept."""
    quick = stage == "quick"
    totals = curve_totals(state, 5 if quick else 9)
    total = state.training.alpha0 + state.training.alpha1
    traces, failures = [], []
    for model in models_at(stage):
        near: Point | None = None
        found = []
        shown = totals if model != "bayes" else curve_totals(state, 7)
        for x in shown:
            alive()
            training = state.training if x == total else at_total(state.training, x)
            near = point(
                state.task,
                training,
                model,
                equal_samples=state.equal_samples,
                quick=quick and model != "bayes",
                near=near,
            )
            found.append(near)
        failures += [f.failure for f in found if f.failure][:1]
        traces.append({
            "type": "scatter", "mode": "lines+markers", "name": label(model), "x": shown,
            "y": [finite(f.test_error) for f in found], "line": {"color": colour(model)},
            "marker": {"color": colour(model), "symbol": marker(model), "size": 5},
            "error_y": {"type": "data", "array": [finite(f.standard_error) for f in found], "width": 0, "thickness": 1},
            "meta": model,
        })  # fmt: skip
        if model == "bayes" and any(f.hard for f in found):
            traces.append({
                "type": "scatter", "mode": "lines", "name": label("reachable"), "x": shown,
                "y": [finite(f.reachable) for f in found], "line": {"color": colour("reachable"), "dash": "dash"},
                "meta": "reachable",
            })  # fmt: skip
    layout = layout_of(
        f"Test error against samples<br>{small(describe(state))}",
        axis("samples α₀ + α₁ = n/d", type="log"),
        axis("test error", rangemode="tozero"),
        shapes=[{"type": "line", "x0": total, "x1": total, "y0": 0, "y1": 1, "yref": "paper",
                 "line": {"color": REFERENCE, "dash": "dot", "width": 1}}],
    )  # fmt: skip
    return {"data": traces, "layout": layout, "failures": failures}

"""The view "Capacity"."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...plotting.style import REFERENCE, colour, label, marker
from ..points import Alive, threshold
from ..state import State
from .drawing import axis, describe, layout_of, small
from .stages import MODELS


def capacity_view(state: State, stage: str, alive: Alive) -> dict[str, Any]:
    """The separability threshold alpha* against the strength, and the readout's alpha1."""
    here, quick = state.task.mean_strength, stage == "quick"
    strengths = np.linspace(0.0, max(2 * here, 4.0), 5 if quick else 9).tolist()
    strengths = sorted({*strengths, here})
    traces, failures = [], []
    for model in MODELS:
        values: list[float | None] = []
        errors: list[float | None] = []
        for strength in strengths:
            alive()
            try:
                found = threshold(state.task.but(strength=strength), state.training, model, quick)
                values.append(found.alpha)
                errors.append(found.standard_error)
            except (ValueError, ArithmeticError, MemoryError) as error:
                failures.append(str(error) or "it takes more memory than there is")
                values.append(None)
                errors.append(None)
        traces.append({
            "type": "scatter", "mode": "lines+markers", "name": label(model), "x": strengths, "y": values,
            "line": {"color": colour(model)}, "marker": {"symbol": marker(model), "size": 5}, "meta": model,
            "error_y": {"type": "data", "array": errors, "width": 0, "thickness": 1},
        })  # fmt: skip
    alpha1 = state.training.alpha1
    traces.append({
        "type": "scatter", "mode": "lines", "name": "α₁", "x": [strengths[0], strengths[-1]], "y": [alpha1, alpha1],
        "line": {"color": REFERENCE, "dash": "dash"}, "meta": "alpha1",
    })  # fmt: skip
    layout = layout_of(
        f"Capacity: D₁ is separable below the line, not above<br>{small(describe(state))}",
        axis("strength θ"),
        axis("capacity α* = n₁/d", type="log"),
    )
    return {"data": traces, "layout": layout, "failures": failures[:1]}

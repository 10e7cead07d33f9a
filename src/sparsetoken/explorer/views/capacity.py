"""The view "Capacity"."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...plotting.style import REFERENCE, colour, label, marker
from ..points import REFUSALS, threshold, words_of
from ..state import State
from .curves import MODELS
from .drawing import axis, figure, finite, log_axis, upright


def capacity_view(state: State, quick: bool) -> dict[str, Any]:
    """The separability threshold alpha* against the strength, and the readout's alpha1."""
    here = state.task.mean_strength
    strengths = np.linspace(0.0, max(2 * here, 4.0), 5 if quick else 9).tolist()
    strengths = sorted({*strengths, here})
    traces, failures, never = [], [], 0
    for model in MODELS:
        values: list[float | None] = []
        errors: list[float | None] = []
        for strength in strengths:
            try:
                found = threshold(state.task.but(strength=strength), state.training, model, quick)
                values.append(finite(found.alpha))
                errors.append(finite(found.standard_error))
                never += found.alpha == float("inf")
            except REFUSALS as error:
                failures.append(words_of(error))
                values.append(None)
                errors.append(None)
        traces.append({
            "type": "scatter", "mode": "lines+markers", "name": label(model), "x": strengths, "y": values,
            "line": {"color": colour(model)}, "marker": {"symbol": marker(model), "size": 5}, "meta": model,
            "error_y": {"type": "data", "array": errors, "width": 0, "thickness": 1},
        })  # fmt: skip
    alpha1 = state.training.alpha1
    traces.append({
        "type": "scatter", "mode": "lines", "name": "readout's samples α₁", "x": [strengths[0], strengths[-1]],
        "y": [alpha1, alpha1], "line": {"color": REFERENCE, "dash": "dash"}, "meta": "alpha1",
    })  # fmt: skip
    return figure(
        "Capacity: the readout's data are separable below the line, not above",
        traces,
        axis("strength θ"),
        log_axis("capacity α* = n₁/d", [alpha1, *(v for trace in traces for v in trace["y"])]),
        failures=failures,
        remark="where a line ends, no bag drawn lies on the wrong side" if never else "",
        shapes=[upright(here)],
    )

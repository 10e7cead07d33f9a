"""The view "Training"."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...plotting.style import REFERENCE, colour, label
from ..points import Alive, BayesLimits, Curve
from ..state import BAG_MODELS, LEAST, State
from .drawing import axis, figure, log_axis
from .rows import STAGED, curve_of, numbers


def _over_steps(name: str, meta: str, values: np.ndarray, spread: np.ndarray, line: dict[str, Any]) -> list[dict]:
    """A line over the steps, and the band of two standard errors around it."""
    steps = list(range(len(values)))
    edges = np.maximum([*(values + 2 * spread), *(values - 2 * spread)[::-1]], LEAST)  # zero has no place on the axis
    band = {
        "type": "scatter", "mode": "lines", "x": [*steps, *steps[::-1]], "y": edges.tolist(), "fill": "toself",
        "line": {"width": 0, "color": line["color"]}, "opacity": 0.25, "hoverinfo": "skip", "showlegend": False,
        "meta": f"{meta}_band",
    }  # fmt: skip
    return [band, {
        "type": "scatter", "mode": "lines", "name": name, "x": steps, "y": [y or None for y in values.tolist()],
        "line": line, "meta": meta,
        "customdata": spread.tolist(), "hovertemplate": "step %{x}: %{y:.4f} ± %{customdata:.1g}",
    }]  # fmt: skip


def _error_axis(found: Curve | None, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """A logarithmic axis of errors up to one half.

    It ends at half the least test error of the rows, or lower where the training error goes on, by up to another factor of
    ten; never below 1e-6.
    """
    least = min((row["test_error"] for row in rows if row["test_error"]), default=0.1) / 2
    errors = np.array([]) if found is None else found.train_error
    training = errors[errors > 0]
    low = max(min(least, max(float(training.min(initial=1.0)) / 2, least / 10)), 1e-6)
    return log_axis("error", [low, 0.7], range=[float(np.log10(low)), float(np.log10(0.7))])


def training_view(state: State, stage: str, alive: Alive, limits: BayesLimits) -> dict[str, Any]:
    """Test and training error over the steps of descent on all samples; the staged forecast and the Bayes limit beside them.

    The first stage has the staged forecast alone.
    """
    descent, traces, failures, remarks = state.descent, [], [], []
    found = curve_of(state, stage, alive)
    ink = colour(descent.model, tuple(BAG_MODELS).index(descent.model))
    if found is None:
        remarks.append("the steps follow; a new length, model or number of steps is compiled first")
    elif found.failure:
        failures.append(found.failure)
    else:
        traces += _over_steps(
            "training error", "train", found.train_error, found.train_spread, {"color": ink, "dash": "dot"}
        )
        traces += _over_steps("test error", "test", found.test_error, found.test_spread, {"color": ink, "width": 3})
        best = found.best_step
        value = float(found.test_error[best])
        traces.append({
            "type": "scatter", "mode": "markers", "name": f"best step, {best}: {value:.4f}", "x": [best], "y": [value],
            "meta": "best", "marker": {"color": ink, "symbol": "star", "size": 14}, "hoverinfo": "skip",
        })  # fmt: skip
        if found.unstable_from is not None:
            remarks.append(f"training is unstable from step {found.unstable_from} on, take smaller rates")
        if (found.train_error == 0).any():
            remarks.append("training errors of zero have no place on the logarithmic axis")
    rows = numbers(state, stage, limits)
    for model, name, line in (
        ("attention", STAGED, {"color": REFERENCE, "dash": "dash"}),
        ("bayes", label("bayes"), {"color": colour("bayes"), "width": 1}),
    ):
        row = next((row for row in rows if row["model"] == model), None)
        if row is None:
            continue
        if row["failure"]:
            (remarks if row.get("late") else failures).append(f"{name}: {row['failure']}")
        alive()
        traces.append({
            "type": "scatter", "mode": "lines", "name": name, "x": [0, descent.steps], "y": [row["test_error"]] * 2,
            "line": line, "meta": "staged" if model == "attention" else model,
        })  # fmt: skip
    if descent.model.startswith("heads") and descent.start == 0:
        remarks.append("from a start at zero both heads stay equal")
    return figure(
        f"Training step by step: {BAG_MODELS[descent.model]}",
        traces,
        axis("step", range=[-0.02 * descent.steps, 1.02 * descent.steps]),
        _error_axis(found, rows),
        failures=failures,
        remark="; ".join(remarks),
        late=any(row.get("late") for row in rows),
    )

"""The view "Training"."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...plotting.style import REFERENCE, colour, label
from ...trajectories import Trajectory
from ..state import BAG_MODELS, LEAST, State
from .drawing import axis, error_axis, figure, line
from .numbers import STAGED, curve_of, numbers


def training_view(state: State, quick: bool) -> dict[str, Any]:
    """Test and training error over the steps of descent on all samples; the staged forecast and the Bayes limit beside them.

    The quick answer has the staged forecast alone.
    """
    descent, found = state.descent, "" if quick else curve_of(state)
    curve, failure = (None, found) if isinstance(found, str) else (found, "")
    rows = numbers(state, quick)
    references, failures = _references(rows, descent.steps)
    return figure(
        f"Training step by step: {BAG_MODELS[descent.model]}",
        [*([] if curve is None else _steps(state, curve)), *references],
        axis("step", range=[-0.02 * descent.steps, 1.02 * descent.steps]),
        error_axis("error", _shown_errors(curve, rows)),
        failures=[failure] * bool(failure) + failures,
        remark="; ".join(_remarks(state, curve, quick)),
        finding="" if curve is None else _finding(curve, descent.steps),
    )


def _finding(curve: Trajectory, steps: int) -> str:
    if curve.details.get("unstable_from") is not None:
        return ""
    if curve.best_step == steps:
        return "Here the test error is least at the last step: more steps may lower it."
    return f"Here it is least after {curve.best_step} of {steps} steps; going on fits the training bags only."


def _steps(state: State, curve: Trajectory) -> list[dict[str, Any]]:
    """Training and test error over the steps, and a star at the best one."""
    ink, best = colour(state.descent.model, tuple(BAG_MODELS).index(state.descent.model)), curve.best_step
    value = float(curve.test_error[best])
    return [
        *_over_steps("training error", "train", curve.train_error, curve.errors["train_error"], ink, "dot"),
        *_over_steps("test error", "test", curve.test_error, curve.standard_error, ink, "solid"),
        {"type": "scatter", "mode": "markers", "name": f"best step, {best}: {value:.4f}", "x": [best], "y": [value],
         "meta": "best", "marker": {"color": ink, "symbol": "star", "size": 14}, "hoverinfo": "skip"},
    ]  # fmt: skip


def _over_steps(name: str, meta: str, values: np.ndarray, spread: np.ndarray, ink: str, dash: str) -> list[dict]:
    """A line over the steps, and the band of two standard errors around it."""
    steps = list(range(len(values)))
    edges = np.maximum([*(values + 2 * spread), *(values - 2 * spread)[::-1]], LEAST)  # zero has no place on the axis
    band = {
        "type": "scatter", "mode": "lines", "x": [*steps, *steps[::-1]], "y": edges.tolist(), "fill": "toself",
        "line": {"width": 0, "color": ink}, "opacity": 0.25, "hoverinfo": "skip", "showlegend": False,
        "meta": f"{meta}_band",
    }  # fmt: skip
    return [
        band,
        line(name, steps, [y or np.nan for y in values.tolist()], ink, meta, errors=spread, dash=dash, shape="linear"),
    ]


def _references(rows: list[dict[str, Any]], steps: int) -> tuple[list[dict[str, Any]], list[str]]:
    """Staged attention and the Bayes limit as level lines, and why one has no place."""
    looks = {
        "attention": (STAGED, "staged", REFERENCE, "dash"),
        "bayes": (label("bayes"), "bayes", colour("bayes"), "solid"),
    }
    shown = [(row, *looks[row["model"]]) for row in rows if row["model"] in looks]
    lines = [
        line(name, [0, steps], [row["test_error"] or np.nan] * 2, ink, meta, dash=dash)
        for row, name, meta, ink, dash in shown
    ]
    return lines, [f"{name}: {row['failure']}" for row, name, *_ in shown if row["failure"]]


def _remarks(state: State, curve: Trajectory | None, quick: bool) -> list[str]:
    remarks = ["the steps follow; a new length, model or number of steps is compiled first"] * quick
    unstable = None if curve is None else curve.details.get("unstable_from")
    if unstable is not None:
        remarks.append(f"training is unstable from step {unstable} on, take smaller rates")
    if curve is not None and (curve.train_error == 0).any():
        remarks.append("training errors of zero have no place on the logarithmic axis")
    if state.descent.model.startswith("heads") and state.descent.start == 0:
        remarks.append("from a start at zero both heads stay equal")
    return remarks


def _shown_errors(curve: Trajectory | None, rows: list[dict[str, Any]]) -> list[float]:
    """Test errors, and training errors as far as a tenth of the least of them."""
    errors = [row["test_error"] for row in rows if row["test_error"]]
    training = [] if curve is None else curve.train_error[curve.train_error > 0].tolist()
    return [*errors, *(max(e, min(errors, default=0.1) / 10) for e in training)]

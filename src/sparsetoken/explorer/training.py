"""The view "Training": errors over the steps of descent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..plotting.style import REFERENCE, colour, label
from ..trajectories import Trajectory
from .drawing import axis, error_axis, figure, line
from .fields import BAG_MODELS, LEAST, State
from .forecasts import Point, descent_curve, point

STAGED = "attention, staged"


def training_view(state: State, quick: bool) -> dict[str, Any]:
    """Errors over the steps of descent on all samples, beside staged training (alone in the quick answer) and Bayes limit."""
    steps, result = state.descent.steps, None if quick else curve_of(state)
    curve = None if isinstance(result, str) else result
    failures = [result] if isinstance(result, str) else []
    staged = "attention", STAGED, "staged", REFERENCE, "dash"
    limit = "bayes", label("bayes"), "bayes", colour("bayes"), "solid"
    levels, lines = [], []
    for model, name, meta, ink, dash in [staged] if quick else [staged, limit]:
        level = point(state.task, state.training, model, quick)
        failures += [f"{name}: {level.failure}"] if level.failure else []
        lines.append(line(name, [0, steps], [level.test_error or np.nan] * 2, ink, meta, dash=dash))
        levels.append(level.test_error)
    return figure(
        f"Training step by step: {BAG_MODELS[state.descent.model]}",
        [*([] if curve is None else _steps(state, curve)), *lines],
        axis("step", range=[-0.02 * steps, 1.02 * steps]),
        error_axis("error", _shown_errors(curve, levels)),
        failures=failures,
        remark="; ".join(_remarks(state, curve, quick)),
        finding="" if curve is None else _finding(curve, steps),
    )


def curve_of(state: State) -> Trajectory | str:
    """Training step by step at the state, or why there is none."""
    return descent_curve(state.task, state.descent, state.samples, state.training.loss)


def training_rows(state: State) -> dict[str, tuple[str, Point]]:
    """Rows of the table: step-by-step training at its best step and at the end."""
    curve, name = curve_of(state), BAG_MODELS[state.descent.model]
    if isinstance(curve, str):
        return {"last": (name, Point(np.nan, failure=curve))}
    places = {"best": (curve.best_step, "best step"), "last": (state.descent.steps, "at the end, step")}
    return {
        key: (f"{name}, {heading} {step}", Point(float(curve.test_error[step]), float(curve.standard_error[step])))
        for key, (step, heading) in places.items()
    }


def _finding(curve: Trajectory, steps: int) -> str:
    if curve.details.get("unstable_from") is not None:
        return ""
    if curve.best_step == steps:
        return "Here the test error is least at the last step: more steps may lower it."
    return f"Here it is least after {curve.best_step} of {steps} steps; further steps only fit the training bags."


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
    steps = list(range(len(values)))
    edges = np.maximum([*(values + 2 * spread), *(values - 2 * spread)[::-1]], LEAST)  # for the logarithmic axis
    band = {
        "type": "scatter", "mode": "lines", "x": [*steps, *steps[::-1]], "y": edges.tolist(), "fill": "toself",
        "line": {"width": 0, "color": ink}, "opacity": 0.25, "hoverinfo": "skip", "showlegend": False,
        "meta": f"{meta}_band",
    }  # fmt: skip
    shown = [y or np.nan for y in values.tolist()]
    return [band, line(name, steps, shown, ink, meta, errors=spread, dash=dash, shape="linear")]


def _remarks(state: State, curve: Trajectory | None, quick: bool) -> list[str]:
    remarks = ["the steps follow; a new length, model or number of steps is compiled first"] * quick
    unstable = None if curve is None else curve.details.get("unstable_from")
    if unstable is not None:
        remarks.append(f"training is unstable from step {unstable} on, take smaller rates")
    if curve is not None and (curve.train_error == 0).any():
        remarks.append("training errors of zero cannot be shown on the logarithmic axis")
    if state.descent.model.startswith("heads") and state.descent.start == 0:
        remarks.append("from a start at zero both heads stay equal")
    return remarks


def _shown_errors(curve: Trajectory | None, levels: Sequence[float]) -> list[float]:
    """Test errors, and training errors as far as a tenth of the least of them."""
    errors = [e for e in levels if e > 0]
    if curve is None:
        return errors
    errors += curve.test_error[curve.test_error > 0].tolist()
    training = curve.train_error[curve.train_error > 0].tolist()
    return [*errors, *(max(e, min(errors, default=0.1) / 10) for e in training)]

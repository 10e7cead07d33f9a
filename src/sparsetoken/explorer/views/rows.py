"""The table "At these settings": forecasts at the state itself."""

from __future__ import annotations

from typing import Any

from ..points import Curve, Point, descent_curve, point
from ..state import BAG_MODELS, State
from .curves import MODELS, all_samples, heads_models
from .drawing import finite

STAGED = "attention, staged"


def curve_of(state: State) -> Curve:
    """Training step by step at the state."""
    return descent_curve(state.task, state.descent, all_samples(state), state.training.loss)


def numbers(state: State, quick: bool) -> list[dict[str, Any]]:
    """The forecasts at the state itself, a row per model."""
    rows = [] if quick or state.view != "training" else _rows_of_training(state)
    models: tuple[str, ...] = MODELS if state.view not in ("heads", "training") else ("attention",)
    if not quick:
        models += (*(heads_models(state) if state.view == "heads" else ()), "bayes")
    for model in models:
        found = point(state.task, state.training, model, quick)
        rows.append(_row(model, found))
        if found.hard and state.view in ("curves", "heads"):  # where its line is drawn
            rows.append(_row("reachable", Point(found.reachable, found.reachable_error)))
    if state.view == "training":  # staged attention is what step-by-step training is compared with
        next(row for row in rows if row["model"] == "attention")["label"] = STAGED
    return rows


def _row(model: str, found: Point) -> dict[str, Any]:
    return {"model": model, "test_error": finite(found.test_error), "standard_error": found.standard_error,
            "failure": found.failure}  # fmt: skip


def _rows_of_training(state: State) -> list[dict[str, Any]]:
    """The test error of step-by-step training at its best step and at the end."""
    curve, name = curve_of(state), BAG_MODELS[state.descent.model]
    if curve.failure:
        return [{"model": "last", "label": name, "test_error": None, "standard_error": 0.0, "failure": curve.failure}]
    places = (("best", curve.best_step, "best step"), ("last", state.descent.steps, "at the end, step"))
    return [
        {"model": key, "label": f"{name}, {words} {step}", "test_error": float(curve.test_error[step]),
         "standard_error": float(curve.test_spread[step]), "failure": ""}
        for key, step, words in places
    ]  # fmt: skip

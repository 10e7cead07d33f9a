"""The table "At these settings": forecasts at the state itself."""

from __future__ import annotations

from typing import Any

from ..points import Alive, Curve, always, descent_curve, point
from ..state import BAG_MODELS, State
from .drawing import finite
from .stages import models_at

STAGED = "attention, staged"


def all_samples(state: State) -> float:
    """alpha = alpha0 + alpha1: what step-by-step training learns from, so that it compares with the staged forecast."""
    return state.training.alpha0 + state.training.alpha1


def curve_of(state: State, stage: str, alive: Alive = always) -> Curve:
    """Training step by step at the state."""
    quick, loss = stage == "quick", state.training.loss
    return descent_curve(state.task, state.descent, all_samples(state), loss, quick=quick, alive=alive)


def numbers(state: State, stage: str) -> list[dict[str, Any]]:
    """The forecasts at the state itself, a row per model."""
    rows: list[dict[str, Any]] = []
    if state.view == "training":
        rows += _rows_of_training(state, stage)
    for model in models_at(stage):
        if state.view == "training" and model in ("pooled", "vectorized"):
            continue  # staged attention is what step-by-step training is compared with
        found = point(state.task, state.training, model, equal_samples=state.equal_samples, quick=stage == "quick")
        rows.append({"model": model, "test_error": finite(found.test_error), "standard_error": found.standard_error,
                     "failure": found.failure})  # fmt: skip
        if state.view == "training" and model == "attention":
            rows[-1]["label"] = STAGED
    return rows


def _rows_of_training(state: State, stage: str) -> list[dict[str, Any]]:
    """The test error of step-by-step training at its best step and at the end."""
    found, name = curve_of(state, stage), BAG_MODELS[state.descent.model]
    if found.failure:
        return [{"model": "last", "label": name, "test_error": None, "standard_error": 0.0, "failure": found.failure}]
    places = (("best", found.best_step, "best step"), ("last", state.descent.steps, "at the end, step"))
    return [
        {"model": key, "label": f"{name}, {words} {step}", "test_error": float(found.test_error[step]),
         "standard_error": float(found.test_spread[step]), "failure": ""}
        for key, step, words in places
    ]  # fmt: skip

"""The table "At these settings": forecasts at the state itself."""

from __future__ import annotations

from typing import Any

from ..points import Alive, BayesLimits, Curve, Point, always, descent_curve, known_point, point
from ..state import BAG_MODELS, State
from .curves import all_samples
from .drawing import finite
from .heads import heads_at
from .stages import MODELS

STAGED = "attention, staged"
LATE = "still being computed"


def curve_of(state: State, stage: str, alive: Alive = always) -> Curve | None:
    """Training step by step at the state; the first stage leaves it out, unless it is known already."""
    replicates = {"quick": 0, "models": 1, "exact": 2}[stage]
    return descent_curve(
        state.task, state.descent, all_samples(state), state.training.loss, effort=replicates, alive=alive
    )


def numbers(state: State, stage: str, limits: BayesLimits | None = None) -> list[dict[str, Any]]:
    """The forecasts at the state itself, a row per model."""
    rows: list[dict[str, Any]] = []
    models: tuple[str, ...] = MODELS if state.view != "heads" else ("attention",)
    if state.view == "training":
        rows += _rows_of_training(state, stage)
        models = ("attention",)  # staged attention is what step-by-step training is compared with
    task, training, equal = state.task, state.training, state.equal_samples
    for model in models:
        rows.append(_row(model, point(task, training, model, equal_samples=equal, quick=stage == "quick")))
    if state.view == "heads":  # computed for the figure, and not waited for again
        rows += [
            _row(model, known_point(task, training, model, equal_samples=equal)) for model in heads_at(state, stage)
        ]
    if stage == "exact":
        limit = (limits or BayesLimits(always)).at(task, training)
        rows.append(_row("bayes", limit))
        if limit.hard and state.view in ("curves", "heads"):  # where its line is drawn
            rows.append(_row("reachable", Point(limit.reachable, limit.reachable_error)))
    if state.view == "training":
        next(row for row in rows if row["model"] == "attention")["label"] = STAGED
    return rows


def _row(model: str, found: Point) -> dict[str, Any]:
    return {"model": model, "test_error": finite(found.test_error), "standard_error": found.standard_error,
            "failure": LATE if found.late else found.failure, "late": found.late}  # fmt: skip


def _rows_of_training(state: State, stage: str) -> list[dict[str, Any]]:
    """The test error of step-by-step training at its best step and at the end."""
    found, name = curve_of(state, stage), BAG_MODELS[state.descent.model]
    if found is None:
        return []
    if found.failure:
        return [{"model": "last", "label": name, "test_error": None, "standard_error": 0.0, "failure": found.failure}]
    places = (("best", found.best_step, "best step"), ("last", state.descent.steps, "at the end, step"))
    return [
        {"model": key, "label": f"{name}, {words} {step}", "test_error": float(found.test_error[step]),
         "standard_error": float(found.test_spread[step]), "failure": ""}
        for key, step, words in places
    ]  # fmt: skip

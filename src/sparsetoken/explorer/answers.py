"""What the page shows for a state: its figure, the table "At these settings", and Python that makes the numbers.

Figures are computed twice: quick, about 1 % off; then exact, with as many points as a smooth line needs.
"""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable
from typing import Any

from ..plotting.style import label
from .curves import HEADS, alignment_view, curves_view, heads_models, heads_view
from .drawing import describe, differences, finite, value_of
from .fields import MODELS, State, descent_fields
from .forecasts import REFUSALS, REPLICATES, Point, Superseded, bags_for, point, still_wanted, wanted_while, words_of
from .maps import axis_values, bag_view, phase_view
from .strength_and_length import capacity_view, lengths_view, methods_of, needed_view, target_of
from .training import STAGED, training_rows, training_view

_VIEWS = {
    "curves": curves_view,
    "needed": needed_view,
    "alignment": alignment_view,
    "capacity": capacity_view,
    "phase": phase_view,
    "bag": bag_view,
    "training": training_view,
    "lengths": lengths_view,
    "heads": heads_view,
}
# Answers computed at a time, whatever the number of pages: the memory of each is bounded by its parameters' limits.
AT_WORK = 4
_places = threading.BoundedSemaphore(AT_WORK)


def answer(state: State, other: State | None, quick: bool, check_page: Callable[[], None]) -> dict[str, Any] | None:
    """The answer, or why there is none; None where `check_page` raises `Superseded`, because the page has moved on."""
    try:
        with wanted_while(check_page), _places:
            still_wanted()
            return answer_for(state, other, quick)
    except Superseded:
        return None
    except Exception as error:
        if isinstance(error, ZeroDivisionError) or not isinstance(error, REFUSALS):
            traceback.print_exception(error)  # a bug here: the terminal shows where
        return {"stage": "failed", "message": f"There is no answer to these settings: {words_of(error)}"}


def answer_for(state: State, other: State | None, quick: bool) -> dict[str, Any]:
    """What the page shows for a state, and beside it for the one that it is compared with."""
    answer = {
        "stage": "quick" if quick else "exact",
        "view": state.view,
        **_shown(state, quick),
        "code": code_of(state),
    }
    if other is not None:
        answer["other"] = _shown(other, quick)
        answer["differs"], answer["other"]["differs"] = differences(state, other)
    return answer


def _shown(state: State, quick: bool) -> dict[str, Any]:
    return {**figure_of(state, quick), "setting": describe(state), "rows": numbers(state, quick)}


def figure_of(state: State, quick: bool) -> dict[str, Any]:
    """The figure of the state's view."""
    return _VIEWS[state.view](state, quick)


def numbers(state: State, quick: bool) -> list[dict[str, Any]]:
    """The forecasts at the state itself, a row per model."""
    training = state.view == "training"
    rows = {} if quick or not training else training_rows(state)
    models: tuple[str, ...] = MODELS if state.view not in ("heads", "training") else ("attention",)
    if not quick:
        models += (*(heads_models(state) if state.view == "heads" else ()), "bayes")
    for model in models:
        forecast = point(state.task, state.training, model, quick)
        # Staged attention is what step-by-step training is compared with.
        rows[model] = (STAGED if training and model == "attention" else HEADS.get(model) or label(model), forecast)
        if forecast.hard and state.view in ("curves", "heads"):  # where its line is drawn
            rows["reachable"] = (label("reachable"), Point(forecast.reachable, forecast.reachable_error))
    return [
        {"model": model, "label": text, "test_error": finite(forecast.test_error), "standard_error": forecast.standard_error,
         "failure": forecast.failure}
        for model, (text, forecast) in rows.items()
    ]  # fmt: skip


def code_of(state: State) -> str:
    """Python that makes the numbers of the page."""
    t, tr = state.task, state.training
    fields = ("loss", "alpha0", "alpha1", "eta_w", "eta_b", "eta_q", "beta", "ridge")
    training = ", ".join(f"{name}={getattr(tr, name)!r}" for name in fields)
    training += ", equal_samples=True" * state.training.equal_samples
    lines = [
        "from sparsetoken import Deployment, Task, Training, forecast, forecast_grid, theory",
        "",
        f"task = {t!r}",
        f"training = Training({training})",
    ]
    if state.view == "phase":
        grid = {a: axis_values(a, float(value_of(state, a)), 9) for a in (state.x, state.y)}
        lines += [
            f"grid = {grid!r}",
            "rows = forecast_grid(task, training, ['attention', 'pooled'], over=grid, accuracy=1e-3,",
            "                     with_capacity=False)",
        ]
    elif state.view == "needed":
        goal = "cosine=0.5" if target_of(state) is None else f"test_error={target_of(state):g}"
        lines += [
            f"found = theory.ladder(task, {state.samples:g}, {list(methods_of(state, quick=False))!r},",
            f"                      over={{'length': (10, 100, 1000)}}, {goal}, training=training)",
            "print(found.frame())",
        ]
    elif state.view == "training":
        lines[0] = "from sparsetoken import Stage, Task, Training, forecast, get_bag_model, theory"
        lines += _code_of_training(state)
    elif state.view == "lengths":
        lines += [
            f"for length in ({t.longest}, {10 * t.longest}, {100 * t.longest}):",
            "    there = Deployment(task={'length': length})",
            "    found = forecast(task, training, 'attention', deployment=there, accuracy=5e-3)",
            "    print(length, found.test_error, found.auc, found.sensitivity)",
        ]
    elif state.view == "alignment":
        lines += ["print(theory.alignment(task, training))"]
    else:
        if state.view == "heads":
            models, accuracy, more = ("attention", *HEADS), "5e-3", ""
        else:
            models, accuracy, more = MODELS, "2e-4", ", found.capacity"
        lines += [
            f"for model in {(*models, 'bayes')!r}:",
            f"    found = forecast(task, training, model, accuracy={accuracy})",
            f"    print(model, found.test_error, found.standard_error{more})",
        ]
    return "\n".join(lines) + "\n"


def _code_of_training(state: State) -> list[str]:
    descent, bags = state.descent, bags_for(state.task, state.descent)
    stage = descent.stage(state.samples)
    model = f"get_bag_model({descent.model!r})"
    if "sharpness" in descent_fields(descent.model):
        model += f".with_sharpness({descent.sharpness!r})"
    return [
        f"model = {model}",
        f"stage = Stage({stage.steps}, alpha={stage.alpha!r}, rates={dict(stage.rates)!r}, decay={dict(stage.decay)!r})",
        f"found = theory.trajectory(task, model, stage, {state.training.loss!r}, start={descent.start_norms!r},",
        f"                          accuracy=1.0, sampling=theory.Sampling({bags or None}, {REPLICATES}))",
        "print(found)",
        "for model in ('attention', 'bayes'):  # staged, and the limit",
        "    print(forecast(task, training, model, accuracy=2e-4))",
    ]

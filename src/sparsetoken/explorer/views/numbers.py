"""What stands beside a figure: the table "At these settings", and Python that makes the numbers."""

from __future__ import annotations

from typing import Any

from ...plotting.style import label
from ...trajectories import Trajectory
from ..points import REPLICATES, Point, bags_for, descent_curve, point
from ..state import BAG_MODELS, State, descent_fields
from .curves import HEADS, MODELS, all_samples, heads_models
from .drawing import finite, value_of
from .maps import axis_values
from .needed import methods_of, target_of

STAGED = "attention, staged"


def curve_of(state: State) -> Trajectory | str:
    """Training step by step at the state, or why there is none."""
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
    named = {"model": model, "label": HEADS.get(model) or label(model)}
    return {
        **named,
        "test_error": finite(found.test_error),
        "standard_error": found.standard_error,
        "failure": found.failure,
    }


def _rows_of_training(state: State) -> list[dict[str, Any]]:
    """The test error of step-by-step training at its best step and at the end."""
    curve, name = curve_of(state), BAG_MODELS[state.descent.model]
    if isinstance(curve, str):
        return [{"model": "last", "label": name, "test_error": None, "standard_error": 0.0, "failure": curve}]
    places = (("best", curve.best_step, "best step"), ("last", state.descent.steps, "at the end, step"))
    return [
        {"model": key, "label": f"{name}, {words} {step}", "test_error": float(curve.test_error[step]),
         "standard_error": float(curve.standard_error[step]), "failure": ""}
        for key, step, words in places
    ]  # fmt: skip


def code_of(state: State) -> str:
    """Python that makes the numbers of the page."""
    t, tr = state.task, state.training
    task = ", ".join(f"{name}={getattr(t, name)!r}" for name in ("length", "sparsity", "strength", "prevalence"))
    fields = ("loss", "alpha0", "alpha1", "eta_w", "eta_b", "eta_q", "beta", "ridge")
    training = ", ".join(f"{name}={getattr(tr, name)!r}" for name in fields)
    training += ", equal_samples=True" * state.training.equal_samples
    lines = [
        "from sparsetoken import Deployment, Task, Training, forecast, forecast_grid, theory",
        "",
        f"task = Task({task})",
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
            f"found = theory.ladder(task, {all_samples(state):g}, {list(methods_of(state, quick=False))!r},",
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
    elif state.view == "heads":
        lines += [
            "for model in ('attention', 'heads:2', 'heads:4', 'bayes'):",
            "    found = forecast(task, training, model, accuracy=5e-3)",
            "    print(model, found.test_error, found.standard_error)",
        ]
    elif state.view == "alignment":
        lines += ["print(theory.alignment(task, training))"]
    else:
        lines += [
            "for model in ('attention', 'pooled', 'vectorized', 'bayes'):",
            "    found = forecast(task, training, model, accuracy=2e-4)",
            "    print(model, found.test_error, found.standard_error, found.capacity)",
        ]
    return "\n".join(lines) + "\n"


def _code_of_training(state: State) -> list[str]:
    descent, bags = state.descent, bags_for(state.task, state.descent)
    stage = descent.stage(all_samples(state))
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

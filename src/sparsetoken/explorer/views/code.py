"""Python that makes the numbers of the page."""

from __future__ import annotations

from ..points import REPLICATES, bags_for
from ..state import State, descent_fields
from .curves import all_samples
from .drawing import value_of
from .phase import axis_values


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
            "    found = forecast(task, training, model, accuracy=1e-3)",
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
        f"                          accuracy=1.0, bags={bags or None}, replicates={REPLICATES})",
        "print(found)",
        "for model in ('attention', 'bayes'):  # staged, and the limit",
        "    print(forecast(task, training, model, accuracy=1e-3))",
    ]

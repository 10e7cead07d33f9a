"""Predicted learning curves, the user's n marked."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..plotting.style import colour
from .advice import Plan
from .learners import LEARNERS, NAMES

_MARKERS = {"attention": "o", "pooled": "s", "vectorized": "^", "message_passing": "D"}


def _style(learner: str) -> dict[str, Any]:
    return {"color": colour(learner), "marker": _MARKERS.get(learner, "")}


def learning_curves(plan: Plan, checks: Iterable[Any] = ()) -> Any:
    """A matplotlib figure of `plan.curve`, with measured points (`Check`) on it."""
    from matplotlib.figure import Figure

    if not plan.curve:
        raise ValueError("this plan has no learning curves: make it with curve=True")
    checks = list(checks)
    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.add_subplot()
    for learner in LEARNERS:
        rows = [row for row in plan.curve if row["learner"] == learner]
        x, y = [row["n"] for row in rows], [row["value"] for row in rows]
        axes.plot(
            x, y, label=NAMES[learner], markersize=4, linestyle="--" if learner == "optimal" else "-", **_style(learner)
        )
    for learner in LEARNERS:
        points = [check for check in checks if check.learner == learner]
        if points:
            x, y, error = [c.n for c in points], [c.measured for c in points], [c.standard_error for c in points]
            axes.errorbar(
                x, y, error, linestyle="none", capsize=3, fillstyle="none", markersize=9,
                label=f"{NAMES[learner]}, measured", **_style(learner),
            )  # fmt: skip
    axes.axvline(plan.n, color="grey", linestyle=":", label=f"n = {plan.n:,}")
    axes.set_xscale("log", base=2)
    ticks = sorted({row["n"] for row in plan.curve})
    axes.set_xticks(ticks, [f"{n:,}" for n in ticks], rotation=30, fontsize=8)
    axes.set_xlabel(f"samples n (dimension d = {plan.d:,})")
    axes.set_ylabel(plan.criterion.label)
    if not plan.criterion.larger_is_better:
        axes.set_ylim(bottom=0)
    t = plan.task
    axes.set_title(
        f"L = {t.length}, R = {t.sparsity}, θ = {t.strength:g}, π = {t.prevalence:g}; each at its best settings"
    )
    axes.legend(fontsize=9)
    axes.grid(alpha=0.3)
    return figure

"""Predicted learning curves, the user's n marked."""

from __future__ import annotations

from typing import Any

from .advice import Plan
from .learners import LEARNERS, NAMES

_STYLES: dict[str, dict[str, Any]] = {
    "attention": {"color": "C0", "marker": "o"},
    "pooled": {"color": "C1", "marker": "s"},
    "vectorized": {"color": "C2", "marker": "^"},
    "message_passing": {"color": "C3", "marker": "D"},
    "optimal": {"color": "black", "linestyle": "--"},
}


def learning_curves(plan: Plan) -> Any:
    """A matplotlib figure of `plan.curve`."""
    from matplotlib.figure import Figure

    if not plan.curve:
        raise ValueError("this plan has no learning curves: make it with curve=True")
    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.add_subplot()
    for learner in LEARNERS:
        rows = [row for row in plan.curve if row["learner"] == learner]
        x, y = [row["n"] for row in rows], [row["value"] for row in rows]
        axes.plot(x, y, label=NAMES[learner], markersize=4, **_STYLES[learner])
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

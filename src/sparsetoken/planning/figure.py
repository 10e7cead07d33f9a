"""Predicted learning curves, the user's n marked."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..plotting.style import colour
from .advice import Plan
from .learners import LEARNERS, NAMES

_MARKERS = {"attention": "o", "pooled": "s", "vectorized": "^", "message_passing": "D"}
_STYLES: dict[str, dict[str, Any]] = {
    learner: {
        "color": colour(learner),
        **({"marker": _MARKERS[learner]} if learner in _MARKERS else {"linestyle": "--"}),
    }
    for learner in LEARNERS
}


def learning_curves(plan: Plan, checks: Iterable[Any] = ()) -> Any:
    """The predicted learning curves as a matplotlib figure, with the simulations at n on it.

    Parameters
    ----------
    plan : Plan
        Made with `curve=True`.
    checks : iterable of Check
        Measured points to be drawn as well.

    Returns
    -------
    matplotlib.figure.Figure
        The figure.
    """
    from matplotlib.figure import Figure

    if not plan.curve:
        raise ValueError("this plan has no learning curves: make it with curve=True")
    checks = list(checks)
    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.add_subplot()
    for learner in LEARNERS:
        rows = [row for row in plan.curve if row["learner"] == learner]
        x, y = [row["n"] for row in rows], [row["value"] for row in rows]
        axes.plot(x, y, label=NAMES[learner], markersize=4, **_STYLES[learner])
    for found in plan.confirmations:
        if found.d == plan.d:
            style = {"color": _STYLES[found.learner]["color"], "marker": "x", "linestyle": "none", "capsize": 3}
            label = f"{NAMES[found.learner]}, simulated"
            axes.errorbar([found.n], [found.value], [found.standard_error], label=label, **style)
    for learner in LEARNERS:
        points = [check for check in checks if check.learner == learner]
        if points:
            x, y, error = [c.n for c in points], [c.measured for c in points], [c.standard_error for c in points]
            style = {"color": _STYLES[learner]["color"], "marker": _STYLES[learner]["marker"]}
            axes.errorbar(
                x, y, error, linestyle="none", capsize=3, fillstyle="none", markersize=9,
                label=f"{NAMES[learner]}, measured", **style,
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

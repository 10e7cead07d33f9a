"""Predicted learning curves, the user's n marked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ..plotting.show import legend_above
from ..plotting.style import MEASURED, REFERENCE, colour, label
from .advice import Plan
from .extrapolation import Extrapolation
from .learners import LEARNERS, NAMES

Forecasts = Plan | Mapping[str, tuple[Any, Any]]
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
    axes.axvline(plan.n, color=REFERENCE, linestyle=":", label=f"n = {plan.n:,}")
    axes.set_xscale("log", base=2)
    ticks = sorted({row["n"] for row in plan.curve})
    axes.set_xticks(ticks, [f"{n:,}" for n in ticks], rotation=30, fontsize=8)
    axes.set_xlabel(f"samples n (dimension d = {plan.d:,})")
    axes.set_ylabel(plan.criterion.label)
    if not plan.criterion.larger_is_better:
        axes.set_ylim(bottom=0)
    t = plan.task
    figure.suptitle(
        f"L = {t.length}, R = {t.sparsity}, θ = {t.strength:g}, π = {t.prevalence:g}; each at its best settings",
        fontsize=11,
    )
    axes.grid(alpha=0.3)
    legend_above(axes)
    return figure


def _lines(theory: Forecasts | None) -> Mapping[str, tuple[Any, Any]]:
    """Name -> (numbers of bags, values) of the theory's curves."""
    if theory is None or isinstance(theory, Mapping):
        return theory or {}
    lines = {}
    for learner in ("attention", "pooled", "optimal"):
        rows = [row for row in theory.curve if row["learner"] == learner]
        if rows:
            lines[learner] = ([row["n"] for row in rows], [row["value"] for row in rows])
    return lines


def draw_measured_curve(
    axes: Any,
    name: str,
    measured: Extrapolation,
    last: float,
    theory: Forecasts | None = None,
    target: float | None = None,
) -> Any:
    """A learner's learning curve as measured, carried on to more bags, and the theory's curves beside it.

    Parameters
    ----------
    axes : matplotlib Axes
        Where to draw.
    name : str
        The learner's, for the legend.
    measured : Extrapolation
        The measured curve and what it allows beyond.
    last : float
        Bags up to which it is carried on.
    theory : Plan or mapping, optional
        A plan with learning curves, or name -> (numbers of bags, values): drawn as dashed lines.
    target : float, optional
        Value of the criterion, drawn as a line across.

    Returns
    -------
    matplotlib Axes
    """
    curve = measured.curve
    for place, (model, (x, y)) in enumerate(_lines(theory).items()):
        points = [(n, value) for n, value in zip(x, y, strict=True) if n <= last]
        style = {"color": colour(model, place), "linestyle": "--", "linewidth": 1}
        if points:
            axes.plot(*zip(*points), label=f"{NAMES.get(model, label(model))}, theory", **style)
    sizes = np.geomspace(curve.sizes[0], last, 60)
    ahead = [measured.at(n) for n in sizes]
    main: dict[str, Any] = {"color": MEASURED}
    axes.fill_between(sizes, [a.low for a in ahead], [a.high for a in ahead], alpha=0.15, linewidth=0, **main)
    level = f"{ahead[0].level:.0%}".replace("%", " %")
    axes.plot(sizes, [a.value for a in ahead], label=f"{name}, forecast and {level} interval", **main)
    shown = [curve.criterion.shown(loss) for loss in curve.losses]
    axes.errorbar(curve.sizes, shown, curve.standard_errors, fmt="o", capsize=3, label=f"{name}, measured", **main)
    if target is not None:
        axes.axhline(target, color=REFERENCE, linewidth=0.8, label=f"target {target:.3g}")
    axes.axvline(curve.n, color=REFERENCE, linestyle=":", label=f"n = {curve.n:,}")
    axes.set_xscale("log", base=2)
    ticks = [curve.sizes[0], *(curve.n * k for k in (0.5, 1, 2, 4, 8) if curve.n * k <= last)]
    axes.set_xticks(ticks, [f"{round(n):,}" for n in ticks], fontsize=8)
    axes.set_xlabel("bags to learn from")
    axes.set_ylabel(curve.criterion.label)
    if not curve.criterion.larger_is_better:
        axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    legend_above(axes)
    return axes

"""The view "Learning curves", and the curves against samples that other views have too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...plotting.style import colour, label, marker
from ...training import Training
from ..points import Alive, BayesLimits, Point, point
from ..state import State
from .drawing import axis, figure, finite, log_axis, upright
from .stages import MODELS

_BAYES_POINTS = 7


def at_total(training: Training, total: float) -> Training:
    """The training with alpha0 + alpha1 = total and the same share of D0."""
    factor = total / (training.alpha0 + training.alpha1)
    return training.but(alpha0=training.alpha0 * factor, alpha1=training.alpha1 * factor)


def all_samples(state: State) -> float:
    """alpha = alpha0 + alpha1."""
    return state.training.alpha0 + state.training.alpha1


def curve_totals(state: State, count: int) -> list[float]:
    """alpha0 + alpha1 along the curves, the state's own value in the middle (exactly)."""
    total = all_samples(state)
    steps = np.linspace(-3.0, 3.0, count)
    return [total if step == 0 else float(f"{total * 2.0**step:.6g}") for step in steps]


def training_at(state: State, total: float) -> Training:
    """The training of a point along the curves; the state's own where it is the middle one."""
    return state.training if total == all_samples(state) else at_total(state.training, total)


def against_samples(state: State, model: str, totals: Sequence[float], quick: bool, alive: Alive) -> list[Point]:
    """A model's points along the totals, each started from the one before."""
    near: Point | None = None
    found = []
    for total in totals:
        alive()
        near = point(
            state.task,
            training_at(state, total),
            model,
            equal_samples=state.equal_samples,
            quick=quick,
            near=near,
        )
        found.append(near)
    return found


def line_of(name: str, meta: str, x: Sequence[float], found: Sequence[Point], ink: str, symbol: str) -> dict[str, Any]:
    """A curve with its standard errors."""
    return {
        "type": "scatter", "mode": "lines+markers", "name": name, "x": list(x),
        "y": [finite(f.test_error) for f in found], "line": {"color": ink},
        "marker": {"color": ink, "symbol": symbol, "size": 5},
        "error_y": {"type": "data", "array": [finite(f.standard_error) for f in found], "width": 0, "thickness": 1},
        "meta": meta,
    }  # fmt: skip


def bayes_lines(state: State, limits: BayesLimits) -> tuple[list[dict[str, Any]], list[str], str]:
    """The Bayes limit along the samples, message passing where it differs; failures, and a remark on what is late."""
    totals = curve_totals(state, _BAYES_POINTS)
    limits.at(state.task, state.training)  # the state's own first, in case time runs out
    found = [limits.at(state.task, training_at(state, total)) for total in totals]
    traces = [line_of(label("bayes"), "bayes", totals, found, colour("bayes"), marker("bayes"))]
    if any(f.hard for f in found):
        traces.append({
            "type": "scatter", "mode": "lines", "name": label("reachable"), "x": totals,
            "y": [finite(f.reachable) for f in found], "line": {"color": colour("reachable"), "dash": "dash"},
            "meta": "reachable",
        })  # fmt: skip
    late = sum(f.late for f in found)
    remark = f"{late} of the Bayes limit's {len(totals)} points are still being computed"
    return traces, [f.failure for f in found if f.failure], remark if late else ""


def curves(state: State, stage: str, alive: Alive, limits: BayesLimits) -> dict[str, Any]:
    """Test error against the total number of samples, the share of D0 kept."""
    quick = stage == "quick"
    totals = curve_totals(state, 5 if quick else 9)
    traces, failures, remark = [], [], ""
    for model in MODELS:
        found = against_samples(state, model, totals, quick, alive)
        failures += [f.failure for f in found if f.failure]
        traces.append(line_of(label(model), model, totals, found, colour(model), marker(model)))
    if stage == "exact":
        lines, failed, remark = bayes_lines(state, limits)
        traces += lines
        failures += failed
    return figure(
        "Test error against samples",
        traces,
        log_axis("samples α₀ + α₁ = n/d", totals),
        axis("test error", rangemode="tozero"),
        failures=failures,
        remark=remark,
        late=bool(remark),
        shapes=[upright(all_samples(state))],
    )

"""The views "Learning curves" and "Heads": test errors against the number of samples."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...plotting.style import OTHER_COLOURS, colour, label, marker
from ...training import Training
from ..points import NO_POINT, Point, point
from ..state import State
from .drawing import axis, figure, finite, log_axis, upright

MODELS = ("attention", "pooled", "vectorized")
HEADS = {2: "two heads", 4: "four heads"}  # one head is plain attention
LONGEST_BAGS = 1000  # of several heads: there a point takes up to 3 seconds, and half a minute at L = 5000 with R = 20
PATIENCE = 20.0  # seconds for the points of one line after the state's own; what is not there then is left out
_BAYES_POINTS, _HEADS_POINTS = 7, 5


def at_total(training: Training, total: float) -> Training:
    """The training with alpha0 + alpha1 = total and the same share of D0."""
    factor = total / (training.alpha0 + training.alpha1)
    return training.but(alpha0=training.alpha0 * factor, alpha1=training.alpha1 * factor)


def all_samples(state: State) -> float:
    """alpha = alpha0 + alpha1."""
    return state.training.alpha0 + state.training.alpha1


def heads_models(state: State) -> tuple[str, ...]:
    """The models of the view "Heads" beyond one head, where the page has time for them."""
    return tuple(f"heads:{n}" for n in HEADS) if state.task.longest <= LONGEST_BAGS else ()


def curve_totals(state: State, count: int) -> list[float]:
    """alpha0 + alpha1 along the curves, the state's own value in the middle (exactly)."""
    total = all_samples(state)
    steps = np.linspace(-3.0, 3.0, count)
    return [total if step == 0 else float(f"{total * 2.0**step:.6g}") for step in steps]


class _Lines:
    """Lines of models against samples, with what went wrong on the way."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.traces: list[dict[str, Any]] = []
        self.failures: list[str] = []
        self.left_out = 0

    def add(self, model: str, name: str, ink: str, symbol: str, count: int, quick: bool) -> list[Point]:
        """A model's line of so many points with their standard errors."""
        totals = curve_totals(self.state, count)
        points = self._points(model, totals, quick)
        self.failures += [p.failure for p in points if p.failure]
        self.left_out += sum(p is NO_POINT for p in points)
        self.traces.append({
            "type": "scatter", "mode": "lines+markers", "name": name, "x": totals,
            "y": [finite(p.test_error) for p in points], "line": {"color": ink},
            "marker": {"color": ink, "symbol": symbol, "size": 5}, "meta": model, "connectgaps": True,
            "error_y": {"type": "data", "array": [finite(p.standard_error) for p in points], "width": 0, "thickness": 1},
        })  # fmt: skip
        return points

    def _points(self, model: str, totals: Sequence[float], quick: bool) -> list[Point]:
        """The state's own point, then those with more samples and with fewer, while the page has patience."""
        state, middle = self.state, len(totals) // 2

        def at(training: Training) -> Point:
            return point(state.task, training, model, quick)

        points = [NO_POINT] * len(totals)
        points[middle] = at(state.training)
        ends = time.monotonic() + PATIENCE  # what is compiled for the first point does not count
        for i in (*range(middle + 1, len(totals)), *reversed(range(middle))):
            if time.monotonic() < ends:
                points[i] = at(at_total(state.training, totals[i]))
        return points

    def add_bayes(self) -> None:
        """The Bayes limit, and message passing where it differs."""
        points = self.add("bayes", label("bayes"), colour("bayes"), marker("bayes"), _BAYES_POINTS, quick=False)
        if any(p.hard for p in points):
            self.traces.append({
                "type": "scatter", "mode": "lines", "name": label("reachable"), "x": self.traces[-1]["x"],
                "y": [finite(p.reachable) for p in points], "line": {"color": colour("reachable"), "dash": "dash"},
                "meta": "reachable",
            })  # fmt: skip

    def figure(self, title: str, remark: str = "") -> dict[str, Any]:
        """The lines over one axis of samples."""
        remarks = [remark] if remark else []
        if self.left_out:
            remarks.append(f"{self.left_out} points are left out, which take longer than this page waits")
        drawn = figure(
            title,
            self.traces,
            log_axis("samples α₀ + α₁ = n/d", self.traces[0]["x"]),
            axis("test error", rangemode="tozero"),
            failures=self.failures,
            remark="; ".join(remarks),
            shapes=[upright(all_samples(self.state))],
        )
        return {**drawn, "left_out": self.left_out}


def curves_view(state: State, quick: bool) -> dict[str, Any]:
    """Test error against the total number of samples, the share of D0 kept."""
    lines = _Lines(state)
    for model in MODELS:
        lines.add(model, label(model), colour(model), marker(model), 5 if quick else 9, quick)
    if not quick:
        lines.add_bayes()
    return lines.figure("Test error against samples")


def heads_view(state: State, quick: bool) -> dict[str, Any]:
    """Test error against samples for one, two and four heads, each with a query from its own share of D0."""
    lines = _Lines(state)
    lines.add("attention", "one head", colour("attention"), marker("attention"), _HEADS_POINTS, quick)
    if not quick:
        for model, name, ink in zip(heads_models(state), HEADS.values(), OTHER_COLOURS):
            lines.add(model, name, ink, "diamond", _HEADS_POINTS, quick)
        lines.add_bayes()
    too_long = f"several heads on bags of more than {LONGEST_BAGS:,} tokens take too long for this page"
    remark = too_long if state.task.longest > LONGEST_BAGS else ""
    return lines.figure("Test error of one and several attention heads", remark)

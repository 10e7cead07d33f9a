"""The views "Learning curves" and "Heads": test errors against the number of samples."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from ...plotting.style import OTHER_COLOURS, colour, label
from ...training import Training
from ..points import Point, point
from ..state import State
from .drawing import MOST_POINTS, error_axis, figure, line, log_axis, refined, upright

MODELS = ("attention", "pooled", "vectorized")
HEADS = {"heads:2": "two heads", "heads:4": "four heads"}  # one head is plain attention
LONGEST_BAGS = 1000  # of several heads: there a point takes up to 3 seconds, and half a minute at L = 5000 with R = 20
PATIENCE = 20.0  # seconds for the points of one line after the state's own; what is not there then is left out


def at_total(training: Training, total: float) -> Training:
    """The training with alpha0 + alpha1 = total and the same share of D0."""
    factor = total / (training.alpha0 + training.alpha1)
    return training.but(alpha0=training.alpha0 * factor, alpha1=training.alpha1 * factor)


def all_samples(state: State) -> float:
    """alpha = alpha0 + alpha1."""
    return state.training.alpha0 + state.training.alpha1


def heads_models(state: State) -> tuple[str, ...]:
    """The models of the view "Heads" beyond one head, where the page has time for them."""
    return tuple(HEADS) if state.task.longest <= LONGEST_BAGS else ()


def curve_totals(state: State) -> list[float]:
    """alpha0 + alpha1 where the curves begin to be drawn: the state's own, then more samples, then fewer."""
    total = all_samples(state)
    return [total, *(float(f"{total * 2.0**step:.6g}") for step in (1, 2, 3, -1, -2, -3))]


class _Lines:
    """Lines of models against samples, with what went wrong on the way."""

    def __init__(self, state: State, quick: bool) -> None:
        self.state, self.quick = state, quick
        self.traces: list[dict[str, Any]] = []
        self.failures: list[str] = []
        self.left_out = 0
        self.here: dict[str, Point] = {}

    def add(self, model: str, name: str, ink: str, most: int = MOST_POINTS) -> None:
        """A model's line; for the Bayes limit, that of message passing too where it differs."""
        state, ends = self.state, time.monotonic() + PATIENCE

        def at(total: float) -> Point | None:
            nonlocal ends
            if total == all_samples(state):
                own = point(state.task, state.training, model, self.quick)
                ends = time.monotonic() + PATIENCE  # what is compiled for the first point does not count
                return own
            late = time.monotonic() > ends
            return None if late else point(state.task, at_total(state.training, total), model, self.quick)

        def height(p: Point) -> float:
            return float(np.log10(p.test_error)) if p.test_error > 1e-6 else np.nan

        totals = curve_totals(state)
        points = refined(at, totals, height, most=len(totals) if self.quick else most)
        self.left_out += sum(total not in points for total in totals)
        self.failures += [p.failure for p in points.values() if p.failure]
        self.here[model] = points[totals[0]]
        errors = [p.standard_error for p in points.values()]
        self.traces.append(line(name, [*points], [p.test_error for p in points.values()], ink, model, errors=errors))
        if any(p.hard for p in points.values()):
            reachable = [p.reachable for p in points.values()]
            self.traces.append(
                line(label("reachable"), [*points], reachable, colour("reachable"), "reachable", dash="dash")
            )

    def figure(self, title: str, finding: str, remark: str = "") -> dict[str, Any]:
        """The lines over one axis of samples."""
        remarks = [remark] if remark else []
        if self.left_out:
            remarks.append(f"{self.left_out} points are left out, which take longer than this page waits")
        drawn = figure(
            title,
            self.traces,
            log_axis("samples α₀ + α₁ = n/d", self.traces[0]["x"]),
            error_axis("test error", [y for trace in self.traces for y in trace["y"]]),
            failures=self.failures,
            remark="; ".join(remarks),
            finding="" if any(p.failure for p in self.here.values()) else finding,
            shapes=[upright(all_samples(self.state))],
        )
        return {**drawn, "left_out": self.left_out}


def curves_view(state: State, quick: bool) -> dict[str, Any]:
    """Test error against the total number of samples, the share of D0 kept."""
    lines = _Lines(state, quick)
    for model in MODELS:
        lines.add(model, label(model), colour(model))
    if not quick:
        lines.add("bayes", label("bayes"), colour("bayes"))
    attention, pooled = (lines.here[model].test_error for model in ("attention", "pooled"))
    verdict = "attention has less error than pooling" if attention < pooled else "attention does not beat pooling"
    limit = "" if quick else f"; the Bayes limit is {lines.here['bayes'].test_error:.3g}"
    return lines.figure("Test error against samples", f"Here {verdict} ({attention:.3g} and {pooled:.3g}{limit}).")


def heads_view(state: State, quick: bool) -> dict[str, Any]:
    """Test error against samples for one, two and four heads, each with a query from its own share of D0."""
    lines = _Lines(state, quick)
    lines.add("attention", "one head", colour("attention"))
    if not quick:
        for model, ink in zip(heads_models(state), OTHER_COLOURS):
            lines.add(model, HEADS[model], ink, most=9)
        lines.add("bayes", label("bayes"), colour("bayes"))
    too_long = f"several heads on bags of more than {LONGEST_BAGS:,} tokens take too long for this page"
    remark = too_long if state.task.longest > LONGEST_BAGS else ""
    finding = "" if quick or remark else _best_heads(lines.here)
    return lines.figure("Test error of one and several attention heads", finding, remark)


def _best_heads(here: dict[str, Point]) -> str:
    """Which number of heads has the least error, if any is clearly better than one."""
    one, (name, best) = here["attention"], min(((n, here[n]) for n in HEADS), key=lambda item: item[1].test_error)
    gain = (one.test_error - best.test_error) / max(np.hypot(one.standard_error, best.standard_error), 1e-12)
    if abs(gain) < 2:
        return "Here their number makes no difference beyond two standard errors."
    return f"Here {HEADS[name] + ' are' if gain > 0 else 'one head is'} better than {'one head' if gain > 0 else 'several'}."

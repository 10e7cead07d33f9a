"""The views against samples: "Learning curves", "Heads" and "Alignment"."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..plotting.style import OTHER_COLOURS, REFERENCE, colour, label
from ..theory import alignment
from ..training import Training
from .drawing import MOST_POINTS, axis, error_axis, figure, line, log_axis, refined, upright
from .fields import MODELS, State
from .forecasts import Point, point

HEADS = {"heads:2": "two heads", "heads:4": "four heads"}  # one head is plain attention
LONGEST_BAGS = 1000  # of several heads: there a point takes up to 3 seconds, and half a minute at L = 5000 with R = 20


def at_total(training: Training, total: float) -> Training:
    """The training with alpha0 + alpha1 = total and the same share of D0."""
    factor = total / (training.alpha0 + training.alpha1)
    return training.but(alpha0=training.alpha0 * factor, alpha1=training.alpha1 * factor)


def heads_models(state: State) -> tuple[str, ...]:
    """The models of the view "Heads" beyond one head, where they are quick enough for the page."""
    return tuple(HEADS) if state.task.longest <= LONGEST_BAGS else ()


class _Lines:
    """Lines of models against samples, with the failures."""

    def __init__(self, state: State, quick: bool) -> None:
        self.state, self.quick = state, quick
        self.traces: list[dict[str, Any]] = []
        self.failures: list[str] = []
        self.left_out = 0
        self.here: dict[str, Point] = {}

    def add(self, model: str, name: str = "", ink: str = "", most: int = MOST_POINTS) -> None:
        """A model's line; for the Bayes limit, that of message passing too where it differs."""
        name, ink = name or label(model), ink or colour(model)

        def at(total: float) -> Point:
            return point(self.state.task, at_total(self.state.training, total), model, self.quick)

        def height(p: Point) -> tuple[float, ...]:
            return tuple(np.log10(e) if e > 1e-6 else np.nan for e in (p.test_error, p.reachable))

        total = self.state.samples
        # The state's own point first, then more samples, then fewer.
        totals = [total, *(float(f"{total * 2.0**step:.6g}") for step in (1, 2, 3, -1, -2, -3))]
        points = refined(at, totals, height, most=0 if self.quick else most)
        self.left_out += sum(total not in points for total in totals)
        self.failures += [p.failure for p in points.values() if p.failure]
        self.here[model] = points[totals[0]]
        errors = [p.standard_error for p in points.values()]
        hard = any(p.hard for p in points.values())
        shape = "linear" if hard else "spline"  # a spline would overshoot where these jump
        values = [p.test_error for p in points.values()]
        self.traces.append(line(name, [*points], values, ink, model, errors=errors, shape=shape))
        if hard:
            text, ink, reachable = label("reachable"), colour("reachable"), [p.reachable for p in points.values()]
            self.traces.append(line(text, [*points], reachable, ink, "reachable", dash="dash", shape=shape))

    def figure(self, title: str, finding: str, remark: str = "") -> dict[str, Any]:
        """The lines over one axis of samples."""
        remarks = [remark] if remark else []
        if self.left_out:
            remarks.append(f"{self.left_out} points are left out because they take too long for this page")
        return figure(
            title,
            self.traces,
            log_axis("samples α₀ + α₁ = n/d", self.traces[0]["x"]),
            error_axis("test error", [y for trace in self.traces for y in trace["y"]]),
            failures=self.failures,
            remark="; ".join(remarks),
            finding="" if any(p.failure for p in self.here.values()) else finding,
            shapes=[upright(self.state.samples)],
        )


def curves_view(state: State, quick: bool) -> dict[str, Any]:
    """Test error against the total number of samples, the share of D0 kept."""
    lines = _Lines(state, quick)
    for model in MODELS:
        lines.add(model)
    if not quick:
        lines.add("bayes")
    attention, pooled = (lines.here[model].test_error for model in ("attention", "pooled"))
    verdict = "attention has less error than pooling" if attention < pooled else "attention does not beat pooling"
    limit = "" if quick else f"; the Bayes limit is {lines.here['bayes'].test_error:.3g}"
    return lines.figure("Test error against samples", f"Here {verdict} ({attention:.3g} and {pooled:.3g}{limit}).")


def heads_view(state: State, quick: bool) -> dict[str, Any]:
    """Test error against samples for one, two and four heads, each with a query from a separate share of D0."""
    lines = _Lines(state, quick)
    lines.add("attention", "one head")
    if not quick:
        for model, ink in zip(heads_models(state), OTHER_COLOURS):
            lines.add(model, HEADS[model], ink, most=9)
        lines.add("bayes")
    too_long = f"several heads on bags of more than {LONGEST_BAGS:,} tokens take too long for this page"
    remark = "" if heads_models(state) else too_long
    finding = "" if quick or remark else _best_heads(lines.here)
    return lines.figure("Test error of one and several attention heads", finding, remark)


def _best_heads(here: dict[str, Point]) -> str:
    single, (name, best) = here["attention"], min(((n, here[n]) for n in HEADS), key=lambda item: item[1].test_error)
    gain = (single.test_error - best.test_error) / max(np.hypot(single.standard_error, best.standard_error), 1e-12)
    if abs(gain) < 2:
        return "Here their number makes no difference beyond two standard errors."
    return f"Here {HEADS[name] + ' are' if gain > 0 else 'one head is'} better than {'one head' if gain > 0 else 'several'}."


def alignment_view(state: State, quick: bool) -> dict[str, Any]:
    """The query's cosine with the signal against alpha0 and its first-order approach to one; below, the sharpness."""
    here = state.training.alpha0
    alphas = sorted({*np.geomspace(here / 30, here * 30, 61).tolist(), here})
    alignments = [alignment(state.task, state.training.but(alpha0=a)) for a in alphas]
    at_state, rate = alignments[alphas.index(here)], alignments[0].rate
    cosine = {name: [f.cosine[name] for f in alignments] for name in ("q", "w")}
    traces = [
        line("query: cos(q₂, ξ)", alphas, cosine["q"], colour("attention"), "cosine_q"),
        line("readout: cos(w₁, ξ)", alphas, cosine["w"], OTHER_COLOURS[0], "cosine_w"),
    ]
    if np.isfinite(rate):
        sign = -1.0 if cosine["q"][-1] < 0 else 1.0
        first = [sign * (1 - rate / a) if rate / a < 1 else np.nan for a in alphas]
        traces.append(line("±(1 − K/α₀)", alphas, first, REFERENCE, "rate", dash="dash"))
    sharpness = [f.sharpness for f in alignments]
    traces.append(line("sharpness k = β‖q₂‖", alphas, sharpness, OTHER_COLOURS[2], "k", yaxis="y2"))
    still, anti = at_state.norm["q"] == 0, at_state.cosine["q"] < 0
    lowest = min(-0.05, min(cosine["q"]) * 1.05)
    return figure(
        f"Alignment after the two steps{': anti-aligned here' if anti else ''}",
        traces,
        log_axis("samples of the steps α₀ = n₀/d", alphas, anchor="y2"),
        axis("cosine with the signal", range=[lowest, 1.05], domain=[0.42, 1.0]),
        yaxis2=axis("sharpness k", rangemode="tozero", domain=[0.0, 0.34]),
        remark="the query stays at zero here, which has no direction" if still else "",
        finding="" if still else f"Here the query's cosine is {at_state.cosine['q']:.2f}.",
        shapes=[upright(here)],
    )

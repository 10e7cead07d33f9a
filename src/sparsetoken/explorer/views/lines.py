"""The views "Alignment", "Capacity" and "Longer bags"."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...plotting.style import OTHER_COLOURS, REFERENCE, colour, label
from ...theory import Capacity, alignment
from ..points import attempt, tested_at, threshold
from ..state import LONGEST, State
from .curves import MODELS
from .drawing import axis, figure, line, log_axis, refined, upright


def alignment_view(state: State, quick: bool) -> dict[str, Any]:
    """The query's cosine with the signal against alpha0 and its first-order approach to one; below, the sharpness."""
    here = state.training.alpha0
    alphas = sorted({*np.geomspace(here / 30, here * 30, 61).tolist(), here})
    found = [alignment(state.task, state.training.but(alpha0=a)) for a in alphas]
    own, rate = found[alphas.index(here)], found[0].rate
    cosine = {name: [f.cosine[name] for f in found] for name in ("q", "w")}
    traces = [
        line("query: cos(q₂, ξ)", alphas, cosine["q"], colour("attention"), "cosine_q"),
        line("readout: cos(w₁, ξ)", alphas, cosine["w"], OTHER_COLOURS[0], "cosine_w"),
    ]
    if np.isfinite(rate):
        sign = -1.0 if cosine["q"][-1] < 0 else 1.0
        first = [sign * (1 - rate / a) if rate / a < 1 else np.nan for a in alphas]
        traces.append(line("±(1 − K/α₀)", alphas, first, REFERENCE, "rate", dash="dash"))
    sharpness = [f.sharpness for f in found]
    traces.append(line("sharpness k = β‖q₂‖", alphas, sharpness, OTHER_COLOURS[2], "k", yaxis="y2"))
    still, anti = own.norm["q"] == 0, own.cosine["q"] < 0
    lowest = min(-0.05, min(cosine["q"]) * 1.05)
    return figure(
        f"Alignment after the two steps{': anti-aligned here' if anti else ''}",
        traces,
        log_axis("samples of the steps α₀ = n₀/d", alphas, anchor="y2"),
        axis("cosine with the signal", range=[lowest, 1.05], domain=[0.42, 1.0]),
        yaxis2=axis("sharpness k", rangemode="tozero", domain=[0.0, 0.34]),
        remark="the query stays at zero here, which has no direction" if still else "",
        finding="" if still else f"Here the query's cosine is {own.cosine['q']:.2f}.",
        shapes=[upright(here)],
    )


def capacity_view(state: State, quick: bool) -> dict[str, Any]:
    """The separability threshold alpha* against the strength, and the readout's alpha1."""
    here, alpha1 = state.task.mean_strength, state.training.alpha1
    strengths = sorted({*np.linspace(0.0, max(2 * here, 4.0), 5 if quick else 9).tolist(), here})
    traces, never, separable = [], 0, []
    failures: list[str] = []
    for model in MODELS:

        def at(strength: float, model: str = model) -> Capacity | None:
            task = state.task.but(strength=strength)
            return attempt(lambda: threshold(task, state.training, model, quick), failures)

        def height(found: Capacity) -> float:
            return float(np.log10(found.alpha)) / 2 if np.isfinite(found.alpha) else np.nan

        found = refined(at, strengths, height, most=len(strengths) if quick else 21, logarithmic=False)
        errors = [c.standard_error for c in found.values()]
        traces.append(
            line(label(model), [*found], [c.alpha for c in found.values()], colour(model), model, errors=errors)
        )
        never += any(c.alpha == float("inf") for c in found.values())
        separable += [label(model)] * (here in found and found[here].alpha > alpha1)
    ends = [strengths[0], strengths[-1]]
    traces.append(line("readout's samples α₁", ends, [alpha1] * 2, REFERENCE, "alpha1", dash="dash"))
    return figure(
        "Capacity: the readout's data are separable below the line, not above",
        traces,
        axis("strength θ"),
        log_axis("capacity α* = n₁/d", [alpha1, *(v for trace in traces for v in trace["y"])]),
        failures=failures,
        remark="where a line ends, no bag drawn lies on the wrong side" if never else "",
        finding=f"Here your α₁ = {alpha1:g} can be fitted without error by {', '.join(separable) or 'no model'}.",
        shapes=[upright(here)],
    )


def lengths_view(state: State, quick: bool) -> dict[str, Any]:
    """Attention trained at this length and tested on longer bags: error, AUC and sensitivity against their length."""
    here = state.task.longest
    furthest = min(100 * here, LONGEST)
    spaced = np.geomspace(here, furthest, 5 if quick else 9) if furthest > here else [here]
    lengths = sorted({round(float(length)) for length in spaced})
    failures: list[str] = []

    def at(length: float) -> dict[str, float] | None:
        return attempt(lambda: tested_at(state.task, state.training, int(length), quick), failures)

    most = len(lengths) if quick else 21
    rows = refined(at, lengths, lambda row: row["test_error"] + row["sensitivity"], most=most, whole=True)
    shown = (
        ("test_error", "test error", colour("attention"), "solid"),
        ("threshold_error", "error, threshold fitted", colour("attention"), "dash"),
        ("auc", "AUC", OTHER_COLOURS[0], "solid"),
        ("sensitivity", "sensitivity", OTHER_COLOURS[1], "solid"),
    )
    finding = ""
    if len(rows) > 1:
        first, last = (row["test_error"] for row in (rows[min(rows)], rows[max(rows)]))
        finding = f"Here the error goes from {first:.3g} to {last:.3g}"
        finding += f", to {rows[max(rows)]['threshold_error']:.3g} with the threshold fitted again."
    return figure(
        f"Attention trained at L = {here}, tested on longer bags",
        [
            line(words, [*rows], [row[name] for row in rows.values()], ink, name, dash=dash)
            for name, words, ink, dash in shown
        ],
        log_axis("tokens per bag at test time", lengths),
        axis("share of bags", range=[0.0, 1.02]),
        failures=failures,
        finding=finding,
    )

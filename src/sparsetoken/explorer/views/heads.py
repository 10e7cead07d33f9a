"""The view "Heads"."""

from __future__ import annotations

from typing import Any

from ...plotting.style import OTHER_COLOURS, colour, marker
from ..points import Alive, BayesLimits
from ..state import State
from .curves import against_samples, all_samples, bayes_lines, curve_totals, line_of
from .drawing import axis, figure, log_axis, upright

# How many heads each stage adds. One head is plain attention; a number of heads is compiled when it is first shown, which
# takes some seconds, and a point of several takes some tenths of one.
HEADS_AT = {"quick": (), "models": (2,), "exact": (2, 4)}
_POINTS = 5


def heads_view(state: State, stage: str, alive: Alive, limits: BayesLimits) -> dict[str, Any]:
    """Test error against samples for one, two and four heads, each with a query from its own share of D0."""
    totals = curve_totals(state, _POINTS)
    found = against_samples(state, "attention", totals, stage == "quick", alive)
    traces = [line_of("one head", "attention", totals, found, colour("attention"), marker("attention"))]
    failures, remark = [f.failure for f in found if f.failure], ""
    for place, heads in enumerate(HEADS_AT[stage]):
        found = against_samples(state, f"heads:{heads}", totals, False, alive)
        failures += [f.failure for f in found if f.failure]
        words = {2: "two heads", 4: "four heads"}[heads]
        traces.append(line_of(words, f"heads:{heads}", totals, found, OTHER_COLOURS[place], "diamond"))
    if stage == "exact":
        lines, failed, remark = bayes_lines(state, limits)
        traces += lines
        failures += failed
    return figure(
        "Test error of one and several attention heads",
        traces,
        log_axis("samples α₀ + α₁ = n/d", totals),
        axis("test error", rangemode="tozero"),
        failures=failures,
        remark=remark,
        late=bool(remark),
        shapes=[upright(all_samples(state))],
    )

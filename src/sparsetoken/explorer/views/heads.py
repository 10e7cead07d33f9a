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
_HEADS = {"quick": (), "models": (2,), "exact": (2, 4)}
_POINTS = 5
# Of several heads: there one point takes up to 3 seconds, and half a minute at L = 5000 with R = 20.
LONGEST_BAGS = 1000


def heads_at(state: State, stage: str) -> tuple[int, ...]:
    """The numbers of heads beyond one that a stage shows."""
    return _HEADS[stage] if state.task.longest <= LONGEST_BAGS else ()


def heads_view(state: State, stage: str, alive: Alive, limits: BayesLimits) -> dict[str, Any]:
    """Test error against samples for one, two and four heads, each with a query from its own share of D0."""
    totals = curve_totals(state, _POINTS)
    found = against_samples(state, "attention", totals, stage == "quick", alive)
    traces = [line_of("one head", "attention", totals, found, colour("attention"), marker("attention"))]
    failures, remarks = [f.failure for f in found if f.failure], []
    if state.task.longest > LONGEST_BAGS:
        remarks.append(f"several heads on bags of more than {LONGEST_BAGS:,} tokens take too long for this page")
    for place, heads in enumerate(heads_at(state, stage)):
        found = against_samples(state, f"heads:{heads}", totals, False, alive)
        failures += [f.failure for f in found if f.failure]
        words = {2: "two heads", 4: "four heads"}[heads]
        traces.append(line_of(words, f"heads:{heads}", totals, found, OTHER_COLOURS[place], "diamond"))
    late = ""
    if stage == "exact":
        lines, failed, late = bayes_lines(state, limits)
        traces += lines
        failures += failed
        remarks += [late] if late else []
    return figure(
        "Test error of one and several attention heads",
        traces,
        log_axis("samples α₀ + α₁ = n/d", totals),
        axis("test error", rangemode="tozero"),
        failures=failures,
        remark="; ".join(remarks),
        late=bool(late),
        shapes=[upright(all_samples(state))],
    )

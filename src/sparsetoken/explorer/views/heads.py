"""The view "Heads"."""

from __future__ import annotations

from typing import Any

from ...plotting.style import OTHER_COLOURS, colour, marker
from ..points import Alive, BayesLimits, Point, several_heads
from ..state import State
from .curves import against_samples, all_samples, bayes_lines, curve_totals, line_of, training_at
from .drawing import axis, figure, log_axis, upright

# One head is plain attention, and there at once; the others come as they are computed, the state's own samples first.
_HEADS = {2: "two heads", 4: "four heads"}
_POINTS = 5
# Of several heads: there one point takes up to 3 seconds, and half a minute at L = 5000 with R = 20.
LONGEST_BAGS = 1000


def heads_at(state: State, stage: str) -> tuple[str, ...]:
    """The models beyond one head that a stage shows."""
    return tuple(f"heads:{n}" for n in _HEADS) if stage != "quick" and state.task.longest <= LONGEST_BAGS else ()


def heads_points(state: State, stage: str, alive: Alive) -> dict[str, list[Point]]:
    """The points of `heads_at` along the samples, as far as they are computed."""
    trainings = [training_at(state, total) for total in curve_totals(state, _POINTS)]
    models = heads_at(state, stage)
    return several_heads(state.task, trainings, models, equal_samples=state.equal_samples, alive=alive)


def heads_view(state: State, stage: str, alive: Alive, limits: BayesLimits) -> dict[str, Any]:
    """Test error against samples for one, two and four heads, each with a query from its own share of D0."""
    totals = curve_totals(state, _POINTS)
    found = against_samples(state, "attention", totals, stage == "quick", alive)
    traces = [line_of("one head", "attention", totals, found, colour("attention"), marker("attention"))]
    failures, remarks = [f.failure for f in found if f.failure], []
    if state.task.longest > LONGEST_BAGS:
        remarks.append(f"several heads on bags of more than {LONGEST_BAGS:,} tokens take too long for this page")
    late = 0
    for words, ink, (model, found) in zip(_HEADS.values(), OTHER_COLOURS, heads_points(state, stage, alive).items()):
        failures += [f.failure for f in found if f.failure]
        late += sum(f.late for f in found)
        line = line_of(words, model, totals, found, ink, "diamond")
        traces.append({**line, "connectgaps": True})
    if late:
        remarks.append(f"{late} points of several heads are still being computed")
    slow = ""
    if stage == "exact":
        lines, failed, slow = bayes_lines(state, limits)
        traces += lines
        failures += failed
        remarks += [slow] if slow else []
    return figure(
        "Test error of one and several attention heads",
        traces,
        log_axis("samples α₀ + α₁ = n/d", totals),
        axis("test error", rangemode="tozero"),
        failures=failures,
        remark="; ".join(remarks),
        late=bool(late or slow),
        shapes=[upright(all_samples(state))],
    )

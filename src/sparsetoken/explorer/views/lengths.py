"""The view "Longer bags"."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...plotting.style import OTHER_COLOURS, colour
from ..points import REFUSALS, tested_at, words_of
from ..state import LONGEST, State
from .drawing import axis, figure, finite, log_axis

FARTHEST = 100  # test bags are at most that many times longer than those of the training


def lengths_view(state: State, quick: bool) -> dict[str, Any]:
    """Attention trained at this length and tested on longer bags: error, AUC and sensitivity against their length."""
    here = state.task.longest
    furthest = min(FARTHEST * here, LONGEST)
    spaced = np.geomspace(here, furthest, 4 if quick else 7) if furthest > here else [here]
    lengths = sorted({round(float(length)) for length in spaced})
    rows: list[dict[str, float] | None] = []
    failures: list[str] = []
    for length in lengths:
        try:
            rows.append(tested_at(state.task, state.training, length, quick))
        except REFUSALS as error:
            failures.append(words_of(error))
            rows.append(None)
    shown = (
        ("test_error", "test error", colour("attention"), "solid"),
        ("threshold_error", "error, threshold fitted", colour("attention"), "dash"),
        ("auc", "AUC", OTHER_COLOURS[0], "solid"),
        ("sensitivity", "sensitivity", OTHER_COLOURS[1], "solid"),
    )
    traces = [
        {"type": "scatter", "mode": "lines+markers", "name": words, "x": lengths,
         "y": [None if row is None else finite(row[name]) for row in rows],
         "line": {"color": ink, "dash": dash}, "marker": {"size": 5}, "meta": name}
        for name, words, ink, dash in shown
    ]  # fmt: skip
    return figure(
        f"Attention trained at L = {here}, tested on longer bags",
        traces,
        log_axis("tokens per bag at test time", lengths),
        axis("share of bags", range=[0.0, 1.02]),
        failures=failures,
    )

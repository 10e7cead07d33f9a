"""The view "Longer bags"."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...plotting.style import OTHER_COLOURS, colour
from ..points import Alive, tested_at
from ..state import LONGEST, State
from .drawing import axis, describe, finite, layout_of, small

FARTHEST = 100  # test bags are at most that many times longer than those of the training


def lengths_view(state: State, stage: str, alive: Alive) -> dict[str, Any]:
    """Attention trained at this length and tested on longer bags: error, AUC and sensitivity against their length."""
    quick, here = stage == "quick", state.task.longest
    furthest = min(FARTHEST * here, LONGEST)
    spaced = np.geomspace(here, furthest, 4 if quick else 7) if furthest > here else [here]
    lengths = sorted({round(float(length)) for length in spaced})
    rows: list[dict[str, float] | None] = []
    failures: list[str] = []
    for length in lengths:
        alive()
        try:
            rows.append(tested_at(state.task, state.training, length, quick))
        except (ValueError, ArithmeticError, MemoryError) as error:
            failures.append(str(error) or "it takes more memory than there is")
            rows.append(None)
    shown = (
        ("test_error", "test error", colour("attention"), "solid"),
        ("threshold_error", "test error, threshold fitted", colour("attention"), "dash"),
        ("auc", "AUC", OTHER_COLOURS[0], "solid"),
        ("sensitivity", "sensitivity", OTHER_COLOURS[1], "solid"),
    )
    traces = [
        {"type": "scatter", "mode": "lines+markers", "name": words, "x": lengths,
         "y": [None if row is None else finite(row[name]) for row in rows],
         "line": {"color": ink, "dash": dash}, "marker": {"size": 5}, "meta": name}
        for name, words, ink, dash in shown
    ]  # fmt: skip
    layout = layout_of(
        f"Attention trained at L = {here}, tested on longer bags<br>{small(describe(state))}",
        axis("tokens per bag at test time", type="log"),
        axis("share", range=[0.0, 1.02]),
    )
    return {"data": traces, "layout": layout, "failures": failures[:1]}

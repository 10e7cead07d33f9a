"""The view "Alignment"."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...plotting.style import OTHER_COLOURS, REFERENCE, colour
from ...theory import alignment
from ..state import State
from .drawing import axis, figure, log_axis, upright


def alignment_view(state: State, quick: bool) -> dict[str, Any]:
    """The query's cosine with the signal against alpha0, its first-order approach to one, and the sharpness."""
    here = state.training.alpha0
    alphas = sorted({*np.geomspace(here / 30, here * 30, 61).tolist(), here})
    found = [alignment(state.task, state.training.but(alpha0=a)) for a in alphas]
    rate = found[0].rate
    sign = -1.0 if found[-1].cosine["q"] < 0 else 1.0

    def line(name, y, **more):
        return {"type": "scatter", "mode": "lines", "name": name, "x": alphas, "y": y, **more}

    def cosines(name):
        return [f.cosine[name] for f in found]

    traces = [line("query: cos(q₂, ξ)", cosines("q"), line={"color": colour("attention"), "width": 3}, meta="cosine_q")]
    traces.append(line("readout: cos(w₁, ξ)", cosines("w"), line={"color": OTHER_COLOURS[0]}, meta="cosine_w"))
    if np.isfinite(rate):
        first = [sign * (1 - rate / a) if rate / a < 1 else None for a in alphas]
        traces.append(line("±(1 − K/α₀)", first, line={"color": REFERENCE, "dash": "dash"}, meta="rate"))
    sharpness = [f.sharpness for f in found]
    traces.append(
        line("sharpness k = β‖q₂‖", sharpness, line={"color": OTHER_COLOURS[2], "dash": "dot"}, yaxis="y2", meta="k")
    )
    still = found[alphas.index(here)].norm["q"] == 0
    note = ": anti-aligned here" if found[alphas.index(here)].cosine["q"] < 0 else ""
    return figure(
        f"Alignment after the two steps{note}",
        traces,
        log_axis("samples of the steps α₀ = n₀/d", alphas),
        axis("cosine with the signal", range=[-1.05, 1.05]),
        yaxis2=axis("sharpness k", overlaying="y", side="right", rangemode="tozero", showgrid=False, tickmode="auto"),
        remark="the query stays at zero here, which has no direction" if still else "",
        shapes=[upright(here)],
    )

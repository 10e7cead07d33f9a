"""The view "One bag"."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...plotting.style import NOISE_TOKEN, REFERENCE, SIGNAL_TOKEN
from ...simulation.two_steps import two_steps
from ..state import State
from .drawing import axis, figure

BAG_DIMENSION = 400
SHOWN_COORDINATES = 24


def bag_view(state: State, quick: bool) -> dict[str, Any]:
    """Each token's attention before and after the two steps, and below it the tokens of one positive bag as a heat map.

    Coordinates are turned so that the first lies along the signal; the steps are taken on n0 = alpha0 d bags, d = 400.
    """
    task, training, d = state.task, state.training, BAG_DIMENSION
    length, sparsity, strength, _ = task.only_kind("the view of one bag")
    rng = np.random.default_rng([state.seed, 1])
    steps = two_steps(task, training, d, state.seed)
    tokens = rng.standard_normal((length, d))
    places = np.sort(rng.choice(length, sparsity, replace=False))
    tokens[places, 0] += strength
    scores = training.beta * tokens @ steps.query
    after = np.exp(scores - scores.max())
    after /= after.sum()
    index = list(range(1, length + 1))
    signal = set(places.tolist())
    kinds = (("signal tokens", SIGNAL_TOKEN, "signal"), ("noise tokens", NOISE_TOKEN, "noise"))
    bars = [
        {"type": "bar", "name": f"weight of {words}", "marker": {"color": ink}, "meta": meta, "yaxis": "y2",
         "x": [i + 1 for i in range(length) if (i in signal) == (meta == "signal")],
         "y": [float(after[i]) for i in range(length) if (i in signal) == (meta == "signal")]}
        for words, ink, meta in kinds
    ]  # fmt: skip
    before = {
        "type": "scatter", "mode": "lines", "name": "weight before, 1/L", "x": [0.5, length + 0.5],
        "y": [1.0 / length] * 2, "line": {"color": REFERENCE, "dash": "dash"}, "yaxis": "y2", "meta": "before",
    }  # fmt: skip
    heat = {
        "type": "heatmap", "x": index, "y": list(range(1, SHOWN_COORDINATES + 1)), "yaxis": "y",
        "z": np.round(tokens[:, :SHOWN_COORDINATES].T, 3).tolist(), "colorscale": "RdBu", "zmid": 0.0,
        "reversescale": True, "meta": "tokens",
        "colorbar": {"thickness": 10, "len": 0.55, "y": 0.0, "yanchor": "bottom", "x": 1.0, "xpad": 4},
        "hovertemplate": "token %{x}, coordinate %{y}: %{z}<extra></extra>",
    }  # fmt: skip
    share, cosine = float(after[places].sum()), steps.cosine["q"]
    query = f"cos(q₂, ξ) = {cosine:.2f}" if steps.norm["q"] > 0 else "the query is zero"
    return figure(
        f"A positive bag: the weight of its signal tokens goes from {sparsity / length:.2f} to {share:.2f} "
        f"({query} at d = {d})",
        [heat, *bars, before],
        axis("token", range=[0.5, length + 0.5]),
        axis("coordinate", domain=[0.0, 0.55], range=[SHOWN_COORDINATES + 0.5, 0.5]),
        yaxis2=axis("attention", domain=[0.65, 1.0], rangemode="tozero", anchor="x"),
        barmode="overlay",
        bargap=0.1,
    )

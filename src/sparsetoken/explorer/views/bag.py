"""The view "One bag"."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...plotting.style import NOISE_TOKEN, REFERENCE, SIGNAL_TOKEN
from ...simulation.steps import two_steps
from ..points import Alive
from ..state import State
from .drawing import axis, describe, layout_of, small

BAG_DIMENSION = 400
SHOWN_COORDINATES = 24


def bag(state: State, stage: str, alive: Alive) -> dict[str, Any]:
    """One positive bag as a heat map, and each token's attention before and after the two steps.

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
    before = np.full(length, 1.0 / length)
    index = list(range(1, length + 1))
    heat = {
        "type": "heatmap", "x": [f"{i}" for i in range(1, SHOWN_COORDINATES + 1)], "y": index,
        "z": np.round(tokens[:, :SHOWN_COORDINATES], 3).tolist(), "colorscale": "RdBu", "zmid": 0.0, "reversescale": True,
        "colorbar": {"title": {"text": "coordinate", "side": "right"}, "x": -0.18}, "meta": "tokens",
    }  # fmt: skip
    bars = [
        {"type": "scatter", "mode": "lines", "name": "weight before (1/L)", "x": before.tolist(), "y": index,
         "line": {"color": REFERENCE, "dash": "dash"}, "xaxis": "x2", "meta": "before"},
        {"type": "bar", "orientation": "h", "name": "weight after", "x": after.tolist(), "y": index, "xaxis": "x2",
         "marker": {"color": [SIGNAL_TOKEN if i in set(places.tolist()) else NOISE_TOKEN for i in range(length)]},
         "meta": "after"},
    ]  # fmt: skip
    share = float(after[places].sum())
    layout = layout_of(
        f"A positive bag, signal tokens highlighted: their weight goes from {sparsity / length:.2f} to {share:.2f} "
        f"(cos(q₂, ξ) = {steps.cosine['q']:.2f} at d = {d})<br>"
        f"{small(describe(state))}",
        axis("coordinate (first: along the signal)", domain=[0.0, 0.6]),
        axis("token", autorange="reversed"),
        xaxis2=axis("attention weight", domain=[0.66, 1.0], rangemode="tozero"),
        margin={"l": 130, "r": 20, "t": 60, "b": 50},
    )
    return {"data": [heat, *bars], "layout": layout, "failures": []}

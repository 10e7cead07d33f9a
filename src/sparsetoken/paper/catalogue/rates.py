"""How fast the error approaches its limit: 1/alpha1 for all three classifiers."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._core.averages import extrapolate
from ...plotting.panels import Layer, Line, Panel, Points
from ...plotting.style import colour, marker
from ...study.claims import Claim, Judgement, NotJudgeable, Tables, equal_verdict, format_value, need, quantile
from ...study.criteria import Fit, fit_line, select
from ...study.specification import Grid, Study
from .common import MODELS, PAPER, TEN_TOKENS

QUERY = {"cosine": 0.9, "sharpness": 2.0}
FIXED = {**TEN_TOKENS, "loss": "square"}
FACTOR = {"attention": 1.0, "pooled": 1.0, "vectorized": 10.0}  # the vectorized classifier has L times more weights
SPOTS = [8.0, 16.0, 32.0, 64.0]
LINE = [float(a) for a in np.geomspace(2.0, 1024.0, 19)]
INFINITE = 1e7
# The excess at the last spot is 8e-4: the limit it is measured from must be known far better.
ACCURACY = 4e-5
RIDGE = 1e-9  # stands for none; the theory is at exactly zero


def grids(sizes: dict[str, list[int]], repeats: int) -> list[Grid]:
    laws: list[dict[str, Any]] = [{"model": m, **(QUERY if m == "attention" else {})} for m in MODELS]
    spots = [
        {**law, "d": d, "alpha": FACTOR[law["model"]] * a} for law in laws for d in sizes[law["model"]] for a in SPOTS
    ]
    lines = [{**law, "alpha": [FACTOR[law["model"]] * a for a in (*sorted({*LINE, *SPOTS}), INFINITE)]} for law in laws]
    return [
        Grid("simulated", "readout", {**FIXED, "ridge": RIDGE}, points=spots, repeats=repeats),
        Grid("predicted", "readout_theory", {**FIXED, "ridge": 0.0, "accuracy": ACCURACY}, points=lines),
    ]


def excess_predicted(tables: Tables, model: str) -> Any:
    """Predicted error above its limit, with alpha per weight (n over the number of weights)."""
    line = select(need(tables, "predicted", ["test_error"]), {"model": model}).sort_values("alpha")
    if line["alpha"].max() < INFINITE:
        raise NotJudgeable(f"{model}: no limit computed")
    limit = float(line["test_error"].iloc[-1])
    line = line[line["alpha"] < INFINITE]
    return line.assign(per_weight=line["alpha"] / FACTOR[model], excess=line["test_error"] - limit, limit_error=limit)


def excess_measured(tables: Tables, model: str) -> Any:
    """Simulated error at d -> infinity above the predicted limit."""
    simulated = select(need(tables, "simulated", ["test_error"]), {"model": model})
    found = extrapolate(simulated, ["alpha"], "test_error")
    limit = float(excess_predicted(tables, model)["limit_error"].iloc[0])
    return found.assign(per_weight=found["alpha"] / FACTOR[model], excess=found["limit"] - limit)


def fitted(tables: Tables, model: str) -> tuple[Fit, float, float]:
    """Simulated slope over SPOTS, the theory's over SPOTS, and the theory's over its last decade."""
    measured, line = excess_measured(tables, model), excess_predicted(tables, model)
    if (measured["excess"] <= 0).any():
        raise NotJudgeable(f"{model}: the excess is lost in noise")
    fit = fit_line(np.log(measured["per_weight"]), np.log(measured["excess"]), measured["error"] / measured["excess"])
    there = line[np.isclose(line["per_weight"].to_numpy()[:, None], SPOTS).any(axis=1)]
    same = fit_line(np.log(there["per_weight"]), np.log(there["excess"])).slope
    far = line[line["per_weight"] >= 100]
    return fit, same, fit_line(np.log(far["per_weight"]), np.log(far["excess"])).slope


def slope(model: str):
    def criterion(tables: Tables) -> Judgement:
        fit, same, far = fitted(tables, model)
        if abs(far + 1) > 0.02:
            verdict = "refuted"
        else:
            verdict = equal_verdict(fit.slope - same, float(quantile()) * fit.slope_error, 0.2)
        note = f"theory: {same:.3f} on the simulated range, {far:.4f} over its last decade"
        return Judgement(verdict, "-1", format_value(fit.slope, fit.slope_error), note)

    return criterion


def draw(tables: Tables) -> list[Panel]:
    layers: list[Layer] = []
    for model in MODELS:
        line, measured = excess_predicted(tables, model), excess_measured(tables, model)
        dash = "dash" if model == "vectorized" else "solid"  # it lies on top of the pooled one
        layers.append(Line(line["per_weight"], line["excess"], f"{model}: theory", colour(model), dash))
        layers.append(
            Points(
                measured["per_weight"],
                measured["excess"],
                measured["error"],
                f"{model}: simulated, d → ∞",
                colour(model),
                marker(model),
            )
        )
    x = np.array([10.0, 1000.0])
    layers.append(Line(x, 1.0 / x, "slope −1", "#555555", "dot"))
    label = "samples per weight, α₁ (vectorized: α₁/L)"
    return [Panel("Excess error, square loss, no ridge", label, "test error − its limit", layers, logx=True, logy=True)]


def findings(tables: Tables) -> str:
    words = []
    for model in MODELS:
        fit, _, far = fitted(tables, model)
        words.append(f"{model} {fit.slope:.2f} ± {fit.slope_error:.2f} simulated, {far:.3f} in theory at large α₁")
    limits = {m: float(excess_predicted(tables, m)["limit_error"].iloc[0]) for m in MODELS}
    return (
        f"Fitted slopes: {'; '.join(words)}. All classifiers learn at the same rate; what differs is where they end: "
        + ", ".join(f"{m} {v:.3f}" for m, v in limits.items())
        + "."
    )


study = Study(
    name="rates",
    title="The error approaches its limit like 1/α₁",
    question="With the square loss and no ridge: how fast does the test error of the three classifiers fall to its "
    "limit at infinitely many "
    "samples? (L = 10, R = 1, π = 0.5, θ = 5; attention with cosine 0.9 and k = 2.)",
    notes=f"Simulations use λ = {RIDGE:g} in place of zero. The limit that is subtracted is the theory's.",
    grids={
        "quick": grids({"attention": [100, 200], "pooled": [60, 120], "vectorized": [8, 16]}, 44),
        "full": grids({"attention": [200, 400], "pooled": [200, 400], "vectorized": [20, 40]}, 40),
    },
    draw=draw,
    findings=findings,
    claims=tuple(
        Claim(
            f"rate-{model}",
            f"The excess error of the {model} classifier falls like 1/α₁",
            PAPER,
            "theory's slope is −1 to 0.02 over its last decade, and the simulated slope (d → ∞) is the theory's on "
            "the same range "
            "within the margin; resolution 0.2",
            slope(model),
        )
        for model in MODELS
    ),
)

"""A misaligned query: where attention loses to plain pooling."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._core.averages import extrapolate, summarise
from ...plotting.panels import Layer, Line, Panel, Points, Rule
from ...plotting.style import colour, marker
from ...study.claims import Claim, Judgement, Tables, format_value, greater_verdict, need, quantile, worst
from ...study.criteria import judge_agreement, select
from ...study.specification import Grid, Study
from .common import AXES, HERE, PAPER, TEN_TOKENS

SHARPNESS = 2.0
FEW, MANY = 2.0, 40.0  # alpha; the second stands for "as many samples as one likes"
INFINITE = 1e4
FIXED = {**TEN_TOKENS, "ridge": 1e-3, "loss": "logistic"}
COSINES = [-0.9, -0.5, 0.0, 0.3, 0.6, 0.9]
FINE = [float(c) for c in np.linspace(-1.0, 1.0, 17)]


def grids(few_sizes: list[int], many_sizes: list[int], repeats: int) -> list[Grid]:
    attention = {**FIXED, "model": "attention", "sharpness": SHARPNESS}
    pooled = {**FIXED, "model": "pooled"}
    simulations = []
    for alpha, sizes, times in ((FEW, few_sizes, 2 * repeats), (MANY, many_sizes, repeats)):
        axes: dict[str, list[Any]] = {"d": sizes, "cosine": COSINES}
        simulations += [
            Grid("simulated", "readout", {**attention, "alpha": alpha}, axes, repeats=times),
            Grid("pooled", "readout", {**pooled, "alpha": alpha}, {"d": sizes}, repeats=2 * times),
        ]
    values = [FEW, MANY, INFINITE]
    return [
        *simulations,
        Grid("predicted", "readout_theory", {**attention, "alpha": values}, {"cosine": sorted({*FINE, *COSINES})}),
        Grid("pooled_predicted", "readout_theory", {**pooled, "alpha": values}),
    ]


def exact(tables: Tables) -> Judgement:
    simulated, predicted = need(tables, "simulated", ["test_error"]), need(tables, "predicted", ["test_error"])
    return judge_agreement(
        simulated, predicted, "test_error", ["alpha", "cosine"], 0.03, predicted_error="standard_error"
    )


def loses(tables: Tables) -> Judgement:
    """At cosine 0 attention is worse than pooling, at 0.9 better; both numbers of samples."""
    attention = extrapolate(need(tables, "simulated", ["test_error"]), ["alpha", "cosine"], "test_error")
    pooled = extrapolate(need(tables, "pooled", ["test_error"]), ["alpha"], "test_error").set_index("alpha")
    verdicts, words = [], []
    for alpha in (FEW, MANY):
        base = pooled.loc[alpha]
        for cosine, sign in ((0.0, 1.0), (0.9, -1.0)):
            row = select(attention, {"alpha": alpha, "cosine": cosine}).iloc[0]
            margin = quantile(4, min(row["degrees"], base["degrees"])) * np.hypot(row["error"], base["error"])
            verdicts.append(greater_verdict(sign * (row["limit"] - base["limit"]), margin))
            words.append(
                f"α = {alpha:g}, γ = {cosine:g}: {format_value(row['limit'], row['error'])} against "
                f"{format_value(base['limit'], base['error'])}"
            )
    return Judgement(
        worst(verdicts), "attention worse at γ = 0, better at γ = 0.9", "; ".join(words[:1]), "; ".join(words[1:])
    )


def crossing(tables: Tables, alpha: float) -> float:
    """The positive cosine at which attention and pooling have the same predicted error."""
    line = select(tables["predicted"], {"alpha": alpha}).sort_values("cosine")
    line = line[line["cosine"] >= 0]
    base = float(select(tables["pooled_predicted"], {"alpha": alpha})["test_error"].iloc[0])
    gap = line["test_error"].to_numpy() - base
    at = np.flatnonzero((gap[:-1] > 0) & (gap[1:] <= 0))
    if not len(at):
        return float("nan")
    i, x = at[0], line["cosine"].to_numpy()
    return float(x[i] + (x[i + 1] - x[i]) * gap[i] / (gap[i] - gap[i + 1]))


def draw(tables: Tables) -> list[Panel]:
    panels = []
    for alpha, title in ((FEW, f"Few samples, α = {FEW:g}"), (MANY, f"Many samples, α = {MANY:g} and α → ∞")):
        layers: list[Layer] = []
        for value, dash in ((alpha, "solid"), (INFINITE, "dash"))[: 2 if alpha == MANY else 1]:
            line = select(tables["predicted"], {"alpha": value}).sort_values("cosine")
            name = "attention: theory" if dash == "solid" else "attention: theory, α → ∞"
            layers.append(Line(line["cosine"], line["test_error"], name, colour("attention"), dash))
            base = float(select(tables["pooled_predicted"], {"alpha": value})["test_error"].iloc[0])
            name = "pooled: theory" if dash == "solid" else "pooled: theory, α → ∞"
            layers.append(Line([-1, 1], [base, base], name, colour("pooled"), dash))
        layers.append(_points(select(tables["simulated"], {"alpha": alpha}), "attention: simulated", "attention"))
        pooled = select(tables["pooled"], {"alpha": alpha}).assign(cosine=0.0)
        layers.append(_points(pooled, "pooled: simulated", "pooled"))
        layers.append(Rule("x", crossing(tables, alpha), "attention = pooled"))
        panels.append(Panel(f"{title} (k = {SHARPNESS:g})", AXES["cosine"], AXES["test_error"], layers))
    return panels


def _points(table: Any, label: str, model: str) -> Points:
    means = summarise(table[table["d"] == table["d"].max()], "cosine", "test_error")
    return Points(means["cosine"], means["mean"], means["error"], label, colour(model), marker(model))


def findings(tables: Tables) -> str:
    few, many, limit = (crossing(tables, alpha) for alpha in (FEW, MANY, INFINITE))
    return (
        f"With inverse temperature k = {SHARPNESS:g} attention needs a query of cosine at least {few:.2f} (α = "
        f"{FEW:g}), {many:.2f} "
        f"(α = {MANY:g}) or {limit:.2f} (α → ∞) to beat pooling. A query orthogonal to the signal concentrates the "
        f"average on fewer tokens, "
        "chosen at random: more noise, no more signal."
    )


study = Study(
    name="misalignment",
    title="A misaligned query: where attention loses to pooling",
    question="The readout is trained well, but the query points in a direction of cosine γ with the signal. What is "
    "the test error, with few "
    "and with unlimited samples, and where is pooling better? (L = 10, R = 1, π = 0.5, θ = 5, λ = 10⁻³, logistic, k = "
    "2.)",
    grids={"quick": grids([150, 300], [60, 120], 10), "full": grids([500, 1000], [250, 500], 10)},
    draw=draw,
    findings=findings,
    claims=(
        Claim(
            "misaligned-exact",
            "The theory gives the test error for every cosine of the query",
            HERE,
            "12 points (γ, α), extrapolated to d → ∞, within the margin at level 0.1 %; resolution 0.03",
            exact,
        ),
        Claim(
            "misaligned-loses",
            "A misaligned attention classifier loses to pooling",
            PAPER,
            "d → ∞: error above pooling's at γ = 0 and below it at γ = 0.9, beyond the margin, for α = 2 and 40",
            loses,
        ),
    ),
)

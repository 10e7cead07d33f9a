"""A misaligned query: where attention loses to plain pooling (Figure 5). The study: `misalignment`."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...plotting.panels import Layer, Line, Panel, Rule
from ...plotting.style import colour, marker
from ...study.claims import Judgement, Tables, claim, need
from ...study.criteria import limits_of, select
from ...study.study import Grid, Study
from .common import AXES, OURS, TEN_TOKENS, exact, first_crossing, level, listed, ordered, spots
from .sources import MISALIGNED

SHARPNESS = 2.0
FEW, MANY, INFINITE = 2.0, 40.0, 1e4  # alpha; the last stands for "as many samples as one likes"


def grids(few_sizes: list[int], many_sizes: list[int], repeats: int) -> list[Grid]:
    fixed = {**TEN_TOKENS, "ridge": 1e-3, "loss": "logistic"}
    attention, pooled = {**fixed, "model": "attention", "sharpness": SHARPNESS}, {**fixed, "model": "pooled"}
    cosines = [-0.9, -0.5, 0.0, 0.3, 0.6, 0.9]
    simulations = []
    for alpha, sizes, times in ((FEW, few_sizes, 2 * repeats), (MANY, many_sizes, repeats)):
        axes: dict[str, list[Any]] = {"d": sizes, "cosine": cosines}
        simulations += [
            Grid("simulated", "readout", {**attention, "alpha": alpha}, axes, repeats=times),
            Grid("pooled", "readout", {**pooled, "alpha": alpha}, {"d": sizes}, repeats=2 * times),
        ]
    values, line = [FEW, MANY, INFINITE], sorted({*np.linspace(-1.0, 1.0, 17).tolist(), *cosines})
    soft = {**attention, "alpha": [FEW]}
    return [
        *simulations,
        Grid("predicted", "readout_theory", {**attention, "alpha": values}, {"cosine": line}),
        Grid("pooled_predicted", "readout_theory", {**pooled, "alpha": values}),
        Grid("soft", "readout_theory", soft, {"cosine": [-0.9, 0.0, 0.9], "sharpness": [0.001, 0.01, 0.1]}),
    ]


@claim("misaligned-loses", MISALIGNED)
def loses(tables: Tables) -> Judgement:
    """A misaligned attention classifier loses to pooling.

    k = 2, d → ∞: error above pooling's at γ = 0 and below it at γ = 0.9, beyond the margin, for α = 2 and 40.
    """
    attention = limits_of(need(tables, "simulated", ["test_error"]), ["alpha", "cosine"], "test_error")
    pooled = limits_of(need(tables, "pooled", ["test_error"]), "alpha", "test_error")
    pairs, words = [], []
    for alpha in (FEW, MANY):
        bad, good, base = attention[alpha, 0.0], attention[alpha, 0.9], pooled[alpha]
        pairs += [(bad, base), (base, good)]
        words.append(f"α = {alpha:g}: {listed({0.0: bad, 0.9: good}, 'γ')}, pooling {base}")
    return ordered(pairs, "attention worse at γ = 0, better at γ = 0.9", words[0], words[1])


@claim("soft-is-pooling", OURS)
def soft(tables: Tables) -> Judgement:
    """As β → 0 attention becomes pooling, whatever its query.

    Theory, α = 2, cosines −0.9, 0 and 0.9: distance to pooling's error below 0.002 at k = 0.001, and growing with k.
    """
    base = pooled_error(tables, FEW)
    gaps = (need(tables, "soft", ["test_error"]).set_index("sharpness")["test_error"] - base).abs()
    largest = gaps.groupby(level=0).max().sort_index()
    verdict = "confirmed" if largest.iloc[0] < 2e-3 and largest.is_monotonic_increasing else "refuted"
    return Judgement(verdict, "0 as k → 0", listed(largest.to_dict(), "k"))


def pooled_error(tables: Tables, alpha: float) -> float:
    return float(select(need(tables, "pooled_predicted"), {"alpha": alpha})["test_error"].iloc[0])


def crossing(tables: Tables, alpha: float) -> float:
    """The positive cosine at which attention and pooling have the same predicted error."""
    line = select(tables["predicted"], {"alpha": alpha}).sort_values("cosine")
    line = line[line["cosine"] >= 0]
    return first_crossing(line["cosine"], line["test_error"] - pooled_error(tables, alpha))


def draw(tables: Tables) -> list[Panel]:
    panels = []
    for alpha, title in ((FEW, f"Few samples, α = {FEW:g}"), (MANY, f"Many samples, α = {MANY:g} and α → ∞")):
        layers: list[Layer] = []
        for value, dash, far in ((alpha, "solid", ""), (INFINITE, "dash", ", α → ∞"))[: 2 if alpha == MANY else 1]:
            line = select(tables["predicted"], {"alpha": value}).sort_values("cosine")
            name = f"theory{far}"
            layers.append(Line(line["cosine"], line["test_error"], f"attention: {name}", colour("attention"), dash))
            layers.append(level(pooled_error(tables, value), (-1, 1), f"pooled: {name}", colour("pooled"), dash))
        for model, table in (("attention", tables["simulated"]), ("pooled", tables["pooled"].assign(cosine=0.0))):
            part = select(table, {"alpha": alpha})
            layers.append(spots(part, "cosine", "test_error", model, colour(model), marker(model)))
        layers.append(Rule("x", crossing(tables, alpha), "attention = pooled"))
        panels.append(Panel(f"{title} (k = {SHARPNESS:g})", AXES["cosine"], AXES["test_error"], layers))
    return panels


def findings(tables: Tables) -> str:
    few, many, limit = (crossing(tables, alpha) for alpha in (FEW, MANY, INFINITE))
    return (
        f"With inverse temperature k = {SHARPNESS:g} attention needs a query of cosine at least {few:.2f} (α = {FEW:g}), "
        f"{many:.2f} (α = {MANY:g}) or {limit:.2f} (α → ∞) to beat pooling. A query orthogonal to the signal concentrates "
        "the average on fewer tokens, chosen at random: more noise, no more signal."
    )


misalignment = Study(
    name="misalignment",
    title="A misaligned query: where attention loses to pooling",
    question="The readout is trained well, but the query points in a direction of cosine γ with the signal. What is the test "
    "error, with few and with unlimited samples, and where is pooling better? (L = 10, R = 1, π = 0.5, θ = 5, λ = 10⁻³, "
    "logistic, k = 2.)",
    grids={"quick": grids([150, 300], [60, 120], 10), "full": grids([500, 1000], [250, 500], 10)},
    draw=draw,
    findings=findings,
    claims=(
        exact(
            "misaligned-exact",
            "The theory gives the test error for every cosine of the query",
            ["alpha", "cosine"],
            0.03,
            points="12 points (γ, α)",
            **MISALIGNED,
        ),
        loses,
        soft,
    ),
)

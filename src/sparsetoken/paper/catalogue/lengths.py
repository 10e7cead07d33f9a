"""Length generalisation: attention trained on bags of ten tokens and tested on longer ones, and what it loses to what."""

from __future__ import annotations

from typing import Any

from ..._core.averages import summarise
from ...plotting.panels import Layer, Line, Panel, Points
from ...plotting.style import OTHER_COLOURS, colour, marker
from ...study.claims import Claim, Judgement, Tables, equal_verdict, format_value, greater_verdict, need, worst
from ...study.criteria import judge_agreement, select
from ...study.specification import Grid, Study
from .common import AXES, HERE, TEN_TOKENS

FIXED: dict[str, Any] = {**TEN_TOKENS, "alpha0": 2.0, "alpha1": 2.0, "ridge": 1e-2, "loss": "logistic"}
LENGTHS = [10, 20, 50, 100, 300, 1000]
SIMULATED = [10, 100, 1000]
FURTHEST = LENGTHS[-1]
SLACK = 4e-3  # accuracy of the fitted errors, which have no error bars: four times what finer draws change


def grids(sizes: list[int], repeats: int) -> list[Grid]:
    axes: dict[str, list[Any]] = {"d": sizes, "test_length": SIMULATED}
    return [
        Grid("simulated", "simulate", {**FIXED, "model": "attention"}, axes, repeats=repeats),
        Grid("predicted", "length_theory", {**FIXED, "test_lengths": LENGTHS}),
        Grid("retrained", "forecast", {**FIXED, "model": "attention"}, {"length": LENGTHS}),
    ]


def exact(tables: Tables) -> Judgement:
    simulated, predicted = need(tables, "simulated", ["test_error"]), need(tables, "predicted", ["test_error"])
    return judge_agreement(simulated, predicted, "test_error", ["test_length"], 0.08, predicted_error="standard_error")


def _last(tables: Tables) -> Any:
    return select(need(tables, "predicted", ["threshold_error"]), {"test_length": FURTHEST}).iloc[0]


def threshold_first(tables: Tables) -> Judgement:
    """At 100 L the threshold's part is larger than sharpness and query parts together."""
    row = _last(tables)
    threshold = row["test_error"] - row["threshold_error"]
    others = row["threshold_error"] - row["query_error"]
    return Judgement(
        greater_verdict(threshold - others, 3 * SLACK),
        "threshold's part > the others'",
        f"{threshold:.3f} against {others:.3f}",
    )


def ranking_survives(tables: Tables) -> Judgement:
    """At 100 L the error exceeds 0.2 and the AUC 0.9."""
    row = _last(tables)
    margin = 3 * float(row["standard_error"])
    verdicts = [greater_verdict(row["test_error"] - 0.2, margin), greater_verdict(row["auc"] - 0.9, margin)]
    return Judgement(
        worst(verdicts), "error > 0.2, AUC > 0.9", f"{format_value(row['test_error'])}, {format_value(row['auc'])}"
    )


def training_length(tables: Tables) -> Judgement:
    """At the training's own length nothing is lost: tested as trained."""
    row = select(need(tables, "predicted", ["test_error"]), {"test_length": LENGTHS[0]}).iloc[0]
    here = float(select(need(tables, "retrained", ["test_error"]), {"length": LENGTHS[0]})["test_error"].iloc[0])
    return Judgement(
        equal_verdict(row["test_error"] - here, SLACK, 2 * SLACK), format_value(here), format_value(row["test_error"])
    )


def draw(tables: Tables) -> list[Panel]:
    table, retrained = tables["predicted"].sort_values("test_length"), tables["retrained"].sort_values("length")
    x = table["test_length"]
    largest = tables["simulated"][tables["simulated"]["d"] == tables["simulated"]["d"].max()]
    means = summarise(largest, "test_length", "test_error")
    orange = colour("attention")
    layers: list[Layer] = [
        Line(x, table["test_error"], "as trained", orange),
        Points(means["test_length"], means["mean"], means["error"], "simulated", orange, marker("attention")),
        Line(x, table["threshold_error"], "threshold fitted", OTHER_COLOURS[0], "dash"),
        Line(x, table["sharpness_error"], "threshold and sharpness fitted", OTHER_COLOURS[1], "dashdot"),
        Line(x, table["query_error"], "the same with the query ξ", OTHER_COLOURS[3], "dot"),
        Line(retrained["length"], retrained["test_error"], "trained at that length, same rates", OTHER_COLOURS[4]),
    ]
    scores: list[Layer] = [
        Line(x, table["auc"], "AUC", OTHER_COLOURS[0]),
        Line(x, table["sensitivity"], "sensitivity", orange),
        Line(x, table["specificity"], "specificity", colour("pooled"), "dash"),
    ]
    length = "tokens per bag at test time"
    return [
        Panel("Trained at L = 10", length, AXES["test_error"], layers, logx=True, ylim=(0.0, 0.7)),
        Panel("Ranking and threshold", length, "share", scores, logx=True, ylim=(0.4, 1.05)),
    ]


def findings(tables: Tables) -> str:
    row = _last(tables)
    first = tables["predicted"].sort_values("test_length").iloc[0]
    longest = float(select(tables["retrained"], {"length": FURTHEST})["test_error"].iloc[0])
    parts = {
        "the threshold": row["test_error"] - row["threshold_error"],
        "the sharpness": row["threshold_error"] - row["sharpness_error"],
        "the query": row["sharpness_error"] - row["query_error"],
    }
    listed = ", ".join(f"{value:.3f} to {name}" for name, value in parts.items())
    return (
        f"An attention classifier trained on bags of {LENGTHS[0]} tokens has an error of {first['test_error']:.3f} there and "
        f"of {row['test_error']:.3f} on bags of {FURTHEST}, where its AUC is still {row['auc']:.3f}: it ranks bags well and "
        f"puts the threshold in the wrong place (sensitivity {row['sensitivity']:.2f}, specificity {row['specificity']:.4f}). "
        f"Of the error it loses {listed}; {row['query_error']:.3f} would be left with the query ξ itself. "
        "Training on the long bags themselves, at the same rates and samples, is no remedy: the two gradient steps find no "
        f"query there (error {longest:.3f})."
    )


study = Study(
    name="lengths",
    title="Length generalisation: trained on short bags, tested on long ones",
    question="Attention is trained on bags of ten tokens and tested on bags of up to a thousand. What does it lose, and is it "
    "the threshold, the sharpness or the query that is to blame? (R = 1, π = 0.5, θ = 5, α₀ = α₁ = 2, λ = 10⁻², logistic.)",
    grids={"quick": grids([150, 500], 20), "full": grids([500, 1000], 60)},
    draw=draw,
    findings=findings,
    claims=(
        Claim(
            "lengths-exact",
            "The theory gives the test error at any length, for a classifier trained at another",
            HERE,
            "L, 10 L and 100 L, extrapolated to d → ∞, within the margin at level 0.1 %; resolution 0.08",
            exact,
        ),
        Claim(
            "lengths-threshold",
            "On bags a hundred times longer the threshold costs more than sharpness and query together",
            HERE,
            "100 L: error saved by fitting the threshold > what fitting the sharpness and knowing ξ save besides, by 0.012",
            threshold_first,
        ),
        Claim(
            "lengths-ranking",
            "On bags a hundred times longer the ranking of bags survives where the error does not",
            HERE,
            "100 L: error above 0.2 and AUC above 0.9, beyond three standard errors",
            ranking_survives,
        ),
        Claim(
            "lengths-origin",
            "Tested at the length of its training a classifier has its forecast error",
            HERE,
            "L: the two agree within 0.004",
            training_length,
        ),
    ),
)

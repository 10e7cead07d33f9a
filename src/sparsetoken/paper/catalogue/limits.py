"""What is possible at all, and who comes near it."""

from __future__ import annotations

import numpy as np

from ..._core.averages import summarise
from ...plotting.panels import Layer, Line, Panel, Points
from ...plotting.style import colour, marker
from ...study.claims import Claim, Judgement, Tables, format_value, greater_verdict, need, quantile, worst
from ...study.criteria import judge_agreement, select
from ...study.specification import Grid, Study
from .common import AXES, HERE, TEN_TOKENS

SPOTS = [1.0, 2.0, 4.0, 8.0]
LINE = [float(a) for a in np.geomspace(0.5, 10.0, 10)]
LEARNER = {**TEN_TOKENS, "loss": "logistic", "ridge": 1e-2}
HARD_TASK = {"length": 1000, "sparsity": 1, "strength": 5.0, "prevalence": 0.5}
HARD_LINE = [float(a) for a in np.geomspace(0.25, 4.0, 9)] + [1.0, 1.1, 1.2, 1.3]
SHARPNESS = 2.0


def halves(alpha: float) -> dict[str, float]:
    """Half of the samples for the two steps, half for the readout; the baselines get all of them."""
    return {"alpha0": alpha / 2, "alpha1": alpha / 2}


def grids(sizes: list[int], repeats: int, passing_sizes: list[int], passing: int) -> list[Grid]:
    models = [{"model": "attention", "sharpness": SHARPNESS}, {"model": "pooled", "equal_samples": True}]
    spots = [{**m, **halves(a), "d": d} for m in models for d in sizes for a in SPOTS]
    lines = [{**m, **halves(a)} for m in models for a in sorted({*LINE, *SPOTS})]
    return [
        Grid("simulated", "simulate", LEARNER, points=spots, repeats=repeats),
        Grid("predicted", "forecast", LEARNER, points=lines),
        Grid("bayes", "bayes_limit", TEN_TOKENS, {"alpha": sorted({*LINE, *SPOTS})}),
        Grid("passing", "message_passing", TEN_TOKENS, {"d": passing_sizes, "alpha": SPOTS}, repeats=passing),
        Grid("hard", "bayes_limit", HARD_TASK, {"alpha": sorted({*HARD_LINE})}),
    ]


def total(table):
    """The column alpha: all samples of the staged training."""
    return table.assign(alpha=table["alpha0"] + table["alpha1"])


def unbeaten(tables: Tables) -> Judgement:
    """Every learner stays above the Bayes limit, at both sizes."""
    found = summarise(total(need(tables, "simulated", ["test_error"])), ["d", "model", "alpha"], "test_error")
    bayes = need(tables, "bayes", ["test_error"]).set_index("alpha")
    gap = found["mean"].to_numpy() - bayes.loc[found["alpha"], "test_error"].to_numpy()
    error = np.hypot(found["error"], bayes.loc[found["alpha"], "test_error_se"].to_numpy())
    margin = quantile(len(found), found["count"].to_numpy(float) - 1) * error
    at = int(np.argmin(gap / margin))
    row = found.iloc[at]
    limit = float(bayes.loc[row["alpha"], "test_error"])
    return Judgement(
        worst(greater_verdict(g, m) for g, m in zip(gap, margin)),
        f"above {limit:.4f}",
        f"{row['model']} {format_value(row['mean'], row['error'])}",
        f"closest, at α = {row['alpha']:g}, d = {row['d']:g}; {len(found)} points",
    )


def reached(tables: Tables) -> Judgement:
    """Message passing has the error that theory says it reaches."""
    predicted = need(tables, "bayes", ["reachable_test_error"]).assign(
        test_error=lambda t: t["reachable_test_error"], se=lambda t: t["reachable_test_error_se"]
    )
    return judge_agreement(need(tables, "passing", ["test_error"]), predicted, "test_error", ["alpha"], 0.03, "se")


def hard(tables: Tables) -> Judgement:
    row = select(need(tables, "hard", ["overlap"]), {"alpha": 1.0}).iloc[0]
    gap = row["overlap"] - row["reachable_overlap"]
    error = float(np.hypot(row["overlap_se"], row["reachable_overlap_se"]))
    verdict = greater_verdict(gap - 0.5, float(quantile()) * error)
    reachable = format_value(row["reachable_overlap"], row["reachable_overlap_se"])
    measured = f"{format_value(row['overlap'], row['overlap_se'])} against {reachable}"
    return Judgement(
        verdict, "optimal overlap far above the reachable one", measured, "fixed points of the theory, L = 1000, α = 1"
    )


def draw(tables: Tables) -> list[Panel]:
    bayes = tables["bayes"].sort_values("alpha")
    layers: list[Layer] = [
        Line(bayes["alpha"], bayes["test_error"], "Bayes limit", colour("bayes")),
        Line(bayes["alpha"], bayes["reachable_test_error"], "message passing: theory", colour("reachable"), "dash"),
    ]
    predicted, simulated = total(tables["predicted"]), total(tables["simulated"])
    simulated = simulated[simulated["d"] == simulated["d"].max()]
    for model, name in (("attention", "staged attention"), ("pooled", "pooled")):
        line = select(predicted, {"model": model}).sort_values("alpha")
        layers.append(Line(line["alpha"], line["test_error"], f"{name}: theory", colour(model)))
        means = summarise(select(simulated, {"model": model}), "alpha", "test_error")
        layers.append(
            Points(means["alpha"], means["mean"], means["error"], f"{name}: simulated", colour(model), marker(model))
        )
    passing = tables["passing"]
    means = summarise(passing[passing["d"] == passing["d"].max()], "alpha", "test_error")
    layers.append(
        Points(
            means["alpha"], means["mean"], means["error"], "message passing: simulated", colour("reachable"), "diamond"
        )
    )
    line = tables["hard"].sort_values("alpha")
    phases = [
        Line(line["alpha"], line["overlap"], "best possible", colour("bayes")),
        Line(line["alpha"], line["reachable_overlap"], "reachable by message passing", colour("reachable"), "dash"),
    ]
    label = "all samples per dimension, α = α₀ + α₁"
    return [
        Panel("Ten tokens per bag", label, AXES["test_error"], layers, logx=True, logy=True),
        Panel(
            "A thousand tokens per bag: a hard phase",
            AXES["alpha"],
            "squared cosine with the signal",
            phases,
            logx=True,
        ),
    ]


def findings(tables: Tables) -> str:
    bayes = tables["bayes"].set_index("alpha")["test_error"]
    predicted = total(tables["predicted"])
    staged = select(predicted, {"model": "attention"}).set_index("alpha")["test_error"]
    hard_range = tables["hard"][tables["hard"]["hard"].astype(bool)]["alpha"]
    return (
        f"At α = 2 nobody can do better than {bayes[2.0]:.4f}; staged attention (half of the samples for each stage, "
        f"k = {SHARPNESS:g}) has "
        f"{staged[2.0]:.4f}. Message passing, which knows strength and sparsity, reaches the limit. With a thousand "
        f"tokens per bag the limit "
        f"exists but no known fast method reaches it between α = {hard_range.min():.2g} and {hard_range.max():.2g} "
        f"(on this grid)."
    )


study = Study(
    name="limits",
    title="Limits: what is possible at all",
    question="How far are staged attention and pooling from the information-theoretic optimum, can a fast algorithm "
    "reach it, and where is it "
    "out of reach? (L = 10, R = 1, π = 0.5, θ = 5, λ = 10⁻², logistic; right: L = 1000.)",
    grids={"quick": grids([150, 300], 24, [100, 200], 12), "full": grids([500, 1000], 10, [500, 1000], 10)},
    draw=draw,
    findings=findings,
    claims=(
        Claim(
            "bayes-unbeaten",
            "No learner beats the Bayes limit",
            HERE,
            "simulated errors of attention and pooling above the limit beyond the margin, at four α and both sizes",
            unbeaten,
        ),
        Claim(
            "message-passing-reaches",
            "Message passing reaches the predicted error",
            HERE,
            "four α, d → ∞, within the margin at level 0.1 %; resolution 0.03",
            reached,
        ),
        Claim(
            "hard-phase",
            "With long bags there is a phase where the optimum is out of message passing's reach",
            HERE,
            "L = 1000, α = 1: squared cosines differ by more than 0.5 beyond the margin",
            hard,
        ),
    ),
)

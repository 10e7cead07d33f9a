"""What is possible at all, and who comes near it. The study: `limits`."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...plotting.panels import Layer, Line, Panel
from ...plotting.style import colour
from ...study.claims import Judgement, Tables, claim, need
from ...study.criteria import ValueWithError, judge_agreement, larger, limits_of, means_of, predictions_of, select
from ...study.study import Grid, Study
from ...study.verdicts import worst
from .common import AXES, OURS, TEN_TOKENS, ordered, overlay, spots

SHARPNESS = 2.0


def grids(sizes: list[int], repeats: int, passing_sizes: list[int], passing: int) -> list[Grid]:
    """Half of the samples for the two steps, half for the readout; pooling gets all of them."""
    models = [{"model": "attention", "sharpness": SHARPNESS}, {"model": "pooled", "equal_samples": True}]
    places = [1.0, 2.0, 4.0, 8.0]
    line = sorted({*np.geomspace(0.5, 10.0, 10).tolist(), *places})
    far = sorted({*np.geomspace(0.25, 4.0, 9).tolist(), 1.0, 1.1, 1.2, 1.3})
    learner = {**TEN_TOKENS, "loss": "logistic", "ridge": 1e-2}

    def halves(alphas: list[float]) -> list[dict[str, Any]]:
        return [{**model, "alpha0": a / 2, "alpha1": a / 2} for model in models for a in alphas]

    return [
        Grid("simulated", "simulate", learner, {"d": sizes}, points=halves(places), repeats=repeats),
        Grid("predicted", "forecast", learner, points=halves(line)),
        Grid("bayes", "bayes_limit", TEN_TOKENS, {"alpha": line}),
        Grid("passing", "message_passing", TEN_TOKENS, {"d": passing_sizes, "alpha": places}, repeats=passing),
        Grid("hard", "bayes_limit", {**TEN_TOKENS, "length": 1000}, {"alpha": far}),
    ]


def total(table: Any) -> Any:
    """The column alpha: all samples of the staged training."""
    return table.assign(alpha=table["alpha0"] + table["alpha1"])


@claim("bayes-unbeaten", OURS)
def unbeaten(tables: Tables) -> Judgement:
    """No learner beats the Bayes limit.

    Four α: errors of attention and pooling above the limit beyond the margin, at both sizes; those of message passing, which
    comes closest, on average over α (d → ∞) not below it by 0.003, beyond the margin.
    """
    found = means_of(total(need(tables, "simulated", ["test_error"])), ["d", "model", "alpha"], "test_error")
    bayes = predictions_of(need(tables, "bayes", ["test_error"]), "alpha", "test_error", "test_error_se", np.inf)
    passing = limits_of(need(tables, "passing", ["test_error"]), "alpha", "test_error")
    verdicts = [larger(error, bayes[a], len(found)) for (_, _, a), error in found.items()]
    gaps = [error.value - bayes[a].value for a, error in passing.items()]
    error = float(np.sqrt(sum(error.error**2 for error in passing.values()))) / len(passing)
    mean = ValueWithError(float(np.mean(gaps)), error, min(error.degrees for error in passing.values()))
    nearest = min(error.value / bayes[a].value for (_, _, a), error in found.items())
    note = f"the nearest of attention and pooling is {nearest:.2f} times the limit"
    return Judgement(worst([*verdicts, larger(mean, -0.003)]), "0 on average for message passing", str(mean), note)


@claim("message-passing-reaches", OURS)
def reached(tables: Tables) -> Judgement:
    """Message passing reaches the predicted error.

    Four α, extrapolated to d → ∞, within the margin at level 0.1 %; resolution 0.03.
    """
    predicted = need(tables, "bayes", ["reachable_test_error"]).assign(
        test_error=lambda t: t["reachable_test_error"], se=lambda t: t["reachable_test_error_se"]
    )
    return judge_agreement(need(tables, "passing", ["test_error"]), predicted, "test_error", ["alpha"], 0.03, "se")


@claim("hard-phase", OURS)
def hard(tables: Tables) -> Judgement:
    """With long bags there is a phase where the optimum is out of message passing's reach.

    Fixed points of the theory, L = 1000, α = 1: squared cosines differ by more than 0.5 beyond the margin.
    """
    row = select(need(tables, "hard", ["overlap"]), {"alpha": 1.0}).iloc[0]
    best, reachable = (ValueWithError(row[name], row[f"{name}_se"]) for name in ("overlap", "reachable_overlap"))
    words = f"{best} against {reachable}"
    return ordered([(best._replace(value=best.value - 0.5), reachable)], "optimum far above what is reachable", words)


def draw(tables: Tables) -> list[Panel]:
    bayes, line = tables["bayes"].sort_values("alpha"), tables["hard"].sort_values("alpha")
    predicted, simulated, passing = total(tables["predicted"]), total(tables["simulated"]), colour("reachable")
    layers: list[Layer] = [
        Line(bayes["alpha"], bayes["test_error"], "Bayes limit", colour("bayes")),
        Line(bayes["alpha"], bayes["reachable_test_error"], "message passing: theory", passing, "dash"),
    ]
    for model in ("attention", "pooled"):
        pair = (select(table, {"model": model}) for table in (predicted, simulated))
        layers += overlay(pair, "alpha", "test_error", model)
    layers.append(spots(tables["passing"], "alpha", "test_error", "message passing", passing, "diamond"))
    phases = [
        Line(line["alpha"], line["overlap"], "best possible", colour("bayes")),
        Line(line["alpha"], line["reachable_overlap"], "reachable by message passing", passing, "dash"),
    ]
    label, squared = "all samples per dimension, α = α₀ + α₁", "squared cosine with the signal"
    return [
        Panel("Ten tokens per bag", label, AXES["test_error"], layers, logx=True, logy=True),
        Panel("A thousand tokens per bag: a hard phase", AXES["alpha"], squared, phases, logx=True),
    ]


def findings(tables: Tables) -> str:
    bayes = tables["bayes"].set_index("alpha")["test_error"]
    staged = select(total(tables["predicted"]), {"model": "attention"}).set_index("alpha")["test_error"]
    phase = tables["hard"][tables["hard"]["hard"].astype(bool)]["alpha"]
    return (
        f"At α = 2 nobody can do better than {bayes[2.0]:.4f}; staged attention (half of the samples for each stage, k = "
        f"{SHARPNESS:g}) has {staged[2.0]:.4f}. Message passing, which knows strength and sparsity, reaches the limit. With a "
        "thousand tokens per bag the limit exists but no known fast method reaches it between α = "
        f"{phase.min():.2g} and {phase.max():.2g} (on this grid)."
    )


limits = Study(
    name="limits",
    title="Limits: what is possible at all",
    question="How far are staged attention and pooling from the information-theoretic optimum, can a fast algorithm reach it, "
    "and where is it out of reach? (L = 10, R = 1, π = 0.5, θ = 5, λ = 10⁻², logistic; right: L = 1000.)",
    grids={"quick": grids([150, 300], 24, [100, 200], 36), "full": grids([500, 1000], 10, [500, 1000], 20)},
    draw=draw,
    findings=findings,
    claims=(
        unbeaten,
        reached,
        hard,
    ),
)

"""Test error against the length of the bags at one strength of the signal: the scaling experiment as it is usually posed."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._core.averages import extrapolate
from ...plotting.panels import Layer, Line, Panel, Points, Rule
from ...plotting.style import colour, marker
from ...study.claims import Claim, Judgement, Tables, format_value, greater_verdict, need, quantile, worst
from ...study.criteria import judge_agreement, select
from ...study.specification import Grid, Study
from .common import AXES, MODELS, PAPER
from .scaling import trained_setting

STRENGTH = 6.0
LENGTHS = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]
# The vectorized classifier's corrections are of order L/d, so it is simulated on shorter bags.
SIMULATED = {"attention": [4, 16, 64], "pooled": [4, 16, 64], "vectorized": [4, 8, 16]}
ALPHAS = {"alpha0": 2.0, "alpha1": 2.0}
TARGET = 0.25
LONGER = 5.0  # how much longer attention's bags may be than pooling's at that error, at least
RESOLUTION = 0.06
FIRST_SEED = 1000  # sizes and margins were chosen on others


def setting(model: str, length: int) -> dict[str, Any]:
    """As in the study `scaling`: ridge in units of the pooled features' size, k = sqrt(2 log L), equal samples."""
    return {**trained_setting(model, length), **ALPHAS, "strength": STRENGTH}


def grids(sizes: dict[str, list[int]], repeats: int) -> list[Grid]:
    lines = [setting(model, n) for model in MODELS for n in LENGTHS if n > 1 or model != "attention"]
    return [
        Grid("predicted", "forecast", points=lines),
        *(
            Grid(
                "simulated",
                "simulate",
                {},
                {"d": sizes[model]},
                points=[setting(model, n) for n in SIMULATED[model]],
                repeats=repeats,
                first_seed=FIRST_SEED,
            )
            for model in MODELS
        ),
    ]


def exact(tables: Tables) -> Judgement:
    simulated, predicted = need(tables, "simulated", ["test_error"]), need(tables, "predicted", ["test_error"])
    return judge_agreement(simulated, predicted, "test_error", ["model", "length"], RESOLUTION, "standard_error")


def order(tables: Tables) -> Judgement:
    """Attention below pooling below the vectorized classifier, at the lengths that all were simulated at."""
    found = extrapolate(need(tables, "simulated", ["test_error"]), ["model", "length"], "test_error")
    common = sorted(set.intersection(*(set(lengths) for lengths in SIMULATED.values())))
    rows = found.set_index(["model", "length"])
    verdicts, words = [], []
    for length in common:
        for low, high in (("attention", "pooled"), ("pooled", "vectorized")):
            a, b = rows.loc[(low, length)], rows.loc[(high, length)]
            margin = float(quantile(2 * len(common), min(a["degrees"], b["degrees"]))) * float(
                np.hypot(a["error"], b["error"])
            )
            verdicts.append(greater_verdict(b["limit"] - a["limit"], margin))
        listed = ", ".join(f"{m} {format_value(*rows.loc[(m, length), ['limit', 'error']])}" for m in MODELS)
        words.append(f"L = {length}: {listed}")
    return Judgement(worst(verdicts), "attention < pooled < vectorized", "; ".join(words))


def longest(tables: Tables, model: str) -> float:
    """The length at which the predicted error passes the target, interpolated in log L; infinite where it does not."""
    line = select(need(tables, "predicted", ["test_error"]), {"model": model}).sort_values("length")
    above = line["test_error"].to_numpy() > TARGET
    if not above.any():
        return float("inf")
    i = int(np.argmax(above))
    if i == 0:
        return float(line["length"].iloc[0])
    x, y = np.log(line["length"].to_numpy(float)), line["test_error"].to_numpy()
    return float(np.exp(np.interp(TARGET, y[i - 1 : i + 1], x[i - 1 : i + 1])))


def longer(tables: Tables) -> Judgement:
    """Simulated: at a length several times the one where pooling passes the target, attention is still below it."""
    limit = longest(tables, "pooled")
    found = extrapolate(
        select(need(tables, "simulated", ["test_error"]), {"model": "attention"}), ["length"], "test_error"
    )
    far = found[found["length"] >= LONGER * limit]
    words = f"pooling passes {TARGET:g} at L = {limit:.1f}"
    if not len(far):
        return Judgement(
            "undecided", f"below {TARGET:g}", "-", f"{words}; nothing was simulated at {LONGER:g} times that"
        )
    row = far.sort_values("length").iloc[0]
    margin = float(quantile(1, row["degrees"])) * row["error"]
    verdict = greater_verdict(TARGET - row["limit"], margin)
    return Judgement(
        verdict, f"below {TARGET:g}", f"{format_value(row['limit'], row['error'])} at L = {row['length']:g}", words
    )


def draw(tables: Tables) -> list[Panel]:
    layers: list[Layer] = []
    found = extrapolate(tables["simulated"], ["model", "length"], "test_error")
    for model in MODELS:
        line, seen = (
            select(tables["predicted"], {"model": model}).sort_values("length"),
            select(found, {"model": model}),
        )
        layers += [
            Line(line["length"], line["test_error"], f"{model}: theory", colour(model)),
            Points(
                seen["length"], seen["limit"], seen["error"], f"{model}: simulated, d → ∞", colour(model), marker(model)
            ),
        ]
    layers.append(Rule("y", TARGET, f"error {TARGET:g}"))
    return [
        Panel(f"Longer bags, one strength (θ = {STRENGTH:g})", AXES["length"], AXES["test_error"], layers, logx=True)
    ]


def findings(tables: Tables) -> str:
    words = ", ".join(f"{model} to L = {longest(tables, model):.0f}" for model in MODELS)
    rows = tables["predicted"].set_index(["model", "length"])["test_error"]
    listed = ", ".join(f"{rows[model, 64]:.3f} ({model})" for model in MODELS)
    return (
        f"At θ = {STRENGTH:g} and α = {sum(ALPHAS.values()):g} samples per dimension in all, an error of "
        f"{TARGET:g} is kept up by "
        f"{words}. At L = 64 the errors are {listed}. Short bags leave little to choose: with one token per bag "
        "pooling and the "
        "vectorized classifier are one and the same."
    )


study = Study(
    name="fixed-strength",
    title="Longer bags at one strength",
    question="The strength of the signal stays as it is and bags grow longer. What happens to the test error "
    "of attention, pooled "
    f"and vectorized classifiers on as many samples? (R = 1, π = 0.5, θ = {STRENGTH:g}, α₀ = α₁ = 2, logistic, λ = 10⁻²/L, "
    "k = sqrt(2 log L).)",
    grids={
        "quick": grids({"attention": [100, 300], "pooled": [100, 300], "vectorized": [40, 120]}, 28),
        "full": grids({"attention": [400, 1200], "pooled": [400, 1200], "vectorized": [100, 200]}, 30),
    },
    draw=draw,
    findings=findings,
    claims=(
        Claim(
            "fixed-strength-exact",
            "The theory gives the test error at every length",
            PAPER,
            "three lengths for each classifier, extrapolated to d → ∞, within the margin at level 0.1 %; "
            f"resolution {RESOLUTION:g}",
            exact,
        ),
        Claim(
            "fixed-strength-order",
            "At one strength attention has the least error and the vectorized classifier the largest",
            PAPER,
            "simulated, d → ∞, at the lengths that all three were simulated at: differences beyond the margin",
            order,
        ),
        Claim(
            "fixed-strength-longer",
            "Attention bears far longer bags than pooling",
            PAPER,
            f"at {LONGER:g} times the length where pooling's predicted error passes {TARGET:g}, attention's "
            "simulated one (d → ∞) is "
            "below it, beyond the margin",
            longer,
        ),
    ),
)

"""Test error and training loss of the trained classifiers (Theorems 2 and 3).

The studies: `fig1` (both against the number of samples), `rates` (how fast the error falls) and `positions` (signal tokens
that stay in their places).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from ..._core.averages import extrapolate
from ...plotting.panels import Layer, Line, Panel, Points
from ...plotting.style import colour, marker
from ...study.claims import Claim, Judgement, NotJudgeable, Tables, claim, need
from ...study.criteria import LineFit, fit_line, judge_agreement, limits_of, means_of, select
from ...study.study import Grid, Study
from ...study.verdicts import equal_verdict, format_value, quantile
from .common import AXES, MODELS, OURS, TEN_TOKENS, by_model, exact, first_crossing, largest, listed, ordered
from .sources import RATES, TEST_ERROR, checked

# The rates are chosen so that the trained softmax is neither pooling nor a hard maximum: k = beta ||q2|| = 1.96.
STEPS = {"loss": "logistic", "alpha0": 2.0, "eta_w": 1.0, "eta_b": 1.0, "eta_q": 28.0}


def fig1_grids(sizes: list[int], repeats: dict[str, int]) -> list[Grid]:
    """The three classifiers with one signal token, and attention with two as well."""
    fixed = {**TEN_TOKENS, **STEPS, "ridge": 1e-5, "beta": 1.0}
    axes: dict[str, list[Any]] = {"d": sizes, "alpha1": [0.5, 1.0, 2.0, 4.0, 6.0, 8.0]}
    line = [0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0, 6.0, 7.0, 8.0]
    curve = {**fixed, "over": "alpha1", "values": line}
    return [
        *(Grid("simulated", "simulate", {**fixed, "model": m}, axes, repeats=repeats[m]) for m in MODELS),
        Grid("predicted", "forecast_curve", curve, {"model": list(MODELS)}),
        Grid(
            "denser",
            "forecast",
            {**fixed, "alpha1": 4.0, "sharpness": 2.0},
            {"sparsity": [1, 2, 4], "model": list(MODELS)},
        ),
    ]


@claim("sparsity-trained", OURS)
def denser(tables: Tables) -> Judgement:
    """More signal tokens help every trained classifier, and pooling the most.

    Theory, α₀ = 2, α₁ = 4, k = 2: errors fall from R = 1 to 2 and 4, and pooling's distance to attention's shrinks.
    """
    found = need(tables, "denser", ["test_error"]).pivot_table(index="sparsity", columns="model", values="test_error")
    falls, gap = bool((found.diff().dropna() < 0).all().all()), found["pooled"] - found["attention"]
    verdict = "confirmed" if falls and gap.is_monotonic_decreasing else "refuted"
    words = "; ".join(f"{m} {', '.join(f'{e:.4f}' for e in found[m])}" for m in MODELS)
    return Judgement(verdict, "falling at R = 1, 2, 4", words)


def loss_exact(model: str):
    """On logarithms: below capacity the training loss is tiny, and an absolute margin would pass anything."""

    def criterion(tables: Tables) -> Judgement:
        parts = (select(need(tables, name, ["train_loss"]), {"model": model}) for name in ("simulated", "predicted"))
        simulated, predicted = (part.assign(log_loss=np.log(part["train_loss"])) for part in parts)
        judged = judge_agreement(simulated, predicted, "log_loss", ["alpha1"], 0.5)
        return replace(judged, predicted=f"log loss {judged.predicted}", measured=f"log loss {judged.measured}")

    return criterion


def draw_fig1(tables: Tables) -> list[Panel]:
    d, panels = int(tables["simulated"]["d"].max()), []
    for value, name in (("test_error", "Test error"), ("train_loss", "Training loss")):
        layers = by_model(tables["predicted"], tables["simulated"], "alpha1", value)
        panels.append(Panel(f"{name} (d = {d})", AXES["alpha1"], AXES[value], layers, logy=value == "train_loss"))
    return panels


def fig1_findings(tables: Tables) -> str:
    last = select(largest(tables["simulated"]), {"alpha1": 8.0})
    error = {model: found.value for model, found in means_of(last, "model", "test_error").items()}
    query = select(tables["predicted"], {"model": "attention"}).iloc[0]
    return (
        f"The trained query has cosine {query['cosine_q']:.3f} with the signal and inverse temperature k = {query['k']:.2f}. "
        f"At α₁ = 8 the errors are {error['attention']:.3f} (attention), {error['pooled']:.3f} (pooled) and "
        f"{error['vectorized']:.3f} (vectorized): the vectorized classifier fits all its data and generalises worst, because "
        f"its ten times more weights learn the same direction ten times over. With R = 1, 2, 4 signal tokens the errors at "
        f"α₁ = 4 are {denser(tables).measured}."
    )


fig1 = Study(
    name="fig1",
    title="Attention, pooling and the vectorized classifier",
    question="How do test error and training loss fall with the number of samples, and does the asymptotic theory give them "
    "exactly? (L = 10, R = 1, π = 0.5, θ = 5, λ = 10⁻⁵, logistic, α₀ = 2.)",
    notes="Learning rates: η_w = η_b = 1, η_q = 28, β = 1, so that the inverse temperature of the trained softmax is about 2; "
    "with η_q = 1 it would be 0.07, which is pooling.",
    grids={
        "quick": fig1_grids([150, 300], {"attention": 22, "pooled": 44, "vectorized": 16}),
        "full": fig1_grids([500, 1000], {"attention": 16, "pooled": 32, "vectorized": 8}),
    },
    draw=draw_fig1,
    findings=fig1_findings,
    claims=(
        *(
            exact(
                f"test-error-{model}",
                f"The asymptotic theory gives the test error of the {model} classifier",
                ["alpha1"],
                0.03,
                points="every α₁",
                where={"model": model},
                **checked(TEST_ERROR, "Check 2: error and loss"),
            )
            for model in MODELS
        ),
        *(
            exact(
                f"train-loss-{model}",
                f"The asymptotic theory gives the training loss of the {model} classifier",
                ["alpha1"],
                0.5,
                points="log of the loss at every α₁",
                criterion=loss_exact(model),
                **checked(TEST_ERROR, "Check 2: error and loss"),
            )
            for model in MODELS
        ),
        denser,
    ),
)


# The study `rates`.

WEIGHTS = {"attention": 1.0, "pooled": 1.0, "vectorized": 10.0}  # the vectorized classifier has L times more weights
RATE_SPOTS = [8.0, 16.0, 32.0, 64.0]
INFINITE = 1e7


def rates_grids(sizes: dict[str, list[int]], repeats: int) -> list[Grid]:
    query = {"cosine": 0.9, "sharpness": 2.0}
    laws: list[dict[str, Any]] = [{"model": m, **(query if m == "attention" else {})} for m in MODELS]
    square = {**TEN_TOKENS, "loss": "square"}
    spots = [
        {**law, "d": d, "alpha": WEIGHTS[law["model"]] * a}
        for law in laws
        for d in sizes[law["model"]]
        for a in RATE_SPOTS
    ]
    places = (*sorted({*np.geomspace(2.0, 1024.0, 19).tolist(), *RATE_SPOTS}), INFINITE)
    lines = [{**law, "alpha": [WEIGHTS[law["model"]] * a for a in places]} for law in laws]
    return [
        # The excess at the last spot is 8e-4: the limit it is measured from must be known far better.
        Grid("simulated", "readout", {**square, "ridge": 1e-9}, points=spots, repeats=repeats),
        Grid("predicted", "readout_theory", {**square, "ridge": 0.0, "accuracy": 4e-5}, points=lines),
    ]


def excess_predicted(tables: Tables, model: str) -> Any:
    """Predicted error above its limit, with alpha per weight (n over the number of weights)."""
    line = select(need(tables, "predicted", ["test_error"]), {"model": model}).sort_values("alpha")
    if line["alpha"].max() < INFINITE:
        raise NotJudgeable(f"{model}: no limit computed")
    limit = float(line["test_error"].iloc[-1])
    line = line[line["alpha"] < INFINITE]
    return line.assign(per_weight=line["alpha"] / WEIGHTS[model], excess=line["test_error"] - limit, limit_error=limit)


def excess_measured(tables: Tables, model: str) -> Any:
    """Simulated error at d -> infinity above the predicted limit."""
    found = extrapolate(select(need(tables, "simulated", ["test_error"]), {"model": model}), ["alpha"], "test_error")
    limit = float(excess_predicted(tables, model)["limit_error"].iloc[0])
    return found.assign(per_weight=found["alpha"] / WEIGHTS[model], excess=found["limit"] - limit)


def fitted(tables: Tables, model: str) -> tuple[LineFit, float, float]:
    """Simulated slope over RATE_SPOTS, the theory's there, and the theory's over its last decade."""
    found, line = excess_measured(tables, model), excess_predicted(tables, model)
    if (found["excess"] <= 0).any():
        raise NotJudgeable(f"{model}: the excess is lost in noise")
    fit = fit_line(np.log(found["per_weight"]), np.log(found["excess"]), found["error"] / found["excess"])
    there = line[np.isclose(line["per_weight"].to_numpy()[:, None], RATE_SPOTS).any(axis=1)]
    far = line[line["per_weight"] >= 100]
    same, last = (fit_line(np.log(part["per_weight"]), np.log(part["excess"])).slope for part in (there, far))
    return fit, same, last


def slope(model: str) -> Claim:
    """The claim that a classifier's excess error falls like 1/alpha1."""

    def criterion(tables: Tables) -> Judgement:
        fit, same, far = fitted(tables, model)
        verdict = equal_verdict(fit.slope - same, float(quantile()) * fit.slope_error, 0.2)
        note = f"theory: {same:.3f} on the simulated range, {far:.4f} over its last decade"
        measured = format_value(fit.slope, fit.slope_error)
        return Judgement(verdict if abs(far + 1) <= 0.02 else "refuted", "-1", measured, note)

    rule = "theory: slope −1 to 0.02 over its last decade; simulated (d → ∞): the theory's slope on the same range "
    statement = f"The excess error of the {model} classifier falls like 1/α₁"
    return Claim(f"rate-{model}", statement, f"{rule}within the margin; resolution 0.2", criterion, **RATES)


def draw_rates(tables: Tables) -> list[Panel]:
    layers: list[Layer] = []
    for model in MODELS:
        line, found = excess_predicted(tables, model), excess_measured(tables, model)
        dash = "dash" if model == "vectorized" else "solid"  # it lies on top of the pooled one
        at, name = (found["per_weight"], found["excess"], found["error"]), f"{model}: simulated, d → ∞"
        layers.append(Line(line["per_weight"], line["excess"], f"{model}: theory", colour(model), dash))
        layers.append(Points(*at, name, colour(model), marker(model)))
    x = np.array([10.0, 1000.0])
    layers.append(Line(x, 1.0 / x, "slope −1", "#555555", "dot"))
    label = "samples per weight, α₁ (vectorized: α₁/L)"
    return [Panel("Excess error, square loss, no ridge", label, "test error − its limit", layers, logx=True, logy=True)]


def rates_findings(tables: Tables) -> str:
    words, ends = [], []
    for model in MODELS:
        fit, _, far = fitted(tables, model)
        words.append(f"{model} {fit.slope:.2f} ± {fit.slope_error:.2f} simulated, {far:.3f} in theory at large α₁")
        ends.append(f"{model} {float(excess_predicted(tables, model)['limit_error'].iloc[0]):.3f}")
    return (
        f"Fitted slopes: {'; '.join(words)}. All classifiers learn at the same rate; what differs is where they end: "
        f"{', '.join(ends)}."
    )


rates = Study(
    name="rates",
    title="The error approaches its limit like 1/α₁",
    question="With the square loss and no ridge: how fast does the test error of the three classifiers fall to its limit at "
    "infinitely many samples? (L = 10, R = 1, π = 0.5, θ = 5; attention with cosine 0.9 and k = 2.)",
    notes="Simulations use λ = 10⁻⁹ in place of zero. The limit that is subtracted is the theory's.",
    grids={
        "quick": rates_grids({"attention": [100, 200], "pooled": [60, 120], "vectorized": [8, 16]}, 44),
        "full": rates_grids({"attention": [200, 400], "pooled": [200, 400], "vectorized": [20, 40]}, 40),
    },
    draw=draw_rates,
    findings=rates_findings,
    claims=tuple(map(slope, MODELS)),
)


# The study `positions`.

PLACED = {**TEN_TOKENS, **STEPS, "ridge": 1e-3}
PLACED_SPOTS = [1.0, 2.0, 4.0, 8.0, 16.0]
POSITIONS = {"uniform": "Signal at random tokens", "fixed": "Signal always at the same token"}
# With the signal always at the same R tokens the flattened bag has SNR theta sqrt(R) instead of theta R/sqrt(L): the
# vectorized law with the strength below.
FIXED_STRENGTH = float(TEN_TOKENS["strength"] * np.sqrt(TEN_TOKENS["length"] / TEN_TOKENS["sparsity"]))


def positions_grids(sizes: list[int], repeats: int, more: int = 0) -> list[Grid]:
    """The trials of one form; the point that scatters most has `more` repeats."""
    axes: dict[str, list[Any]] = {"d": sizes, "positions": list(POSITIONS), "model": ["attention", "vectorized"]}
    lines: list[dict[str, Any]] = [
        {"model": "attention"},
        {"model": "vectorized"},
        {"model": "vectorized", "strength": FIXED_STRENGTH},
    ]
    values = sorted({*PLACED_SPOTS, *(float(a) for a in np.geomspace(0.7, 22.0, 12))})
    noisiest = {**PLACED, "positions": "fixed", "model": "vectorized", "alpha1": PLACED_SPOTS[0]}
    further = [Grid("simulated", "simulate", noisiest, {"d": sizes}, repeats=more, first_seed=repeats)] if more else []
    return [
        Grid("simulated", "simulate", PLACED, {**axes, "alpha1": PLACED_SPOTS}, repeats=repeats),
        *further,
        Grid("predicted", "forecast_curve", {**PLACED, "over": "alpha1", "values": values}, points=lines),
    ]


def placed(tables: Tables) -> Any:
    """Predictions with the column `positions` they hold for; attention does not see positions at all."""
    table = need(tables, "predicted", ["test_error"])
    stronger, attention = table["strength"] == FIXED_STRENGTH, table["model"] == "attention"
    parts = (table[attention | (stronger == (kind == "fixed"))].assign(positions=kind) for kind in POSITIONS)
    return pd.concat(parts, ignore_index=True)


@claim("positions-exact", OURS)
def positions_exact(tables: Tables) -> Judgement:
    """The theory covers fixed positions too: the vectorized law at SNR θ√R.

    Both classifiers, both position laws, five α₁, extrapolated to d → ∞, within the margin at level 0.1 %; resolution 0.03.
    """
    on, simulated = ["positions", "model", "alpha1"], need(tables, "simulated", ["test_error"])
    return judge_agreement(simulated, placed(tables), "test_error", on, 0.03, "standard_error")


@claim("positions-advantage", TEST_ERROR)
def vanishes(tables: Tables) -> Judgement:
    """Attention beats the vectorized classifier because signals move; with fixed positions and enough samples its advantage
    vanishes.

    d → ∞: vectorized error above attention's at all five α₁ with random positions, below it at α₁ = 16 with fixed ones.
    """
    by, last = ["positions", "model", "alpha1"], max(PLACED_SPOTS)
    found = limits_of(need(tables, "simulated", ["test_error"]), by, "test_error")
    pairs = [(found["uniform", "vectorized", a], found["uniform", "attention", a]) for a in PLACED_SPOTS]
    pairs.append((found["fixed", "attention", last], found["fixed", "vectorized", last]))
    words = (f"{kind}: {listed({m: found[kind, m, last] for m in ('attention', 'vectorized')})}" for kind in POSITIONS)
    return ordered(pairs, "advantage with moving positions only", "; ".join(words), f"at α₁ = {last:g}")


def draw_positions(tables: Tables) -> list[Panel]:
    theory, panels = placed(tables), []
    for kind, title in POSITIONS.items():
        line, runs = (select(table, {"positions": kind}) for table in (theory, tables["simulated"]))
        layers = by_model(line, runs, "alpha1", "test_error", ("attention", "vectorized"))
        panels.append(Panel(title, AXES["alpha1"], AXES["test_error"], layers, logx=True, logy=True))
    return panels


def positions_findings(tables: Tables) -> str:
    table = select(placed(tables), {"positions": "fixed"})
    errors = table.pivot_table(index="alpha1", columns="model", values="test_error")
    at = np.exp(first_crossing(np.log(errors.index), errors["vectorized"] - errors["attention"]))
    return (
        "Attention and pooling cannot tell where a token stands; the vectorized classifier can, and profits when the signal "
        f"stays put. Its L times more weights still have to be learnt: with fixed positions it overtakes attention at about "
        f"α₁ = {at:.1f}. For fixed positions attention has an advantage with few samples only."
    )


positions = Study(
    name="positions",
    title="Moving against fixed positions",
    question="If the signal always sits at the same tokens, does attention's advantage over the vectorized classifier vanish? "
    "(L = 10, R = 1, π = 0.5, θ = 5, λ = 10⁻³, logistic, α₀ = 2, k = 1.96.)",
    grids={"quick": positions_grids([60, 120], 30, 40), "full": positions_grids([250, 500], 10)},
    draw=draw_positions,
    findings=positions_findings,
    claims=(
        positions_exact,
        vanishes,
    ),
)

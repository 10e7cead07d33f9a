"""The test error: as samples grow (`rates`), as bags grow longer (`fixed-strength`), at other lengths (`lengths`)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..._core.averages import with_error
from ...plotting.panels import Layer, Line, Panel, Rule, by_model, estimates, spots
from ...plotting.style import AXES, OTHER_COLOURS, colour, marker
from ...study.claims import Claim, Judgement, NotJudgeable, Tables, claim, need
from ...study.criteria import LineFit, ValueWithError, fit_line, greater_verdict, judge_slope, limits_of, select, worst
from ...study.study import Grid, sized
from ..stated_results import RATES, TEST_ERROR
from . import MODELS, OURS, TEN_TOKENS, Resolution
from .capacity import law
from .claim_builders import exact, first_crossing, listed, log_fit, ordered, pair, provided, study, value_at
from .ridgeless import QUERY, SQUARE
from .separation import trained_setting

# The study `rates`.

WEIGHTS = {"attention": 1.0, "pooled": 1.0, "vectorized": 10.0}  # the vectorized classifier has L times more weights
RATE_SPOTS = [8.0, 16.0, 32.0, 64.0]
INFINITE = 1e7


@sized(
    quick=({"attention": [100, 200], "pooled": [60, 120], "vectorized": [8, 16]}, 44),
    full=({"attention": [200, 400], "pooled": [200, 400], "vectorized": [20, 40]}, 40),
)
def rates_grids(sizes: dict[str, list[int]], repeats: int) -> list[Grid]:
    places = (*sorted({*np.geomspace(2.0, 1024.0, 19).tolist(), *RATE_SPOTS}), INFINITE)
    spots, lines = [], []
    for model, weights in WEIGHTS.items():
        point = law(model, **QUERY)
        spots += [{**point, "d": d, "alpha": weights * a} for d in sizes[model] for a in RATE_SPOTS]
        lines.append({**point, "alpha": [weights * a for a in places]})
    return [
        # The excess at the last spot is 8e-4: the limit it is measured from must be known far better.
        Grid("simulated", "readout", {**SQUARE, "ridge": 1e-9}, points=spots, repeats=repeats),
        Grid("predicted", "readout_theory", {**SQUARE, "ridge": 0.0, "accuracy": 4e-5}, points=lines),
    ]


def excess_predicted(tables: Tables, model: str) -> Any:
    """Predicted error above its limit, with alpha per weight (n over the number of weights)."""
    line = select(need(tables, "predicted", ["test_error"]), {"model": model}).sort_values("alpha")
    if line["alpha"].max() < INFINITE:
        raise NotJudgeable(f"{model}: no limit computed")
    limit = float(line["test_error"].iloc[-1])
    line = line[line["alpha"] < INFINITE]
    return line.assign(per_weight=line["alpha"] / WEIGHTS[model], excess=line["test_error"] - limit, limit_error=limit)


def excess_measured(tables: Tables, model: str) -> dict[float, ValueWithError]:
    """Simulated error at d -> infinity above the predicted limit, by alpha per weight."""
    found = limits_of(select(need(tables, "simulated", ["test_error"]), {"model": model}), "alpha", "test_error")
    limit = float(excess_predicted(tables, model)["limit_error"].iloc[0])
    return {alpha / WEIGHTS[model]: error.minus(limit) for alpha, error in found.items()}


def fitted(tables: Tables, model: str) -> tuple[LineFit, float, float]:
    """Simulated slope over RATE_SPOTS, the theory's there, and the theory's over its last decade."""
    found, line = excess_measured(tables, model), excess_predicted(tables, model)
    if min(excess.value for excess in found.values()) <= 0:
        raise NotJudgeable(f"{model}: the excess is lost in noise")
    there = line[np.isclose(line["per_weight"].to_numpy()[:, None], RATE_SPOTS).any(axis=1)]
    far = line[line["per_weight"] >= 100]
    same, last = (fit_line(np.log(part["per_weight"]), np.log(part["excess"])).slope for part in (there, far))
    return log_fit(found), same, last


def slope(model: str) -> Claim:
    def criterion(tables: Tables) -> Judgement:
        fit, same, far = fitted(tables, model)
        note = f"theory: {same:.3f} on the simulated range, {far:.4f} over its last decade"
        return provided(
            abs(far + 1) <= 0.02, replace(judge_slope(fit, same, Resolution.EXPONENT, note), predicted="-1")
        )

    rule = "theory: slope −1 to 0.02 over its last decade; simulated (d → ∞): the theory's slope on the same range "
    statement = f"The excess error of the {model} classifier falls like 1/α₁"
    return Claim(f"rate-{model}", statement, f"{rule}within the margin; resolution 0.2", criterion, **RATES)


def draw_rates(tables: Tables) -> list[Panel]:
    layers: list[Layer] = []
    for model in MODELS:
        line, name = excess_predicted(tables, model), f"{model}: simulated, d → ∞"
        dash = "dash" if model == "vectorized" else "solid"  # it lies on top of the pooled one
        layers.append(Line(line["per_weight"], line["excess"], f"{model}: theory", colour(model), dash))
        layers.append(estimates(excess_measured(tables, model), name, colour(model), marker(model)))
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


rates = study("rates", rates_grids, draw_rates, rates_findings, tuple(map(slope, MODELS)))


# The study `fixed-strength`.

TOLERATED = 0.25  # test error up to which a length counts as tolerated


@sized(
    quick=({"attention": [100, 300], "pooled": [100, 300], "vectorized": [40, 120]}, 28),
    full=({"attention": [400, 1200], "pooled": [400, 1200], "vectorized": [100, 200]}, 30),
)
def fixed_strength_grids(sizes: dict[str, list[int]], repeats: int) -> list[Grid]:
    """As in the study `scaling`, with fewer samples; seeds other than those that sizes were chosen on."""

    def setting(model: str, length: int) -> dict[str, Any]:
        return {**trained_setting(model, length), "alpha0": 2.0, "alpha1": 2.0, "strength": 6.0}

    lines = [setting(model, 2**i) for model in MODELS for i in range(10) if i or model != "attention"]
    # Queries scatter most between data sets at L = 256. The vectorized classifier's corrections are of order L/d.
    runs = [
        ("attention", [256], 3 * repeats),
        ("attention", [4, 16, 64], repeats),
        ("pooled", [4, 16, 64, 256], repeats),
    ]
    runs.append(("vectorized", [4, 8, 16], repeats))
    return [
        Grid("predicted", "forecast", points=lines),
        *(
            Grid("simulated", "simulate", {}, {"d": sizes[m]}, [setting(m, n) for n in lengths], times, 1000)
            for m, lengths, times in runs
        ),
    ]


@exact("fixed-strength-exact", TEST_ERROR, ["model", "length"], Resolution.COARSE)
def errors_exact(tables: Tables) -> Any:
    """The theory gives the test error at every length.

    L = 4 to 256 for attention and pooling, 4 to 16 for the vectorized classifier.
    """
    return pair(tables)


@claim("fixed-strength-order", TEST_ERROR)
def error_order(tables: Tables) -> Judgement:
    """At one strength attention has the least error and the vectorized classifier the largest.

    Simulated, d → ∞, at the lengths that all three were simulated at: differences beyond the margin.
    """
    found = limits_of(need(tables, "simulated", ["test_error"]), ["model", "length"], "test_error")
    common = sorted(set.intersection(*({n for m, n in found if m == model} for model in MODELS)))
    pairs = [(found[b, n], found[a, n]) for n in common for a, b in (("attention", "pooled"), ("pooled", "vectorized"))]
    words = (f"L = {n}: " + listed({model: found[model, n] for model in MODELS}) for n in common)
    return ordered(pairs, "attention < pooled < vectorized", "; ".join(words))


def longest(tables: Tables, model: str) -> float:
    """The length at which the predicted error passes the tolerated one, interpolated in log L; infinite where it does not."""
    line = select(need(tables, "predicted", ["test_error"]), {"model": model}).sort_values("length")
    at = float(np.exp(first_crossing(np.log(line["length"]), TOLERATED - line["test_error"])))
    return at if np.isfinite(at) else np.inf


@claim("fixed-strength-longer", TEST_ERROR)
def longer(tables: Tables) -> Judgement:
    """Attention tolerates far longer bags than pooling.

    At five times the length where pooling's predicted error passes 0.25 or more, attention's simulated one (d → ∞) is below
    0.25, beyond the margin.
    """
    limit = longest(tables, "pooled")
    attention = select(need(tables, "simulated", ["test_error"]), {"model": "attention"})
    far = {n: found for n, found in limits_of(attention, "length", "test_error").items() if n >= 5 * limit}
    if not far:
        raise NotJudgeable(f"pooling passes {TOLERATED:g} at L = {limit:.1f}; nothing was simulated at 5 times that")
    n = min(far)
    note = f"pooling passes {TOLERATED:g} at L = {limit:.1f}"
    return ordered([(TOLERATED, far[n])], f"below {TOLERATED:g}", f"{far[n]} at L = {n:g}", note)


def draw_fixed_strength(tables: Tables) -> list[Panel]:
    layers = by_model(tables["predicted"], tables["simulated"], "length", "test_error", limit=True)
    layers.append(Rule("y", TOLERATED, f"error {TOLERATED:g}"))
    return [Panel("Longer bags, one strength (θ = 6)", AXES["length"], AXES["test_error"], layers, logx=True)]


def fixed_strength_findings(tables: Tables) -> str:
    words = ", ".join(f"{model} to L = {longest(tables, model):.0f}" for model in MODELS)
    return (
        f"At θ = 6 and four samples per dimension in all, an error of {TOLERATED:g} is kept up by {words}. "
        "Attention's longest bags grow like αθ⁴, pooling's like θ² (study `ladder`): beyond them the query is no longer found."
    )


fixed_strength = study(
    "fixed-strength",
    fixed_strength_grids,
    draw_fixed_strength,
    fixed_strength_findings,
    (errors_exact, error_order, longer),
)


# The study `lengths`.

NEAREST, FURTHEST = 10, 1000  # tokens per bag: those of the training, and a hundred times as many


@sized(quick=([150, 500], 48), full=([500, 1000], 60))
def lengths_grids(sizes: list[int], repeats: int) -> list[Grid]:
    fixed = {**TEN_TOKENS, "alpha0": 2.0, "alpha1": 2.0, "ridge": 1e-2, "loss": "logistic"}
    attention, lengths = {**fixed, "model": "attention"}, [NEAREST, 20, 50, 100, 300, FURTHEST]
    axes: dict[str, list[Any]] = {"d": sizes, "test_length": [NEAREST, 100, FURTHEST]}
    return [
        # Repeats were chosen on other seeds.
        Grid("simulated", "simulate", attention, axes, repeats=repeats, first_seed=8000),
        Grid("predicted", "length_theory", {**fixed, "test_lengths": lengths}),
        Grid("retrained", "forecast", attention, {"length": lengths}),
    ]


def tested_at(tables: Tables, length: int) -> Any:
    return select(need(tables, "predicted", ["threshold_error"]), {"test_length": length}).iloc[0]


@exact("lengths-exact", OURS, ["test_length"], Resolution.COARSE)
def lengths_exact(tables: Tables) -> Any:
    """The theory gives the test error at any length, for a classifier trained at another.

    L, 10 L and 100 L.
    """
    return pair(tables)


@claim("lengths-threshold", OURS)
def threshold_first(tables: Tables) -> Judgement:
    """On bags a hundred times longer the threshold costs more than sharpness and query together.

    100 L: error saved by fitting the threshold > what fitting the sharpness and knowing ξ save besides, by 0.012.
    """
    row = tested_at(tables, FURTHEST)
    threshold, others = row["test_error"] - row["threshold_error"], row["threshold_error"] - row["query_error"]
    # Fitted errors have no error bars: 0.012 is twelve times the change with finer draws.
    verdict, words = greater_verdict(threshold - others, 0.012), f"{threshold:.3f} against {others:.3f}"
    return Judgement(verdict, "threshold's part > the others'", words)


@claim("lengths-ranking", OURS)
def ranking_survives(tables: Tables) -> Judgement:
    """On bags a hundred times longer the ranking of bags survives where the error does not.

    100 L: error above 0.2 and AUC above 0.9, beyond three standard errors.
    """
    row = tested_at(tables, FURTHEST)
    above = (
        greater_verdict(row[name] - least, 3 * row["standard_error"])
        for name, least in (("test_error", 0.2), ("auc", 0.9))
    )
    words = f"{with_error(row['test_error'])}, {with_error(row['auc'])}"
    return Judgement(worst(above), "error > 0.2, AUC > 0.9", words)


def draw_lengths(tables: Tables) -> list[Panel]:
    table, retrained = tables["predicted"].sort_values("test_length"), tables["retrained"].sort_values("length")
    x, orange, other = table["test_length"], colour("attention"), OTHER_COLOURS
    layers: list[Layer] = [
        Line(x, table["test_error"], "as trained", orange),
        spots(tables["simulated"], "test_length", "test_error", "", orange, marker("attention")),
        Line(x, table["threshold_error"], "threshold fitted", other[0], "dash"),
        Line(x, table["sharpness_error"], "threshold and sharpness fitted", other[1], "dashdot"),
        Line(x, table["query_error"], "the same with the query ξ", other[3], "dot"),
        Line(retrained["length"], retrained["test_error"], "trained at that length, same rates", other[4]),
    ]
    scores: list[Layer] = [
        Line(x, table["auc"], "AUC", other[0]),
        Line(x, table["sensitivity"], "sensitivity", orange),
        Line(x, table["specificity"], "specificity", colour("pooled"), "dash"),
    ]
    length = "tokens per bag at test time"
    return [
        Panel("Trained at L = 10", length, AXES["test_error"], layers, logx=True, ylim=(0.0, 0.7)),
        Panel("Ranking and threshold", length, "share", scores, logx=True, ylim=(0.4, 1.05)),
    ]


def lengths_findings(tables: Tables) -> str:
    first, row = tested_at(tables, NEAREST), tested_at(tables, FURTHEST)
    longest = value_at(tables, "retrained", length=FURTHEST)
    errors = [row[name] for name in ("test_error", "threshold_error", "sharpness_error", "query_error")]
    parts = zip(("threshold", "sharpness", "query"), errors, errors[1:])
    listed = ", ".join(f"{before - after:.3f} to the {name}" for name, before, after in parts)
    return (
        f"An attention classifier trained on bags of {NEAREST} tokens has an error of {first['test_error']:.3f} there and "
        f"of {row['test_error']:.3f} on bags of {FURTHEST}, where its AUC is still {row['auc']:.3f}: it ranks bags well and "
        f"puts the threshold in the wrong place (sensitivity {row['sensitivity']:.2f}, specificity {row['specificity']:.4f}). "
        f"Of the error it loses {listed}; {row['query_error']:.3f} would be left with the query ξ itself. Training on the long "
        "bags themselves, at the same rates and samples, is no remedy: the two gradient steps find no query there (error "
        f"{longest:.3f})."
    )


lengths = study(
    "lengths", lengths_grids, draw_lengths, lengths_findings, (lengths_exact, threshold_first, ranking_survives)
)

"""The square loss without a ridge: how fast its error falls, its peak at interpolation, and the margins' laws."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from ..._core.averages import extrapolate, summarise
from ...plotting.panels import Histogram, Layer, Line, Panel, Points, Rule, by_model, largest
from ...plotting.style import AXES, colour, marker
from ...study.claims import Claim, Judgement, NotJudgeable, Tables, claim, need
from ...study.criteria import (
    LineFit,
    ValueWithError,
    fit_line,
    judge_agreement,
    judge_slope,
    limits_of,
    means_of,
    select,
)
from ...study.study import Grid, sized
from ..stated_results import RATES
from .common import MODELS, OURS, TEN_TOKENS, Resolution, both, exact, listed, ordered, pair, provided, study

QUERY = {"cosine": 0.9, "sharpness": 2.0}
SQUARE = {**TEN_TOKENS, "loss": "square"}


def laws(models: Iterable[str]) -> list[dict[str, Any]]:
    return [{"model": m, **(QUERY if m == "attention" else {})} for m in models]


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
    for law in laws(MODELS):
        weights, of_model = WEIGHTS[law["model"]], sizes[law["model"]]
        spots += [{**law, "d": d, "alpha": weights * a} for d in of_model for a in RATE_SPOTS]
        lines.append({**law, "alpha": [weights * a for a in places]})
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


rates = study("rates", rates_grids, draw_rates, rates_findings, tuple(map(slope, MODELS)))


# The study `interpolation`.

TWO = ("attention", "pooled")
JUDGED = [0.25, 0.5, 0.75, 1.5, 2.0, 3.0]  # away from the peak, where the correction is not of order 1/d
BINS = {"low": -3.0, "high": 12.0, "bins": 30}


@sized(
    quick=(150, {"attention": 20, "pooled": 32}, [200, 400], 30, 120),
    full=(500, {"attention": 16, "pooled": 32}, [1000, 2000], 20, 160),
)
def interpolation_grids(
    size: int, repeats: dict[str, int], margin_sizes: list[int], margin_repeats: int, left_out: int
) -> list[Grid]:
    """Below the threshold samples are few and dimensions cheap: larger d there, so that n is not tiny."""
    spots = sorted([*JUDGED, 0.9, 1.0, 1.1, 1.25])
    line = sorted({*np.linspace(0.1, 3.0, 30).tolist(), *JUDGED, 0.15, 0.95, 0.98, 1.02, 1.05} - {1.0})
    readout = {"loss": "logistic", "ridge": 1e-2, "model": "attention", **QUERY}
    fixed = {**TEN_TOKENS, "alpha": 4.0, **readout}
    margins = {**fixed, **BINS}
    both_laws = laws(repeats)
    below: dict[str, list[Any]] = {"d": [2 * size, 4 * size], "alpha": [a for a in spots if a < 1]}
    above: dict[str, list[Any]] = {"d": [size, 2 * size], "alpha": [a for a in spots if a >= 1]}
    return [
        *(
            Grid("simulated", "readout", {**SQUARE, "ridge": 1e-9, **law}, axes, repeats=repeats[law["model"]])
            for law in both_laws
            for axes in (below, above)
        ),
        Grid("predicted", "readout_theory", {**SQUARE, "ridge": 0.0, "alpha": line}, points=both_laws),
        Grid("margins", "margins", margins, {"d": margin_sizes}, repeats=margin_repeats),
        Grid("margins_predicted", "margins_theory", margins),
        # Sizes and repeats were chosen on other seeds.
        Grid("left_out", "left_out", {**fixed, "d": margin_sizes[0] // 2}, repeats=left_out, first_seed=8000),
        Grid("left_out", "left_out", {**fixed, "d": margin_sizes[1]}, repeats=16, first_seed=8000),
    ]


@exact("ridgeless-exact", OURS, ["model", "alpha"], Resolution.COARSE)
def away_exact(tables: Tables) -> Any:
    """The closed form gives the ridgeless test error on both sides of the interpolation threshold.

    Attention and pooled at six α away from the peak.
    """
    simulated, predicted = pair(tables)
    return simulated[simulated["alpha"].isin(JUDGED)], predicted


def largest_there(table: Any) -> Any:
    """Rows of the largest size at each alpha."""
    return table[table["d"] == table.groupby("alpha")["d"].transform("max")]


@claim("interpolation-peak", OURS)
def peak(tables: Tables) -> Judgement:
    """The ridgeless error peaks where samples equal weights (α = 1).

    Largest d: error at α = 1 above those at α = 0.5 and 2 beyond the margin, both classifiers.
    """
    found = means_of(largest_there(need(tables, "simulated", ["test_error"])), ["model", "alpha"], "test_error")
    pairs = [(found[model, 1.0], found[model, a]) for model in TWO for a in (0.5, 2.0)]
    words = (f"{m}: " + ", ".join(f"{found[m, a].value:.3f}" for a in (0.5, 1.0, 2.0)) for m in TWO)
    return ordered(pairs, "0.5 at α = 1 (d → ∞), less on both sides", "; ".join(words), "errors at α = 0.5, 1, 2")


@claim("margin-laws", OURS)
def margin_laws(tables: Tables) -> Judgement:
    """Training and test margins follow the predicted laws.

    Share of margins in every bin of width 0.5 with more than 0.5 %, extrapolated to d → ∞, within the margin at level 0.1
    %; resolution 0.03.
    """
    simulated, predicted = need(tables, "margins", ["train_share"]), need(tables, "margins_predicted", ["train_share"])
    parts = {}
    for name in ("train", "test"):
        common = predicted[predicted[f"{name}_share"] >= 0.005]  # rarer ones scatter unlike Student's t
        drawn = simulated[simulated["bin"].isin(common["bin"])]
        parts[f"{name} share"] = judge_agreement(drawn, common, f"{name}_share", ["bin"], Resolution.FINE)
    return both(parts)


@claim("leave-one-out", OURS)
def leave_one_out(tables: Tables) -> Judgement:
    """A training bag's score by a readout fitted without it is r + V κ² ℓ′(r), with the theory's V.

    Bags left out one at a time: the shortcut's mean squared distance from the true score is below 4 % of what leaving the bag
    out changes at the largest d, and a smaller share there than at the smallest, beyond the margin over data sets.
    """
    table = need(tables, "left_out", ["fitted", "left_out", "shortcut"])
    for name in ("shortcut", "fitted"):
        table = table.assign(**{name: (table[name] - table["left_out"]) ** 2})
    runs = table.groupby(["d", "seed"])[["shortcut", "fitted"]].mean()
    found = {}
    for d, part in runs.groupby("d"):
        share = float(part["shortcut"].mean() / part["fitted"].mean())
        # Of a ratio of means, by the deviations from it.
        off = (part["shortcut"] - share * part["fitted"]) / part["fitted"].mean()
        found[d] = ValueWithError(share, float(off.std(ddof=1)) / len(part) ** 0.5, len(part) - 1)
    low, high = found[min(found)], found[max(found)]
    return ordered([(0.04, high), (low, high)], "below 0.04, falling with d", listed(found, "d"), f"{len(table)} bags")


def draw_interpolation(tables: Tables) -> list[Panel]:
    shown = largest_there(tables["simulated"])
    # Each α has its own largest d.
    layers = by_model(tables["predicted"], shown.assign(d=0), "alpha", "test_error")
    layers.append(Rule("x", 1.0, "interpolation threshold"))
    title = f"Ridgeless square loss (d = {int(shown['d'].min())} and more)"
    panels = [Panel(title, AXES["alpha"], AXES["test_error"], layers)]
    edges = np.linspace(BINS["low"], BINS["high"], int(BINS["bins"]) + 1)
    width, middle = edges[1] - edges[0], 0.5 * (edges[:-1] + edges[1:])
    for name, title in (("train", "Training margins"), ("test", "Test margins")):
        share = summarise(largest(tables["margins"]), "bin", f"{name}_share").sort_values("bin")["mean"].to_numpy()
        predicted = tables["margins_predicted"].sort_values("bin")[f"{name}_share"].to_numpy()
        bars: list[Layer] = [
            Histogram(edges, share / width, "simulated", "#9CB8CF"),
            Points(middle, predicted / width, None, "theory (bin averages)", colour("attention")),
        ]
        title = f"{title} (logistic, α = 4, λ = 0.01)"
        panels.append(Panel(title, "margin y (⟨w, f⟩ + b)", "probability density", bars))
    return panels


def interpolation_findings(tables: Tables) -> str:
    found = limits_of(tables["simulated"], ["model", "alpha"], "test_error")
    return (
        "With as many samples as weights the ridgeless square loss fits its data exactly: the norm diverges and the error "
        "rises to one half. Fewer samples are better than exactly enough: at α = 0.5 the errors are "
        f"{' and '.join(f'{model} {found[model, 0.5]}' for model in TWO)}. Training margins pile up where the loss is "
        "small, test margins keep a tail of errors; both laws follow from the same few numbers."
    )


interpolation = study(
    "interpolation",
    interpolation_grids,
    draw_interpolation,
    interpolation_findings,
    (away_exact, peak, margin_laws, leave_one_out),
)

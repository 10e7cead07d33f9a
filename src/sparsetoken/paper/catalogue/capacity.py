"""How many samples can be separated (Conjecture 1), and the training loss on both sides of that capacity."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from ..._core.averages import summarise
from ...plotting.panels import Layer, Line, Panel, Points, Rule, estimates, level, overlay
from ...plotting.style import AXES, OTHER_COLOURS, REFERENCE, colour, marker, plain_number
from ...study.claims import Claim, Judgement, NotJudgeable, Tables, claim, need
from ...study.criteria import (
    ValueWithError,
    equal_verdict,
    fit_line,
    limits_of,
    near,
    predictions_of,
    quantile,
    select,
    worst,
)
from ...study.study import Grid, sized
from ..stated_results import CAPACITY, TEST_ERROR, checked, stated_of
from .common import ALIKE, MODELS, OURS, Resolution, decided, exact, listed, ordered, pair, power_law, provided, study

TASK = {"length": 10, "sparsity": 1, "strength": 3.0, "prevalence": 0.5}
OVER_CAPACITY = "samples over predicted capacity, α/α*"


def law(model: str) -> dict[str, Any]:
    return {"model": model, **({"cosine": 0.8, "sharpness": 1.0} if model == "attention" else {})}


# Crossings: where half of the draws, each an endless sequence of samples, stop being separable.


def draws_grids(size: str) -> list[Grid]:
    """The draws of `capacity`, which `transition` shares; `alpha_high` is where a draw ends, far beyond its capacity."""
    scale, repeats = (1, 40) if size == "quick" else (2, 120)
    cut = {"pooled": 7.0, "attention": 14.0, "vectorized": 45.0}
    sizes = dict.fromkeys(MODELS, (25, 50, 100)) | {"vectorized": (6, 12, 24) if size == "quick" else (5, 10, 20)}
    points = [{**law(m), "alpha_high": cut[m], "d": scale * d} for m in MODELS for d in sizes[m]]
    twice = [
        {**law(m), "sparsity": 2, "alpha_high": high, "d": scale * d}
        for m, high in (("pooled", 14.0), ("attention", 24.0))
        for d in (15, 30, 60)
    ]
    return [
        Grid("draws", "separability", TASK, points=points, repeats=repeats),
        Grid("twice_draws", "separability", TASK, points=twice, repeats=9 * repeats // 4, first_seed=8000),
    ]


def medians(draws: Any, by: str = "model") -> Any:
    """The 50 % crossing at each size, with a standard error by the bootstrap (fixed seed)."""
    rng = np.random.default_rng(0)
    rows = []
    for (name, d), part in draws.groupby([by, "d"], sort=False):
        values = part["alpha_star"].to_numpy()
        if len(values) < 10:
            raise NotJudgeable(f"{len(values)} draws of {name} at d = {d}")
        copies = np.median(rng.choice(values, (2000, len(values))), axis=1)
        rows.append({by: name, "d": d, "median": np.median(values), "error": copies.std(ddof=1)})
    return pd.DataFrame(rows)


def crossings(draws: Any, by: str = "model") -> dict[Any, ValueWithError]:
    """The crossings extrapolated to 1/d = 0 by a straight line in 1/d."""
    found = {}
    for name, part in medians(draws, by).groupby(by, sort=False):
        if len(part) < 2:
            raise NotJudgeable(f"{name}: crossings at {len(part)} sizes")
        fit = fit_line(1.0 / part["d"], part["median"], part["error"])
        found[name] = ValueWithError(fit.intercept, fit.intercept_error)
    return found


def as_predicted(found: dict[Any, ValueWithError], predicted: Any) -> Judgement:
    """Is every crossing the predicted capacity of its place?"""
    if not set(found) <= set(predicted.index):
        raise NotJudgeable("no prediction for some of the crossings")
    margins = {name: float(quantile(len(found))) * value.error / predicted[name] for name, value in found.items()}
    verdicts = [equal_verdict(found[n].value / predicted[n] - 1, m, Resolution.RELATIVE) for n, m in margins.items()]
    words = {name: name if isinstance(name, str) else f"γ = {name:g}" for name in found}
    expected = listed({words[n]: f"{predicted[n]:.2f}" for n in found})
    measured = listed({words[n]: value for n, value in found.items()})
    return Judgement(worst(verdicts), expected, measured, f"margins at most {max(margins.values()):.0%}")


def capacities(tables: Tables, by: str, name: str = "predicted", **where: Any) -> Any:
    return select(need(tables, name, ["alpha_star"]), where).set_index(by)["alpha_star"].sort_index()


# The study `capacity`.


@sized(
    quick=("quick", {"pooled": 200, "attention": 200, "vectorized": 20}, 12),
    full=("full", {"pooled": 1000, "attention": 1000, "vectorized": 100}, 10, 12),
)
def capacity_grids(size: str, loss_d: dict[str, int], loss_repeats: int, largest_repeats: int = 0) -> list[Grid]:
    """The largest size has few draws, each long, which end earlier; losses are computed near the expected capacity."""
    few = {"pooled": 3.2, "attention": 4.6, "vectorized": 32.0}
    largest = [{**law(m), "alpha_high": few[m], "d": loss_d[m]} for m in MODELS]
    near = {"pooled": 2.3, "attention": 3.4, "vectorized": 23.0}
    shares = (0.4, 0.6, 0.8, 0.9, 0.95, 1.0, 1.04, 1.08, 1.15, 1.25, 1.4, 1.6, 1.9, 2.3, 2.8)
    lines = [{**law(m), "alpha": [round(share * near[m], 4) for share in shares]} for m in MODELS]
    losses = [
        {**law(m), "d": loss_d[m], "alpha": round(share * near[m], 1)}
        for m in MODELS
        for share in (0.45, 0.65, 0.85, 1.05, 1.3, 1.75, 2.2, 2.7)
    ]
    # A smaller ridge would make the bend hardly sharper, at a much higher cost of the theory.
    tiny = {**TASK, "ridge": 1e-5}
    return [
        *draws_grids(size),
        *([Grid("draws", "separability", TASK, points=largest, repeats=largest_repeats)] if largest_repeats else []),
        Grid("predicted", "capacity", TASK, {"sparsity": [1, 2, 4]}, points=[law(m) for m in MODELS]),
        Grid("losses", "readout", tiny, points=losses, repeats=loss_repeats),
        Grid("losses_predicted", "readout_theory", tiny, points=lines),
    ]


def threshold(model: str) -> Claim:
    def criterion(tables: Tables) -> Judgement:
        found = crossings(select(need(tables, "draws", ["alpha_star"]), {"model": model}))
        return replace(as_predicted(found, capacities(tables, "model", sparsity=1)), measured=str(found[model]))

    statement = f"The {model} classifier separates its data up to the predicted α*"
    rule = "50 % crossing at three sizes or more, extrapolated linearly in 1/d, within the margin; resolution 15 %"
    return Claim(f"capacity-{model}", statement, rule, criterion, **checked(CAPACITY, "Check 3: capacity"))


@claim("capacity-order", CAPACITY)
def capacity_order(tables: Tables) -> Judgement:
    """Capacity: vectorized above attention above pooled.

    Differences of the extrapolated crossings beyond the margin.
    """
    found = crossings(need(tables, "draws", ["alpha_star"]))
    values = {model: found[model] for model in ("vectorized", "attention", "pooled")}
    theory = capacities(tables, "model", sparsity=1)
    note = f"in theory the first is {theory['vectorized'] / theory['pooled']:.4f} times the last"
    return ordered(list(pairwise(values.values())), "vectorized > attention > pooled", listed(values), note)


@claim("capacity-sparsity", OURS)
def denser(tables: Tables) -> Judgement:
    """More signal tokens raise every capacity, by the predicted amount.

    Theory: rises from R = 1 to 2 and 4 for all three classifiers; simulated: crossings of attention and pooling at R = 2, three
    sizes extrapolated, within the margin; resolution 15 %.
    """
    theory = {m: capacities(tables, "sparsity", model=m) for m in MODELS}
    found = crossings(need(tables, "twice_draws", ["alpha_star"]))
    judged = as_predicted(found, capacities(tables, "model", sparsity=2))
    rises = all(line.is_monotonic_increasing for line in theory.values())
    words = "; ".join(f"{m} {', '.join(f'{v:.2f}' for v in line)}" for m, line in theory.items())
    note = f"{judged.note}; at R = 1, 2, 4: {words}"
    return provided(rises, replace(judged, predicted=f"R = 2: {judged.predicted}", note=note))


def draw_capacity(tables: Tables) -> list[Panel]:
    draws, predicted = tables["draws"], capacities(tables, "model", sparsity=1)
    found, crossing = medians(draws), crossings(draws)
    shares: list[Layer] = []
    at_sizes: list[Layer] = []
    losses: list[Layer] = []
    for model in MODELS:
        scale, drawn, part = predicted[model], select(draws, {"model": model}), select(found, {"model": model})
        dashes = ("dot", "dashdot", "dash", "solid")[4 - drawn["d"].nunique() :]
        for (d, runs), dash in zip(drawn.groupby("d"), dashes):
            values = np.sort(runs["alpha_star"].to_numpy()) / scale
            share = 1 - np.arange(len(values)) / len(values)
            name = f"{model}, d = {int(d)}"
            shares.append(Line(np.repeat(values, 2)[1:], np.repeat(share, 2)[:-1], name, colour(model), dash))
        x, y, error = 1.0 / part["d"], part["median"] / scale, part["error"] / scale
        slope, ends = fit_line(x, y, error).slope, np.array([0.0, x.max()])
        at_sizes.append(Points(x, y, error, model, colour(model), marker(model)))
        at_sizes.append(Line(ends, crossing[model].value / scale + slope * ends, "", colour(model), "dash"))
        parts = (select(tables[name], {"model": model}) for name in ("losses_predicted", "losses"))
        losses += overlay((table.assign(alpha=table["alpha"] / scale) for table in parts), "alpha", "train_loss", model)
    at_sizes.append(Rule("y", 1.0, "predicted capacity"))
    for layers in (shares, losses):
        layers.append(Rule("x", 1.0, "predicted capacity"))
    return [
        Panel("Separability sharpens with d", OVER_CAPACITY, "probability of separable data", shares),
        Panel("50 % crossing, extrapolated in d", "1/d", "crossing over predicted capacity", at_sizes),
        Panel("Training loss, λ = 10⁻⁵", OVER_CAPACITY, AXES["train_loss"], losses),
    ]


def capacity_findings(tables: Tables) -> str:
    found, predicted = crossings(tables["draws"]), capacities(tables, "model", sparsity=1)
    words = ", ".join(f"{m} {found[m]} (predicted {predicted[m]:.3f})" for m in ("vectorized", "attention", "pooled"))
    return (
        f"Crossings extrapolated to d → ∞: {words}. Separability is no sign of generalisation: the order is the "
        f"reverse of the test error's. More signal tokens: {denser(tables).note}."
    )


capacity = study(
    "capacity", capacity_grids, draw_capacity, capacity_findings, (*map(threshold, MODELS), capacity_order, denser)
)


# The study `query-capacity`: its tables have attention and pooling.


STRONGER = {**TASK, "strength": 4.0}
QUERY = {**STRONGER, "model": "attention", "sharpness": 2.0}


def query_draws(size: str) -> list[Grid]:
    """Draws by the query's cosine, which `transition` shares; cut several deviations beyond the predicted capacity."""
    cut = {0.0: 5.0, 0.4: 8.0, 0.6: 12.0} | ({-0.5: 5.0, 0.9: 18.0} if size == "full" else {})
    points = [{"cosine": c, "alpha_high": high} for c, high in cut.items()]
    axes, pooled = (
        {"d": [40, 120] if size == "quick" else [100, 300]},
        {**STRONGER, "model": "pooled", "alpha_high": 6.0},
    )
    # Sizes and margins were chosen on smaller seeds. Pooling's crossing is the closest comparison, and its draws are cheap.
    return [
        Grid("query_draws", "separability", QUERY, axes, points=points, repeats=60, first_seed=6000),
        Grid("query_draws", "separability", pooled, axes, repeats=120, first_seed=6000),
    ]


@sized(quick=("quick", 150), full=("full", 500))
def query_capacity_grids(size: str, trained_d: int) -> list[Grid]:
    line = sorted({*(round(float(c), 3) for c in np.linspace(-1.0, 1.0, 21)), -0.5, 0.9})
    halves = [{"alpha0": a / 2, "alpha1": a / 2} for a in (2.0, 4.0, 8.0, 12.0, 16.0, 24.0)]
    runs = {**QUERY, "loss": "logistic", "ridge": 1e-5, "d": trained_d}
    return [
        *query_draws(size),
        Grid("predicted", "capacity", QUERY, {"cosine": line}),
        Grid("predicted", "capacity", {**STRONGER, "model": "pooled"}),
        Grid("sharper", "capacity", {**QUERY, "cosine": 0.6}, {"sharpness": [0.1, 1.0, 4.0]}),
        Grid("staged", "alignment", STRONGER, points=halves),
        Grid("staged_runs", "simulate", runs, points=[halves[1], halves[-1]], repeats=8),
    ]


def placed(table: Any) -> Any:
    """The table with a column `place`: the cosine of attention's query, or pooling."""
    return table.assign(place=table["cosine"].astype(object).where(table["model"] != "pooled", "pooling"))


def query_crossings(tables: Tables) -> dict[Any, ValueWithError]:
    """Simulated crossings by the query's cosine, and pooling's."""
    return crossings(placed(need(tables, "query_draws", ["alpha_star"])), "place")


def query_line(tables: Tables) -> tuple[Any, float]:
    """Predicted capacities by the query's cosine, and pooling's."""
    line = capacities(tables, "cosine", model="attention")
    return line, float(capacities(tables, "model").loc["pooled"])


@claim("query-capacity-exact", CAPACITY)
def crossings_exact(tables: Tables) -> Judgement:
    """The theory gives the capacity at every cosine of the query.

    50 % crossings at two sizes, pooling's among them, extrapolated to d → ∞, within the margin at level 0.1 %; resolution 15 %.
    """
    predicted = placed(need(tables, "predicted", ["alpha_star"])).set_index("place")["alpha_star"]
    return as_predicted(query_crossings(tables), predicted)


@claim("query-capacity-grows", CAPACITY)
def grows(tables: Tables) -> Judgement:
    """Capacity grows with the query's alignment.

    Simulated crossings rise from each cosine γ ≥ 0 to the next, beyond the margin.
    """
    rows = dict(sorted((c, found) for c, found in query_crossings(tables).items() if c != "pooling" and c >= 0))
    return ordered([(b, a) for a, b in pairwise(rows.values())], "rises with γ", listed(rows, "γ"))


@claim("query-capacity-misaligned", CAPACITY)
def misaligned(tables: Tables) -> Judgement:
    """A misaligned query separates fewer samples than pooling.

    Simulated crossing at γ = 0 below pooling's, and at γ = 0.6 above it, beyond the margin.
    """
    rows = query_crossings(tables)
    pooled, low, high = (rows[place] for place in ("pooling", 0.0, 0.6))
    words = f"{listed({0.0: low, 0.6: high}, 'γ')}; pooling {pooled}"
    return ordered([(pooled, low), (high, pooled)], "below pooling's at γ = 0, above at γ = 0.6", words)


@claim("cosine-governs", stated_of(CAPACITY), expected="refuted")
def cosine_governs(tables: Tables) -> Judgement:
    """The query's cosine governs the capacity.

    Theory, cosine 0.6: capacities at k = 0.1, 1 and 4 within 10 % of each other.
    """
    found = capacities(tables, "sharpness", "sharper")
    alike = found.max() < (1 + ALIKE) * found.min()
    return decided(alike, "the same at every k", listed(found.to_dict(), "k"), "true at a given sharpness only")


def staged_capacity(tables: Tables) -> Any:
    """The capacity at the cosine that the two steps reach, by total α; interpolated between the cosines of `predicted`."""
    line, _ = query_line(tables)
    table = need(tables, "staged", ["cosine_q"]).assign(alpha=lambda t: t["alpha0"] + t["alpha1"]).sort_values("alpha")
    return table.assign(capacity=np.interp(table["cosine_q"], line.index, line))


@claim("trained-capacity", OURS)
def trained_capacity(tables: Tables) -> Judgement:
    """With the trained query the capacity grows with the samples, until the samples outgrow it.

    Half of the samples for each stage: α* rises with α in theory; of the simulated readouts all separate their data at α = 4,
    where α₁ < α*, and none at α = 24, where α₁ > α*.
    """
    theory = staged_capacity(tables)
    star, alpha = theory["capacity"].to_numpy(), theory["alpha"].to_numpy()
    runs = need(tables, "staged_runs", ["train_error"])
    low, high = ((runs[runs["alpha1"] == a]["train_error"] == 0).mean() for a in (2.0, 12.0))
    sides = star[alpha == 4.0] > 2.0 and star[alpha == 24.0] < 12.0
    holds = (np.diff(star) > 0).all() and sides and low == 1 and high == 0
    rise = f"α* {star[0]:.2f} to {star[-1]:.2f} for α = {alpha[0]:g} to {alpha[-1]:g}"
    return decided(holds, "α* rises; separated 100% and 0%", f"{rise}; separated {low:.0%} and {high:.0%}")


def draw_query_capacity(tables: Tables) -> list[Panel]:
    (line, pooled), found, orange = query_line(tables), query_crossings(tables), colour("attention")
    base, staged = found.pop("pooling"), staged_capacity(tables)
    layers: list[Layer] = [
        Line(line.index, line, "attention: theory", orange),
        estimates(found, "attention: simulated, d → ∞", orange),
        level(pooled, line.index, "pooled: theory", colour("pooled")),
        estimates({line.index.min(): base}, "pooled: simulated, d → ∞", colour("pooled"), marker("pooled")),
    ]
    trained: list[Layer] = [
        Line(staged["alpha"], staged["capacity"], "capacity α*, trained query", orange),
        Line(staged["alpha"], staged["alpha1"], "samples of the readout, α₁", REFERENCE, "dash"),
    ]
    return [
        Panel("Capacity against alignment (k = 2)", AXES["cosine"], "capacity α*", layers),
        Panel("Capacity with the trained query", "all samples per dimension, α₀ + α₁", "capacity α*; α₁", trained),
    ]


def query_capacity_findings(tables: Tables) -> str:
    line, base = query_line(tables)
    same = float(np.interp(base, np.maximum.accumulate(line.to_numpy()), line.index))
    return (
        f"The capacity grows with the query's cosine from {line[-1.0]:.2f} (γ = −1: the data might as well be noise, whose "
        f"capacity is 2) through {line[0.0]:.2f} (γ = 0) to {line[1.0]:.2f} (γ = 1). Pooling has {base:.2f}: below a cosine "
        f"of {same:.2f} attention separates fewer samples than a plain mean."
    )


query_capacity = study(
    "query-capacity",
    query_capacity_grids,
    draw_query_capacity,
    query_capacity_findings,
    (crossings_exact, grows, misaligned, cosine_governs, trained_capacity),
)


# The study `transition`.

# alpha* = 3.370 at this setting (the study `capacity` measures it), and 0.7 and 1.3 times that: theory against simulation.
STAR, BELOW, ABOVE = 3.37, 2.359, 4.381


@sized(quick=("quick", [80, 240], 24), full=("full", [200, 600], 20))
def transition_grids(size: str, sizes: list[int], repeats: int) -> list[Grid]:
    fixed, few = {**TASK, **law("attention")}, max(2, repeats // 2)
    shares = (0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 1.0, 1.05, 1.1, 1.15, 1.2, 1.3, 1.5)
    places = {share: round(share * STAR, 4) for share in shares}
    ridge = {"ridge": [1e-2, 1e-3, 1e-5]}
    ends: dict[str, list[Any]] = {"d": sizes, **ridge, "alpha": [BELOW, ABOVE]}
    middle: dict[str, list[Any]] = {"d": sizes[-1:], **ridge, "alpha": [places[s] for s in (0.9, 1.0, 1.1)]}
    margin, runs = {**fixed, "alpha": [places[0.5]]}, {**fixed, "alpha": places[0.5], "ridge": 1e-8}
    limit: dict[str, list[Any]] = {"loss": ["logistic", "exponential"], "ridge": [1e-4, 1e-6, 1e-8]}
    return [
        Grid("predicted", "readout_theory", {**fixed, "alpha": list(places.values())}, ridge),
        Grid("simulated", "readout", fixed, ends, repeats=repeats, first_seed=6000),
        Grid("shown", "readout", fixed, middle, repeats=few, first_seed=6000),
        Grid("margin", "readout_theory", margin, limit),
        Grid("margin_runs", "readout", runs, {"d": sizes}, repeats=2 * repeats, first_seed=8000),
        *draws_grids(size),  # cost nothing where the studies `capacity` and `query-capacity` have been run
        *query_draws(size),
    ]


def by_ridge(table: Any, alpha: float) -> Any:
    """Mean training loss at a place, by ridge, the largest first."""
    found = summarise(select(table, {"alpha": alpha}), "ridge", "train_loss").sort_values("ridge", ascending=False)
    if len(found) < 3:
        raise NotJudgeable(f"training losses at {len(found)} ridges")
    return found


@exact("transition-exact", TEST_ERROR, ["ridge", "alpha"], Resolution.COARSE, "train_loss", None)
def transition_exact(tables: Tables) -> Any:
    """The theory gives the training loss on both sides of the capacity, at every ridge.

    Training loss at 0.7 α* and 1.3 α*, three ridges.
    """
    return pair(tables, "train_loss")


@claim("transition-ridge", CAPACITY)
def zero_below(tables: Tables) -> Judgement:
    """As the ridge falls the training loss vanishes below the capacity and stays positive above it.

    Theory and simulation: from λ = 10⁻² to 10⁻⁵ to at most 5 % at 0.7 α*, to at least 50 % at 1.3 α*.
    """
    verdicts, words = [], []
    for name, table in zip(("simulated", "predicted"), pair(tables, "train_loss")):
        table = table[table["d"] == table["d"].max()] if "d" in table else table
        ladders = [by_ridge(table, place) for place in (BELOW, ABOVE)]
        fall, stay = (float(part["mean"].iloc[-1] / part["mean"].iloc[0]) for part in ladders)
        # Relative errors of the two ends of each series of ridges; the theory's are negligible.
        spread = [float(np.hypot(*(part["error"] / part["mean"]).iloc[[0, -1]])) for part in ladders]
        low, high = (0.0 if name == "predicted" else float(quantile(4, 10)) * e for e in spread)
        off = fall * (1 - low) > 0.05 or stay * (1 + high) < 0.5
        sure = fall * (1 + low) <= 0.05 and stay * (1 - high) >= 0.5
        verdicts.append("confirmed" if sure else "refuted" if off else "undecided")
        words.append(f"{name}: to {fall:.3f} of it below, to {stay:.2f} above")
    return Judgement(worst(verdicts), "to at most 0.05 below α*, to at least 0.5 above", "; ".join(words))


@claim("max-margin", OURS)
def max_margin(tables: Tables) -> Judgement:
    """Below the capacity the error tends to that of the largest margin as the ridge falls, whatever the loss.

    At 0.5 α*. Theory, logistic and exponential loss, λ from 10⁻⁴ to 10⁻⁸: the norm of the readout grows at least twofold, and
    errors come closer at each step, to within 0.001, margin included. Simulated, logistic loss at λ = 10⁻⁸ (d → ∞): that error
    within 0.03, margin included.
    """
    table = need(tables, "margin", ["test_error", "norm_w"])
    last = select(table, {"ridge": table["ridge"].min()})
    limits = predictions_of(last, "loss", "test_error", "standard_error", np.inf)
    run = limits_of(need(tables, "margin_runs", ["test_error"]), "loss", "test_error")["logistic"]
    met, seen = (
        near(limits["logistic"], limits["exponential"], 1e-3, 2),
        near(run, limits["logistic"], Resolution.FINE, 2),
    )
    # Both losses are solved on the same draws, so that their difference has next to no error.
    error, norm = (table.pivot_table(index="ridge", columns="loss", values=v) for v in ("test_error", "norm_w"))
    closer = (error["logistic"] - error["exponential"]).abs().is_monotonic_increasing
    growth = float((norm.iloc[0] / norm.iloc[-1]).min())
    judged = Judgement(worst([met, seen]), listed(limits), str(run), f"norm × {growth:.1f}")
    return provided(growth > 2 and closer, judged)


def widths(tables: Tables) -> Any:
    """Relative standard deviation of the last separable α at each size, by classifier and task, with its error."""
    names = ("draws", "twice_draws", "query_draws")
    table = pd.concat([need(tables, name, ["alpha_star"]) for name in names], ignore_index=True)
    rows = []
    for (model, *task, d), part in table.groupby(["model", "cosine", "sparsity", "strength", "d"]):
        if len(part) < 10:
            raise NotJudgeable(f"{len(part)} draws at d = {d}")
        width = part["alpha_star"].std(ddof=1) / part["alpha_star"].mean()
        # Of a standard deviation estimated from draws that are nearly normal.
        rows.append((model, f"{model} {task}", d, width, width / np.sqrt(2 * (len(part) - 1))))
    found = pd.DataFrame(rows, columns=["model", "of", "d", "width", "error"])
    if (found.groupby("of")["d"].nunique() < 2).any():
        raise NotJudgeable("widths at one size")
    # Over each group's own means, so that all lie on one line.
    centres = found.groupby("of")[["d", "width"]].transform(lambda x: np.exp(np.log(x).mean()))
    return found.assign(size=found["d"] / centres["d"], scaled=found["width"] / centres["width"])


@claim("transition-dimension", OURS)
def sharpens(tables: Tables) -> Judgement:
    """The transition sharpens with the dimension: the last separable α scatters like d^(−1/2).

    Standard deviation over draws at two or three sizes, nine classifiers and tasks: common exponent −1/2 within the margin;
    resolution 0.2.
    """
    found = widths(tables)
    note = f"{found['of'].nunique()} classifiers and tasks, {len(found)} widths"
    return power_law(found["size"], found["scaled"], found["error"] / found["width"], -0.5, Resolution.EXPONENT, note)


def draw_transition(tables: Tables) -> list[Panel]:
    simulated = pd.concat([tables["simulated"], tables["shown"]], ignore_index=True)
    losses: list[Layer] = []
    width: list[Layer] = []
    ridges = sorted(tables["predicted"]["ridge"].unique(), reverse=True)
    for ridge, shade in zip(ridges, (OTHER_COLOURS[0], OTHER_COLOURS[1], colour("attention"))):
        parts = (select(table, {"ridge": ridge}) for table in (tables["predicted"], simulated))
        scaled = (table.assign(alpha=table["alpha"] / STAR) for table in parts)
        losses += overlay(scaled, "alpha", "train_loss", f"λ = {plain_number(ridge)}", shade)
    losses.append(Rule("x", 1.0, "capacity"))
    found = widths(tables)
    for model, part in found.groupby("model"):
        error = part["error"] * part["scaled"] / part["width"]
        width.append(Points(part["size"], part["scaled"], error, str(model), colour(model), marker(model)))
    ends = np.array([found["size"].min(), found["size"].max()])
    width.append(Line(ends, ends**-0.5, "d^(−1/2)", REFERENCE, "dash"))
    across = ("d (over its mean)", "scatter of the last separable α (over its mean)")
    return [
        Panel("Training loss at falling ridge", OVER_CAPACITY, AXES["train_loss"], losses, logy=True),
        Panel("Width of the transition", *across, width, logx=True, logy=True),
    ]


def transition_findings(tables: Tables) -> str:
    low, high = (", ".join(f"{v:.2g}" for v in by_ridge(tables["predicted"], a)["mean"]) for a in (BELOW, ABOVE))
    margin = max_margin(tables)
    return (
        f"With λ = 0.01, 0.001, 0.00001 the training loss is {low} at 0.7 α* and {high} at 1.3 α*: it vanishes below the "
        "capacity and stays above it, and the smaller the ridge, the sharper the bend. At finite d the place where "
        f"separability is lost scatters about α* like d to the power {sharpens(tables).measured}. Below α* every loss ends at "
        f"the largest margin (errors {margin.predicted}; simulated {margin.measured})."
    )


transition = study(
    "transition",
    transition_grids,
    draw_transition,
    transition_findings,
    (transition_exact, zero_below, max_margin, sharpens),
)

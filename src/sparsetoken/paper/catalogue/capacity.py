"""How many samples can be separated (Conjecture 1). The studies: `capacity` and `query-capacity`."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from ...plotting.panels import Layer, Line, Panel, Points, Rule, estimates, level, overlay
from ...plotting.style import AXES, REFERENCE, colour, marker
from ...study.claims import Claim, Judgement, NotJudgeable, Tables, claim, need
from ...study.criteria import ValueWithError, equal_verdict, fit_line, quantile, select, worst
from ...study.study import Grid, sized
from ..stated_results import CAPACITY, checked, stated_of
from . import ALIKE, MODELS, OURS, Resolution
from .claim_builders import decided, listed, ordered, provided, study, with_alpha

TASK = {"length": 10, "sparsity": 1, "strength": 3.0, "prevalence": 0.5}
OVER_CAPACITY = "samples over predicted capacity, α/α*"


def law(model: str, cosine: float = 0.8, sharpness: float = 1.0) -> dict[str, Any]:
    """A classifier whose query, where it has one, has this cosine and sharpness."""
    return {"model": model, **({"cosine": cosine, "sharpness": sharpness} if model == "attention" else {})}


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
    axes = {"d": [40, 120] if size == "quick" else [100, 300]}
    pooled = {**STRONGER, "model": "pooled", "alpha_high": 6.0}
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
    table = with_alpha(need(tables, "staged", ["cosine_q"])).sort_values("alpha")
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

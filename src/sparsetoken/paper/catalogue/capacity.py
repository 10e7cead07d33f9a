"""How many samples can be separated: the capacity of the three classifiers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from ..._core.averages import summarise
from ...plotting.panels import Layer, Line, Panel, Points, Rule
from ...plotting.scales import plain_number
from ...plotting.style import colour, marker
from ...study.claims import (
    Claim,
    Judgement,
    NotJudgeable,
    Tables,
    equal_verdict,
    format_value,
    greater_verdict,
    need,
    quantile,
    worst,
)
from ...study.criteria import fit_line, select
from ...study.specification import Grid, Study
from .common import AXES, HERE, MODELS, PAPER

QUERY = {"cosine": 0.8, "sharpness": 1.0}
TASK = {"length": 10, "sparsity": 1, "strength": 3.0, "prevalence": 0.5}
HIGH = {"pooled": 7.0, "attention": 14.0, "vectorized": 45.0}
# Small enough for a sharp bend at the capacity; a tenth of it would cost forty times the theory's time.
TINY_RIDGE = 1e-5
# Where to compute the training loss: around the rough place of the capacity.
NEAR = {"pooled": 2.3, "attention": 3.4, "vectorized": 23.0}
SHARES = np.array([0.4, 0.6, 0.8, 0.9, 0.95, 1.0, 1.04, 1.08, 1.15, 1.25, 1.4, 1.6, 1.9, 2.3, 2.8])
LOSS_ALPHA = {
    "pooled": [1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0],
    "attention": [1.5, 2.5, 3.0, 3.5, 4.5, 6.0, 8.0, 9.5],
    "vectorized": [10.0, 15.0, 20.0, 25.0, 30.0, 40.0, 50.0, 60.0],
}


# The largest size has few draws, each a long one: their crossings scatter little, and need not be sought from far above.
LARGEST = {"pooled": 1000, "attention": 1000, "vectorized": 100}
LARGEST_HIGH = {"pooled": 3.2, "attention": 4.6, "vectorized": 32.0}


def grids(
    sizes: dict[str, list[int]], repeats: int, loss_d: dict[str, int], loss_repeats: int, largest_repeats: int = 0
) -> list[Grid]:
    def points(high: dict[str, float], sizes: dict[str, list[int]]) -> list[dict[str, Any]]:
        return [
            {"model": m, "alpha_high": high[m], "d": d, **(QUERY if m == "attention" else {})}
            for m in MODELS
            for d in sizes[m]
        ]

    largest = points(LARGEST_HIGH, {m: [d] for m, d in LARGEST.items()})
    laws: list[dict[str, Any]] = [{"model": m, **(QUERY if m == "attention" else {})} for m in MODELS]
    losses = [{**law, "d": loss_d[law["model"]], "alpha": a} for law in laws for a in LOSS_ALPHA[law["model"]]]
    lines = [{**law, "alpha": [round(float(a), 4) for a in SHARES * NEAR[law["model"]]]} for law in laws]
    return [
        Grid("draws", "separability", TASK, points=points(HIGH, sizes), repeats=repeats),
        *(
            [Grid("largest_draws", "separability", TASK, points=largest, repeats=largest_repeats)]
            if largest_repeats
            else []
        ),
        Grid("predicted", "capacity", TASK, points=laws),
        Grid("losses", "readout", {**TASK, "ridge": TINY_RIDGE}, points=losses, repeats=loss_repeats),
        Grid("losses_predicted", "readout_theory", {**TASK, "ridge": TINY_RIDGE}, points=lines),
    ]


def all_draws(tables: Tables) -> Any:
    """The draws of all sizes."""
    names = [name for name in ("draws", "largest_draws") if name in tables]
    return pd.concat([need(tables, name, ["alpha_star"]) for name in names], ignore_index=True)


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


def limit(tables: Tables, model: str) -> tuple[float, float, float]:
    """The crossing extrapolated to 1/d = 0 by a straight line in 1/d, its error, and the predicted capacity."""
    found = select(medians(all_draws(tables)), {"model": model})
    if len(found) < 3:
        raise NotJudgeable(f"{model}: crossings at {len(found)} sizes")
    fit = fit_line(1.0 / found["d"], found["median"], found["error"])
    predicted = float(select(need(tables, "predicted"), {"model": model})["alpha_star"].iloc[0])
    return fit.intercept, fit.intercept_error, predicted


def threshold(model: str):
    def criterion(tables: Tables) -> Judgement:
        measured, error, predicted = limit(tables, model)
        verdict = equal_verdict(measured - predicted, float(quantile()) * error, 0.15 * predicted)
        distance, margin = abs(measured - predicted) / error, quantile() * error / predicted
        note = f"{distance:.1f} standard errors apart; margin {margin:.1%}"
        return Judgement(verdict, format_value(predicted), format_value(measured, error), note)

    return criterion


def order(tables: Tables) -> Judgement:
    values = {model: limit(tables, model) for model in MODELS}
    verdicts, words = [], []
    for low, high in (("pooled", "attention"), ("attention", "vectorized")):
        gap = values[high][0] - values[low][0]
        verdicts.append(greater_verdict(gap, float(quantile(2)) * np.hypot(values[high][1], values[low][1])))
    for model in ("vectorized", "attention", "pooled"):
        words.append(f"{model} {format_value(*values[model][:2])}")
    return Judgement(worst(verdicts), "vectorized > attention > pooled", ", ".join(words))


def ratio(tables: Tables) -> Judgement:
    (vec, vec_error, vec_theory), (pool, pool_error, pool_theory) = limit(tables, "vectorized"), limit(tables, "pooled")
    measured = vec / pool
    error = measured * np.hypot(vec_error / vec, pool_error / pool)
    length = TASK["length"]
    verdict = equal_verdict(measured - length, float(quantile()) * error, 0.15 * length)
    return Judgement(verdict, f"L = {length}", format_value(measured, error), f"theory: {vec_theory / pool_theory:.6f}")


def draw(tables: Tables) -> list[Panel]:
    draws, predicted = all_draws(tables), tables["predicted"].set_index("model")["alpha_star"]
    curves: list[Layer] = []
    for model in MODELS:
        own = draws[draws["model"] == model]
        dashes = ("dot", "dashdot", "dash", "solid")[4 - own["d"].nunique() :]
        for (d, part), dash in zip(own.groupby("d"), dashes):
            values = np.sort(part["alpha_star"].to_numpy()) / predicted[model]
            probability = 1 - np.arange(len(values)) / len(values)
            name = f"{model}, d = {int(d)}"
            curves.append(Line(np.repeat(values, 2)[1:], np.repeat(probability, 2)[:-1], name, colour(model), dash))
    curves.append(Rule("x", 1.0, "predicted capacity"))
    crossings: list[Layer] = []
    found = medians(draws)
    for model in MODELS:
        part, scale = select(found, {"model": model}), predicted[model]
        inverse = 1.0 / part["d"]
        crossings.append(
            Points(
                inverse,
                part["median"] / scale,
                part["error"] / scale,
                f"{model}: 50 % crossing",
                colour(model),
                marker(model),
            )
        )
        fit = fit_line(inverse, part["median"], part["error"])
        x = np.array([0.0, inverse.max()])
        crossings.append(Line(x, (fit.intercept + fit.slope * x) / scale, "", colour(model), "dash"))
    crossings.append(Rule("y", 1.0, "predicted capacity"))
    losses: list[Layer] = []
    for model in MODELS:
        line = select(tables["losses_predicted"], {"model": model}).sort_values("alpha")
        losses.append(Line(line["alpha"] / predicted[model], line["train_loss"], f"{model}: theory", colour(model)))
        means = summarise(select(tables["losses"], {"model": model}), "alpha", "train_loss")
        x = means["alpha"] / predicted[model]
        losses.append(Points(x, means["mean"], means["error"], f"{model}: simulated", colour(model), marker(model)))
    losses.append(Rule("x", 1.0, "predicted capacity"))
    return [
        Panel(
            "Separability sharpens with d",
            "samples over predicted capacity, α/α*",
            "probability of separable data",
            curves,
        ),
        Panel("50 % crossing, extrapolated in d", "1/d", "crossing over predicted capacity", crossings),
        Panel(
            f"Training loss, λ = {plain_number(TINY_RIDGE)}",
            "samples over predicted capacity, α/α*",
            AXES["train_loss"],
            losses,
        ),
    ]


def findings(tables: Tables) -> str:
    words, small = [], []
    found = medians(all_draws(tables))
    for model in ("vectorized", "attention", "pooled"):
        measured, error, predicted = limit(tables, model)
        words.append(f"{model} {format_value(measured, error)} (predicted {predicted:.3f})")
        first = select(found, {"model": model}).sort_values("d").iloc[0]
        shift, spread = first["median"] / predicted - 1.0, first["error"] / predicted
        small.append(f"{model} {100 * shift:+.1f} ± {100 * spread:.1f} % at d = {int(first['d'])}")
    return (
        f"Crossings extrapolated to d → ∞: {', '.join(words)}. At the smallest size they lie off the predicted ones by "
        f"little: {', '.join(small)}. "
        "Separable training data say little about generalisation: the order is the reverse of the test error's."
    )


SIZES = {"pooled": [25, 50, 100], "attention": [25, 50, 100], "vectorized": [6, 12, 24]}
FULL_SIZES = {"pooled": [50, 100, 200], "attention": [50, 100, 200], "vectorized": [10, 20, 40]}
RULE = "50 % crossing at three sizes or more, extrapolated linearly in 1/d, within the margin; resolution 15 %"

study = Study(
    name="capacity",
    title="Capacity: how many samples can be separated",
    question="Up to how many samples α* d does the readout separate its training data perfectly, for the three "
    "classifiers? (L = 10, R = 1, "
    "π = 0.5, θ = 3; attention with cosine 0.8 and k = 1.)",
    notes="Each draw is one endless sequence of samples, cut where it stops being separable; the share of draws that "
    "get "
    "beyond α is the probability of separable data at α. Both answers are certified: by a separating hyperplane, or "
    "by dual "
    "weights that exclude one.",
    grids={
        "quick": grids(SIZES, 40, {"pooled": 200, "attention": 200, "vectorized": 20}, 12),
        "full": grids(FULL_SIZES, 120, LARGEST, 10, largest_repeats=12),
    },
    draw=draw,
    findings=findings,
    claims=(
        *(
            Claim(
                f"capacity-{model}",
                f"The {model} classifier separates its data up to the predicted α*",
                f"{PAPER}; {HERE}",
                RULE,
                threshold(model),
            )
            for model in MODELS
        ),
        Claim(
            "capacity-order",
            "Capacity: vectorized above attention above pooled",
            PAPER,
            "differences of the extrapolated crossings beyond the margin",
            order,
        ),
        Claim(
            "capacity-ratio",
            "The vectorized capacity is L times the pooled one",
            HERE,
            "ratio of the extrapolated crossings is L within the margin; resolution 15 %",
            ratio,
        ),
    ),
)

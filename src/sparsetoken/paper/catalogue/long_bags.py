"""Bags longer than those of the training, and bags as long as the dimension. The studies: `lengths` and `long-bags`."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._core.averages import summarise
from ...plotting.panels import Layer, Line, Panel, Points
from ...plotting.style import OTHER_COLOURS, colour, marker
from ...study.claims import Claim, Judgement, NotJudgeable, Tables, need
from ...study.verdicts import equal_verdict, format_value, greater_verdict, quantile, within_verdict, worst
from ...study.criteria import ValueWithError, near, select
from ...study.study import Grid, Study
from .common import AXES, OPEN, OURS, TEN_TOKENS, exact, level, sharp, spots

FIXED: dict[str, Any] = {**TEN_TOKENS, "alpha0": 2.0, "alpha1": 2.0, "ridge": 1e-2, "loss": "logistic"}
LENGTHS = [10, 20, 50, 100, 300, 1000]
FURTHEST = LENGTHS[-1]
SLACK = 4e-3  # accuracy of the fitted errors, which have no error bars: four times what finer draws change


def lengths_grids(sizes: list[int], repeats: int) -> list[Grid]:
    attention = {**FIXED, "model": "attention"}
    axes: dict[str, list[Any]] = {"d": sizes, "test_length": [10, 100, FURTHEST]}
    return [
        Grid("simulated", "simulate", attention, axes, repeats=repeats),
        Grid("predicted", "length_theory", {**FIXED, "test_lengths": LENGTHS}),
        Grid("retrained", "forecast", attention, {"length": LENGTHS}),
    ]


def tested_at(tables: Tables, length: int) -> Any:
    return select(need(tables, "predicted", ["threshold_error"]), {"test_length": length}).iloc[0]


def threshold_first(tables: Tables) -> Judgement:
    """At 100 L the threshold's part is larger than sharpness and query parts together."""
    row = tested_at(tables, FURTHEST)
    threshold, others = row["test_error"] - row["threshold_error"], row["threshold_error"] - row["query_error"]
    verdict, words = greater_verdict(threshold - others, 3 * SLACK), f"{threshold:.3f} against {others:.3f}"
    return Judgement(verdict, "threshold's part > the others'", words)


def ranking_survives(tables: Tables) -> Judgement:
    """At 100 L the error exceeds 0.2 and the AUC 0.9."""
    row = tested_at(tables, FURTHEST)
    margin = 3 * float(row["standard_error"])
    verdicts = [greater_verdict(row["test_error"] - 0.2, margin), greater_verdict(row["auc"] - 0.9, margin)]
    words = f"{format_value(row['test_error'])}, {format_value(row['auc'])}"
    return Judgement(worst(verdicts), "error > 0.2, AUC > 0.9", words)


def training_length(tables: Tables) -> Judgement:
    """At the training's own length nothing is lost: tested as trained."""
    row = tested_at(tables, LENGTHS[0])
    here = float(select(need(tables, "retrained", ["test_error"]), {"length": LENGTHS[0]})["test_error"].iloc[0])
    verdict = equal_verdict(row["test_error"] - here, SLACK, 2 * SLACK)
    return Judgement(verdict, format_value(here), format_value(row["test_error"]))


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
    first, row = tested_at(tables, LENGTHS[0]), tested_at(tables, FURTHEST)
    longest = float(select(tables["retrained"], {"length": FURTHEST})["test_error"].iloc[0])
    errors = [row[name] for name in ("test_error", "threshold_error", "sharpness_error", "query_error")]
    parts = zip(("threshold", "sharpness", "query"), errors, errors[1:])
    listed = ", ".join(f"{before - after:.3f} to the {name}" for name, before, after in parts)
    return (
        f"An attention classifier trained on bags of {LENGTHS[0]} tokens has an error of {first['test_error']:.3f} there and "
        f"of {row['test_error']:.3f} on bags of {FURTHEST}, where its AUC is still {row['auc']:.3f}: it ranks bags well and "
        f"puts the threshold in the wrong place (sensitivity {row['sensitivity']:.2f}, specificity {row['specificity']:.4f}). "
        f"Of the error it loses {listed}; {row['query_error']:.3f} would be left with the query ξ itself. Training on the long "
        "bags themselves, at the same rates and samples, is no remedy: the two gradient steps find no query there (error "
        f"{longest:.3f})."
    )


lengths = Study(
    name="lengths",
    title="Length generalisation: trained on short bags, tested on long ones",
    question="Attention is trained on bags of ten tokens and tested on bags of up to a thousand. What does it lose, and is it "
    "the threshold, the sharpness or the query that is to blame? (R = 1, π = 0.5, θ = 5, α₀ = α₁ = 2, λ = 10⁻², logistic.)",
    grids={"quick": lengths_grids([150, 500], 20), "full": lengths_grids([500, 1000], 60)},
    draw=draw_lengths,
    findings=lengths_findings,
    claims=(
        exact(
            "lengths-exact",
            "The theory gives the test error at any length, for a classifier trained at another",
            ["test_length"],
            0.08,
            points="L, 10 L and 100 L",
            **OURS,
        ),
        Claim(
            "lengths-threshold",
            "On bags a hundred times longer the threshold costs more than sharpness and query together",
            "100 L: error saved by fitting the threshold > what fitting the sharpness and knowing ξ save besides, by 0.012",
            threshold_first,
            **OURS,
        ),
        Claim(
            "lengths-ranking",
            "On bags a hundred times longer the ranking of bags survives where the error does not",
            "100 L: error above 0.2 and AUC above 0.9, beyond three standard errors",
            ranking_survives,
            **OURS,
        ),
        Claim(
            "lengths-origin",
            "Tested at the length of its training a classifier has its forecast error",
            "L: the two agree within 0.004",
            training_length,
            **OURS,
        ),
    ),
)


# The study `long-bags`.

LONG_TASK: dict[str, Any] = {"sparsity": 1, "prevalence": 0.5, "strength": 5.0, "loss": "logistic"}
RATIOS = [0.01, 0.05, 0.25, 0.5, 1.0, 2.0]
FEW = 4.0  # alpha0 where it stays the same
GROWTH = 0.2  # alpha0 = GROWTH L, and at least FEW, where it grows with the length
SHORT = 0.05  # L/d up to which the theory is asked to hold at fixed alpha0
LONG = [1.0, 2.0]  # where it is asked to fail
CLOSE, NEARLY = 0.02, 0.06  # what holding means, for the cosine: at fixed and at growing alpha0
ERROR_TOLERANCE, SAME_FACTOR = 0.05, 0.15
FIRST_SEED = 3000  # criteria and sizes were chosen on others
MODES = {"fixed": (f"α₀ = {FEW:g}", OTHER_COLOURS[1]), "growing": (f"α₀ = L/{1 / GROWTH:g}", colour("attention"))}
RATIO = "tokens per bag over dimension, L/d"


def bag(ratio: float, d: int, mode: str) -> dict[str, Any]:
    """Length and alpha0 at a ratio L/d."""
    length = max(2, round(ratio * d))
    return {"length": length, "alpha0": FEW if mode == "fixed" else round(max(FEW, GROWTH * length), 4)}


def readout(ratio: float, d: int, mode: str) -> dict[str, Any]:
    """The same with a readout on as many samples at every length; k = sqrt(2 log L) in the limit."""
    at = bag(ratio, d, mode)
    return {**at, "alpha1": 4.0, "ridge": 0.1, "sharpness": round(float(sharp(at["length"])), 6)}


def long_grids(sizes: list[int], fixed: int, growing: int, trained: int) -> list[Grid]:
    made = []
    for d in sizes:
        for mode, repeats in (("fixed", fixed), ("growing", growing)):
            at, runs = [bag(ratio, d, mode) for ratio in RATIOS], {**LONG_TASK, "d": d}
            made.append(Grid(mode, "two_steps", runs, points=at, repeats=repeats, first_seed=FIRST_SEED))
            made.append(Grid(f"{mode}_predicted", "alignment", LONG_TASK, points=at))
    d = sizes[-1]
    points = [readout(ratio, d, mode) for mode in MODES for ratio in (0.05, 0.25, 1.0)]
    points = list({repr(point): point for point in points}.values())  # short bags have the same alpha0 both ways
    runs = {**LONG_TASK, "d": d}
    return [
        *made,
        Grid("trained", "simulate", runs, points=points, repeats=trained, first_seed=FIRST_SEED),
        Grid("trained_predicted", "forecast", LONG_TASK, points=points),
    ]


def by_ratio(tables: Tables, name: str, value: str = "cosine_q") -> Any:
    """Measured and predicted values by d and L/d, with the margins of a claim about all of them."""
    found = summarise(need(tables, name, [value]), ["d", "length", "alpha0"], value)
    predicted = need(tables, f"{name}_predicted", [value])[["length", "alpha0", value]].drop_duplicates()
    joined = found.merge(predicted, on=["length", "alpha0"]).rename(columns={value: "predicted"})
    if len(joined) < len(found):
        raise NotJudgeable(f"predictions for {len(joined)} of {len(found)} points")
    joined["ratio"], joined["gap"] = joined["length"] / joined["d"], joined["mean"] - joined["predicted"]
    return joined.sort_values(["d", "ratio"])


def margins(rows: Any) -> Any:
    """Margins of a claim's points."""
    return quantile(len(rows), rows["count"].to_numpy(float) - 1) * rows["error"]


def within(rows: Any, tolerance: float) -> str:
    """The verdict on all gaps between measurement and prediction being within a tolerance."""
    return worst(within_verdict(gap, margin, tolerance) for gap, margin in zip(rows["gap"], margins(rows)))


def listed(rows: Any) -> str:
    return "; ".join(
        f"{format_value(r['mean'], r['error'])} (L/d = {r['ratio']:g}, d = {r['d']:g})" for _, r in rows.iterrows()
    )


def short_holds(tables: Tables) -> Judgement:
    rows = by_ratio(tables, "fixed")
    rows = rows[rows["ratio"] <= SHORT * 1.01]
    words = f"off by at most {rows['gap'].abs().max():.4f}"
    return Judgement(within(rows, CLOSE), f"within {CLOSE:g}", words, f"{len(rows)} points")


def long_fails(tables: Tables) -> Judgement:
    rows = by_ratio(tables, "fixed")
    rows = rows[rows["ratio"].isin(LONG)]
    predicted = ", ".join(f"{p:.3f}" for p in rows["predicted"])
    verdict = worst(greater_verdict(-gap, margin) for gap, margin in zip(rows["gap"], margins(rows)))
    return Judgement(verdict, f"below {predicted}", listed(rows))


def growing_holds(tables: Tables) -> Judgement:
    rows = by_ratio(tables, "growing")
    furthest = rows.loc[rows["gap"].abs().idxmax()]
    note = f"furthest at L/d = {furthest['ratio']:g}, d = {furthest['d']:g}; {len(rows)} points"
    words = f"off by at most {rows['gap'].abs().max():.3f}"
    return Judgement(within(rows, NEARLY), f"within {NEARLY:g}", words, note)


def norm_factors(tables: Tables) -> dict[tuple[int, float], ValueWithError]:
    """‖q₂‖ over its prediction at fixed alpha0, by d and L/d."""
    rows = by_ratio(tables, "fixed", "norm_q")
    factors = map(
        ValueWithError, rows["mean"] / rows["predicted"], rows["error"] / rows["predicted"], rows["count"] - 1
    )
    return dict(zip(zip(rows["d"], rows["ratio"]), factors))


def collapses(tables: Tables) -> Judgement:
    """The query's length is off by nearly the same factor at d and 2d when L/d is the same."""
    factors = norm_factors(tables)
    sizes = sorted({d for d, _ in factors})
    if len(sizes) < 2:
        raise NotJudgeable(f"{len(sizes)} sizes")
    pairs = {ratio: (factors[sizes[0], ratio], factors[sizes[-1], ratio]) for ratio in LONG}
    words = "; ".join(f"{small} and {large} at L/d = {ratio:g}" for ratio, (small, large) in pairs.items())
    verdict = worst(near(large, small, SAME_FACTOR, len(pairs)) for small, large in pairs.values())
    return Judgement(verdict, "nearly the same factor at both d", words)


def trained(tables: Tables, mode: str) -> Any:
    """Measured and predicted test errors of a mode, by L/d."""
    rows = by_ratio(tables, "trained", "test_error")
    wanted = FEW if mode == "fixed" else np.maximum(FEW, GROWTH * rows["length"])
    return rows[np.isclose(rows["alpha0"], wanted, atol=1e-3)].sort_values("ratio")


def trained_holds(tables: Tables) -> Judgement:
    rows = trained(tables, "growing")
    words = ", ".join(f"{format_value(r['mean'], r['error'])} (L/d = {r['ratio']:g})" for _, r in rows.iterrows())
    predicted = ", ".join(f"{p:.3f}" for p in rows["predicted"])
    return Judgement(within(rows, ERROR_TOLERANCE), predicted, words, f"tolerance {ERROR_TOLERANCE:g}")


def draw_long(tables: Tables) -> list[Panel]:
    cosines: list[Layer] = []
    errors: list[Layer] = []
    for mode, (name, shade) in MODES.items():
        for (d, part), dash, shape in zip(by_ratio(tables, mode).groupby("d"), ("dash", "solid"), ("square", "circle")):
            label, points = f"{name}, d = {d:g}", (part["ratio"], part["mean"], part["error"])
            cosines.append(Line(part["ratio"], part["predicted"], f"{label}: theory", shade, dash))
            cosines.append(Points(*points, f"{label}: simulated", shade, shape))
        rows = trained(tables, mode)
        points = (rows["ratio"], rows["mean"], rows["error"])
        errors.append(Line(rows["ratio"], rows["predicted"], f"{name}: theory", shade))
        errors.append(Points(*points, f"{name}: simulated", shade, marker("attention")))
    found = norm_factors(tables)
    factors: list[Layer] = []
    for d, shape in zip(sorted({d for d, _ in found}), ("square", "circle")):
        part = {ratio: factor for (size, ratio), factor in found.items() if size == d}
        values, spread = zip(*((factor.value, factor.error) for factor in part.values()))
        factors.append(Points(list(part), values, spread, f"d = {d:g}", MODES["fixed"][1], shape))
    factors.append(level(1.0, RATIOS, "theory of a fixed length", "#777777"))
    title = f"Test error (α₁ = 4, d = {int(tables['trained']['d'].max())})"
    return [
        Panel("The query in long bags", RATIO, AXES["cosine_q"], cosines, logx=True),
        Panel(f"Its length at α₀ = {FEW:g}", RATIO, "‖q₂‖ over its prediction", factors, logx=True),
        Panel(title, RATIO, AXES["test_error"], errors, logx=True),
    ]


def long_findings(tables: Tables) -> str:
    fixed, growing = by_ratio(tables, "fixed"), by_ratio(tables, "growing")
    d, ratio = fixed["d"].max(), LONG[-1]
    few, many = (select(rows, {"d": d, "ratio": ratio}).iloc[0] for rows in (fixed, growing))
    factor = norm_factors(tables)[d, ratio].value
    return (
        f"The theory of a fixed length fails where little is learnt. With α₀ = {FEW:g} it is right for L/d up to {SHORT:g}; at "
        f"L = {ratio:g} d it predicts a cosine of {few['predicted']:.3f} where simulation has "
        f"{format_value(few['mean'], few['error'])}, because the query has {factor:.2f} times the predicted length, all of it "
        "noise, a factor that is nearly the same at half the dimension and half the length. With samples in proportion to the "
        f"length, α₀ = L/{1 / GROWTH:g}, it holds up to L = {ratio:g} d within {growing['gap'].abs().max():.3f} of the cosine "
        f"({many['predicted']:.3f}, simulated {format_value(many['mean'], many['error'])})."
    )


long_bags = Study(
    name="long-bags",
    title="Long bags: length proportional to dimension",
    question="The theory lets the dimension grow at a fixed length. Where does it hold when bags have L = 0.01 d to 2 d "
    f"tokens, with α₀ = {FEW:g} and with α₀ growing like L, and by how much does it fail? (R = 1, π = 0.5, θ = 5, logistic.)",
    grids={"quick": long_grids([200, 400], 500, 160, 16), "full": long_grids([500, 1000], 600, 100, 30)},
    draw=draw_long,
    findings=long_findings,
    claims=(
        Claim(
            "long-short-holds",
            f"At fixed α₀ the theory of a fixed length holds for L/d up to {SHORT:g}",
            f"cosine of the query at two d: within {CLOSE:g} of the prediction, margin included",
            short_holds,
            **OPEN,
        ),
        Claim(
            "long-fixed-fails",
            "At fixed α₀ and L of the order of d the theory of a fixed length promises too much",
            "simulated cosine below the predicted one at L/d = 1 and 2 and two d, beyond the margin",
            long_fails,
            **OPEN,
        ),
        Claim(
            "long-collapse",
            "The failure is nearly a function of L/d",
            f"‖q₂‖ over its prediction at L/d = 1 and 2 nearly the same at d and 2d: within {SAME_FACTOR:g}, margin included",
            collapses,
            **OPEN,
        ),
        Claim(
            "long-growing-holds",
            "With samples in proportion to the length the theory of a fixed length holds up to L = 2d",
            f"α₀ = L/5: cosine of the query within {NEARLY:g} of the prediction at all L/d and two d, margin included",
            growing_holds,
            **OPEN,
        ),
        Claim(
            "long-errors-hold",
            "So do its test errors",
            f"α₀ = L/5, L/d = 0.05, 0.25 and 1: simulated test error within {ERROR_TOLERANCE:g} of the prediction, margin "
            "included",
            trained_holds,
            **OPEN,
        ),
    ),
)

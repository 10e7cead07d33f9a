"""What a vanishing ridge shows: the peak at interpolation, the margins (`interpolation`), the capacity (`transition`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from ..._core.averages import summarise
from ...plotting.panels import Histogram, Layer, Line, Panel, Points, Rule, by_model, largest, overlay
from ...plotting.style import AXES, OTHER_COLOURS, REFERENCE, colour, marker, plain_number
from ...study.claims import Judgement, NotJudgeable, Tables, claim, need
from ...study.criteria import (
    ValueWithError,
    fit_line,
    judge_agreement,
    limits_of,
    means_of,
    near,
    predictions_of,
    quantile,
    select,
    worst,
)
from ...study.study import Grid, sized
from ..stated_results import CAPACITY, TEST_ERROR
from . import OURS, TEN_TOKENS, Resolution
from .capacity import OVER_CAPACITY, TASK, draws_grids, law, query_draws
from .claim_builders import both, exact, listed, ordered, pair, power_law, provided, study

QUERY = {"cosine": 0.9, "sharpness": 2.0}
SQUARE = {**TEN_TOKENS, "loss": "square"}
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
    both_laws = [law(model, **QUERY) for model in repeats]
    below: dict[str, list[Any]] = {"d": [2 * size, 4 * size], "alpha": [a for a in spots if a < 1]}
    above: dict[str, list[Any]] = {"d": [size, 2 * size], "alpha": [a for a in spots if a >= 1]}
    return [
        *(
            Grid("simulated", "readout", {**SQUARE, "ridge": 1e-9, **point}, axes, repeats=repeats[point["model"]])
            for point in both_laws
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
    fit = fit_line(np.log(found["size"]), np.log(found["scaled"]), found["error"] / found["width"])
    return power_law(fit, -0.5, Resolution.EXPONENT, note)


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

"""Through the interpolation threshold, and the laws of the margins. The study: `interpolation`."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._core.averages import summarise
from ...plotting.panels import Histogram, Layer, Panel, Points, Rule
from ...plotting.style import colour
from ...study.claims import Judgement, Tables, claim, need
from ...study.criteria import judge_agreement, limits_of, means_of
from ...study.study import Grid, Study
from .common import AXES, OURS, TEN_TOKENS, both, by_model, largest, listed, ordered

QUERY = {"cosine": 0.9, "sharpness": 2.0}
JUDGED = [0.25, 0.5, 0.75, 1.5, 2.0, 3.0]  # away from the peak, where the correction is not of order 1/d
MODELS = ("attention", "pooled")
BINS = {"low": -3.0, "high": 12.0, "bins": 30}


def grids(size: int, repeats: dict[str, int], margin_sizes: list[int], margin_repeats: int) -> list[Grid]:
    """Below the threshold samples are few and dimensions cheap: larger d there, so that n is not tiny."""
    square = {**TEN_TOKENS, "loss": "square"}
    spots = sorted([*JUDGED, 0.9, 1.0, 1.1, 1.25])
    line = sorted({*np.linspace(0.1, 3.0, 30).tolist(), *JUDGED, 0.15, 0.95, 0.98, 1.02, 1.05} - {1.0})
    readout = {"loss": "logistic", "ridge": 1e-2, "model": "attention", **QUERY}
    margins = {**TEN_TOKENS, "alpha": 4.0, **readout, **BINS}
    laws = [{"model": m, **(QUERY if m == "attention" else {})} for m in MODELS]
    below: dict[str, list[Any]] = {"d": [2 * size, 4 * size], "alpha": [a for a in spots if a < 1]}
    above: dict[str, list[Any]] = {"d": [size, 2 * size], "alpha": [a for a in spots if a >= 1]}
    return [
        *(
            Grid("simulated", "readout", {**square, "ridge": 1e-9, **law}, axes, repeats=repeats[str(law["model"])])
            for law in laws
            for axes in (below, above)
        ),
        Grid("predicted", "readout_theory", {**square, "ridge": 0.0, "alpha": line}, points=laws),
        Grid("margins", "margins", margins, {"d": margin_sizes}, repeats=margin_repeats),
        Grid("margins_predicted", "margins_theory", margins),
        Grid("left_out", "left_out", {**TEN_TOKENS, "alpha": 4.0, **readout}, {"d": margin_sizes}, repeats=10),
    ]


@claim("ridgeless-exact", OURS)
def away_exact(tables: Tables) -> Judgement:
    """The closed form gives the ridgeless test error on both sides of the interpolation threshold.

    Attention and pooled at six α away from the peak, extrapolated to d → ∞, within the margin at level 0.1 %; resolution
    0.05.
    """
    simulated = need(tables, "simulated", ["test_error"])
    judged = simulated[simulated["alpha"].isin(JUDGED)]
    return judge_agreement(judged, need(tables, "predicted"), "test_error", ["model", "alpha"], 0.05, "standard_error")


def largest_there(table: Any) -> Any:
    """Rows of the largest size at each alpha."""
    return table[table["d"] == table.groupby("alpha")["d"].transform("max")]


@claim("interpolation-peak", OURS)
def peak(tables: Tables) -> Judgement:
    """The ridgeless error peaks where samples equal weights (α = 1).

    Largest d: error at α = 1 above those at α = 0.5 and 2 beyond the margin, both classifiers.
    """
    found = means_of(largest_there(need(tables, "simulated", ["test_error"])), ["model", "alpha"], "test_error")
    pairs = [(found[model, 1.0], found[model, a]) for model in MODELS for a in (0.5, 2.0)]
    words = (f"{m}: " + ", ".join(f"{found[m, a].value:.3f}" for a in (0.5, 1.0, 2.0)) for m in MODELS)
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
        parts[f"{name} share"] = judge_agreement(drawn, common, f"{name}_share", ["bin"], 0.03)
    return both(parts)


@claim("leave-one-out", OURS)
def leave_one_out(tables: Tables) -> Judgement:
    """A training bag's score by a readout fitted without it is r + V κ² ℓ′(r), with the theory's V.

    Bags left out one at a time: the shortcut's distance from the true score is at most a fifth of what leaving the bag out
    changes (root mean squares), and it falls with d.
    """
    table = need(tables, "left_out", ["fitted", "left_out", "shortcut"])
    off, moved = ((table[name] - table["left_out"]) ** 2 for name in ("shortcut", "fitted"))
    share = (off.groupby(table["d"]).mean() / moved.groupby(table["d"]).mean()).sort_index() ** 0.5
    verdict = "confirmed" if share.iloc[-1] <= 0.2 and share.is_monotonic_decreasing else "refuted"
    return Judgement(verdict, "at most 0.2, falling with d", listed(share.to_dict(), "d"), f"{len(table)} bags")


def draw(tables: Tables) -> list[Panel]:
    shown = largest_there(tables["simulated"])
    layers = by_model(
        tables["predicted"], shown.assign(d=0), "alpha", "test_error", MODELS
    )  # each α has its own largest d
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


def findings(tables: Tables) -> str:
    found = limits_of(tables["simulated"], ["model", "alpha"], "test_error")
    return (
        "With as many samples as weights the ridgeless square loss fits its data at any price: the norm diverges and the error "
        "rises to one half. Fewer samples are better than exactly enough: at α = 0.5 the errors are "
        f"{' and '.join(f'{model} {found[model, 0.5]}' for model in MODELS)}. Training margins pile up where the loss is "
        "small, test margins keep a tail of errors; both laws follow from the same few numbers."
    )


interpolation = Study(
    name="interpolation",
    title="The interpolation peak, and the laws of the margins",
    question="What happens to the ridgeless square loss where the number of samples equals the number of weights, and does the "
    "theory give not only averages but the whole distribution of training and test margins? (L = 10, R = 1, π = 0.5, θ = 5; "
    "cosine 0.9, k = 2.)",
    notes="Simulations use λ = 10⁻⁹ in place of zero.",
    grids={
        "quick": grids(150, {"attention": 20, "pooled": 32}, [200, 400], 30),
        "full": grids(500, {"attention": 16, "pooled": 32}, [1000, 2000], 20),
    },
    draw=draw,
    findings=findings,
    claims=(
        away_exact,
        peak,
        margin_laws,
        leave_one_out,
    ),
)

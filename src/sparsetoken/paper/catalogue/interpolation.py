"""Through the interpolation threshold, and the laws of the margins."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._core.averages import extrapolate, summarise
from ...plotting.panels import Histogram, Layer, Line, Panel, Points, Rule
from ...plotting.style import colour, marker
from ...study.claims import Claim, Judgement, Tables, format_value, greater_verdict, need, quantile, worst
from ...study.criteria import judge_agreement, select
from ...study.specification import Grid, Study
from .common import AXES, HERE, TEN_TOKENS

QUERY = {"cosine": 0.9, "sharpness": 2.0}
FIXED = {**TEN_TOKENS, "loss": "square"}
RIDGE = 1e-9  # stands for none; the theory is at exactly zero
JUDGED = [0.25, 0.5, 0.75, 1.5, 2.0, 3.0]  # away from the peak, where the correction is not of order 1/d
SPOTS = sorted([*JUDGED, 0.9, 1.0, 1.1, 1.25])
LINE = sorted({*(float(a) for a in np.linspace(0.1, 3.0, 30)), *JUDGED, 0.15, 0.95, 0.98, 1.02, 1.05} - {1.0})
MODELS = ("attention", "pooled")
MARGINS = {**TEN_TOKENS, "loss": "logistic", "ridge": 1e-2, "alpha": 4.0, "model": "attention", **QUERY}
LEAST_SHARE = 0.005  # of margins in a bin, for its scatter to be judged by Student's t
BINS = {"low": -3.0, "high": 12.0, "bins": 30}


def grids(size: int, repeats: dict[str, int], margin_sizes: list[int], margin_repeats: int) -> list[Grid]:
    """Below the threshold samples are few and dimensions cheap: larger d there, so that n is not tiny."""
    laws = [{"model": m, **(QUERY if m == "attention" else {})} for m in MODELS]
    simulations = []
    for law in laws:
        for sizes, part in (([2 * size, 4 * size], lambda a: a < 1), ([size, 2 * size], lambda a: a >= 1)):
            axes: dict[str, list[Any]] = {"d": sizes, "alpha": [a for a in SPOTS if part(a)]}
            fixed = {**FIXED, "ridge": RIDGE, **law}
            simulations.append(Grid("simulated", "readout", fixed, axes, repeats=repeats[str(law["model"])]))
    return [
        *simulations,
        Grid("predicted", "readout_theory", {**FIXED, "ridge": 0.0, "alpha": LINE}, points=laws),
        Grid("margins", "margins", {**MARGINS, **BINS}, {"d": margin_sizes}, repeats=margin_repeats),
        Grid("margins_predicted", "margins_theory", {**MARGINS, **BINS}),
    ]


def exact(tables: Tables) -> Judgement:
    simulated = need(tables, "simulated", ["test_error"])
    judged = simulated[simulated["alpha"].isin(JUDGED)]
    return judge_agreement(judged, need(tables, "predicted"), "test_error", ["model", "alpha"], 0.05, "standard_error")


def largest(table: Any) -> Any:
    """Rows of the largest size at each alpha."""
    return table[table["d"] == table.groupby("alpha")["d"].transform("max")]


def peak(tables: Tables) -> Judgement:
    """At the largest size the error at alpha = 1 exceeds those at 0.5 and 2."""
    simulated = need(tables, "simulated", ["test_error"])
    means = summarise(largest(simulated), ["model", "alpha"], "test_error")
    verdicts, words = [], []
    for model in MODELS:
        rows = select(means, {"model": model}).set_index("alpha")
        top = rows.loc[1.0]
        for alpha in (0.5, 2.0):
            row = rows.loc[alpha]
            degrees = min(top["count"], row["count"]) - 1
            margin = quantile(4, degrees) * np.hypot(top["error"], row["error"])
            verdicts.append(greater_verdict(top["mean"] - row["mean"], margin))
        words.append(f"{model}: " + ", ".join(f"{rows.loc[a]['mean']:.3f}" for a in (0.5, 1.0, 2.0)))
    return Judgement(
        worst(verdicts), "0.5 at α = 1 (d → ∞), less on both sides", "; ".join(words), "errors at α = 0.5, 1, 2"
    )


def margins(tables: Tables) -> Judgement:
    simulated, predicted = need(tables, "margins", ["train_share"]), need(tables, "margins_predicted", ["train_share"])
    parts = {}
    for name in ("train", "test"):
        common = predicted[predicted[f"{name}_share"] >= LEAST_SHARE]
        drawn = simulated[simulated["bin"].isin(common["bin"])]
        parts[name] = judge_agreement(drawn, common, f"{name}_share", ["bin"], 0.03)
    note = "; ".join(f"{name}: {part.note}" for name, part in parts.items())
    first = parts["train"]
    return Judgement(
        worst(p.verdict for p in parts.values()), f"share {first.predicted}", f"share {first.measured}", note
    )


def draw(tables: Tables) -> list[Panel]:
    simulated = tables["simulated"]
    layers: list[Layer] = []
    shown = largest(simulated)
    for model in MODELS:
        line = select(tables["predicted"], {"model": model}).sort_values("alpha")
        layers.append(Line(line["alpha"], line["test_error"], f"{model}: theory", colour(model)))
        means = summarise(select(shown, {"model": model}), "alpha", "test_error")
        layers.append(
            Points(means["alpha"], means["mean"], means["error"], f"{model}: simulated", colour(model), marker(model))
        )
    layers.append(Rule("x", 1.0, "interpolation threshold"))
    title = f"Ridgeless square loss (d = {int(shown['d'].min())} and more)"
    panels = [Panel(title, AXES["alpha"], AXES["test_error"], layers)]
    drawn, theory = tables["margins"], tables["margins_predicted"]
    drawn = drawn[drawn["d"] == drawn["d"].max()]
    width = (BINS["high"] - BINS["low"]) / BINS["bins"]
    edges = np.linspace(BINS["low"], BINS["high"], int(BINS["bins"]) + 1)
    for name, title in (("train", "Training margins"), ("test", "Test margins")):
        share = summarise(drawn, "bin", f"{name}_share").sort_values("bin")["mean"].to_numpy()
        middle = 0.5 * (edges[:-1] + edges[1:])
        predicted = theory.sort_values("bin")[f"{name}_share"].to_numpy()
        panels.append(
            Panel(
                f"{title} (logistic, α = {MARGINS['alpha']:g}, λ = {MARGINS['ridge']:g})",
                "margin y (⟨w, f⟩ + b)",
                "probability density",
                [
                    Histogram(edges, share / width, "simulated", "#9CB8CF"),
                    Points(middle, predicted / width, None, "theory (bin averages)", colour("attention")),
                ],
            )
        )
    return panels


def findings(tables: Tables) -> str:
    limits = extrapolate(tables["simulated"], ["model", "alpha"], "test_error")
    words = []
    for model in MODELS:
        rows = select(limits, {"model": model}).set_index("alpha")
        words.append(f"{model} {format_value(rows.loc[0.5]['limit'], rows.loc[0.5]['error'])}")
    return (
        "With as many samples as weights the ridgeless square loss fits its data at any price: the norm diverges and "
        "the error rises to one "
        f"half. Fewer samples are better than exactly enough: at α = 0.5 the errors are {' and '.join(words)}. "
        f"Training margins "
        "pile up near the loss's comfort zone, test margins keep a tail of errors; both laws follow from the same few "
        "numbers."
    )


study = Study(
    name="interpolation",
    title="The interpolation peak, and the laws of the margins",
    question="What happens to the ridgeless square loss where the number of samples equals the number of weights, and "
    "does the theory give "
    "not only averages but the whole distribution of training and test margins? (L = 10, R = 1, π = 0.5, θ = 5; "
    "cosine 0.9, k = 2.)",
    notes=f"Simulations use λ = {RIDGE:g} in place of zero.",
    grids={
        "quick": grids(150, {"attention": 20, "pooled": 32}, [200, 400], 30),
        "full": grids(500, {"attention": 16, "pooled": 32}, [1000, 2000], 20),
    },
    draw=draw,
    findings=findings,
    claims=(
        Claim(
            "ridgeless-exact",
            "The closed form gives the ridgeless test error on both sides of the interpolation threshold",
            HERE,
            "attention and pooled at six α away from the peak, d → ∞, within the margin at level 0.1 %; resolution "
            "0.05",
            exact,
        ),
        Claim(
            "interpolation-peak",
            "The ridgeless error peaks where samples equal weights (α = 1)",
            HERE,
            "error at α = 1 above those at α = 0.5 and 2 beyond the margin, both classifiers",
            peak,
        ),
        Claim(
            "margin-laws",
            "Training and test margins follow the predicted laws",
            HERE,
            "share of margins in every bin of width 0.5 with more than 0.5 %, d → ∞, within the margin; resolution "
            "0.03",
            margins,
        ),
    ),
)

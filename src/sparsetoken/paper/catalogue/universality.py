"""Universality: how much of the exact theory survives noise that is not white and Gaussian."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from ..._core.averages import extrapolate, summarise
from ...plotting.panels import Layer, Line, Panel, Points, Rule
from ...plotting.style import REFERENCE, colour, label, marker
from ...study.claims import (
    Claim,
    Judgement,
    Tables,
    format_value,
    greater_verdict,
    need,
    quantile,
    within_verdict,
    worst,
)
from ...study.criteria import judge_agreement, select
from ...study.specification import Grid, Study
from .common import AXES, HERE, TEN_TOKENS

FIXED: dict[str, Any] = {**TEN_TOKENS, "alpha0": 2.0, "alpha1": 2.0, "ridge": 1e-2, "loss": "logistic"}
CLASSIFIERS = ["attention", "elementwise", "pooled", "vectorized"]
ENTRIES = {
    "rademacher": "signs, ±1",
    "student:5": "Student's t, 5 degrees of freedom",
    "sparse:0.1": "sparse, 10 % not zero",
}
COLOUR = "power:0.5"
# Real tokens, whitened: their covariance is the theory's, and only what is not Gaussian in them is left.
SETS = ["digits", "photographs", "text"]
APART = [f"{name}:whiten:mixed" for name in SETS]  # tokens dealt independently
TOGETHER = ["photographs:whiten", "text:whiten"]  # tokens of one bag stay together
REAL_SIZES = {name: 61 if name.startswith("digits") else 64 for name in (*APART, *TOGETHER)}
# Criteria, sets, tolerance and repeats were chosen on other seeds than those of the grids: there pooling was off by -3 to +3 %
# on digits and text and by -8 to -12 % on photographs, attention by +30 to +50 % on text and by +180 to +200 % on
# photographs; digits, the smallest set, are too few to tell.
FAILING = ["photographs:whiten:mixed", "text:whiten:mixed"]
TOLERANCE = 0.25  # of "the exact curve holds", as a share of the error
FIRST_SEED = 30_000  # the trials before were used to choose the criteria


def grids(sizes: list[int], repeats: int, real_repeats: int, tested: int) -> list[Grid]:
    models = {"model": CLASSIFIERS}
    made = _grids(sizes, repeats, real_repeats, tested, models)
    return [replace(grid, first_seed=FIRST_SEED) for grid in made]


def _grids(sizes: list[int], repeats: int, real_repeats: int, tested: int, models: dict[str, list[str]]) -> list[Grid]:
    small = sorted(set(REAL_SIZES.values()))
    return [
        Grid(
            "entries",
            "simulate",
            {**FIXED, "test_samples": tested},
            {"d": sizes, "noise": list(ENTRIES), **models},
            repeats=repeats,
        ),
        Grid(
            "coloured",
            "simulate",
            {**FIXED, "covariance": COLOUR},
            {"d": sizes, "model": CLASSIFIERS[:3]},
            repeats=2 * repeats,
        ),
        Grid("white", "simulate", FIXED, {"d": sorted({*sizes, *small}), **models}, repeats=2 * real_repeats),
        Grid(
            "real",
            "simulate",
            {**FIXED, "test_samples": tested},
            models,
            points=[{"noise": name, "d": size} for name, size in REAL_SIZES.items()],
            repeats=real_repeats,
        ),
        Grid("predicted", "forecast", FIXED, models),
        # The spectrum depends on d, and with it the limit; the largest size stands for it.
        Grid(
            "coloured_predicted",
            "coloured_forecast",
            {**FIXED, "covariance": COLOUR},
            {"d": sizes, "model": CLASSIFIERS[:3]},
        ),
    ]


def entries_exact(tables: Tables) -> Judgement:
    entries, predicted = need(tables, "entries", ["test_error"]), need(tables, "predicted", ["test_error"])
    table = pd.concat([predicted.assign(noise=noise) for noise in ENTRIES], ignore_index=True)
    return judge_agreement(entries, table, "test_error", ["noise", "model"], 0.04, predicted_error="standard_error")


def sparse_slow(tables: Tables) -> Judgement:
    """At the smallest size attention's error in sparse noise lies above that in Gaussian noise; pooling's within 25 %."""
    entries, white = need(tables, "entries", ["test_error"]), need(tables, "white", ["test_error"])
    d = entries["d"].min()
    sparse = select(entries, {"d": d, "noise": "sparse:0.1"})
    gaps = _gaps(sparse, select(white, {"d": d}), 2).set_index("model")
    attention, pooled = gaps.loc["attention"], gaps.loc["pooled"]
    return Judgement(
        worst(
            [
                greater_verdict(attention["difference"], attention["margin"]),
                within_verdict(pooled["difference"], pooled["margin"], TOLERANCE * pooled["white"]),
            ]
        ),
        f"at d = {d}: attention above {format_value(attention['white'])}, "
        f"pooling within 25 % of {format_value(pooled['white'])}",
        f"attention {format_value(attention['mean'], attention['error'])}, "
        f"pooling {format_value(pooled['mean'], pooled['error'])}",
    )


def _gaps(found: Any, white: Any, comparisons: int) -> Any:
    """Measured errors against those in white Gaussian noise of the same size, by noise and classifier."""
    by = [name for name in ("noise", "d", "model") if name in found]
    means = summarise(found, by, "test_error")
    base = summarise(white, ["d", "model"], "test_error").rename(
        columns={"mean": "white", "error": "white_error", "count": "white_count"}
    )
    both = means.merge(base, on=["d", "model"])
    both["difference"] = both["mean"] - both["white"]
    both["error_of_difference"] = np.hypot(both["error"], both["white_error"])
    degrees = np.minimum(both["count"], both["white_count"]) - 1
    both["margin"] = quantile(comparisons, np.asarray(degrees, float)) * both["error_of_difference"]
    return both


def coloured_exact(tables: Tables) -> Judgement:
    """In coloured noise theory and simulation are compared at the largest size, the theory with that size's spectrum."""
    coloured, predicted = need(tables, "coloured", ["test_error"]), need(tables, "coloured_predicted", ["test_error"])
    d = coloured["d"].max()
    return judge_agreement(
        select(coloured, {"d": d}),
        select(predicted, {"d": d}),
        "test_error",
        ["model"],
        0.03,
        predicted_error="standard_error",
    )


def real_pooling(tables: Tables) -> Judgement:
    """Whitened real tokens, independent: pooling and flattening keep their exact curves to 25 %."""
    real = need(tables, "real", ["test_error"])
    linear = real[real["noise"].isin(APART) & real["model"].isin(["pooled", "vectorized"])]
    return _within(_gaps(linear, tables["white"], 2 * len(SETS)))


def _within(gaps: Any) -> Judgement:
    verdicts = [within_verdict(row.difference, row.margin, TOLERANCE * row.white) for row in gaps.itertuples()]
    at = (gaps["difference"].abs() / gaps["white"]).idxmax()
    row = gaps.loc[at]
    return Judgement(
        worst(verdicts),
        f"within {TOLERANCE:.0%} of Gaussian noise",
        f"furthest: {row['model']} on {_words(row['noise'])}, {row['difference'] / row['white']:+.0%} "
        f"({format_value(row['mean'], row['error'])} against {format_value(row['white'], row['white_error'])})",
    )


def real_attention(tables: Tables) -> Judgement:
    """The same tokens: attention's error lies above its exact curve, on the two sets large enough to tell."""
    real = need(tables, "real", ["test_error"])
    gaps = _gaps(real[real["noise"].isin(APART) & (real["model"] == "attention")], tables["white"], len(FAILING))
    judged, rest = gaps[gaps["noise"].isin(FAILING)], gaps[~gaps["noise"].isin(FAILING)]
    note = ", ".join(
        f"{_words(row.noise)}, not judged: {format_value(row.mean, row.error)}" for row in rest.itertuples()
    )
    return Judgement(
        worst(greater_verdict(row.difference, row.margin) for row in judged.itertuples()),
        f"above {format_value(judged['white'].iloc[0], judged['white_error'].iloc[0])}",
        ", ".join(f"{_words(row.noise)} {format_value(row.mean, row.error)}" for row in judged.itertuples()),
        note,
    )


def together(tables: Tables) -> Judgement:
    """Pooling on bags whose tokens stay together: below the exact curve on photographs, above it on text."""
    real = need(tables, "real", ["test_error"])
    gaps = _gaps(real[real["noise"].isin(TOGETHER) & (real["model"] == "pooled")], tables["white"], len(TOGETHER))
    sign = {TOGETHER[0]: -1.0, TOGETHER[1]: 1.0}
    verdicts = [greater_verdict(sign[row.noise] * row.difference, row.margin) for row in gaps.itertuples()]
    words = ", ".join(
        f"{_words(row.noise)} {row.difference / row.white:+.0%} ± {row.error_of_difference / row.white:.0%}"
        for row in gaps.itertuples()
    )
    return Judgement(worst(verdicts), "photographs below, text above Gaussian noise", words)


def _words(noise: str) -> str:
    name, *how = noise.split(":")
    return name if "mixed" in how or name == "digits" else f"{name} (bags kept together)"


def draw(tables: Tables) -> list[Panel]:
    return [_convergence(tables), _real(tables), _coloured(tables)]


def _real(tables: Tables) -> Panel:
    """Errors on real tokens over those in Gaussian noise of the same size."""
    noises = [*APART, *TOGETHER]
    gaps = _gaps(tables["real"], tables["white"], 1)
    layers: list[Layer] = []
    for i, model in enumerate(CLASSIFIERS):
        rows = select(gaps, {"model": model}).set_index("noise").loc[noises]
        x = np.arange(1.0, len(noises) + 1) + 0.1 * (i - 1.5)
        ratio, error = rows["mean"] / rows["white"], rows["error"] / rows["white"]
        layers.append(Points(x, ratio, error, label(model), colour(model), marker(model)))
    layers.append(Rule("y", 1.0, "Gaussian noise", REFERENCE))
    words, ends = [_words(noise) for noise in noises], (0.2, 12.0)
    return Panel(
        "Real tokens", "tokens", "error over that in Gaussian noise", layers, logy=True, ylim=ends, names=words
    )


def _coloured(tables: Tables) -> Panel:
    """Theory and simulation in coloured Gaussian noise against the dimension."""
    predicted = tables["predicted"].set_index("model")["test_error"]
    layers: list[Layer] = []
    for model in CLASSIFIERS[:3]:
        line = select(tables["coloured_predicted"], {"model": model}).sort_values("d")
        means = summarise(select(tables["coloured"], {"model": model}), "d", "test_error")
        words = f"{label(model)}: simulated"
        layers += [
            Line(line["d"], line["test_error"], f"{label(model)}: theory", colour(model)),
            Points(means["d"], means["mean"], means["error"], words, colour(model), marker(model)),
            Line(line["d"], [predicted[model]] * len(line), "", colour(model), "dot"),
        ]
    title = "Coloured noise, eigenvalues ∝ 1/√j (dots: white)"
    return Panel(title, "dimension d", AXES["test_error"], layers, logx=True, ylim=(0.0, 0.5))


def _convergence(tables: Tables) -> Panel:
    """Attention's error against the dimension, noise by noise."""
    entries = select(tables["entries"], {"model": "attention"})
    layers: list[Layer] = []
    for i, noise in enumerate(ENTRIES):
        means = summarise(select(entries, {"noise": noise}), "d", "test_error").sort_values("d")
        layers.append(Points(means["d"], means["mean"], means["error"], ENTRIES[noise], colour(noise, i), "diamond"))
    white = summarise(select(tables["white"], {"model": "attention"}), "d", "test_error").sort_values("d")
    layers.append(
        Points(white["d"], white["mean"], white["error"], "Gaussian", colour("attention"), marker("attention"))
    )
    limit = float(select(tables["predicted"], {"model": "attention"})["test_error"].iloc[0])
    layers.append(Rule("y", limit, "theory (d → ∞)"))
    return Panel("Attention, independent entries", "dimension d", AXES["test_error"], layers, logx=True)


def findings(tables: Tables) -> str:
    white = tables["white"]
    real = _gaps(tables["real"], white, 1).set_index(["noise", "model"])

    def share(noise: str, model: str) -> str:
        row = real.loc[(noise, model)]
        return f"{row['difference'] / row['white']:+.0%}"

    def each(model: str) -> str:
        return ", ".join(f"{share(noise, model)} on {_words(noise)}" for noise in APART)

    sparse = select(tables["entries"], {"noise": "sparse:0.1"})
    limits = extrapolate(sparse, ["model"], "test_error").set_index("model")
    small = _gaps(sparse, white, 1)
    first = small[(small["d"] == small["d"].min()) & (small["model"] == "attention")].iloc[0]
    return (
        "Independent entries of any law with a variance give the Gaussian curves as d grows. How soon depends on the "
        f"tails: in sparse noise (kurtosis 30) attention's error at d = {first['d']:.0f} is {first['mean']:.3f} where "
        f"Gaussian noise has {first['white']:.3f}, and {limits.loc['attention', 'limit']:.3f} extrapolated to d → ∞. "
        "Coloured Gaussian noise follows its own exact theory. Real tokens have no d to grow: whitened and dealt "
        f"independently, they leave the linear classifiers where the theory puts them (pooling {each('pooled')}; "
        f"vectorized {each('vectorized')}), but not attention ({each('attention')}): an average over tokens and features "
        "forgets their law, the largest of ten scores does not. Tokens that stay in their own bags are not independent, "
        f"and then pooling is off as well ({share(TOGETHER[0], 'pooled')} on neighbouring patches of a photograph, "
        f"{share(TOGETHER[1], 'pooled')} on successive words)."
    )


study = Study(
    name="universality",
    title="Universality: noise that is not white and Gaussian",
    question="The theory's noise is white and Gaussian. Which of its curves hold for independent entries of other laws, "
    "for coloured noise, and for real tokens (handwritten digits, patches of photographs, words of a manual)? Real tokens "
    "are whitened, so that only what is not Gaussian in them can matter. (L = 10, R = 1, π = 0.5, θ = 5, α₀ = α₁ = 2, "
    "λ = 10⁻², logistic.)",
    grids={"quick": grids([64, 192], 12, 20, 1000), "full": grids([128, 512], 24, 48, 4000)},
    draw=draw,
    findings=findings,
    claims=(
        Claim(
            "universality-entries",
            "For independent entries the exact curves hold whatever the law of an entry",
            HERE,
            "3 laws × 4 classifiers, extrapolated to d → ∞, within the margin at level 0.1 %; resolution 0.04",
            entries_exact,
        ),
        Claim(
            "universality-sparse-slow",
            "Sparse entries reach attention's curve slowly, pooling's at once",
            HERE,
            "smallest d: attention's error above that in Gaussian noise beyond the margin; pooling's within 25 % of it",
            sparse_slow,
        ),
        Claim(
            "universality-coloured",
            "In coloured Gaussian noise the theory with that covariance is exact",
            HERE,
            "attention, elementwise, pooling at the largest d within the margin at level 0.1 %; resolution 0.03",
            coloured_exact,
        ),
        Claim(
            "universality-real-linear",
            "On whitened, independent real tokens pooling and flattening keep their exact curves",
            HERE,
            "3 sets × 2 classifiers: within 25 % of Gaussian noise of the same size, margin at level 0.1 % included",
            real_pooling,
        ),
        Claim(
            "universality-real-attention",
            "On whitened, independent patches of photographs and words attention does worse than its exact curve",
            HERE,
            "photographs and text: error above that in Gaussian noise of the same size, beyond the margin at level 0.1 %",
            real_attention,
        ),
        Claim(
            "universality-bags-together",
            "Real bags whose tokens stay together move pooling off its exact curve",
            HERE,
            "pooling's error below that in Gaussian noise on photographs, above it on text, beyond the margin at level 0.1 %",
            together,
        ),
    ),
)

"""One data set for everything: two steps for the query, then a convex readout on the same bags."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._core.averages import extrapolate
from ...plotting.panels import Layer, Line, Panel, Points
from ...plotting.style import OTHER_COLOURS, REFERENCE, colour
from ...study.claims import Claim, Judgement, Tables, format_value, greater_verdict, need, quantile, worst
from ...study.criteria import judge_agreement
from ...study.specification import Grid, Study
from .common import AXES, OPEN, TEN_TOKENS

RIDGE, ETA_Q = 0.1, 25.0
# The convex readout as gradient descent: after 38 steps with momentum it has moved by less than 6e-4 over the last ten.
READOUT = {"steps": 38, "rates": {"w": 1.5, "bias": 6.0}, "decay": {"w": RIDGE}, "momentum": 0.3}
STEPS = 2 + READOUT["steps"]  # type: ignore[operator]
ALPHAS = [0.5, 1.0, 2.0, 4.0, 8.0]
SIMULATED = [1.0, 2.0]
FEWEST = ALPHAS[0]
FIRST_SEED = 1000  # sizes were chosen on runs with smaller ones
LOOSE = 0.05  # only the last step is read, with its standard error
REPLICATES = 16  # of the exact theory: what reuse gains over new data is a few standard errors of eight
REUSED, SPLIT, NAIVE = OTHER_COLOURS[1], colour("attention"), REFERENCE


def stages(alpha: float) -> list[dict[str, Any]]:
    """Two steps and a readout, all on the data set "all" of alpha d bags."""
    return [
        {"steps": 1, "alpha": alpha, "rates": {"w": 1.0, "bias": 1.0}},
        {"steps": 1, "alpha": alpha, "rates": {"q": ETA_Q}},
        {**READOUT, "alpha": alpha},
    ]


def grids(sizes: list[int], repeats: int, alphas: list[float]) -> list[Grid]:
    fixed = {**TEN_TOKENS, "ridge": RIDGE, "eta_q": ETA_Q}
    exact = [{"alpha": a, "stages": stages(a)} for a in alphas]
    return [
        Grid(
            "exact",
            "trajectory",
            {**TEN_TOKENS, "accuracy": LOOSE, "replicates": REPLICATES, "rows_at": [STEPS]},
            points=exact,
        ),
        Grid(
            "simulated",
            "simulate",
            {**fixed, "schedule": "reuse"},
            {"d": sizes, "alpha0": SIMULATED},
            repeats=repeats,
            first_seed=FIRST_SEED,
        ),
        Grid("split", "forecast", fixed, points=[{"alpha0": a / 2, "alpha1": a / 2} for a in alphas]),
        Grid("independent", "forecast", fixed, points=[{"alpha0": a, "alpha1": a} for a in alphas]),
    ]


def _last(tables: Tables) -> Any:
    """The exact error of the reused data after the last step, by α."""
    table = need(tables, "exact", ["test_error", "step"])
    return table[table["step"] == STEPS].sort_values("alpha")


def _simulated(tables: Tables) -> Any:
    return need(tables, "simulated", ["test_error"]).assign(alpha=lambda t: t["alpha0"])


def exact(tables: Tables) -> Judgement:
    predicted = _last(tables)
    predicted = predicted[predicted["alpha"].isin(SIMULATED)]
    return judge_agreement(_simulated(tables), predicted, "test_error", ["alpha"], 0.015, "test_error_se")


def below(name: str, total: float):
    """The reused data's error below that of table `name`, whose α₀ is `total` times the α in question."""

    def criterion(tables: Tables) -> Judgement:
        other = need(tables, name, ["test_error"]).assign(alpha=lambda t: t["alpha0"] * total).set_index("alpha")
        verdicts, words = [], []
        rows = _last(tables)
        for _, row in rows.iterrows():
            against = other.loc[row["alpha"]]
            error = float(np.hypot(row["test_error_se"], against["standard_error"]))
            gain = float(against["test_error"] - row["test_error"])
            verdicts.append(greater_verdict(gain, float(quantile(len(rows), REPLICATES - 1)) * error))
            words.append(f"{row['test_error']:.4f} against {against['test_error']:.4f} (α = {row['alpha']:g})")
        return Judgement(worst(verdicts), "reuse below", "; ".join(words))

    return criterion


def pessimistic(tables: Tables) -> Judgement:
    """At few samples the theory of independent data sets is off, and on which side."""
    found = _last(tables).set_index("alpha").loc[FEWEST]
    other = need(tables, "independent", ["test_error"]).set_index("alpha0").loc[FEWEST]
    margin = float(quantile(1, REPLICATES - 1)) * float(np.hypot(found["test_error_se"], other["standard_error"]))
    return Judgement(
        greater_verdict(float(other["test_error"] - found["test_error"]), margin),
        f"below {other['test_error']:.4f}",
        f"{format_value(found['test_error'], found['test_error_se'])} at α = {FEWEST:g}",
    )


def draw(tables: Tables) -> list[Panel]:
    line, found = _last(tables), extrapolate(_simulated(tables), ["alpha"], "test_error")
    split = tables["split"].assign(alpha=lambda t: 2 * t["alpha0"]).sort_values("alpha")
    naive = tables["independent"].sort_values("alpha0")
    layers: list[Layer] = [
        Line(split["alpha"], split["test_error"], "split in halves: theory", colour("attention"), "dash"),
        Line(naive["alpha0"], naive["test_error"], "two data sets of this size each: theory", NAIVE, "dot"),
        Line(line["alpha"], line["test_error"], "one data set for both: exact theory", REUSED),
        Points(found["alpha"], found["limit"], found["error"], "the same, simulated, d → ∞", REUSED),
    ]
    return [Panel("Staged training on one data set", AXES["alpha"], AXES["test_error"], layers, logx=True, logy=True)]


def findings(tables: Tables) -> str:
    line = _last(tables).set_index("alpha")
    split = tables["split"].assign(alpha=lambda t: 2 * t["alpha0"]).set_index("alpha")["test_error"]
    naive = tables["independent"].set_index("alpha0")["test_error"]
    words = "; ".join(
        f"{format_value(row['test_error'], row['test_error_se'])} (split {split[a]:.4f}, as if independent {naive[a]:.4f}) at "
        f"α = {a:g}"
        for a, row in line.iterrows()
    )
    few, many = line.index.min(), line.index.max()
    off = {a: round(100 * (naive[a] / line.loc[a, "test_error"] - 1)) for a in (few, many)}  # per cent
    return (
        f"Using all samples twice beats halving them: {words}. Theory that pretends the readout's data were new is "
        f"too pessimistic rather than too optimistic, by {off[few]} % at α = {few:g} and {off[many]} % at α = {many:g}: "
        "the query has seen the bags that the readout is fitted to, and attends to the right tokens there more often."
    )


study = Study(
    name="reuse",
    title="Data reuse: the same samples for the query and for the readout",
    question="The staged theory needs D₀ and D₁ to be disjoint. What if the two steps and the readout use the same n "
    "= αd samples: is "
    "it better than halving them, and how wrong is the theory of the split? (L = 10, R = 1, π = 0.5, θ = 5, λ = "
    f"{RIDGE:g}, η_q = "
    f"{ETA_Q:g}, logistic.)",
    notes="The exact line is the trajectory theory: two steps, then 38 steps of gradient descent with momentum in "
    "place of the convex "
    "readout, all on one data set.",
    grids={
        "quick": grids([300, 900], 50, [0.5, 1.0, 2.0]),
        "full": grids([1000, 2000], 60, ALPHAS),
    },
    draw=draw,
    findings=findings,
    claims=(
        Claim(
            "reuse-exact",
            "The trajectory theory gives the test error of staged training with D₀ = D₁",
            OPEN,
            "test error at each simulated α, extrapolated to d → ∞, within the margin at level 0.1 %; resolution 0.015",
            exact,
        ),
        Claim(
            "reuse-beats-the-split",
            "At equal samples, using all of them twice beats splitting them",
            OPEN,
            "exact error below the split's at every α beyond the margin",
            below("split", 2.0),
        ),
        Claim(
            "reuse-is-better-than-new-data",
            "Staged training on reused data is better than the theory of independent data sets of that size says",
            OPEN,
            f"exact error at α = {FEWEST:g} below the forecast with α₀ = α₁ = α, beyond the margin",
            pessimistic,
        ),
    ),
)

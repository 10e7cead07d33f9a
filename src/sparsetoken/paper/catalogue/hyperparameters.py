"""Maps over the hyperparameters, and what to conclude from them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._core.averages import extrapolate, summarise
from ...plotting.panels import Heat, Layer, Line, Panel, Points, grid_of
from ...plotting.style import colour
from ...study.claims import Claim, Judgement, Tables, format_value, greater_verdict, need, quantile, worst
from ...study.criteria import judge_agreement, select
from ...study.specification import Grid, Study
from .common import AXES, FOLKLORE, HERE, PAPER, TEN_TOKENS

BASE = {
    **TEN_TOKENS,
    "loss": "logistic",
    "ridge": 1e-2,
    "alpha0": 2.0,
    "alpha1": 2.0,
    "eta_w": 1.0,
    "eta_b": 1.0,
    "eta_q": 28.0,
    "beta": 1.0,
}
RARE = {**BASE, "prevalence": 0.2, "alpha0": 4.0}
TOTAL = 4.0
BETA = [float(b) for b in np.geomspace(0.25, 4.0, 6)]
RIDGE = [float(r) for r in np.geomspace(1e-3, 30.0, 6)]
ETA_Q = [float(e) for e in np.geomspace(1.75, 448.0, 6)]
ETA_W = [float(e) for e in np.geomspace(0.1, 30.0, 6)]
ETA_B = [0.0, 1.0, 2.0, 3.0, 4.5, 6.0]
SHARES = [0.03, 0.06, 0.12, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.96]
SHARP = [0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 10.0, 20.0]
SHARE_SPOTS, SHARP_SPOTS = [0.06, 0.3, 0.9], [0.25, 2.0, 20.0]
TINY_ETA_W = 1e-3


def split(share: float) -> dict[str, float]:
    return {"alpha0": share * TOTAL, "alpha1": (1 - share) * TOTAL}


def grids(sizes: list[int], repeats: int) -> list[Grid]:
    curve = "forecast_curve"
    spots = [
        *({**BASE, "beta": b, "ridge": r} for b, r in ((0.5, 1e-2), (1.0, 1e-3), (2.0, 1.0))),
        *({**RARE, "eta_w": w, "eta_b": b} for w, b in ((1.0, 0.5), (1.0, 6.0), (10.0, 3.0))),
    ]
    shares = [{**BASE, **split(s), "sharpness": 2.0} for s in SHARE_SPOTS]
    sharp = [{**BASE, "sharpness": k} for k in SHARP_SPOTS]
    return [
        Grid("beta_ridge", curve, {**BASE, "over": "ridge", "values": RIDGE[::-1]}, {"beta": BETA}),
        Grid("eta_w_b", curve, {**RARE, "over": "eta_b", "values": ETA_B}, {"eta_w": ETA_W}),
        Grid("eta_q_beta", curve, {**BASE, "over": "beta", "values": BETA}, {"eta_q": ETA_Q}),
        Grid("share", "forecast", {**BASE, "sharpness": 2.0}, points=[split(s) for s in SHARES]),
        Grid("sharp", "forecast", BASE, {"sharpness": SHARP}),
        Grid("spots", "simulate", {}, {"d": sizes}, points=spots, repeats=2 * repeats),
        Grid("spots_predicted", "forecast", {}, points=spots),
        Grid("share_spots", "simulate", {}, {"d": sizes}, points=shares, repeats=2 * repeats),
        Grid("sharp_spots", "simulate", {}, {"d": sizes}, points=sharp, repeats=2 * repeats),
        Grid(
            "pooled", "simulate", {**BASE, "model": "pooled", "equal_samples": True}, {"d": sizes}, repeats=3 * repeats
        ),
        Grid("steps", "two_steps", BASE, {"d": [4000, 8000], "eta_w": [TINY_ETA_W, 1.0]}, repeats=20),
    ]


def exact(tables: Tables) -> Judgement:
    on = ["beta", "ridge", "eta_w", "eta_b", "prevalence"]
    simulated, predicted = need(tables, "spots", ["test_error"]), need(tables, "spots_predicted", ["test_error"])
    return judge_agreement(simulated, predicted, "test_error", on, 0.05, "standard_error")


def valley(table: str, column: str, places: list[float]):
    """The middle place has a lower error than both ends, at both sizes."""

    def criterion(tables: Tables) -> Judgement:
        simulated = with_share(need(tables, table, ["test_error"]))
        means = summarise(simulated, ["d", column], "test_error")
        verdicts, words = [], []
        for d in sorted(means["d"].unique()):
            rows = select(means, {"d": d}).set_index(column)
            low, middle, high = (rows.loc[place] for place in places)
            for end in (low, high):
                degrees = min(end["count"], middle["count"]) - 1
                margin = quantile(4, degrees) * np.hypot(end["error"], middle["error"])
                verdicts.append(greater_verdict(end["mean"] - middle["mean"], margin))
            pairs = zip(places, (low, middle, high))
            words.append(", ".join(f"{format_value(row['mean'], row['error'])} at {at:g}" for at, row in pairs))
        best = best_of(with_share(need(tables, table.removesuffix("_spots"))), column)
        return Judgement(
            worst(verdicts), f"best near {best[0]:.2g} (error {best[1]:.4f})", words[-1], f"half the d: {words[0]}"
        )

    return criterion


def with_share(table: Any) -> Any:
    """The column share: D0's part of all samples, as it was asked for."""
    return table.assign(share=(table["alpha0"] / (table["alpha0"] + table["alpha1"])).round(6))


def best_of(table: Any, column: str) -> tuple[float, float]:
    row = table.loc[table["test_error"].idxmin()]
    return float(row[column]), float(row["test_error"])


def small_step(tables: Tables) -> Judgement:
    """cosine_q at a tiny eta_w below half of that at eta_w = 1?"""
    found = extrapolate(need(tables, "steps", ["cosine_q"]), ["eta_w"], "cosine_q").set_index("eta_w")
    tiny, usual = found.loc[TINY_ETA_W], found.loc[1.0]
    margin = quantile(1, min(tiny["degrees"], usual["degrees"])) * np.hypot(tiny["error"], 0.5 * usual["error"])
    return Judgement(
        greater_verdict(0.5 * usual["limit"] - tiny["limit"], margin),
        "cos(q₂, ξ) much smaller",
        f"{format_value(tiny['limit'], tiny['error'])} at η_w = {TINY_ETA_W:g}, "
        f"{format_value(usual['limit'], usual['error'])} at 1",
        "the direction of w₁ does not depend on η_w; only the query's length does, which β or η_q makes up for",
    )


def large_beta(tables: Tables) -> Judgement:
    """Does a very sharp softmax do worse than no attention at all?"""
    sharp = extrapolate(need(tables, "sharp_spots", ["test_error"]), ["sharpness"], "test_error").set_index("sharpness")
    pooled = extrapolate(need(tables, "pooled", ["test_error"]), ["model"], "test_error").iloc[0]
    row = sharp.loc[max(SHARP_SPOTS)]
    margin = quantile(1, min(row["degrees"], pooled["degrees"])) * np.hypot(row["error"], pooled["error"])
    converged = tables["sharp_spots"]["converged"].mean()
    spread = tables["sharp_spots"].groupby("sharpness")["test_error"].std()
    return Judgement(
        greater_verdict(row["limit"] - pooled["limit"], margin),
        f"error above pooling's {format_value(pooled['limit'], pooled['error'])}",
        f"{format_value(row['limit'], row['error'])} at k = {max(SHARP_SPOTS):g}",
        f"scatter between trials {spread[max(SHARP_SPOTS)]:.4f}, against {spread[2.0]:.4f} at k = 2; "
        f"{converged:.0%} of the readouts converged",
    )


def draw(tables: Tables) -> list[Panel]:
    def chart(
        table: str, x: str, y: str, value: str, title: str, log: tuple[bool, bool], diverging: bool = False
    ) -> Panel:
        grid = grid_of(tables[table], x, y, value)
        best = tables[table].loc[(tables[table][value] * (-1 if diverging else 1)).idxmin()]
        shown = "cos(q₂, ξ)" if diverging else "test error"
        layers: list[Layer] = [
            Heat(*grid, shown, diverging=diverging, log=not diverging),
            Points([best[x]], [best[y]], None, "best point", "#FFFFFF" if not diverging else "#111111", "star"),
        ]
        rare = float(tables[table]["prevalence"].iloc[0])
        checked = select(tables["spots_predicted"], {"prevalence": rare})
        if table != "eta_q_beta" and not diverging:
            layers.append(Points(checked[x], checked[y], None, "checked by simulation", "#D0D0D0", "x"))
        return Panel(title, AXES[x], AXES[y], layers, logx=log[0], logy=log[1])

    share, sharp = with_share(tables["share"]).sort_values("share"), tables["sharp"].sort_values("sharpness")
    lines: list[Layer] = [Line(share["share"], share["test_error"], "attention: theory", colour("attention"))]
    lines.append(Line(share["share"], 1 - share["cosine_q"], "1 − cos(q₂, ξ): theory", "#56B4E9", "dash"))
    lines.append(_spots(with_share(tables["share_spots"]), "share"))
    curve: list[Layer] = [Line(sharp["sharpness"], sharp["test_error"], "attention: theory", colour("attention"))]
    curve.append(_spots(tables["sharp_spots"], "sharpness"))
    pooled = summarise(tables["pooled"], "model", "test_error").iloc[0]["mean"]
    curve.append(Line([min(SHARP), max(SHARP)], [pooled, pooled], "pooled: simulated", colour("pooled"), "dash"))
    both = (True, True)
    return [
        chart("beta_ridge", "beta", "ridge", "test_error", "Softmax and ridge", both),
        chart("eta_q_beta", "eta_q", "beta", "test_error", "Query step and softmax", both),
        Panel("Sharpness of the trained softmax", AXES["sharpness"], AXES["test_error"], curve, logx=True),
        chart("eta_w_b", "eta_w", "eta_b", "cosine_q", "Alignment, π = 0.2", (True, False), diverging=True),
        chart("eta_w_b", "eta_w", "eta_b", "test_error", "Test error, π = 0.2", (True, False)),
        Panel(
            f"Splitting α₀ + α₁ = {TOTAL:g}", "share of the two steps, α₀/(α₀ + α₁)", "test error; 1 − cosine", lines
        ),
    ]


def _spots(table: Any, column: str) -> Points:
    means = summarise(table[table["d"] == table["d"].max()], column, "test_error")
    return Points(means[column], means["mean"], means["error"], "attention: simulated", colour("attention"))


def findings(tables: Tables) -> str:
    share, error = best_of(with_share(tables["share"]), "share")
    sharp, sharp_error = best_of(tables["sharp"], "sharpness")
    ridge = tables["beta_ridge"].loc[tables["beta_ridge"]["test_error"].idxmin()]
    rare = tables["eta_w_b"].loc[tables["eta_w_b"]["test_error"].idxmin()]
    return (
        f"Guidelines. (1) Tune the product that matters: k = β‖q₂‖, best near {sharp:.2g} here (error "
        f"{sharp_error:.4f}); η_q and β "
        f"only enter through it. (2) Spend about {share:.0%} of the samples on the two steps (error {error:.4f}); the "
        f"optimum is flat, the "
        f"ends are not. (3) Use some ridge: the best on the map is λ = {ridge['ridge']:.2g}. (4) With rare positives "
        f"set η_b so that the bias "
        f"step fits the base rate (best on the map: η_b = {rare['eta_b']:g}, η_w = {rare['eta_w']:.2g}). (5) η_w "
        "hardly changes the direction of the query over two orders of magnitude, only its length, which belongs to (1); it "
        "harms when it is so large that the first step saturates the loss."
    )


study = Study(
    name="hyperparameters",
    title="Hyperparameters: maps and guidelines",
    question="How do error and alignment depend on β, λ, the three learning rates and the split of the samples, and "
    "what follows "
    "for tuning? (L = 10, R = 1, θ = 5, logistic; π = 0.5, and 0.2 for the bias's learning rate.)",
    grids={"quick": grids([150, 300], 12), "full": grids([500, 1000], 10)},
    draw=draw,
    findings=findings,
    claims=(
        Claim(
            "maps-exact",
            "The maps are right: simulated spots have the predicted error",
            HERE,
            "six spots, d → ∞, within the margin at level 0.1 %; resolution 0.05",
            exact,
        ),
        Claim(
            "split-interior",
            "The best split of the samples between the two steps and the readout is interior",
            PAPER,
            "both sizes: error at share 0.3 below those at 0.06 and 0.9, beyond the margin",
            valley("share_spots", "share", SHARE_SPOTS),
        ),
        Claim(
            "finite-sharpness",
            "There is a finite best inverse temperature",
            PAPER,
            "both sizes: error at k = 2 below those at k = 0.25 and 20, beyond the margin",
            valley("sharp_spots", "sharpness", SHARP_SPOTS),
        ),
        Claim(
            "small-eta-w",
            "A too small η_w prevents alignment",
            FOLKLORE,
            "cosine_q at η_w = 0.001 below half of that at η_w = 1, beyond the margin",
            small_step,
            expected="refuted",
        ),
        Claim(
            "large-beta",
            "A large β destabilises training",
            FOLKLORE,
            "error at k = 20 above that of pooling on the same samples, beyond the margin",
            large_beta,
            expected="refuted",
        ),
    ),
)

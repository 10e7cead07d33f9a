"""Maps over the hyperparameters, and what to conclude from them. The study: `hyperparameters`."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...plotting.panels import Heat, Layer, Line, Panel, Points, grid_of
from ...plotting.style import colour
from ...study.claims import Claim, Judgement, Tables, need, worst
from ...study.criteria import larger, limits_of, means_of, select
from ...study.study import Grid, Study
from .common import AXES, OURS, STATED, TEN_TOKENS, TEST_ERROR, exact, level, overlay

BASE = {
    **{**TEN_TOKENS, "loss": "logistic", "ridge": 1e-2, "alpha0": 2.0, "alpha1": 2.0},
    **{"eta_w": 1.0, "eta_b": 1.0, "eta_q": 28.0, "beta": 1.0},
}
RARE = {**BASE, "prevalence": 0.2, "alpha0": 4.0}
TOTAL = 4.0
# Map -> its base, and the two fields it is over: the first along the curve of one trial.
BETA, RIDGE = np.geomspace(0.25, 4.0, 6).tolist(), np.geomspace(1e-3, 30.0, 6).tolist()
MAPS: dict[str, tuple[dict[str, Any], tuple[str, list[float]], tuple[str, list[float]]]] = {
    "beta_ridge": (BASE, ("ridge", RIDGE[::-1]), ("beta", BETA)),
    "eta_w_b": (RARE, ("eta_b", [0.0, 1.0, 2.0, 3.0, 4.5, 6.0]), ("eta_w", np.geomspace(0.1, 30.0, 6).tolist())),
    "eta_q_beta": (BASE, ("beta", BETA), ("eta_q", np.geomspace(1.75, 448.0, 6).tolist())),
}
SHARES = [0.03, 0.06, 0.12, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.96]
SHARP = [0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 10.0, 20.0]
SHARE_SPOTS, SHARP_SPOTS = [0.06, 0.3, 0.9], [0.25, 2.0, 20.0]
SHARPEST = SHARP_SPOTS[-1]
TINY_ETA_W = 1e-3


def split(share: float) -> dict[str, float]:
    return {"alpha0": share * TOTAL, "alpha1": (1 - share) * TOTAL}


def grids(sizes: list[int], repeats: int) -> list[Grid]:
    points = [
        *({**BASE, "beta": b, "ridge": r} for b, r in ((0.5, 1e-2), (1.0, 1e-3), (2.0, 1.0))),
        *({**RARE, "eta_w": w, "eta_b": b} for w, b in ((1.0, 0.5), (1.0, 6.0), (10.0, 3.0))),
    ]
    shares = [{**BASE, **split(s), "sharpness": 2.0} for s in SHARE_SPOTS]
    sharp = [{**BASE, "sharpness": k} for k in SHARP_SPOTS]
    pooled, d = {**BASE, "model": "pooled", "equal_samples": True}, {"d": sizes}
    maps = [
        Grid(name, "forecast_curve", {**base, "over": over, "values": values}, dict([axis]))
        for name, (base, (over, values), axis) in MAPS.items()
    ]
    return [
        *maps,
        Grid("share", "forecast", {**BASE, "sharpness": 2.0}, points=[split(s) for s in SHARES]),
        Grid("sharp", "forecast", BASE, {"sharpness": SHARP}),
        Grid("spots", "simulate", {}, d, points=points, repeats=2 * repeats),
        Grid("spots_predicted", "forecast", {}, points=points),
        Grid("share_spots", "simulate", {}, d, points=shares, repeats=2 * repeats),
        Grid("sharp_spots", "simulate", {}, d, points=sharp, repeats=2 * repeats),
        Grid("pooled", "simulate", pooled, d, repeats=3 * repeats),
        Grid("steps", "two_steps", BASE, {"d": [4000, 8000], "eta_w": [TINY_ETA_W, 1.0]}, repeats=20),
    ]


def with_share(table: Any) -> Any:
    """The column share: D0's part of all samples, as it was asked for."""
    return table.assign(share=(table["alpha0"] / (table["alpha0"] + table["alpha1"])).round(6))


def best_of(table: Any, column: str) -> tuple[float, float]:
    row = table.loc[table["test_error"].idxmin()]
    return float(row[column]), float(row["test_error"])


def valley(table: str, column: str, places: list[float]):
    """The middle place has a lower error than both ends, at both sizes."""

    def criterion(tables: Tables) -> Judgement:
        found = means_of(with_share(need(tables, table, ["test_error"])), ["d", column], "test_error")
        sizes = sorted({d for d, _ in found})
        low, middle, high = places
        verdicts = [larger(found[d, end], found[d, middle], 4) for d in sizes for end in (low, high)]
        words = [", ".join(f"{found[d, place]} at {place:g}" for place in places) for d in sizes]
        best = best_of(with_share(need(tables, table.removesuffix("_spots"))), column)
        predicted = f"best near {best[0]:.2g} (error {best[1]:.4f})"
        return Judgement(worst(verdicts), predicted, words[-1], f"half the d: {words[0]}")

    return criterion


def small_step(tables: Tables) -> Judgement:
    """cosine_q at a tiny eta_w below half of that at eta_w = 1?"""
    found = limits_of(need(tables, "steps", ["cosine_q"]), "eta_w", "cosine_q")
    tiny, usual = found[TINY_ETA_W], found[1.0]
    return Judgement(
        larger(usual.scaled(0.5), tiny),
        "cos(q₂, ξ) much smaller",
        f"{tiny} at η_w = {TINY_ETA_W:g}, {usual} at 1",
        "the direction of w₁ does not depend on η_w; only the query's length does, which β or η_q makes up for",
    )


def large_beta(tables: Tables) -> Judgement:
    """Does a very sharp softmax do worse than no attention at all?"""
    runs = need(tables, "sharp_spots", ["test_error"])
    sharp = limits_of(runs, "sharpness", "test_error")[SHARPEST]
    pooled = limits_of(need(tables, "pooled", ["test_error"]), "model", "test_error")["pooled"]
    spread, converged = runs.groupby("sharpness")["test_error"].std(), runs["converged"].mean()
    return Judgement(
        larger(sharp, pooled),
        f"error above pooling's {pooled}",
        f"{sharp} at k = {SHARPEST:g}",
        f"scatter between trials {spread[SHARPEST]:.4f}, against {spread[2.0]:.4f} at k = 2; "
        f"{converged:.0%} of the readouts converged",
    )


def chart(tables: Tables, name: str, x: str, y: str, title: str, value: str = "test_error") -> Panel:
    """A map with its best point, and where simulations checked it."""
    table, cosine = tables[name], value == "cosine_q"
    best = table.loc[(table[value] * (-1 if cosine else 1)).idxmin()]
    layers: list[Layer] = [
        Heat(*grid_of(table, x, y, value), AXES[value], diverging=cosine, log=not cosine),
        Points([best[x]], [best[y]], None, "best point", "#111111" if cosine else "#FFFFFF", "star"),
    ]
    if name != "eta_q_beta" and not cosine:
        checked = select(tables["spots_predicted"], {"prevalence": float(table["prevalence"].iloc[0])})
        layers.append(Points(checked[x], checked[y], None, "checked by simulation", "#D0D0D0", "x"))
    return Panel(title, AXES[x], AXES[y], layers, logx=True, logy=y != "eta_b")


def draw(tables: Tables) -> list[Panel]:
    share = with_share(tables["share"]).sort_values("share")
    runs, error = with_share(tables["share_spots"]), "test_error"
    lines: list[Layer] = [
        *overlay((share, runs), "share", error, "attention"),
        Line(share["share"], 1 - share["cosine_q"], "1 − cos(q₂, ξ): theory", "#56B4E9", "dash"),
    ]
    pooled = means_of(tables["pooled"], "model", error)["pooled"].value
    curve: list[Layer] = [
        *overlay((tables["sharp"], tables["sharp_spots"]), "sharpness", error, "attention"),
        level(pooled, SHARP, "pooled: simulated", colour("pooled")),
    ]
    label = "share of the two steps, α₀/(α₀ + α₁)"
    return [
        chart(tables, "beta_ridge", "beta", "ridge", "Softmax and ridge"),
        chart(tables, "eta_q_beta", "eta_q", "beta", "Query step and softmax"),
        Panel("Sharpness of the trained softmax", AXES["sharpness"], AXES[error], curve, logx=True),
        chart(tables, "eta_w_b", "eta_w", "eta_b", "Alignment, π = 0.2", "cosine_q"),
        chart(tables, "eta_w_b", "eta_w", "eta_b", "Test error, π = 0.2"),
        Panel(f"Splitting α₀ + α₁ = {TOTAL:g}", label, "test error; 1 − cosine", lines),
    ]


def findings(tables: Tables) -> str:
    share, error = best_of(with_share(tables["share"]), "share")
    sharp, sharp_error = best_of(tables["sharp"], "sharpness")
    ridge, _ = best_of(tables["beta_ridge"], "ridge")
    rare = tables["eta_w_b"].loc[tables["eta_w_b"]["test_error"].idxmin()]
    return (
        f"Guidelines. (1) Tune the product that matters: k = β‖q₂‖, best near {sharp:.2g} here (error {sharp_error:.4f}); η_q "
        f"and β only enter through it. (2) Spend about {share:.0%} of the samples on the two steps (error {error:.4f}); the "
        f"optimum is flat, the ends are not. (3) Use some ridge: the best on the map is λ = {ridge:.2g}. (4) With rare "
        f"positives set η_b so that the bias step fits the base rate (best on the map: η_b = {rare['eta_b']:g}, η_w = "
        f"{rare['eta_w']:.2g}). (5) η_w hardly changes the direction of the query over two orders of magnitude, only its "
        "length, which belongs to (1); it harms when it is so large that the first step saturates the loss."
    )


hyperparameters = Study(
    name="hyperparameters",
    title="Hyperparameters: maps and guidelines",
    question="How do error and alignment depend on β, λ, the three learning rates and the split of the samples, and what "
    "follows for tuning? (L = 10, R = 1, θ = 5, logistic; π = 0.5, and 0.2 for the bias's learning rate.)",
    grids={"quick": grids([150, 300], 12), "full": grids([500, 1000], 10)},
    draw=draw,
    findings=findings,
    claims=(
        exact(
            "maps-exact",
            "The maps are right: simulated spots have the predicted error",
            ["beta", "ridge", "eta_w", "eta_b", "prevalence"],
            0.05,
            points="six spots",
            table="spots",
            theory="spots_predicted",
            **OURS,
        ),
        Claim(
            "split-interior",
            "The best split of the samples between the two steps and the readout is interior",
            "both sizes: error at share 0.3 below those at 0.06 and 0.9, beyond the margin",
            valley("share_spots", "share", SHARE_SPOTS),
            **TEST_ERROR,
        ),
        Claim(
            "finite-sharpness",
            "There is a finite best inverse temperature",
            "both sizes: error at k = 2 below those at k = 0.25 and 20, beyond the margin",
            valley("sharp_spots", "sharpness", SHARP_SPOTS),
            **TEST_ERROR,
        ),
        Claim(
            "small-eta-w",
            "A too small η_w prevents alignment",
            "cosine_q at η_w = 0.001 below half of that at η_w = 1, beyond the margin",
            small_step,
            **STATED,
            expected="refuted",
        ),
        Claim(
            "large-beta",
            "A large β destabilises training",
            "error at k = 20 above that of pooling on the same samples, beyond the margin",
            large_beta,
            **STATED,
            expected="refuted",
        ),
    ),
)

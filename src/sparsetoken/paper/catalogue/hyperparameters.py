"""Maps over the hyperparameters, and what to conclude from them. The study: `hyperparameters`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ...plotting.panels import Heat, Layer, Line, Panel, Points, grid_of, level, overlay
from ...plotting.style import AXES, colour
from ...study.claims import Judgement, Tables, claim, need
from ...study.criteria import limits_of, means_of, select
from ...study.study import Grid, sized
from ..stated_results import TEST_ERROR
from . import OURS, STATED, TEN_TOKENS, Resolution
from .claim_builders import exact, listed, ordered, pair, provided, study, with_alpha

BASE: dict[str, Any] = {
    **{**TEN_TOKENS, "loss": "logistic", "ridge": 1e-2, "alpha0": 2.0, "alpha1": 2.0},
    **{"eta_w": 1.0, "eta_b": 1.0, "eta_q": 28.0, "beta": 1.0},
}
TOTAL = float(BASE["alpha0"] + BASE["alpha1"])


def joint(beta: float) -> dict[str, Any]:
    """Everything trained at once with an inverse temperature: the same as a query β times as long, with β² times its rate."""
    rates, decay = {"q": beta**2, "w": 1.0, "bias": 0.5}, {"q": 0.2 / beta**2, "w": 0.2}
    return {**TEN_TOKENS, "alpha": TOTAL, "steps": 30, "rows_at": [30], "rates": rates, "decay": decay}


@sized(quick=([150, 300], 12), full=([500, 1000], 10))
def grids(sizes: list[int], repeats: int) -> list[Grid]:
    def split(share: float) -> dict[str, float]:
        return {"alpha0": share * TOTAL, "alpha1": (1 - share) * TOTAL}

    rare = {**BASE, "prevalence": 0.2, "alpha0": 4.0}
    beta, ridge = np.geomspace(0.25, 4.0, 6).tolist(), np.geomspace(1e-3, 30.0, 6).tolist()
    # Map -> its base, and the two fields it is over: the first along the curve of one trial.
    maps: dict[str, tuple[dict[str, Any], tuple[str, list[float]], tuple[str, list[float]]]] = {
        "beta_ridge": (BASE, ("ridge", ridge[::-1]), ("beta", beta)),
        "eta_w_b": (rare, ("eta_b", [0.0, 1.0, 2.0, 3.0, 4.5, 6.0]), ("eta_w", np.geomspace(0.1, 30.0, 6).tolist())),
        "eta_q_beta": (BASE, ("beta", beta), ("eta_q", np.geomspace(1.75, 448.0, 6).tolist())),
    }
    points = [
        *({**BASE, "beta": b, "ridge": r} for b, r in ((0.5, 1e-2), (1.0, 1e-3), (2.0, 1.0))),
        *({**rare, "eta_w": w, "eta_b": b} for w, b in ((1.0, 0.5), (1.0, 6.0), (10.0, 3.0))),
    ]
    shares = [{**BASE, **split(s), "sharpness": 2.0} for s in (0.06, 0.3, 0.9)]
    trained = [{**BASE, "sharpness": k} for k in (0.25, 2.0, 20.0)]
    line = [split(s) for s in (0.03, 0.06, 0.12, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.96)]
    sharp = [0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 10.0, 20.0]
    pooled, d = {**BASE, "model": "pooled", "equal_samples": True}, {"d": sizes}
    return [
        *(
            Grid(name, "forecast_curve", {**base, "over": over, "values": values}, dict([axis]))
            for name, (base, (over, values), axis) in maps.items()
        ),
        Grid("share", "forecast", {**BASE, "sharpness": 2.0}, points=line),
        Grid("sharp", "forecast", BASE, {"sharpness": sharp}),
        Grid("spots", "simulate", {}, d, points=points, repeats=2 * repeats),
        Grid("spots_predicted", "forecast", {}, points=points),
        Grid("share_spots", "simulate", {}, d, points=shares, repeats=2 * repeats),
        Grid("sharp_spots", "simulate", {}, d, points=trained, repeats=2 * repeats),
        Grid("pooled", "simulate", pooled, d, repeats=3 * repeats),
        Grid("steps", "two_steps", BASE, {"d": [4000, 8000], "eta_w": [1e-3, 1.0]}, repeats=20),
        *(Grid(f"joint_{b:g}", "simulate_trajectory", {**joint(b), "d": sizes[0]}, repeats=16) for b in (1.0, 20.0)),
    ]


def with_share(table: Any) -> Any:
    """The column share: D0's part of all samples, as specified."""
    return table.assign(share=(table["alpha0"] / with_alpha(table)["alpha"]).round(6))


def best_of(table: Any, column: str) -> tuple[float, float]:
    row = table.loc[table["test_error"].idxmin()]
    return float(row[column]), float(row["test_error"])


def valley(tables: Tables, table: str, column: str) -> Judgement:
    """Has the middle of three places a lower error than both ends, at both sizes?"""
    found = means_of(with_share(need(tables, table, ["test_error"])), ["d", column], "test_error")
    sizes, places = (sorted({key[i] for key in found}) for i in (0, 1))
    low, middle, high = places
    words = [listed({place: found[d, place] for place in places}) for d in sizes]
    best = best_of(with_share(need(tables, table.removesuffix("_spots"))), column)
    predicted = f"best near {best[0]:.2g} (error {best[1]:.4f})"
    pairs = [(found[d, end], found[d, middle]) for d in sizes for end in (low, high)]
    return ordered(pairs, predicted, words[-1], f"half the d: {words[0]}")


@claim("split-interior", TEST_ERROR)
def split_interior(tables: Tables) -> Judgement:
    """The best split of the samples between the two steps and the readout is interior.

    Both sizes: error with a share of 0.3 for the two steps below those with 0.06 and 0.9, beyond the margin.
    """
    return valley(tables, "share_spots", "share")


@claim("finite-sharpness", TEST_ERROR)
def finite_sharpness(tables: Tables) -> Judgement:
    """There is a finite best inverse temperature.

    Both sizes: error at k = 2 below those at 0.25 and 20, beyond the margin.
    """
    return valley(tables, "sharp_spots", "sharpness")


@exact("maps-exact", OURS, ["beta", "ridge", "eta_w", "eta_b", "prevalence"], Resolution.COARSE)
def maps_exact(tables: Tables) -> Any:
    """The maps are right: simulated spots have the predicted error.

    Six spots.
    """
    return pair(tables, "test_error", "spots", "spots_predicted")


@claim("small-eta-w", STATED, expected="refuted")
def small_step(tables: Tables) -> Judgement:
    """A too small η_w prevents alignment.

    cos(q₂, ξ) at η_w = 0.001 below half of that at η_w = 1, beyond the margin.
    """
    found = limits_of(need(tables, "steps", ["cosine_q"]), "eta_w", "cosine_q")
    note = "the direction of w₁ does not depend on η_w; only the query's length does, which β or η_q can compensate"
    return ordered([(found[1.0].scaled(0.5), found[1e-3])], "cos(q₂, ξ) much smaller", listed(found, "η_w"), note)


@claim("large-beta", STATED, expected="refuted")
def large_beta(tables: Tables) -> Judgement:
    """A large β destabilises staged training.

    Readout with k = 20: error (d → ∞) above that of pooling on the same samples, beyond the margin, or scatter between trials
    at least 5 times that at k = 2.
    """
    runs = need(tables, "sharp_spots", ["test_error"])
    sharp = limits_of(runs, "sharpness", "test_error")[20.0]
    pooled = limits_of(need(tables, "pooled", ["test_error"]), "model", "test_error")["pooled"]
    spread, converged = runs.groupby("sharpness")["test_error"].std(), runs["converged"].mean()
    note = (
        f"the readout is convex whatever β is: {converged:.0%} of them converged, and the scatter between trials is "
        f"{spread[20.0]:.4f}, against {spread[2.0]:.4f} at k = 2"
    )
    judged = ordered([(sharp, pooled)], f"error above pooling's {pooled}, or scatter × 5", f"{sharp} at k = 20", note)
    return replace(judged, verdict="confirmed") if spread[20.0] > 5 * spread[2.0] else judged


@claim("large-beta-joint", STATED)
def large_beta_joint(tables: Tables) -> Judgement:
    """A large β destabilises training where query and readout are trained together.

    Joint descent at α = 4, 16 runs: mean error with β = 20 above that with β = 1 beyond the margin, and scatter between runs at
    least 5 times as large.
    """
    found = {b: need(tables, f"joint_{b}", ["test_error"])["test_error"] for b in (1, 20)}
    means = {b: means_of(need(tables, f"joint_{b}"), "d", "test_error") for b in found}
    (soft,), (sharp,) = (list(mean.values()) for mean in means.values())
    scatter = {b: float(runs.std(ddof=1)) for b, runs in found.items()}
    words = ("larger error and scatter", listed({1: soft, 20: sharp}, "β"), f"scatter {listed(scatter, 'β')}")
    return provided(scatter[20] > 5 * scatter[1], ordered([(sharp, soft)], *words))


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
        level(pooled, tables["sharp"]["sharpness"], "pooled: simulated", colour("pooled")),
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


hyperparameters = study(
    "hyperparameters",
    grids,
    draw,
    findings,
    (maps_exact, split_interior, finite_sharpness, small_step, large_beta, large_beta_joint),
)

"""Bags as long as the dimension: L = c d with θ = τ L^(1/3), at which two steps find part of the signal at every length."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from scipy.special import ndtri

from ..._core.averages import with_error
from ...plotting.panels import Layer, Line, Panel, Points, level
from ...plotting.style import AXES, REFERENCE
from ...study.claims import Judgement, NotJudgeable, Tables, claim, need
from ...study.criteria import ValueWithError, equal_verdict, quantile, select, worst
from ...study.study import Grid, sized
from . import MODES, OPEN, Resolution
from .claim_builders import ordered, provided, study

BALANCED, RARE = (0.5, 0.8), (0.2, 1.1)  # prevalence and τ
LARGE = 2.0  # L/d where d grows
RATIO = "tokens per bag over dimension, L/d"


def at(ratio: float, d: int, kind: tuple[float, float] = BALANCED) -> dict[str, Any]:
    """A task of L = ratio d tokens."""
    prevalence, tau = kind
    length = max(2, round(ratio * d))
    return {"d": d, "length": length, "prevalence": prevalence, "strength": round(tau * length ** (1 / 3), 6)}


@sized(
    quick=(200, 240, [300, 8000], (100, [0.25, 2.0], 100)),
    full=(400, 400, [1000, 8000, 64000], (200, [0.25, 1.0, 4.0, 8.0], 240)),
)
def long_grids(d: int, repeats: int, large: list[int], trained: tuple[int, list[float], int]) -> list[Grid]:
    made, ratios = [], [0.25, 0.5, 1.0, 2.0, 4.0, 8.0]
    far = [10**k for k in range(3, 13)]  # dimensions of the law, whose limit is approached like d^(-1/3)
    for mode, (eta_b, _, _) in MODES.items():
        both: dict[str, Any] = {"sparsity": 1, "alpha0": 4.0, "eta_w": 1.0, "loss": "logistic", "eta_b": eta_b}
        steps, readout = {**both, "eta_q": 1.0}, {**both, "alpha1": 2.0, "ridge": 0.1, "sharpness": 3.0}
        points = {
            mode: ([at(c, d) for c in ratios], repeats),
            f"rare_{mode}": ([at(c, d, RARE) for c in ratios[2:]], repeats // 2),
            f"large_{mode}": ([at(LARGE, size) for size in large], 120),
        }
        for name, (where, count) in points.items():
            kind = "steps_given_share" if name == "plain" else "two_steps"
            made.append(Grid(name, kind, steps, points=where, repeats=count, first_seed=7000))
            made.append(Grid(f"{name}_law", "alignment_law", steps, points=where))
        made.append(Grid(f"far_{mode}_law", "alignment_law", steps, points=[at(LARGE, size) for size in far]))
        where = [at(c, trained[0]) for c in trained[1]]
        made.append(Grid(f"trained_{mode}", "simulate", readout, points=where, repeats=trained[2], first_seed=7000))
        made.append(Grid(f"trained_{mode}_law", "forecast_at", readout, points=where))
    return made  # criteria and sizes were chosen on other seeds


def against_law(tables: Tables, name: str, value: str = "cosine_q") -> Any:
    """Mean and spread of a value between data sets, simulated and predicted, by d and L/d."""
    table, law = need(tables, name, [value]), need(tables, f"{name}_law", [value, f"{value}_spread"])
    rows = table.groupby(["d", "length"])[value].agg(["mean", "std", "count"]).reset_index()
    law = law[["d", "length", value, f"{value}_spread"]].rename(columns={value: "law", f"{value}_spread": "law_spread"})
    joined = rows.merge(law, on=["d", "length"]).sort_values(["d", "length"])
    if len(joined) < len(rows) or (rows["count"] < 10).any():
        raise NotJudgeable(f"{len(joined)} of {len(rows)} points predicted, at least {rows['count'].min()} draws each")
    return joined.assign(ratio=joined["length"] / joined["d"], error=joined["std"] / joined["count"] ** 0.5)


def agree(parts: list[Any], resolution: float) -> str:
    """Are means and logarithms of spreads those of the law, within their margins?"""
    points, verdicts = 2 * sum(map(len, parts)), []
    for _, row in (row for rows in parts for row in rows.iterrows()):
        margin = float(quantile(points, row["count"] - 1))
        verdicts.append(equal_verdict(row["mean"] - row["law"], margin * row["error"], resolution))
        off = np.log(row["std"] / row["law_spread"])
        verdicts.append(equal_verdict(off, margin / (2 * (row["count"] - 1)) ** 0.5, 0.35))
    return worst(verdicts)


def of_modes(tables: Tables, prefix: str, value: str, resolution: float, note: str = "") -> Judgement:
    """Do a value's mean and spread have their law, with plain steps and with centred residuals?"""
    parts = {mode: against_law(tables, prefix + mode, value) for mode in MODES}
    predicted = "; ".join(f"{mode} {', '.join(f'{v:.3f}' for v in rows['law'])}" for mode, rows in parts.items())
    words = "; ".join(f"{mode} {by_length(rows)}" for mode, rows in parts.items())
    return Judgement(agree(list(parts.values()), resolution), predicted, words, note)


def by_length(rows: Any) -> str:
    return ", ".join(f"{with_error(r['mean'], r['error'])} (L/d = {r['ratio']:g})" for _, r in rows.iterrows())


@claim("long-bags-law", OPEN)
def law_holds(tables: Tables) -> Judgement:
    """With L of the order of d the cosine of the query has the law of the formulas at the realised share of positives.

    Mean and spread of the cosine at L/d = 0.25 to 8, plain and centred, within the margins at level 0.1 %; resolutions 0.12
    and, in the logarithm of the spread, 0.35.
    """
    parts = [against_law(tables, mode) for mode in MODES]
    spread = max(float((np.log(rows["std"] / rows["law_spread"])).abs().max()) for rows in parts)
    return of_modes(tables, "", "cosine_q", Resolution.ROUGH, f"spreads off by at most {np.expm1(spread):.0%}")


@claim("long-bags-share", OPEN)
def share_decides(tables: Tables) -> Judgement:
    """In long bags the share of positives among the n₀ bags decides where the query of plain steps points.

    Correlation over data sets of the cosine with the formula at this share: above 0.75 at L/d = 1 to 8, beyond the margin.
    """
    table, pairs, words = need(tables, "plain", ["cosine_q", "given_share"]), [], []
    for (d, length), rows in table[table["length"] >= table["d"]].groupby(["d", "length"]):
        found = float(rows["cosine_q"].corr(rows["given_share"]))
        # Fisher's transformation has a Gaussian error.
        pairs.append((ValueWithError(np.arctanh(found), (len(rows) - 3) ** -0.5), np.arctanh(0.75)))
        words.append(f"{found:.3f} (L/d = {length / d:g})")
    return ordered(pairs, "above 0.75", ", ".join(words))


def limit_of(mode: str, draws: int = 100_000) -> tuple[float, float]:
    """Mean and spread of the limit s/sqrt(s² + 1 + c (1 - η_b/4)² ζ²), s = α₀ τ³/4, at L/d = LARGE; no ζ where centred."""
    s, zeta = 4.0 * BALANCED[1] ** 3 / 4, ndtri((np.arange(draws) + 0.5) / draws)
    values = s / np.sqrt(s**2 + 1 + (0.0 if mode == "centred" else LARGE * (1 - 1 / 4) ** 2) * zeta**2)
    return float(np.mean(values)), float(np.std(values))


def towards(rows: Any, far: Any, limit: tuple[float, float]) -> tuple[str, str]:
    """Mean ± spread as predicted and as found: simulated at the largest d; by the law at d = 10¹², next to its limit."""
    r, law = rows.iloc[-1], f"{far['cosine_q']:.3f} ± {far['cosine_q_spread']:.3f}"
    return (
        f"{r['law']:.3f} ± {r['law_spread']:.3f}; limit {limit[0]:.3f} ± {limit[1]:.3f}",
        f"{r['mean']:.3f} ± {r['std']:.3f} (d = {r['d']:g}); law {law} (d = 10¹²)",
    )


@claim("long-bags-limit", OPEN)
def limit_holds(tables: Tables) -> Judgement:
    """Where L and d grow together the cosine of plain steps stays random, and its law has a closed form.

    L = 2d: simulations at growing d have the law's mean and spread (margins at level 0.1 %, resolutions 0.12 and 0.35), and the
    law at d = 10¹² the limit's mean and spread within 0.005.
    """
    far = need(tables, "far_plain_law", ["cosine_q_spread"]).sort_values("d").iloc[-1]
    mean, spread = limit_of("plain")
    off = max(abs(far["cosine_q"] - mean), abs(far["cosine_q_spread"] - spread))
    rows = against_law(tables, "large_plain")
    return provided(off < 0.005, Judgement(agree([rows], Resolution.ROUGH), *towards(rows, far, (mean, spread))))


@claim("long-bags-centred", OPEN)
def centred_settles(tables: Tables) -> Judgement:
    """With centred residuals every data set gives the same cosine as L and d grow together.

    L = 2d: simulations at growing d have the law's mean and spread (as above), the spread falls from each d to the next beyond
    the margin, and at d = 10¹² it is below 0.005, the mean s/√(1 + s²) within 0.005.
    """
    rows, far = against_law(tables, "large_centred"), need(tables, "far_centred_law", ["cosine_q_spread"])
    last, limit = far.sort_values("d").iloc[-1], limit_of("centred")[0]
    spread = [ValueWithError(np.log(r["std"]), r["count"] ** -0.5) for _, r in rows.iterrows()]
    falls = ordered(list(pairwise(spread)), "", "").verdict
    settled = max(abs(last["cosine_q"] - limit), last["cosine_q_spread"]) < 0.005
    spreads = ", ".join(f"{r['std']:.3f} (d = {r['d']:g})" for _, r in rows.iterrows())
    verdict = worst([agree([rows], Resolution.ROUGH), falls])
    return provided(settled, Judgement(verdict, *towards(rows, last, (limit, 0.0)), spreads))


@claim("long-bags-rare", OPEN)
def rare_turn(tables: Tables) -> Judgement:
    """In long bags with rare positives plain steps turn the query away from the signal, centred ones find it.

    π = 0.2, L/d = 1 to 8: mean cosine below 0 (plain), above 0.5 (centred), beyond the margin.
    """
    plain, centred = (against_law(tables, f"rare_{mode}") for mode in MODES)
    pairs: list[Any] = [(0.0, ValueWithError(r["mean"], r["error"], r["count"] - 1)) for _, r in plain.iterrows()]
    pairs += [(ValueWithError(r["mean"], r["error"], r["count"] - 1), 0.5) for _, r in centred.iterrows()]
    return ordered(pairs, "plain < 0, centred > 0.5", f"plain {by_length(plain)}; centred {by_length(centred)}")


@claim("long-bags-error", OPEN)
def error_holds(tables: Tables) -> Judgement:
    """The test error of staged attention in long bags is the forecast at this d, averaged over the queries' law.

    Mean and spread of the error, plain and centred, within the margins at level 0.1 %; resolutions 0.06, and 0.35 in the
    logarithm of the spread.
    """
    return of_modes(tables, "trained_", "test_error", Resolution.COARSE)


def draw_long(tables: Tables) -> list[Panel]:
    cosines: list[Layer] = []
    spreads: list[Layer] = []
    errors: list[Layer] = []
    for mode, (_, name, shade) in MODES.items():
        both = against_law(tables, mode), against_law(tables, f"trained_{mode}", "test_error")
        for layers, rows in zip((cosines, errors), both):
            layers.append(Line(rows["ratio"], rows["law"], f"{name}: law at this d", shade))
            layers.append(Points(rows["ratio"], rows["mean"], rows["std"], f"{name}: simulated, with spread", shade))
        far, large = tables[f"far_{mode}_law"].sort_values("d"), against_law(tables, f"large_{mode}")
        spreads.append(Line(far["d"], far["cosine_q_spread"], f"{name}: law", shade))
        error = large["std"] / (2 * (large["count"] - 1)) ** 0.5
        spreads.append(Points(large["d"], large["std"], error, f"{name}: simulated", shade))
    spreads.append(level(limit_of("plain")[1], [1e3, 1e12], "limit of plain steps", REFERENCE))
    d, trained = (int(tables[name]["d"].max()) for name in ("plain", "trained_plain"))
    title = f"Its spread between data sets, L = {LARGE:g} d"
    return [
        Panel(f"The query in long bags, d = {d}", RATIO, AXES["cosine_q"], cosines, logx=True),
        Panel(title, "dimension d", "spread of cos(q₂, ξ)", spreads, logx=True),
        Panel(f"Test error, d = {trained}", RATIO, AXES["test_error"], errors, logx=True),
    ]


def long_findings(tables: Tables) -> str:
    plain, centred = (against_law(tables, mode).iloc[-1] for mode in MODES)
    turned = float((select(tables["plain"], {"length": plain["length"]})["cosine_q"] < 0).mean())
    rare = [against_law(tables, f"rare_{mode}")["mean"] for mode in MODES]
    mean, spread = limit_of("plain")
    return (
        f"With L of the order of d two steps have a closed answer. At L = {plain['ratio']:g} d the query of plain steps has a "
        f"cosine of {plain['mean']:.2f} ± {plain['std']:.2f} (law {plain['law']:.2f} ± {plain['law_spread']:.2f}), and "
        f"{turned:.0%} of the data sets turn it round: their share of positives is not quite one half. It stays random as d "
        f"grows (L = {LARGE:g} d: {mean:.2f} ± {spread:.2f} in the limit). Centred residuals have {centred['mean']:.2f} ± "
        f"{centred['std']:.2f}, and every data set the same in the limit. With one positive in five plain steps turn away "
        f"({rare[0].min():.2f} to {rare[0].max():.2f}), centred ones do not ({rare[1].min():.2f} to {rare[1].max():.2f})."
    )


long_bags = study(
    "long-bags",
    long_grids,
    draw_long,
    long_findings,
    (law_holds, share_decides, limit_holds, centred_settles, rare_turn, error_holds),
)

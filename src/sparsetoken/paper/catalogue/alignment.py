"""Two gradient steps align the query with the signal (Theorem 1, Corollary 1), or turn it away (Eq. 15)."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from ..._core.averages import extrapolate, summarise
from ...plotting.panels import Heat, Layer, Line, Panel, Points, grid_of, largest, overlay
from ...plotting.style import AXES, INK, OTHER_COLOURS, colour
from ...study.claims import Judgement, Tables, claim, need
from ...study.criteria import (
    LineFit,
    ValueWithError,
    fit_line,
    judge_agreement,
    judge_slope,
    limits_of,
    means_of,
    quantile,
    select,
    worst,
)
from ...study.study import Grid, sized
from ..stated_results import ALIGNMENT, MANY_SAMPLES, SIGN, checked, stated_of
from .common import Resolution, both, listed, ordered, pair, provided, study


@sized(quick=([2000, 4000], 20), full=([10000, 20000], 50))
def alignment_grids(sizes: list[int], repeats: int) -> list[Grid]:
    """The figure has the published size; claims rest on larger ones, and on more trials where few samples mean noise."""
    fixed = {
        **{"length": 10, "sparsity": 3, "strength": 6.0, "prevalence": 0.2, "loss": "logistic"},
        **{"eta_w": 0.5, "eta_b": 0.5, "eta_q": 0.5, "beta": 1.0},
    }
    few, many = [0.25, 0.5, 1.0, 2.0], [4.0, 8.0, 16.0, 32.0, 64.0, 128.0]
    return [
        Grid("shown", "two_steps", {**fixed, "d": 1000}, {"alpha0": few + many}, repeats=10),
        Grid("simulated", "two_steps", fixed, {"d": [2 * d for d in sizes], "alpha0": few}, repeats=10 * repeats),
        Grid("simulated", "two_steps", fixed, {"d": sizes, "alpha0": many}, repeats=repeats),
        Grid("predicted", "alignment", fixed, {"alpha0": [float(a) for a in np.geomspace(0.2, 160, 40)]}),
        Grid("predicted_there", "alignment", fixed, {"alpha0": few + many}),
    ]


@claim("alignment-exact", checked(ALIGNMENT, "Check 1: alignment"))
def cosines_exact(tables: Tables) -> Judgement:
    """The cosines after two steps are those of the asymptotic formula.

    Cos(q₂, ξ) and cos(w₁, ξ) at every α₀, extrapolated to d → ∞, within the margin at level 0.1 %; resolution 0.03.
    """
    names, tested = ("cosine_q", "cosine_w"), pair(tables, "cosine_w", predicted="predicted_there")
    return both({AXES[name]: judge_agreement(*tested, name, ["alpha0"], Resolution.FINE) for name in names})


@claim("two-steps-align", MANY_SAMPLES)
def align(tables: Tables) -> Judgement:
    """Two gradient steps align the query with the signal as α₀ grows.

    Simulated cos(q₂, ξ), d → ∞, increases from each α₀ to the next, and exceeds 0.99 at the largest.
    """
    found = dict(sorted(limits_of(need(tables, "simulated", ["cosine_q"]), "alpha0", "cosine_q").items()))
    values = [value._replace(degrees=np.inf) for value in found.values()]
    pairs: list[Any] = [*((b, a) for a, b in pairwise(values)), (values[-1], 0.99)]
    (first, low), *_, (last, high) = found.items()
    return ordered(pairs, "increases to 1", listed({first: low.value, last: high}, "α₀"))


def _rate_fits(tables: Tables) -> tuple[LineFit, LineFit]:
    """Simulated and predicted, from α₀ = 16 on, where the 1/α₀ term dominates."""
    parts = (table[table["alpha0"] >= 16] for table in pair(tables, "cosine_q", predicted="predicted_there"))
    far, theory = (part.assign(gap=1 - part["cosine_q"]) for part in parts)
    gap = extrapolate(far, ["alpha0"], "gap")
    simulated = fit_line(np.log(gap["alpha0"]), np.log(gap["limit"]), gap["error"] / gap["limit"])
    return simulated, fit_line(np.log(theory["alpha0"]), np.log(theory["gap"]))


@claim("alignment-rate", MANY_SAMPLES)
def rate(tables: Tables) -> Judgement:
    """1 − |cos(q₂, ξ)| falls like 1/α₀.

    Fitted log-log slope for α₀ ≥ 16 is the theory's on that range, which is −1 to 0.05; resolution 0.05.
    """
    # The next order, 1/alpha0^2, bends the line a little over a finite range, by an amount that the theory gives.
    fit, theory = _rate_fits(tables)
    note = f"the exact theory gives {theory.slope:.3f} on this range and -1 in the limit"
    judged = replace(judge_slope(fit, theory.slope, 0.05, note), predicted="-1")
    return provided(abs(theory.slope + 1) < 0.05, judged)


def draw_alignment(tables: Tables) -> list[Panel]:
    lines, shown = tables["predicted"], tables["shown"]
    panels: list[list[Layer]] = [[], []]
    for name, shade in (("cosine_q", colour("attention")), ("cosine_w", OTHER_COLOURS[0])):
        gaps = [table.assign(gap=1 - table[name]) for table in (lines, shown)]
        panels[0] += overlay((lines, shown), "alpha0", name, AXES[name], shade)
        panels[1] += overlay(gaps, "alpha0", "gap", AXES[name], shade)
    constant, tail = float(lines["rate"].iloc[0]), np.array([4.0, 160.0])
    panels[1].append(Line(tail, constant / tail, f"K/α₀, K = {constant:.3f}", "#555555", "dot"))
    title = f"Alignment after two steps (d = {int(shown['d'].max())})"
    return [
        Panel(title, AXES["alpha0"], "cosine with the signal", panels[0], logx=True),
        Panel("Distance from perfect alignment", AXES["alpha0"], "1 − cosine", panels[1], logx=True, logy=True),
    ]


def alignment_findings(tables: Tables) -> str:
    (fit, _), constant = _rate_fits(tables), float(tables["predicted"]["rate"].iloc[0])
    return (
        f"The query turns to the signal with more samples: 1 − cos(q₂, ξ) falls with slope {fit.slope:.3f} ± "
        f"{fit.slope_error:.3f} on log axes, and the predicted constant is K = {constant:.3f}. The query is better aligned "
        "than the readout it was computed from: the second step averages over the tokens once more."
    )


alignment = study("alignment", alignment_grids, draw_alignment, alignment_findings, (cosines_exact, align, rate))


# The study `anti-alignment`.

MAP = ["eta_b", "prevalence"]


@sized(quick=([8000, 16000], 30, [150, 300], 12), full=([32000, 64000], 40, [500, 1000], 10))
def anti_alignment_grids(sizes: list[int], repeats: int, trained_sizes: list[int], trained: int) -> list[Grid]:
    """A map over bias rate and prevalence, and a strongly anti-aligned training: rare positives, many samples, no bias step."""
    steps = {
        **{"length": 40, "sparsity": 2, "strength": 2.0, "loss": "logistic"},
        **{"alpha0": 3.0, "eta_w": 1.0, "eta_q": 1.0, "beta": 1.0},
    }
    spots = dict(zip(MAP, ([0.0, 0.5, 1.0, 2.0, 3.0, 4.0, 6.0], [0.05, 0.1, 0.2, 0.35, 0.5])))
    anti = {
        **{"length": 10, "sparsity": 1, "strength": 3.0, "prevalence": 0.2, "alpha0": 400.0, "alpha1": 8.0},
        **{"eta_w": 1.0, "eta_b": 0.0, "beta": 1.0, "ridge": 1e-3, "sharpness": 2.0},
    }
    fine = dict(zip(MAP, (np.linspace(0.0, 6.0, 41).tolist(), np.linspace(0.03, 0.5, 41).tolist())))
    return [
        Grid("simulated", "two_steps", steps, {"d": sizes, **spots}, repeats=repeats),
        Grid("predicted", "alignment", steps, fine),
        Grid("predicted_there", "alignment", steps, spots),
        Grid("trained", "simulate", anti, {"d": trained_sizes, "model": ["attention", "pooled"]}, repeats=trained),
    ]


@claim("anti-alignment-boundary", SIGN)
def boundary(tables: Tables) -> Judgement:
    """The query is anti-aligned exactly where π E[h₊] θ² R(1−R/L) + (L−1) E[h] > 0.

    cos(q₂, ξ) agrees with theory at all 35 settings (d → ∞, resolution 0.06), every sign clear of noise is the predicted one,
    both occur.
    """
    simulated, predicted = pair(tables, "cosine_q", predicted="predicted_there")
    size = judge_agreement(simulated, predicted, "cosine_q", MAP, Resolution.COARSE)
    rows = extrapolate(simulated, MAP, "cosine_q").merge(predicted[[*MAP, "anti_aligned"]], on=MAP)
    clear = rows["limit"].abs() > quantile(len(rows), rows["degrees"].to_numpy(float)) * rows["error"]
    agree = (rows["limit"] < 0) == rows["anti_aligned"].astype(bool)
    wrong = int((clear & ~agree).sum())
    signs = set(np.sign(rows["limit"][clear]))
    verdict = worst([size.verdict, "refuted" if wrong else "confirmed" if len(signs) > 1 else "undecided"])
    measured = f"{int((clear & agree).sum())} signs right, {wrong} wrong, {int((~clear).sum())} within noise of zero"
    return Judgement(verdict, "all signs right", measured, f"size of the cosine: {size.note}")


def _anti_aligned(tables: Tables, name: str) -> tuple[ValueWithError, str]:
    """A measure of the anti-aligned attention at d → ∞, and a note with the cosine of its query."""
    attention = select(need(tables, "trained", [name, "cosine_q"]), {"model": "attention"})
    cosine = means_of(attention, "model", "cosine_q")["attention"].value
    return limits_of(attention, "model", name)["attention"], f"cos(q₂, ξ) = {cosine:.2f}"


@claim("anti-aligned-above-half", stated_of(SIGN), expected="refuted")
def above_half(tables: Tables) -> Judgement:
    """An anti-aligned query is worse than random.

    Balanced error of the trained attention (d → ∞, π = 0.2) above 0.5 beyond the margin.
    """
    found, cosine = _anti_aligned(tables, "balanced_error")
    note = f"{cosine}; the readout is trained afterwards, and uses the reversed direction"
    return ordered([(found, 0.5)], "above 0.5", str(found), note)


@claim("anti-aligned-above-constant", stated_of(SIGN))
def above_constant(tables: Tables) -> Judgement:
    """An anti-aligned query is worse than always answering negative.

    Test error of the trained attention (d → ∞) above the prevalence 0.2 beyond the margin.
    """
    found, note = _anti_aligned(tables, "test_error")
    share = float(tables["trained"]["prevalence"].iloc[0])
    return ordered([(found, share)], f"above {share:g}", str(found), note)


def draw_anti_alignment(tables: Tables) -> list[Panel]:
    predicted, simulated = tables["predicted"], tables["simulated"]
    x, y, z = grid_of(predicted, "eta_b", "prevalence", "cosine_q")
    means = summarise(largest(simulated), MAP, "cosine_q")
    layers: list[Layer] = [
        Heat(x, y, z, "cos(q₂, ξ), theory", diverging=True),
        Line(*_zero_line(x, y, z), "predicted boundary", INK),
    ]
    for sign, label, mark, shade in (
        (1, "simulated: aligned", "circle", "#67001f"),
        (-1, "simulated: anti-aligned", "square", "#053061"),
    ):
        part = means[np.sign(means["mean"]) == sign]
        layers.append(Points(part["eta_b"], part["prevalence"], None, label, shade, mark))
    cuts: list[Layer] = []
    for eta_b, shade in zip((0.0, 1.0, 3.0), (OTHER_COLOURS[0], OTHER_COLOURS[3], colour("attention"))):
        nearest = predicted["eta_b"].iloc[(predicted["eta_b"] - eta_b).abs().argmin()]
        pair = (select(predicted, {"eta_b": nearest}), select(simulated, {"eta_b": eta_b}))
        cuts += overlay(pair, "prevalence", "cosine_q", f"η_b = {eta_b:g}", shade)
    return [
        Panel("Alignment over (η_b, π)", AXES["eta_b"], AXES["prevalence"], layers),
        Panel("Cuts through the map", AXES["prevalence"], AXES["cosine_q"], cuts),
    ]


def _zero_line(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each pi, the eta_b where the map changes sign (linear interpolation)."""
    points = []
    for value, row in zip(y, z):
        for i in np.flatnonzero(np.sign(row[:-1]) != np.sign(row[1:])):
            points.append((x[i] - row[i] * (x[i + 1] - x[i]) / (row[i + 1] - row[i]), value))
    columns = np.array(points).reshape(-1, 2)
    return columns[:, 0], columns[:, 1]


def anti_alignment_findings(tables: Tables) -> str:
    there, means = tables["predicted_there"], means_of(largest(tables["trained"]), "model", "test_error")
    return (
        f"{int(there['anti_aligned'].sum())} of the {len(there)} simulated settings are predicted to be anti-aligned: rare "
        "positives with too small a bias step, where the residuals of negative bags push the query away from the signal. "
        "The remedy is a larger η_b, so that the bias fits the base rate. At π = "
        f"{tables['trained']['prevalence'].iloc[0]:g} the trained attention has error {means['attention'].value:.3f}, pooling "
        f"{means['pooled'].value:.3f}: worse than always answering negative, but not than chance."
    )


anti_alignment = study(
    "anti-alignment",
    anti_alignment_grids,
    draw_anti_alignment,
    anti_alignment_findings,
    (boundary, above_half, above_constant),
)

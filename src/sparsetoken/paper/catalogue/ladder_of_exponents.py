"""What learning needs as bags grow longer: a ladder of exponents between sqrt(L) and sqrt(log L).

Attention can separate the classes from sqrt(2 log L) on; whether alpha d bags suffice to find the signal is another question.
The study `ladder`: the strength (or the samples) for a cosine and for a test error, by pooling, two steps, more products with
the labelled second moment, its eigenvector, message passing, and in principle.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...plotting.panels import Layer, Line, Panel, Points, Rule
from ...plotting.style import AXES, REFERENCE, colour, label
from ...study.claims import Judgement, NotJudgeable, Tables, claim, need
from ...study.criteria import equal_verdict, fit_line, limits_of, quantile, select, worst
from ...study.study import Grid
from . import OPEN, OURS
from .claim_builders import decided, sharp, study

PLAIN: dict[str, Any] = {"sparsity": 1, "prevalence": 0.5, "alpha": 4.0}
LENGTHS = [10**i for i in range(2, 7)]
# Methods -> powers of L with which their strengths grow.
PRODUCTS = {
    **{"products:0": 1 / 2, "fresh_products:1": 1 / 3, "fresh_products:2": 3 / 10, "fresh_products:3": 2 / 7},
    **{"products:2": 3 / 10, "products:3": 2 / 7},
}
SPECTRAL = ("eigenvector", "positive_eigenvector", "message_passing")
ERROR = 0.1
FOR_ERROR = ("products:0", "products:1", "eigenvector", "bayes")
STRENGTHS = [16.0, 32.0, 64.0]  # far below sqrt(L) = 1000, where the powers of theta hold
FOR_SAMPLES = (
    "products:0",
    "fresh_products:1",
    "fresh_products:2",
    "eigenvector",
    "positive_eigenvector",
    "message_passing",
)
# Strength times this power of R^2 pi(1-pi) is constant; message passing has pi in place of pi(1-pi).
SCALED = {"products:1": 1 / 3, "eigenvector": 1 / 4, "message_passing": 1 / 4}
# Directions that are drawn, at the strength that theory has for this cosine: nearer to the eigenvector's transition it
# approaches its limit slowly.
DRAWN_COSINE = 0.7
DRAWN = ("products:1", "products:2", "fresh_products:2", "eigenvector")
STEPS = (2, 4, 8, 12)  # of joint descent


def descent_points(lengths: list[int]) -> list[dict[str, Any]]:
    """Strengths in units of what the top eigenvector needs; rates that grow like the inverse of the second moment's size."""
    points = []
    for n in lengths:
        unit, rate = 1.06 * n**0.25, round(0.2 * (PLAIN["alpha"] * n) ** 0.5, 4)
        rates = {"q": rate, "w": rate, "bias": 1.0}
        points += [{"length": n, "strength": round(f * unit, 4), "rates": rates} for f in (0.85, 1.0, 1.15, 1.4, 1.7)]
    return points


def grids(
    lengths: list[int], trained: list[int], drawn: dict[str, Any], descent: list[int], bags: int, full: bool = False
) -> list[Grid]:
    along: dict[str, Any] = {**PLAIN, "over": "length", "strength": 8.0}
    far = {"length": 10**5, "alpha": 4.0, "strength": 20.0}
    error = {**along, "values": lengths, "test_error": ERROR}
    samples = {**PLAIN, "length": 10**6, "over": "strength", "values": STRENGTHS, "find": "alpha"}
    of_descent = {"steps": max(STEPS), "bags": bags, "replicates": 2, "accuracy": 0.5}
    pairs = {"method": ("products:1", "eigenvector")}
    target, directions = {"target": DRAWN_COSINE}, {"method": DRAWN, "d": drawn["d"]}
    tasks = [
        {"length": 64, "sparsity": 1, "prevalence": 0.5, "alpha": 4.0},
        {"length": 512, "sparsity": 3, "prevalence": 0.2, "alpha": 2.0},
    ]
    # Sums over subsets of several signal tokens take minutes: in the full form, at shorter bags.
    several = {**far, "length": 10**4, "prevalence": 0.5, "over": "sparsity", "values": [1, 2, 4]}
    return [
        *([Grid("sparsity", "ladder", {**several, "method": "message_passing"})] if full else []),
        Grid("needed", "ladder", {**along, "values": LENGTHS}, {"method": tuple(PRODUCTS)}),
        Grid("needed", "ladder", {**along, "values": lengths}, {"method": (*SPECTRAL, "bayes")}),
        Grid("errors", "ladder", error, {"method": FOR_ERROR}),
        Grid("trained", "ladder", {**error, "values": trained, "strength": 18.0, "method": "trained:attention"}),
        Grid("samples", "ladder", samples, {"method": FOR_SAMPLES}),
        Grid("sparsity", "ladder", {**far, "prevalence": 0.5, "over": "sparsity", "values": [1, 2, 4, 8]}, pairs),
        Grid(
            "prevalence", "ladder", {**far, "over": "prevalence", "values": [0.5, 0.2, 0.05]}, {"method": tuple(SCALED)}
        ),
        # Sizes were chosen on other seeds.
        Grid("drawn", "learnt_direction", target, directions, tasks, drawn["repeats"], first_seed=2000),
        Grid("descent", "trajectory", {**PLAIN, **of_descent}, points=descent_points(descent)),
        Grid("short", "ladder", {**along, "values": descent}, pairs),
    ]


# Exponents of exact numbers.


def line_of(tables: Tables, table: str, method: str, x: str) -> tuple[np.ndarray, np.ndarray]:
    """(values of x, what is needed) of one method."""
    part = select(need(tables, table, ["needed"]), {"method": method}).sort_values(x)
    if len(part) < 2:
        raise NotJudgeable(f"{table}: {len(part)} values for {method}")
    needed = part["needed"].to_numpy(float)
    if not np.isfinite(needed).all():
        raise NotJudgeable(f"{table}: {method} reaches the target nowhere in the range searched")
    return part[x].to_numpy(float), needed


def exponents_near(
    tables: Tables, expected: dict[tuple[str, str], float], tolerance: float, x: str = "length"
) -> Judgement:
    """Exponents of exact numbers between the two largest x, by (table, method), against their limits."""
    found = {}
    for key in expected:
        at, needed = np.log(line_of(tables, *key, x))
        found[key] = float((needed[-1] - needed[-2]) / (at[-1] - at[-2]))
    off = max(abs(found[key] - value) for key, value in expected.items())
    return decided(
        off <= tolerance,
        ", ".join(f"{value:.3f}" for value in expected.values()),
        ", ".join(f"{value:.3f}" for value in found.values()),
        f"{', '.join(label(method) for _, method in expected)}; largest difference {off:.4f}",
    )


@claim("ladder-exponents", OURS)
def ladder_exponents(tables: Tables) -> Judgement:
    """After k products the strength for a fixed cosine grows like L^((k+1)/(4k+2)).

    Exact strengths for a cosine of 1/2: exponent between L = 10^5 and 10^6 within 0.01 of the limit, k = 0 to 3.
    """
    return exponents_near(tables, {("needed", method): power for method, power in PRODUCTS.items()}, 0.01)


@claim("ladder-quarter", OURS)
def quarter(tables: Tables) -> Judgement:
    """Eigenvectors of second moments and message passing need θ ~ L^(1/4) for a fixed cosine.

    Exponent between L = 10^5 and 10^6 within 0.005 of 1/4.
    """
    return exponents_near(tables, {("needed", method): 0.25 for method in SPECTRAL}, 0.005)


@claim("ladder-error", OURS)
def error_quarter(tables: Tables) -> Judgement:
    """For a fixed test error every method that looks at single tokens along its direction needs θ ~ L^(1/4), trained
    attention among them.

    Exponent of the strength for 10 % error between the two longest bags (10^5 and 10^6; trained, quick: 10^3 and 10^4) within
    0.02 of 1/4.
    """
    keys = [("errors", method) for method in FOR_ERROR if method != "bayes"] + [("trained", "trained:attention")]
    return exponents_near(tables, dict.fromkeys(keys, 0.25), 0.02)


@claim("ladder-information", OURS)
def information(tables: Tables) -> Judgement:
    """Information suffices from about √(2 log L) on.

    Slope of the information limit's strength on √(2 log L), L = 10^4 (full: 10^3) to 10^6, is 1 to 0.1.
    """
    slopes = {}
    for table in ("needed", "errors"):
        length, strength = line_of(tables, table, "bayes", "length")
        slopes[table] = fit_line(sharp(length[length >= 1000]), strength[length >= 1000]).slope
    off = max(abs(slope - 1) for slope in slopes.values())
    measured = f"{slopes['needed']:.3f} (cosine 1/2), {slopes['errors']:.3f} ({ERROR:.0%} error)"
    return decided(off <= 0.1, "1", measured)


@claim("ladder-jump", OURS)
def jump(tables: Tables) -> Judgement:
    """Message passing succeeds from α π θ⁴ R²/L = 1/e on.

    Within 3 % of 1/e where the cosine passes 1/2, L = 10^4 to 10^6.
    """
    length, strength = line_of(tables, "needed", "message_passing", "length")
    G = PLAIN["alpha"] * PLAIN["prevalence"] * strength**4 / length
    near = np.abs(G[-3:] * np.e - 1).max() <= 0.03
    return decided(near, f"1/e = {1 / math.e:.4f}", ", ".join(f"{g:.4f}" for g in G[-3:]), "L = 10^4, 10^5, 10^6")


@claim("ladder-samples", OURS)
def sample_sizes(tables: Tables) -> Judgement:
    """n/d is of order L/θ² (labelled mean), L/θ³ (two steps), L/θ^(10/3) (two products), L/θ⁴ (eigenvectors, message
    passing).

    Exponents of α on θ between 32 and 64 at L = 10^6 within 0.05.
    """
    powers = dict(zip(FOR_SAMPLES, (-2.0, -3.0, -10 / 3, -4.0, -4.0, -4.0)))
    return exponents_near(tables, {("samples", m): p for m, p in powers.items()}, 0.05, "strength")


@claim("ladder-dependence", OURS)
def scaled(tables: Tables) -> Judgement:
    """Sparsity and prevalence enter through R² π(1 − π) only (message passing: R² π).

    L = 10^5, R = 1 to 8 and π = 0.5 to 0.05: strength times the power of it that the ladder gives constant to 5 % (message
    passing and R: full form, L = 10^4, R = 1 to 4).
    """
    off: dict[str, float] = {}
    for method, power in SCALED.items():
        p, at = line_of(tables, "prevalence", method, "prevalence")
        share = p if method == "message_passing" else p * (1 - p)
        lines = [at * share**power]
        if method in set(tables["sparsity"]["method"]):
            R, at = line_of(tables, "sparsity", method, "sparsity")
            lines.append(at * R ** (2 * power))
        off[method] = max(float(np.ptp(line) / line.min()) for line in lines)
    words = ", ".join(f"{v:.1%} ({label(m)})" for m, v in off.items())
    return decided(max(off.values()) <= 0.05, "constant", f"within {words}")


# Draws and descent.


@claim("ladder-constants", OURS)
def constants(tables: Tables) -> Judgement:
    """Directions drawn at the strength that the theory gives for a cosine have that cosine.

    Four methods at two tasks, L = 64 and 512, d → ∞: 0.7 within the margin; resolution 0.05.
    """
    found = limits_of(need(tables, "drawn", ["cosine"]), ["method", "length", "sparsity"], "cosine")
    gaps = {key: (v.value - DRAWN_COSINE, float(quantile(len(found), v.degrees)) * v.error) for key, v in found.items()}
    at = max(gaps, key=lambda key: abs(gaps[key][0]) / found[key].error)
    distance = abs(gaps[at][0]) / found[at].error
    note = f"{len(gaps)} points; furthest: {label(at[0])}, L = {at[1]}, {distance:.1f} standard errors"
    return Judgement(worst(equal_verdict(*gap, 0.05) for gap in gaps.values()), f"{DRAWN_COSINE}", str(found[at]), note)


def descent_strengths(tables: Tables, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """(lengths, strengths) at which joint descent reaches a cosine of 1/2 within so many steps, interpolated in the log."""
    table = need(tables, "descent", ["cosine[q]", "step"])
    best = table[table["step"] <= steps].groupby(["length", "strength"])["cosine[q]"].max().reset_index()
    lengths, strengths = [], []
    for length, part in best.groupby("length"):
        x, y = np.log(part["strength"].to_numpy()), np.maximum.accumulate(part["cosine[q]"].to_numpy())
        if not y[0] < 0.5 < y[-1]:
            raise NotJudgeable(f"no strength for a cosine of 1/2 within {steps} steps at L = {length}")
        lengths.append(length)
        strengths.append(np.exp(np.interp(0.5, y, x)))
    return np.array(lengths, float), np.array(strengths)


def short_exponents(tables: Tables) -> dict[str, float]:
    """The exponents of two steps and of the top eigenvector at the lengths of joint descent."""
    lines = {method: line_of(tables, "short", method, "length") for method in ("products:1", "eigenvector")}
    return {method: fit_line(np.log(length), np.log(needed)).slope for method, (length, needed) in lines.items()}


def descent_exponent(tables: Tables, steps: int) -> float:
    length, strength = descent_strengths(tables, steps)
    return fit_line(np.log(length), np.log(strength)).slope


@claim("ladder-joint", OPEN)
def joint(tables: Tables) -> Judgement:
    """Joint descent follows two steps at first and the top eigenvector after twelve steps.

    Strength for a cosine of 1/2 met within T steps: exponent on L = 32 to 256 (full: 2048) within 0.03 of that of two steps
    at T = 2 and of the top eigenvector at T = 12, the two being more than 0.05 apart.
    """
    found = {steps: descent_exponent(tables, steps) for steps in STEPS}
    first, last = short_exponents(tables).values()
    near = abs(found[2] - first) <= 0.03 and abs(found[STEPS[-1]] - last) <= 0.03
    return Judgement(
        "undecided" if first - last <= 0.05 else "confirmed" if near else "refuted",
        f"{first:.3f} at first, {last:.3f} in the end",
        ", ".join(f"{value:.3f} after {steps}" for steps, value in found.items()),
        f"L = {', '.join(f'{n:g}' for n in np.unique(tables['short']['length']))}; rates 0.2 sqrt(αL)",
    )


def draw_ladder(tables: Tables) -> list[Panel]:
    panels = []
    for table, title in (
        ("needed", "Strength for a cosine of 1/2"),
        ("errors", f"Strength for {ERROR:.0%} test error"),
    ):
        layers: list[Layer] = []
        for place, method in enumerate(tables[table]["method"].unique()):
            length, strength = line_of(tables, table, method, "length")
            dash = "dash" if method.startswith("fresh") else "solid"
            layers.append(Line(length, strength, label(method), colour(method, place), dash))
        far = np.array(LENGTHS, float)
        if table == "errors":
            length, strength = line_of(tables, "trained", "trained:attention", "length")
            layers.append(Points(length, strength, None, "attention, trained", colour("trained:attention")))
        layers.append(Line(far, sharp(far), "√(2 log L)", REFERENCE, "dot"))
        panels.append(Panel(title, AXES["length"], AXES["strength"], layers, logx=True, logy=True))
    layers = []
    for place, method in enumerate(FOR_SAMPLES):
        strength, alpha = line_of(tables, "samples", method, "strength")
        layers.append(Line(strength, alpha, label(method), colour(method, place)))
    panels.append(
        Panel("Samples for a cosine of 1/2, L = 10⁶", AXES["strength"], AXES["alpha"], layers, logx=True, logy=True)
    )
    found = [descent_exponent(tables, steps) for steps in STEPS]
    descent: list[Layer] = [Points(np.array(STEPS), np.array(found), None, "joint descent")]
    for method, slope in short_exponents(tables).items():
        descent.append(Rule("y", slope, f"{label(method)}, the same lengths"))
    title = "Exponent of joint descent against its steps"
    return [*panels, Panel(title, "gradient steps", "exponent of L", descent)]


def ladder_findings(tables: Tables) -> str:
    strengths = {
        m: line_of(tables, "needed", m, "length")[1] for m in ("products:0", "fresh_products:1", *SPECTRAL, "bayes")
    }
    listed = ", ".join(f"{label(m)} {v[-1]:.3g}" for m, v in strengths.items())
    error = {m: line_of(tables, "errors", m, "length")[1][-1] for m in FOR_ERROR}
    trained = line_of(tables, "trained", "trained:attention", "length")[1][-1]
    steps = ", ".join(f"{descent_exponent(tables, n):.3f} after {n}" for n in STEPS)
    return (
        f"For a cosine of 1/2 at L = 10⁶ and α = 4 a direction needs θ = {listed}. Every product with the labelled second "
        "moment lowers the exponent, from 1/2 (labelled mean) over 1/3 (two steps) towards 1/4 (eigenvector, message "
        f"passing), and information would suffice from about √(2 log L) on. For {ERROR:.0%} test error the ladder all but "
        "closes: a token is recognised from θ times the cosine on, so that even the labelled mean as a query needs the power "
        f"1/4 only (θ = {error['products:0']:.3g}; two steps {error['products:1']:.3g}, eigenvector "
        f"{error['eigenvector']:.3g}, trained attention {trained:.3g}, in principle {error['bayes']:.3g}). Joint descent "
        "climbs the ladder by itself: "
        f"exponents {steps} steps."
    )


ladder = study(
    "ladder",
    {
        "quick": grids(LENGTHS[2:], [10**3, 10**4], {"d": [150, 450], "repeats": 120}, [32, 256], 128),
        "full": grids(LENGTHS, LENGTHS, {"d": [300, 900], "repeats": 60}, [32, 128, 512, 2048], 256, full=True),
    },
    draw_ladder,
    ladder_findings,
    (ladder_exponents, quarter, information, error_quarter, constants, jump, sample_sizes, scaled, joint),
)

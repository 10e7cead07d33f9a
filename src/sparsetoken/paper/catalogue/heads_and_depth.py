"""Do several heads or a second layer change how the strength needed grows with the length of the bags?

The studies: `heads` (staged training) and `depth` (everything trained at once, with self-attention).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from ..._core.averages import combined_degrees, extrapolate, summarise
from ...plotting.panels import Layer, Line, Panel, Points
from ...plotting.style import OTHER_COLOURS, colour, marker
from ...study.claims import Judgement, Tables, claim, need
from ...study.criteria import ValueWithError, judge_agreement, limits_of, near, predictions_of, select
from ...study.study import Grid, Study
from ...study.verdicts import quantile, within_verdict, worst
from . import self_attention
from .common import FEW_BAGS, FULL_BAGS, OPEN, QUICK_BAGS, THEORY_DEGREES, exact, listed, ordered, pair, sharp
from .figures import AXES, estimates, overlay
from .separation import KNOWN, TARGET, exponents, known, known_ratio, strengths_needed

SHORT, LONG = 8, 32
# Strengths on both sides of 10 % error in theory, by heads and length; the second of each pair is simulated too.
PAIRS = {
    **{(1, SHORT): (3.5, 3.9), (1, LONG): (4.0, 4.4)},
    **{(2, SHORT): (3.5, 3.9), (2, LONG): (4.1, 4.5)},
    **{(4, SHORT): (3.5, 3.9), (4, LONG): (4.3, 4.8)},
    **{(8, SHORT): (3.7, 4.1), (8, LONG): (5.0, 5.6)},
}
NEEDED = f"strength θ for {TARGET:.0%} error"


def heads_grids(heads: list[int], sizes: list[int], repeats: int, accuracy: float) -> list[Grid]:
    """The trials of one form: heads, simulated dimensions and repeats, and the accuracy of the heads' forecast."""

    def spot(heads: int, length: int, strength: float) -> dict[str, Any]:  # k as in the study `scaling`
        k = round(float(sharp(length)), 6)
        return {"heads": heads, "length": length, "strength": strength, "sharpness": k}

    training = {"sparsity": 1, "prevalence": 0.5, "loss": "logistic", "alpha0": 4.0, "alpha1": 4.0, "ridge": 0.1}
    places = [(h, n) for h in heads for n in (SHORT, LONG)]
    both = [spot(*at, s) for at in places for s in PAIRS[at]]
    upper = [spot(*at, PAIRS[at][1]) for at in places]
    return [
        Grid("staged", "heads_forecast", {**training, "accuracy": accuracy}, points=both),
        Grid("simulated", "heads", training, {"d": sizes}, points=upper, repeats=repeats, first_seed=1000),
        KNOWN,  # of the study `scaling`, which costs nothing where that one has been run
    ]


def needed(tables: Tables) -> dict[tuple[int, int], ValueWithError]:
    """Strength that staged training needs by heads and length."""
    rows = strengths_needed(need(tables, "staged", ["test_error"]), ["heads", "length"], "test_error", "standard_error")
    return predictions_of(rows, ["heads", "length"], "strength", "error", THEORY_DEGREES)


@exact("heads-exact", OPEN, ["heads", "length", "strength"], 0.04)
def heads_exact(tables: Tables) -> Any:
    """The theory of several heads gives their test error.

    Both lengths, near 10 % error.
    """
    return pair(tables, predicted="staged")


@claim("heads-price", OPEN)
def price(tables: Tables) -> Judgement:
    """Several heads need more strength than one on as many samples, and on long bags more so.

    Theory: strength for 10 % error over that of one head above 1 at L = 8 and 32, and larger at 32, beyond the margin.
    """
    rows = needed(tables)
    most, ratio = max(heads for heads, _ in rows), {}
    for n in (SHORT, LONG):
        many, one = rows[most, n], rows[1, n]
        value = many.value / one.value
        error = value * float(np.hypot(many.error / many.value, one.error / one.value))
        ratio[n] = ValueWithError(value, error, THEORY_DEGREES)
    pairs: list[Any] = [*((ratio[n], 1.0) for n in ratio), (ratio[LONG], ratio[SHORT])]
    return ordered(pairs, "above 1, and rising with L", f"{listed(ratio, 'L')}, {most} heads over one")


@claim("one-head-enough", OPEN)
def no_room(tables: Tables) -> Judgement:
    """One head leaves no room for a better law: with a known query it needs hardly more strength than the Bayes rule.

    Known signal, k = 0.75 √(2 log L): at most 10 % more strength for 10 % error at any L from 2^4 to 2^30.
    """
    most = float(known_ratio(tables, "growing", "bayes").max())
    return Judgement("confirmed" if most < 1.1 else "refuted", "at most 1.1 times", f"at most {most:.3f} times")


def heads_in_words(heads: float) -> str:
    return f"{heads:g} head{'s' if heads > 1 else ''}"


def bayes_line(tables: Tables, most: int) -> Line:
    """The strength of the Bayes rule with a known signal, up to a length."""
    best = known(tables, "bayes")
    shown = best[best["length"] <= most]
    return Line(shown["length"], shown["strength_needed"], "Bayes rule, signal known", colour("bayes"), "dot")


def draw_heads(tables: Tables) -> list[Panel]:
    rows, runs = needed(tables), limits_of(tables["simulated"], ["heads", "length"], "test_error")
    predicted = tables["staged"].set_index(["heads", "length", "strength"])["test_error"]
    strengths: list[Layer] = [bayes_line(tables, 256)]
    errors: list[Layer] = []
    lengths = [SHORT, LONG]
    shades = {1: colour("attention"), 2: OTHER_COLOURS[0], 4: OTHER_COLOURS[1], 8: OTHER_COLOURS[4]}
    for heads in sorted({h for h, _ in rows}):
        name, shade = heads_in_words(heads), shades[heads]
        strengths.append(Line(lengths, [rows[heads, n].value for n in lengths], f"{name}, trained: theory", shade))
        line = [predicted[heads, n, PAIRS[heads, n][1]] for n in lengths]
        errors.append(Line(lengths, line, f"{name}: theory", shade))
        errors.append(estimates({n: runs[heads, n] for n in lengths}, f"{name}: simulated, d → ∞", shade, "diamond"))
    return [
        Panel("Strength needed by several heads", AXES["length"], NEEDED, strengths, logx=True),
        Panel("Heads: errors near 10 %", AXES["length"], AXES["test_error"], errors, logx=True),
    ]


def heads_findings(tables: Tables) -> str:
    rows, ratio = needed(tables), float(known_ratio(tables, "growing", "bayes").max())
    words = ", ".join(
        f"{heads_in_words(h)} {rows[h, SHORT].value:.2f} and {rows[h, LONG].value:.2f}"
        for h in sorted({h for h, _ in rows})
    )
    return (
        f"One softmax head that looks along the signal needs at most {ratio:.2f} times the strength of the best possible rule "
        f"at any length, so only the training is left to improve. There, more heads cost: for 10 % error at L = {SHORT} and "
        f"{LONG} staged training needs θ = {words}, because every head has to find the signal with its share of the samples."
    )


heads = Study(
    name="heads",
    title="Several heads need more strength, the more the longer the bags",
    question="Do several heads change how the strength needed for 10 % error grows with the length of the bags, on as many "
    "samples? (R = 1, π = 0.5, α₀ = α₁ = 4, λ = 0.1, k = √(2 log L), D₀ split among heads.)",
    grids={"quick": heads_grids([1, 4], [80, 160], 12, 2e-3), "full": heads_grids([1, 2, 4, 8], [200, 400], 16, 4e-4)},
    draw=draw_heads,
    findings=heads_findings,
    claims=(
        heads_exact,
        price,
        no_room,
    ),
)


# The study `depth`: trained at once, all on the same schedule.

# Those with 4d parameters start where a gradient can tell their directions apart: at zero, heads stay equal and inner layers
# off. One head has 2d.
MODELS: dict[str, dict[str, Any]] = {
    "attention": {},
    "two_layer": {"start": {"k": 0.5, "v": 0.5}},
    "heads:2": {"start": {"q1": 0.5, "q2": 0.5}},
    "self_attention": {"start": self_attention.UNINFORMED},
}
WORDS = dict(zip(MODELS, ("one head", "two layers", "two heads", "one self-attention layer")))
MODEL_COLOURS = dict(zip(MODELS, (colour("attention"), OTHER_COLOURS[5], OTHER_COLOURS[0], OTHER_COLOURS[2])))
LARGE = tuple(MODELS)[1:]
JOINT: dict[str, Any] = {"sparsity": 1, "prevalence": 0.5, "alpha": 4.0, "steps": 30, "rates": 1.0, "decay": 0.1}
# Strengths on both sides of 10 % error by length, all models but self-attention, which has a law of its own; and how many
# steps all of them have settled after (the query of long bags takes longer to leave the saddle at zero). From other seeds.
LAW = {10: (3.6, 4.1), 20: (3.8, 4.3), 40: (4.0, 4.6)}
LAW_STEPS = {10: 30, 20: 30, 40: 40}


def law_spots(models: Sequence[str], lengths: Sequence[int]) -> list[dict[str, Any]]:
    """Points of joint training on both sides of 10 % error."""
    return [
        {**JOINT, "steps": LAW_STEPS[n], "rows_at": [LAW_STEPS[n]], "length": n, "model": m, "strength": s, **MODELS[m]}
        for m in models
        for n in lengths
        for s in LAW[n]
    ]


def joint_grids(lengths: list[int], models: Sequence[str], sizes: list[int], repeats: int, bags: int) -> list[Grid]:
    """All models at one strength, simulated and predicted step by step."""
    at_once = [{**JOINT, "strength": 4.0, "length": n, "model": m, **MODELS[m]} for n in lengths for m in models]
    runs: dict[str, Any] = {"points": at_once, "repeats": repeats, "first_seed": 1000}
    return [
        Grid("joint", "simulate_trajectory", {"rows_at": list(range(0, JOINT["steps"] + 1, 3))}, {"d": sizes}, **runs),
        Grid("joint_predicted", "trajectory", {"accuracy": 1.0, "bags": bags}, points=at_once),
    ]


def law_grids(spots: list[dict[str, Any]], sizes: list[int], repeats: int, theory: list[dict[str, Any]]) -> list[Grid]:
    """Strengths on both sides of 10 % error, simulated and (at the points `theory`) predicted."""
    runs: dict[str, Any] = {"points": spots, "repeats": repeats, "first_seed": 1000}
    return [
        Grid("law", "simulate_trajectory", axes={"d": sizes}, **runs),
        Grid("law_predicted", "trajectory", {"accuracy": 1.0}, points=theory),
    ]


def last_rows(table: Any) -> Any:
    """Rows after each run's last step."""
    return table[table["step"] == table["length"].map(LAW_STEPS)]


def law_simulated(tables: Tables) -> Any:
    """Strength that joint training needs by model and length, measured.

    With two dimensions the errors are those at d → ∞, with one those at that dimension.
    """
    rows, by = last_rows(need(tables, "law", ["test_error"])), ["model", "length", "strength"]
    if rows["d"].nunique() > 1:
        ends = extrapolate(rows, by, "test_error").rename(columns={"limit": "value"})
    else:
        ends = summarise(rows, by, "test_error").rename(columns={"mean": "value"})
        ends["degrees"] = ends["count"] - 1
    return strengths_needed(ends, ["model", "length"], "value", "error", independent=True)


def laws(tables: Tables) -> dict[str, Any]:
    """The strengths needed by joint training, simulated and predicted (quick form: of one and two heads)."""
    rows = last_rows(need(tables, "law_predicted", ["test_error"]))
    theory = strengths_needed(rows, ["model", "length"], "test_error", "test_error_se")
    return {"simulated": law_simulated(tables), "theory": theory}


@claim("depth-same-law", OPEN)
def same_law(tables: Tables) -> Judgement:
    """Trained at once, a second head (full form: or layer) does not change how the strength needed grows with the length.

    Theory, L = 10 and 20 (full form: to 40): exponent of the strength for 10 % error within 0.03 of one head's, margin
    included. Simulations, which are not that precise, are shown. Such bags are too short for the powers of L that the study
    `ladder` finds: the claim compares models on these lengths.
    """
    lines = {source: exponents(rows) for source, rows in laws(tables).items()}
    found, one = lines["theory"], lines["theory"]["attention"]
    verdicts = []
    for model in (m for m in LARGE if m in found):
        other = found[model]
        variances = np.square([one.error, other.error])
        factor = float(quantile(len(found) - 1, combined_degrees(variances, [one.degrees, other.degrees])))
        verdicts.append(within_verdict(other.value - one.value, factor * float(np.sqrt(variances.sum())), 0.03))
    words = {source: listed({WORDS[m]: line for m, line in found.items()}) for source, found in lines.items()}
    return Judgement(worst(verdicts), "within 0.03 of one head's", words["theory"], f"simulated: {words['simulated']}")


def _ends(tables: Tables, name: str) -> Any:
    """Rows after the last step of joint training."""
    return select(need(tables, name, ["test_error", "step"]), {"step": JOINT["steps"]})


def predicted_ends(tables: Tables) -> dict[tuple[int, str], ValueWithError]:
    """Predicted errors after joint training, by length and model."""
    rows = _ends(tables, "joint_predicted")
    return predictions_of(rows, ["length", "model"], "test_error", "test_error_se", THEORY_DEGREES)


@claim("depth-no-gain", OPEN)
def second_layer(tables: Tables) -> Judgement:
    """A second attention layer of this kind ends where one layer does.

    Theory, joint training, θ = 4, last step: errors within 0.003, margin included.
    """
    rows = predicted_ends(tables)
    lengths = sorted({n for n, _ in rows})
    verdict = worst(near(rows[n, "two_layer"], rows[n, "attention"], 0.003, len(lengths)) for n in lengths)
    one, two = (listed({n: rows[n, model] for n in lengths}, "L") for model in ("attention", "two_layer"))
    return Judgement(verdict, f"within 0.003 of {one}", two)


@claim("joint-heads-exact", OPEN)
def joint_exact(tables: Tables) -> Judgement:
    """The trajectory theory gives the error of two heads, two layers and (full form) self-attention trained at once.

    Test error after the last step, extrapolated to d → ∞, within the margin at level 0.1 %; resolution 0.03.
    """
    runs, theory = (_ends(tables, name) for name in ("joint", "joint_predicted"))
    return judge_agreement(runs, theory, "test_error", ["length", "model"], 0.03, "test_error_se")


@claim("parameters-do-not-pay", OPEN)
def not_better(tables: Tables) -> Judgement:
    """Twice the parameters (second layer, second head; full form: self-attention) do not lower the error on as many samples.

    Theory, joint training, last step: no error below one head's by 0.005, beyond the margin.
    """
    rows = predicted_ends(tables)
    pairs = {(n, m): (many, rows[n, "attention"]) for (n, m), many in rows.items() if m in LARGE}
    words = "; ".join(f"{many} with {WORDS[m]} (L = {n:g})" for (n, m), (many, _) in pairs.items())
    one = listed({n: rows[n, "attention"].value for n in sorted({n for n, _ in pairs})}, "L")
    compared: list[Any] = [(many, one._replace(value=one.value - 0.005)) for many, one in pairs.values()]
    return ordered(compared, f"not below one head's {one} by 0.005", words)


@claim("parameters-in-depth", OPEN)
def where_they_go(tables: Tables) -> Judgement:
    """At equal numbers of parameters and samples two layers beat two heads, and these (full form) self-attention.

    Theory, joint training, last step: errors in this order beyond the margin.
    """
    rows = predicted_ends(tables)
    lengths, large = sorted({n for n, _ in rows}), [m for m in LARGE if any(m == model for _, model in rows)]
    pairs = [(rows[n, high], rows[n, low]) for n in lengths for low, high in pairwise(large)]
    words = "; ".join(" < ".join(f"{rows[n, m].value:.4f}" for m in large) + f" (L = {n:g})" for n in lengths)
    return ordered(pairs, " < ".join(WORDS[m] for m in large), words)


def draw_depth(tables: Tables) -> list[Panel]:
    runs, lines = tables["joint"], tables["joint_predicted"]
    length, d = int(runs["length"].max()), int(runs["d"].max())
    steps: list[Layer] = []
    for model in (m for m in MODELS if m in set(lines["model"])):
        parts = (select(table, {"model": model, "length": length}) for table in (lines, runs))
        steps += overlay(parts, "step", "test_error", WORDS[model], MODEL_COLOURS[model])
    sources = laws(tables)
    with_theory = set(sources["theory"]["model"])
    grown: list[Layer] = []
    for source, rows in sources.items():
        for model in (m for m in MODELS if m in set(rows["model"])):
            part, label = rows[rows["model"] == model].sort_values("length"), f"{WORDS[model]}: {source}"
            at, shade = (part["length"], part["strength"]), MODEL_COLOURS[model]
            if source == "theory":
                grown.append(Line(*at, label, shade))
                continue
            if model not in with_theory:  # the eye's guide where no line of the theory is
                grown.append(Line(*at, f"{WORDS[model]}: through the runs", shade, "dash"))
            grown.append(Points(*at, part["error"], label, shade, marker(model)))
    grown.append(bayes_line(tables, 64))
    title = f"All trained at once, L = {length} (d = {d})"
    return [
        Panel(title, "gradient step t", AXES["test_error"], steps, logy=True),
        Panel("Strength needed, all trained at once", AXES["length"], NEEDED, grown, logx=True),
        *self_attention.panels(tables),
    ]


def depth_findings(tables: Tables) -> str:
    return (
        f"Trained at once on α = {JOINT['alpha']:g}, models with twice the parameters gain nothing over one head: "
        f"{not_better(tables).measured}; {not_better(tables).predicted}. A second layer switches itself off, and heads learn "
        f"one direction twice. The strength needed for {TARGET:.0%} error grows with the length to the power "
        f"{same_law(tables).measured}. {self_attention.finding(tables)}"
    )


def depth_grids(full: bool) -> list[Grid]:
    """A trajectory of four directions compiles for ten seconds: in the quick form self-attention's theory is left out, and that
    of two layers, which takes time and memory like the square of the length, at L = 20. Theory at L = 10 has the bags of the
    other trajectories, so that it is compiled already."""
    one_or_two = ["attention", "heads:2"]
    if full:
        law = [*law_spots(one_or_two, [10, 20, 40]), *law_spots(["two_layer"], [10, 20])]
        return [
            *joint_grids([10, 30], list(MODELS), [200, 400], 20, FULL_BAGS),
            *law_grids(law, [100, 200], 16, [{**point, "bags": FEW_BAGS} for point in law]),
            *self_attention.saddle_grids(10, 5.0, {100: 60, 400: 60, 1600: 30}),
            *self_attention.leaving_grids([5, 10, 20], 200, 12, theory=[5, 10, 20]),
            KNOWN,
        ]
    bags = {10: QUICK_BAGS, 20: FEW_BAGS}
    theory = [{**point, "bags": bags[point["length"]]} for point in law_spots(one_or_two, [10, 20])]
    small = list(MODELS)[:3]
    return [
        *joint_grids([10], small, [80, 160], 8, QUICK_BAGS),
        *law_grids(law_spots(small, [10, 20]), [80], 5, theory),
        *self_attention.saddle_grids(5, 3.5, {50: 80, 600: 40}),
        *self_attention.leaving_grids([5, 10], 80, 9, theory=[]),
        KNOWN,
    ]


depth = Study(
    name="depth",
    title="Depth: a second layer or head gains nothing; self-attention starts at a saddle",
    question="Does a second layer, a second head or self-attention, trained at once with everything else, change how the "
    f"strength needed for {TARGET:.0%} error grows with the length of the bags? And what do they bring at equal numbers of "
    "parameters and samples? (R = 1, π = 0.5, joint descent on α = 4; errors at θ = 4.)",
    notes="Two layers are rank-one self-attention under rank-one attention pooling; the one self-attention layer has query, "
    "key and value directions and a path around it, and its tokens are averaged. Both have 4d parameters, as two heads have; "
    "one head has 2d.",
    grids={"quick": depth_grids(False), "full": depth_grids(True)},
    draw=draw_depth,
    findings=depth_findings,
    claims=(
        second_layer,
        joint_exact,
        not_better,
        where_they_go,
        same_law,
        self_attention.stays,
        self_attention.own_law,
    ),
)

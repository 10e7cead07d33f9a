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
from ...study.claims import Claim, Judgement, Tables, equal_verdict, need, quantile, within_verdict, worst
from ...study.criteria import ValueWithError, judge_agreement, larger, limits_of, means_of, predictions_of, select
from ...study.study import Grid, Study
from . import self_attention
from .common import AXES, FEW_BAGS, FULL_BAGS, OPEN, QUICK_BAGS, THEORY_DEGREES, exact, overlay, sharp
from .separation import KNOWN, LENGTHS, TARGET, exponents, known, known_ratio, strengths_needed

TRAINING: dict[str, Any] = {
    **{"sparsity": 1, "prevalence": 0.5, "loss": "logistic", "alpha0": 4.0, "alpha1": 4.0, "ridge": 0.1},
}
SHORT, LONG = 8, 32
# Strengths on both sides of 10 % error in theory, by heads and length; the second of each pair is simulated too.
PAIRS = {
    **{(1, SHORT): (3.5, 3.9), (1, LONG): (4.0, 4.4)},
    **{(2, SHORT): (3.5, 3.9), (2, LONG): (4.1, 4.5)},
    **{(4, SHORT): (3.5, 3.9), (4, LONG): (4.3, 4.8)},
    **{(8, SHORT): (3.7, 4.1), (8, LONG): (5.0, 5.6)},
}
ALMOST_BAYES = 0.1  # by how much more strength than the Bayes rule one head with a known query may need
FIRST_SEED = 1000  # criteria and sizes were chosen on others
HEAD_COLOURS = {1: colour("attention"), 2: OTHER_COLOURS[0], 4: OTHER_COLOURS[1], 8: OTHER_COLOURS[4]}
NEEDED = f"strength θ for {TARGET:.0%} error"


def spot(heads: int, length: int, strength: float) -> dict[str, Any]:
    """A point of staged training; k grows like sqrt(2 log L), as in the study `scaling`."""
    k = round(float(sharp(length)), 6)
    return {**TRAINING, "heads": heads, "length": length, "strength": strength, "sharpness": k}


def heads_grids(heads: list[int], sizes: list[int], repeats: int, accuracy: float) -> list[Grid]:
    """The trials of one form: heads, simulated dimensions and repeats, and the accuracy of the heads' forecast."""
    places = [(h, n) for h in heads for n in (SHORT, LONG)]
    both = [spot(*at, s) for at in places for s in PAIRS[at]]
    upper = [spot(*at, PAIRS[at][1]) for at in places]
    return [
        Grid("staged", "heads_forecast", {"accuracy": accuracy}, points=both),
        Grid("simulated", "heads", {}, {"d": sizes}, points=upper, repeats=repeats, first_seed=FIRST_SEED),
        KNOWN,  # of the study `scaling`, which costs nothing where that one has been run
    ]


def needed(tables: Tables) -> dict[tuple[int, int], ValueWithError]:
    """Strength that staged training needs by heads and length."""
    rows = strengths_needed(need(tables, "staged", ["test_error"]), ["heads", "length"], "test_error", "standard_error")
    return predictions_of(rows, ["heads", "length"], "strength", "error", THEORY_DEGREES)


def price(tables: Tables) -> Judgement:
    """More heads on as many samples need more strength than one, and on long bags more so."""
    rows = needed(tables)
    most = max(heads for heads, _ in rows)
    ratio = {}
    for n in (SHORT, LONG):
        many, one = rows[most, n], rows[1, n]
        value = many.value / one.value
        error = value * float(np.hypot(many.error / many.value, one.error / one.value))
        ratio[n] = ValueWithError(value, error, THEORY_DEGREES)
    verdicts = [*(larger(ratio[n], 1.0, 3) for n in ratio), larger(ratio[LONG], ratio[SHORT], 3)]
    words = ", ".join(f"{value} at L = {n}" for n, value in ratio.items())
    return Judgement(worst(verdicts), "above 1, and rising with L", f"{words} ({most} heads over one)")


def no_room(tables: Tables) -> Judgement:
    """One head whose query is the signal needs hardly more strength than the Bayes rule, at every length."""
    most = float(known_ratio(tables, "growing", "bayes").max())
    verdict = "confirmed" if most < 1 + ALMOST_BAYES else "refuted"
    note = f"L from 2^{int(np.log2(LENGTHS[0]))} to 2^{int(np.log2(LENGTHS[-1]))}"
    return Judgement(verdict, f"at most {1 + ALMOST_BAYES:g} times", f"at most {most:.3f} times", note)


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
    for heads in sorted({h for h, _ in rows}):
        name, shade = heads_in_words(heads), HEAD_COLOURS[heads]
        strengths.append(Line(lengths, [rows[heads, n].value for n in lengths], f"{name}, trained: theory", shade))
        line = [predicted[heads, n, PAIRS[heads, n][1]] for n in lengths]
        seen = [runs[heads, n] for n in lengths]
        values, spread = [error.value for error in seen], [error.error for error in seen]
        errors.append(Line(lengths, line, f"{name}: theory", shade))
        errors.append(Points(lengths, values, spread, f"{name}: simulated, d → ∞", shade, "diamond"))
    return [
        Panel("Strength needed by several heads", AXES["length"], NEEDED, strengths, logx=True),
        Panel("Heads: errors near 10 %", AXES["length"], AXES["test_error"], errors, logx=True),
    ]


def heads_findings(tables: Tables) -> str:
    rows, ratio = needed(tables), float(known_ratio(tables, "growing", "bayes").max())
    listed = ", ".join(
        f"{heads_in_words(h)} {rows[h, SHORT].value:.2f} and {rows[h, LONG].value:.2f}"
        for h in sorted({h for h, _ in rows})
    )
    return (
        "Several heads do not change the law: one softmax head that looks along the signal needs at most "
        f"{ratio:.2f} times the strength of the best possible rule at any length up to 2^30, so only the training is left to "
        f"improve. There, more heads cost: for 10 % error at L = {SHORT} and {LONG} staged training needs θ = {listed}, "
        "because every head has to find the signal with its share of the samples."
    )


heads = Study(
    name="heads",
    title="Several heads: the law stays, the constant grows",
    question="Do several heads change how the strength needed for 10 % error grows with the length of the bags, on as many "
    "samples? (R = 1, π = 0.5, α₀ = α₁ = 4, λ = 0.1, k = sqrt(2 log L), D₀ split among heads.)",
    grids={"quick": heads_grids([1, 4], [80, 160], 12, 2e-3), "full": heads_grids([1, 2, 4, 8], [200, 400], 16, 4e-4)},
    draw=draw_heads,
    findings=heads_findings,
    claims=(
        exact(
            "heads-exact",
            "The theory of several heads gives their test error",
            ["heads", "length", "strength"],
            0.08,
            points="both lengths, near 10 % error",
            theory="staged",
            **OPEN,
        ),
        Claim(
            "heads-price",
            "Several heads need more strength than one on as many samples, and on long bags more so",
            f"theory: strength for 10 % error over that of one head above 1 at L = {SHORT} and {LONG}, and larger at {LONG}, "
            "beyond the margin",
            price,
            **OPEN,
        ),
        Claim(
            "one-head-enough",
            "One head leaves no room for a better law: with a known query it needs hardly more strength than the Bayes rule",
            f"known signal, k = 0.75 sqrt(2 log L): at most {ALMOST_BAYES:.0%} more strength for 10 % error at "
            "any L from 2^4 to 2^30",
            no_room,
            **OPEN,
        ),
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
DEPTH_STRENGTH = 4.0
DRAWN = list(range(0, JOINT["steps"] + 1, 3))  # steps of the runs that are drawn
NO_GAIN = 0.005  # an error lower by less than that is none worth twice the parameters
# Strengths on both sides of 10 % error by length, all models but self-attention, which has a law of its own; and how many
# steps all of them have settled after (the query of long bags takes longer to leave the saddle at zero). From other seeds.
LAW = {10: (3.6, 4.1), 20: (3.8, 4.3), 40: (4.0, 4.6)}
LAW_STEPS = {10: 30, 20: 30, 40: 40}
SAME_LAW = 0.1  # how far an exponent may be off one head's and still be called the same: pooling's is 1/2
DEEP_RESOLUTION = 0.06


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
    at_once = [
        {**JOINT, "strength": DEPTH_STRENGTH, "length": n, "model": m, **MODELS[m]} for n in lengths for m in models
    ]
    runs: dict[str, Any] = {"points": at_once, "repeats": repeats, "first_seed": FIRST_SEED}
    return [
        Grid("joint", "simulate_trajectory", {"rows_at": DRAWN}, {"d": sizes}, **runs),
        Grid("joint_predicted", "trajectory", {"accuracy": 1.0, "bags": bags}, points=at_once),
    ]


def law_grids(spots: list[dict[str, Any]], sizes: list[int], repeats: int, theory: list[dict[str, Any]]) -> list[Grid]:
    """Strengths on both sides of 10 % error, simulated and (at the points `theory`) predicted."""
    runs: dict[str, Any] = {"points": spots, "repeats": repeats, "first_seed": FIRST_SEED}
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


def same_law(tables: Tables) -> Judgement:
    """The exponent of two layers and two heads is one head's."""
    lines = {source: exponents(rows) for source, rows in laws(tables).items()}
    count = sum(len(found) - 1 for found in lines.values())
    verdicts, words = [], []
    for source, found in lines.items():
        one = found["attention"]
        parts = [f"{one} with one head"]
        for model in (m for m in LARGE if m in found):
            other = found[model]
            variances = np.square([one.error, other.error])
            factor = float(quantile(count, combined_degrees(variances, [one.degrees, other.degrees])))
            difference, margin = other.slope - one.slope, factor * float(np.sqrt(variances.sum()))
            verdicts.append(within_verdict(difference, margin, SAME_LAW))
            parts.append(f"{other} with {WORDS[model]}")
        words.append(f"{source}: " + ", ".join(parts))
    return Judgement(worst(verdicts), f"two layers and two heads within {SAME_LAW:g} of one head", "; ".join(words))


def _ends(tables: Tables, name: str) -> Any:
    """Rows after the last step of joint training."""
    return select(need(tables, name, ["test_error", "step"]), {"step": JOINT["steps"]})


def predicted_ends(tables: Tables) -> dict[tuple[int, str], ValueWithError]:
    """Predicted errors after joint training, by length and model."""
    rows = _ends(tables, "joint_predicted")
    return predictions_of(rows, ["length", "model"], "test_error", "test_error_se", THEORY_DEGREES)


def second_layer(tables: Tables) -> Judgement:
    """A second layer changes the test error by nothing that could be seen."""
    found = means_of(_ends(tables, "joint"), ["length", "model"], "test_error")
    lengths = sorted({n for n, _ in found})
    verdicts, words = [], []
    for n in lengths:
        one, two = found[n, "attention"], found[n, "two_layer"]
        margin = float(quantile(len(lengths), min(one.degrees, two.degrees))) * float(np.hypot(one.error, two.error))
        verdicts.append(equal_verdict(two.value - one.value, margin, DEEP_RESOLUTION))
        words.append(f"{two} with two layers, {one} with one (L = {n:g})")
    return Judgement(worst(verdicts), "the same error", "; ".join(words))


def joint_exact(tables: Tables) -> Judgement:
    """Errors after the last step are those of the trajectory theory."""
    runs, theory = (_ends(tables, name) for name in ("joint", "joint_predicted"))
    return judge_agreement(runs, theory, "test_error", ["length", "model"], DEEP_RESOLUTION, "test_error_se")


def not_better(tables: Tables) -> Judgement:
    """No model with twice the parameters has a lower error than one head, on as many samples."""
    rows = predicted_ends(tables)
    pairs = {(n, m): (many, rows[n, "attention"]) for (n, m), many in rows.items() if m in LARGE}
    verdicts = [larger(many, one._replace(value=one.value - NO_GAIN), len(pairs)) for many, one in pairs.values()]
    words = "; ".join(f"{many} with {WORDS[m]} (L = {n:g})" for (n, m), (many, _) in pairs.items())
    one = "; ".join(f"{rows[n, 'attention'].value:.4f} at L = {n:g}" for n in sorted({n for n, _ in pairs}))
    return Judgement(worst(verdicts), f"not below one head's {one} by {NO_GAIN:g}", words)


def where_they_go(tables: Tables) -> Judgement:
    """At equal parameters: two layers below two heads, and these below one layer of self-attention where it was run."""
    rows = predicted_ends(tables)
    lengths, large = sorted({n for n, _ in rows}), [m for m in LARGE if any(m == model for _, model in rows)]
    pairs = [(rows[n, low], rows[n, high]) for n in lengths for low, high in pairwise(large)]
    words = "; ".join(" < ".join(f"{rows[n, m].value:.4f}" for m in large) + f" (L = {n:g})" for n in lengths)
    verdict = worst(larger(high, low, len(pairs)) for low, high in pairs)
    return Judgement(verdict, " < ".join(WORDS[m] for m in large), words)


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


def listed_laws(tables: Tables) -> str:
    """Strengths needed and their exponents, simulated and predicted."""

    def of(source: str, rows: Any) -> str:
        lines, at = exponents(rows), {m: part.sort_values("length") for m, part in rows.groupby("model")}
        return f"{source}: " + "; ".join(
            f"{WORDS[m]} θ = {', '.join(f'{x:.2f}' for x in at[m]['strength'])} at L = "
            f"{', '.join(f'{n:g}' for n in at[m]['length'])}, exponent {lines[m]}"
            for m in MODELS
            if m in at
        )

    return "; ".join(of(source, rows) for source, rows in laws(tables).items())


def listed_ends(tables: Tables) -> str:
    """Errors after joint training, the one head's first."""
    rows = predicted_ends(tables)
    parts = []
    for n in sorted({n for n, _ in rows}):
        others = ", ".join(f"{WORDS[m]} {rows[n, m]}" for m in LARGE if (n, m) in rows)
        parts.append(f"{rows[n, 'attention']} at L = {n:g} ({others})")
    return "; ".join(parts)


def depth_findings(tables: Tables) -> str:
    return (
        f"Trained at once on α = {JOINT['alpha']:g}, models with twice the parameters of one head gain nothing over its error "
        f"of {listed_ends(tables)}. A second layer switches itself off, and heads learn one direction twice. With the length "
        f"of the bags, the strength that two layers and two heads need for {TARGET:.0%} error grows as one head's does, and "
        f"only its constant is another ({listed_laws(tables)}). {self_attention.finding(tables)}"
    )


def depth_headline(tables: Tables) -> str:
    found = {source: exponents(rows) for source, rows in laws(tables).items()}
    source = "theory" if len(found["theory"]) == len(found["simulated"]) else "simulated"
    words = ", ".join(f"{found[source][m]} with {WORDS[m]}" for m in MODELS if m in found[source])
    leaving = " and ".join(f"{line} {where}" for where, line in self_attention.leaving_exponents(tables).items())
    return (
        "Neither a second layer nor a second head changes the law, only its constant: trained at once, the strength needed for "
        f"{TARGET:.0%} error grows with the length to the power {words} ({source}). Twice the parameters on as many samples "
        f"gain nothing: {listed_ends(tables)}. Self-attention whose tokens are averaged starts at a saddle where it is "
        "pooling; it leaves it the later the larger d is, and only above a strength that grows with the length to the power "
        f"{leaving}."
    )


# A trajectory of four directions compiles for ten seconds: in the quick form self-attention's theory is left out, and that of
# two layers, which takes time and memory like the square of the length, at L = 20. Theory at L = 10 has the bags of the other
# trajectories, so that it is compiled already.
SMALL = list(MODELS)[:3]
QUICK_THEORY = [
    {**point, "bags": QUICK_BAGS if point["length"] == 10 else FEW_BAGS}
    for point in law_spots(["attention", "heads:2"], [10, 20])
]
FULL_LAW = [*law_spots(["attention", "heads:2"], [10, 20, 40]), *law_spots(["two_layer"], [10, 20])]

depth = Study(
    name="depth",
    title="Depth and heads: the law stays, the constant grows; self-attention starts at a saddle",
    question="Does a second layer, a second head or self-attention, trained at once with everything else, change how the "
    f"strength needed for {TARGET:.0%} error grows with the length of the bags? And what do they bring at equal numbers of "
    "parameters and samples? (R = 1, π = 0.5, joint descent on α = 4; errors at θ = 4.)",
    notes="Two layers are rank-one self-attention under rank-one attention pooling; the one self-attention layer has query, "
    "key and value directions and a path around it, and its tokens are averaged. Both have 4d parameters, as two heads have; "
    "one head has 2d.",
    grids={
        "quick": [
            *joint_grids([10], SMALL, [80, 160], 8, QUICK_BAGS),
            *law_grids(law_spots(SMALL, [10, 20]), [80], 5, QUICK_THEORY),
            *self_attention.saddle_grids(5, 3.5, {50: 80, 600: 40}),
            *self_attention.leaving_grids([5, 10], 80, 9, theory=[]),
            KNOWN,
        ],
        "full": [
            *joint_grids([10, 30], list(MODELS), [200, 400], 20, FULL_BAGS),
            *law_grids(FULL_LAW, [100, 200], 16, [{**point, "bags": FEW_BAGS} for point in FULL_LAW]),
            *self_attention.saddle_grids(10, 5.0, {100: 60, 400: 60, 1600: 30}),
            *self_attention.leaving_grids([5, 10, 20], 200, 12, theory=[5, 10, 20]),
            KNOWN,
        ],
    },
    draw=draw_depth,
    findings=depth_findings,
    headline=depth_headline,
    claims=(
        Claim(
            "depth-no-gain",
            "A second attention layer does not lower the test error",
            "simulated joint training, last step: the same error within the margin at level 0.1 %; resolution "
            f"{DEEP_RESOLUTION:g}",
            second_layer,
            **OPEN,
        ),
        exact(
            "joint-heads-exact",
            "The trajectory theory gives the error of two heads, two layers and (full form) self-attention trained at once",
            ["length", "model"],
            DEEP_RESOLUTION,
            points="test error after the last step",
            criterion=joint_exact,
            **OPEN,
        ),
        Claim(
            "parameters-do-not-pay",
            "Twice the parameters (second layer, second head; full form: self-attention) do not lower the error on as many "
            "samples",
            f"theory, joint training, last step: no error below one head's by {NO_GAIN:g}, beyond the margin",
            not_better,
            **OPEN,
        ),
        Claim(
            "parameters-in-depth",
            "At equal numbers of parameters and samples two layers beat two heads, and these (full form) self-attention",
            "theory, joint training, last step: errors in this order beyond the margin",
            where_they_go,
            **OPEN,
        ),
        Claim(
            "depth-same-law",
            "Trained at once, a second layer or a second head changes the constant of the strength needed against the length "
            "of the bags, not its law",
            f"slope of log strength for {TARGET:.0%} error against log L, simulated and in theory (quick form: theory of heads "
            f"only): that of two layers and two heads within {SAME_LAW:g} of one head's, margin included",
            same_law,
            **OPEN,
        ),
        *self_attention.CLAIMS,
    ),
)

"""Depth, heads and self-attention trained at once: do they change how the strength needed grows with the length?"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from ..._core.averages import combined_degrees, extrapolate, summarise
from ...plotting.panels import Layer, Line, Panel, Points
from ...plotting.style import OTHER_COLOURS, colour, marker
from ...study.claims import (
    Claim,
    Judgement,
    Tables,
    equal_verdict,
    format_value,
    greater_verdict,
    need,
    quantile,
    within_verdict,
    worst,
)
from ...study.criteria import judge_agreement, select
from ...study.specification import Grid, Study
from . import self_attention
from .common import AXES, FULL_BAGS, OPEN, QUICK_BAGS, THEORY_DEGREES
from .crossings import crossings, exponents
from .scaling import TARGET, known, mechanisms

# Trained at once, all on the same schedule. The number of directions says how many parameters a model has, in units of d.
# Those with four start where a gradient can tell their directions apart: at zero, heads stay equal and inner layers off.
MODELS: dict[str, dict[str, Any]] = {
    "attention": {},
    "two_layer": {"start": {"k": 0.5, "v": 0.5}},
    "heads:2": {"start": {"q1": 0.5, "q2": 0.5}},
    "self_attention": {"start": self_attention.UNINFORMED},
}
WORDS = {
    "attention": "one head",
    "two_layer": "two layers",
    "heads:2": "two heads",
    "self_attention": "one self-attention layer",
}
LARGE = tuple(MODELS)[1:]  # with 4d parameters; one head has 2d
JOINT: dict[str, Any] = {"sparsity": 1, "prevalence": 0.5, "alpha": 4.0, "steps": 30, "rates": 1.0, "decay": 0.1}
DEPTH_STRENGTH = 4.0
JOINT_LENGTH = 10  # of the quick form
DRAWN = list(range(0, JOINT["steps"] + 1, 3))  # steps of the runs that are drawn
NO_GAIN = 0.005  # an error lower by less than that is none worth twice the parameters
# Strengths on both sides of 10 % error by length, all models trained at once but self-attention, which has a law of its own;
# and how many steps all of them have settled after (the query of long bags takes longer to leave the saddle at zero). From
# runs on other seeds.
LAW = {10: (3.6, 4.1), 20: (3.8, 4.3), 40: (4.0, 4.6)}
LAW_STEPS = {10: 30, 20: 30, 40: 40}
SAME_LAW = 0.1  # how far an exponent may be off one head's and still be called the same: pooling's is 1/2
DEEP_RESOLUTION = 0.06
# Per replicate: a quarter of a per cent of the strength, and buffers of four directions at L = 20 that fit.
LAW_BAGS = 256
FIRST_SEED = 1000  # criteria and sizes were chosen on others
MODEL_COLOURS = dict(zip(MODELS, (colour("attention"), OTHER_COLOURS[5], OTHER_COLOURS[0], OTHER_COLOURS[2])))


def law_spots(models: Sequence[str], lengths: Sequence[int]) -> list[dict[str, Any]]:
    """Points of joint training on both sides of 10 % error."""
    return [
        {**JOINT, "steps": LAW_STEPS[n], "rows_at": [LAW_STEPS[n]], "length": n, "model": m, "strength": s, **MODELS[m]}
        for m in models
        for n in lengths
        for s in LAW[n]
    ]


def grids(
    lengths: list[int],
    sizes: list[int],
    repeats: int,
    bags: int,
    models: Sequence[str],
    law: Sequence[dict[str, Any]],
    law_sizes: list[int],
    law_repeats: int,
    law_theory: Sequence[dict[str, Any]],
    saddle: Sequence[Grid],
) -> list[Grid]:
    """The trials of one form: lengths, simulated dimensions and repeats, bags per replicate of the theory, and the models;
    points, dimensions and repeats of the law, and points of its theory; the grids of self-attention's saddle."""
    at_once = [
        {**JOINT, "strength": DEPTH_STRENGTH, "length": n, "model": m, **MODELS[m]} for n in lengths for m in models
    ]
    return [
        Grid(
            "joint",
            "simulate_trajectory",
            {"rows_at": DRAWN},
            axes={"d": sizes},
            points=at_once,
            repeats=repeats,
            first_seed=FIRST_SEED,
        ),
        Grid("joint_predicted", "trajectory", {"accuracy": 1.0, "bags": bags}, points=at_once),
        Grid(
            "law",
            "simulate_trajectory",
            axes={"d": law_sizes},
            points=law,
            repeats=law_repeats,
            first_seed=FIRST_SEED,
        ),
        Grid("law_predicted", "trajectory", {"accuracy": 1.0}, points=law_theory),
        *saddle,
        # Those of the study `scaling`, which cost nothing where that one has been run.
        Grid("known", "known_strength", {"target": TARGET}, points=mechanisms()),
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
    return crossings(ends, ["model", "length"], "value", "error", independent=True)


def laws(tables: Tables) -> dict[str, Any]:
    """The strengths needed by joint training, simulated and predicted (quick form: of one and two heads)."""
    rows = last_rows(need(tables, "law_predicted", ["test_error"]))
    return {
        "simulated": law_simulated(tables),
        "theory": crossings(rows, ["model", "length"], "test_error", "test_error_se"),
    }


def same_law(tables: Tables) -> Judgement:
    """The exponent of two layers and two heads is one head's."""
    lines = {source: exponents(rows) for source, rows in laws(tables).items()}
    count = sum(len(found) - 1 for found in lines.values())
    verdicts, words = [], []
    for source, found in lines.items():
        one = found["attention"]
        parts = [f"{format_value(one.slope, one.error)} with one head"]
        for model in (m for m in LARGE if m in found):
            other = found[model]
            variances = np.square([one.error, other.error])
            factor = float(quantile(count, combined_degrees(variances, [one.degrees, other.degrees])))
            difference, margin = other.slope - one.slope, factor * float(np.sqrt(variances.sum()))
            verdicts.append(within_verdict(difference, margin, SAME_LAW))
            parts.append(f"{format_value(other.slope, other.error)} with {WORDS[model]}")
        words.append(f"{source}: " + ", ".join(parts))
    return Judgement(worst(verdicts), f"two layers and two heads within {SAME_LAW:g} of one head", "; ".join(words))


def depth(tables: Tables) -> Judgement:
    """A second layer changes the test error by nothing that could be seen."""
    table = need(tables, "joint", ["test_error"])
    last = table[table["step"] == JOINT["steps"]]
    found = summarise(last, ["length", "model"], "test_error").set_index(["length", "model"])
    lengths = sorted(set(last["length"]))
    verdicts, words = [], []
    for n in lengths:
        one, two = found.loc[(n, "attention")], found.loc[(n, "two_layer")]
        margin = float(quantile(len(lengths), min(one["count"], two["count"]) - 1)) * float(
            np.hypot(one["error"], two["error"])
        )
        verdicts.append(equal_verdict(two["mean"] - one["mean"], margin, DEEP_RESOLUTION))
        words.append(
            f"{format_value(two['mean'], two['error'])} with two layers, {format_value(one['mean'], one['error'])} with one "
            f"(L = {n:g})"
        )
    return Judgement(worst(verdicts), "the same error", "; ".join(words))


def _ends(tables: Tables, name: str) -> Any:
    """Rows after the last step of joint training."""
    table = need(tables, name, ["test_error", "step"])
    return table[table["step"] == JOINT["steps"]]


def joint_exact(tables: Tables) -> Judgement:
    """Joint training: the same of the last step's errors and the trajectory theory."""
    simulated, predicted = (_ends(tables, name) for name in ("joint", "joint_predicted"))
    on = ["length", "model"]
    return judge_agreement(simulated, predicted, "test_error", on, DEEP_RESOLUTION, "test_error_se")


def _predicted_ends(tables: Tables) -> Any:
    return _ends(tables, "joint_predicted").set_index(["length", "model"])[["test_error", "test_error_se"]]


def _large(rows: Any) -> list[str]:
    """The models with 4d parameters that were run, in the order of `MODELS`."""
    run = set(rows.index.get_level_values("model"))
    return [m for m in LARGE if m in run]


def not_better(tables: Tables) -> Judgement:
    """No model with twice the parameters has a lower error than one head, on as many samples."""
    rows = _predicted_ends(tables)
    pairs = [(n, m) for n, m in rows.index if m in LARGE]
    verdicts, words = [], []
    for n, m in pairs:
        many, one = rows.loc[(n, m)], rows.loc[(n, "attention")]
        margin = float(quantile(len(pairs), THEORY_DEGREES)) * float(
            np.hypot(many["test_error_se"], one["test_error_se"])
        )
        verdicts.append(greater_verdict(many["test_error"] - one["test_error"] + NO_GAIN, margin))
        words.append(f"{format_value(many['test_error'], many['test_error_se'])} with {WORDS[m]} (L = {n:g})")
    one = "; ".join(
        f"{rows.loc[(n, 'attention'), 'test_error']:.4f} at L = {n:g}" for n in sorted({n for n, _ in pairs})
    )
    return Judgement(worst(verdicts), f"not below one head's {one} by {NO_GAIN:g}", "; ".join(words))


def where_they_go(tables: Tables) -> Judgement:
    """At equal parameters: two layers below two heads, and these below one layer of self-attention where it was run."""
    rows = _predicted_ends(tables)
    lengths, large = sorted(set(rows.index.get_level_values(0))), _large(rows)
    pairs = list(pairwise(large))
    verdicts, words = [], []
    for n in lengths:
        for better, worse in pairs:
            low, high = rows.loc[(n, better)], rows.loc[(n, worse)]
            error = float(np.hypot(low["test_error_se"], high["test_error_se"]))
            margin = float(quantile(len(pairs) * len(lengths), THEORY_DEGREES)) * error
            verdicts.append(greater_verdict(high["test_error"] - low["test_error"], margin))
        words.append(" < ".join(f"{rows.loc[(n, m), 'test_error']:.4f}" for m in large) + f" (L = {n:g})")
    return Judgement(worst(verdicts), " < ".join(WORDS[m] for m in large), "; ".join(words))


def draw(tables: Tables) -> list[Panel]:
    joint, lines = tables["joint"], tables["joint_predicted"]
    steps: list[Layer] = []
    length, d = int(joint["length"].max()), int(joint["d"].max())
    for model in ("attention", *_large(lines.set_index("model", append=True))):
        label = WORDS[model]
        line = select(lines, {"model": model, "length": length}).sort_values("step")
        seen = summarise(select(joint, {"model": model, "length": length, "d": d}), "step", "test_error")
        seen, shade = seen[seen["step"].isin(DRAWN)].sort_values("step"), MODEL_COLOURS[model]
        steps += [
            Line(line["step"], line["test_error"], f"{label}: theory", shade),
            Points(seen["step"], seen["mean"], seen["error"], f"{label}: simulated", shade, marker(model)),
        ]
    grown: list[Layer] = []
    sources = laws(tables)
    for source, rows in sources.items():
        for model in (m for m in MODELS if m in set(rows["model"])):
            part, label = rows[rows["model"] == model].sort_values("length"), f"{WORDS[model]}: {source}"
            at = (part["length"], part["strength"])
            if source == "theory":
                grown.append(Line(*at, label, MODEL_COLOURS[model]))
            else:
                if model not in set(sources["theory"]["model"]):  # the eye's guide where no line of the theory is
                    grown.append(Line(*at, f"{WORDS[model]}: through the runs", MODEL_COLOURS[model], "dash"))
                grown.append(Points(*at, part["error"], label, MODEL_COLOURS[model], marker(model)))
    best = known(tables, "bayes")
    near = best[best["length"] <= 64]
    grown.append(Line(near["length"], near["strength_needed"], "Bayes rule, signal known", colour("bayes"), "dot"))
    return [
        Panel(f"All trained at once, L = {length} (d = {d})", "gradient step t", AXES["test_error"], steps, logy=True),
        Panel(
            "Strength needed, all trained at once",
            AXES["length"],
            f"strength θ for {TARGET:.0%} error",
            grown,
            logx=True,
        ),
        *self_attention.panels(tables),
    ]


def listed_laws(tables: Tables) -> str:
    """Strengths needed and their exponents, simulated and predicted."""

    def of(source: str, rows: Any) -> str:
        lines, at = exponents(rows), {m: part.sort_values("length") for m, part in rows.groupby("model")}
        return f"{source}: " + "; ".join(
            f"{WORDS[m]} θ = {', '.join(f'{x:.2f}' for x in at[m]['strength'])} at L = "
            f"{', '.join(f'{n:g}' for n in at[m]['length'])}, exponent {format_value(lines[m].slope, lines[m].error)}"
            for m in MODELS
            if m in at
        )

    return "; ".join(of(source, rows) for source, rows in laws(tables).items())


def findings(tables: Tables) -> str:
    return (
        f"Trained at once on α = {JOINT['alpha']:g}, models with twice the parameters of one head gain nothing over its "
        f"error of {listed_ends(tables)}. A second layer switches itself off, and heads learn one direction twice. With the "
        f"length of the bags, the strength that two layers and two heads need for {TARGET:.0%} error grows as one head's "
        f"does, and only its constant is another ({listed_laws(tables)}). {self_attention.finding(tables)}"
    )


def listed_ends(tables: Tables) -> str:
    """Errors after joint training, the one head's first."""
    rows = _predicted_ends(tables)
    parts = []
    for n in sorted(set(rows.index.get_level_values(0))):
        one, *ends = (format_value(*rows.loc[(n, m)]) for m in ("attention", *_large(rows)))
        others = ", ".join(f"{WORDS[m]} {end}" for m, end in zip(_large(rows), ends))
        parts.append(f"{one} at L = {n:g} ({others})")
    return "; ".join(parts)


def headline(tables: Tables) -> str:
    found = {source: exponents(rows) for source, rows in laws(tables).items()}
    source = "theory" if len(found["theory"]) == len(found["simulated"]) else "simulated"
    lines = found[source]
    words = ", ".join(f"{format_value(lines[m].slope, lines[m].error)} with {WORDS[m]}" for m in MODELS if m in lines)
    own = self_attention.leaving_exponents(tables)
    said = " and ".join(f"{format_value(line.slope, line.error)} {where}" for where, line in own.items())
    return (
        "Neither a second layer nor a second head changes the law, only its constant: trained at once, the strength needed "
        f"for {TARGET:.0%} error grows with the length to the power {words} ({source}). Twice the parameters on as many "
        f"samples gain nothing: {listed_ends(tables)}. Self-attention whose tokens are averaged starts at a saddle where it "
        "is pooling; it leaves it the later the larger d is, and only above a strength that grows with the length to the power "
        f"{said}."
    )


# The theory of two layers takes time and memory like the square of the length: there up to 20.
FULL_SPOTS = [*law_spots(["attention", "heads:2"], [10, 20, 40]), *law_spots(["two_layer"], [10, 20])]
FULL_THEORY = [{**spot, "bags": LAW_BAGS} for spot in FULL_SPOTS]
# At L = 10 with the bags of the other trajectories, so that it is compiled already; a second layer at L = 20 would cost twenty
# seconds more.
QUICK_THEORY = [
    {**spot, "bags": QUICK_BAGS if spot["length"] == JOINT_LENGTH else LAW_BAGS}
    for spot in law_spots(["attention", "heads:2"], [10, 20])
]
QUICK_SADDLE = self_attention.grids(5, 3.5, {50: 80, 600: 40}, [5, 10], 80, 9, theory=[])
FULL_SADDLE = self_attention.grids(10, 5.0, {100: 60, 400: 60, 1600: 30}, [5, 10, 20], 200, 12, theory=[5, 10, 20])


study = Study(
    name="depth",
    title="Depth and heads: the law stays, the constant grows; self-attention starts at a saddle",
    question="Does a second layer, a second head or self-attention, trained at once with everything else, change how the "
    f"strength needed for {TARGET:.0%} error grows with the length of the bags? And what do they bring at equal numbers of "
    "parameters and samples? (R = 1, π = 0.5, joint descent on α = 4; errors at θ = 4.)",
    notes="Two layers are rank-one self-attention under rank-one attention pooling; the one self-attention layer has query, "
    "key and value directions and a path around it, and its tokens are averaged. Both have 4d parameters, as two heads have; "
    "one head has 2d.",
    grids={
        # A trajectory of four directions compiles for ten seconds: self-attention's theory is left to the full form.
        "quick": grids(
            *([JOINT_LENGTH], [80, 160], 8, QUICK_BAGS, list(MODELS)[:3]),
            *(law_spots(list(MODELS)[:3], [10, 20]), [80], 5, QUICK_THEORY, QUICK_SADDLE),
        ),
        "full": grids(
            *([10, 30], [200, 400], 20, FULL_BAGS, list(MODELS)),
            *(FULL_SPOTS, [100, 200], 16, FULL_THEORY, FULL_SADDLE),
        ),
    },
    draw=draw,
    findings=findings,
    headline=headline,
    claims=(
        Claim(
            "depth-no-gain",
            "A second attention layer does not lower the test error",
            OPEN,
            "simulated joint training, last step: the same error within the margin at level 0.1 %; resolution "
            f"{DEEP_RESOLUTION:g}",
            depth,
        ),
        Claim(
            "joint-heads-exact",
            "The trajectory theory gives the error of two heads, two layers and (full form) self-attention trained at once",
            OPEN,
            "test error after the last step, extrapolated to d → ∞, within the margin at level 0.1 %; resolution "
            f"{DEEP_RESOLUTION:g}",
            joint_exact,
        ),
        Claim(
            "parameters-do-not-pay",
            "Twice the parameters (second layer, second head; full form: self-attention) do not lower the error on as many "
            "samples",
            OPEN,
            f"theory, joint training, last step: no error below one head's by {NO_GAIN:g}, beyond the margin",
            not_better,
        ),
        Claim(
            "parameters-in-depth",
            "At equal numbers of parameters and samples two layers beat two heads, and these (full form) self-attention",
            OPEN,
            "theory, joint training, last step: errors in this order beyond the margin",
            where_they_go,
        ),
        Claim(
            "depth-same-law",
            "Trained at once, a second layer or a second head changes the constant of the strength needed against the length "
            "of the bags, not its law",
            OPEN,
            f"slope of log strength for {TARGET:.0%} error against log L, simulated and in theory (quick form: theory of heads "
            f"only): that of two layers and two heads within {SAME_LAW:g} of one head's, margin included",
            same_law,
        ),
        *self_attention.CLAIMS,
    ),
)

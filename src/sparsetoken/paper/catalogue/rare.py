"""Rare positives: which loss and which weight of the rare class come closest to the Bayes limit, and what a weight acts on."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._core.averages import extrapolate
from ...plotting.panels import Layer, Line, Panel, Points, Rule
from ...plotting.style import OTHER_COLOURS, loss_label
from ...study.claims import (
    Claim,
    Judgement,
    NotJudgeable,
    Tables,
    format_value,
    greater_verdict,
    need,
    quantile,
    within_verdict,
    worst,
)
from ...study.criteria import judge_agreement, select
from ...study.specification import Grid, Study
from .common import AXES, OPEN, TEN_TOKENS, THEORY_DEGREES

TASK: dict[str, Any] = {**TEN_TOKENS, "strength": 4.75, "prevalence": 0.05}
ALPHA = 4.0  # of each of the two stages: 0.2 positive bags per dimension in each
BALANCED = 19.0  # (1 - π)/π: both classes have the same say
WEIGHTS = [1.0, 4.0, BALANCED, 76.0]
# Loss -> rates of the bias's step for `WEIGHTS`, the best at θ = 4.5 of `BIAS_RATES`. The readout's rate is small, so that the
# query's step meets the loss at its bias alone; a balanced loss has no use for a bias there.
RATES: dict[str, list[float]] = {
    "logistic": [8.0, 8.0, 0.0, 0.0],
    "smoothed_hinge": [2.0, 2.0, 0.0, 0.0],
    "square": [1.0, 1.0, 0.0, 0.0],
    "exponential": [2.0, 2.0, 0.0, 0.0],
}
BIAS_RATES = [0.0, 1.0, 2.0, 4.0, 8.0]
READOUT_RATE = 0.1
SHARPNESS = 2.5
COSINE = 0.9  # of the query that is given
RIDGES = [0.001, 0.01, 0.1, 1.0, 10.0, 30.0]
SIMULATED_RIDGE = 30.0
# Losses and weights that are trained to the end: in the quick form, and in the full one.
FEW = [("logistic", 1.0), ("logistic", BALANCED)]
MANY = [*((loss, w) for loss in RATES for w in (1.0, BALANCED)), ("logistic", 4.0), ("logistic", 76.0)]
# Log-sum-exp with everything trained at once, plain and focal.
AT_ONCE = ["logistic", "focal:2"]
AT_ONCE_RATES = [3.0, 4.0, 6.0]
STEPS = 20
ALIKE = 0.1  # what counts as the same error, as a share of it
OFF = 1.3  # by what factor an error counts as lost to the threshold
RESOLUTION = 0.05  # of the AUC
GAIN = 0.005  # of the AUC: what would be worth another loss
BAGS = 512  # per replicate of the trajectory theory, in both forms: standard errors are far below what counts
FIRST_SEED = 5000  # criteria and sizes were chosen on others


def weighted(loss: str, weight: float) -> str:
    """The name of a loss with that weight of the positive bags."""
    return loss if weight == 1.0 else f"{loss}:positives={weight:g}"


def steps_at(loss: str, weight: float, eta_b: float | None = None) -> dict[str, Any]:
    """A point of the two steps, at the rate of the bias that suits loss and weight if none is given."""
    rate = RATES[loss][WEIGHTS.index(weight)] if eta_b is None else eta_b
    return {**TASK, "alpha0": ALPHA, "loss": weighted(loss, weight), "eta_w": READOUT_RATE, "eta_b": rate}


def trained_at(loss: str, weight: float) -> dict[str, Any]:
    """A point of the whole training."""
    return {**steps_at(loss, weight), "alpha1": ALPHA, "sharpness": SHARPNESS}


def at_once(loss: str, rate: float) -> dict[str, Any]:
    """Log-sum-exp trained at once with that loss, on the samples of both stages."""
    rates = {"rates": {"w": rate, "bias": 0.5 * rate}, "decay": {"w": 0.2 / rate}}
    return {**TASK, "model": "tied", "alpha": 2 * ALPHA, "steps": STEPS, "loss": loss, **rates}


def grids(cases: list[tuple[str, float]], sizes: list[int], repeats: int, runs: int) -> list[Grid]:
    tried = [steps_at(loss, w, rate) for loss in RATES for w in WEIGHTS for rate in BIAS_RATES]
    last = {"rows_at": [STEPS]}
    drawn = [steps_at(loss, w) for loss in RATES for w in (1.0, BALANCED)]
    trained = [trained_at(loss, w) for loss, w in cases]
    spots = [trained_at(loss, w) for loss, w in cases if w > 1.0]
    both: dict[str, Any] = {"first_seed": FIRST_SEED}
    once = [at_once(loss, rate) for loss in AT_ONCE for rate in AT_ONCE_RATES]
    return [
        Grid("query", "alignment", points=tried),
        Grid("query_simulated", "two_steps", {}, {"d": [1000, 4000]}, points=drawn, repeats=repeats, **both),
        Grid("trained", "threshold_forecast", {"ridges": RIDGES}, points=trained),
        Grid("given", "threshold_forecast", {"ridges": RIDGES, "cosine": COSINE}, points=trained),
        Grid("simulated", "simulate", {"ridge": SIMULATED_RIDGE}, {"d": sizes}, points=spots, repeats=repeats, **both),
        Grid("at_once", "trajectory", {**last, "accuracy": 1.0, "bags": BAGS}, points=once),
        Grid(
            "at_once_simulated",
            "simulate_trajectory",
            last,
            {"d": [100, 200]},
            points=[at_once("focal:2", AT_ONCE_RATES[1])],
            repeats=runs,
            **both,
        ),
        Grid("bayes", "bayes_limit", {**TASK, "alpha": 2 * ALPHA}),
    ]


def cosines(tables: Tables) -> Any:
    """The query's predicted cosine by loss and weight, each at its best rate of the bias."""
    table = need(tables, "query", ["cosine_q"])
    rows = {
        (loss, w): float(table.loc[table["loss"] == weighted(loss, w), "cosine_q"].max())
        for loss in RATES
        for w in WEIGHTS
    }
    if not all(np.isfinite(value) for value in rows.values()):
        raise NotJudgeable("no prediction for some losses and weights")
    return rows


def cases_in(table: Any) -> list[tuple[str, float]]:
    """The losses and weights that a table of trainings has, in the order of the full form."""
    names = set(table["loss"])
    return [case for case in MANY if weighted(*case) in names]


def best(tables: Tables, name: str, column: str) -> dict[tuple[str, float], float]:
    """The least of a column over the ridges, by loss and weight."""
    table = need(tables, name, [column])
    found = {case: float(table.loc[table["loss"] == weighted(*case), column].min()) for case in cases_in(table)}
    if not set(FEW) <= set(found):
        raise NotJudgeable(f"no prediction for all of {', '.join(weighted(*case) for case in FEW)}")
    return found


def exact(tables: Tables) -> Judgement:
    """AUC of whole trainings at the simulated ridge, and of the focal descent."""
    theory = select(need(tables, "trained", ["auc"]), {"ridge": SIMULATED_RIDGE})
    staged = judge_agreement(need(tables, "simulated", ["auc"]), theory, "auc", ["loss"], RESOLUTION)
    last = {"step": STEPS}
    focal = select(need(tables, "at_once", ["auc"]), last)
    runs = select(need(tables, "at_once_simulated", ["auc"]), last)
    descent = judge_agreement(runs, focal, "auc", ["loss", "rates"], RESOLUTION, "auc_se")
    return Judgement(
        worst([staged.verdict, descent.verdict]),
        f"{staged.predicted}; focal {descent.predicted}",
        f"{staged.measured}; focal {descent.measured}",
        f"{staged.note}; focal: {descent.note}",
    )


def weights_align(tables: Tables) -> Judgement:
    """Simulated cosines of the query at d -> infinity: balanced above unweighted, for every loss."""
    seen = extrapolate(need(tables, "query_simulated", ["cosine_q"]), ["loss"], "cosine_q").set_index("loss")
    theory = cosines(tables)
    verdicts, words = [], []
    for loss in RATES:
        plain, balanced = seen.loc[loss], seen.loc[weighted(loss, BALANCED)]
        error = float(np.hypot(plain["error"], balanced["error"]))
        degrees = float(min(plain["degrees"], balanced["degrees"]))
        margin = float(quantile(len(RATES), degrees)) * error
        verdicts.append(greater_verdict(float(balanced["limit"] - plain["limit"]), margin))
        words.append(
            f"{format_value(plain['limit'], plain['error'])} → {format_value(balanced['limit'], balanced['error'])} "
            f"({loss_label(loss)})"
        )
    predicted = ", ".join(f"{theory[loss, 1.0]:.3f} → {theory[loss, BALANCED]:.3f}" for loss in RATES)
    return Judgement(worst(verdicts), predicted, ", ".join(words))


def threshold_only(tables: Tables) -> Judgement:
    """With a given query and a fitted threshold every loss and weight is as good as the unweighted logistic one."""
    found = best(tables, "given", "threshold_error")
    base = found["logistic", 1.0]
    others = {case: value for case, value in found.items() if case != ("logistic", 1.0)}
    verdicts = [within_verdict(value - base, 0.0, ALIKE * base) for value in others.values()]
    words = ", ".join(f"{value:.4f} ({loss_label(weighted(*case))})" for case, value in others.items())
    return Judgement(worst(verdicts), f"within {ALIKE:.0%} of {base:.4f}", words)


def weight_sets_threshold(tables: Tables) -> Judgement:
    """With a given query the balanced weight puts the threshold right, and no weight does not."""
    plain, fitted = best(tables, "given", "test_error"), best(tables, "given", "threshold_error")
    ratio = {case: plain[case] / fitted[case] for case in plain}
    balanced = [value for (_, w), value in ratio.items() if w == BALANCED]
    none = [value for (_, w), value in ratio.items() if w == 1.0]
    verdicts = [within_verdict(value - 1.0, 0.0, ALIKE) for value in balanced]
    verdicts += ["confirmed" if value >= OFF else "refuted" for value in none]
    words = ", ".join(f"{value:.2f} ({loss_label(weighted(*case))})" for case, value in ratio.items())
    return Judgement(worst(verdicts), f"balanced within {1 + ALIKE:g}, unweighted {OFF:g} or more", words)


def last_auc(tables: Tables) -> Any:
    """AUC after the last step by loss, each at its best rate."""
    table = select(need(tables, "at_once", ["auc"]), {"step": STEPS})
    rows = table.sort_values("auc", ascending=False).groupby("loss").first()
    missing = [loss for loss in AT_ONCE if loss not in rows.index]
    if missing:
        raise NotJudgeable(f"no prediction for {', '.join(missing)}")
    return rows.loc[AT_ONCE]


def focal_gains_nothing(tables: Tables) -> Judgement:
    rows = last_auc(tables)
    plain, focal = (rows.loc[loss] for loss in AT_ONCE)
    margin = float(quantile(1, THEORY_DEGREES)) * float(np.hypot(plain["auc_se"], focal["auc_se"]))
    return Judgement(
        greater_verdict(float(plain["auc"] + GAIN - focal["auc"]), margin),
        f"at most {GAIN:g} above {format_value(plain['auc'], plain['auc_se'])}",
        format_value(focal["auc"], focal["auc_se"]),
    )


def draw(tables: Tables) -> list[Panel]:
    limit = float(tables["bayes"]["test_error"].iloc[0])
    theory = cosines(tables)
    seen = extrapolate(tables["query_simulated"], ["loss"], "cosine_q").set_index("loss")
    query: list[Layer] = []
    for i, loss in enumerate(RATES):
        ink = OTHER_COLOURS[i]
        query.append(Line(WEIGHTS, [theory[loss, w] for w in WEIGHTS], f"{loss_label(loss)}: theory", ink))
        drawn = seen.loc[[loss, weighted(loss, BALANCED)]]
        query.append(
            Points([1.0, BALANCED], drawn["limit"], drawn["error"], f"{loss_label(loss)}: simulated, d → ∞", ink)
        )
    panels = [Panel("The query after two steps", "weight of positive bags", AXES["cosine_q"], query, logx=True)]
    for name, title in (("given", f"Readout with a query of cosine {COSINE:g}"), ("trained", "Trained in stages")):
        cases = cases_in(tables[name])
        place = np.arange(1.0, len(cases) + 1)
        layers: list[Layer] = []
        for column, words, ink, mark in (
            ("test_error", "error as it is: theory", OTHER_COLOURS[1], "square"),
            ("threshold_error", "threshold fitted: theory", OTHER_COLOURS[0], "diamond"),
        ):
            found = best(tables, name, column)
            layers.append(Points(place, [found[case] for case in cases], None, words, ink, mark))
        layers.append(Rule("y", limit, "Bayes limit"))
        names = [loss_label(weighted(*case)) for case in cases]
        panels.append(
            Panel(title, "loss × weight of positive bags", AXES["test_error"], layers, logy=True, names=names)
        )
    return panels


def findings(tables: Tables) -> str:
    limit = float(tables["bayes"]["test_error"].iloc[0])
    theory, rows = cosines(tables), last_auc(tables)
    given, as_is = best(tables, "given", "threshold_error"), best(tables, "given", "test_error")
    staged, staged_as_is = best(tables, "trained", "threshold_error"), best(tables, "trained", "test_error")
    raised = ", ".join(f"{loss_label(loss)} {theory[loss, 1.0]:.2f} → {theory[loss, BALANCED]:.2f}" for loss in RATES)
    readout = ", ".join(f"{loss_label(weighted(*case))} {value:.4f}" for case, value in given.items())
    whole = ", ".join(f"{loss_label(weighted(*c))} {staged_as_is[c]:.4f} ({value:.4f})" for c, value in staged.items())
    four, many = theory["logistic", 4.0], theory["logistic", 76.0]
    plain, focal = (format_value(rows.loc[loss, "auc"], rows.loc[loss, "auc_se"]) for loss in AT_ONCE)
    return (
        f"One bag in twenty is positive; the Bayes limit is {limit:.4f}. A weight acts on two things. In the two steps it "
        "decides how well the query is found: negative bags bring no signal but as much noise each, and a weight w makes the "
        "signal w times and the noise only √(1 − π + π w²) times as large. Balanced weights take the cosine from "
        f"{raised}; a weight of 4, near the root of the balanced one, has most of that ({four:.2f} with the logistic loss), "
        f"and a four times larger one little more ({many:.2f}, if the bias is left alone). In the readout a weight moves "
        f"the threshold and nothing else that matters: with a query of cosine {COSINE:g} and the threshold fitted, errors are "
        f"{readout}; as they are trained, {as_is['logistic', 1.0]:.4f} without and {as_is['logistic', BALANCED]:.4f} with "
        f"balanced weights. Trained in stages (in brackets with the threshold fitted): {whole}. Focal weighting, trained at "
        f"once with log-sum-exp and the best rate, has AUC {focal} where the plain loss has {plain}: it slows descent on "
        "bags that are right, and leaves the classes' say as it is."
    )


study = Study(
    name="rare",
    title="Rare positives: losses and weights",
    question="Logistic, smoothed hinge, square and exponential loss, weights of the rare class, focal weighting: which comes "
    "closest to the Bayes limit where one bag in twenty is positive, and what does a weight act on? (L = 10, R = 1, π = 0.05, "
    "θ = 4.75, α₀ = α₁ = 4.)",
    notes="Rates of the bias, ridges and criteria were settled at θ = 4.5, 5 and 5.5, on other seeds.",
    grids={
        "quick": grids(FEW, [150, 300], 12, 6),
        "full": grids(MANY, [500, 1000], 24, 24),
    },
    draw=draw,
    findings=findings,
    claims=(
        Claim(
            "rare-exact",
            "The theory gives the AUC of weighted losses at rare positives, and of a focal descent",
            OPEN,
            f"weighted trainings at λ = {SIMULATED_RIDGE:g} and the last step of the descent, extrapolated to d → ∞, within "
            f"the margin at level 0.1 %; resolution {RESOLUTION:g}",
            exact,
        ),
        Claim(
            "weights-align",
            "At rare positives a balanced weight gives a query closer to the signal, whatever the loss",
            OPEN,
            "two steps simulated, extrapolated to d → ∞, each with a rate of the bias that suits it: cosine above the "
            "unweighted one's for every loss, beyond the margin",
            weights_align,
        ),
        Claim(
            "threshold-only",
            "With the query given and the threshold fitted, neither loss nor weight matters at rare positives",
            OPEN,
            f"theory, best ridge: error within {ALIKE:.0%} of the unweighted logistic one",
            threshold_only,
        ),
        Claim(
            "weight-sets-threshold",
            "A balanced weight puts the readout's threshold right; without a weight it is wrong at rare positives",
            OPEN,
            f"theory, query given, best ridge each: error as trained within {ALIKE:.0%} of that with a fitted threshold when "
            f"balanced, and at least {OFF:g} times it without a weight",
            weight_sets_threshold,
        ),
        Claim(
            "focal-gains-nothing",
            "Focal weighting ranks bags no better than the plain logistic loss does",
            OPEN,
            "theory of the descent, γ = 2, the best of three rates each: AUC after the last step less than "
            f"{GAIN:g} above, margin included",
            focal_gains_nothing,
        ),
    ),
)

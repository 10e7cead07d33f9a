"""Query, readout and bias trained together against staged training on as many samples. The study: `joint`.

One batch from zero, and other ways to the same place: random starts, mini-batches, a bias that starts on the wrong side.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pandas as pd

from ...plotting.panels import Layer, Line, Panel
from ...plotting.style import OTHER_COLOURS, colour
from ...study.claims import Claim, Judgement, NotJudgeable, Tables, need, worst
from ...study.criteria import (
    ValueWithError,
    judge_agreement,
    larger,
    limits_of,
    near,
    predictions_of,
    select,
)
from ...study.study import Grid, Study
from .common import (
    AXES,
    FULL_BAGS,
    OPEN,
    QUICK_BAGS,
    REPLICATES,
    TEN_TOKENS,
    THEORY_DEGREES,
    exact,
    level,
    overlay,
    spots,
)

STEPS = 30
FIXED = {**TEN_TOKENS, "steps": STEPS, "rates": {"q": 1.0, "w": 1.0, "bias": 0.5}}
DECAY = 0.2
DECAYS = {0.0: OTHER_COLOURS[2], DECAY: OTHER_COLOURS[1]}  # with their colours
SIMULATED = [1.0, 4.0]
# Where simulation meets theory: in the steep part single runs scatter by a factor, and after it they settle.
JUDGED = [20, STEPS]
DRAWN = 3  # every third step of the runs is drawn
SEEN = sorted({*range(0, STEPS + 1, DRAWN), *JUDGED})
# The trajectory's default accuracy is meant for every step; here the last ones matter, and their error is a column.
LOOSE = 0.02
OVERFITS_FROM = 1.0  # with fewer samples the error hardly rises again
# At alpha = 8, where staged and joint training are both near the Bayes limit, eight replicates leave their distances open.
FULL_REPLICATES = 24
GAP_LEFT = 0.85  # of staged training's distance to the Bayes limit
# Tasks whose order staged and joint training are asked for, at a number of samples that no criterion was tried on.
ORDER_ALPHA = 2.0
ORDER: list[dict[str, Any]] = [
    {**TEN_TOKENS, "sparsity": R, "strength": theta, "prevalence": pi}
    for R, theta, pi in ((1, 5.0, 0.5), (1, 4.0, 0.5), (1, 5.0, 0.2), (2, 4.0, 0.5))
]
# Other ways to the same place: table of the theory -> words and colour; the runs are in `<table>_simulated`.
BIAS = 0.5  # of the start on the wrong side: negative bags are right at a negative bias, and training ends there
VARIANTS = {
    "random_start": ("random start", OTHER_COLOURS[0]),
    "batches": ("two batches", OTHER_COLOURS[4]),
    "biased_start": (f"random start, bias {BIAS:g}", OTHER_COLOURS[3]),
}
ALIKE = 0.005  # how far a random start or mini-batches may move the error; chosen on the theory at alpha = 4
DELAYED = (
    0.005  # by how much a bias on the wrong side is behind after the last step; from runs on other seeds at d = 300
)
VARIANT_SEED = 2000  # what is asked of the variants was settled on others


def batches(alpha: float) -> dict[str, Any]:
    """The same samples as two mini-batches visited in turn."""
    stage = {"steps": STEPS, "alpha": alpha / 2, "rates": FIXED["rates"], "decay": {"q": DECAY, "w": DECAY}}
    return {"alpha": alpha, "stages": [{**stage, "data": ["first", "second"]}]}


def variant_grids(sizes: list[int], repeats: int, alphas: list[float], bags: int) -> list[Grid]:
    """Theory and runs of all `VARIANTS`."""
    start = {"q": 0.5, "w": 0.5}
    plain = [{"alpha": a} for a in alphas]
    ways: dict[str, tuple[dict[str, Any], list[dict[str, Any]]]] = {
        "random_start": ({**FIXED, "start": start, "decay": DECAY}, plain),
        "batches": (TEN_TOKENS, [batches(a) for a in alphas]),
        "biased_start": ({**FIXED, "start": {**start, "bias": BIAS}, "decay": DECAY}, plain),
    }
    made = []
    for name, (fixed, points) in ways.items():
        theory = {**fixed, "accuracy": LOOSE, "bags": bags, "rows_at": SEEN}
        runs = {**fixed, "rows_at": list(range(0, STEPS + 1, 2 * DRAWN))}
        drawn: dict[str, Any] = {"repeats": repeats, "first_seed": VARIANT_SEED}
        made.append(Grid(name, "trajectory", theory, points=points))
        made.append(Grid(f"{name}_simulated", "simulate_trajectory", runs, {"d": sizes}, points, **drawn))
    return made


def grids(
    sizes: list[int],
    repeats: int,
    ridges: list[float],
    alphas: list[float],
    others: list[float],
    bags: int,
    variant_repeats: int,
    replicates: int = REPLICATES,
) -> list[Grid]:
    """The trials of one form: simulated dimensions and their repeats, ridges of staged training, samples per dimension (of
    the variants: `others`), bags per replicate of the theory, and replicates of one batch from zero."""
    limit: dict[str, Any] = {**FIXED, "accuracy": LOOSE, "bags": bags}
    order = {**limit, "rows_at": [STEPS], "decay": DECAY, "alpha": ORDER_ALPHA}
    runs: dict[str, Any] = {"d": sizes, "decay": list(DECAYS), "alpha": SIMULATED}
    staged = [{"alpha0": a / 2, "alpha1": a / 2} for a in alphas]
    halves = {"alpha0": ORDER_ALPHA / 2, "alpha1": ORDER_ALPHA / 2}
    return [
        Grid("limit", "trajectory", {**limit, "replicates": replicates}, {"decay": list(DECAYS), "alpha": alphas}),
        *variant_grids(sizes, variant_repeats, others, bags),
        Grid("simulated", "simulate_trajectory", {**FIXED, "rows_at": SEEN}, runs, repeats=repeats),
        Grid("staged", "forecast", TEN_TOKENS, {"ridge": ridges}, points=staged),
        Grid("bayes", "bayes_limit", TEN_TOKENS, {"alpha": alphas}),
        Grid("order", "trajectory", order, points=ORDER),
        Grid("order_staged", "forecast", halves, {"ridge": ridges}, points=ORDER),
    ]


def ends(tables: Tables, name: str, by: str | list[str] = "alpha", **where: Any) -> dict[Any, ValueWithError]:
    """Predicted errors after the last step."""
    rows = select(need(tables, name, ["test_error", "step"]), {"step": STEPS, **where})
    return predictions_of(rows, by, "test_error", "test_error_se", THEORY_DEGREES)


def staged_best(tables: Tables) -> dict[float, ValueWithError]:
    """Staged training's least error over the ridges at each total α."""
    table = need(tables, "staged", ["test_error"]).assign(alpha=lambda t: t["alpha0"] + t["alpha1"])
    best = table.sort_values("test_error").groupby("alpha", sort=True, as_index=False).first()
    return predictions_of(best, "alpha", "test_error", "standard_error", THEORY_DEGREES)


def steps_exact(tables: Tables) -> Judgement:
    """Simulated errors at the judged steps, extrapolated to infinite d, are those of the trajectory theory."""
    tested = (need(tables, name, ["test_error", "step"]) for name in ("simulated", "limit"))
    runs, theory = (table[table["step"].isin(JUDGED) & table["alpha"].isin(SIMULATED)] for table in tested)
    return judge_agreement(runs, theory, "test_error", ["alpha", "decay", "step"], 0.03, "test_error_se")


def best_steps(tables: Tables) -> dict[float, tuple[float, ValueWithError]]:
    """Without decay, by α: the best step, and its error."""
    plain = select(need(tables, "limit", ["test_error"]), {"decay": 0.0})
    rows = plain.loc[plain.groupby("alpha")["test_error"].idxmin()]
    errors = predictions_of(rows, "alpha", "test_error", "test_error_se", THEORY_DEGREES)
    return {a: (step, errors[a]) for a, step in zip(rows["alpha"], rows["step"])}


def overfits(tables: Tables) -> Judgement:
    """Without decay: an inner minimum, and the last step above it."""
    last = ends(tables, "limit", decay=0.0)
    found = {a: best for a, best in best_steps(tables).items() if a >= OVERFITS_FROM}
    words = (
        f"{best.value:.3f} at step {step:.0f}, {last[a].value:.3f} at {STEPS} (α = {a:g})"
        for a, (step, best) in found.items()
    )
    verdict = worst(larger(last[a], best, len(found)) for a, (_, best) in found.items())
    return Judgement(verdict, "least before the last step", "; ".join(words))


def against_staged(wins: bool):
    """The end of joint descent with decay below the best of staged training; its best step without decay above it."""

    def criterion(tables: Tables) -> Judgement:
        plain = {a: best for a, (_, best) in best_steps(tables).items()}
        staged, joint = staged_best(tables), ends(tables, "limit", decay=DECAY) if wins else plain
        pairs = [(joint[a], s) if wins else (s, joint[a]) for a, s in staged.items()]
        words = (f"{joint[a].value:.4f} against {s.value:.4f} (α = {a:g})" for a, s in staged.items())
        verdict = worst(larger(high, low, len(pairs)) for low, high in pairs)
        return Judgement(verdict, f"joint {'<' if wins else '>'} staged", "; ".join(words))

    return criterion


def gaps_left(tables: Tables) -> dict[float, float]:
    """Excess of joint descent with decay over the Bayes limit, over staged training's, by α."""
    last, bayes = ends(tables, "limit", decay=DECAY), need(tables, "bayes").set_index("alpha")["test_error"]
    return {a: (last[a].value - bayes[a]) / (s.value - bayes[a]) for a, s in staged_best(tables).items()}


def nearer(tables: Tables) -> Judgement:
    """With decay, the distance to the Bayes limit is a share of staged training's."""
    bayes, staged = need(tables, "bayes", ["test_error"]).set_index("alpha")["test_error"], staged_best(tables)
    degrees, last = need(tables, "limit")["replicates"].min() - 1, ends(tables, "limit", decay=DECAY)
    verdicts = []
    for a, error in staged.items():
        ours = ValueWithError(last[a].value - bayes[a], last[a].error, degrees)
        theirs = ValueWithError(GAP_LEFT * (error.value - bayes[a]), GAP_LEFT * error.error, degrees)
        verdicts.append(larger(theirs, ours, len(staged)))
    words = ", ".join(f"{share:.0%} (α = {a:g})" for a, share in gaps_left(tables).items())
    return Judgement(worst(verdicts), f"at most {GAP_LEFT:.0%}", words)


def same_order(tables: Tables) -> Judgement:
    """Of any two tasks, that with the larger staged error has the larger joint error."""
    names = ["sparsity", "strength", "prevalence"]
    joint = ends(tables, "order", names)
    staged = need(tables, "order_staged", ["test_error"]).groupby(names)["test_error"].min().sort_values()
    rows = [(task, joint[task]) for task in staged.index if task in joint]
    if len(rows) < len(ORDER):
        raise NotJudgeable(f"errors of {len(rows)} tasks")
    pairs = list(combinations([error for _, error in rows], 2))
    words = ", ".join(
        f"{error.value:.4f} where staged has {staged[task]:.4f} (R {task[0]:g}, θ {task[1]:g}, π {task[2]:g})"
        for task, error in rows
    )
    verdict = worst(larger(b, a, len(pairs)) for a, b in pairs)
    return Judgement(verdict, "joint errors rise with the staged ones", words)


def measured_gain(tables: Tables) -> Judgement:
    """Joint training with decay beats staged training in simulation, where the gain exceeds the noise."""
    alpha = SIMULATED[0]
    runs = select(need(tables, "simulated", ["test_error"]), {"decay": DECAY, "alpha": alpha, "step": STEPS})
    found, best = limits_of(runs, "alpha", "test_error")[alpha], staged_best(tables)[alpha].value
    verdict = larger(ValueWithError(best, 0.0), found)
    return Judgement(verdict, f"below staged training's {best:.4f}", f"{found} at α = {alpha:g}, d → ∞")


def alike(tables: Tables) -> Judgement:
    """A random start, and mini-batches, end where one batch from zero does."""
    plain = ends(tables, "limit", decay=DECAY)
    points = [(name, a, end) for name in ("random_start", "batches") for a, end in ends(tables, name).items()]
    expected = "; ".join(f"{plain[a].value:.4f} (α = {a:g})" for a in sorted({a for _, a, _ in points}))
    words = "; ".join(f"{VARIANTS[name][0]} {end} (α = {a:g})" for name, a, end in points)
    verdict = worst(near(end, plain[a], ALIKE, len(points)) for _, a, end in points)
    return Judgement(verdict, f"within {ALIKE:g} of {expected}", words)


def variants_exact(tables: Tables) -> Judgement:
    """Random starts and mini-batches, simulated, against the exact dynamics after the last step."""

    def together(suffix: str) -> Any:
        parts = (need(tables, name + suffix, ["test_error"]).assign(variant=name) for name in VARIANTS)
        return select(pd.concat(parts, ignore_index=True), {"step": STEPS})

    simulated, theory = together("_simulated"), together("")
    return judge_agreement(simulated, theory, "test_error", ["variant", "alpha"], 0.03, "test_error_se")


def delayed(tables: Tables) -> Judgement:
    """A bias that starts on the wrong side is behind after the last step."""
    alpha = SIMULATED[0]
    plain, biased = (ends(tables, name)[alpha] for name in ("random_start", "biased_start"))
    verdict = larger(biased, plain._replace(value=plain.value + DELAYED))
    words = f"behind by {ValueWithError(biased.value - plain.value, (biased.error**2 + plain.error**2) ** 0.5)}"
    return Judgement(verdict, f"behind by more than {DELAYED:g} at α = {alpha:g}", words)


def draw(tables: Tables) -> list[Panel]:
    limit, simulated, staged = tables["limit"], tables["simulated"], staged_best(tables)
    bayes = tables["bayes"].set_index("alpha")["test_error"].sort_index()
    alpha, d = SIMULATED[0], int(simulated["d"].max())
    drawn = simulated[simulated["step"] % DRAWN == 0]
    steps: list[Layer] = []
    curves: list[Layer] = []
    for decay, shade in DECAYS.items():
        parts = (select(table, {"decay": decay, "alpha": alpha}) for table in (limit, drawn))
        steps += overlay(parts, "step", "test_error", f"joint, decay {decay:g}", shade)
        best = {a: error.value for a, (_, error) in best_steps(tables).items()}
        row = {a: error.value for a, error in ends(tables, "limit", decay=decay).items()} if decay else best
        name = f"joint, decay {decay:g}, {f'step {STEPS}' if decay else 'best step'}: theory"
        curves.append(Line(sorted(row), [row[a] for a in sorted(row)], name, shade))
    steps.append(level(staged[alpha].value, (0, STEPS), "staged", colour("attention")))
    steps.append(level(bayes[alpha], (0, STEPS), "Bayes limit", colour("bayes"), "dot"))
    last = select(simulated, {"decay": DECAY, "step": STEPS})
    curves += [
        spots(last, "alpha", "test_error", f"joint, decay {DECAY:g}, step {STEPS}", DECAYS[DECAY], limit=True),
        Line(list(staged), [s.value for s in staged.values()], "staged, best ridge", colour("attention"), "dash"),
        Line(bayes.index, bayes, "Bayes limit", colour("bayes"), "dot"),
    ]
    zero = (select(table, {"alpha": alpha, "decay": DECAY}) for table in (limit, drawn))
    ways = overlay(zero, "step", "test_error", "one batch from zero", OTHER_COLOURS[1])
    for name, (label, shade) in VARIANTS.items():
        parts = (select(tables[table], {"alpha": alpha}) for table in (name, f"{name}_simulated"))
        ways += overlay(parts, "step", "test_error", label, shade)
    step, error = "gradient step t", AXES["test_error"]
    return [
        Panel(f"Joint descent at α = {alpha:g} (points: d = {d})", step, error, steps, logy=True),
        Panel(f"Starts and mini-batches, decay {DECAY:g} (points: d = {d})", step, error, ways, logy=True),
        Panel("What it ends with", AXES["alpha"], error, curves, logx=True, logy=True),
    ]


def variant_ends(tables: Tables, name: str) -> dict[float, tuple[float, ValueWithError]]:
    """By α: the error of one of the `VARIANTS` after the last step, predicted, and simulated (d → ∞)."""
    runs = limits_of(select(tables[f"{name}_simulated"], {"step": STEPS}), "alpha", "test_error")
    return {a: (end.value, runs[a]) for a, end in ends(tables, name).items()}


def findings(tables: Tables) -> str:
    last, shares = ends(tables, "limit", decay=DECAY), gaps_left(tables)
    few, many = min(shares), max(shares)

    def ending(name: str, label: str) -> str:
        rows = variant_ends(tables, name).items()
        return "; ".join(f"{label} {theory:.4f} at α = {a:g} (simulated, d → ∞: {seen})" for a, (theory, seen) in rows)

    words = "; ".join((ending("random_start", "a random start of norms ½"), ending("batches", "two batches in turn")))
    return (
        "Joint descent without weight decay is worse than staged training at every α even at its best step, and overfits "
        f"after it. With decay {DECAY:g} on query and readout it is better at every α: its excess over the Bayes limit is "
        f"{shares[few]:.0%} of the staged one's at α = {few:g} and {shares[many]:.0%} at α = {many:g}. What counts is the "
        f"decay: {words}, against {last[SIMULATED[0]].value:.4f} and {last[SIMULATED[1]].value:.4f} (α = {SIMULATED[0]:g} and "
        f"{SIMULATED[1]:g}) for one batch from zero. A bias that starts on the wrong side costs steps: with b = {BIAS:g} at "
        f"the start, {ending('biased_start', f'the error after {STEPS} steps is')}. Staged training's theory does not tell "
        f"which tasks are hard for joint training: {same_order(tables).measured}."
    )


def headline(tables: Tables) -> str:
    shares, alpha = gaps_left(tables).values(), SIMULATED[0]
    start, batch, biased = (variant_ends(tables, name)[alpha] for name in VARIANTS)
    return (
        f"With weight decay {DECAY:g} joint descent beats staged training at every α and leaves {min(shares):.0%} to "
        f"{max(shares):.0%} of its distance to the Bayes limit; without decay it loses. A random start and two mini-batches "
        f"end where one batch from zero does ({start[0]:.4f} and {batch[0]:.4f} in theory at α = {alpha:g}, {start[1]} and "
        f"{batch[1]} simulated); a bias on the wrong side costs steps ({biased[0]:.4f}, {biased[1]}). Staged training does not "
        "tell which tasks are hard for it."
    )


joint = Study(
    name="joint",
    title="Joint training: everything at once, on all samples",
    question="Gradient descent on query, readout and bias together, with all n = αd samples in every step, from zero: where is "
    "it better than staged training, which spends half of the samples on two steps for the query and the other half on a "
    f"convex readout? (L = 10, R = 1, π = 0.5, θ = 5; rates 1, 1, ½ for {STEPS} steps.)",
    notes="Staged training has the best of the ridges listed in its table; joint descent has one decay for all α, chosen on "
    "the theory at α = 2.",
    grids={
        "quick": grids([200, 400], 16, [0.1, 0.3], [0.5, 1.0, 4.0], SIMULATED[:1], QUICK_BAGS, 18),
        "full": grids(
            *([500, 1000], 40, [0.03, 0.1, 0.3], [0.5, 1.0, 2.0, 4.0, 8.0], SIMULATED),
            *(FULL_BAGS, 24, FULL_REPLICATES),
        ),
    },
    draw=draw,
    findings=findings,
    headline=headline,
    claims=(
        exact(
            "joint-exact",
            "The trajectory theory gives the test error of joint training step by step",
            ["alpha", "decay", "step"],
            0.03,
            points=f"test error at steps {JUDGED[0]} and {JUDGED[1]}, with and without decay",
            criterion=steps_exact,
            **OPEN,
        ),
        Claim(
            "joint-overfits",
            "Joint training without weight decay overfits: its best step comes before the last",
            f"theory: the last step's error exceeds the least one at every α ≥ {OVERFITS_FROM:g} beyond the margin",
            overfits,
            **OPEN,
        ),
        Claim(
            "joint-undecayed-loses",
            "Without weight decay joint training loses against staged training even when it is stopped at its best step",
            "theory: least error over the steps above staged training's best of the ridges at every α, beyond the margin",
            against_staged(wins=False),
            **OPEN,
        ),
        Claim(
            "joint-wins",
            f"With weight decay {DECAY:g} joint training beats staged training on as many samples",
            "theory: error after the last step below staged training's best of the ridges at every α, beyond the margin",
            against_staged(wins=True),
            **OPEN,
        ),
        Claim(
            "joint-start-and-batches",
            "A random start and mini-batches visited in turn end where one batch from zero does",
            f"theory with decay {DECAY:g}, last step: errors within {ALIKE:g}, margin included",
            alike,
            **OPEN,
        ),
        exact(
            "joint-variants-exact",
            "The trajectory theory gives the test error of joint training from random starts and with mini-batches",
            ["variant", "alpha"],
            0.03,
            points="simulated test error after the last step",
            criterion=variants_exact,
            **OPEN,
        ),
        Claim(
            "joint-bias-start",
            "A bias that starts on the wrong side delays joint training",
            f"theory: error after the last step at α = {SIMULATED[0]:g} from a random start with bias {BIAS:g} exceeds that "
            f"with bias 0 by more than {DELAYED:g}, beyond the margin",
            delayed,
            **OPEN,
        ),
        Claim(
            "joint-nearer-bayes",
            f"Joint training with weight decay leaves at most {GAP_LEFT:.0%} of staged training's distance to the Bayes limit",
            "theory: excess of the last step over the Bayes limit against that of the best of the ridges at every α, beyond "
            "the margin",
            nearer,
            **OPEN,
        ),
        Claim(
            "joint-same-order",
            "The theory of staged training predicts which tasks have the larger error under joint training",
            f"theory, α = {ORDER_ALPHA:g}, {len(ORDER)} tasks: joint errors in the order of the staged ones, beyond the margin",
            same_order,
            **OPEN,
            expected="refuted",
        ),
        Claim(
            "joint-wins-simulated",
            "The gain of joint training is there in simulation",
            f"simulated error after the last step at α = {SIMULATED[0]:g}, extrapolated to d → ∞, below staged training's by "
            "more than the margin",
            measured_gain,
            **OPEN,
        ),
    ),
)

"""Query, readout and bias trained together, from several starts, against staged training on as many samples."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pandas as pd

from ...plotting.panels import Layer, Line, Panel, curve, level, overlay, spots
from ...plotting.style import AXES, OTHER_COLOURS, colour
from ...study.claims import Judgement, NotJudgeable, Tables, claim, need
from ...study.criteria import ValueWithError, limits_of, near, select, worst
from ...study.kinds.dynamics import REPLICATES
from ...study.study import Grid, sized
from . import BAGS, OPEN, STEPS, TASK_FIELDS, TASKS, TEN_TOKENS
from .claim_builders import exact, listed, ordered, pair, study, theory_of, with_alpha

DECAY = 0.2
FIXED = {**TEN_TOKENS, "steps": STEPS, "rates": {"q": 1.0, "w": 1.0, "bias": 0.5}}
DECAYS = {0.0: OTHER_COLOURS[2], DECAY: OTHER_COLOURS[1]}  # with their colours
SIMULATED = [1.0, 4.0]
# Other ways to the same place: table of the theory -> words; the runs are in `<table>_simulated`.
VARIANTS = {"random_start": "random start", "batches": "two batches", "biased_start": "random start, bias 0.5"}


def variant_grids(sizes: list[int], repeats: int, alphas: list[float], limit: dict[str, Any]) -> list[Grid]:
    """Theory and runs of all `VARIANTS`; their criteria were chosen on other seeds."""
    plain, start = [{"alpha": a} for a in alphas], {"q": 0.5, "w": 0.5}
    stage = {"steps": STEPS, "rates": FIXED["rates"], "decay": {"q": DECAY, "w": DECAY}, "data": ["first", "second"]}
    ways: dict[str, tuple[dict[str, Any], list[dict[str, Any]]]] = {
        "random_start": ({**FIXED, "start": start, "decay": DECAY}, plain),
        "batches": (TEN_TOKENS, [{"alpha": a, "stages": [{**stage, "alpha": a / 2}]} for a in alphas]),
        # At a negative bias negative bags are classified correctly, and training ends there.
        "biased_start": ({**FIXED, "start": {**start, "bias": 0.5}, "decay": DECAY}, plain),
    }
    made = []
    for name, (fixed, points) in ways.items():
        runs = {**fixed, "rows_at": list(range(0, STEPS + 1, 6))}
        drawn: dict[str, Any] = {"repeats": repeats, "first_seed": 2000}
        made.append(Grid(name, "trajectory", {**fixed, **limit}, points=points))
        made.append(Grid(f"{name}_simulated", "simulate_trajectory", runs, {"d": sizes}, points, **drawn))
    return made


@sized(
    quick=([200, 400], (16, 18), [0.1, 0.3], [0.5, 1.0, 4.0], SIMULATED[:1], BAGS["quick"]),
    full=([500, 1000], (40, 24), [0.03, 0.1, 0.3], [0.5, 1.0, 2.0, 4.0, 8.0], SIMULATED, BAGS["full"], 24),
)
def grids(
    sizes: list[int],
    repeats: tuple[int, int],
    ridges: list[float],
    alphas: list[float],
    others: list[float],
    bags: int,
    replicates: int = REPLICATES,
) -> list[Grid]:
    """Samples per dimension are `alphas`, those of the variants `others`; repeats are of one batch and of the variants."""
    seen = sorted({*range(0, STEPS + 1, 3), 20})
    # The default accuracy applies to every step; here only the last ones matter, and their error is a column.
    limit: dict[str, Any] = {"accuracy": 0.02, "bags": bags}
    # A number of samples (α = 2) that was not used to choose criteria.
    order = {**FIXED, **limit, "rows_at": [STEPS], "decay": DECAY, "alpha": 2.0}
    runs: dict[str, Any] = {"d": sizes, "decay": list(DECAYS), "alpha": SIMULATED}
    staged = [{"alpha0": a / 2, "alpha1": a / 2} for a in alphas]
    both = {"decay": list(DECAYS), "alpha": alphas}
    return [
        Grid("limit", "trajectory", {**FIXED, **limit, "replicates": replicates}, both),
        *variant_grids(sizes, repeats[1], others, {**limit, "rows_at": seen}),
        Grid("simulated", "simulate_trajectory", {**FIXED, "rows_at": seen}, runs, repeats=repeats[0]),
        Grid("staged", "forecast", TEN_TOKENS, {"ridge": ridges}, points=staged),
        Grid("bayes", "bayes_limit", TEN_TOKENS, {"alpha": alphas}),
        Grid("order", "trajectory", order, points=TASKS),
        Grid("order_staged", "forecast", {"alpha0": 1.0, "alpha1": 1.0}, {"ridge": ridges}, points=TASKS),
    ]


def ends(tables: Tables, name: str, by: str | list[str] = "alpha", **where: Any) -> dict[Any, ValueWithError]:
    """Predicted errors after the last step."""
    rows = select(need(tables, name, ["test_error", "step"]), {"step": STEPS, **where})
    return theory_of(rows, by)


def staged_best(tables: Tables) -> dict[float, ValueWithError]:
    """Staged training's least error over the ridges at each total α."""
    table = with_alpha(need(tables, "staged", ["test_error"]))
    best = table.sort_values("test_error").groupby("alpha", sort=True, as_index=False).first()
    return theory_of(best, "alpha", error="standard_error")


@exact("joint-exact", OPEN, ["alpha", "decay", "step"], error="test_error_se")
def steps_exact(tables: Tables) -> Any:
    """The trajectory theory gives the test error of joint training step by step.

    Test error at steps 20 and 30, with and without decay.
    """
    runs, theory = pair(tables, predicted="limit")
    # In the steep part single runs scatter widely, after it they do not.
    return runs[runs["step"].isin([20, STEPS])], theory


def best_steps(tables: Tables) -> dict[float, tuple[float, ValueWithError]]:
    """Without decay, by α: the best step, and its error."""
    plain = select(need(tables, "limit", ["test_error"]), {"decay": 0.0})
    rows = plain.loc[plain.groupby("alpha")["test_error"].idxmin()]
    errors = theory_of(rows, "alpha")
    return {a: (step, errors[a]) for a, step in zip(rows["alpha"], rows["step"])}


@claim("joint-overfits", OPEN)
def overfits(tables: Tables) -> Judgement:
    """Joint training without weight decay overfits: its best step comes before the last.

    Theory: the last step's error exceeds the least one at every α ≥ 1 beyond the margin (with fewer it hardly rises again).
    """
    last, found = ends(tables, "limit", decay=0.0), {a: best for a, best in best_steps(tables).items() if a >= 1}
    words = (
        f"{e.value:.3f} at step {t:.0f}, {last[a].value:.3f} at {STEPS} (α = {a:g})" for a, (t, e) in found.items()
    )
    return ordered([(last[a], e) for a, (_, e) in found.items()], "least before the last step", "; ".join(words))


@claim("joint-undecayed-loses", OPEN)
def undecayed_loses(tables: Tables) -> Judgement:
    """Without weight decay joint training loses against staged training even when it is stopped at its best step.

    Theory: least error over the steps above staged training's best of the ridges at every α, beyond the margin.
    """
    staged, joint = staged_best(tables), {a: error for a, (_, error) in best_steps(tables).items()}
    words = "; ".join(f"{joint[a].value:.4f} against {s.value:.4f} (α = {a:g})" for a, s in staged.items())
    return ordered([(joint[a], s) for a, s in staged.items()], "joint > staged", words)


def excesses(tables: Tables) -> dict[float, tuple[ValueWithError, ValueWithError]]:
    """Excess over the Bayes limit of joint descent with decay and of staged training, by α."""
    bayes = need(tables, "bayes", ["test_error"]).set_index("alpha")["test_error"]
    degrees, last = need(tables, "limit")["replicates"].min() - 1, ends(tables, "limit", decay=DECAY)

    def above(error: ValueWithError, a: float) -> ValueWithError:
        return ValueWithError(error.value - bayes[a], error.error, degrees)

    return {a: (above(last[a], a), above(s, a)) for a, s in staged_best(tables).items()}


def gaps_left(tables: Tables) -> dict[float, float]:
    return {a: joint.value / staged.value for a, (joint, staged) in excesses(tables).items()}


@claim("joint-nearer-bayes", OPEN)
def nearer(tables: Tables) -> Judgement:
    """With weight decay 0.2 joint training beats staged training on as many samples: it leaves at most 85 % of the distance to
    the Bayes limit.

    Theory: excess of the last step over the Bayes limit against that of the best of the ridges at every α, beyond the margin.
    """
    last, staged = ends(tables, "limit", decay=DECAY), staged_best(tables)
    errors = "; ".join(f"{last[a].value:.4f} against {s.value:.4f} (α = {a:g})" for a, s in staged.items())
    words = ", ".join(f"{share:.0%} (α = {a:g})" for a, share in gaps_left(tables).items())
    return ordered([(s.scaled(0.85), j) for j, s in excesses(tables).values()], "at most 85%", words, errors)


@claim("joint-same-order", OPEN, expected="refuted")
def same_order(tables: Tables) -> Judgement:
    """The theory of staged training predicts which tasks have the larger error under joint training.

    Theory, α = 2, four tasks: joint errors in the order of the staged ones, beyond the margin.
    """
    joint = ends(tables, "order", TASK_FIELDS)
    staged = need(tables, "order_staged", ["test_error"]).groupby(TASK_FIELDS)["test_error"].min().sort_values()
    rows = [(task, joint[task]) for task in staged.index if task in joint]
    if len(rows) < len(TASKS):
        raise NotJudgeable(f"errors of {len(rows)} tasks")
    pairs = [(b, a) for a, b in combinations([error for _, error in rows], 2)]
    words = ", ".join(
        f"{error.value:.4f} where staged has {staged[task]:.4f} (R = {task[0]:g}, θ = {task[1]:g}, π = {task[2]:g})"
        for task, error in rows
    )
    note = "staged training suffers from rare positives, joint training hardly: its bias is trained along"
    return ordered(pairs, "joint errors rise with the staged ones", words, note)


@claim("joint-wins-simulated", OPEN)
def measured_gain(tables: Tables) -> Judgement:
    """The gain of joint training is there in simulation.

    Simulated error after the last step at α = 1, extrapolated to d → ∞, below staged training's by more than the margin.
    """
    runs = select(need(tables, "simulated", ["test_error"]), {"decay": DECAY, "alpha": 1.0, "step": STEPS})
    found, best = limits_of(runs, "alpha", "test_error")[1.0], staged_best(tables)[1.0].value
    return ordered([(best, found)], f"below staged training's {best:.4f}", f"{found}")


@claim("joint-start-and-batches", OPEN)
def alike(tables: Tables) -> Judgement:
    """A random start and mini-batches visited in turn end where one batch from zero does.

    Theory with decay 0.2, last step: errors within 0.005, margin included.
    """
    plain = ends(tables, "limit", decay=DECAY)
    points = [(name, a, end) for name in ("random_start", "batches") for a, end in ends(tables, name).items()]
    words = "; ".join(f"{VARIANTS[name]} {end} (α = {a:g})" for name, a, end in points)
    verdict = worst(near(end, plain[a], 0.005, len(points)) for _, a, end in points)
    expected = listed({a: plain[a].value for a in sorted({a for _, a, _ in points})}, "α")
    return Judgement(verdict, f"within 0.005 of {expected}", words)


@exact("joint-variants-exact", OPEN, ["variant", "alpha"], error="test_error_se")
def variants_exact(tables: Tables) -> Any:
    """The trajectory theory gives the test error of joint training from random starts and with mini-batches.

    Simulated test error after the last step.
    """

    def together(suffix: str) -> Any:
        parts = (need(tables, name + suffix, ["test_error"]).assign(variant=name) for name in VARIANTS)
        return select(pd.concat(parts, ignore_index=True), {"step": STEPS})

    return together("_simulated"), together("")


@claim("joint-bias-start", OPEN)
def delayed(tables: Tables) -> Judgement:
    """A bias that starts on the wrong side delays joint training.

    Theory: error after the last step at α = 1 from a random start with bias 0.5 exceeds that with bias 0 by more than 0.005,
    beyond the margin.
    """
    plain, biased = (ends(tables, name)[1.0] for name in ("random_start", "biased_start"))
    behind = biased.minus(plain)
    return ordered([(behind, 0.005)], "behind by more than 0.005", f"behind by {behind}")


def draw(tables: Tables) -> list[Panel]:
    limit, simulated, staged = tables["limit"], tables["simulated"], staged_best(tables)
    bayes = tables["bayes"].set_index("alpha")["test_error"].sort_index()
    alpha, d = SIMULATED[0], int(simulated["d"].max())
    drawn = simulated[simulated["step"] % 3 == 0]
    steps: list[Layer] = []
    curves: list[Layer] = []
    for decay, shade in DECAYS.items():
        parts = (select(table, {"decay": decay, "alpha": alpha}) for table in (limit, drawn))
        steps += overlay(parts, "step", "test_error", f"joint, decay {decay:g}", shade)
        found = ends(tables, "limit", decay=decay) if decay else {a: e for a, (_, e) in best_steps(tables).items()}
        name = f"joint, decay {decay:g}, {f'step {STEPS}' if decay else 'best step'}: theory"
        curves.append(curve(found, name, shade))
    steps.append(level(staged[alpha].value, (0, STEPS), "staged", colour("attention")))
    steps.append(level(bayes[alpha], (0, STEPS), "Bayes limit", colour("bayes"), "dot"))
    last = select(simulated, {"decay": DECAY, "step": STEPS})
    curves += [
        spots(last, "alpha", "test_error", f"joint, decay {DECAY:g}, step {STEPS}", DECAYS[DECAY], limit=True),
        curve(staged, "staged, best ridge", colour("attention"), "dash"),
        Line(bayes.index, bayes, "Bayes limit", colour("bayes"), "dot"),
    ]
    zero = (select(table, {"alpha": alpha, "decay": DECAY}) for table in (limit, drawn))
    ways = overlay(zero, "step", "test_error", "one batch from zero", OTHER_COLOURS[1])
    for (name, label), shade in zip(VARIANTS.items(), (OTHER_COLOURS[0], OTHER_COLOURS[4], OTHER_COLOURS[3])):
        parts = (select(tables[table], {"alpha": alpha}) for table in (name, f"{name}_simulated"))
        ways += overlay(parts, "step", "test_error", label, shade)
    step, error = "gradient step t", AXES["test_error"]
    return [
        Panel(f"Joint descent at α = {alpha:g} (d = {d})", step, error, steps, logy=True),
        Panel(f"Starts and mini-batches, decay {DECAY:g} (d = {d})", step, error, ways, logy=True),
        Panel("What it ends with", AXES["alpha"], error, curves, logx=True, logy=True),
    ]


def variant_ends(tables: Tables, name: str) -> dict[float, tuple[float, ValueWithError]]:
    """By α: the error of one of the `VARIANTS` after the last step, predicted, and simulated (d → ∞)."""
    runs = limits_of(select(tables[f"{name}_simulated"], {"step": STEPS}), "alpha", "test_error")
    return {a: (end.value, runs[a]) for a, end in ends(tables, name).items()}


def findings(tables: Tables) -> str:
    shares = gaps_left(tables).values()
    start, batch, biased = (variant_ends(tables, name)[SIMULATED[0]] for name in VARIANTS)
    return (
        f"With weight decay {DECAY:g} joint descent beats staged training at every α and leaves {min(shares):.0%} to "
        f"{max(shares):.0%} of its distance to the Bayes limit; without decay it loses. A random start and two mini-batches "
        f"end where one batch from zero does ({start[0]:.4f} and {batch[0]:.4f} in theory at α = {SIMULATED[0]:g}, {start[1]} "
        f"and {batch[1]} simulated); a bias on the wrong side costs steps ({biased[0]:.4f}, {biased[1]}). Staged training does "
        "not predict which tasks are hard for it."
    )


joint = study(
    "joint",
    grids,
    draw,
    findings,
    (steps_exact, overfits, undecayed_loses, alike, variants_exact, delayed, nearer, same_order, measured_gain),
)

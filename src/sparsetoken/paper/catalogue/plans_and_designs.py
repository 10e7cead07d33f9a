"""What the planner advises and what `theory.design` finds, checked by simulation. The studies: `guidelines` and `designed`.

`designed.json` holds what ``theory.design(task, "attention", alpha, 30, stages=2 or 4)`` found for five tasks, up to its
stopping step, and the settings of staged training that ``planning.tuning.tune_attention(task, alpha, Criterion("error"))``
found, all rounded to four digits: searches take minutes, following what they found takes seconds.
"""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

import numpy as np

from ..._core.averages import extrapolate, summarise
from ...plotting.panels import Layer, Panel, Points
from ...plotting.style import AXES, OTHER_COLOURS, REFERENCE, colour
from ...study.claims import Judgement, Tables, claim, need
from ...study.criteria import ValueWithError, means_of
from ...study.study import Grid, sized
from . import BAGS, OPEN, OURS, STEPS, TEN_TOKENS, THEORY_DEGREES, Resolution
from .claim_builders import complete, decided, exact, listed, ordered, study, with_alpha

ALPHA = 4.0
# The criteria were chosen on strengths 5 and 3, prevalence 0.1 and length 100.
CASES: dict[str, dict[str, Any]] = {
    "plain": TEN_TOKENS,
    "weak": {**TEN_TOKENS, "strength": 3.5},
    "rare": {**TEN_TOKENS, "prevalence": 0.15},
    "long": {**TEN_TOKENS, "length": 60},
}
FIELDS = ("length", "strength", "prevalence")


@sized(quick=(400, 24, False), full=(1000, 40, True))
def guidelines_grids(d: int, trials: int, thorough: bool) -> list[Grid]:
    fixed = {"alpha": ALPHA, "d": d, "trials": trials, "thorough": thorough}
    return [Grid("planned", "planned", fixed, points=list(CASES.values()))]


def with_case(tables: Tables) -> Any:
    table = need(tables, "planned", ["planned_error"])
    keys = {tuple(float(case[f]) for f in FIELDS): name for name, case in CASES.items()}
    return table.assign(case=[keys[tuple(map(float, row))] for row in table[list(FIELDS)].to_numpy()])


def advice(tables: Tables) -> Any:
    """One row of settings per case."""
    return complete(with_case(tables).groupby("case").first(), list(CASES))


@exact("guidelines-hold", OURS, ["case"], Resolution.RELATIVE, error="expected_se", relative=True)
def hold(tables: Tables) -> Any:
    """Simulations of planned trainings have the error that the plan promises.

    Four cases at the plan's n and d.
    """
    table, expected = with_case(tables), advice(tables).reset_index()
    return table.assign(test_error=table["planned_error"]), expected.assign(test_error=expected["expected"])


@claim("guidelines-pay", OURS)
def pays(tables: Tables) -> Judgement:
    """Following the guidelines is better than one setting for all.

    Four cases: simulated error below that of the default settings on the same data sets, beyond the margin.
    """
    table = with_case(tables).assign(gain=lambda t: t["default_error"] - t["planned_error"])
    gains, means = means_of(table, "case", "gain"), table.groupby("case")[["planned_error", "default_error"]].mean()
    words = ", ".join(f"{means.loc[c, 'planned_error']:.3f} < {means.loc[c, 'default_error']:.3f} ({c})" for c in CASES)
    return ordered([(gain, 0.0) for gain in gains.values()], "planned < default", words)


@claim("guidelines-split", OURS)
def more_for_the_query(tables: Tables) -> Judgement:
    """Weak signals and long bags need more samples for the two steps.

    Planned share of the two steps larger than in the plain case by more than 0.1, in both.
    """
    share = advice(tables)["share"]
    least = min(float(share[case]) for case in ("weak", "long"))
    enough, words = share["plain"] + 0.1, listed({c: round(float(share[c]), 2) for c in CASES})
    return decided(least > enough, f"more than {enough:.2f}", words)


def draw_guidelines(tables: Tables) -> list[Panel]:
    rows, table = advice(tables), with_case(tables)
    place, names = np.arange(1, len(CASES) + 1, dtype=float), list(CASES)
    planned, default = (
        summarise(table, "case", f"{name}_error").set_index("case").loc[names] for name in ("planned", "default")
    )
    orange = colour("attention")
    errors: list[Layer] = [
        Points(place - 0.08, rows["expected"], rows["expected_se"], "planned: expected", orange, "diamond"),
        Points(place + 0.08, planned["mean"], planned["error"], "planned: simulated", orange),
        Points(place, default["mean"], default["error"], "default settings: simulated", REFERENCE, "square"),
    ]
    settings: list[Layer] = [
        Points(place, rows["share"], None, "share of the two steps", OTHER_COLOURS[0]),
        Points(place, rows["k"], None, "sharpness k", orange, "diamond"),
        Points(place, rows["planned_ridge"], None, "ridge λ", OTHER_COLOURS[1], "square"),
    ]
    label = "kind of task"
    return [
        Panel("What following the planner gives", label, AXES["test_error"], errors, logy=True, names=names),
        Panel("What it advises", label, "value", settings, logy=True, names=names),
    ]


def guidelines_findings(tables: Tables) -> str:
    rows, seen = advice(tables), means_of(with_case(tables), "case", "planned_error")
    words = "; ".join(
        f"{name}: α₀ = {row['share'] * ALPHA:.2f} of {ALPHA:g}, k = {row['k']:.1f}, "
        f"{'residuals centred' if np.isnan(row['planned_eta_b']) else 'plain steps'}, λ = "
        f"{row['planned_ridge']:.2g}: error expected {row['expected']:.3f}, simulated {seen[name]}"
        for name, (_, row) in zip(CASES, rows.iterrows())
    )
    return (
        "Hard tasks need more samples in the first stage: weak signals and long bags need more of them for the "
        f"two steps, and rare positives somewhat more once residuals are centred. {words}."
    )


guidelines = study(
    "guidelines", guidelines_grids, draw_guidelines, guidelines_findings, (hold, pays, more_for_the_query)
)


# The study `designed`.

TASK = ("length", "sparsity", "strength", "prevalence")
RARE = 2  # the place of the task with rare positives
STORED = json.loads((files(__package__) / "designed.json").read_text(encoding="utf-8"))


def designs() -> list[dict[str, Any]]:
    """The stored schedules as arguments of the kinds, each idle after its stopping step so that all have one length."""
    found = []
    for stored in STORED:
        stages = [{**stage, "alpha": stored["alpha"]} for stage in stored["stages"]]
        left = STEPS - sum(stage["steps"] for stage in stages)
        stages += [{"steps": left, "alpha": stored["alpha"]}] if left else []
        found.append({name: stored[name] for name in (*TASK, "alpha", "model")} | {"stages": stages})
    return found


DESIGNS = designs()


@sized(
    quick=([300, 900], 9, DESIGNS[:2], [500, 1000], BAGS["few"]),
    full=([1000, 3000], 24, [d for i, d in enumerate(DESIGNS) if i != RARE], [500, 1000], BAGS["full"]),
)
def designed_grids(
    sizes: list[int], repeats: int, simulated: list[dict[str, Any]], small: list[int], bags: int
) -> list[Grid]:
    tasks = [{name: design[name] for name in TASK} for design in DESIGNS]
    last = {"rows_at": [STEPS]}
    staged = [{**task, **stored["staged"]} for task, stored in zip(tasks, STORED, strict=True)]
    bayes = [{**task, "alpha": design["alpha"]} for task, design in zip(tasks, DESIGNS)]
    return [
        # Only the last step is read, with its standard error.
        Grid("limit", "trajectory", {**last, "accuracy": 0.05, "bags": bags}, points=DESIGNS),
        Grid("simulated", "simulate_trajectory", last, {"d": sizes}, points=simulated, repeats=repeats),
        Grid("small", "simulate_trajectory", last, {"d": small}, points=[DESIGNS[RARE]], repeats=24),
        Grid("staged", "forecast", points=staged),
        Grid("bayes", "bayes_limit", {}, points=bayes),
    ]


def with_task(tables: Tables, name: str) -> Any:
    table = need(tables, name, ["test_error"])
    alpha = (table if "alpha" in table else with_alpha(table))["alpha"]
    names = [
        f"L {length:g}, R {R:g}, θ {theta:g}, π {pi:g}, α {a:g}"
        for length, R, theta, pi, a in zip(*(table[column] for column in TASK), alpha)
    ]
    return table.assign(task=names)


def comparison(tables: Tables) -> Any:
    """One row per task: designed, staged (tuned), Bayes limit, message passing, with errors of the first two."""
    limit, staged, bayes = (with_task(tables, name).set_index("task") for name in ("limit", "staged", "bayes"))
    names = {"test_error": "designed", "test_error_se": "designed_se"}
    out = limit[list(names)].rename(columns=names)
    out["staged"], out["staged_se"] = staged["test_error"], staged["standard_error"]
    out["bayes"], out["reachable"] = bayes["test_error"], bayes["reachable_test_error"]
    return out.assign(share=(out["designed"] - out["bayes"]) / (out["staged"] - out["bayes"]))


@exact("designs-hold", OPEN, ["task"], Resolution.FINEST, error="test_error_se")
def designs_hold(tables: Tables) -> Any:
    """Simulations of designed schedules have the predicted error.

    Test error after the last step.
    """
    return with_task(tables, "simulated"), with_task(tables, "limit")


def excesses(tables: Tables) -> list[tuple[ValueWithError, ValueWithError]]:
    """Excess over the Bayes limit of staged and of designed training, by task."""
    return [
        (
            ValueWithError(row["staged"] - row["bayes"], row["staged_se"], THEORY_DEGREES),
            ValueWithError(row["designed"] - row["bayes"], row["designed_se"], THEORY_DEGREES),
        )
        for _, row in comparison(tables).iterrows()
    ]


@claim("designs-near-the-limit", OPEN)
def near_the_limit(tables: Tables) -> Judgement:
    """Designed joint training beats staged training on as many samples: it closes at least half of the gap to the Bayes limit.

    Theory: excess over the Bayes limit at most 50 % of staged training's at all five tasks, beyond the margin.
    """
    rows = comparison(tables)
    words = "; ".join(f"{share:.0%} ({task})" for task, share in rows["share"].items())
    errors = "; ".join(f"{r['designed']:.4f} < {r['staged']:.4f} ({task})" for task, r in rows.iterrows())
    return ordered(
        [(staged.scaled(0.5), designed) for staged, designed in excesses(tables)], "at most 50%", words, errors
    )


@claim("designs-need-size", OPEN)
def needs_size(tables: Tables) -> Judgement:
    """At rare positives a designed schedule needs far more dimensions than others to reach the predicted error.

    Mean simulated error of all runs at the d listed above the limit, beyond the margin.
    """
    runs, limit = with_task(tables, "small"), with_task(tables, "limit").set_index("task")
    ((task, together),) = means_of(runs, "task", "test_error").items()
    expected = ValueWithError(limit.loc[task, "test_error"], limit.loc[task, "test_error_se"])
    words = listed(dict(sorted(means_of(runs, "d", "test_error").items())), "d")
    return ordered([(together, expected)], f"above {expected.value:.4f}", words)


def draw_designed(tables: Tables) -> list[Panel]:
    rows = comparison(tables).reset_index()
    place = np.arange(1, len(rows) + 1)
    found = extrapolate(with_task(tables, "simulated"), ["task"], "test_error").set_index("task")
    seen = [i for i, task in enumerate(rows["task"]) if task in found.index]
    runs, shade = found.loc[[rows["task"][i] for i in seen]], OTHER_COLOURS[1]
    layers: list[Layer] = [
        Points(place, rows["staged"], rows["staged_se"], "staged, tuned: theory", colour("attention"), "square"),
        Points(place, rows["designed"], rows["designed_se"], "designed joint attention: theory", shade, "diamond"),
        Points(place[seen] + 0.12, runs["limit"], runs["error"], "the same, simulated, d → ∞", shade),
        Points(place, rows["bayes"], None, "Bayes limit", colour("bayes"), "x"),
    ]
    names = [task.replace(" ", "\N{NO-BREAK SPACE}").replace(",\N{NO-BREAK SPACE}", ", ") for task in rows["task"]]
    return [Panel("Training designed by theory", "task", AXES["test_error"], layers, logy=True, names=names)]


def designed_findings(tables: Tables) -> str:
    rows = comparison(tables)
    hard = (rows["reachable"] - rows["bayes"] > 1e-3).any()
    return (
        "Joint attention with schedules found by differentiating the theory comes within "
        f"{(rows['designed'] - rows['bayes']).max():.3f} of the Bayes limit at {len(rows)} tasks; its excess over that limit "
        f"is {rows['share'].min():.0%} to {rows['share'].max():.0%} of staged training's. Message passing "
        f"{'falls short at some' if hard else 'reaches the limit at all of them'}. At rare positives (task {RARE + 1}) the "
        f"schedule depends on a bias that few positive bags do not determine: {needs_size(tables).measured}, and "
        f"{rows['designed'].iloc[RARE]:.4f} in the limit."
    )


designed = study(
    "designed", designed_grids, draw_designed, designed_findings, (designs_hold, needs_size, near_the_limit)
)

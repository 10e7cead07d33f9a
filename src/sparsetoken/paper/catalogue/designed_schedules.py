"""Schedules that `theory.design` found for five tasks, checked by simulation. The study: `designed`.

`designed.json` holds what ``theory.design(task, "attention", alpha, 30, stages=2 or 4)`` found, up to its stopping step, and
the settings of staged training that ``planning.tuning.tune_attention(task, alpha, Criterion("error"))`` found, all rounded
to four digits: searches take minutes, following what they found takes seconds.
"""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

import numpy as np

from ..._core.averages import extrapolate
from ...plotting.panels import Layer, Panel, Points
from ...plotting.style import OTHER_COLOURS, colour
from ...study.claims import Judgement, Tables, claim, need
from ...study.criteria import ValueWithError, judge_agreement, means_of
from ...study.study import Grid, Study
from .common import AXES, FEW_BAGS, FULL_BAGS, OPEN, THEORY_DEGREES, listed, ordered

STEPS = 30
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


def grids(sizes: list[int], repeats: int, simulated: list[dict[str, Any]], small: list[int], bags: int) -> list[Grid]:
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


def named(tables: Tables, name: str) -> Any:
    """The table with a column `task` that names the task in short."""
    table = need(tables, name, ["test_error"])
    alpha = table["alpha"] if "alpha" in table else table["alpha0"] + table["alpha1"]
    names = [
        f"L {length:g}, R {R:g}, θ {theta:g}, π {pi:g}, α {a:g}"
        for length, R, theta, pi, a in zip(*(table[column] for column in TASK), alpha)
    ]
    return table.assign(task=names)


def comparison(tables: Tables) -> Any:
    """One row per task: designed, staged (tuned), Bayes limit, message passing, with errors of the first two."""
    limit, staged, bayes = (named(tables, name).set_index("task") for name in ("limit", "staged", "bayes"))
    names = {"test_error": "designed", "test_error_se": "designed_se"}
    out = limit[list(names)].rename(columns=names)
    out["staged"], out["staged_se"] = staged["test_error"], staged["standard_error"]
    out["bayes"], out["reachable"] = bayes["test_error"], bayes["reachable_test_error"]
    return out.assign(share=(out["designed"] - out["bayes"]) / (out["staged"] - out["bayes"]))


@claim("designs-hold", OPEN)
def designs_hold(tables: Tables) -> Judgement:
    """Designed schedules do in simulation what the theory says.

    Test error after the last step, extrapolated to d → ∞, within the margin at level 0.1 %; resolution 0.02.
    """
    simulated, limit = named(tables, "simulated"), named(tables, "limit")
    return judge_agreement(simulated, limit, "test_error", ["task"], 0.02, "test_error_se")


def excesses(tables: Tables) -> list[tuple[ValueWithError, ValueWithError]]:
    """Excess over the Bayes limit of staged and of designed training, by task."""
    return [
        (
            ValueWithError(row["staged"] - row["bayes"], row["staged_se"], THEORY_DEGREES),
            ValueWithError(row["designed"] - row["bayes"], row["designed_se"], THEORY_DEGREES),
        )
        for _, row in comparison(tables).iterrows()
    ]


@claim("designs-beat-staged", OPEN)
def beats_staged(tables: Tables) -> Judgement:
    """Designed joint training beats staged training on as many samples.

    Theory: below tuned staged training at all five tasks, beyond the margin.
    """
    rows = comparison(tables).iterrows()
    words = "; ".join(f"{r['designed']:.4f} < {r['staged']:.4f} ({task})" for task, r in rows)
    return ordered(excesses(tables), "designed below staged", words)


@claim("designs-near-the-limit", OPEN)
def near_the_limit(tables: Tables) -> Judgement:
    """Designed joint training closes at least half of the gap between staged training and the Bayes limit.

    Theory: excess over the Bayes limit at most 50 % of staged training's at all five tasks, beyond the margin.
    """
    words = "; ".join(f"{share:.0%} ({task})" for task, share in comparison(tables)["share"].items())
    return ordered([(staged.scaled(0.5), designed) for staged, designed in excesses(tables)], "at most 50%", words)


@claim("designs-need-size", OPEN)
def needs_size(tables: Tables) -> Judgement:
    """At rare positives a designed schedule needs far more dimensions than others to do what the theory says.

    Mean simulated error of all runs at the d listed above the limit, beyond the margin.
    """
    runs, limit = named(tables, "small"), named(tables, "limit").set_index("task")
    ((task, together),) = means_of(runs, "task", "test_error").items()
    expected = ValueWithError(limit.loc[task, "test_error"], limit.loc[task, "test_error_se"])
    words = listed(dict(sorted(means_of(runs, "d", "test_error").items())), "d")
    return ordered([(together, expected)], f"above {expected.value:.4f}", words)


def draw(tables: Tables) -> list[Panel]:
    rows = comparison(tables).reset_index()
    place = np.arange(1, len(rows) + 1)
    found = extrapolate(named(tables, "simulated"), ["task"], "test_error").set_index("task")
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


def findings(tables: Tables) -> str:
    rows = comparison(tables)
    hard = (rows["reachable"] - rows["bayes"] > 1e-3).any()
    return (
        "Joint attention with schedules found by differentiating the theory comes within "
        f"{(rows['designed'] - rows['bayes']).max():.3f} of the Bayes limit at {len(rows)} tasks; its excess over that limit "
        f"is {rows['share'].min():.0%} to {rows['share'].max():.0%} of staged training's. Message passing "
        f"{'falls short at some' if hard else 'reaches the limit at all of them'}. At rare positives (task {RARE + 1}) the "
        f"schedule rests on a bias that few positive bags do not determine: {needs_size(tables).measured}, and "
        f"{rows['designed'].iloc[RARE]:.4f} in the limit."
    )


designed = Study(
    name="designed",
    title="Training designed by theory",
    question="The exact dynamics can be differentiated with respect to every rate, decay, the momentum and the sharpness. How "
    "close to the Bayes limit does joint attention come with schedules found so, in at most 30 steps, and do they hold at "
    "finite d?",
    notes="The schedules, and staged training's split, rates and ridge, were found once by theory.design and the planner and "
    "are stored; here they are followed.",
    grids={
        "quick": grids([300, 900], 9, DESIGNS[:2], [500, 1000], FEW_BAGS),
        "full": grids([1000, 3000], 24, [d for i, d in enumerate(DESIGNS) if i != RARE], [500, 1000], FULL_BAGS),
    },
    draw=draw,
    findings=findings,
    claims=(
        designs_hold,
        needs_size,
        beats_staged,
        near_the_limit,
    ),
)

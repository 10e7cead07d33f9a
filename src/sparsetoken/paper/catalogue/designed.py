"""Schedules that `theory.design` found for five tasks, confirmed by simulation.

`designed.json` holds what ``theory.design(task, "attention", alpha, 30, stages=2 or 4)`` found, up to its stopping step, and
the settings of staged training that ``planning.tuning.tune_attention(task, alpha, Criterion("error"))`` found, all rounded
to four digits: searches take minutes, following what they found takes seconds.
"""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

import numpy as np

from ..._core.averages import extrapolate, summarise
from ...plotting.panels import Layer, Panel, Points
from ...plotting.style import OTHER_COLOURS, colour
from ...study.claims import Claim, Judgement, Tables, format_value, greater_verdict, need, quantile, worst
from ...study.criteria import judge_agreement
from ...study.specification import Grid, Study
from .common import AXES, FEW_BAGS, FULL_BAGS, OPEN, THEORY_DEGREES

STEPS = 30
TASK = ("length", "sparsity", "strength", "prevalence")
RARE = 2  # the place of the task with rare positives
SMALL_REPEATS = 24
LOOSE = 0.05  # only the last step is read, with its standard error
# A designed schedule's excess over the Bayes limit, as a share of staged training's: at most this much.
SHARE = 0.5


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
    alphas = [design["alpha"] for design in DESIGNS]
    staged = [{**task, **stored["staged"]} for task, stored in zip(tasks, STORED, strict=True)]
    return [
        Grid("limit", "trajectory", {**last, "accuracy": LOOSE, "bags": bags}, points=DESIGNS),
        Grid("simulated", "simulate_trajectory", last, {"d": sizes}, points=simulated, repeats=repeats),
        Grid("small", "simulate_trajectory", last, {"d": small}, points=[DESIGNS[RARE]], repeats=SMALL_REPEATS),
        Grid("staged", "forecast", points=staged),
        Grid("bayes", "bayes_limit", {}, points=[{**task, "alpha": a} for task, a in zip(tasks, alphas)]),
    ]


def _key(table: Any) -> Any:
    """The table with a column `task` that names the task in short."""
    alpha = table["alpha"] if "alpha" in table else table["alpha0"] + table["alpha1"]
    names = [
        f"L {length:g}, R {R:g}, θ {theta:g}, π {pi:g}, α {a:g}"
        for length, R, theta, pi, a in zip(*(table[name] for name in TASK), alpha)
    ]
    return table.assign(task=names)


def _last(tables: Tables, name: str) -> Any:
    table = _key(need(tables, name, ["test_error", "step"]))
    return table[table["step"] == STEPS]


def comparison(tables: Tables) -> Any:
    """One row per task: designed, staged (tuned), Bayes limit, message passing, with errors of the first two."""
    limit = _last(tables, "limit").set_index("task")
    staged = _key(need(tables, "staged", ["test_error"])).set_index("task")
    bayes = _key(need(tables, "bayes", ["test_error"])).set_index("task")
    out = limit[["test_error", "test_error_se"]].rename(
        columns={"test_error": "designed", "test_error_se": "designed_se"}
    )
    out["staged"], out["staged_se"] = staged["test_error"], staged["standard_error"]
    out["bayes"], out["reachable"] = bayes["test_error"], bayes["reachable_test_error"]
    return out


def exact(tables: Tables) -> Judgement:
    simulated, limit = _last(tables, "simulated"), _last(tables, "limit")
    limit = limit[limit["task"].isin(simulated["task"])]
    return judge_agreement(simulated, limit, "test_error", ["task"], 0.02, "test_error_se")


def beats_staged(tables: Tables) -> Judgement:
    rows = comparison(tables)
    margin = float(quantile(len(rows), THEORY_DEGREES)) * np.hypot(rows["designed_se"], rows["staged_se"])
    verdicts = [greater_verdict(float(g), float(m)) for g, m in zip(rows["staged"] - rows["designed"], margin)]
    words = "; ".join(f"{r['designed']:.4f} < {r['staged']:.4f} ({task})" for task, r in rows.iterrows())
    return Judgement(worst(verdicts), "designed below staged", words)


def near_the_limit(tables: Tables) -> Judgement:
    """The excess over the Bayes limit is at most half of staged training's."""
    rows = comparison(tables)
    gap = SHARE * (rows["staged"] - rows["bayes"]) - (rows["designed"] - rows["bayes"])
    margin = float(quantile(len(rows), THEORY_DEGREES)) * np.hypot(rows["designed_se"], SHARE * rows["staged_se"])
    shares = (rows["designed"] - rows["bayes"]) / (rows["staged"] - rows["bayes"])
    words = "; ".join(f"{share:.0%} ({task})" for task, share in shares.items())
    return Judgement(
        worst(greater_verdict(float(g), float(m)) for g, m in zip(gap, margin)), f"at most {SHARE:.0%}", words
    )


def needs_size(tables: Tables) -> Judgement:
    """At rare positives and moderate d the schedule is far from its limit: all runs together."""
    runs, limit = _last(tables, "small"), _last(tables, "limit").set_index("task")
    together = summarise(runs, ["task"], "test_error").iloc[0]
    expected = limit.loc[together["task"]]
    margin = float(quantile(1, together["count"] - 1)) * float(np.hypot(together["error"], expected["test_error_se"]))
    means = summarise(runs, ["d"], "test_error").sort_values("d")
    words = ", ".join(f"{format_value(row['mean'], row['error'])} at d = {row['d']:g}" for _, row in means.iterrows())
    excess = float(together["mean"] - expected["test_error"])
    return Judgement(greater_verdict(excess, margin), f"above {expected['test_error']:.4f}", words)


def draw(tables: Tables) -> list[Panel]:
    rows = comparison(tables).reset_index()
    place = np.arange(1, len(rows) + 1)
    found = extrapolate(_last(tables, "simulated"), ["task"], "test_error").set_index("task")
    seen = [i for i, task in enumerate(rows["task"]) if task in found.index]
    measured = found.loc[[rows["task"][i] for i in seen]]
    layers: list[Layer] = [
        Points(place, rows["staged"], rows["staged_se"], "staged, tuned: theory", colour("attention"), "square"),
        Points(
            place,
            rows["designed"],
            rows["designed_se"],
            "designed joint attention: theory",
            OTHER_COLOURS[1],
            "diamond",
        ),
        Points(
            place[seen] + 0.12, measured["limit"], measured["error"], "the same, simulated, d → ∞", OTHER_COLOURS[1]
        ),
        Points(place, rows["bayes"], None, "Bayes limit", colour("bayes"), "x"),
    ]
    names = [task.replace(" ", "\N{NO-BREAK SPACE}").replace(",\N{NO-BREAK SPACE}", ", ") for task in rows["task"]]
    return [Panel("Training designed by theory", "task", AXES["test_error"], layers, logy=True, names=names)]


def findings(tables: Tables) -> str:
    rows = comparison(tables)
    words = "; ".join(
        f"{i}. {task}: {format_value(r['designed'], r['designed_se'])}, staged {r['staged']:.4f}, Bayes limit {r['bayes']:.4f}"
        for i, (task, r) in enumerate(rows.iterrows(), 1)
    )
    shares = (rows["designed"] - rows["bayes"]) / (rows["staged"] - rows["bayes"])
    hard = rows["reachable"] - rows["bayes"] > 1e-3
    passing = (
        "Message passing reaches the limit at all of them."
        if not hard.any()
        else "Message passing falls short at some."
    )
    return (
        f"Joint attention with schedules found by differentiating the theory: {words}. Their excess over the Bayes limit is "
        f"{shares.min():.0%} to {shares.max():.0%} of staged training's. {passing} Simulations agree where the "
        f"classes are balanced; at rare positives (task {RARE + 1}) the schedule rests on a bias that few positive bags do not "
        f"determine: {needs_size(tables).measured}, and {rows['designed'].iloc[RARE]:.4f} in the limit."
    )


def headline(tables: Tables) -> str:
    rows = comparison(tables)
    shares = (rows["designed"] - rows["bayes"]) / (rows["staged"] - rows["bayes"])
    return (
        "Joint attention with schedules found by differentiating the theory comes within "
        f"{(rows['designed'] - rows['bayes']).max():.3f} of the Bayes limit at {len(rows)} tasks; its excess over that limit "
        f"is {shares.min():.0%} to {shares.max():.0%} of staged training's."
    )


study = Study(
    name="designed",
    title="Training designed by theory",
    question="The exact dynamics can be differentiated with respect to every rate, decay, the momentum and the "
    "sharpness. How close "
    "to the Bayes limit does joint attention come with schedules found so, in at most 30 steps, and do they hold at finite d?",
    notes="The schedules, and staged training's split, rates and ridge, were found once by theory.design and the "
    "planner and are stored; here they are followed.",
    grids={
        "quick": grids([300, 900], 9, DESIGNS[:2], [500, 1000], FEW_BAGS),
        "full": grids([1000, 3000], 24, [d for i, d in enumerate(DESIGNS) if i != RARE], [500, 1000], FULL_BAGS),
    },
    draw=draw,
    findings=findings,
    headline=headline,
    claims=(
        Claim(
            "designs-hold",
            "Designed schedules do in simulation what the theory says",
            OPEN,
            "test error after the last step, extrapolated to d → ∞, within the margin at level 0.1 %; resolution 0.02",
            exact,
        ),
        Claim(
            "designs-need-size",
            "At rare positives a designed schedule needs far more dimensions than others to do what the theory says",
            OPEN,
            "mean simulated error of all runs at the d listed above the limit, beyond the margin",
            needs_size,
        ),
        Claim(
            "designs-beat-staged",
            "Designed joint training beats staged training on as many samples",
            OPEN,
            "theory: below tuned staged training at all five tasks, beyond the margin",
            beats_staged,
        ),
        Claim(
            "designs-near-the-limit",
            "Designed joint training closes at least half of the gap between staged training and the Bayes limit",
            OPEN,
            f"theory: excess over the Bayes limit at most {SHARE:.0%} of staged training's at all five tasks, beyond "
            "the margin",
            near_the_limit,
        ),
    ),
)

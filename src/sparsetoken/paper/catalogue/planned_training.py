"""What the planner advises for weak, rare and long, checked by simulation. The study: `guidelines`."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._core.averages import summarise
from ...plotting.panels import Layer, Panel, Points
from ...plotting.style import OTHER_COLOURS, colour
from ...study.claims import Judgement, NotJudgeable, Tables, claim, need
from ...study.criteria import judge_agreement, means_of
from ...study.study import Grid, Study
from .common import AXES, OURS, TEN_TOKENS, listed, ordered

ALPHA = 4.0
# The criteria were chosen on strengths 5 and 3, prevalence 0.1 and length 100.
CASES: dict[str, dict[str, Any]] = {
    "plain": TEN_TOKENS,
    "weak": {**TEN_TOKENS, "strength": 3.5},
    "rare": {**TEN_TOKENS, "prevalence": 0.15},
    "long": {**TEN_TOKENS, "length": 60},
}
FIELDS = ("length", "strength", "prevalence")


def grids(d: int, trials: int, thorough: bool) -> list[Grid]:
    fixed = {"alpha": ALPHA, "d": d, "trials": trials, "thorough": thorough}
    return [Grid("planned", "planned", fixed, points=list(CASES.values()))]


def named(tables: Tables) -> Any:
    """The table with a column `case`."""
    table = need(tables, "planned", ["planned_error"])
    keys = {tuple(float(case[f]) for f in FIELDS): name for name, case in CASES.items()}
    return table.assign(case=[keys[tuple(map(float, row))] for row in table[list(FIELDS)].to_numpy()])


def advice(tables: Tables) -> Any:
    """One row of settings per case."""
    rows = named(tables).groupby("case").first()
    missing = [name for name in CASES if name not in rows.index]
    if missing:
        raise NotJudgeable(f"no plan for {', '.join(missing)}")
    return rows.loc[list(CASES)]


@claim("guidelines-hold", OURS)
def hold(tables: Tables) -> Judgement:
    """Simulations of planned trainings have the error that the plan promises.

    Four cases at the plan's n and d, within the margin at level 0.1 %; resolution 40 % of the error.
    """
    table = named(tables).assign(test_error=lambda t: t["planned_error"])
    expected = advice(tables).reset_index().assign(test_error=lambda t: t["expected"])
    return judge_agreement(table, expected, "test_error", ["case"], 0.4, "expected_se", relative=True)


@claim("guidelines-pay", OURS)
def pays(tables: Tables) -> Judgement:
    """Following the guidelines is better than one setting for all.

    Four cases: simulated error below that of the default settings on the same data sets, beyond the margin.
    """
    table = named(tables).assign(gain=lambda t: t["default_error"] - t["planned_error"])
    gains, means = means_of(table, "case", "gain"), table.groupby("case")[["planned_error", "default_error"]].mean()
    words = ", ".join(f"{means.loc[c, 'planned_error']:.3f} < {means.loc[c, 'default_error']:.3f} ({c})" for c in CASES)
    return ordered([(gain, 0.0) for gain in gains.values()], "planned < default", words)


@claim("guidelines-split", OURS)
def more_for_the_query(tables: Tables) -> Judgement:
    """Weak signals and long bags want more samples for the two steps.

    Planned share of the two steps larger than in the plain case by more than 0.1, in both.
    """
    share = advice(tables)["share"]
    least = min(float(share[case]) for case in ("weak", "long"))
    verdict = "confirmed" if least > share["plain"] + 0.1 else "refuted"
    return Judgement(
        verdict, f"more than {share['plain'] + 0.1:.2f}", listed({c: round(float(share[c]), 2) for c in CASES})
    )


def draw(tables: Tables) -> list[Panel]:
    rows, table = advice(tables), named(tables)
    place, names = np.arange(1, len(CASES) + 1, dtype=float), list(CASES)
    planned, default = (
        summarise(table, "case", f"{name}_error").set_index("case").loc[names] for name in ("planned", "default")
    )
    orange, grey = colour("attention"), "#777777"
    errors: list[Layer] = [
        Points(place - 0.08, rows["expected"], rows["expected_se"], "planned: expected", orange, "diamond"),
        Points(place + 0.08, planned["mean"], planned["error"], "planned: simulated", orange),
        Points(place, default["mean"], default["error"], "default settings: simulated", grey, "square"),
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


def findings(tables: Tables) -> str:
    rows, seen = advice(tables), means_of(named(tables), "case", "planned_error")
    words = "; ".join(
        f"{name}: α₀ = {row['share'] * ALPHA:.2f} of {ALPHA:g}, k = {row['k']:.1f}, "
        f"{'residuals centred' if np.isnan(row['planned_eta_b']) else 'plain steps'}, λ = "
        f"{row['planned_ridge']:.2g}: error expected {row['expected']:.3f}, simulated {seen[name]}"
        for name, (_, row) in zip(CASES, rows.iterrows())
    )
    return (
        "What makes a task hard is paid for in the first stage: weak signals and long bags want more of the samples for the "
        f"two steps, and rare positives somewhat more once residuals are centred. {words}."
    )


guidelines = Study(
    name="guidelines",
    title="Guidelines: weak, rare, long",
    question=f"With α = {ALPHA:g} samples per dimension in all: which split of the samples, learning rates, sharpness and "
    "ridge does the planner advise when the signal is weak, positives are rare or bags are long, and do its promises hold in "
    "simulation?",
    notes="Settings are chosen by the planner at the given n and d without any simulation; β = 1, so that k = ‖q₂‖.",
    grids={"quick": grids(400, 24, False), "full": grids(1000, 40, True)},
    draw=draw,
    findings=findings,
    claims=(hold, pays, more_for_the_query),
)

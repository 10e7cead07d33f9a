"""Joint training on other ways: from random starts, with mini-batches, with a bias that starts on the wrong side."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from ..._core.averages import extrapolate, summarise
from ...plotting.panels import Layer, Line, Panel, Points
from ...plotting.style import OTHER_COLOURS
from ...study.claims import (
    Claim,
    Judgement,
    Tables,
    format_value,
    greater_verdict,
    need,
    quantile,
    within_verdict,
    worst,
)
from ...study.criteria import judge_agreement, select
from ...study.specification import Grid
from .common import AXES, OPEN, TEN_TOKENS, THEORY_DEGREES

# What all ways share with one batch from zero, the study `joint`.
STEPS = 30
FIXED = {**TEN_TOKENS, "steps": STEPS, "rates": {"q": 1.0, "w": 1.0, "bias": 0.5}}
DECAY = 0.2
SIMULATED = [1.0, 4.0]
# Where simulation meets theory: in the steep part single runs scatter by a factor, and after it they settle.
JUDGED = [20, STEPS]
DRAWN = 3  # every third step of the runs is drawn
SEEN = sorted({*range(0, STEPS + 1, DRAWN), *JUDGED})
# The trajectory's default accuracy is meant for every step; here the last ones matter, and their error is a column.
LOOSE = 0.02
ALIKE = 0.005  # how far a random start or mini-batches may move the error; chosen on the theory at alpha = 4
START = {"q": 0.5, "w": 0.5}
BIAS = 0.5  # of the start on the wrong side: negative bags are right at a negative bias, and training ends there
# Other ways to the same place, by the names of their tables; the runs' tables are called after them.
VARIANTS = {
    "random_start": "random start",
    "batches": "two batches",
    "biased_start": f"random start, bias {BIAS:g}",
}
VARIANT_COLOURS = dict(zip(VARIANTS, (OTHER_COLOURS[0], OTHER_COLOURS[4], OTHER_COLOURS[3])))
VARIANT_RESOLUTION = 0.03
DELAYED = (
    0.005  # by how much a bias on the wrong side is behind after the last step; from runs on other seeds at d = 300
)
FIRST_SEED = 2000  # of the variants; what is asked of them was settled on others


def batches(alpha: float) -> dict[str, Any]:
    """The same samples as two mini-batches visited in turn."""
    stage = {"steps": STEPS, "alpha": alpha / 2, "rates": FIXED["rates"], "decay": {"q": DECAY, "w": DECAY}}
    return {"alpha": alpha, "stages": [{**stage, "data": ["first", "second"]}]}


def run_table(variant: str) -> str:
    """The table of the simulated runs of one of the `VARIANTS`."""
    return f"{variant}_simulated"


def variant_grids(sizes: list[int], repeats: int, alphas: list[float], bags: int) -> list[Grid]:
    """Theory and runs of all `VARIANTS`: simulated dimensions and their repeats, samples per dimension, bags per replicate of
    the theory."""
    # Each way as fixed arguments, axes and points, the same for theory and runs.
    ways: dict[str, tuple[dict[str, Any], dict[str, Any], list[dict[str, Any]]]] = {
        "random_start": ({**FIXED, "start": START, "decay": DECAY}, {"alpha": alphas}, [{}]),
        "batches": (TEN_TOKENS, {}, [batches(a) for a in alphas]),
        "biased_start": ({**FIXED, "start": {**START, "bias": BIAS}, "decay": DECAY}, {"alpha": alphas}, [{}]),
    }
    exact = {"accuracy": LOOSE, "bags": bags, "rows_at": SEEN}
    few = {"rows_at": list(range(0, STEPS + 1, 2 * DRAWN))}
    both: dict[str, Any] = {"repeats": repeats, "first_seed": FIRST_SEED}
    return [
        grid
        for name, (fixed, axes, points) in ways.items()
        for grid in (
            Grid(name, "trajectory", {**fixed, **exact}, axes, points),
            Grid(run_table(name), "simulate_trajectory", {**fixed, **few}, {"d": sizes, **axes}, points, **both),
        )
    ]


def alike(tables: Tables) -> Judgement:
    """A random start, and mini-batches, end where one batch from zero does."""
    plain = select(need(tables, "limit", ["test_error"]), {"decay": DECAY, "step": STEPS}).set_index("alpha")
    others = {name: select(need(tables, name, ["test_error"]), {"step": STEPS}) for name in ("random_start", "batches")}
    points = [(name, row) for name, rows in others.items() for _, row in rows.iterrows()]
    verdicts, words = [], []
    for name, row in points:
        one = plain.loc[row["alpha"]]
        error = float(np.hypot(row["test_error_se"], one["test_error_se"]))
        margin = float(quantile(len(points), THEORY_DEGREES)) * error
        verdicts.append(within_verdict(float(row["test_error"] - one["test_error"]), margin, ALIKE))
        words.append(f"{VARIANTS[name]} {format_value(row['test_error'], row['test_error_se'])} (α = {row['alpha']:g})")
    expected = "; ".join(
        f"{plain.loc[a, 'test_error']:.4f} (α = {a:g})" for a in sorted({r["alpha"] for _, r in points})
    )
    return Judgement(worst(verdicts), f"within {ALIKE:g} of {expected}", "; ".join(words))


def variants_exact(tables: Tables) -> Judgement:
    """Random starts and mini-batches, simulated, against the exact dynamics after the last step."""

    def together(names: dict[str, str]) -> Any:
        parts = [need(tables, table, ["test_error"]).assign(variant=label) for table, label in names.items()]
        return select(pd.concat(parts, ignore_index=True), {"step": STEPS})

    simulated = together({run_table(name): label for name, label in VARIANTS.items()})
    on = ["variant", "alpha"]
    return judge_agreement(simulated, together(VARIANTS), "test_error", on, VARIANT_RESOLUTION, "test_error_se")


def delayed(tables: Tables) -> Judgement:
    """A bias that starts on the wrong side is behind after the last step."""
    alpha = SIMULATED[0]
    one, other = (
        select(need(tables, name, ["test_error"]), {"alpha": alpha, "step": STEPS}).iloc[0]
        for name in ("random_start", "biased_start")
    )
    error = float(np.hypot(one["test_error_se"], other["test_error_se"]))
    behind = float(other["test_error"] - one["test_error"])
    return Judgement(
        greater_verdict(behind - DELAYED, float(quantile(1, THEORY_DEGREES)) * error),
        f"behind by more than {DELAYED:g} at α = {alpha:g}",
        f"behind by {format_value(behind, error)}",
    )


def variant_ends(tables: Tables, name: str) -> dict[float, tuple[float, float, float]]:
    """By α: the error of one of the `VARIANTS` after the last step, predicted, and simulated (d → ∞) with its error."""
    at = {"step": STEPS}
    predicted = select(tables[name], at).set_index("alpha")["test_error"]
    runs = extrapolate(select(tables[run_table(name)], at), ["alpha"], "test_error").set_index("alpha")
    return {float(a): (predicted[a], runs.loc[a, "limit"], runs.loc[a, "error"]) for a in predicted.index}


def variant_panel(tables: Tables) -> Panel:
    """The errors of all `VARIANTS` step by step, beside those of one batch from zero."""
    simulated = tables["simulated"]
    alpha, d = SIMULATED[0], int(simulated["d"].max())
    shades = {"limit": OTHER_COLOURS[1], **VARIANT_COLOURS}
    ways: list[Layer] = []
    for name, label in {"limit": "one batch from zero", **VARIANTS}.items():
        at = {"alpha": alpha} | ({"decay": DECAY} if name == "limit" else {})
        run = select(tables[name], at).sort_values("step")
        seen = select(simulated if name == "limit" else tables[run_table(name)], {**at, "d": d})
        seen = summarise(seen[seen["step"] % DRAWN == 0], "step", "test_error")
        ways += [
            Line(run["step"], run["test_error"], f"{label}: theory", shades[name]),
            Points(seen["step"], seen["mean"], seen["error"], f"{label}: simulated", shades[name]),
        ]
    return Panel(
        f"Starts and mini-batches, decay {DECAY:g} (points: d = {d})",
        "gradient step t",
        AXES["test_error"],
        ways,
        logy=True,
    )


CLAIMS = (
    Claim(
        "joint-start-and-batches",
        "A random start and mini-batches visited in turn end where one batch from zero does",
        OPEN,
        f"theory with decay {DECAY:g}, last step: errors within {ALIKE:g}, margin included",
        alike,
    ),
    Claim(
        "joint-variants-exact",
        "The trajectory theory gives the test error of joint training from random starts of query, readout and bias, and "
        "with mini-batches",
        OPEN,
        "simulated test error after the last step, extrapolated to d → ∞, within the margin at level 0.1 %; resolution "
        f"{VARIANT_RESOLUTION:g}",
        variants_exact,
    ),
    Claim(
        "joint-bias-start",
        "A bias that starts on the wrong side delays joint training",
        OPEN,
        f"theory: error after the last step at α = {SIMULATED[0]:g} from a random start with bias {BIAS:g} exceeds that "
        f"with bias 0 by more than {DELAYED:g}, beyond the margin",
        delayed,
    ),
)

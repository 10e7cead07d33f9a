"""The transition of the training loss at capacity: how it sharpens with the dimension and with a falling ridge."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from ..._core.averages import summarise
from ...plotting.panels import Layer, Line, Panel, Points, Rule
from ...plotting.scales import plain_number
from ...plotting.style import OTHER_COLOURS, colour, marker
from ...study.claims import Claim, Judgement, NotJudgeable, Tables, equal_verdict, format_value, need, quantile, worst
from ...study.criteria import fit_line, judge_agreement, select
from ...study.specification import Grid, Study
from .capacity import HIGH, QUERY, TASK
from .common import AXES, PAPER

# alpha* = 3.370 at this setting (the study `capacity` measures it): places are shares of it.
CAPACITY = 3.37
RIDGES = [1e-2, 1e-3, 1e-5]
LINE = [0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 1.0, 1.05, 1.1, 1.15, 1.2, 1.3, 1.5]
BELOW, ABOVE = 0.7, 1.3
RESOLUTION = 0.06
NEAR = [0.9, 1.0, 1.1]
# What counts as vanishing and as staying while the ridge falls from the first to the last.
VANISHED, STAYED = 0.05, 0.5
FIRST_SEED = 6000  # sizes and margins were chosen on smaller seeds
COLOURS = dict(zip(RIDGES, (OTHER_COLOURS[0], OTHER_COLOURS[1], colour("attention"))))


def at(share: float) -> float:
    """alpha at a share of the capacity."""
    return round(share * CAPACITY, 4)


def grids(sizes: list[int], repeats: int, draw_sizes: list[int], draws: int) -> list[Grid]:
    fixed = {**TASK, **QUERY, "model": "attention"}
    drawn = {**fixed, "alpha_high": HIGH["attention"]}
    ends: dict[str, list[Any]] = {"d": sizes, "ridge": RIDGES, "alpha": [at(BELOW), at(ABOVE)]}
    middle: dict[str, list[Any]] = {"d": sizes[-1:], "ridge": RIDGES, "alpha": [at(s) for s in NEAR]}
    return [
        Grid("predicted", "readout_theory", {**fixed, "alpha": [at(s) for s in LINE]}, {"ridge": RIDGES}),
        Grid("simulated", "readout", fixed, ends, repeats=repeats, first_seed=FIRST_SEED),
        Grid("shown", "readout", fixed, middle, repeats=max(2, repeats // 2), first_seed=FIRST_SEED),
        # The draws of the study `capacity`, which costs nothing where that one has been run.
        Grid("draws", "separability", drawn, {"d": draw_sizes}, repeats=draws),
    ]


def exact(tables: Tables) -> Judgement:
    simulated, predicted = need(tables, "simulated", ["train_loss"]), need(tables, "predicted", ["train_loss"])
    return judge_agreement(simulated, predicted, "train_loss", ["ridge", "alpha"], RESOLUTION)


def _ladder(table: Any, place: float) -> Any:
    """Mean training loss at a place, by ridge, the largest first."""
    found = summarise(table[table["alpha"] == at(place)], "ridge", "train_loss").sort_values("ridge", ascending=False)
    if len(found) < len(RIDGES):
        raise NotJudgeable(f"training losses at {len(found)} of {len(RIDGES)} ridges")
    return found


def zero_below(tables: Tables) -> Judgement:
    """With a ridge a thousand times smaller the loss falls twentyfold or more below the capacity, and hardly above it."""
    verdicts, words = [], []
    for name in ("predicted", "simulated"):
        table = need(tables, name, ["train_loss"])
        table = table[table["d"] == table["d"].max()] if "d" in table else table
        low, high = _ladder(table, BELOW), _ladder(table, ABOVE)
        fall, stay = (float(part["mean"].iloc[-1] / part["mean"].iloc[0]) for part in (low, high))
        # Relative errors of the two ends of each ladder; theory has none worth counting.
        spread = [float(np.hypot(*(part["error"] / part["mean"]).iloc[[0, -1]])) for part in (low, high)]
        errors = [0.0 if name == "predicted" else float(quantile(4, 10)) * e for e in spread]
        off = fall * (1 - errors[0]) > VANISHED or stay * (1 + errors[1]) < STAYED
        sure = fall * (1 + errors[0]) <= VANISHED and stay * (1 - errors[1]) >= STAYED
        verdicts.append("confirmed" if sure else "refuted" if off else "undecided")
        words.append(f"{name}: to {fall:.3f} of it below, to {stay:.2f} above")
    return Judgement(
        worst(verdicts), f"to at most {VANISHED:g} below α*, to at least {STAYED:g} above", "; ".join(words)
    )


def widths(tables: Tables) -> Any:
    """Standard deviation of the last separable α at each size, with its error."""
    rows = []
    for d, part in need(tables, "draws", ["alpha_star"]).groupby("d"):
        count = len(part)
        if count < 10:
            raise NotJudgeable(f"{count} draws at d = {d}")
        width = float(part["alpha_star"].std(ddof=1))
        # Of a standard deviation estimated from draws that are nearly normal.
        rows.append({"d": d, "width": width, "error": width / np.sqrt(2 * (count - 1))})
    return pd.DataFrame(rows)


def sharpens(tables: Tables) -> Judgement:
    found = widths(tables)
    if len(found) < 2:
        raise NotJudgeable(f"widths at {len(found)} sizes")
    fit = fit_line(np.log(found["d"]), np.log(found["width"]), found["error"] / found["width"])
    verdict = equal_verdict(fit.slope + 0.5, float(quantile()) * fit.slope_error, 0.49)
    words = ", ".join(f"{format_value(r['width'], r['error'])} at d = {r['d']:g}" for _, r in found.iterrows())
    return Judgement(verdict, "width ~ d^(−1/2)", f"exponent {format_value(fit.slope, fit.slope_error)}", words)


def draw(tables: Tables) -> list[Panel]:
    losses: list[Layer] = []
    simulated = pd.concat([tables["simulated"], tables["shown"]], ignore_index=True)
    d = int(simulated["d"].max())
    for ridge in RIDGES:
        line = select(tables["predicted"], {"ridge": ridge}).sort_values("alpha")
        means = summarise(select(simulated, {"ridge": ridge, "d": d}), "alpha", "train_loss")
        name = f"λ = {plain_number(ridge)}"
        losses += [
            Line(line["alpha"] / CAPACITY, line["train_loss"], f"{name}: theory", COLOURS[ridge]),
            Points(means["alpha"] / CAPACITY, means["mean"], means["error"], f"{name}: simulated", COLOURS[ridge]),
        ]
    losses.append(Rule("x", 1.0, "capacity"))
    found = widths(tables)
    fit = fit_line(
        np.log(found["d"]), np.log(found["width"]) + 0.5 * np.log(found["d"]), found["error"] / found["width"]
    )
    level = float(np.exp(fit.intercept + fit.slope * np.log(found["d"]).mean()))
    x = found["d"].to_numpy(float)
    width: list[Layer] = [
        Line(x, level / np.sqrt(x), "d^(−1/2)", "#777777", "dash"),
        Points(x, found["width"], found["error"], "attention: simulated", colour("attention"), marker("attention")),
    ]
    label = "samples over predicted capacity, α/α*"
    return [
        Panel(f"Training loss at falling ridge (points: d = {d})", label, AXES["train_loss"], losses, logy=True),
        Panel(
            "Width of the transition", "d", "standard deviation of the last separable α", width, logx=True, logy=True
        ),
    ]


def findings(tables: Tables) -> str:
    low, high = (_ladder(tables["predicted"], place) for place in (BELOW, ABOVE))

    def listed(part):
        return ", ".join(f"{v:.2g}" for v in part["mean"])

    found = widths(tables)
    words = ", ".join(f"{format_value(r['width'], r['error'])} at d = {r['d']:g}" for _, r in found.iterrows())
    return (
        f"With λ = {', '.join(f'{r:g}' for r in RIDGES)} the training loss is {listed(low)} at {BELOW:g} α* and "
        f"{listed(high)} at "
        f"{ABOVE:g} α*: it vanishes below the capacity and stays above it, and the smaller the ridge, the sharper the bend. At "
        f"finite d the place where separability is lost scatters about α* with a standard deviation of {words}, "
        "which falls like "
        "d^(−1/2)."
    )


study = Study(
    name="transition",
    title="The training loss at capacity: a transition",
    question="The training loss is said to be zero below the capacity α* and positive above it. How sharp is that at finite d "
    "and with some ridge? (L = 10, R = 1, π = 0.5, θ = 3; attention with cosine 0.8 and k = 1, α* = "
    f"{CAPACITY:g}.)",
    grids={
        "quick": grids([80, 240], 14, [25, 50, 100], 40),
        "full": grids([200, 600], 20, [50, 100, 200], 120),
    },
    draw=draw,
    findings=findings,
    claims=(
        Claim(
            "transition-exact",
            "The theory gives the training loss on both sides of the capacity, at every ridge",
            PAPER,
            "training loss at 0.7 α* and 1.3 α*, three ridges, extrapolated to d → ∞, within the margin at level 0.1 %; "
            f"resolution {RESOLUTION:g}",
            exact,
        ),
        Claim(
            "transition-ridge",
            "As the ridge falls the training loss vanishes below the capacity and stays positive above it",
            PAPER,
            f"theory and simulation: from λ = 10⁻² to 10⁻⁵ to at most {VANISHED:.0%} at 0.7 α*, to at least "
            f"{STAYED:.0%} at 1.3 α*",
            zero_below,
        ),
        Claim(
            "transition-dimension",
            "The transition sharpens with the dimension: the last separable α scatters like d^(−1/2)",
            PAPER,
            "standard deviation over draws at three sizes: exponent −1/2 within the margin; resolution 0.49",
            sharpens,
        ),
    ),
)

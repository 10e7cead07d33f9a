"""Residuals that sum to zero: what is left of anti-alignment, and what staged attention gains. The study: `centred`."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...plotting.panels import Layer, Panel, Points, largest, level, overlay
from ...plotting.style import AXES, OTHER_COLOURS, REFERENCE
from ...study.claims import Judgement, NotJudgeable, Tables, claim, need
from ...study.criteria import means_of, select
from ...study.study import Grid, sized
from .common import MODES, OURS, Resolution, decided, exact, listed, ordered, pair, provided, study

NAMES = {mode: name for mode, (_, name, _) in MODES.items()} | {"tuned": "plain steps at their best rates"}
LOSSES = ["logistic", "square"]  # of a first step that is too long
SLIGHT = 0.002  # of the test error: more than its standard errors


def random_tasks(count: int) -> list[dict[str, Any]]:
    """Tasks of any length from 3 to 300 and strength from 1 to 8, positives not more frequent than negatives."""
    rng = np.random.default_rng(16)

    def between(low: float, high: float) -> float:
        return round(float(np.exp(rng.uniform(np.log(low), np.log(high)))), 4)

    tasks = []
    for _ in range(count):
        length = round(between(3, 300))
        sparsity = int(rng.integers(1, max(2, length // 4 + 1))) if rng.random() < 0.5 else 1
        where = {"length": length, "sparsity": sparsity, "strength": between(1, 8), "prevalence": between(0.03, 0.5)}
        tasks.append({**where, "alpha0": between(0.3, 10), "loss": str(rng.choice([*LOSSES, "smoothed_hinge"]))})
    return tasks


@sized(quick=([2000, 4000], 24, 60, (200, 40)), full=([8000, 16000], 40, 300, (500, 60)))
def grids(sizes: list[int], repeats: int, tasks: int, trained: tuple[int, int]) -> list[Grid]:
    made = []
    # The task of the study `anti-alignment`, with the default rates.
    weak: dict[str, Any] = {"length": 40, "sparsity": 2, "strength": 2.0, "alpha0": 3.0, "loss": "logistic"}
    readout, where, (d, runs) = {"alpha1": 2.0, "ridge": 0.1}, random_tasks(tasks), trained
    rare = {
        **{"length": 30, "sparsity": 1, "strength": 4.0, "prevalence": 0.1, "loss": "logistic"},
        **{"alpha0": 6.0, "sharpness": 3.0, "model": "attention", **readout},
    }
    # Every positive bag's score passes its label.
    long = {
        **{"length": 4, "sparsity": 2, "strength": 4.0, "prevalence": 0.4},
        **{"alpha0": 50.0, "eta_b": "auto", "eta_q": 1.0},
    }
    for mode, (eta_b, _, _) in MODES.items():
        steps, axes = {**weak, "eta_w": 1.0, "eta_q": 1.0, "eta_b": eta_b}, {"prevalence": [0.05, 0.1, 0.2, 0.35, 0.5]}
        made += [
            Grid(mode, "two_steps", steps, {"d": sizes, **axes}, repeats=repeats),
            Grid(f"{mode}_predicted", "alignment", steps, axes),
            Grid(f"{mode}_tasks", "staged_attention", {**readout, "eta_b": eta_b}, points=where),
            Grid(f"{mode}_rare", "simulate", {**rare, "eta_b": eta_b, "d": d}, repeats=runs),
        ]
    return [
        *made,
        Grid("tuned_tasks", "staged_attention", {**readout, "tuned": True}, points=where),
        Grid("long_step", "alignment", long, {"loss": LOSSES, "eta_w": np.geomspace(0.1, 10, 13).tolist()}),
        Grid("long_step_simulated", "two_steps", {**long, "d": 200}, {"loss": LOSSES, "eta_w": [0.5, 5.0]}, repeats=12),
    ]


@exact("centred-exact", OURS, ["prevalence"], Resolution.COARSE, "cosine_q", None)
def exact_cosine(tables: Tables) -> Any:
    """With centred residuals the query has the cosine of the closed form.

    π = 0.05 to 0.5.
    """
    return pair(tables, "cosine_q", "centred", "centred_predicted")


@claim("centred-sign", OURS)
def no_turning(tables: Tables) -> Judgement:
    """Where plain steps turn the query away from the signal, centred residuals do not.

    Mean cosine at the largest d, π = 0.05 to 0.5: positive with centred residuals at every π, negative with plain steps up to
    π = 0.2, each beyond the margin.
    """
    found = {m: means_of(largest(need(tables, m, ["cosine_q"])), "prevalence", "cosine_q") for m in MODES}
    pairs = [(value, 0.0) for value in found["centred"].values()]
    pairs += [(value.scaled(-1.0), 0.0) for p, value in found["plain"].items() if p <= 0.2]
    words = "; ".join(f"{mode} {listed(found[mode], 'π')}" for mode in MODES)
    return ordered(pairs, "centred > 0; plain < 0 up to π = 0.2", words)


@claim("centred-overshoot", OURS)
def what_is_left(tables: Tables) -> Judgement:
    """With centred residuals the sign condition is E[h₊] > 0: a first step so long that it passes the labels, and no other.

    L = 4, R = 2, θ = 4: for the square loss the query turns round between η_w = 0.5 and 5, in theory and simulation; for the
    logistic loss it stays aligned at both, beyond the margin.
    """
    simulated, predicted = (need(tables, name, ["cosine_q"]) for name in ("long_step_simulated", "long_step"))
    found = means_of(simulated, ["loss", "eta_w"], "cosine_q")
    pairs = [(v.scaled(-1.0) if key == ("square", 5.0) else v, 0.0) for key, v in found.items()]
    negative = predicted[predicted["cosine_q"] < 0]
    as_predicted = set(negative["loss"]) == {"square"} and 0.5 < negative["eta_w"].min() < 5.0
    words = listed({f"{loss}, η_w = {rate:g}": value for (loss, rate), value in found.items()})
    return provided(as_predicted, ordered(pairs, "square loss: < 0 at η_w = 5; else > 0", words))


@claim("centred-rare", OURS)
def rare_gains(tables: Tables) -> Judgement:
    """With rare positives staged attention ranks bags better when residuals are centred.

    π = 0.1, L = 30, θ = 4, α₀ = 6: mean AUC above that of plain steps, beyond the margin.
    """
    found = {m: value for m in MODES for value in means_of(need(tables, f"{m}_rare", ["auc"]), "d", "auc").values()}
    return ordered([(found["centred"], found["plain"])], "larger AUC", listed(found))


def gains(tables: Tables, other: str) -> Any:
    """The reduction of the test error by centred residuals, and three standard errors of it, task by task."""
    ours, theirs = (need(tables, f"{m}_tasks", ["test_error", "standard_error"]) for m in ("centred", other))
    keys = ["length", "sparsity", "strength", "prevalence", "alpha0", "loss"]
    rows = ours.merge(theirs, on=keys, suffixes=("", "_other"))
    if len(rows) < len(ours):
        raise NotJudgeable(f"{len(rows)} of {len(ours)} tasks")
    noise = 3 * np.hypot(rows["standard_error"], rows["standard_error_other"])
    return rows.assign(gain=rows["test_error_other"] - rows["test_error"], noise=noise)


def shares(rows: Any) -> str:
    better, worse = (rows["gain"] > SLIGHT).mean(), (rows["gain"] < -SLIGHT).mean()
    return f"better in {better:.0%} of {len(rows)} tasks, worse in {worse:.0%}, {rows['gain'].mean():.4f} on average"


@claim("centred-gain", OURS)
def never_worse(tables: Tables) -> Judgement:
    """Centred residuals never cost staged attention anything where positives are not the more frequent class.

    Random tasks, π ≤ 0.5, best sharpness: test error above that of plain steps at the default rates by less than 0.002 in all
    of them, below it by more than 0.01 in at least a tenth.
    """
    rows = gains(tables, "plain")
    least = rows["gain"].min()
    holds = least > -SLIGHT and (rows["gain"] > 0.01).mean() >= 0.1
    return decided(holds, "no task worse by 0.002", shares(rows), f"largest loss {max(0.0, -least):.4f}")


@claim("centred-best", OURS, expected="refuted")
def best_of_all(tables: Tables) -> Judgement:
    """Centred residuals are at least as good as plain steps at their best rates.

    The same tasks: test error above that of plain steps at the rates with the largest cosine by less than 0.002 and three
    standard errors in all of them.
    """
    rows = gains(tables, "tuned")
    holds = not (rows["gain"] < -SLIGHT - rows["noise"]).any()
    why = "a tuned bias can leave some of w₁ in the query, which helps where the signal is too weak for the second step"
    return decided(holds, "no task worse by 0.002", shares(rows), f"{why}; largest loss {-rows['gain'].min():.4f}")


def draw(tables: Tables) -> list[Panel]:
    cosines: list[Layer] = []
    for mode, (_, name, shade) in MODES.items():
        cosines += overlay((tables[f"{mode}_predicted"], tables[mode]), "prevalence", "cosine_q", name, shade)
    errors: list[Layer] = [level(0.0, [0.0, 0.5], "as good as centred residuals", REFERENCE)]
    for other, shade in zip(("plain", "tuned"), OTHER_COLOURS[1::2]):
        rows = gains(tables, other)
        errors.append(Points(rows["test_error"], rows["gain"], None, NAMES[other], shade))
    steps: list[Layer] = []
    for loss, shade in zip(LOSSES, OTHER_COLOURS):
        pair = [select(tables[name], {"loss": loss}) for name in ("long_step", "long_step_simulated")]
        steps += overlay(pair, "eta_w", "cosine_q", f"{loss} loss", shade)
    return [
        Panel("Alignment of the query", AXES["prevalence"], AXES["cosine_q"], cosines),
        Panel("Random tasks", "test error with centred residuals", "what the other steps add to it", errors),
        Panel("A first step that is too long, centred", AXES["eta_w"], AXES["cosine_q"], steps, logx=True),
    ]


def findings(tables: Tables) -> str:
    means = {m: float(tables[f"{m}_tasks"]["test_error"].mean()) for m in NAMES}
    rare = {m: tables[f"{m}_rare"]["auc"].mean() for m in MODES}
    return (
        "The mean residual is what turns a query away, and it counts L times. A bias that is fitted before each of the two "
        "steps makes it zero: a query turns round only after a first step that passes the labels, which only the square loss "
        f"allows. With one positive in ten attention's AUC is {rare['centred']:.3f} instead of {rare['plain']:.3f}. Against "
        f"plain steps at the default rates: {shares(gains(tables, 'plain'))}. Against plain steps at their best rates: "
        f"{shares(gains(tables, 'tuned'))}; a tuned bias can leave some of w₁ in the query, which helps where the signal is "
        f"too weak for the second step. Mean errors: {listed({NAMES[m]: v for m, v in means.items()})}."
    )


centred = study(
    "centred", grids, draw, findings, (exact_cosine, no_turning, what_is_left, rare_gains, never_worse, best_of_all)
)

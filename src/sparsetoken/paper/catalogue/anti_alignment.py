"""Where two steps turn the query away from the signal (Eq. 15), and residuals that sum to zero, which prevent it."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._core.averages import extrapolate, summarise
from ...plotting.panels import Heat, Layer, Line, Panel, Points, grid_of, largest, level, overlay
from ...plotting.style import AXES, INK, OTHER_COLOURS, REFERENCE, colour
from ...study.claims import Judgement, NotJudgeable, Tables, claim, need
from ...study.criteria import ValueWithError, judge_agreement, limits_of, means_of, quantile, select, worst
from ...study.study import Grid, sized
from ..stated_results import SIGN, stated_of
from . import MODES, OURS, Resolution
from .claim_builders import decided, exact, listed, ordered, pair, provided, study, value_at

# The study `anti-alignment`.

MAP = ["eta_b", "prevalence"]


@sized(quick=([8000, 16000], 30, [150, 300], 12), full=([32000, 64000], 40, [500, 1000], 10))
def anti_alignment_grids(sizes: list[int], repeats: int, trained_sizes: list[int], trained: int) -> list[Grid]:
    """A map over bias rate and prevalence, and a strongly anti-aligned training: rare positives, many samples, no bias step."""
    steps = {
        **{"length": 40, "sparsity": 2, "strength": 2.0, "loss": "logistic"},
        **{"alpha0": 3.0, "eta_w": 1.0, "eta_q": 1.0, "beta": 1.0},
    }
    spots = dict(zip(MAP, ([0.0, 0.5, 1.0, 2.0, 3.0, 4.0, 6.0], [0.05, 0.1, 0.2, 0.35, 0.5])))
    anti = {
        **{"length": 10, "sparsity": 1, "strength": 3.0, "prevalence": 0.2, "alpha0": 400.0, "alpha1": 8.0},
        **{"eta_w": 1.0, "eta_b": 0.0, "beta": 1.0, "ridge": 1e-3, "sharpness": 2.0},
    }
    fine = dict(zip(MAP, (np.linspace(0.0, 6.0, 41).tolist(), np.linspace(0.03, 0.5, 41).tolist())))
    return [
        Grid("simulated", "two_steps", steps, {"d": sizes, **spots}, repeats=repeats),
        Grid("predicted", "alignment", steps, fine),
        Grid("predicted_there", "alignment", steps, spots),
        Grid("trained", "simulate", anti, {"d": trained_sizes, "model": ["attention", "pooled"]}, repeats=trained),
    ]


@claim("anti-alignment-boundary", SIGN)
def boundary(tables: Tables) -> Judgement:
    """The query is anti-aligned exactly where π E[h₊] θ² R(1−R/L) + (L−1) E[h] > 0.

    cos(q₂, ξ) agrees with theory at all 35 settings (d → ∞, resolution 0.06), every sign clear of noise is the predicted one,
    both occur.
    """
    simulated, predicted = pair(tables, "cosine_q", predicted="predicted_there")
    size = judge_agreement(simulated, predicted, "cosine_q", MAP, Resolution.COARSE)
    rows = extrapolate(simulated, MAP, "cosine_q").merge(predicted[[*MAP, "anti_aligned"]], on=MAP)
    clear = rows["limit"].abs() > quantile(len(rows), rows["degrees"].to_numpy(float)) * rows["error"]
    agree = (rows["limit"] < 0) == rows["anti_aligned"].astype(bool)
    wrong = int((clear & ~agree).sum())
    signs = set(np.sign(rows["limit"][clear]))
    verdict = worst([size.verdict, "refuted" if wrong else "confirmed" if len(signs) > 1 else "undecided"])
    measured = f"{int((clear & agree).sum())} signs right, {wrong} wrong, {int((~clear).sum())} within noise of zero"
    return Judgement(verdict, "all signs right", measured, f"size of the cosine: {size.note}")


def _anti_aligned(tables: Tables, name: str) -> tuple[ValueWithError, str]:
    """A measure of the anti-aligned attention at d → ∞, and a note with the cosine of its query."""
    attention = select(need(tables, "trained", [name, "cosine_q"]), {"model": "attention"})
    cosine = means_of(attention, "model", "cosine_q")["attention"].value
    return limits_of(attention, "model", name)["attention"], f"cos(q₂, ξ) = {cosine:.2f}"


@claim("anti-aligned-above-half", stated_of(SIGN), expected="refuted")
def above_half(tables: Tables) -> Judgement:
    """An anti-aligned query is worse than random.

    Balanced error of the trained attention (d → ∞, π = 0.2) above 0.5 beyond the margin.
    """
    found, cosine = _anti_aligned(tables, "balanced_error")
    note = f"{cosine}; the readout is trained afterwards, and uses the reversed direction"
    return ordered([(found, 0.5)], "above 0.5", str(found), note)


@claim("anti-aligned-above-constant", stated_of(SIGN))
def above_constant(tables: Tables) -> Judgement:
    """An anti-aligned query is worse than always answering negative.

    Test error of the trained attention (d → ∞) above the prevalence 0.2 beyond the margin.
    """
    found, note = _anti_aligned(tables, "test_error")
    share = value_at(tables, "trained", "prevalence")
    return ordered([(found, share)], f"above {share:g}", str(found), note)


def draw_anti_alignment(tables: Tables) -> list[Panel]:
    predicted, simulated = tables["predicted"], tables["simulated"]
    x, y, z = grid_of(predicted, "eta_b", "prevalence", "cosine_q")
    means = summarise(largest(simulated), MAP, "cosine_q")
    layers: list[Layer] = [
        Heat(x, y, z, "cos(q₂, ξ), theory", diverging=True),
        Line(*_zero_line(x, y, z), "predicted boundary", INK),
    ]
    for sign, label, mark, shade in (
        (1, "simulated: aligned", "circle", "#67001f"),
        (-1, "simulated: anti-aligned", "square", "#053061"),
    ):
        part = means[np.sign(means["mean"]) == sign]
        layers.append(Points(part["eta_b"], part["prevalence"], None, label, shade, mark))
    cuts: list[Layer] = []
    for eta_b, shade in zip((0.0, 1.0, 3.0), (OTHER_COLOURS[0], OTHER_COLOURS[3], colour("attention"))):
        nearest = predicted["eta_b"].iloc[(predicted["eta_b"] - eta_b).abs().argmin()]
        pair = (select(predicted, {"eta_b": nearest}), select(simulated, {"eta_b": eta_b}))
        cuts += overlay(pair, "prevalence", "cosine_q", f"η_b = {eta_b:g}", shade)
    return [
        Panel("Alignment over (η_b, π)", AXES["eta_b"], AXES["prevalence"], layers),
        Panel("Cuts through the map", AXES["prevalence"], AXES["cosine_q"], cuts),
    ]


def _zero_line(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each pi, the eta_b where the map changes sign (linear interpolation)."""
    points = []
    for value, row in zip(y, z):
        for i in np.flatnonzero(np.sign(row[:-1]) != np.sign(row[1:])):
            points.append((x[i] - row[i] * (x[i + 1] - x[i]) / (row[i + 1] - row[i]), value))
    columns = np.array(points).reshape(-1, 2)
    return columns[:, 0], columns[:, 1]


def anti_alignment_findings(tables: Tables) -> str:
    there, means = tables["predicted_there"], means_of(largest(tables["trained"]), "model", "test_error")
    return (
        f"{int(there['anti_aligned'].sum())} of the {len(there)} simulated settings are predicted to be anti-aligned: rare "
        "positives with too small a bias step, where the residuals of negative bags push the query away from the signal. "
        "The remedy is a larger η_b, so that the bias fits the base rate. At "
        f"π = {value_at(tables, 'trained', 'prevalence'):g} the trained attention has error "
        f"{means['attention'].value:.3f}, pooling {means['pooled'].value:.3f}: worse than always "
        "answering negative, but not than chance."
    )


anti_alignment = study(
    "anti-alignment",
    anti_alignment_grids,
    draw_anti_alignment,
    anti_alignment_findings,
    (boundary, above_half, above_constant),
)


# The study `centred`.

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
def centred_grids(sizes: list[int], repeats: int, tasks: int, trained: tuple[int, int]) -> list[Grid]:
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


def draw_centred(tables: Tables) -> list[Panel]:
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


def centred_findings(tables: Tables) -> str:
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
    "centred",
    centred_grids,
    draw_centred,
    centred_findings,
    (exact_cosine, no_turning, what_is_left, rare_gains, never_worse, best_of_all),
)

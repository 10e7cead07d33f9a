"""What is possible at all, and which mechanism and which loss come near it. The studies: `limits` and `mechanisms`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from ..._core.averages import extrapolate
from ...plotting.panels import Layer, Line, Panel, Points, Rule, by_model, estimates, spots
from ...plotting.style import AXES, OTHER_COLOURS, colour, loss_label
from ...study.claims import Claim, Judgement, NotJudgeable, Tables, claim, need
from ...study.criteria import ValueWithError, larger, limits_of, means_of, near, predictions_of, select, worst
from ...study.study import Grid, sized
from . import ALIKE, BAGS, OURS, TEN_TOKENS, Resolution
from .claim_builders import complete, exact, listed, ordered, pair, study, theory_of, value_at, with_alpha


@sized(quick=([150, 300], 24, [100, 200], 36), full=([500, 1000], 10, [500, 1000], 20))
def limits_grids(sizes: list[int], repeats: int, passing_sizes: list[int], passing: int) -> list[Grid]:
    """Half of the samples for the two steps, half for the readout; pooling gets all of them."""
    models = [{"model": "attention", "sharpness": 2.0}, {"model": "pooled", "equal_samples": True}]
    places = [1.0, 2.0, 4.0, 8.0]
    line = sorted({*np.geomspace(0.5, 10.0, 10).tolist(), *places})
    far = sorted({*np.geomspace(0.25, 4.0, 9).tolist(), 1.0, 1.1, 1.2, 1.3})
    learner = {**TEN_TOKENS, "loss": "logistic", "ridge": 1e-2}

    def halves(alphas: list[float]) -> list[dict[str, Any]]:
        return [{**model, "alpha0": a / 2, "alpha1": a / 2} for model in models for a in alphas]

    return [
        Grid("simulated", "simulate", learner, {"d": sizes}, points=halves(places), repeats=repeats),
        Grid("predicted", "forecast", learner, points=halves(line)),
        Grid("bayes", "bayes_limit", TEN_TOKENS, {"alpha": line}),
        Grid("passing", "message_passing", TEN_TOKENS, {"d": passing_sizes, "alpha": places}, repeats=passing),
        Grid("hard", "bayes_limit", {**TEN_TOKENS, "length": 1000}, {"alpha": far}),
    ]


@claim("bayes-unbeaten", OURS)
def unbeaten(tables: Tables) -> Judgement:
    """No learner beats the Bayes limit.

    Four α: errors of attention and pooling above the limit beyond the margin, at both sizes; those of message passing, which
    comes closest, on average over α (d → ∞) not below it by 0.003, beyond the margin.
    """
    found = means_of(with_alpha(need(tables, "simulated", ["test_error"])), ["d", "model", "alpha"], "test_error")
    bayes = predictions_of(need(tables, "bayes", ["test_error"]), "alpha", "test_error", "test_error_se", np.inf)
    passing = limits_of(need(tables, "passing", ["test_error"]), "alpha", "test_error")
    verdicts = [larger(error, bayes[a], len(found)) for (_, _, a), error in found.items()]
    gap = np.mean([error.value - bayes[a].value for a, error in passing.items()])
    _, errors, degrees = zip(*passing.values())
    mean = ValueWithError(float(gap), float(np.hypot.reduce(errors)) / len(passing), min(degrees))
    nearest = min(error.value / bayes[a].value for (_, _, a), error in found.items())
    note = f"the nearest of attention and pooling is {nearest:.2f} times the limit"
    return Judgement(worst([*verdicts, larger(mean, -0.003)]), "0 on average for message passing", str(mean), note)


@exact("message-passing-reaches", OURS, ["alpha"], Resolution.FINEST, error="reachable_test_error_se")
def reached(tables: Tables) -> Any:
    """Message passing reaches the predicted error.

    Four α.
    """
    passing, bayes = pair(tables, "test_error", "passing", "bayes")
    return passing, bayes.assign(test_error=bayes["reachable_test_error"])


@claim("hard-phase", OURS)
def hard(tables: Tables) -> Judgement:
    """With long bags there is a phase where the optimum is out of message passing's reach.

    Fixed points of the theory, L = 1000, α = 1: squared cosines differ by more than 0.5 beyond the margin.
    """
    row = select(need(tables, "hard", ["overlap"]), {"alpha": 1.0}).iloc[0]
    best, reachable = (ValueWithError(row[name], row[f"{name}_se"]) for name in ("overlap", "reachable_overlap"))
    words = f"{best} against {reachable}"
    return ordered([(best.minus(0.5), reachable)], "optimum far above what is reachable", words)


def draw_limits(tables: Tables) -> list[Panel]:
    bayes, line = tables["bayes"].sort_values("alpha"), tables["hard"].sort_values("alpha")
    predicted, simulated, passing = (
        with_alpha(tables["predicted"]),
        with_alpha(tables["simulated"]),
        colour("reachable"),
    )
    layers: list[Layer] = [
        Line(bayes["alpha"], bayes["test_error"], "Bayes limit", colour("bayes")),
        Line(bayes["alpha"], bayes["reachable_test_error"], "message passing: theory", passing, "dash"),
        *by_model(predicted, simulated, "alpha", "test_error"),
        spots(tables["passing"], "alpha", "test_error", "message passing", passing, "diamond"),
    ]
    phases = [
        Line(line["alpha"], line["overlap"], "best possible", colour("bayes")),
        Line(line["alpha"], line["reachable_overlap"], "reachable by message passing", passing, "dash"),
    ]
    title, squared = "A thousand tokens per bag: a hard phase", "squared cosine with the signal"
    label = "all samples per dimension, α = α₀ + α₁"
    return [
        Panel("Ten tokens per bag", label, AXES["test_error"], layers, logx=True, logy=True),
        Panel(title, AXES["alpha"], squared, phases, logx=True),
    ]


def limits_findings(tables: Tables) -> str:
    bayes = tables["bayes"].set_index("alpha")["test_error"]
    staged = select(with_alpha(tables["predicted"]), {"model": "attention"}).set_index("alpha")["test_error"]
    phase = tables["hard"][tables["hard"]["hard"].astype(bool)]["alpha"]
    return (
        f"At α = 2 nobody can do better than {bayes[2.0]:.4f}; staged attention (half of the samples for each stage, k = "
        f"2) has {staged[2.0]:.4f}. Message passing, which knows strength and sparsity, reaches the limit. With a "
        "thousand tokens per bag the limit exists but no known fast method reaches it between α = "
        f"{phase.min():.2g} and {phase.max():.2g} (on this grid)."
    )


limits = study("limits", limits_grids, draw_limits, limits_findings, (unbeaten, reached, hard))


# The study `mechanisms`.

# Name -> (model, sharpnesses, ridges); the first of each, the best at theta = 4.5, are simulated.
MECHANISMS: dict[str, tuple[str, list[float], list[float]]] = {
    "softmax": ("attention", [2.5, 1.5, 4.0], [0.3, 0.03, 1.0, 3.0]),
    "sparsemax": ("elementwise:sparsemax", [1.0, 0.5, 2.0], [0.3, 0.03, 1.0, 3.0]),
    "top 2": ("elementwise:top:2", [2.0, 1.0, 4.0], [0.3, 0.03, 1.0, 3.0]),
    "hard max": ("elementwise:hardmax", [1.0], [0.3, 0.03, 1.0, 3.0]),
    "thresholded": ("elementwise:threshold:2", [2.0, 1.0], [0.01, 0.001, 0.1]),
    "sigmoid": ("elementwise", [2.0, 4.0], [0.1, 0.01, 0.001]),
}
LOSSES = ["logistic", "smoothed_hinge", "square", "exponential"]
STEPS = 30  # of joint training
# Directions, rate and decay. Gated attention diverges at the rates of the others; these are the best at θ = 4.5 of those at
# which it does not.
JOINT_MODELS: dict[str, tuple[list[str], float, float]] = {
    "tied": (["w"], 1.0, 0.2),
    "attention": (["q", "w"], 1.0, 0.2),
    "gated": (["v", "u", "w"], 0.5, 0.4),
}


def named(mechanism: str, sharpness: float, ridge: float) -> dict[str, Any]:
    """A point of staged training with a mechanism."""
    staged = {**TEN_TOKENS, "alpha0": 2.0, "alpha1": 2.0, "loss": "logistic"}
    return {**staged, "model": MECHANISMS[mechanism][0], "sharpness": sharpness, "ridge": ridge}


def joint(model: str) -> dict[str, Any]:
    """Everything at once with that bag model; directions other than w start away from zero where zero is a saddle."""
    directions, rate, decay = JOINT_MODELS[model]
    rates = {**dict.fromkeys(directions, rate), "bias": 0.5 * rate}
    start = {"start": {"v": 0.5, "u": 0.5}} if model == "gated" else {}
    descent = {"alpha": 4.0, "steps": STEPS, "rates": rates, "decay": dict.fromkeys(directions, decay)}
    return {**TEN_TOKENS, "model": model, **descent, **start}


@sized(quick=([120, 240], 32, [80, 160], 10, BAGS["quick"]), full=([500, 1000], 20, [300, 600], 20, BAGS["full"]))
def mechanisms_grids(sizes: list[int], repeats: int, joint_sizes: list[int], runs: int, bags: int) -> list[Grid]:
    tried = [named(m, k, r) for m, (_, ks, rs) in MECHANISMS.items() for k in ks for r in rs]
    losses = [{**named("softmax", 2.5, r), "loss": loss} for loss in LOSSES for r in (0.1, 0.3, 1.0, 3.0, 10.0)]
    simulated = [named(m, ks[0], rs[0]) for m, (_, ks, rs) in MECHANISMS.items()]
    simulated += [p for p in losses if p["loss"] != "logistic" and p["ridge"] == 0.3]
    at_once, last = [joint(m) for m in JOINT_MODELS], {"rows_at": [STEPS]}
    drawn: dict[str, Any] = {"first_seed": 2000}  # criteria and sizes were chosen on others
    return [
        Grid("tried", "forecast", points=tried),
        Grid("losses", "forecast", points=losses),
        Grid("simulated", "simulate", {}, {"d": sizes}, points=simulated, repeats=repeats, **drawn),
        Grid("joint", "simulate_trajectory", last, {"d": joint_sizes}, points=at_once, repeats=runs, **drawn),
        Grid("joint_predicted", "trajectory", {**last, "accuracy": 1.0, "bags": bags}, points=at_once),
        Grid("bayes", "bayes_limit", {**TEN_TOKENS, "alpha": 4.0}),
    ]


def mechanism_of(table: Any) -> Any:
    names = {model: m for m, (model, _, _) in MECHANISMS.items()}
    return table.assign(mechanism=[names[model] for model in table["model"]])


def best_rows(tables: Tables, name: str) -> Any:
    """The least predicted error of each mechanism ("tried") or loss ("losses") over the settings tried."""
    table, by = need(tables, name, ["test_error"]), "mechanism" if name == "tried" else "loss"
    rows = (mechanism_of(table) if name == "tried" else table).sort_values("test_error").groupby(by).first()
    return complete(rows, list(MECHANISMS) if name == "tried" else LOSSES)


def best(tables: Tables, name: str = "tried") -> dict[str, ValueWithError]:
    rows = best_rows(tables, name).reset_index(names="of")
    return predictions_of(rows, "of", "test_error", "standard_error", 15)


SETTING = ["model", "loss", "sharpness", "ridge"]


@exact("mechanisms-exact", OURS, SETTING, Resolution.COARSE)
def mechanisms_exact(tables: Tables) -> Any:
    """The theory gives the test error of every mechanism and loss.

    Six mechanisms and four losses.
    """
    simulated, tried = pair(tables, predicted="tried")
    return simulated, pd.concat([tried, need(tables, "losses")]).drop_duplicates(SETTING)


def softmax_below(id: str, statement: str, others: list[str]) -> Claim:
    def criterion(tables: Tables) -> Judgement:
        rows = best(tables)
        words = listed({m: rows[m] for m in ("softmax", *others)})
        return ordered([(rows[other], rows["softmax"]) for other in others], "softmax below the others", words)

    rule = f"theory, each at its best settings: softmax below {', '.join(others)}, beyond the margin"
    return Claim(id, statement, rule, criterion, **OURS)


@claim("losses-alike", OURS)
def losses_alike(tables: Tables) -> Judgement:
    """With a ridge chosen for it, every loss comes as close to the Bayes limit as the logistic one.

    Theory, softmax attention, each at its best ridge: error within 10 % of the logistic one, margin included.
    """
    found, rows = best(tables, "losses"), best_rows(tables, "losses")
    base, others = found["logistic"], LOSSES[1:]
    verdict = worst(near(found[loss], base, ALIKE * base.value, len(others)) for loss in others)
    words = listed({f"{loss_label(m)}, λ = {rows.loc[m, 'ridge']:g}": found[m].value for m in LOSSES})
    return Judgement(verdict, "within 10% of the logistic one", words)


def last_steps(tables: Tables) -> tuple[dict[str, ValueWithError], dict[str, ValueWithError]]:
    """Error after the last step by bag model: simulated (d → ∞), and predicted."""
    simulated, predicted = (
        select(table, {"step": STEPS}) for table in pair(tables, "test_error", "joint", "joint_predicted")
    )
    return limits_of(simulated, "model", "test_error"), theory_of(predicted, "model")


@claim("tied-wins", OURS)
def tied_wins(tables: Tables) -> Judgement:
    """Log-sum-exp trained at once comes closer to the Bayes limit than any staged mechanism.

    Theory: error after the last step below the least of the staged ones, beyond the margin.
    """
    (simulated, predicted), staged = last_steps(tables), best(tables)
    if "tied" not in predicted:
        raise NotJudgeable("no prediction for the tied model")
    least = min(staged, key=lambda name: staged[name].value)
    limit = value_at(tables, "bayes")
    words = f"{predicted['tied']}; simulated {simulated['tied']}"
    pairs = [(staged[least]._replace(error=max(found.error for found in staged.values())), predicted["tied"])]
    return ordered(pairs, f"below {staged[least].value:.4f} ({least})", words, f"Bayes limit {limit:.4f}")


def draw_mechanisms(tables: Tables) -> list[Panel]:
    limit = value_at(tables, "bayes")
    found = extrapolate(tables["simulated"], ["model", "loss", "ridge"], "test_error")
    found = mechanism_of(found[found["loss"] == "logistic"]).set_index("mechanism").loc[list(MECHANISMS)]
    at = tables["tried"].set_index(["model", "sharpness", "ridge"])["test_error"]
    same = [at[model, ks[0], rs[0]] for model, ks, rs in MECHANISMS.values()]
    runs, ends = last_steps(tables)
    place = np.arange(1.0, len(MECHANISMS) + 1)
    further, orange, (blue, red) = place[-1] + 1.0 + np.arange(len(runs)), colour("attention"), OTHER_COLOURS[::4]
    least = [error.value for error in best(tables).values()]

    layers: list[Layer] = [
        Points(place - 0.1, least, None, "staged, best of the settings: theory", orange, "diamond"),
        Points(place, same, None, "staged, one setting: theory", blue, "square"),
        Points(place + 0.1, found["limit"], found["error"], "the same, simulated, d → ∞", blue),
        estimates(dict(zip(further, runs.values())), "trained at once: simulated, d → ∞", red, "triangle-up"),
        estimates(dict(zip(further - 0.1, (ends[m] for m in runs))), "trained at once: theory", red, "diamond"),
        Rule("y", limit, "Bayes limit"),
    ]
    losses: list[Layer] = []
    for loss, shade in zip(LOSSES, OTHER_COLOURS):
        part = select(tables["losses"], {"loss": loss}).sort_values("ridge")
        found = predictions_of(part, "ridge", "test_error", "standard_error", np.inf)
        losses.append(estimates(found, f"{loss_label(loss)} loss: theory", shade, "diamond"))
    losses.append(Rule("y", limit, "Bayes limit"))
    names, error = [*MECHANISMS, *(f"{model}, at once" for model in runs)], AXES["test_error"]
    return [
        Panel("Mechanisms", "how tokens are weighted", error, layers, logy=True, names=names),
        Panel("Losses, softmax attention", AXES["ridge"], error, losses, logx=True, logy=True),
    ]


def mechanisms_findings(tables: Tables) -> str:
    limit, rows = value_at(tables, "bayes"), best(tables)
    return (
        f"The Bayes limit is {limit:.4f}. Staged on as many samples, each at its best settings: "
        f"{', '.join(f'{m} {rows[m].value:.4f}' for m in MECHANISMS)}. Zeros in the attention weights gain nothing: softmax "
        "already gives the noise tokens next to no weight. Elementwise weights do not compete with each other and let the "
        f"noise of all tokens in. Losses: {losses_alike(tables).measured}. Trained at once on all samples (tied is "
        "log-sum-exp, query and readout one direction), every sample serves both directions: "
        f"{', '.join(f'{m} {error}' for m, error in last_steps(tables)[0].items())}."
    )


mechanisms = study(
    "mechanisms",
    mechanisms_grids,
    draw_mechanisms,
    mechanisms_findings,
    (
        mechanisms_exact,
        softmax_below(
            "sparse-gains-nothing",
            "Sparse attention weights gain nothing over softmax",
            ["sparsemax", "top 2", "hard max"],
        ),
        softmax_below(
            "elementwise-loses", "Elementwise weights, thresholded or not, lose to softmax", ["thresholded", "sigmoid"]
        ),
        losses_alike,
        tied_wins,
    ),
)

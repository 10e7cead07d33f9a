"""Staged training that goes on: the same samples for query and readout, and more than one query step."""

from __future__ import annotations

from typing import Any

from ...plotting.panels import Layer, Panel, curve, estimates, overlay, spots
from ...plotting.style import AXES, OTHER_COLOURS, REFERENCE, colour
from ...study.claims import Judgement, Tables, claim, need
from ...study.criteria import ValueWithError, limits_of, predictions_of
from ...study.study import Grid, sized
from . import BAGS, OPEN, TEN_TOKENS, Resolution
from .claim_builders import exact, listed, ordered, pair, study, theory_of

RIDGE, ETA_Q = 0.1, 25.0
# The convex readout as gradient descent with momentum: after 38 steps it has moved by less than 6e-4 over the last ten.
READOUT: dict[str, Any] = {"steps": 38, "rates": {"w": 1.5, "bias": 6.0}, "decay": {"w": RIDGE}, "momentum": 0.3}
REPLICATES = 16  # of the exact theory: what reuse gains over new data is a few standard errors of eight


def stages(alpha: float) -> list[dict[str, Any]]:
    """Two steps and a readout, all on the data set "all" of alpha d bags."""
    return [
        {"steps": 1, "alpha": alpha, "rates": {"w": 1.0, "bias": 1.0}},
        {"steps": 1, "alpha": alpha, "rates": {"q": ETA_Q}},
        {**READOUT, "alpha": alpha},
    ]


@sized(quick=([300, 900], 50, [0.5, 1.0, 2.0]), full=([1000, 2000], 60, [0.5, 1.0, 2.0, 4.0, 8.0]))
def reuse_grids(sizes: list[int], repeats: int, alphas: list[float]) -> list[Grid]:
    fixed = {**TEN_TOKENS, "ridge": RIDGE, "eta_q": ETA_Q}
    # Only the last step is read, with its standard error.
    last = {**TEN_TOKENS, "accuracy": 0.05, "replicates": REPLICATES, "rows_at": [2 + READOUT["steps"]]}
    same = {**fixed, "schedule": "reuse"}
    axes: dict[str, list[Any]] = {"d": sizes, "alpha0": [1.0, 2.0]}
    return [
        Grid("exact", "trajectory", last, points=[{"alpha": a, "stages": stages(a)} for a in alphas]),
        Grid("simulated", "simulate", same, axes, repeats=repeats, first_seed=1000),
        Grid("split", "forecast", fixed, points=[{"alpha0": a / 2, "alpha1": a / 2} for a in alphas]),
        Grid("independent", "forecast", fixed, points=[{"alpha0": a, "alpha1": a} for a in alphas]),
    ]


def reused(tables: Tables) -> dict[float, ValueWithError]:
    """The exact error on reused data after the last step, by α."""
    rows = need(tables, "exact", ["test_error"])
    return predictions_of(rows, "alpha", "test_error", "test_error_se", REPLICATES - 1)


def forecasts(tables: Tables, name: str) -> dict[float, ValueWithError]:
    """Forecasts by α: with half of the samples for each stage (`split`), or with as many for both (`independent`)."""
    table = need(tables, name, ["test_error"])
    table = table.assign(alpha=table["alpha0"] * (2 if name == "split" else 1))
    return predictions_of(table, "alpha", "test_error", "standard_error", REPLICATES - 1)


@exact("reuse-exact", OPEN, ["alpha"], Resolution.FINEST, error="test_error_se")
def reuse_exact(tables: Tables) -> Any:
    """The trajectory theory gives the test error of staged training with D₀ = D₁.

    Test error at each simulated α.
    """
    simulated, predicted = pair(tables, predicted="exact")
    return simulated.assign(alpha=simulated["alpha0"]), predicted


@claim("reuse-beats-the-split", OPEN)
def beats_the_split(tables: Tables) -> Judgement:
    """At equal samples, using all of them twice beats splitting them.

    Exact error below the split's at every α beyond the margin.
    """
    found, split = reused(tables), forecasts(tables, "split")
    words = (f"{error.value:.4f} against {split[a].value:.4f} (α = {a:g})" for a, error in found.items())
    return ordered([(split[a], error) for a, error in found.items()], "reuse below", "; ".join(words))


@claim("reuse-is-better-than-new-data", OPEN)
def pessimistic(tables: Tables) -> Judgement:
    """Staged training on reused data is better than the theory of independent data sets of that size predicts.

    Exact error at α = 0.5 below the forecast with α₀ = α₁ = α, beyond the margin.
    """
    found, other = reused(tables)[0.5], forecasts(tables, "independent")[0.5]
    return ordered([(other, found)], f"below {other.value:.4f}", str(found))


def draw_reuse(tables: Tables) -> list[Panel]:
    runs = tables["simulated"].assign(alpha=lambda t: t["alpha0"])
    shade, both = OTHER_COLOURS[1], "one data set for both"
    layers: list[Layer] = [
        curve(forecasts(tables, "split"), "split in halves: theory", colour("attention"), "dash"),
        curve(forecasts(tables, "independent"), "two data sets of this size each: theory", REFERENCE, "dot"),
        curve(reused(tables), f"{both}: exact theory", shade),
        spots(runs, "alpha", "test_error", both, shade, limit=True),
    ]
    return [Panel("Staged training on one data set", AXES["alpha"], AXES["test_error"], layers, logx=True, logy=True)]


def reuse_findings(tables: Tables) -> str:
    found, new = reused(tables), forecasts(tables, "independent")
    few, many = min(found), max(found)
    off = {a: round(100 * (new[a].value / found[a].value - 1)) for a in (few, many)}  # per cent
    return (
        f"Using all samples twice beats halving them: {beats_the_split(tables).measured}. The theory with new "
        f"data for the readout is too pessimistic, by {off[few]} % at α = {few:g} and {off[many]} % at α = {many:g}: the "
        "query has seen the bags that the readout is fitted to, and attends to the right tokens there more often."
    )


reuse = study("reuse", reuse_grids, draw_reuse, reuse_findings, (reuse_exact, beats_the_split, pessimistic))


# The study `query-steps`.

RATE = 5.0  # of the query; one step of rate 25 is the staged default
MOST = 10
ALPHAS = {0.5: "#56B4E9", 2.0: colour("attention")}  # with their colours


def alternating(rounds: int, alpha: float) -> list[dict[str, Any]]:
    """So many rounds, each of one step of readout and bias and then one of the query, on one data set, as one stage."""
    first, second = [1.0, 0.0] * rounds, [0.0, RATE] * rounds
    return [{"steps": 2 * rounds, "alpha": alpha, "rates": {"w": first, "bias": first, "q": second}, "data": "D0"}]


def with_readout(rounds: int, alpha: float) -> list[dict[str, Any]]:
    """The rounds, idle steps up to the longest (so that all have one shape), and a readout on new data."""
    idle = [{"steps": 2 * (MOST - rounds), "alpha": alpha, "rates": {}, "data": "D0"}] if rounds < MOST else []
    return [*alternating(rounds, alpha), *idle, {**READOUT, "data": "D1", "alpha": alpha}]


@sized(
    quick=([400, 1600], 20, [1, 2, 5], BAGS["quick"], {"bags": BAGS["few"]}),
    full=([1000, 4000], 40, [1, 2, 3, 5, MOST], BAGS["full"], {"bags": BAGS["full"], "replicates": 32}),
)
def query_steps_grids(
    sizes: list[int], repeats: int, ends: list[int], bags: int, of_ends: dict[str, int]
) -> list[Grid]:
    # What is read has its standard error beside it.
    loose: dict[str, Any] = {**TEN_TOKENS, "accuracy": 1.0, "bags": bags}
    rounds = [{"alpha": a, "stages": alternating(MOST, a)} for a in ALPHAS]
    # `steps` only labels these points by their number of rounds: the stages define the training.
    finished = [{"alpha": a, "steps": k, "stages": with_readout(k, a)} for a in ALPHAS for k in ends]
    last = {**loose, **of_ends, "rows_at": [2 * MOST + READOUT["steps"]]}
    runs = {**TEN_TOKENS, "rows_at": [2, 4, 6, 10, 2 * MOST]}
    drawn: dict[str, Any] = {"repeats": repeats, "first_seed": 1000}
    return [
        Grid("rounds", "trajectory", {**loose, "rows_at": list(range(2, 2 * MOST + 1, 2))}, points=rounds),
        Grid("simulated", "simulate_trajectory", runs, {"d": sizes}, points=rounds, **drawn),
        Grid("finished", "trajectory", last, points=finished),
    ]


def in_rounds(tables: Tables, name: str, most: int = MOST) -> Any:
    """Rows after whole rounds, with their number."""
    table = need(tables, name, ["cosine[q]", "step"])
    return table[table["step"] <= 2 * most].assign(rounds=lambda t: t["step"] // 2)


@exact("query-steps-exact", OPEN, ["alpha", "rounds"], Resolution.ROUGH, "cosine[q]", "cosine[q]_se")
def cosines_exact(tables: Tables) -> Any:
    """The trajectory theory gives the alignment after one and two rounds.

    Cosine of the query at both α.
    """
    return tuple(in_rounds(tables, name, 2) for name in ("simulated", "rounds"))


@claim("query-steps-turn-away", OPEN)
def falls(tables: Tables) -> Judgement:
    """Further query steps of rate 5 on the same data turn the query away from the signal.

    Simulated cosine after five rounds below that after two at both α, extrapolated to d → ∞, beyond the margin.
    """
    found = limits_of(in_rounds(tables, "simulated"), ["alpha", "rounds"], "cosine[q]")
    words = (f"{found[a, 2].value:.3f} after two, {found[a, 5]} after five (α = {a:g})" for a in ALPHAS)
    return ordered([(found[a, 2], found[a, 5]) for a in ALPHAS], "cosine falls after two rounds", "; ".join(words))


def finished(tables: Tables) -> dict[tuple[float, int], ValueWithError]:
    """Test error after the readout, by α and number of rounds."""
    table = need(tables, "finished", ["test_error"]).sort_values(["alpha", "steps"])
    return theory_of(table, ["alpha", "steps"])


@claim("two-query-steps-are-enough", OPEN)
def best_at_two(tables: Tables) -> Judgement:
    """At rate 5 and L = 10 the test error with a readout on new data is least after two query steps.

    Theory: error after two rounds below that after any other number tried, at both α, beyond the margin.
    """
    found = finished(tables)
    words = (f"{listed({k: e.value for (b, k), e in found.items() if b == a})} at α = {a:g}" for a in ALPHAS)
    others = [(error, found[a, 2]) for (a, k), error in found.items() if k != 2]
    return ordered(others, "least after two rounds", "; ".join(words))


def draw_query_steps(tables: Tables) -> list[Panel]:
    lines, runs = in_rounds(tables, "rounds"), in_rounds(tables, "simulated")
    cosines: list[Layer] = []
    errors: list[Layer] = []
    for alpha, shade in ALPHAS.items():
        line, seen = (table[table["alpha"] == alpha] for table in (lines, runs))
        cosines += overlay((line, seen), "rounds", "cosine[q]", f"α = {alpha:g}", shade, limit=True)
        ends = {k: error for (a, k), error in finished(tables).items() if a == alpha}
        errors.append(curve(ends, "", shade, "dot"))
        errors.append(estimates(ends, f"α = {alpha:g}: theory", shade))
    label = "query steps, each after a readout step"
    return [
        Panel(f"The query after more steps (η_q = {RATE:g})", label, "cos(q, ξ)", cosines),
        Panel("Test error with a readout on new data", label, "test error", errors, logy=True),
    ]


def query_steps_findings(tables: Tables) -> str:
    lines = in_rounds(tables, "rounds").set_index(["alpha", "rounds"])["cosine[q]"]
    words = "; ".join(f"{listed({k: float(lines[a, k]) for k in (1, 2, 5)})} at α = {a:g}" for a in ALPHAS)
    return (
        f"At rate {RATE:g} and L = 10 returns stop at the second query step: cosines by round are {words}; errors "
        f"{best_at_two(tables).measured}. What the second step adds is sharpness more than direction; from the third on the "
        "query follows the noise of bags it has already seen, and turns away from the signal. With smaller rates, longer bags "
        "and weak signals it is otherwise: there twelve steps of joint descent find a direction that two miss (study `ladder`)."
    )


query_steps = study(
    "query-steps", query_steps_grids, draw_query_steps, query_steps_findings, (cosines_exact, falls, best_at_two)
)

"""More than one query step, each after a fresh step of the readout: where returns stop."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._core.averages import extrapolate
from ...plotting.panels import Layer, Line, Panel, Points
from ...plotting.style import colour
from ...study.claims import Claim, Judgement, Tables, greater_verdict, need, quantile, worst
from ...study.criteria import judge_agreement
from ...study.specification import Grid, Study
from .common import FEW_BAGS, FULL_BAGS, OPEN, QUICK_BAGS, TEN_TOKENS, THEORY_DEGREES

RATE = 5.0  # of the query; one step of rate 25 is the staged default
MOST = 10
ROUNDS = [1, 2, 3, 5, MOST]
JUDGED = [1, 2, 3, 5]
ALPHAS = [0.5, 2.0]
RIDGE = 0.1
FIRST_SEED = 1000  # sizes were chosen on runs with smaller ones
READOUT = {"steps": 27, "rates": {"w": 1.5, "bias": 6.0}, "decay": {"w": RIDGE}, "momentum": 0.3, "data": "D1"}
END = 2 * MOST + READOUT["steps"]  # type: ignore[operator]
LOOSE = 1.0  # what is read has its standard error beside it
COLOURS = {0.5: "#56B4E9", 2.0: colour("attention")}


def alternating(rounds: int, alpha: float, rate: float = RATE) -> list[dict[str, Any]]:
    """So many rounds, each of one step of readout and bias and then one of the query, on one data set, as one stage."""

    def turns(first, second):
        return [first, second] * rounds

    rates = {"w": turns(1.0, 0.0), "bias": turns(1.0, 0.0), "q": turns(0.0, rate)}
    return [{"steps": 2 * rounds, "alpha": alpha, "rates": rates, "data": "D0"}]


def with_readout(rounds: int, alpha: float) -> list[dict[str, Any]]:
    """The rounds, idle steps up to the longest (so that all have one shape), and a readout on new data."""
    idle = [{"steps": 2 * (MOST - rounds), "alpha": alpha, "rates": {}, "data": "D0"}] if rounds < MOST else []
    return [*alternating(rounds, alpha), *idle, {**READOUT, "alpha": alpha}]


def grids(sizes: list[int], repeats: int, ends: list[int], bags: int, bags_of_ends: int) -> list[Grid]:
    loose = {**TEN_TOKENS, "accuracy": LOOSE, "bags": bags}
    rounds = [{"alpha": a, "stages": alternating(MOST, a)} for a in ALPHAS]
    # `steps` only labels these points by their number of rounds: the stages say what is done.
    finished = [{"alpha": a, "steps": k, "stages": with_readout(k, a)} for a in ALPHAS for k in ends]
    return [
        Grid("rounds", "trajectory", {**loose, "rows_at": list(range(2, 2 * MOST + 1, 2))}, points=rounds),
        Grid(
            "simulated",
            "simulate_trajectory",
            {**TEN_TOKENS, "rows_at": [2 * k for k in ROUNDS]},
            {"d": sizes},
            points=rounds,
            repeats=repeats,
            first_seed=FIRST_SEED,
        ),
        Grid("finished", "trajectory", {**loose, "bags": bags_of_ends, "rows_at": [END]}, points=finished),
    ]


def _rounds(tables: Tables, name: str, which: list[int]) -> Any:
    """Rows after whole rounds, with their number."""
    table = need(tables, name, ["cosine[q]", "step"])
    return table[table["step"].isin([2 * k for k in which])].assign(rounds=lambda t: t["step"] // 2)


def exact(tables: Tables) -> Judgement:
    simulated, predicted = (_rounds(tables, name, JUDGED[:2]) for name in ("simulated", "rounds"))
    return judge_agreement(simulated, predicted, "cosine[q]", ["alpha", "rounds"], 0.1, "cosine[q]_se")


def falls(tables: Tables) -> Judgement:
    """The simulated cosine after five rounds below that after two."""
    found = extrapolate(_rounds(tables, "simulated", JUDGED), ["alpha", "rounds"], "cosine[q]")
    verdicts, words = [], []
    for alpha, part in found.groupby("alpha"):
        rows = part.set_index("rounds")
        two, five = rows.loc[2], rows.loc[5]
        margin = float(quantile(len(ALPHAS), min(two["degrees"], five["degrees"]))) * np.hypot(
            two["error"], five["error"]
        )
        verdicts.append(greater_verdict(two["limit"] - five["limit"], float(margin)))
        words.append(
            f"{two['limit']:.3f} after two, {five['limit']:.3f} ± {five['error']:.3f} after five (α = {alpha:g})"
        )
    return Judgement(worst(verdicts), "cosine falls after two rounds", "; ".join(words))


def _ends(tables: Tables) -> Any:
    """Test error after the readout, by α and number of rounds."""
    table = need(tables, "finished", ["test_error", "step"])
    return (
        table[table["step"] == table["step"].max()].rename(columns={"steps": "rounds"}).sort_values(["alpha", "rounds"])
    )


def best_at_two(tables: Tables) -> Judgement:
    """Two rounds give the least error of all numbers tried."""
    verdicts, words = [], []
    for alpha, part in _ends(tables).groupby("alpha"):
        rows = part.set_index("rounds")
        two = rows.loc[2]
        for k in rows.index.drop(2):
            error = float(np.hypot(two["test_error_se"], rows.loc[k, "test_error_se"]))
            margin = float(quantile(len(ALPHAS) * (len(rows) - 1), THEORY_DEGREES)) * error
            verdicts.append(greater_verdict(float(rows.loc[k, "test_error"] - two["test_error"]), margin))
        words.append(", ".join(f"{v:.4f} ({k})" for k, v in rows["test_error"].items()) + f" at α = {alpha:g}")
    return Judgement(worst(verdicts), "least after two rounds", "; ".join(words))


def draw(tables: Tables) -> list[Panel]:
    lines, ends = _rounds(tables, "rounds", list(range(1, MOST + 1))), _ends(tables)
    found = extrapolate(_rounds(tables, "simulated", ROUNDS), ["alpha", "rounds"], "cosine[q]")
    cosines: list[Layer] = []
    errors: list[Layer] = []
    for alpha in ALPHAS:
        line, seen = lines[lines["alpha"] == alpha].sort_values("rounds"), found[found["alpha"] == alpha]
        end, shade = ends[ends["alpha"] == alpha], COLOURS[alpha]
        cosines += [
            Line(line["rounds"], line["cosine[q]"], f"α = {alpha:g}: theory", shade),
            Points(seen["rounds"], seen["limit"], seen["error"], f"α = {alpha:g}: simulated, d → ∞", shade),
        ]
        errors += [
            Line(end["rounds"], end["test_error"], "", shade, "dot"),
            Points(end["rounds"], end["test_error"], end["test_error_se"], f"α = {alpha:g}: theory", shade),
        ]
    label = "query steps, each after a readout step"
    return [
        Panel(f"The query after more steps (η_q = {RATE:g})", label, "cos(q, ξ)", cosines),
        Panel("Test error with a readout on new data", label, "test error", errors, logy=True),
    ]


def findings(tables: Tables) -> str:
    ends = _ends(tables)
    lines = _rounds(tables, "rounds", ROUNDS).set_index(["alpha", "rounds"])["cosine[q]"]
    words = []
    for alpha, part in ends.groupby("alpha"):
        rows = part.set_index("rounds")["test_error"]
        words.append(
            f"at α = {alpha:g} the cosine is {lines[alpha, 1]:.3f}, {lines[alpha, 2]:.3f}, {lines[alpha, 5]:.3f} after 1, 2, 5 "
            f"rounds and the error {rows[1]:.4f}, {rows[2]:.4f}, {rows[5]:.4f}"
        )
    return (
        f"Returns stop at the second query step (rate {RATE:g}): {'; '.join(words)}. What the second step adds is "
        "sharpness more than "
        "direction; from the third on the query follows the noise of bags it has already seen, and turns away from the signal."
    )


study = Study(
    name="query-steps",
    title="More query steps: returns stop at two",
    question="The two-step query comes from one gradient step after one step of the readout. Does it pay to go on, "
    "readout step and "
    "query step in turn on the same D₀, before the readout is fitted on new data? (L = 10, R = 1, π = 0.5, θ = 5, "
    f"η_q = {RATE:g}, "
    f"λ = {RIDGE:g}, α₀ = α₁ = α.)",
    notes="The readout on D₁ is 27 steps of gradient descent with momentum. Runs scatter widely after many rounds, "
    "so that theory and "
    "simulation are compared after one and two.",
    grids={
        "quick": grids([400, 1600], 20, [1, 2, 5], QUICK_BAGS, FEW_BAGS),
        "full": grids([1000, 4000], 40, ROUNDS, FULL_BAGS, FULL_BAGS),
    },
    draw=draw,
    findings=findings,
    claims=(
        Claim(
            "query-steps-exact",
            "The trajectory theory gives the alignment after one and two rounds",
            OPEN,
            "cosine of the query at both α, extrapolated to d → ∞, within the margin at level 0.1 %; resolution 0.1",
            exact,
        ),
        Claim(
            "query-steps-turn-away",
            "Further query steps on the same data turn the query away from the signal",
            OPEN,
            "simulated cosine after five rounds below that after two at both α, extrapolated to d → ∞, beyond the margin",
            falls,
        ),
        Claim(
            "two-query-steps-are-enough",
            "The test error with a readout on new data is least after two query steps",
            OPEN,
            "theory: error after two rounds below that after any other number tried, at both α, beyond the margin",
            best_at_two,
        ),
    ),
)

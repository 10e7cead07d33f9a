"""One layer of self-attention whose tokens are averaged, trained at once: the saddle that it starts from, and when it leaves.

At q = k = 0 it is the mean of the tokens read along v + w, and near it the score is that mean plus a term that is bilinear in
q and k. Changing the sign of both changes nothing, so that in the limit of large d a start without overlap with the signal has
none after any number of steps. At finite d the overlap is about 1/sqrt(d) at first and grows, or does not, by a factor per step
that depends on the strength: leaving takes of the order of log d steps, above a strength that depends on the length.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from ...plotting.panels import Layer, Line, Panel, Points, estimates
from ...plotting.style import AXES, OTHER_COLOURS, REFERENCE, marker
from ...study.claims import Judgement, NotJudgeable, Tables, claim, need
from ...study.criteria import ValueWithError, means_of
from ...study.study import Grid
from .common import OPEN, listed, ordered, power_law
from .separation import crossing, exponents, two_strengths

MODEL = "self_attention"
DESCENT: dict[str, Any] = {"sparsity": 1, "prevalence": 0.5, "alpha": 4.0, "rates": 1.0, "decay": 0.1, "model": MODEL}
UNINFORMED = {"q": 1.0, "k": 1.0}  # norms; orthogonal to the signal
SADDLE_STEPS = 12  # overlaps have grown several times by then and are still small
# A start so small that the dynamics of q and k are linear: their overlap grows or shrinks by a factor per step.
FAINT = {"q": 0.1, "k": 0.1, "cosine[q]": 1.0, "cosine[k]": 1.0}
EARLY, LATE = 20, 40  # by the first of these steps v and w have settled
# Strengths on both sides of that at which the overlap is the same after both; from runs on other seeds, and theory from other
# starts.
LEAVING = {5: (2.3, 2.7), 10: (3.5, 3.9), 20: (5.7, 6.1)}
SPECTRAL = {10: 3.2, 20: 4.5}  # strengths below these, by length; where a spectral start is tried
SPECTRAL_STEPS = 40
LEFT = 0.9  # of the error at the saddle: less has left it
SHADE = OTHER_COLOURS[2]


def saddle_grids(length: int, strength: float, sizes: dict[int, int]) -> list[Grid]:
    """Runs from a start independent of the signal, at several dimensions with their repeats."""
    uninformed = {**DESCENT, "steps": SADDLE_STEPS, "rows_at": [SADDLE_STEPS], "start": UNINFORMED}
    fixed = {**uninformed, "length": length, "strength": strength}
    return [
        Grid("saddle", "simulate_trajectory", {**fixed, "d": d}, repeats=times, first_seed=1000)
        for d, times in sizes.items()
    ]


def leaving_spots(lengths: Sequence[int]) -> list[dict[str, Any]]:
    """Points on both sides of the strength at which the saddle is left."""
    common = {**DESCENT, "start": FAINT, "steps": LATE, "rows_at": [EARLY, LATE]}
    return [{**common, "length": n, "strength": s} for n in lengths for s in LEAVING[n]]


def leaving_grids(lengths: Sequence[int], d: int, repeats: int, theory: Sequence[int]) -> list[Grid]:
    """Runs on both sides of the strength at which the saddle is left; lengths of their theory."""
    points = leaving_spots(lengths)
    bags = {5: 1024, 10: 1024, 20: 256}  # per replicate: short bags scatter more and cost less
    exact = [{**spot, "bags": bags[spot["length"]]} for spot in leaving_spots(theory)]
    runs: dict[str, Any] = {"points": points, "repeats": repeats, "first_seed": 1000}
    predicted = [Grid("leaving_predicted", "trajectory", {"accuracy": 1.0}, points=exact)]
    return [Grid("leaving", "simulate_trajectory", {"d": d}, **runs), *(predicted if theory else [])]


def spectral_grids(lengths: Sequence[int], d: int, repeats: int) -> list[Grid]:
    """Runs whose q and k start at random, and along the top eigenvector of as many other bags."""
    task: dict[str, Any] = {**DESCENT, "steps": SPECTRAL_STEPS, "rows_at": [SPECTRAL_STEPS], "sampler": "tensor"}
    aligned = {**UNINFORMED, "cosine[q]": "eigenvector", "cosine[k]": "eigenvector"}
    spots = [{"length": n, "strength": SPECTRAL[n], "start": start} for n in lengths for start in (UNINFORMED, aligned)]
    return [Grid("spectral", "simulate_trajectory", {**task, "d": d}, points=spots, repeats=repeats, first_seed=1000)]


def by_dimension(tables: Tables) -> dict[int, ValueWithError]:
    """Mean size of the cosine of query and signal in the runs that start without knowing it, by dimension."""
    runs = need(tables, "saddle", ["cosine[q]", "d"])
    return dict(sorted(means_of(runs.assign(size=runs["cosine[q]"].abs()), "d", "size").items()))


@claim("self-attention-saddle", OPEN)
def stays(tables: Tables) -> Judgement:
    """Self-attention whose tokens are averaged, from a start that knows nothing of the signal, stays at its saddle, where it is
    pooling, in the limit of large d.

    Simulated overlap of query and signal after 12 steps: exponent -0.5 in d within the margin; resolution 0.3.
    """
    found = by_dimension(tables)
    if len(found) < 2:
        raise NotJudgeable("runs at one dimension")
    sizes, relative = [size.value for size in found.values()], [size.error / size.value for size in found.values()]
    return power_law(list(found), sizes, relative, -0.5, 0.3, listed(found, "d"))


def growth(early: np.ndarray, late: np.ndarray) -> tuple[float, float]:
    """Logarithm of the ratio of two means over the same runs, with its error."""
    means = early.mean(), late.mean()
    if min(means) <= 0 or len(early) < 2:
        raise NotJudgeable("overlaps that are lost in noise")
    scatter = late / means[1] - early / means[0]
    return float(np.log(means[1] / means[0])), float(scatter.std(ddof=1) / np.sqrt(len(early)))


def leaving(tables: Tables) -> dict[str, Any]:
    """Strengths at which the saddle is left by length, simulated and (where it was run) predicted."""
    runs = need(tables, "leaving", ["overlap[q]", "seed"])
    rows = []
    for (length, strength), part in runs.groupby(["length", "strength"]):
        early, late = (part[part["step"] == t].sort_values("seed")["overlap[q]"].to_numpy() for t in (EARLY, LATE))
        value, error = growth(early, late)
        rows.append(
            {"length": length, "strength": strength, "growth": value, "error": error, "degrees": len(early) - 1}
        )
    found = {"simulated": _crossings(pd.DataFrame(rows), independent=True)}
    if "leaving_predicted" in tables:
        rows = []
        for (length, strength), part in need(tables, "leaving_predicted", ["overlap[q]"]).groupby(
            ["length", "strength"]
        ):
            at = part.set_index("step")
            m, se = at["overlap[q]"], at["overlap[q]_se"]
            if not (m > 0).all():
                raise NotJudgeable("overlaps that are lost in noise")
            error = float(np.hypot(se[EARLY] / m[EARLY], se[LATE] / m[LATE]))
            value = float(np.log(m[LATE] / m[EARLY]))
            rows.append({"length": length, "strength": strength, "growth": value, "error": error})
        found["theory"] = _crossings(pd.DataFrame(rows))
    return found


def _crossings(table: Any, independent: bool = False) -> Any:
    """Strength of no growth by length."""
    rows = []
    for named, part in two_strengths(table, ["length"]):
        x, y, errors = (part[name].to_numpy() for name in ("strength", "growth", "error"))
        rows.append({**named, "model": MODEL, **crossing(x, y, errors, part["degrees"] if independent else None)})
    return pd.DataFrame(rows)


def leaving_exponents(tables: Tables) -> dict[str, ValueWithError]:
    """Exponents of those strengths against the length, simulated and predicted."""
    return {source: exponents(rows)[MODEL] for source, rows in leaving(tables).items()}


@claim("self-attention-law", OPEN)
def own_law(tables: Tables) -> Judgement:
    """The strength above which self-attention leaves that saddle grows with the length by a law far from one head's.

    Strength at which a faint overlap of query and signal is the same after 20 and 40 steps: exponent in L, simulated (and, in
    the full form, in theory), above 0.3, midway between one head's and pooling's 1/2, beyond the margin.
    """
    found = leaving_exponents(tables)
    pairs: list[Any] = [(line, 0.3) for line in found.values()]
    words = (
        f"{source}: {dict(zip(rows['length'], rows['strength'].round(3)))}" for source, rows in leaving(tables).items()
    )
    return ordered(pairs, "above 0.3", listed(found), f"θ by L, {'; '.join(words)}")


def by_start(tables: Tables) -> tuple[dict[int, ValueWithError], dict[int, ValueWithError]]:
    """Test errors by length, from a random and from a spectral start."""
    runs = need(tables, "spectral", ["test_error"])
    aligned = runs["start"].map(lambda start: "cosine[q]" in start)
    random, spectral = (means_of(runs[aligned == which], "length", "test_error") for which in (False, True))
    return random, spectral


@claim("self-attention-spectral", OPEN)
def spectral(tables: Tables) -> Judgement:
    """Along the top eigenvector of as many other bags, self-attention leaves that saddle at strengths at which a faint overlap
    shrinks.

    α = 4, L = 10, θ = 3.2 (full form: and L = 20, θ = 4.5), below the simulated strength of no growth: after 40 steps the test
    error is below 0.9 times that from a random start, beyond the margin.
    """
    random, spectral = by_start(tables)
    still = leaving(tables)["simulated"].set_index("length")
    pairs: list[Any] = [(random[n].scaled(LEFT), spectral[n]) for n in spectral]
    pairs += [(ValueWithError(*still.loc[n, ["strength", "error", "degrees"]]), SPECTRAL[n]) for n in spectral]
    return ordered(pairs, f"below {LEFT:g} times {listed(random, 'L')}", listed(spectral, "L"))


def finding(tables: Tables) -> str:
    """The claims in a sentence or two."""
    task, sizes = tables["saddle"].iloc[0], by_dimension(tables)
    random, aligned = by_start(tables)
    exponent = " and ".join(f"{source} {line}" for source, line in leaving_exponents(tables).items())
    return (
        "One layer of self-attention whose tokens are averaged starts at a saddle where it is pooling, and a start that knows "
        "nothing of the signal leaves it the later the larger d is: the cosine of its query with the signal is "
        f"{', '.join(f'{size} at d = {d:g}' for d, size in sizes.items())} after {SADDLE_STEPS} steps (L = "
        f"{task['length']:g}, θ = {task['strength']:g}). Below a strength that grows with the length to the power {exponent} "
        f"it does not leave, unless q and k start along the top eigenvector of as many other bags: then the error after "
        f"{SPECTRAL_STEPS} steps is {listed(aligned, 'L')} instead of {listed(random, 'L')}."
    )


def panels(tables: Tables) -> list[Panel]:
    """The overlap by dimension, and the strength at which the saddle is left by length."""
    found, task, sources = by_dimension(tables), tables["saddle"].iloc[0], leaving(tables)
    d = np.array(list(found), float)
    guide = found[list(found)[-1]].value * (d / d[-1]) ** -0.5
    overlaps: list[Layer] = [
        estimates(found, "random start: simulated", SHADE, marker(MODEL)),
        Line(d, guide, "in proportion to 1/√d", REFERENCE, "dash"),
    ]
    runs = sources["simulated"].sort_values("length")
    line = sources.get("theory", runs).sort_values("length")  # without theory, a line through the runs to guide the eye
    how, dash = ("theory", "solid") if "theory" in sources else ("through the runs", "dash")
    name = f"self-attention: simulated, d = {int(tables['leaving']['d'].max())}"
    strengths: list[Layer] = [
        Line(line["length"], line["strength"], f"self-attention: {how}", SHADE, dash),
        Points(runs["length"], runs["strength"], runs["error"], name, SHADE, marker(MODEL)),
    ]
    title = f"Self-attention after {SADDLE_STEPS} steps (L = {task['length']:g}, θ = {task['strength']:g})"
    leaves = "Where self-attention leaves its saddle"
    return [
        Panel(title, "dimension d", "mean |cos(q, ξ)|", overlaps, logx=True, logy=True),
        Panel(leaves, AXES["length"], "strength θ of no growth", strengths, logx=True),
    ]

"""One layer of self-attention whose tokens are averaged, trained at once: the saddle that it starts from, and when it leaves.

At q = k = 0 it is the mean of the tokens read along v + w, and near it the score is that mean plus a term that is bilinear in
q and k. Changing the sign of both changes nothing, so that in the limit of large d a start without overlap with the signal has
none after any number of steps. At finite d the overlap is about 1/sqrt(d) at first and grows, or does not, by a factor per step
that depends on the strength: leaving takes of the order of log d steps, above a strength that depends on the length.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..._core.averages import combined_degrees
from ...plotting.panels import Layer, Line, Panel, curve, estimates
from ...plotting.style import AXES, OTHER_COLOURS, REFERENCE, marker
from ...study.claims import Judgement, NotJudgeable, Tables, claim, need
from ...study.criteria import ValueWithError, means_of, select
from ...study.study import Grid
from . import OPEN, THEORY_DEGREES
from .claim_builders import listed, log_fit, ordered, power_law

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
    return power_law(log_fit(found), -0.5, 0.3, listed(found, "d"))


def crossing(points: Mapping[float, ValueWithError]) -> ValueWithError:
    """Where the line through two points is zero: of predictions, whose draws are shared, with the larger of the two errors; of
    independent runs, which have degrees of freedom, with both errors by their shares in the crossing."""
    (low, at_low), (high, at_high) = sorted(points.items())
    slope = (at_high.value - at_low.value) / (high - low)
    at = low - at_low.value / slope
    errors = np.array([at_low.error, at_high.error]) / abs(slope)
    if np.isinf(at_low.degrees):
        return ValueWithError(at, float(errors.max()), THEORY_DEGREES)
    share = (at - low) / (high - low)
    shares = np.square(errors * [1 - share, share])
    degrees = combined_degrees(shares, [at_low.degrees, at_high.degrees])
    return ValueWithError(at, float(np.sqrt(shares.sum())), degrees)


def exponent(needed: Mapping[int, ValueWithError]) -> ValueWithError:
    """The line through log strength against log length."""
    if len(needed) < 2:
        raise NotJudgeable("strengths at one length")
    x, error = np.log(list(needed)), np.array([found.error / found.value for found in needed.values()])
    line = log_fit(needed)
    # A point's share in the slope is its lever over its variance.
    lever = (x - np.average(x, weights=error**-2)) / error
    degrees = combined_degrees(lever**2, [found.degrees for found in needed.values()])
    return ValueWithError(line.slope, line.slope_error, degrees)


def growth(rows: Any) -> ValueWithError:
    """Logarithm of the ratio of the mean overlaps after the late and the early step, over the same runs."""
    early, late = (select(rows, {"step": t}).sort_values("seed")["overlap[q]"].to_numpy() for t in (EARLY, LATE))
    means = early.mean(), late.mean()
    if min(means) <= 0 or len(early) < 2:
        raise NotJudgeable("overlaps that are lost in noise")
    scatter = late / means[1] - early / means[0]
    error = float(scatter.std(ddof=1) / np.sqrt(len(early)))
    return ValueWithError(float(np.log(means[1] / means[0])), error, len(early) - 1)


def predicted_growth(rows: Any) -> ValueWithError:
    """The same in theory."""
    (early, late), errors = (rows.set_index("step").loc[[EARLY, LATE], f"overlap[q]{end}"] for end in ("", "_se"))
    if min(early, late) <= 0:
        raise NotJudgeable("overlaps that are lost in noise")
    return ValueWithError(float(np.log(late / early)), float(np.hypot(*(errors / [early, late]))))


def no_growth(table: Any, measure: Callable[[Any], ValueWithError]) -> dict[int, ValueWithError]:
    """The strength at which the overlap is the same after both steps, by length."""
    found = {}
    for length, part in table.groupby("length"):
        points = {strength: measure(rows) for strength, rows in part.groupby("strength")}
        if len(points) < 2:
            raise NotJudgeable(f"one strength for length {length}")
        found[length] = crossing(points)
    return found


def leaving(tables: Tables) -> dict[str, dict[int, ValueWithError]]:
    """Strengths at which the saddle is left by length, simulated and (where it was run) predicted."""
    found = {"simulated": no_growth(need(tables, "leaving", ["overlap[q]", "seed"]), growth)}
    if "leaving_predicted" in tables:
        found["theory"] = no_growth(need(tables, "leaving_predicted", ["overlap[q]"]), predicted_growth)
    return found


@claim("self-attention-law", OPEN)
def own_law(tables: Tables) -> Judgement:
    """The strength above which self-attention leaves that saddle grows with the length by a law far from one head's.

    Strength at which a faint overlap of query and signal is the same after 20 and 40 steps: exponent in L, simulated (and, in
    the full form, in theory), above 0.3, midway between one head's and pooling's 1/2, beyond the margin.
    """
    needed = leaving(tables)
    found = {source: exponent(strengths) for source, strengths in needed.items()}
    rounded = {source: {n: round(v.value, 3) for n, v in line.items()} for source, line in needed.items()}
    words = (f"{source}: {line}" for source, line in rounded.items())
    return ordered([(line, 0.3) for line in found.values()], "above 0.3", listed(found), f"θ by L, {'; '.join(words)}")


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
    still = leaving(tables)["simulated"]
    pairs: list[Any] = [(random[n].scaled(LEFT), spectral[n]) for n in spectral]
    pairs += [(still[n], SPECTRAL[n]) for n in spectral]
    return ordered(pairs, f"below {LEFT:g} times {listed(random, 'L')}", listed(spectral, "L"))


def finding(tables: Tables) -> str:
    """The claims in a sentence or two."""
    task, sizes = tables["saddle"].iloc[0], by_dimension(tables)
    random, aligned = by_start(tables)
    law = " and ".join(f"{source} {exponent(strengths)}" for source, strengths in leaving(tables).items())
    return (
        "One layer of self-attention whose tokens are averaged starts at a saddle where it is pooling, and a start that knows "
        "nothing of the signal leaves it the later the larger d is: the cosine of its query with the signal is "
        f"{', '.join(f'{size} at d = {d:g}' for d, size in sizes.items())} after {SADDLE_STEPS} steps (L = "
        f"{task['length']:g}, θ = {task['strength']:g}). Below a strength that grows with the length to the power {law} "
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
    runs = sources["simulated"]
    # Without theory, a line through the runs to guide the eye.
    how, dash = ("theory", "solid") if "theory" in sources else ("through the runs", "dash")
    name = f"self-attention: simulated, d = {int(tables['leaving']['d'].max())}"
    strengths: list[Layer] = [
        curve(sources.get("theory", runs), f"self-attention: {how}", SHADE, dash),
        estimates(runs, name, SHADE, marker(MODEL)),
    ]
    title = f"Self-attention after {SADDLE_STEPS} steps (L = {task['length']:g}, θ = {task['strength']:g})"
    leaves = "Where self-attention leaves its saddle"
    return [
        Panel(title, "dimension d", "mean |cos(q, ξ)|", overlaps, logx=True, logy=True),
        Panel(leaves, AXES["length"], "strength θ of no growth", strengths, logx=True),
    ]

"""The views against the strength ("Capacity") and against the length of bags ("Strength needed", "Longer bags")."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from ..plotting.style import OTHER_COLOURS, REFERENCE, colour, label
from ..theory import Capacity
from ..theory.ladder import long_bag_exponent
from .drawing import MOST_POINTS, axis, cross, figure, line, log_axis, refined, upright
from .fields import LONGEST, MODELS, State
from .forecasts import attempt, needed, tested_at, threshold

LENGTHS = (3, 10, 30, 100, 300, 1_000, 3_000, 10_000, 30_000, 100_000)
METHODS = {
    "error": ("trained:vectorized", "trained:pooled", "trained:attention", "message_passing", "bayes"),
    "cosine": ("pooled", "products:1", "products:2", "eigenvector", "message_passing", "bayes"),
}
LATER = ("message_passing", "bayes")  # seconds for a point of long bags: in the exact answer alone


def target_of(state: State) -> float | None:
    """The test error to reach, a fifth of a guess's: 10 % for equal classes. None for a cosine of 1/2."""
    prevalence = state.task.prevalence
    return 0.2 * min(prevalence, 1 - prevalence) if state.goal == "error" else None


def methods_of(state: State, quick: bool) -> tuple[str, ...]:
    """The methods shown."""
    return tuple(method for method in METHODS[state.goal] if not (quick and method in LATER))


def needed_view(state: State, quick: bool) -> dict[str, Any]:
    """Strength needed against length on logarithmic axes, with the slopes of long bags beside the lines."""
    failures: list[str] = []
    lines = {
        method: _line(state, method, place, quick, failures) for place, method in enumerate(methods_of(state, quick))
    }
    guides = [_guide(method, drawn, state.goal == "cosine") for method, drawn in lines.items() if drawn["x"]]
    target, here = target_of(state), (state.task.longest, state.task.mean_strength)
    goal = "cosine ½ with the signal" if target is None else f"{100 * target:.3g} % test error"
    remarks = [] if target is None else ["attention has the sharpness √(2 log L) at every length"]
    remarks += ["message passing and the Bayes limit follow"] * quick
    values = [y for drawn in lines.values() for y in drawn["y"]]
    return figure(
        f"Strength needed for {goal}, against the length of bags",
        [*lines.values(), *guides, cross("your L and θ", here[0], here[1] or None)],
        log_axis("tokens per bag L", LENGTHS, range=[math.log10(2.5), math.log10(4 * LENGTHS[-1])]),
        log_axis("strength θ needed", [*values, here[1]]),
        failures=failures,
        remark="; ".join(remarks),
        finding=_finding(lines, *here),
    )


def _line(state: State, method: str, place: int, quick: bool, failures: list[str]) -> dict[str, Any]:

    def at(length: float) -> float | None:
        task = state.task.but(length=int(length), strength=1.0)
        return attempt(lambda: needed(task, state.training, method, target_of(state)), failures)

    lengths = [length for length in LENGTHS if length > state.task.mean_sparsity]
    if method in LATER:
        lengths = lengths[1::2]
    most = 0 if quick or method in LATER else MOST_POINTS
    strengths = refined(at, lengths, _height, most=most, whole=True)
    shown = [value if 0 < value < math.inf else math.nan for value in strengths.values()]
    return line(label(method.removeprefix("trained:")), [*strengths], shown, colour(method, place), method)


def _height(strength: float) -> float:
    return math.log10(strength) / 3 if 0 < strength < math.inf else math.nan


def exponent(method: str, cosine: bool) -> float | None:
    """The power of L with which the strength grows in long bags; None for a logarithm."""
    if method == "trained:vectorized":
        return 0.75  # it has d L weights to learn
    name = method.removeprefix("trained:")
    return long_bag_exponent("products:1" if name == "attention" else name, cosine)


def _guide(method: str, drawn: dict[str, Any], cosine: bool) -> dict[str, Any]:
    """A dashed line of the slope of long bags beside the line's end, with its power of L."""
    power, (x, y) = exponent(method, cosine), (drawn["x"][-1], drawn["y"][-1] or math.nan)
    places = np.geomspace(x / 100, 1.6 * x, 9)
    if power is None:
        heights, text = np.sqrt(np.log(places) / np.log(x)), "√log L"
    else:
        heights, text = (places / x) ** power, f"L<sup>{Fraction(power).limit_denominator(20)}</sup>"
    guide = line(text, places.tolist(), 1.12 * y * heights, REFERENCE, f"{method}_guide", dash="dot", showlegend=False)
    guide["line"]["width"] = 1
    at_the_end = {"text": [""] * (len(places) - 1) + [text], "textposition": "middle right", "cliponaxis": False}
    return {**guide, "mode": "lines+text", "hoverinfo": "skip", **at_the_end}


def _finding(lines: dict[str, dict[str, Any]], length: int, strength: float) -> str:
    enough = []
    for drawn in lines.values():
        points = [(x, y) for x, y in zip(drawn["x"], drawn["y"]) if y is not None]
        if points and strength > 0:
            x, y = np.log(points).T
            enough += [drawn["name"]] * bool(math.log(strength) >= np.interp(math.log(length), x, y))
    return f"At your L and θ the signal is strong enough for: {', '.join(enough) or 'none of them'}."


def lengths_view(state: State, quick: bool) -> dict[str, Any]:
    """Attention trained at this length and tested on longer bags: error, AUC and sensitivity against their length."""
    here = state.task.longest
    furthest = min(100 * here, LONGEST)
    spaced = np.geomspace(here, furthest, 5 if quick else 9) if furthest > here else [here]
    lengths = sorted({round(float(length)) for length in spaced})
    failures: list[str] = []

    def at(length: float) -> dict[str, float] | None:
        return attempt(lambda: tested_at(state.task, state.training, int(length), quick), failures)

    most = 0 if quick else 21
    rows = refined(at, lengths, lambda row: row["test_error"] + row["sensitivity"], most=most, whole=True)
    shown = (
        ("test_error", "test error", colour("attention"), "solid"),
        ("threshold_error", "error, threshold refitted", colour("attention"), "dash"),
        ("auc", "AUC", OTHER_COLOURS[0], "solid"),
        ("sensitivity", "sensitivity", OTHER_COLOURS[1], "solid"),
    )
    lines = [
        line(heading, [*rows], [row[name] for row in rows.values()], ink, name, dash=dash)
        for name, heading, ink, dash in shown
    ]
    finding = ""
    if len(rows) > 1:
        first, *_, last = rows.values()
        finding = f"Here the error goes from {first['test_error']:.3g} to {last['test_error']:.3g}"
        finding += f", to {last['threshold_error']:.3g} with a refitted threshold."
    return figure(
        f"Attention trained at L = {here}, tested on longer bags",
        lines,
        log_axis("tokens per bag at test time", lengths),
        axis("share of bags", range=[-0.02, 1.02]),
        failures=failures,
        finding=finding,
    )


def capacity_view(state: State, quick: bool) -> dict[str, Any]:
    """The separability threshold alpha* against the strength, and the readout's alpha1."""
    here, alpha1 = state.task.mean_strength, state.training.alpha1
    strengths = sorted({*np.linspace(0.0, max(2 * here, 4.0), 5 if quick else 9).tolist(), here})
    traces, never, separable = [], 0, []
    failures: list[str] = []
    for model in MODELS:

        def at(strength: float, model: str = model) -> Capacity | None:
            task = state.task.but(strength=strength)
            return attempt(lambda: threshold(task, state.training, model, quick), failures)

        def height(capacity: Capacity) -> float:
            return float(np.log10(capacity.alpha)) / 2 if np.isfinite(capacity.alpha) else np.nan

        capacities = refined(at, strengths, height, most=0 if quick else 21, logarithmic=False)
        alphas, errors = ([getattr(c, name) for c in capacities.values()] for name in ("alpha", "standard_error"))
        traces.append(line(label(model), [*capacities], alphas, colour(model), model, errors=errors))
        never += float("inf") in alphas
        separable += [label(model)] * (here in capacities and capacities[here].alpha > alpha1)
    ends = [strengths[0], strengths[-1]]
    traces.append(line("readout's samples α₁", ends, [alpha1] * 2, REFERENCE, "alpha1", dash="dash"))
    return figure(
        "Capacity: the readout's data are separable below the line, not above",
        traces,
        axis("strength θ"),
        log_axis("capacity α* = n₁/d", [alpha1, *(v for trace in traces for v in trace["y"])]),
        failures=failures,
        remark="where a line ends, no bag drawn lies on the wrong side" if never else "",
        finding=f"Here your α₁ = {alpha1:g} can be fitted without error by {', '.join(separable) or 'no model'}.",
        shapes=[upright(here)],
    )

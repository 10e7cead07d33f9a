"""Inverse questions: how many samples, how weak a signal, how long a bag, and from where attention beats pooling.

Each is a root of (criterion's loss - target) along one parameter with everything else kept and every learner at its best
settings, found by bracketing on a logarithmic scale and Brent's method (integers: bisection).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from scipy.optimize import brentq

from ..task import Task
from .learners import LEARNERS, NAMES, Outlook

ALPHAS = (0.02, 2000.0)  # n/d searched
STRENGTHS = (0.05, 100.0)
LONGEST = 20_000
ADVANTAGE = 0.05  # attention beats pooling where its loss is smaller by this share
_PRECISION = 0.01  # of the logarithm of the answer

FOUND, IMPOSSIBLE, BEYOND, ALWAYS, HARD = "found", "impossible", "beyond", "always", "hard"


@dataclass(frozen=True)
class Answer:
    """An answer to one question for one learner.

    status   "found": `value` is the answer; "always": met already at the low end searched (`value`); "impossible": the
             learner's own limit is above the target; "beyond": not within the range searched (`value` is its end);
             "hard": `value` is where it becomes possible in principle, below what any known fast method needs
    words    the answer as a sentence
    """

    question: str
    learner: str
    status: str
    value: float | None
    words: str

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def falling_root(gap: Callable[[float], float], first: float, low: float, high: float) -> tuple[str, float]:
    """Where a falling gap(x) passes zero: ("found", x), ("always", low) or ("beyond", high); x on a logarithmic scale."""
    x = min(max(first, low), high)
    value = gap(x)
    factor = 2.0
    other, other_value = x, value
    while (value > 0) == (other_value > 0):
        x, value = other, other_value
        if value > 0 and x >= high:
            return BEYOND, high
        if value <= 0 and x <= low:
            return ALWAYS, low
        other = min(x * factor, high) if value > 0 else max(x / factor, low)
        other_value = gap(other)
        factor *= 1.5
    ends = sorted((math.log(x), math.log(other)))
    known = {math.log(x): value, math.log(other): other_value}
    root = brentq(lambda u: known[u] if u in known else gap(math.exp(u)), *ends, xtol=_PRECISION)
    return FOUND, math.exp(root)


def samples_needed(outlook: Outlook, task: Task, d: int, target: float, first: float, learner: str) -> Answer:
    """n at which a learner's loss meets the target; `first` is an n/d to start from."""
    name, goal = NAMES[learner], _goal(outlook, target)
    floor = outlook.limit("optimal", task)
    if floor >= target:
        shown = outlook.criterion.shown(floor)
        words = f"impossible at this strength: even with the signal known, {outlook.criterion.label} is {shown:.3g}"
        return Answer("samples", learner, IMPOSSIBLE, None, words)
    own = outlook.limit(learner, task)
    if own >= target:
        shown = outlook.criterion.shown(own)
        words = f"impossible for {name}: with samples without end its {outlook.criterion.label} is {shown:.3g}"
        return Answer("samples", learner, IMPOSSIBLE, None, words)
    gap = lambda alpha: outlook.measured(learner, task, alpha).loss - target  # noqa: E731
    status, alpha = falling_root(gap, first, *ALPHAS)
    n = math.ceil(alpha * d)
    if status == BEYOND:
        return Answer("samples", learner, status, n, f"{name} needs more than {n:,} samples for {goal}")
    if status == ALWAYS:
        return Answer("samples", learner, status, n, f"{name} reaches {goal} with fewer than {n:,} samples")
    return Answer("samples", learner, status, n, f"{name} reaches {goal} with about {_rounded(n):,} samples")


def all_samples_needed(outlook: Outlook, task: Task, d: int, target: float, first: float) -> list[Answer]:
    """`samples_needed` for every learner; the Bayes limit's answer says where the hard phase lies."""
    answers = {learner: samples_needed(outlook, task, d, target, first, learner) for learner in LEARNERS}
    fast, best = answers["message_passing"], answers["optimal"]
    if best.status == FOUND and fast.value is not None and best.value is not None and best.value < 0.95 * fast.value:
        words = (
            f"possible in principle from about {_rounded(best.value):,} samples; "
            f"no known fast method below {_rounded(fast.value):,}"
        )
        answers["optimal"] = Answer("samples", "optimal", HARD, best.value, words)
    return list(answers.values())


def weakest_strength(outlook: Outlook, task: Task, alpha: float, target: float, learner: str) -> Answer:
    """The strength theta from which a learner meets the target with alpha = n/d samples."""
    name, goal = NAMES[learner], _goal(outlook, target)
    gap = lambda theta: outlook.measured(learner, task.but(strength=theta), alpha).loss - target  # noqa: E731
    status, theta = falling_root(gap, max(task.strength, 1.0), *STRENGTHS)
    if status == BEYOND:
        words = f"{name} does not reach {goal} with this many samples at any strength up to {theta:g}"
    elif status == ALWAYS:
        words = f"{name} reaches {goal} at any strength from {theta:g} on"
    else:
        words = f"{name} reaches {goal} from strength {theta:.3g} on"
    return Answer("strength", learner, status, theta, words)


def longest_length(outlook: Outlook, task: Task, alpha: float, target: float, learner: str = "attention") -> Answer:
    """The longest bag (same number of signal tokens) at which a learner still meets the target."""
    name, goal = NAMES[learner], _goal(outlook, target)
    meets = lambda length: outlook.measured(learner, task.but(length=length), alpha).loss <= target  # noqa: E731
    shortest = task.sparsity
    good = task.length if meets(task.length) else None
    bad = None if good else task.length
    while bad is None and good is not None:
        longer = min(2 * good, LONGEST)
        if meets(longer):
            good = longer
        else:
            bad = longer
        if good == LONGEST:
            return Answer("length", learner, BEYOND, good, f"{name} reaches {goal} at every length up to {good:,}")
    while good is None and bad is not None:
        shorter = max(bad // 2, shortest)
        if meets(shorter):
            good = shorter
        elif shorter == shortest:
            return Answer("length", learner, IMPOSSIBLE, None, f"{name} does not reach {goal} at any length")
        else:
            bad = shorter
    assert good is not None and bad is not None
    while bad - good > max(1, int(2 * _PRECISION * good)):
        middle = round(math.sqrt(good * bad))
        middle = min(max(middle, good + 1), bad - 1)
        if meets(middle):
            good = middle
        else:
            bad = middle
    return Answer("length", learner, FOUND, good, f"{name} reaches {goal} up to a length of about {good:,} tokens")


def attention_over_pooling(outlook: Outlook, task: Task, d: int, first: float) -> Answer:
    """n from which tuned attention beats tuned pooling by `ADVANTAGE` of pooling's loss.

    At its gentlest settings attention is pooling, so without a margin the question has no answer.
    """
    share = f"{ADVANTAGE:.0%}"
    if outlook.limit("attention", task) >= (1 - ADVANTAGE) * outlook.limit("pooled", task):
        words = f"impossible: even with samples without end attention is not {share} better than pooling here"
        return Answer("crossing", "attention", IMPOSSIBLE, None, words)

    def gap(alpha: float) -> float:
        pooled = outlook.measured("pooled", task, alpha).loss
        return outlook.measured("attention", task, alpha).loss / pooled - (1 - ADVANTAGE)

    status, alpha = falling_root(gap, first, *ALPHAS)
    n = math.ceil(alpha * d)
    if status == BEYOND:
        words = f"attention is less than {share} better than pooling up to {n:,} samples"
    elif status == ALWAYS:
        words = f"attention is more than {share} better than pooling from fewer than {n:,} samples on"
    else:
        words = f"attention is more than {share} better than pooling from about {_rounded(n):,} samples on"
    return Answer("crossing", "attention", status, n, words)


def _goal(outlook: Outlook, target: float) -> str:
    return f"{outlook.criterion.label} {outlook.criterion.shown(target):.3g}"


def _rounded(n: float) -> int:
    """To the two or three digits that the search's precision supports."""
    digits = max(0, math.floor(math.log10(max(n, 1))) - 2)
    return round(math.ceil(n / 10**digits) * 10**digits)

"""Inverse questions: how many samples, how weak a signal, how long a bag, and from where attention beats pooling.

Each is a root of (criterion's loss - target) along one parameter with everything else kept and every learner at its best
settings, found by bracketing on a logarithmic scale and Brent's method (integers: bisection).
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from .._core.rootfind import ALWAYS, BEYOND, FOUND, falling_root, last_that_holds
from ..task import Task
from .learners import LEARNERS, NAMES, RESOLVED, Outlook
from .tuning import LEAST_BAGS

ALPHAS = (0.02, 2000.0)  # n/d searched
STRENGTHS = (0.05, 100.0)
LONGEST = 20_000
ADVANTAGE = 0.05  # attention beats pooling where its loss is smaller by this share
_PRECISION = 0.01  # of the logarithm of the answer

IMPOSSIBLE, HARD, UNRESOLVED = "impossible", "hard", "unresolved"


@dataclass(frozen=True)
class Answer:
    """An answer to one question for one learner.

    Attributes
    ----------
    question, learner : str
        What was asked, of whom.
    status : str
        "found": `value` is the answer; "always": met already at the low end searched (`value`); "impossible": the learner's
        own limit is above the target; "beyond": not within the range searched (`value` is its end); "hard": `value` is
        where it becomes possible in principle, below what any known fast method needs; "unresolved": the target is a tail
        that the learner's forecast cannot resolve.
    value : float or None
        The answer.
    words : str
        The answer as a sentence.
    """

    question: str
    learner: str
    status: str
    value: float | None
    words: str

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain data."""
        return asdict(self)


def samples_needed(outlook: Outlook, task: Task, d: int, target: float, first: float, learner: str) -> Answer:
    """n at which a learner's loss meets the target; `first` is an n/d to start from."""
    name, goal = NAMES[learner], _goal(outlook, target)
    if (refused := _unresolved("samples", outlook, target, learner)) is not None:
        return refused
    floor = outlook.limit("optimal", task)
    if floor >= target:
        shown = outlook.criterion.shown(floor)
        words = f"impossible at this strength: even with the signal known, {outlook.criterion.label} is {shown:.3g}"
        return Answer("samples", learner, IMPOSSIBLE, None, words)
    own = outlook.limit(learner, task)
    if own >= target:
        shown = outlook.criterion.shown(own)
        words = f"impossible for {name}: with unlimited samples its {outlook.criterion.label} is {shown:.3g}"
        return Answer("samples", learner, IMPOSSIBLE, None, words)
    gap = lambda alpha: outlook.measured(learner, task, alpha).loss - target  # noqa: E731
    status, alpha = falling_root(gap, first, *_alphas(outlook), precision=_PRECISION)
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
    if (refused := _unresolved("strength", outlook, target, learner)) is not None:
        return refused
    gap = lambda theta: outlook.measured(learner, task.but(strength=theta), alpha).loss - target  # noqa: E731
    status, theta = falling_root(gap, max(task.strength, 1.0), *STRENGTHS, precision=_PRECISION)
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
    if (refused := _unresolved("length", outlook, target, learner)) is not None:
        return refused
    meets = lambda length: outlook.measured(learner, task.but(length=length), alpha).loss <= target  # noqa: E731
    status, length = last_that_holds(meets, task.length, task.sparsity, LONGEST, precision=2 * _PRECISION)
    if status == "never":
        return Answer("length", learner, IMPOSSIBLE, None, f"{name} does not reach {goal} at any length")
    if status == BEYOND:
        return Answer("length", learner, BEYOND, length, f"{name} reaches {goal} at every length up to {length:,}")
    return Answer("length", learner, FOUND, length, f"{name} reaches {goal} up to a length of about {length:,} tokens")


def attention_over_pooling(outlook: Outlook, task: Task, d: int, first: float) -> Answer:
    """n from which tuned attention beats tuned pooling by `ADVANTAGE` of pooling's loss.

    At its gentlest settings attention is pooling, so without a margin the question has no answer.
    """
    share = f"{ADVANTAGE:.0%}"
    if outlook.limit("attention", task) >= (1 - ADVANTAGE) * outlook.limit("pooled", task):
        words = f"impossible: even with unlimited samples attention is not {share} better than pooling here"
        return Answer("crossing", "attention", IMPOSSIBLE, None, words)

    def gap(alpha: float) -> float:
        pooled = outlook.measured("pooled", task, alpha).loss
        return outlook.measured("attention", task, alpha).loss / pooled - (1 - ADVANTAGE)

    status, alpha = falling_root(gap, first, *_alphas(outlook), precision=_PRECISION)
    n = math.ceil(alpha * d)
    if status == BEYOND:
        words = f"attention is less than {share} better than pooling up to {n:,} samples"
    elif status == ALWAYS:
        words = f"attention is more than {share} better than pooling from fewer than {n:,} samples on"
    else:
        words = f"attention is more than {share} better than pooling from about {_rounded(n):,} samples on"
    return Answer("crossing", "attention", status, n, words)


def _unresolved(question: str, outlook: Outlook, target: float, learner: str) -> Answer | None:
    """The answer to a question about a tail that attention's sampled law cannot resolve; None where it can."""
    if learner != "attention" or target >= RESOLVED:
        return None
    words = f"attention's forecast does not resolve losses below {RESOLVED:g}: ask for a larger target"
    return Answer(question, learner, UNRESOLVED, None, words)


def _alphas(outlook: Outlook) -> tuple[float, float]:
    """The n/d searched: from where D0 and D1 have the least number of bags on."""
    low = ALPHAS[0] if outlook.d is None else max(ALPHAS[0], 4 * LEAST_BAGS / outlook.d)
    return low, max(ALPHAS[1], 2 * low)


def _goal(outlook: Outlook, target: float) -> str:
    return f"{outlook.criterion.label} {outlook.criterion.shown(target):.3g}"


def _rounded(n: float) -> int:
    """To the two or three digits that the search's precision supports."""
    digits = max(0, math.floor(math.log10(max(n, 1))) - 2)
    return round(math.ceil(n / 10**digits) * 10**digits)

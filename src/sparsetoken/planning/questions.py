"""Inverse questions: how many samples, how weak or sparse or rare a signal, how long a bag, how large a dimension.

And from where on attention beats pooling.

Each is a root of (criterion's loss - target) along one parameter with everything else kept and every learner at its best
settings, found by bracketing on a logarithmic scale and Brent's method (integers: bisection).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from .._core.rootfind import ALWAYS, BEYOND, FOUND, falling_root, last_that_holds
from ..task import Task
from .criterion import RESOLVED
from .learners import NAMES, Outlook, learners_of
from .tuning import LEAST_BAGS

ALPHAS = (0.02, 2000.0)  # n/d searched
STRENGTHS = (0.05, 100.0)
DIMENSIONS = (2, 1_000_000)
PREVALENCES = (0.001, 0.5)
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

    def gap(alpha):
        return outlook.measured(learner, task, alpha).loss - target

    status, alpha = falling_root(gap, first, *_alphas(outlook), precision=_PRECISION)
    n = math.ceil(alpha * d)
    if status == BEYOND:
        return Answer("samples", learner, status, n, f"{name} needs more than {n:,} samples for {goal}")
    if status == ALWAYS:
        return Answer("samples", learner, status, n, f"{name} reaches {goal} with fewer than {n:,} samples")
    return Answer("samples", learner, status, n, f"{name} reaches {goal} with about {rounded(n):,} samples")


def all_samples_needed(outlook: Outlook, task: Task, d: int, target: float, first: float) -> list[Answer]:
    """`samples_needed` for every learner; the Bayes limit's answer says where the hard phase lies."""
    answers = {learner: samples_needed(outlook, task, d, target, first, learner) for learner in learners_of(task)}
    fast, best = answers["message_passing"], answers["optimal"]
    if best.status == FOUND and fast.value is not None and best.value is not None and best.value < 0.95 * fast.value:
        words = (
            f"possible in principle from about {rounded(best.value):,} samples; "
            f"no known fast method below {rounded(fast.value):,}"
        )
        answers["optimal"] = Answer("samples", "optimal", HARD, best.value, words)
    return list(answers.values())


def weakest_strength(outlook: Outlook, task: Task, alpha: float, target: float, learner: str) -> Answer:
    """The strength theta (mean of the strengths) from which a learner meets the target with alpha = n/d samples."""
    name, goal = NAMES[learner], _goal(outlook, target)
    if (refused := _unresolved("strength", outlook, target, learner)) is not None:
        return refused

    def gap(theta):
        return outlook.measured(learner, task.at_strength(theta), alpha).loss - target

    status, theta = falling_root(gap, max(task.mean_strength, 1.0), *STRENGTHS, precision=_PRECISION)
    if status == BEYOND:
        words = f"{name} does not reach {goal} with this many samples at any strength up to {theta:g}"
    elif status == ALWAYS:
        words = f"{name} reaches {goal} at any strength from {theta:g} on"
    else:
        words = f"{name} reaches {goal} from strength {theta:.3g} on"
    return Answer("strength", learner, status, theta, words)


def longest_length(outlook: Outlook, task: Task, alpha: float, target: float, learner: str = "attention") -> Answer:
    """The longest (mean) length, with the same number of signal tokens, at which a learner still meets the target."""
    name, goal = NAMES[learner], _goal(outlook, target)
    if (refused := _unresolved("length", outlook, target, learner)) is not None:
        return refused

    def meets(length):
        return outlook.measured(learner, task.at_length(length), alpha).loss <= target

    least = max(kind.sparsity for kind in task.kinds)
    status, length = last_that_holds(meets, round(task.mean_length), least, LONGEST, precision=2 * _PRECISION)
    if status == "never":
        return Answer("length", learner, IMPOSSIBLE, None, f"{name} does not reach {goal} at any length")
    if status == BEYOND:
        return Answer("length", learner, BEYOND, length, f"{name} reaches {goal} at every length up to {length:,}")
    return Answer("length", learner, FOUND, length, f"{name} reaches {goal} up to a length of about {length:,} tokens")


def largest_dimension(make: Callable[[int], Outlook], task: Task, n: int, target: float, learner: str) -> Answer:
    """The largest dimension d at which a learner meets the target with n samples; `make` gives the outlook at d."""
    first = make(DIMENSIONS[0])
    name, goal = NAMES[learner], _goal(first, target)
    if (refused := _unresolved("dimension", first, target, learner)) is not None:
        return refused

    def meets(d):
        return make(d).measured(learner, task, n / d).loss <= target

    status, d = last_that_holds(meets, max(n // 4, DIMENSIONS[0]), *DIMENSIONS, precision=2 * _PRECISION)
    if status == "never":
        return Answer(
            "dimension", learner, IMPOSSIBLE, None, f"{name} does not reach {goal} in any dimension from {d} on"
        )
    if status == BEYOND:
        return Answer("dimension", learner, BEYOND, d, f"{name} reaches {goal} in every dimension up to {d:,}")
    return Answer("dimension", learner, FOUND, d, f"{name} reaches {goal} up to a dimension of about {rounded(d):,}")


def fewest_signal_tokens(outlook: Outlook, task: Task, alpha: float, target: float, learner: str) -> Answer:
    """The least number R of signal tokens with which a learner meets the target (same length and strength)."""
    name, goal = NAMES[learner], _goal(outlook, target)
    if (refused := _unresolved("sparsity", outlook, target, learner)) is not None:
        return refused
    task.require_plain("the fewest signal tokens", "length", "sparsity")
    length, sparsity, *_ = task.kinds[0]

    def misses(count):
        return outlook.measured(learner, task.but(sparsity=count), alpha).loss > target

    status, last = last_that_holds(misses, sparsity, 1, length, precision=2 * _PRECISION)
    if status == BEYOND:
        words = f"{name} does not reach {goal} even with all {length:,} tokens carrying the signal"
        return Answer("sparsity", learner, IMPOSSIBLE, None, words)
    fewest = 1 if status == "never" else last + 1
    plural = "token" if fewest == 1 else "tokens"
    words = f"{name} reaches {goal} with {fewest:,} signal {plural} of {length:,}"
    return Answer("sparsity", learner, ALWAYS if fewest == 1 else FOUND, fewest, words)


def least_prevalence(outlook: Outlook, task: Task, alpha: float, target: float, learner: str) -> Answer:
    """The rarest positives, up to one half, with which a learner meets a target that does not weigh by prevalence."""
    name, goal = NAMES[learner], _goal(outlook, target)
    if outlook.criterion.weighs_prevalence:
        raise ValueError(
            f"prevalence cannot be solved for by {outlook.criterion}, which rare positives make small by themselves; "
            "use the criterion balanced_error, auc or sensitivity@0.95"
        )
    if (refused := _unresolved("prevalence", outlook, target, learner)) is not None:
        return refused

    def gap(pi):
        return outlook.measured(learner, task.but(prevalence=pi), alpha).loss - target

    status, pi = falling_root(gap, min(task.prevalence, 0.5), *PREVALENCES, precision=_PRECISION)
    if status == BEYOND:
        words = f"{name} does not reach {goal} with this many samples at any prevalence up to {pi:g}"
        return Answer("prevalence", learner, IMPOSSIBLE, None, words)
    words = f"{name} reaches {goal} from a prevalence of {pi:.3g} on"
    return Answer("prevalence", learner, status, pi, words)


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
        words = f"attention is more than {share} better than pooling from about {rounded(n):,} samples on"
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


def rounded(n: float) -> int:
    """To the two or three digits that the search's precision supports."""
    digits = max(0, math.floor(math.log10(max(n, 1))) - 2)
    return round(math.ceil(n / 10**digits) * 10**digits)

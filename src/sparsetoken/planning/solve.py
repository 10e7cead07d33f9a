"""Inverse questions: how many bags, how weak, sparse or rare a signal, how long a bag, how large a dimension.

Each is a root of (criterion's loss - target) along one parameter with everything else kept and every learner at its best
settings. `solve` answers one of them; `plan` asks several.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from .._core.root_finding import ALWAYS, BEYOND, FOUND, Root, falling_root, last_that_holds
from .._core.validation import rejection, whole_number
from ..losses import Loss
from ..plotting.style import label
from ..task import Task
from .criterion import RESOLVED, Criterion
from .forecast_at import fewest_simulated_bags, mean_loss, simulated_losses
from .outlook import LEARNERS, TRAINED, Outlook, learners_of
from .tuning import LEAST_BAGS, MOST_BAGS, MOST_DIMENSIONS

UNKNOWNS = ("n", "d", "error", "length", "sparsity", "strength", "prevalence")
# What is searched; lengths up to the last.
ALPHAS, STRENGTHS, DIMENSIONS, PREVALENCES, LONGEST = (0.02, 2000.0), (0.05, 100.0), (2, 10**6), (0.001, 0.5), 20_000
ADVANTAGE = 0.05  # a learner is better than a simpler one where its loss is smaller by this share
_PRECISION = 0.01  # of the logarithm of the answer
IMPOSSIBLE, HARD, UNRESOLVED = "impossible", "hard", "unresolved"
NEVER = "never"  # how `last_that_holds` says that nothing holds
Ended = tuple[str, float]  # the status of a search, and where it ended


@dataclass(frozen=True, repr=False)
class Answer:
    """An answer to one question for one learner.

    Attributes
    ----------
    unknown : str
        The quantity solved for: one of `UNKNOWNS`, or "crossing" (the n from which attention beats pooling).
    learner : str
        The learner.
    status : str
        "found": `value` is the answer; "always": met already at the low end searched (`value`); "impossible": the learner's
        limit is above the target; "beyond": not within the range searched (`value` is its end); "hard": `value` is
        where it becomes possible in principle, below what any known fast method needs; "unresolved": the target is a tail
        that the learner's forecast cannot resolve.
    value : float or None
        The answer (n/d where no dimension was given); None where there is none.
    words : str
        The answer as a sentence.
    task : Task or None
        The task, with the value in it where the unknown is a field of it.
    n, d : int or None
        Bags and dimension at the answer; None in the limit of large n and d.
    simulated, standard_error, spread : float or None
        Mean of the criterion's value over training sets simulated at the answer, its standard error, and the standard
        deviation from one training set to the next; None where nothing was simulated.
    """

    unknown: str
    learner: str
    status: str
    value: float | None
    words: str
    task: Task | None = field(default=None, compare=False)
    n: int | None = None
    d: int | None = None
    simulated: float | None = None
    standard_error: float | None = None
    spread: float | None = None

    @property
    def solved(self) -> bool:
        """Whether there is a value that meets the target."""
        return self.status in (FOUND, ALWAYS)

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain data."""
        return asdict(self) | {"task": None if self.task is None else self.task.to_dict()}

    def __repr__(self) -> str:
        return f"Answer({self.unknown} for {self.learner}: {self.words})"

    def __str__(self) -> str:
        text = self.words[0].upper() + self.words[1:] + "."
        if self.simulated is not None:
            text += (
                f"\nSimulated there: {self.simulated:.3g} ± {self.standard_error:.1g} on average; "
                f"one training set differs from the next by {self.spread:.1g} (standard deviation)."
            )
        return text


@dataclass(frozen=True)
class Question:
    """A learner, its task and size, and the loss aimed at; n is None where it is the unknown, d in the limit."""

    outlook: Outlook
    task: Task
    n: int | None
    target: float
    learner: str = "attention"

    @property
    def d(self) -> int | None:
        return self.outlook.d

    @property
    def alpha(self) -> float:
        """n/d."""
        assert self.n is not None and self.d is not None
        return self.n / self.d

    def goal(self, reached: bool = True) -> str:
        """Whether the learner reaches its target, as the beginning of a sentence."""
        criterion, verb = self.outlook.criterion, "reaches" if reached else "does not reach"
        return f"{label(self.learner)} {verb} {criterion.label} {criterion.shown(self.target):.3g}"

    def loss(self, task: Task, alpha: float) -> float:
        """Of the learner at its best settings."""
        return self.outlook.measured(self.learner, task, alpha).loss

    @property
    def precision(self) -> float:
        """Tolerance of the answer's logarithm: larger for simulated losses, which scatter and are slow."""
        return 0.1 if self.learner == "message_passing" and self.d is not None else _PRECISION

    def falling(self, task_at: Callable[[float], Task], first: float, bounds: tuple[float, float]) -> Root:
        """Where the loss of a task falls to the target."""

        def gap(x: float) -> float:
            return self.loss(task_at(x), self.alpha) - self.target

        return falling_root(gap, first, *bounds, precision=self.precision)

    def answer(self, unknown: str, status: str, value: float | None, words: str) -> Answer:
        """An answer to this question."""
        return Answer(unknown, self.learner, status, value, words, self.task, self.n, self.d)


def samples_needed(question: Question, first: float) -> Answer:
    """n (n/d without a dimension) at which a learner's loss meets the target; `first` is an n/d to start from."""
    outlook, task, d, learner = question.outlook, question.task, question.d, question.learner
    for limited, why in (
        ("optimal", "at this strength: even with the signal known,"),
        (learner, f"for {label(learner)}: with unlimited bags its"),
    ):
        floor = outlook.limit(limited, task)
        if floor >= question.target:
            words = f"impossible {why} {outlook.criterion.label} is {outlook.criterion.shown(floor):.3g}"
            return question.answer("n", IMPOSSIBLE, None, words)

    def gap(alpha: float) -> float:
        return question.loss(task, alpha) - question.target

    low, high = _searched_ratios(d)
    if learner == "message_passing" and d is not None:  # every loss is simulated: begin at the answer of the limit
        first = limit_samples(question, first, (low, high)).x
        low = max(low, fewest_simulated_bags(task) / d)
    status, alpha = falling_root(gap, first, low, high, precision=question.precision)
    return _samples(question, status, alpha)


def _searched_ratios(d: int | None) -> tuple[float, float]:
    """The least and the largest n/d that are searched."""
    low = ALPHAS[0] if d is None else max(ALPHAS[0], 4 * LEAST_BAGS / d)
    return low, max(ALPHAS[1], 2 * low)


def limit_samples(question: Question, first: float, bounds: tuple[float, float]) -> Root:
    """n/d at which message passing meets the target for large n and d."""

    def gap(alpha: float) -> float:
        return question.outlook.in_the_limit("message_passing", question.task, alpha).loss - question.target

    return falling_root(gap, first, *bounds, precision=_PRECISION)


def _samples(question: Question, status: str, alpha: float) -> Answer:
    """The answer of `samples_needed` as a sentence."""
    if question.d is None:
        value, bags, about = alpha, f"{alpha:.3g} d bags", f"about {alpha:.3g} d bags (n/d, n and d large)"
    else:
        value = math.ceil(alpha * question.d)
        bags, about = f"{value:,} bags", f"about {rounded(value):,} bags"
    note = ""
    if question.learner == "message_passing" and question.d is not None:
        at_answer = question.outlook.message_passing(question.task, alpha)
        note = " (limit of large n and d, no finite-size forecast)" if at_answer is None else " (simulated)"
    words = {
        FOUND: f"{question.goal()} with {about}{note}",
        ALWAYS: f"{question.goal()} with fewer than {bags}{note}",
        BEYOND: f"{question.goal(False)} with up to {bags}{note}",
    }[status]
    return question.answer("n", status, value, words)


def all_samples_needed(question: Question, first: float) -> list[Answer]:
    """`samples_needed` for every learner; the Bayes limit's answer includes the hard phase."""
    learners = learners_of(question.task)
    answers = {learner: ask("n", replace(question, learner=learner), first) for learner in learners}
    best = answers["optimal"]
    if best.status == FOUND and best.value is not None and question.d is not None:
        fast = limit_samples(question, best.value / question.d, ALPHAS)
        bags = math.ceil(fast.x * question.d)
        if fast.status == FOUND and best.value < 0.95 * bags:
            words = (
                f"possible in principle from about {rounded(best.value):,} bags; no known fast method below "
                f"{rounded(bags):,} (limits of large n and d)"
            )
            answers["optimal"] = replace(best, status=HARD, words=words)
    return list(answers.values())


def weakest_strength(question: Question) -> Ended:
    """The strength theta (mean of the strengths) from which a learner meets the target."""
    task = question.task
    return question.falling(task.at_strength, max(task.mean_strength, 1.0), STRENGTHS)


def least_prevalence(question: Question) -> Ended:
    """The rarest positives, up to one half, with which a learner meets a target that does not weigh by prevalence."""
    if question.outlook.criterion.weighs_prevalence:
        raise ValueError(
            f"prevalence cannot be solved for by {question.outlook.criterion}, which is small for rare positives "
            "in any case; use the criterion balanced_error, auc or sensitivity@0.95"
        )
    task = question.task
    return question.falling(lambda pi: task.but(prevalence=pi), min(task.prevalence, 0.5), PREVALENCES)


def longest_length(question: Question) -> Ended:
    """The longest (mean) length, with the same number of signal tokens, at which a learner still meets the target."""
    task = question.task

    def meets(length: int) -> bool:
        return question.loss(task.at_length(length), question.alpha) <= question.target

    least = max(kind.sparsity for kind in task.kinds)
    return last_that_holds(meets, round(task.mean_length), least, LONGEST, precision=2 * question.precision)


def largest_dimension(question: Question) -> Ended:
    """The largest dimension d at which a learner meets the target with n bags."""
    n = question.n
    assert n is not None

    def meets(d: int) -> bool:
        outlook = replace(question.outlook, d=d, _solved={})  # the same settings as starts
        return replace(question, outlook=outlook).loss(question.task, n / d) <= question.target

    first = max(n // 4, DIMENSIONS[0])
    return last_that_holds(meets, first, *DIMENSIONS, precision=2 * question.precision)


def fewest_signal_tokens(question: Question) -> Ended:
    """The least number R of signal tokens with which a learner meets the target (same length and strength)."""
    question.task.require_plain("the fewest signal tokens", "length", "sparsity")
    length, sparsity, *_ = question.task.kinds[0]

    def misses(count: int) -> bool:
        return question.loss(question.task.but(sparsity=count), question.alpha) > question.target

    status, last = last_that_holds(misses, sparsity, 1, length, precision=2 * question.precision)
    if status == BEYOND:
        return NEVER, length
    return (ALWAYS, 1) if status == NEVER else (FOUND, last + 1)


_SEARCHES: dict[str, Callable[[Question], Ended]] = {
    "strength": weakest_strength,
    "prevalence": least_prevalence,
    "length": longest_length,
    "d": largest_dimension,
    "sparsity": fewest_signal_tokens,
}
# The end of a sentence about what a learner reaches: in general, in the whole range searched, nowhere in it.
_ENDS = {
    "strength": ("from strength {x:.3g} on", "at any strength from {x:g} on", "at any strength up to {x:g}"),
    "prevalence": (*("from a prevalence of {x:.3g} on",) * 2, "at any prevalence up to {x:g}"),
    "length": ("up to a length of about {x:,} tokens", "at every length up to {x:,}", "at any length"),
    "d": ("up to a dimension of about {about:,}", "in every dimension up to {x:,}", "in any dimension from {x} on"),
    "sparsity": (
        "and {x:,} signal tokens of {L:,}",
        "and 1 signal token of {L:,}",
        "even if all {L:,} tokens carry the signal",
    ),
}


def with_these_bags(unknown: str, question: Question) -> Answer:
    """The answer of one of these searches, with its sentence."""
    status, x = _SEARCHES[unknown](question)
    missed = status == NEVER or (status == BEYOND and unknown in ("strength", "prevalence"))
    end = _ENDS[unknown][2 if missed else status != FOUND].format(x=x, about=rounded(x), L=question.task.longest)
    words = f"{question.goal(not missed)} with {question.n:,} bags {end}"
    if missed and unknown != "strength":
        return question.answer(unknown, IMPOSSIBLE, None, words)
    return question.answer(unknown, status, x, words)


def attention_over_pooling(outlook: Outlook, task: Task, first: float) -> Answer:
    """n from which tuned attention beats tuned pooling by `ADVANTAGE` of pooling's loss.

    At sharpness 0 attention is pooling, so without a margin the question has no answer.
    """
    assert outlook.d is not None
    share, question = f"{ADVANTAGE:.0%}", Question(outlook, task, None, math.nan)
    if outlook.limit("attention", task) >= (1 - ADVANTAGE) * outlook.limit("pooled", task):
        words = f"even with unlimited bags attention is not {share} better than pooling here"
        return question.answer("crossing", IMPOSSIBLE, None, words)

    def gap(alpha: float) -> float:
        pooled = outlook.measured("pooled", task, alpha).loss
        return outlook.measured("attention", task, alpha).loss / pooled - (1 - ADVANTAGE)

    status, alpha = falling_root(gap, first, *_searched_ratios(outlook.d), precision=_PRECISION)
    n = math.ceil(alpha * outlook.d)
    words = {
        BEYOND: f"attention is less than {share} better than pooling up to {n:,} bags",
        ALWAYS: f"attention is more than {share} better than pooling from fewer than {n:,} bags on",
        FOUND: f"attention is more than {share} better than pooling from about {rounded(n):,} bags on",
    }[status]
    return question.answer("crossing", status, n, words)


def rounded(n: float) -> int:
    """To the two or three digits that the search's precision supports."""
    digits = max(0, math.floor(math.log10(max(n, 1))) - 2)
    return round(math.ceil(n / 10**digits) * 10**digits)


def ask(unknown: str, question: Question, first: float = 2.0) -> Answer:
    """The answer to a question; `first` is an n/d to start from."""
    if question.learner == "attention" and question.target < RESOLVED:  # a tail that its sampled law does not contain
        words = f"attention's forecast does not resolve losses below {RESOLVED:g}: use a larger target"
        return question.answer(unknown, UNRESOLVED, None, words)
    return samples_needed(question, first) if unknown == "n" else with_these_bags(unknown, question)


def solve(
    task: Task,
    unknown: str = "n",
    *,
    n: int | None = None,
    d: int | None = None,
    target: float | None = None,
    learner: str = "attention",
    criterion: Criterion | str = "error",
    loss: str | Loss = "logistic",
) -> Answer:
    """Solve for one quantity, all others kept: `solve(task, "n", d=100, target=0.05)` gives the bags needed.

    Parameters
    ----------
    task : Task
        What the data is; uniform positions.
    unknown : str
        "n" (bags needed), "d" (largest dimension), "error" (the criterion's value to expect), "length" (longest bags),
        "sparsity" (fewest signal tokens), "strength" (weakest signal) or "prevalence" (rarest positives).
    n : int, optional
        Bags to learn from, at least 16; needed unless it is the unknown.
    d : int, optional
        Dimension of a token, at least 2; needed unless it is the unknown. Without it "n" is answered by n/d in the limit
        of large n and d.
    target : float, optional
        The criterion's value aimed at; needed unless "error" is the unknown.
    learner : str
        "attention", "pooled", "vectorized", "message_passing" or "optimal" (the Bayes limit), each at its best settings.
    criterion, loss
        As for `plan`.

    Returns
    -------
    Answer
        The value, or in words why there is none; for trained learners with the spread between training sets.
    """
    require_learnable(task, "to solve")
    if unknown not in UNKNOWNS:
        raise rejection("unknown", unknown, f"one of {', '.join(UNKNOWNS)}")
    if learner not in LEARNERS:
        raise rejection("learner", learner, f"one of {', '.join(LEARNERS)}")
    for name, value in {"n": n, "d": d, "target": target}.items():
        asked_for = unknown == ("error" if name == "target" else name)
        if asked_for and value is not None:
            raise ValueError(f"{name} is to be solved for: leave out its value")
        if not asked_for and value is None and (name, unknown) != ("d", "n"):
            raise ValueError(f"{name} must be given to solve for {unknown}")
    judged = Criterion.of(criterion)
    n = None if n is None else whole_number("n", n, 4 * LEAST_BAGS, MOST_BAGS)
    d = None if d is None else whole_number("d", d, 2, MOST_DIMENSIONS)
    outlook = Outlook(judged, loss, d)
    if target is None:
        answer = _expected(Question(outlook, task, n, math.nan, learner))
    else:
        aim = judged.target_loss(target, 0.5 if unknown == "prevalence" else task.prevalence)
        answer = ask(unknown, Question(outlook, task, n, aim, learner))
        if answer.solved and answer.value is not None:
            answer = _at_solution(answer, unknown)
    return _simulated(answer, judged, loss)


def require_learnable(task: Task, purpose: str) -> None:
    """Refuse what is no task, and tasks that the theory of trained learners does not cover."""
    Task.require(task)
    if task.positions.kind != "uniform":
        raise ValueError(f"positions must be uniform {purpose}, got {task.positions.kind!r}; simulate instead")
    if task.mean_strength == 0:
        raise ValueError(f"strength must be positive {purpose}: at 0 there is nothing to learn")


def _expected(question: Question) -> Answer:
    """A learner's expected value of the criterion."""
    criterion = question.outlook.criterion
    measured = question.outlook.measured(question.learner, question.task, question.alpha, thorough=True)
    value = criterion.shown(measured.loss)
    begin = f"{label(question.learner)} is expected to reach"
    if question.learner == "optimal":
        begin = "no method is expected to beat"
    words = f"{begin} {criterion.with_article} of {value:.3g} with {question.n:,} bags in dimension {question.d:,}"
    return question.answer("error", FOUND, value, words)


def _at_solution(answer: Answer, unknown: str) -> Answer:
    """The answer with its value put into the task, n or d."""
    assert answer.task is not None and answer.value is not None
    if unknown == "n":
        return answer if answer.d is None else replace(answer, n=int(answer.value))
    if unknown == "d":
        return replace(answer, d=int(answer.value))
    return replace(answer, task=answer.task.but(**{unknown: answer.value}))


def _simulated(answer: Answer, criterion: Criterion, loss: str | Loss) -> Answer:
    """The answer with the mean and the spread over training sets simulated there."""
    task, n, d = answer.task, answer.n, answer.d
    if not (answer.solved and answer.learner in TRAINED and task and n and d and n >= 4 * LEAST_BAGS):
        return answer
    settings = Outlook(criterion, loss, d).settings(answer.learner, task, n / d)
    losses = simulated_losses(task, settings.training, d, answer.learner, criterion)
    if not losses:
        return answer
    mean, spread = mean_loss(losses), float(np.std(losses, ddof=1))
    simulated = criterion.shown(mean.loss)
    return replace(answer, simulated=simulated, standard_error=mean.standard_error, spread=spread)

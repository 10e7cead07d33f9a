"""Power analysis: `solve` for the one quantity that is not given, as statisticians do for tests."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from .._core.rootfind import ALWAYS, FOUND
from .._core.validation import real_number, rejection, whole_number
from ..losses import Loss
from ..task import Task
from .confirmation import confirm
from .criterion import Criterion
from .learners import LEARNERS, NAMES, Outlook
from .questions import (
    Answer,
    fewest_signal_tokens,
    largest_dimension,
    least_prevalence,
    longest_length,
    samples_needed,
    weakest_strength,
)
from .tuning import ACCURACY, CONFIRM_SEED, LEAST_BAGS, MOST_BAGS, MOST_DIMENSIONS

UNKNOWNS = ("n", "d", "target_error", "length", "sparsity", "strength", "prevalence")
_OF_TASK = ("length", "sparsity", "strength", "prevalence")
_TRAINED = ("attention", "pooled", "vectorized")  # learners that are simulated at the solution


class _AsInTask:
    """Stands for a field of the task that is taken as it is there."""

    def __repr__(self) -> str:
        return "as in task"


class _Limit:
    """Stands for a dimension that is not given: n and d are large, and n/d is what counts."""

    def __repr__(self) -> str:
        return "large"


AS_IN_TASK, LARGE = _AsInTask(), _Limit()


@dataclass(frozen=True, repr=False)
class Solution:
    """What was solved for.

    Attributes
    ----------
    unknown : str
        One of `UNKNOWNS`.
    value : float or None
        Its value; None where there is none.
    status : str
        As of `Answer`: "found", "always", "impossible", "beyond" or "unresolved".
    words : str
        The answer as a sentence.
    learner, criterion : str
        Whose, and what the target is.
    task : Task
        The task, with the value in it where a field of it was solved for.
    n : int or None
        Bags; None in the limit of large n and d.
    d : int or None
        Dimension; None in the limit.
    alpha : float or None
        n/d; None where there is no solution.
    target_error : float
        The criterion's value aimed at, or expected where that was solved for.
    spread : float or None
        Standard deviation of the criterion's value from one training set to the next at the solution, simulated; None
        where nothing was simulated.
    simulated, standard_error : float or None
        Mean over the simulated training sets, and its standard error.
    """

    unknown: str
    value: float | None
    status: str
    words: str
    learner: str
    criterion: str
    task: Task
    n: int | None
    d: int | None
    alpha: float | None
    target_error: float
    spread: float | None = None
    simulated: float | None = None
    standard_error: float | None = None

    @property
    def solved(self) -> bool:
        """Whether there is a value that meets the target."""
        return self.status in (FOUND, ALWAYS)

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain data."""
        return asdict(self) | {"task": self.task.to_dict()}

    def __repr__(self) -> str:
        return f"Solution({self.unknown} for {self.learner}: {self.words})"

    def __str__(self) -> str:
        text = self.words[0].upper() + self.words[1:] + "."
        if self.simulated is not None and self.spread is not None:
            text += (
                f"\nSimulated there: {self.simulated:.3g} ± {self.standard_error:.1g} on average; "
                f"one training set differs from the next by {self.spread:.1g} (standard deviation)."
            )
        return text


def solve(
    task: Task,
    *,
    n: int | None = None,
    d: Any = LARGE,
    target_error: float | None = None,
    length: Any = AS_IN_TASK,
    sparsity: Any = AS_IN_TASK,
    strength: Any = AS_IN_TASK,
    prevalence: Any = AS_IN_TASK,
    learner: str = "attention",
    criterion: Criterion | str = "error",
    loss: str | Loss = "logistic",
    trials: int = 8,
) -> Solution:
    """Solve for the one quantity that is None: `solve(task, n=None, d=100, target_error=0.05)` gives the bags needed.

    Parameters
    ----------
    task : Task
        What the data is; uniform positions.
    n : int or None
        Bags to learn from, at least 16.
    d : int or None
        Dimension of a token, at least 2; None solves for the largest that will do. Not given: n and d are large, and
        `n=None` is answered by n/d.
    target_error : float or None
        The criterion's value aimed at; None solves for what can be expected.
    length, sparsity, strength, prevalence : number or None
        Fields of the task that replace its own; None solves for the longest bags, the fewest signal tokens, the weakest
        signal or the rarest positives that will do.
    learner : str
        "attention", "pooled", "vectorized", "message_passing" or "optimal" (the Bayes limit), each at its best settings.
    criterion : Criterion or str
        What the target is; see `Criterion`.
    loss : str or Loss
        The training loss.
    trials : int
        Training sets simulated at the solution, for the spread between them (trained learners, d given); 0 for none.

    Returns
    -------
    Solution
        The value, or in words why there is none.

    Raises
    ------
    ValueError
        If not exactly one quantity is None, or an argument is out of its range.
    """
    given = {"n": n, "d": d, "target_error": target_error}
    fields = {"length": length, "sparsity": sparsity, "strength": strength, "prevalence": prevalence}
    unknown = [name for name, value in (given | fields).items() if value is None]
    if len(unknown) != 1:
        found = "none is" if not unknown else f"{', '.join(unknown)} are"
        raise ValueError(f"exactly one of {', '.join(UNKNOWNS)} must be None, to be solved for; {found}")
    if learner not in LEARNERS:
        raise rejection("learner", learner, f"one of {', '.join(LEARNERS)}")
    trials = whole_number("trials", trials, 0)
    if task.positions.kind != "uniform":
        raise ValueError(f"positions must be uniform to solve, got {task.positions.kind!r}; simulate instead")
    judged = Criterion.of(criterion)
    task = _with_fields(task, fields)
    if task.mean_strength == 0:
        raise ValueError("strength must be positive: at 0 there is nothing to learn")
    bags = None if n is None else whole_number("n", n, 4 * LEAST_BAGS, MOST_BAGS)
    dimension = None if d is None or d is LARGE else whole_number("d", d, 2, MOST_DIMENSIONS)
    if d is LARGE and n is not None:
        raise ValueError("d must be given with n: what n bags are worth depends on the tokens' dimension")
    aim = math.nan if target_error is None else _target(judged, target_error, task, unknown[0])
    return _Problem(unknown[0], task, bags, dimension, aim, learner, judged, loss, trials).solution()


def _with_fields(task: Task, fields: dict[str, Any]) -> Task:
    """The task with the fields that were given as numbers."""
    return task.but(**{name: value for name, value in fields.items() if value is not None and value is not AS_IN_TASK})


def _target(criterion: Criterion, target: float, task: Task, unknown: str) -> float:
    """Loss form of the target."""
    if unknown == "prevalence":  # chance does not depend on it where it may be solved for
        task = task.but(prevalence=0.5)
    real_number("target_error", target, 0.0, 1.0, open_low=True, open_high=True)
    return criterion.target_loss(target, task)


@dataclass(frozen=True)
class _Problem:
    """All but one of the quantities; `aim` is the target as a loss."""

    unknown: str
    task: Task
    n: int | None
    d: int | None
    aim: float
    learner: str
    criterion: Criterion
    loss: str | Loss
    trials: int

    def solution(self) -> Solution:
        outlook = Outlook(self.criterion, self.loss, self.d)
        if self.unknown == "target_error":
            return self._expected(outlook)
        answer = self._answer(outlook)
        task, n, d = self.task, self.n, self.d
        value: float | None = answer.value
        if answer.status in (FOUND, ALWAYS) and value is not None:
            if self.unknown in _OF_TASK:
                task = task.but(**{self.unknown: value})
            elif self.unknown == "n":
                n = None if d is None else int(value)
            else:
                d = int(value)
        alpha = value if self.unknown == "n" and self.d is None else None if n is None or d is None else n / d
        target = self.criterion.shown(self.aim)
        words = self._in_words(answer)
        made = Solution(
            self.unknown, value, answer.status, words, self.learner, str(self.criterion), task, n, d, alpha, target
        )
        return self._simulated(made) if made.solved else made

    def _answer(self, outlook: Outlook) -> Answer:
        task, aim, learner = self.task, self.aim, self.learner
        if self.unknown == "n":
            if self.d is not None:
                return samples_needed(outlook, task, self.d, aim, 2.0, learner)
            return _per_dimension(samples_needed(outlook, task, _UNIT, aim, 2.0, learner))
        assert self.n is not None
        if self.unknown == "d":
            known: list[Any] = []  # settings found at one dimension are starts at the next

            def make(d):
                return Outlook(self.criterion, self.loss, d, known)

            return largest_dimension(make, task, self.n, aim, learner)
        assert self.d is not None
        alpha = self.n / self.d
        ask = {
            "strength": weakest_strength,
            "length": longest_length,
            "sparsity": fewest_signal_tokens,
            "prevalence": least_prevalence,
        }[self.unknown]
        return ask(outlook, task, alpha, aim, learner)

    def _in_words(self, answer: Answer) -> str:
        if self.unknown == "n":
            where = "" if self.d is None else f" in dimension {self.d:,}"
        else:
            where = f" ({self.n:,} bags" + (")" if self.d is None else f" in dimension {self.d:,})")
        words = answer.words.replace(" with this many samples", "").replace("samples", "bags")
        return words if answer.status == "unresolved" or words.startswith("impossible") else words + where

    def _expected(self, outlook: Outlook) -> Solution:
        assert self.n is not None and self.d is not None
        measured = outlook.measured(self.learner, self.task, self.n / self.d, ACCURACY)
        value = self.criterion.shown(measured.loss)
        name, where = NAMES[self.learner], f"with {self.n:,} bags in dimension {self.d:,}"
        words = f"{name} is expected to reach {_a(self.criterion.label)} of {value:.3g} {where}"
        if self.learner == "optimal":
            words = f"no method is expected to beat {_a(self.criterion.label)} of {value:.3g} {where}"
        made = Solution(
            "target_error", value, FOUND, words, self.learner, str(self.criterion), self.task, self.n, self.d,
            self.n / self.d, value,
        )  # fmt: skip
        return self._simulated(made)

    def _simulated(self, made: Solution) -> Solution:
        """With the mean and the spread over simulated training sets at the solution."""
        if self.learner not in _TRAINED or not self.trials or made.n is None or made.d is None:
            return made
        if made.n < 4 * LEAST_BAGS:
            return made
        outlook = Outlook(self.criterion, self.loss, made.d)
        alpha = made.n / made.d
        settings = (
            outlook.attention(made.task, alpha)
            if self.learner == "attention"
            else outlook.linear(self.learner, made.task, alpha)
        )
        found = confirm(
            made.task, settings.training, made.d, self.learner, self.criterion.shown(settings.loss),
            criterion=self.criterion, trials=self.trials, seed=CONFIRM_SEED,
        )  # fmt: skip
        if found.d != made.d:  # too large to simulate: the spread of a smaller size is not this one's
            return made
        values = {"spread": found.spread, "simulated": found.value, "standard_error": found.standard_error}
        return Solution(**(vars(made) | values))


def _a(label: str) -> str:
    return f"{'an' if label[0] in 'Aa' else 'a'} {label}"


_UNIT = 1_000_000  # bags per dimension are found as bags in a dimension so large that rounding does not count


def _per_dimension(answer: Answer) -> Answer:
    """An answer for n in a large dimension as one for n/d."""
    if answer.value is None:
        return answer
    alpha = answer.value / _UNIT
    goal = answer.words.split(" with ")[0].split(" needs ")[0]
    if answer.status == FOUND:
        words = f"{goal} with about {alpha:.3g} d bags (n/d = {alpha:.3g}, n and d large)"
    elif answer.status == ALWAYS:
        words = f"{goal} with fewer than {alpha:.3g} d bags"
    else:
        words = f"{answer.words.split(' needs ')[0]} needs more than {alpha:.3g} d bags for {answer.words.split(' for ')[-1]}"
    return Answer(answer.question, answer.learner, answer.status, alpha, words)

"""`plan`: given what a user has, what to do and what to expect."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .._core.validation import whole_number
from ..losses import Loss
from ..task import Task
from .criterion import Criterion
from .learners import ACCURACY, LEARNERS, NAMES, Outlook
from .questions import Answer, all_samples_needed, attention_over_pooling, longest_length, weakest_strength
from .sensitivity import Slope, sensitivities
from .tuning import RIDGES, Settings, tune_linear

QUESTIONS = ("samples", "strength", "length", "crossing")
CURVE_FACTORS = tuple(2.0**k for k in (-4, -3, -2, -1, 0, 1, 2, 3, 4))
Progress = Callable[[str], None]


@dataclass(frozen=True)
class Expected:
    """What a learner reaches at its best settings: the criterion's value and its standard error, and its ridge."""

    learner: str
    value: float
    standard_error: float
    ridge: float | None = None

    def to_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("learner", "value", "standard_error", "ridge")}


@dataclass(frozen=True)
class Plan:
    """What to do with n samples in dimension d, and what to expect.

    settings       attention's best settings (`settings.training` goes to `forecast` and `simulate` as it is)
    n0, n1         samples for the two gradient steps and for the readout
    expected       every learner at n, best settings each; `hard` where the Bayes limit is out of reach of fast methods
    answers        to the inverse questions, all at `target`
    slopes         of attention's loss, the steepest first
    curve          rows (n, learner, value) of the predicted learning curves; empty unless asked for
    """

    task: Task
    n: int
    d: int
    criterion: Criterion
    target: float
    settings: Settings
    expected: tuple[Expected, ...]
    hard: bool
    answers: tuple[Answer, ...] = ()
    slopes: tuple[Slope, ...] = ()
    curve: tuple[dict[str, Any], ...] = ()
    notes: tuple[str, ...] = field(default=())

    @property
    def alpha(self) -> float:
        return self.n / self.d

    @property
    def n0(self) -> int:
        return min(max(round(self.settings.share * self.n), 1), self.n - 1)

    @property
    def n1(self) -> int:
        return self.n - self.n0

    def value(self, learner: str) -> float:
        """The criterion's value that a learner is expected to reach."""
        for row in self.expected:
            if row.learner == learner:
                return row.value
        raise ValueError(f"learner must be one of {', '.join(LEARNERS)}, got {learner!r}")

    def classifier(self, **options: Any) -> Any:
        """An `AttentionClassifier` with these settings (bags are standardised first; `scale=False` takes them as they are)."""
        from .from_bags import staged_classifier

        return staged_classifier(self.settings, **options)

    def to_dict(self) -> dict[str, Any]:
        s = self.settings
        chosen = {"share": s.share, "n0": self.n0, "n1": self.n1, "sharpness": s.sharpness, "cos_q": s.cos_q}
        return {
            "task": self.task.to_dict(),
            "n": self.n,
            "d": self.d,
            "alpha": self.alpha,
            "criterion": str(self.criterion),
            "target": self.target,
            "training": s.training.to_dict(),
            "settings": chosen,
            "expected": [row.to_dict() for row in self.expected],
            "hard": self.hard,
            "answers": [answer.to_dict() for answer in self.answers],
            "sensitivity": [slope.to_dict() for slope in self.slopes],
            "curve": list(self.curve),
            "notes": list(self.notes),
        }

    def figure(self) -> Any:
        """The predicted learning curves with n marked, as a matplotlib figure."""
        from .figure import learning_curves

        return learning_curves(self)

    def __str__(self) -> str:
        from .text import as_text

        return as_text(self)


def plan(
    task: Task,
    n: int,
    d: int,
    *,
    criterion: Criterion | str = "error",
    target: float | None = None,
    loss: str | Loss = "logistic",
    questions: Iterable[str] = QUESTIONS,
    curve: bool = False,
    accuracy: float = ACCURACY,
    progress: Progress | None = None,
) -> Plan:
    """Best settings of the staged attention classifier with n bags of d-dimensional tokens, and what to expect.

    criterion   "error", "threshold_error", "balanced_error", "auc" or "sensitivity@0.95"; see `Criterion`
    target      value of the criterion that the inverse questions aim at (default: halfway between chance and perfection)
    questions   which of "samples" (needed for the target), "strength" (weakest), "length" (longest) and "crossing" (where
                attention starts to beat pooling) to answer; each costs seconds
    curve       also predict the learning curves of all learners, from n/16 to 16 n
    accuracy    absolute error allowed on the forecast test errors
    progress    called with a few words before every stage
    """
    n, d = whole_number("n", n, 2), whole_number("d", d, 1)
    if task.positions.kind != "uniform":
        raise ValueError(f"positions must be uniform for a plan, got {task.positions.kind!r}; simulate instead")
    if task.strength == 0:
        raise ValueError("strength must be positive for a plan: at 0 there is nothing to learn")
    asked = list(dict.fromkeys(questions))
    for question in asked:
        if question not in QUESTIONS:
            raise ValueError(f"questions must be among {', '.join(QUESTIONS)}, got {question!r}")
    judged = Criterion.of(criterion)
    aim = judged.target_loss(target, task)
    say = progress or (lambda words: None)
    outlook = Outlook(judged, loss)
    alpha = n / d

    say("best settings")
    settings = outlook.attention(task, alpha, accuracy, starts=2)
    expected = []
    for learner in LEARNERS:
        say(f"forecast: {NAMES[learner]}")
        if learner == "attention":
            measured, ridge = settings.measured, settings.training.ridge
        elif learner in ("pooled", "vectorized"):
            tuned = tune_linear(learner, task, alpha, judged, loss)
            measured, ridge = tuned.measured, tuned.training.ridge
        else:
            measured, ridge = outlook.measured(learner, task, alpha), None
        expected.append(Expected(learner, judged.shown(measured.loss), measured.standard_error, ridge))
    hard = outlook.bayes(task, alpha).hard

    say("sensitivity")
    slopes = sensitivities(task, settings.training, judged, accuracy)
    answers: list[Answer] = []
    if "samples" in asked:
        say("samples needed")
        answers += all_samples_needed(outlook, task, d, aim, alpha)
    if "strength" in asked:
        for learner in ("attention", "message_passing"):
            say(f"weakest strength: {NAMES[learner]}")
            answers.append(weakest_strength(outlook, task, alpha, aim, learner))
    if "length" in asked:
        say("longest length")
        answers.append(longest_length(outlook, task, alpha, aim))
    if "crossing" in asked:
        say("where attention beats pooling")
        answers.append(attention_over_pooling(outlook, task, d, alpha))
    rows = _curve(outlook, task, n, d, say) if curve else []
    return Plan(
        task, n, d, judged, judged.shown(aim), settings, tuple(expected), hard, tuple(answers), tuple(slopes), tuple(rows),
        tuple(_notes(task, alpha, settings, judged, expected, hard)),
    )  # fmt: skip


def _curve(outlook: Outlook, task: Task, n: int, d: int, say: Progress) -> list[dict[str, Any]]:
    """Learning curves; sizes nearest to n first, so that each problem starts from a solved neighbour."""
    sizes = sorted({max(2, round(n * factor)) for factor in CURVE_FACTORS}, key=lambda size: abs(np.log(size / n)))
    rows = []
    for size in sizes:
        say(f"learning curves at {size:,} samples")
        for learner in LEARNERS:
            measured = outlook.measured(learner, task, size / d)
            rows.append({"n": size, "learner": learner, "value": outlook.criterion.shown(measured.loss)})
    return sorted(rows, key=lambda row: (LEARNERS.index(row["learner"]), row["n"]))


def _notes(task, alpha, settings: Settings, criterion: Criterion, expected: list[Expected], hard: bool) -> list[str]:
    """What a user should know that the numbers do not say."""
    notes = []
    losses = {row.learner: criterion.shown(row.value) for row in expected}
    if hard:
        notes.append("hard phase: the Bayes limit is possible in principle, but no known fast method reaches it here")
    if losses["attention"] > 0.98 * criterion.chance(task):
        notes.append("attention learns next to nothing here: more samples or a stronger signal are needed")
    elif losses["attention"] > 0.98 * losses["pooled"]:
        notes.append("attention is hardly better than pooling here: the simpler classifier will do")
    if losses["message_passing"] < 0.8 * losses["attention"]:
        notes.append("message passing (MessagePassingClassifier) makes notably better use of these samples")
    if settings.training.ridge > 0.99 * RIDGES[1]:
        notes.append(f"the best ridge is at the largest value searched ({RIDGES[1]:g}); beyond it little changes")
    if settings.failures:
        notes.append(
            f"{settings.failures} of {settings.evaluations} trial settings had no fixed point and were passed over"
        )
    return notes

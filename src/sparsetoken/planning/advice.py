"""`plan`: given what a user has, what to do and what to expect."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from .._core.validation import whole_number
from ..losses import Loss
from ..plotting.show import Shown, axes_for, draw_shares
from ..plotting.style import REFERENCE, colour
from ..task import Task
from .confirmation import Confirmation, confirm
from .criterion import RESOLVED, Criterion
from .learners import ACCURACY, LEARNERS, NAMES, Outlook, learners_of
from .progress import Progress, Stages
from .questions import Answer, all_samples_needed, attention_over_pooling, longest_length, weakest_strength
from .sensitivity import Slope, sensitivities
from .tuning import (
    CONFIRM_SEED,
    LEAST_BAGS,
    MOST_BAGS,
    MOST_DIMENSIONS,
    MOST_RATIO,
    MOST_STRENGTH,
    RIDGES,
    Settings,
    staged_classifier,
)

QUESTIONS = ("samples", "strength", "length", "crossing")
CURVE_FACTORS = tuple(2.0**k for k in (-4, -3, -2, -1, 0, 1, 2, 3, 4))
CONFIRMED = ("attention", "pooled")  # learners that are simulated beside their forecast
TRIALS = 8


@dataclass(frozen=True)
class Expected:
    """What a learner reaches at its best settings.

    Attributes
    ----------
    learner : str
        One of `LEARNERS`.
    value, standard_error : float
        The criterion's value to expect at the plan's n and d, and its standard error. Message passing and the Bayes limit
        are given in the limit of large n and d.
    ridge : float or None
        Its best ridge, where it has one.
    limit : float or None
        The value of the same settings in the limit of large n and d.
    bound : bool
        Whether the value is a bound: attention's losses are not resolved below 0.0001.
    """

    learner: str
    value: float
    standard_error: float
    ridge: float | None = None
    limit: float | None = None
    bound: bool = False

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain data."""
        return asdict(self)


@dataclass(frozen=True, repr=False)
class Plan(Shown):
    """What to do with n samples in dimension d, and what to expect.

    Attributes
    ----------
    task : Task
        What the data is.
    n, d : int
        Bags at hand, and the tokens' dimension.
    criterion : Criterion
        What the plan is judged by.
    target : float
        The value that the questions aim at.
    settings : Settings
        Attention's best settings (`settings.training` goes to `forecast` and `simulate` as it is).
    expected : tuple of Expected
        Every learner at n and d, each at its best settings.
    hard : bool
        Whether the Bayes limit is out of reach of fast methods.
    answers : tuple of Answer
        To the inverse questions, all at `target`.
    slopes : tuple of Slope
        Of attention's loss, the steepest first.
    curve : tuple of dict
        Rows (n, learner, value) of the predicted learning curves; empty unless asked for.
    confirmations : tuple of Confirmation
        Simulations beside the forecasts of attention and pooling. The settings are chosen without them.
    notes : tuple of str
        What a user should know that the numbers do not say.
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
    confirmations: tuple[Confirmation, ...] = ()
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return (
            f"Plan({self.n} bags of {self.d}-dimensional tokens, {self.criterion.label}: "
            + ", ".join(f"{NAMES[row.learner]} {row.value:.4g}" for row in self.expected)
            + f"; target {self.target:.4g})"
        )

    def frame(self) -> Any:
        """A pandas table, one row per learner: what to expect of it, with its settings and its simulation."""
        import pandas as pd

        simulated = {c.learner: c for c in self.confirmations if c.d == self.d}
        rows = []
        for row in self.expected:
            found = simulated.get(row.learner)
            measured = {} if found is None else {"simulated": found.value, "simulated_se": found.standard_error}
            rows.append({**row.to_dict(), **measured})
        return pd.DataFrame(rows)

    def plot(self, ax: Any = None) -> Any:
        """What to expect of each learner, with two standard errors, and the target.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; new axes by default.

        Returns
        -------
        matplotlib Axes
        """
        names = [NAMES[row.learner] for row in self.expected]
        values, errors = [row.value for row in self.expected], [row.standard_error for row in self.expected]
        colours = [colour(row.learner) for row in self.expected]
        ax = draw_shares(axes_for(ax, (6.0, 2.8)), names, values, errors, colours)
        ax.axvline(self.target, color=REFERENCE, linestyle="--")
        ax.set_xlim(right=max(ax.get_xlim()[1], 1.1 * self.target))
        ax.set(xlabel=f"{self.criterion.label} (dashed: target)", title=f"{self.n} bags, d = {self.d}")
        return ax

    @property
    def alpha(self) -> float:
        """n/d."""
        return self.n / self.d

    @property
    def n0(self) -> int:
        """Samples for the two gradient steps."""
        return round(self.settings.training.alpha0 * self.d)

    @property
    def n1(self) -> int:
        """Samples for the readout."""
        return self.n - self.n0

    def value(self, learner: str) -> float:
        """The criterion's value that a learner is expected to reach."""
        for row in self.expected:
            if row.learner == learner:
                return row.value
        raise ValueError(f"learner must be one of {', '.join(LEARNERS)}, got {learner!r}")

    def classifier(self, **options: Any) -> Any:
        """An `AttentionClassifier` with these settings (bags are standardised first; `scale=False` takes them as they are)."""
        return staged_classifier(self.settings, **options)

    def to_dict(self) -> dict[str, Any]:
        s = self.settings
        chosen = {"share": s.share, "n0": self.n0, "n1": self.n1, "sharpness": s.sharpness, "cosine": s.cosine}
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
            "confirmations": [found.to_dict() for found in self.confirmations],
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
    trials: int = TRIALS,
    accuracy: float = ACCURACY,
    progress: Progress | None = None,
) -> Plan:
    """Best settings of the staged attention classifier with n bags of d-dimensional tokens, and what to expect.

    Parameters
    ----------
    task : Task
        What the data is; uniform positions, strength above 0 and up to 1,000. Where bags have several lengths, or tokens that
        share noise, there is no vectorized classifier to compare with.
    n : int
        Bags at hand, at least 16 and at most 100,000 times d.
    d : int
        Dimension of a token, at least 2.
    criterion : Criterion or str
        "error", "threshold_error", "balanced_error", "auc" or "sensitivity@0.95"; see `Criterion`.
    target : float, optional
        Value of the criterion that the inverse questions aim at (default: halfway between chance and perfection).
    loss : str or Loss
        The training loss.
    questions : iterable of str
        Which of "samples" (needed for the target), "strength" (weakest), "length" (longest) and "crossing" (where attention
        starts to beat pooling) to answer; each costs seconds.
    curve : bool
        Also predict the learning curves of all learners, from n/16 to 16 n.
    trials : int
        Data sets simulated at this n and d, to lay their mean beside the forecasts of attention and pooling; 0 for none.
    accuracy : float
        Absolute error allowed on the forecast test errors.
    progress : callable, optional
        Called with a few words before every stage.

    Returns
    -------
    Plan
        The plan.

    Raises
    ------
    ValueError
        If an argument is out of its range.
    AccuracyError
        If a forecast contradicts the Bayes limit.
    """
    n, d = whole_number("n", n, 4 * LEAST_BAGS, MOST_BAGS), whole_number("d", d, 2, MOST_DIMENSIONS)
    if n > MOST_RATIO * d:
        raise ValueError(f"n must be at most {MOST_RATIO:,} times d for a plan, got {n:,} bags in dimension {d}")
    trials = whole_number("trials", trials, 0)
    if task.positions.kind != "uniform":
        raise ValueError(f"positions must be uniform for a plan, got {task.positions.kind!r}; simulate instead")
    if task.mean_strength == 0:
        raise ValueError("strength must be positive for a plan: at 0 there is nothing to learn")
    if max(kind.strength for kind in task.kinds) > MOST_STRENGTH:
        raise ValueError(f"strength must be at most {MOST_STRENGTH:,.0f} for a plan, got {task.strength:g}")
    asked = list(dict.fromkeys(questions))
    for question in asked:
        if question not in QUESTIONS:
            raise ValueError(f"questions must be among {', '.join(QUESTIONS)}, got {question!r}")
    judged = Criterion.of(criterion)
    aim = judged.target_loss(target, task)
    stages = typical_times(asked, curve, trials)
    if isinstance(progress, Stages):  # a part of something larger
        say = progress
        say.add(stages)
    else:
        say = Stages(progress, stages)
    outlook = Outlook(judged, loss, d)
    alpha = n / d

    say("best settings")
    settings = outlook.attention(task, alpha, accuracy, starts=2)
    expected: list[Expected] = []
    trained: dict[str, Settings] = {}
    for learner in learners_of(task):
        say(f"forecast: {NAMES[learner]}")
        if learner in ("attention", "pooled", "vectorized"):
            tuned = settings if learner == "attention" else outlook.linear(learner, task, alpha)
            trained[learner] = tuned
            value, limit = judged.shown(tuned.loss), judged.shown(tuned.limit.loss)
            bound = learner == "attention" and tuned.loss <= RESOLVED
            expected.append(Expected(learner, value, tuned.measured.standard_error, tuned.training.ridge, limit, bound))
        else:
            measured = outlook.measured(learner, task, alpha)
            expected.append(Expected(learner, judged.shown(measured.loss), measured.standard_error))
    hard = outlook.bayes(task, alpha).hard

    confirmations = []
    for learner in CONFIRMED if trials else ():
        say(f"simulating {NAMES[learner]}")
        confirmations.append(
            confirm(
                task,
                trained[learner].training,
                d,
                learner,
                judged.shown(trained[learner].loss),
                criterion=judged,
                trials=trials,
                seed=CONFIRM_SEED,
                forecast_error=trained[learner].measured.standard_error,
            )
        )
    say("sensitivity")
    slopes = sensitivities(task, settings.training, judged, d)
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
        tuple(confirmations), tuple(_notes(task, settings, judged, expected, hard, confirmations)),
    )  # fmt: skip


def typical_times(questions: Iterable[str], curve: bool, trials: int) -> dict[str, float]:
    """The stages of a plan in order, and the seconds that each takes on an ordinary machine."""
    asked = set(questions)
    # Means of CPU seconds over six tasks (L from 5 to 100, n from 100 to 20,000). What is found again in an earlier stage's
    # solutions takes no time: attention's forecast, and what is known of the Bayes limit.
    times = {"best settings": 6.3}
    times |= {
        f"forecast: {NAMES[learner]}": {"pooled": 1.3, "vectorized": 0.3}.get(learner, 0.0) for learner in LEARNERS
    }
    if trials:
        times |= {f"simulating {NAMES[learner]}": 0.15 * trials / TRIALS for learner in CONFIRMED}
    times["sensitivity"] = 2.5
    if "samples" in asked:
        times["samples needed"] = 7.0
    if "strength" in asked:
        times |= {
            f"weakest strength: {NAMES[learner]}": seconds
            for learner, seconds in (("attention", 3.6), ("message_passing", 0.1))
        }
    if "length" in asked:
        times["longest length"] = 8.5
    if "crossing" in asked:
        times["where attention beats pooling"] = 7.0
    if curve:
        times["learning curves"] = 11.0
    return times


def _curve(outlook: Outlook, task: Task, n: int, d: int, say: Stages) -> list[dict[str, Any]]:
    """Learning curves; sizes nearest to n first, so that each problem starts from a solved neighbour."""
    sizes = sorted(
        {max(4 * LEAST_BAGS, round(n * factor)) for factor in CURVE_FACTORS}, key=lambda size: abs(np.log(size / n))
    )
    rows = []
    say("learning curves")
    begin = time.monotonic()
    for done, size in enumerate(sizes):
        if done:
            left = (time.monotonic() - begin) / done * (len(sizes) - done)
            say(f"learning curves at {size:,} samples", left)
        for learner in learners_of(task):
            measured = outlook.measured(learner, task, size / d)
            rows.append({"n": size, "learner": learner, "value": outlook.criterion.shown(measured.loss)})
    return sorted(rows, key=lambda row: (LEARNERS.index(row["learner"]), row["n"]))


def _notes(
    task: Task,
    settings: Settings,
    criterion: Criterion,
    expected: list[Expected],
    hard: bool,
    confirmations: list[Confirmation],
) -> list[str]:
    """What a user should know that the numbers do not say."""
    notes = []
    losses = {row.learner: criterion.shown(row.value) for row in expected}
    if hard:
        notes.append("hard phase: the Bayes limit is possible in principle, but no known fast method reaches it here")
    if any(row.bound for row in expected):
        notes.append(f"attention's forecast does not resolve losses below {RESOLVED:g}: this one is at most that large")
    else:
        if losses["attention"] > 0.98 * criterion.chance(task):
            notes.append("attention learns next to nothing here: more samples or a stronger signal are needed")
        elif losses["attention"] > 0.98 * losses["pooled"]:
            notes.append("attention is hardly better than pooling here: the simpler classifier will do")
        if losses["message_passing"] < 0.8 * losses["attention"]:
            notes.append("message passing (MessagePassingClassifier) makes notably better use of these samples")
    below = [NAMES[row.learner] for row in expected if losses[row.learner] < 0.99 * losses["optimal"] - 1e-6]
    if below:
        notes.append(
            f"{' and '.join(below)} at this size {'is' if len(below) == 1 else 'are'} below the Bayes limit, which is that of "
            "large n and d: data sets that lack a class are left out, and the others have more of the rare one"
        )
    if settings.training.ridge > 0.99 * RIDGES[1]:
        notes.append(f"the best ridge is at the largest value searched ({RIDGES[1]:g}); beyond it little changes")
    differing = [NAMES[found.learner] for found in confirmations if not found.agrees]
    if differing:
        notes.append(
            f"rely on the simulated value, not the forecast, of {' and '.join(differing)}: this size is far from large"
        )
    if settings.failures:
        notes.append(
            f"{settings.failures} of {settings.evaluations} trial settings had no fixed point and were passed over"
        )
    return notes

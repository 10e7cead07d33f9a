"""`plan`: the best settings for given bags, and what to expect from them."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .._core.averages import with_error
from .._core.frozen import Description
from .._core.validation import whole_number
from ..losses import Loss
from ..plotting.show import Shown, axes_for, draw_shares
from ..plotting.style import REFERENCE, colour, label
from ..task import NEUTRAL_FIELDS, Task
from ..theory import ladder
from .criterion import RESOLVED, Criterion
from .forecast_at import combined, mean_loss, simulated_losses
from .learning_curve_display import finish
from .outlook import DRAWS, LEARNERS, TRAINED, Outlook, Slope, learners_of, sensitivities
from .solve import ADVANTAGE, Answer, Question, all_samples_needed, ask, attention_over_pooling, require_learnable
from .tuning import LEAST_BAGS, MOST_BAGS, MOST_DIMENSIONS, MOST_RATIO, MOST_STRENGTH, Settings

OF_TARGET, CROSSING, CURVE = ("samples", "strength", "length"), "crossing", "curve"
QUESTIONS = (*OF_TARGET, CROSSING, CURVE)
CURVE_FACTORS = tuple(2.0**k for k in range(-4, 5))  # times n


@dataclass(frozen=True)
class Expected(Description):
    """A learner's expected result at its best settings.

    Attributes
    ----------
    learner : str
        One of `LEARNERS`.
    value, standard_error : float
        The criterion's value to expect at the plan's n and d, and its standard error: forecast and simulations combined.
    kind : str
        "finite size"; "limit": of large n and d, there being no finite-size forecast; "bound": attention's losses are not
        resolved below 0.0001.
    limit : float
        The value in the limit of large n and d.
    ridge : float or None
        Its best ridge, where it has one.
    simulated : float or None
        Mean over simulated data sets; None where nothing was simulated.
    trials : int
        Simulated data sets.
    spread : float or None
        Standard deviation of the value from one simulated data set to the next.
    """

    learner: str
    value: float
    standard_error: float
    kind: str = "finite size"
    limit: float = float("nan")
    ridge: float | None = None
    simulated: float | None = None
    trials: int = 0
    spread: float | None = None


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
    target : float or None
        The value aimed at; None where none was given.
    settings : Settings
        Attention's best settings (`settings.training` goes to `forecast` and `simulate` as it is).
    expected : tuple of Expected
        Every learner at n and d, each at its best settings.
    hard : bool
        Whether the Bayes limit is out of reach of fast methods.
    answers : tuple of Answer
        To the inverse questions.
    slopes : tuple of Slope
        Of attention's loss, the steepest first.
    curve : tuple of dict
        Rows (n, learner, value) of the predicted learning curves; empty without the question "curve".
    """

    task: Task
    n: int
    d: int
    criterion: Criterion
    target: float | None
    settings: Settings
    expected: tuple[Expected, ...]
    hard: bool
    answers: tuple[Answer, ...] = ()
    slopes: tuple[Slope, ...] = ()
    curve: tuple[dict[str, Any], ...] = ()

    def __repr__(self) -> str:
        values = ", ".join(f"{label(row.learner)} {row.value:.4g}" for row in self.expected)
        return f"Plan({self.n} bags of {self.d}-dimensional tokens, {self.criterion.label}: {values})"

    def frame(self) -> Any:
        """A pandas table, one row per learner: what to expect of it, with its settings and its simulation."""
        import pandas as pd

        return pd.DataFrame([row.to_dict() for row in self.expected])

    def plot(self, ax: Any = None) -> Any:
        """What to expect of each learner, with two standard errors, and the target."""
        names = [label(row.learner) for row in self.expected]
        values, errors = [row.value for row in self.expected], [row.standard_error for row in self.expected]
        colours = [colour(row.learner) for row in self.expected]
        ax = draw_shares(axes_for(ax, (6.0, 2.8)), names, values, errors, colours)
        ax.set(xlabel=self.criterion.label, title=f"{self.n} bags, d = {self.d}")
        if self.target is not None:
            ax.axvline(self.target, color=REFERENCE, linestyle="--")
            ax.set_xlim(right=max(ax.get_xlim()[1], 1.1 * self.target))
            ax.set_xlabel(f"{self.criterion.label} (dashed: target)")
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

    def loss(self, learner: str) -> float:
        """The loss form of `value`."""
        return self.criterion.shown(self.value(learner))

    def classifier(self, **options: Any) -> Any:
        """An `AttentionClassifier` with these settings (bags are standardised first; `scale=False` takes them as they are)."""
        return self.settings.classifier(**options)

    @property
    def advice(self) -> str:
        """Which learner to use, as one sentence."""
        chance = self.criterion.chance(self.task.prevalence)
        attention, pooled = self.loss("attention"), self.loss("pooled")
        losses = {row.learner: self.loss(row.learner) for row in self.expected if row.kind != "limit"}
        best = min(losses.values())
        if best > 0.98 * chance:
            sentence = "No learner beats chance here: take more bags or a stronger signal."
        elif pooled <= (1 + ADVANTAGE) * best:
            sentence = "Use the pooled classifier: no learner is notably better here."
        elif attention <= (1 + ADVANTAGE) * best or losses.get("message_passing", attention) >= attention:
            sentence = "Use attention with the settings below."
        else:
            sentence = "Use message passing (MessagePassingClassifier)"
            sentence += "." if attention > 0.98 * chance else ", or attention with the settings below."
        if self.target is None:
            return sentence
        aim = self.criterion.shown(self.target)
        met = [label(learner) for learner, loss in losses.items() if loss <= aim]
        return f"{sentence} The target of {self.target:g} is met by {' and '.join(met) if met else 'no learner'}."

    @property
    def rule_of_thumb(self) -> str:
        """Bags that two steps and a spectral start need to find the signal's direction; empty for bags that differ."""
        if self.task.differing is not None:
            return ""
        by = {"two steps": "products:1", "a spectral start": "eigenvector"}
        needs = ladder(self.task, self.alpha, list(by.values()), over={"length": [self.task.longest]}, find="alpha")
        needed = {name: self.d * float(needs.needed[method][0]) for name, method in by.items()}
        if not all(map(math.isfinite, needed.values())):
            return ""
        parts = ", ".join(
            f"{name} need{'s' * (name != 'two steps')} about {float(f'{n:.2g}'):,.0f} bags"
            for name, n in needed.items()
        )
        return (
            f"Rule of thumb: to find the signal's direction (cosine 1/2) {parts} "
            "(for long bags 0.6 d L/(π(1-π)R²θ³) and 1.3 d L/(π(1-π)R²θ⁴))."
        )

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain data."""
        s = self.settings
        chosen = {"share": s.share, "n0": self.n0, "n1": self.n1, "sharpness": s.sharpness, "cosine": s.cosine}
        return {
            "task": self.task.to_dict(),
            "n": self.n,
            "d": self.d,
            "alpha": self.alpha,
            "criterion": str(self.criterion),
            "target": self.target,
            "advice": self.advice,
            "training": s.training.to_dict(),
            "settings": chosen,
            "expected": [row.to_dict() for row in self.expected],
            "hard": self.hard,
            "answers": [answer.to_dict() for answer in self.answers],
            "sensitivity": [slope.to_dict() for slope in self.slopes],
            "curve": list(self.curve),
        }

    def lines(self) -> dict[str, tuple[list[int], list[float]]]:
        """Learner -> (numbers of bags, values) of the predicted learning curves."""
        if not self.curve:
            raise ValueError("this plan has no learning curves: make it with 'curve' among its questions")
        lines: dict[str, tuple[list[int], list[float]]] = {}
        for row in self.curve:
            sizes, values = lines.setdefault(row["learner"], ([], []))
            sizes.append(row["n"])
            values.append(row["value"])
        return lines

    def figure(self) -> Any:
        """The predicted learning curves with n marked, as a matplotlib figure."""
        lines, axes = self.lines(), axes_for(None, (7.0, 4.5))
        for learner, line in lines.items():
            limit = learner not in TRAINED
            style = {"color": colour(learner), "linestyle": "--" if limit else "-", "marker": "o", "markersize": 4}
            style["label"] = label(learner) + (", in the limit" if learner == "message_passing" else "")
            axes.plot(*line, **style)
        for row in self.expected:
            if row.kind == "finite size":
                style = {"color": colour(row.learner), "marker": "x", "linestyle": "none", "capsize": 3}
                axes.errorbar([self.n], [row.value], [row.standard_error], **style)
        axes.set_xlabel(f"bags n (dimension d = {self.d:,})")
        axes.figure.suptitle(f"{_described(self.task)}; each learner at its best settings", fontsize=11)
        finish(axes, self.n, sorted({row["n"] for row in self.curve}), self.criterion)
        axes.tick_params(axis="x", rotation=30)
        return axes.figure

    def __str__(self) -> str:
        values = ", ".join(f"{label(row.learner)} {_short(row, self.criterion)}" for row in self.expected)
        lines = textwrap.wrap(f"Expected {self.criterion.label} with {self.n:,} bags: {values}.", 80)
        lines += textwrap.wrap(self.advice, 80)
        bags = f"{self.n:,} bags of {self.task.length:.4g} token{'' if self.task.length == 1 else 's'}"
        lines += ["", f"{bags} in dimension {self.d:,} (n/d = {self.alpha:.3g}); {_described(self.task)}"]
        lines += ["", f"{self.criterion.label[0].upper()}{self.criterion.label[1:]}, with standard errors"]
        lines += [_row(row, self.criterion) for row in self.expected]
        lines += ["", "Best settings of staged attention", *_settings_lines(self)]
        if rule := self.rule_of_thumb:
            lines += ["", *textwrap.wrap(rule, 80)]
        lines += ["", f"Change of attention's {self.criterion.label} for 10% more of"]
        sign = -1.0 if self.criterion.larger_is_better else 1.0
        lines += [f"  {slope.parameter:<16} {sign * slope.change:+.4f}" for slope in self.slopes]
        if self.answers:
            lines += ["", "Questions" if self.target is None else f"Questions (target {self.target:.3g})"]
            for sentence in dict.fromkeys(
                answer.words for answer in self.answers
            ):  # some are the same for all learners
                lines += textwrap.wrap(sentence, 80, initial_indent="  - ", subsequent_indent="    ")
        if self.hard:
            note = "Hard phase: the Bayes limit is possible in principle, but no known fast method reaches it here."
            lines += ["", *textwrap.wrap(note, 80)]
        return "\n".join(lines)


def _described(task: Task) -> str:
    """The task's parameters; label noise, contamination and correlation where there are any."""
    extra = {name.replace("_", " "): getattr(task, name) for name in NEUTRAL_FIELDS}
    extras = "".join(f", {name} {value:g}" for name, value in extra.items() if value)
    return f"R = {task.sparsity:g}, θ = {task.strength:.4g}, π = {task.prevalence:.4g}{extras}"


def _short(row: Expected, criterion: Criterion) -> str:
    """A value to two or three digits, marked where it is a bound or a limit."""
    if row.kind == "bound":
        return f"at {'least' if criterion.larger_is_better else 'most'} {row.value:g}"
    number = f"{row.value:.2g}" if row.value < 0.01 and not criterion.larger_is_better else f"{row.value:.3f}"
    return number + (" (limit)" if row.kind == "limit" and row.learner != "optimal" else "")


def _row(row: Expected, criterion: Criterion) -> str:
    """A learner's line of the table."""
    number = _short(row, criterion) if row.kind == "bound" else with_error(row.value, row.standard_error)
    line = f"  {label(row.learner):<16} {number:<18}"
    if row.kind == "limit":
        line += " limit of large n and d" if row.learner == "optimal" else " limit (no finite-size forecast)"
    elif row.simulated is not None:
        spread = "" if row.spread is None else f", spread {row.spread:.2g}"
        line += f" simulated {row.simulated:.3g} ({row.trials} sets{spread})"
    return line.rstrip()


def _settings_lines(plan: Plan) -> list[str]:
    s, t = plan.settings, plan.settings.training
    eta_b = t.eta_b if isinstance(t.eta_b, str) else f"{t.eta_b:.3g}"
    return [
        f"  D0 / D1        {plan.n0:,} / {plan.n1:,} bags (share {s.share:.2f})",
        f"  rates          η_w {t.eta_w:.3g}, η_b {eta_b}, η_q {t.eta_q:.4g}, β {t.beta:g}",
        f"  sharpness k    {s.sharpness:.3g}; cosine of the query with the signal {s.cosine:.3f}",
        f"  ridge λ        {t.ridge:.3g}",
    ]


def plan(
    task: Task,
    n: int,
    d: int,
    *,
    criterion: Criterion | str = "error",
    target: float | None = None,
    loss: str | Loss = "logistic",
    questions: Iterable[str] | None = None,
    progress: Callable[[str], None] | None = None,
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
        Value of the criterion that the questions "samples", "strength" and "length" aim at.
    loss : str or Loss
        The training loss.
    questions : iterable of str, optional
        Which to answer of "samples" (needed for the target), "strength" (weakest), "length" (longest), "crossing" (where
        attention starts to beat pooling) and "curve" (learning curves of all learners, from n/16 to 16 n); each costs
        seconds. By default "crossing", and with a target the three about it.
    progress : callable, optional
        Called with a few words before every stage.

    Raises
    ------
    AccuracyError
        If a forecast contradicts the Bayes limit.
    """
    n, d = _checked_size(task, n, d)
    judged = Criterion.of(criterion)
    aim = None if target is None else judged.target_loss(target, task.prevalence)
    wanted = _checked_questions(questions, aim)
    report = progress or (lambda words: None)
    outlook, alpha = Outlook(judged, loss, d), n / d
    expected = []
    for learner in learners_of(task):
        report(f"{label(learner)} at n = {n:,}")
        expected.append(expected_of(outlook, learner, task, alpha))
    settings = outlook.settings("attention", task, alpha, thorough=True)
    report("sensitivity")
    slopes = sensitivities(task, settings.training, judged, d)
    answers: list[Answer] = []
    if aim is not None:
        question = Question(outlook, task, n, aim)
        if "samples" in wanted:
            report("bags needed for the target")
            answers += all_samples_needed(question, alpha)
        for unknown, extreme in (("strength", "weakest"), ("length", "longest")):
            if unknown in wanted:
                report(f"{extreme} {unknown} for the target")
                answers.append(ask(unknown, question))
    if CROSSING in wanted:
        report("where attention beats pooling")
        answers.append(attention_over_pooling(outlook, task, alpha))
    curve = _curve(outlook, task, n, d, report) if CURVE in wanted else []
    hard = outlook.bayes(task, alpha).hard
    return Plan(
        task, n, d, judged, target, settings, tuple(expected), hard, tuple(answers), tuple(slopes), tuple(curve)
    )


def _checked_size(task: Task, n: int, d: int) -> tuple[int, int]:
    """n and d, and a task that a plan can be made for."""
    require_learnable(task, "for a plan")
    n, d = whole_number("n", n, 4 * LEAST_BAGS, MOST_BAGS), whole_number("d", d, 2, MOST_DIMENSIONS)
    if n > MOST_RATIO * d:
        raise ValueError(f"n must be at most {MOST_RATIO:,} times d for a plan, got {n:,} bags in dimension {d}")
    if max(kind.strength for kind in task.kinds) > MOST_STRENGTH:
        raise ValueError(f"strength must be at most {MOST_STRENGTH:,.0f} for a plan, got {task.strength:g}")
    return n, d


def _checked_questions(questions: Iterable[str] | None, aim: float | None) -> set[str]:
    """The questions to answer."""
    if questions is None:
        return {CROSSING} if aim is None else {*OF_TARGET, CROSSING}
    asked = set(questions)
    if not asked <= set(QUESTIONS):
        raise ValueError(f"questions must be among {', '.join(QUESTIONS)}, got {sorted(asked - set(QUESTIONS))[0]!r}")
    if aim is None and asked & set(OF_TARGET):
        raise ValueError(f"target must be given for the question {sorted(asked & set(OF_TARGET))[0]!r}")
    return asked


def expected_of(outlook: Outlook, learner: str, task: Task, alpha: float) -> Expected:
    """What a learner reaches: forecast and simulation combined by their errors."""
    criterion, d = outlook.criterion, outlook.d
    assert d is not None
    if learner not in TRAINED:
        limit = outlook.in_the_limit(learner, task, alpha)
        row = Expected(learner, criterion.shown(limit.loss), limit.standard_error, "limit", criterion.shown(limit.loss))
        mean = outlook.message_passing(task, alpha) if learner == "message_passing" else None
        if mean is None:
            return row
        value, error = criterion.shown(mean.loss), mean.standard_error
        simulation: dict[str, Any] = {"simulated": value, "trials": DRAWS, "spread": error * math.sqrt(DRAWS)}
        return replace(row, value=value, standard_error=error, kind="finite size", **simulation)
    settings = outlook.settings(learner, task, alpha, thorough=True)
    measured, simulation = settings.measured, {}
    bound = learner == "attention" and settings.loss <= RESOLVED
    losses = [] if bound else simulated_losses(task, settings.training, d, learner, criterion)
    if losses:
        mean = mean_loss(losses, settings.scatter)
        measured, spread = combined(measured, mean), float(np.std(losses, ddof=1))
        simulation = {"simulated": criterion.shown(mean.loss), "trials": len(losses), "spread": spread}
    kind, ridge = "bound" if bound else "finite size", settings.training.ridge
    value, in_the_limit = criterion.shown(measured.loss), criterion.shown(settings.limit.loss)
    return Expected(learner, value, measured.standard_error, kind, in_the_limit, ridge, **simulation)


def _curve(outlook: Outlook, task: Task, n: int, d: int, say: Callable[[str], None]) -> list[dict[str, Any]]:
    """Learning curves; sizes nearest to n first, so that each problem starts from a solved neighbour."""
    sizes = {max(4 * LEAST_BAGS, round(n * factor)) for factor in CURVE_FACTORS}
    rows = []
    for size in sorted(sizes, key=lambda size: abs(np.log(size / n))):
        say(f"learning curves at {size:,} bags")
        for learner in learners_of(task):
            at = outlook.measured if learner in TRAINED else outlook.in_the_limit
            rows.append(
                {"n": size, "learner": learner, "value": outlook.criterion.shown(at(learner, task, size / d).loss)}
            )
    return sorted(rows, key=lambda row: (LEARNERS.index(row["learner"]), row["n"]))

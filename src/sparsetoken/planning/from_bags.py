"""A plan for the bags at hand: what the default learner reaches now and with more bags, and the theory's reasons why.

First of all the learner that `fit` uses is measured on parts of the bags and its learning curve carried on
(`learning_curve`, `extrapolation`): that answers "how good now, how many bags for my target" whatever the bags are like.

Then the theory says why. Real bags are never quite the theory's, so there are two forecasts: the plain one, from the
estimated task alone, and one calibrated by a single measurement, each learner's strength being the one at which the theory
meets what was measured on half of the bags. Both are checked at sizes that the calibration has not seen (`forecast_checks`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._core.validation import whole_number
from ..plotting.show import Shown, axes_for
from ..task import Task
from .advice import QUESTIONS, TRIALS, Plan, plan, typical_times
from .criterion import Criterion
from .estimate import Estimate, estimate
from .extrapolation import BagsNeeded, Extrapolation, Interval
from .forecast_checks import CHECKED, EXTRAPOLATED, MOST_KINDS, REPETITIONS, Check, check_forecasts, verdict
from .learners import NAMES
from .learning_curve import BUDGET, measure_curve
from .progress import Stages


@dataclass(frozen=True)
class Reasons:
    """What the theory says of bags like these.

    Attributes
    ----------
    estimate : Estimate
        What they look like to the theory.
    plan : Plan
        The plan for a task like that, with length, sparsity and strength as they spread (`Estimate.differing_task`; dimension:
        the effective one).
    checks : tuple of Check
        Forecasts beside measurements on parts of the bags.
    checked_by : Criterion
        Of the checks.
    more : tuple of dict
        Rows (learner, n, value): calibrated forecasts for as many, twice and four times as many bags.
    trust : str
        What to rely on: "forecast", "calibrated" (its level measured, its shape from the theory) or "measurement".
    words : str
        Why.
    """

    estimate: Estimate
    plan: Plan
    checks: tuple[Check, ...]
    checked_by: Criterion
    more: tuple[dict[str, Any], ...]
    trust: str
    words: str

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain data."""
        return {
            "estimate": self.estimate.to_dict(),
            "plan": self.plan.to_dict(),
            "checked_by": str(self.checked_by),
            "checks": [check.to_dict() for check in self.checks],
            "more": list(self.more),
            "trust": self.trust,
            "words": self.words,
        }


@dataclass(frozen=True, repr=False)
class BagsPlan(Shown):
    """A plan for given bags.

    Attributes
    ----------
    learner : str
        Whose learning curve was measured: the one that `fit` uses by default.
    n : int
        Bags that the plan is for.
    curve : Extrapolation
        The learner's learning curve, measured on parts of the bags and carried on.
    now : Interval
        The criterion's value to expect with n bags.
    needed : BagsNeeded
        How many bags the target needs.
    target_given : bool
        Whether the user gave the target; otherwise it is half of the loss with n bags.
    reasons : Reasons or None
        What the theory says; None where it was not asked or has nothing to say.
    remark : str
        Why there are no reasons; empty otherwise.
    """

    learner: str
    n: int
    curve: Extrapolation
    now: Interval
    needed: BagsNeeded
    target_given: bool
    reasons: Reasons | None = None
    remark: str = ""

    @property
    def beyond_theory(self) -> bool:
        """Whether the learner is better already than what the theory takes for the best possible: the bags are not its bags."""
        if self.reasons is None:
            return False
        shown = self.curve.curve.criterion.shown
        worst = max(shown(self.now.low), shown(self.now.high))
        return worst < shown(self.reasons.plan.value("optimal"))

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain data."""
        own = {"learner": self.learner, "n": self.n, "now": self.now.to_dict(), "needed": self.needed.to_dict()}
        own |= {"target_given": self.target_given, "curve": self.curve.to_dict()}
        own["beyond_theory"] = self.beyond_theory
        return own | {"reasons": None if self.reasons is None else self.reasons.to_dict(), "remark": self.remark}

    def __repr__(self) -> str:
        needed = self.needed
        bags = f"{needed.value:,} bags" if needed.value is not None else "out of reach"
        return (
            f"BagsPlan({self.learner} with {self.n} bags: {self.curve.curve.criterion.label} {self.now.value:.3g} "
            f"({self.now.low:.3g} to {self.now.high:.3g}); target {needed.target:.3g}: {bags})"
        )

    def frame(self) -> Any:
        """A pandas table of the learner's curve: what was measured, then what is forecast for more bags.

        Returns
        -------
        pandas.DataFrame
            Columns n, value (of the criterion), standard_error (measured), low and high (forecast), measured (whether).
        """
        return self.curve.frame({*EXTRAPOLATED, self.n / self.curve.curve.n})

    def plot(self, ax: Any = None) -> Any:
        """The learner's curve, measured and forecast, with the theory's curves where there are any.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; new axes by default.

        Returns
        -------
        matplotlib Axes
        """
        from .figure import draw_measured_curve

        last = max(8 * self.curve.curve.n, self.n)
        theory = None if self.reasons is None else self.reasons.plan
        return draw_measured_curve(axes_for(ax, (7.0, 5.0)), self.learner, self.curve, last, theory, self.needed.target)

    def figure(self) -> Any:
        """The figure of `plot`."""
        return self.plot().figure

    def __str__(self) -> str:
        from .text import bags_as_text

        return bags_as_text(self)


def plan_for_bags(
    X: Any,
    y: Any,
    *,
    n: int | None = None,
    criterion: Criterion | str = "error",
    target: float | None = None,
    questions: Iterable[str] = QUESTIONS,
    curve: bool = True,
    trials: int = TRIALS,
    repetitions: int = REPETITIONS,
    budget: float = BUDGET,
    theory: bool = True,
    progress: Callable[[str], None] | None = None,
) -> BagsPlan:
    """Measure the default learner on parts of labelled bags, say how many bags a target needs, and the theory's reasons.

    Parameters
    ----------
    X : Bags or anything that `Bags` takes
        The bags.
    y : array-like
        One label per bag, of two.
    n : int, optional
        Bags to plan for; as many as there are by default.
    criterion : Criterion or str
        What is judged; see `Criterion`.
    target : float, optional
        The criterion's value aimed at; by default half of the loss to expect with n bags.
    questions : iterable of str
        Which questions the theory answers, as for `plan`.
    curve : bool
        Whether the theory predicts learning curves too.
    trials : int
        Data sets simulated beside the theory's forecasts.
    repetitions : int
        Random parts per size that the theory's forecasts are checked on.
    budget : float
        CPU seconds that the default learner's measurement may take.
    theory : bool
        Whether the theory gives its reasons; without them the answer comes sooner.
    progress : callable, optional
        Called with a few words and an estimate of the time left whenever something begins.

    Returns
    -------
    BagsPlan
        The learner's curve and the bags needed, the estimate, the plan and the checks.

    Raises
    ------
    ValueError
        If the bags are too few or not of two classes, or an argument is out of its range.
    """
    from ..bags import Bags
    from ..estimators.learners import DEFAULT, LEARNERS

    bags = X if isinstance(X, Bags) else Bags(X)
    labels = np.asarray(y)
    classes = np.unique(labels)
    if len(labels) != len(bags):
        raise ValueError(f"there must be one label per bag ({len(bags)}), got {len(labels)}")
    if labels.dtype.kind == "f" and np.isnan(labels).any():
        raise ValueError("the labels must be known: some are NaN")
    if len(classes) != 2:
        raise ValueError(f"the labels must be of two classes, they are of {len(classes)}")
    size = len(bags) if n is None else whole_number("n", n, 2)
    judged, asked = Criterion.of(criterion), tuple(questions)
    positive = labels == classes[1]
    share = Task(prevalence=float(positive.mean()))
    if target is not None:
        judged.target_loss(target, share)  # refuses what cannot be aimed at before anything is computed
    measuring = f"measuring {DEFAULT}"
    say = Stages(progress, {measuring: budget / 2} | (_reasons_times(asked, curve, trials) if theory else {}))
    say(measuring)

    def report(done, total, left):
        return say(f"measuring {DEFAULT}, fit {done} of {total}", left)

    measured = measure_curve(bags, positive, LEARNERS[DEFAULT].make, judged, budget=budget, report=report)
    own = Extrapolation(measured)
    now = own.at(size)
    aim = target if target is not None else judged.shown(judged.shown(now.value) / 2)
    needed = own.needed(aim)
    reasons, remark = None, ""
    if theory:
        try:
            reasons = _reasons(bags, labels, size, judged, aim, asked, curve, trials, repetitions, say)
        except (ValueError, ArithmeticError) as error:  # the measurement stands by itself
            remark = f"the theory has nothing to say here: {error}"
    return BagsPlan(
        type(LEARNERS[DEFAULT].make()).__name__, size, own, now, needed, target is not None, reasons, remark
    )


def _reasons_times(questions: tuple[str, ...], curve: bool, trials: int) -> dict[str, float]:
    """The stages of the theory's part and the seconds that each takes on an ordinary machine."""
    times = {"estimating the task": 3.0} | typical_times(questions, curve, trials)
    checking = {"attention": 4.0, "pooled": 0.5, "message_passing": 1.0}
    calibrating = {"attention": 14.0, "pooled": 9.0, "message_passing": 0.5}
    for learner in CHECKED:
        times |= {
            f"checking {NAMES[learner]}": checking[learner],
            f"calibrating {NAMES[learner]}": calibrating[learner],
        }
    return times


def _reasons(
    bags: Any, labels: np.ndarray, n: int, judged: Criterion, target: float, questions: tuple[str, ...], curve: bool,
    trials: int, repetitions: int, say: Stages,
) -> Reasons:  # fmt: skip
    say("estimating the task")
    found = estimate(bags, labels)
    d, task = max(2, round(found.dimension)), found.differing_task(MOST_KINDS)
    # A target above what the theory calls chance (the classes' shares are estimated) has no answer; its own default has.
    aim = judged.shown(min(judged.shown(target), 0.95 * judged.chance(task)))
    made = plan(
        task,
        n,
        d,
        criterion=judged,
        target=aim,
        questions=questions,
        curve=curve,
        trials=trials,
        progress=say,
    )
    by = Criterion("error") if judged.weighs_prevalence else Criterion("auc")
    checks, more = check_forecasts(bags, labels, found, by, repetitions, say)
    trust, words = verdict(checks, found)
    return Reasons(found, made, tuple(checks), by, tuple(more), trust, words)

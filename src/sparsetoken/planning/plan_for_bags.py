"""`plan_for_bags`: how good the default learner is on the bags at hand, what more bags would bring, how many a target needs.

The learner that `fit` uses is measured on parts of the bags and its learning curve extrapolated (`learning_curve`,
`extrapolation`): the answer is measured and assumes no model of the bags.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .._core.validation import whole_number
from ..plotting.show import Shown
from .criterion import Criterion
from .extrapolation import FARTHEST, GAIN, TIMES, BagsNeeded, Extrapolation, Interval
from .learning_curve import BUDGET, measure_curve, two_classes
from .learning_curve_display import LearningCurveDisplay
from .solve import rounded


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
        The learner's learning curve, measured on parts of the bags and extrapolated.
    needed : BagsNeeded or None
        How many bags the target needs; None where no target was given.
    """

    learner: str
    n: int
    curve: Extrapolation
    needed: BagsNeeded | None = None

    @property
    def now(self) -> Interval:
        """The criterion's value to expect with n bags."""
        return self.curve.at(self.n)

    @property
    def gain_probability(self) -> float:
        """Probability that four times as many bags reduce the loss by a tenth or more."""
        return self.curve.gain_probability(self.n, TIMES[-1] * self.n)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain data."""
        return {
            "learner": self.learner,
            "n": self.n,
            "now": self.now.to_dict(),
            "needed": None if self.needed is None else self.needed.to_dict(),
            "gain_probability": self.gain_probability,
            "curve": self.curve.to_dict(),
        }

    def __repr__(self) -> str:
        end = ""
        if self.needed is not None:
            bags = "out of reach" if self.needed.value is None else f"{self.needed.value:,} bags"
            end = f"; target {self.needed.target:.3g}: {bags}"
        return (
            f"BagsPlan({self.learner} with {self.n} bags: {self.curve.curve.criterion.label} {self.now.value:.3g} "
            f"({self.now.low:.3g} to {self.now.high:.3g}){end})"
        )

    def frame(self) -> Any:
        """The table of `Extrapolation.frame`, with the bags planned for."""
        return self.curve.frame({*TIMES, self.n / self.curve.curve.n})

    def plot(self, ax: Any = None) -> Any:
        """The learner's curve, measured and extrapolated, and the target."""
        target = None if self.needed is None else self.needed.target
        ahead = max(TIMES[-1], self.n / self.curve.curve.n)
        return LearningCurveDisplay(self.learner, self.curve, ahead, target=target).plot(ax)

    def figure(self) -> Any:
        """The figure of `plot`."""
        return self.plot().figure

    def __str__(self) -> str:
        curve = self.curve.curve
        achieves = f"{self.learner} (the learner of `fit`) achieves {curve.criterion.with_article} of about"
        now = f"With {self.n:,} bags, {achieves} {_with_interval(self.now)}."
        sentences = [now, _advice(self)]
        if curve.losses[-1] + 2 * curve.standard_errors[-1] > curve.chance:
            sentences.insert(1, "On held-out bags this is no better than chance: there may be no signal to learn.")
        lines = [line for sentence in sentences for line in textwrap.wrap(sentence, 80)]
        lines += ["", f"{self.learner} on parts of these {curve.n:,} bags ({curve.fits} fits), and extrapolated"]
        lines.append(f"  {'training bags':>15}   {curve.criterion.label}")
        for row in self.frame().itertuples():
            held_out = f"± {row.standard_error:.3f}, held-out"
            how = held_out if row.measured else f"({_between(row)}), extrapolated"
            lines.append(f"  {row.n:>15,}   {row.value:.3f} {how}")
        return "\n".join(lines)


def _between(interval: Any) -> str:
    return f"{interval.low:.3f} to {interval.high:.3f}"


def _with_interval(interval: Interval) -> str:
    return f"{interval.value:.3f} ({interval.level:.0%} interval {_between(interval)})"


def _advice(made: BagsPlan) -> str:
    """What more bags would bring, as a sentence: towards the target where there is one."""
    probability = made.gain_probability
    more = f"{TIMES[-1]} times as many bags reduce the loss by {GAIN:.0%} or more with probability {probability:.0%}"
    if made.needed is None:
        likely = "may" if 1 / 3 <= probability <= 2 / 3 else f"are {'un' * (probability < 0.5)}likely to"
        return f"More bags {likely} help: {more}."
    needed, target, far = made.needed, f"{made.needed.target:.3g}", f"{round(FARTHEST):,} times as many"
    if needed.status == "met":
        return (
            f"The target of {target} is met with these {made.curve.curve.n:,} bags (probability {needed.met_now:.0%})."
        )
    if needed.status == "found" and needed.value is not None:
        low, high = (f"more than {far}" if n is None else f"{rounded(n):,}" for n in (needed.low, needed.high))
        return (
            f"A target of {target} needs about {rounded(needed.value):,} bags ({made.now.level:.0%} interval {low} to "
            f"{high}); with probability {1 - needed.probability:.0%} no number of bags is enough."
        )
    return (
        f"More bags are unlikely to reach a target of {target} (probability {needed.probability:.0%} with {far}): the "
        f"curve levels off at about {_with_interval(made.curve.floor())}; {more}."
    )


def plan_for_bags(
    X: Any,
    y: Any,
    *,
    n: int | None = None,
    criterion: Criterion | str = "error",
    target: float | None = None,
    budget: float = BUDGET,
    positive_label: Any = None,
    progress: Callable[[str], None] | None = None,
) -> BagsPlan:
    """Measure the default learner on parts of labelled bags, and estimate what more bags would gain.

    Parameters
    ----------
    X : Bags or anything that `Bags` takes
        The bags.
    y : array-like
        One label per bag, of two.
    n : int, optional
        Bags to plan for; as many as there are by default.
    criterion : Criterion or str
        What is judged.
    target : float, optional
        The criterion's value aimed at.
    budget : float
        CPU seconds that the measurement may take.
    positive_label : label, optional
        Which of the two classes carries the signal; found on held-out bags by default.
    progress : callable, optional
        Called with a few words after every fit.

    Raises
    ------
    ValueError
        If the bags are too few or not of two classes.
    """
    from ..bags import Bags
    from ..estimators.labels import sides_to_try
    from ..estimators.learners import DEFAULT, LEARNERS

    bags = X if isinstance(X, Bags) else Bags(X)
    classes, positive = two_classes(bags, y)
    # The learner is trained on truth values.
    side = None if positive_label is None else sides_to_try(positive_label, classes) == (1.0,)
    size = len(bags) if n is None else whole_number("n", n, 2)
    judged = Criterion.of(criterion)
    if target is not None:  # refused before anything is computed
        judged.target_loss(target, float(positive.mean()))

    def report(done: int, total: int, seconds_left: float) -> None:
        if progress is not None:
            progress(f"measuring {DEFAULT}, fit {done} of {total}, about {seconds_left:.0f} s left")

    def learner() -> Any:
        return LEARNERS[DEFAULT].make().set_params(positive_label=side)

    curve = Extrapolation(measure_curve(bags, positive, learner, judged, budget=budget, report=report))
    needed = None if target is None else curve.needed(target)
    return BagsPlan(type(LEARNERS[DEFAULT].make()).__name__, size, curve, needed)

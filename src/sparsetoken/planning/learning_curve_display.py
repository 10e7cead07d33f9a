"""`LearningCurveDisplay`: a learner's learning curve, measured and extrapolated, together with forecasts of the theory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .._core.validation import real_number
from ..plotting.show import Shown, axes_for, legend_above
from ..plotting.style import MEASURED, REFERENCE, colour, label
from .criterion import Criterion
from .extrapolation import TIMES, Extrapolation
from .learning_curve import BUDGET, measure_curve, two_classes

if TYPE_CHECKING:
    from .plan import Plan

Forecasts = Mapping[str, tuple[Any, Any]]  # name -> (numbers of bags, values)


class LearningCurveDisplay(Shown):
    """An estimator's learning curve on bags: measured, extrapolated to more bags, with forecasts of the theory.

    Parameters
    ----------
    name : str
        The estimator's, for the legend.
    extrapolation : Extrapolation
        The measured curve, and what it allows beyond the bags at hand.
    ahead : float
        Times the bags at hand up to which the curve is extrapolated.
    forecasts : Plan or mapping, optional
        Also drawn: a plan with learning curves, or name -> (numbers of bags, values).
    target : float, optional
        A value of the criterion to mark.

    Attributes
    ----------
    ax_, figure_
        Axes and figure of the last `plot`.
    """

    ax_: Any = None
    figure_: Any = None

    def __init__(
        self,
        name: str,
        extrapolation: Extrapolation,
        ahead: float = TIMES[-1],
        forecasts: Plan | Forecasts | None = None,
        target: float | None = None,
    ):
        self.name, self.extrapolation, self.forecasts, self.target = name, extrapolation, forecasts, target
        self.ahead = real_number("ahead", ahead, 1.0)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        criterion: Criterion | str = "error",
        forecasts: Plan | Forecasts | None = None,
        budget: float = BUDGET,
        random_state: int = 0,
        ax: Any = None,
    ) -> LearningCurveDisplay:
        """Measure an estimator's learning curve on labelled bags with `measure_curve`, and draw it.

        Parameters
        ----------
        estimator : classifier
            With `fit` and `decision_function`; it is cloned, and itself left as it is.
        X, y
            As for `plan_for_bags`.
        criterion : Criterion or str
            What is measured.
        forecasts : Plan or mapping, optional
            Also drawn: a plan made with the question "curve", or name -> (numbers of bags, values), such as those of
            `forecast(...).test_error` at alpha = n/d.
        budget : float
            As for `measure_curve`.
        random_state : int
            Of folds and orders.
        ax : matplotlib Axes, optional
            Where to draw; new axes by default.
        """
        from sklearn.base import clone

        from ..bags import Bags

        bags = X if isinstance(X, Bags) else Bags(X)
        _lines(forecasts)
        _, positive = two_classes(bags, y)
        measured = measure_curve(bags, positive, lambda: clone(estimator), criterion, budget=budget, seed=random_state)
        display = cls(type(estimator).__name__, Extrapolation(measured), forecasts=forecasts)
        display.plot(ax)
        return display

    def __repr__(self) -> str:
        curve = self.extrapolation.curve
        last = curve.criterion.shown(curve.losses[-1])
        return (
            f"LearningCurveDisplay({self.name}: {curve.criterion.label} {last:.3g} ± {curve.standard_errors[-1]:.2g} "
            f"with {curve.sizes[-1]} bags)"
        )

    def frame(self) -> Any:
        """The table of `Extrapolation.frame`."""
        return self.extrapolation.frame({*(times for times in TIMES if times < self.ahead), self.ahead})

    def plot(self, ax: Any = None) -> Any:
        """Draw measured points, the extrapolation with its band, and forecast curves as dashed lines."""
        self.ax_ = axes = axes_for(ax, (7.0, 5.0))
        self.figure_ = axes.figure
        name, curve, last = self.name, self.extrapolation.curve, self.ahead * self.extrapolation.curve.n
        for place, (model, (x, y)) in enumerate(_lines(self.forecasts).items()):
            points = [(n, value) for n, value in zip(x, y, strict=True) if n <= last]
            if points:
                style = {"color": colour(model, place), "linestyle": "--", "linewidth": 1}
                axes.plot(*zip(*points), label=f"{label(model)}, theory", **style)
        sizes = np.geomspace(curve.sizes[0], last, 60)
        ahead = [self.extrapolation.at(n) for n in sizes]
        band = {"alpha": 0.15, "linewidth": 0, "color": MEASURED}
        axes.fill_between(sizes, [a.low for a in ahead], [a.high for a in ahead], **band)
        level = f"{ahead[0].level:.0%}"
        axes.plot(sizes, [a.value for a in ahead], label=f"{name}, fit and {level} interval", color=MEASURED)
        shown = [curve.criterion.shown(loss) for loss in curve.losses]
        points_style = {"fmt": "o", "capsize": 3, "color": MEASURED, "label": f"{name}, measured"}
        axes.errorbar(curve.sizes, shown, curve.standard_errors, **points_style)
        if self.target is not None:
            axes.axhline(self.target, color=REFERENCE, linewidth=0.8, label=f"target {self.target:.3g}")
        axes.set_xlabel("bags to learn from")
        finish(axes, curve.n, [curve.sizes[0], *(curve.n * k for k in TIMES if curve.n * k <= last)], curve.criterion)
        return axes


def _lines(forecasts: Plan | Forecasts | None) -> Forecasts:
    """Name -> (numbers of bags, values) of the curves to draw with the measured one."""
    if forecasts is None or isinstance(forecasts, Mapping):
        return forecasts or {}
    return forecasts.lines()


def finish(axes: Any, n: int, ticks: Sequence[int], criterion: Criterion) -> None:
    """What axes with learning curves have in common; the bags at hand, n, are marked."""
    axes.axvline(n, color=REFERENCE, linestyle=":", label=f"n = {n:,}")
    axes.set_xscale("log", base=2)
    axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks], fontsize=8)
    axes.set_ylabel(criterion.label)
    if not criterion.larger_is_better:
        axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    legend_above(axes)

"""A learning curve as scikit-learn's displays show theirs: measured, carried on, with the theory's forecast laid over."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .._core.validation import real_number
from ..plotting.show import Shown, axes_for
from .advice import Plan
from .criterion import Criterion
from .extrapolation import Extrapolation
from .learning_curve import BUDGET, measure_curve

AHEAD = 4.0  # times the bags at hand up to which a curve is carried on


class LearningCurveDisplay(Shown):
    """An estimator's learning curve on bags: measured, carried on to more bags, and the theory's curves laid over.

    Made by `from_estimator`.

    Parameters
    ----------
    name : str
        The estimator's, for the legend.
    extrapolation : Extrapolation
        The measured curve, and what it allows beyond the bags at hand.
    ahead : float
        Times the bags at hand up to which the curve is carried on.
    forecasts : Plan or mapping, optional
        Laid over: a plan made with `curve=True` (attention, pooling and the Bayes limit), or name -> (numbers of bags, values).

    Attributes
    ----------
    ax_, figure_
        Axes and figure of the last `plot`.
    """

    ax_: Any = None
    figure_: Any = None

    def __init__(self, name: str, extrapolation: Extrapolation, ahead: float = AHEAD, forecasts: Any = None):
        self.name, self.extrapolation, self.ahead, self.forecasts = name, extrapolation, ahead, forecasts

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        criterion: Criterion | str = "error",
        forecasts: Plan | Mapping[str, tuple[Any, Any]] | None = None,
        ahead: float = AHEAD,
        budget: float = BUDGET,
        random_state: int = 0,
        ax: Any = None,
    ) -> LearningCurveDisplay:
        """Measure an estimator's learning curve on labelled bags, and draw it.

        Every bag is predicted by copies of the estimator that have not seen it, trained on nested parts of the others.

        Parameters
        ----------
        estimator : classifier
            With `fit` and `decision_function`; it is cloned, and itself left as it is.
        X : Bags or anything that `Bags` takes
            The bags.
        y : array-like
            One label per bag, of two classes.
        criterion : Criterion or str
            What is measured: "error", "auc", "balanced_error", "sensitivity@0.95", ...
        forecasts : Plan or mapping, optional
            Laid over: a plan made with `curve=True`, or name -> (numbers of bags, values), such as those of
            `forecast(...).test_error` at alpha = n/d.
        ahead : float
            Times the bags at hand up to which the curve is carried on, at least 1.
        budget : float
            CPU seconds that the fits should take at most.
        random_state : int
            Of folds and orders.
        ax : matplotlib Axes, optional
            Where to draw; new axes by default.

        Returns
        -------
        LearningCurveDisplay

        Raises
        ------
        ValueError
            If the bags are too few or not of two classes, or a plan has no learning curves.
        """
        from sklearn.base import clone

        from ..bags import Bags

        ahead, budget = real_number("ahead", ahead, 1.0), real_number("budget", budget, 0.0, open_low=True)
        if isinstance(forecasts, Plan) and not forecasts.curve:
            raise ValueError("forecasts must have learning curves: make the plan with curve=True")
        bags = X if isinstance(X, Bags) else Bags(X)
        labels = np.asarray(y)
        if len(labels) != len(bags):
            raise ValueError(f"y must have one label per bag ({len(bags)}), got {len(labels)}")
        classes = np.unique(labels)
        if len(classes) != 2:
            raise ValueError(f"y must be of two classes, it is of {len(classes)}")
        measured = measure_curve(
            bags, labels == classes[1], lambda: clone(estimator), criterion, budget=budget, seed=random_state
        )
        display = cls(type(estimator).__name__, Extrapolation(measured), ahead, forecasts)
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
        """A pandas table: what was measured, then what is forecast for more bags.

        Returns
        -------
        pandas.DataFrame
            Columns n, value (of the criterion), standard_error (measured), low and high (forecast), measured (whether).
        """
        return self.extrapolation.frame([times for times in (1, 2, 4, 8) if times <= self.ahead])

    def plot(self, ax: Any = None) -> Any:
        """Draw the curve.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; new axes by default.

        Returns
        -------
        matplotlib Axes
        """
        from .figure import draw_measured_curve

        last = self.ahead * self.extrapolation.curve.n
        self.ax_ = draw_measured_curve(axes_for(ax, (7.0, 5.0)), self.name, self.extrapolation, last, self.forecasts)
        self.figure_ = self.ax_.figure
        return self.ax_

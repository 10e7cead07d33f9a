"""`erm` and `best_ridge`: exact asymptotics of ridge-regularised convex ERM on any law, at a given ridge and at the best one.

The fixed point is found on a sampling of the law (by Newton's method and continuation in the ridge; in closed form for the
square loss), which is then refined until the accuracy is reached. Every number has the standard error that this leaves in it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, TypedDict, Unpack, overload

import numpy as np

from ..._core.root_finding import least_on_grid
from ..._core.validation import real_number, rejection
from ...laws.coloured import ColouredLaw
from ...laws.heads import HeadsLaw
from ...laws.law import Law, SampledLaw
from ...losses import Loss
from ...results import NOT_PLAIN, Result
from ..accuracy import DEFAULT_ACCURACY, Accuracy, WarmStart
from .coloured import ColouredReadout, ColouredResult
from .heads import HeadsReadout, HeadsResult
from .plain import ErmResult, PlainReadout
from .refinement import ReadoutProblem


class _Options(TypedDict, total=False):
    accuracy: float
    warm_start: WarmStart | None
    strict: bool


@overload
def erm(law: Law, alpha: float, ridge: float, loss: str | Loss = ..., **options: Unpack[_Options]) -> ErmResult:
    """With a law of (T, S, kappa)."""


@overload
def erm(law: HeadsLaw, alpha: float, ridge: float, loss: str | Loss = ..., **options: Unpack[_Options]) -> HeadsResult:
    """With several heads."""


@overload
def erm(
    law: ColouredLaw, alpha: float, ridge: float, loss: str | Loss = ..., **options: Unpack[_Options]
) -> ColouredResult:
    """In coloured noise."""


def erm(
    law: Law | HeadsLaw | ColouredLaw,
    alpha: float,
    ridge: float,
    loss: str | Loss = "logistic",
    *,
    accuracy: float = DEFAULT_ACCURACY,
    warm_start: WarmStart | None = None,
    strict: bool = False,
) -> ErmResult | HeadsResult | ColouredResult:
    """Test error, training loss, norms and error measures of ridge-regularised ERM, Eq. (8) to Eq. (11) of docs/theory.md.

    Objective: (1/n) sum_i l(<w, f_i> + b; y_i) + (ridge/2) ||w||^2, bias unpenalised, n = alpha d.

    Parameters
    ----------
    law : Law, HeadsLaw or ColouredLaw
        The law of (T, S, kappa), that of several heads side by side (`heads_law`), or one in coloured noise (`coloured_law`).
    alpha : float
        n/d, samples per dimension of a token.
    ridge : float
        lambda. Zero is allowed where there is one minimiser: above capacity, and for the square loss where alpha is above 1
        (above H for H heads, which must differ). Below that, a law of (T, S, kappa) gives the interpolator of least norm.
    loss : str or Loss
        l, by its name or as an object.
    accuracy, warm_start, strict
        As in `Accuracy`, the first as its `test_error`.

    Returns
    -------
    ErmResult, HeadsResult or ColouredResult
        By the kind of law. Where no fixed point is found there is a `ConvergenceError`, where the accuracy is not met an
        `AccuracyWarning`, or if `strict` an `AccuracyError`.
    """
    alpha = real_number("alpha", alpha, 0.0, open_low=True)
    ridge = real_number("ridge", ridge, 0.0)
    if not isinstance(law, SampledLaw):
        raise rejection("law", law, "a Law, HeadsLaw or ColouredLaw")
    problems: dict[type, type[ReadoutProblem]] = {HeadsLaw: HeadsReadout, ColouredLaw: ColouredReadout}
    problem = problems.get(type(law), PlainReadout)
    return problem(law, alpha, ridge, loss).limit(Accuracy(accuracy, strict, warm_start))


@dataclass(frozen=True, kw_only=True, repr=False)
class BestRidge(Result):
    """The ridge with the least test error.

    Attributes
    ----------
    ridge, test_error, standard_error : float
        lambda, the test error there, and its standard error from the law's sampling.
    at_end : bool
        Whether the least test error lies at an end of the range.
    evaluations : int
        Fixed points that were solved.
    result : ErmResult, HeadsResult or ColouredResult
        The readout at that ridge.
    """

    ridge: float
    test_error: float
    standard_error: float
    at_end: bool
    evaluations: int
    result: ErmResult | HeadsResult | ColouredResult = field(compare=False, metadata=NOT_PLAIN)

    def plot(self, ax: Any = None) -> Any:
        """The readout at that ridge, as its own `plot`."""
        ax = self.result.plot(ax)
        ax.set_title(f"{ax.get_title()}, ridge {self.ridge:.3g}")
        return ax

    def _words(self) -> str:
        end = ", an end of the range" if self.at_end else ""
        return f"ridge {self.ridge:.3g}{end}: test error {self.test_error:.4g}"


def best_ridge(
    law: Law | HeadsLaw | ColouredLaw,
    alpha: float,
    loss: str | Loss = "logistic",
    *,
    low: float = 1e-6,
    high: float = 1e3,
    accuracy: float = DEFAULT_ACCURACY,
) -> BestRidge:
    """The ridge lambda with the least test error of (1/n) sum_i l(<w, f_i> + b; y_i) + (lambda/2) ||w||^2.

    All ridges are compared on the same draws of the law, so that the place of the minimum is much more accurate than the
    standard errors of the test errors suggest.

    Parameters
    ----------
    law, alpha, loss
        As in `erm`.
    low, high : float
        The range of lambda, positive.
    accuracy : float
        Absolute error allowed on the test errors.
    """
    low = real_number("low", low, 0.0, open_low=True)
    high = real_number("high", high, low, open_low=True)
    solved: list[tuple[float, ErmResult | HeadsResult | ColouredResult]] = []

    def error(log_ridge: float, points: int | None = None) -> float:
        nearest = min(solved, key=lambda pair: abs(pair[0] - log_ridge))[1].fixed_point if solved else None
        start = None if nearest is None else WarmStart(nearest, points)
        solved.append((log_ridge, erm(law, alpha, math.exp(log_ridge), loss, accuracy=accuracy, warm_start=start)))
        return solved[-1][1].test_error

    # From the high end, where a fixed point is found at once, downwards.
    places = np.linspace(math.log(low), math.log(high), 2 + int(math.log(high / low) / math.log(10.0)))
    least = int(np.argmin([error(float(place)) for place in places[::-1]][::-1]))
    # The neighbourhood of the best one is compared on the finest draws used so far; a hundredth of it is exact enough, since
    # the test error is flat at its minimum.
    finest = max(best_result.points for _, best_result in solved) or None
    best, _ = least_on_grid(lambda place: error(place, finest), places[max(least - 1, 0) : least + 2], 0.01)
    best_result = next(result for place, result in reversed(solved) if place == best)
    return BestRidge(
        ridge=best_result.ridge,
        test_error=best_result.test_error,
        standard_error=best_result.standard_error,
        at_end=best in (float(places[0]), float(places[-1])),
        evaluations=len(solved),
        result=best_result,
    )

"""`erm`: exact asymptotics of ridge-regularised convex ERM on any law.

The fixed point is found on a sampling of the law (by Newton's method and continuation in the ridge; in closed form for the
square loss), which is then refined until the accuracy is reached. Every number has the standard error that this leaves in it.
"""

from __future__ import annotations

from typing import TypedDict, Unpack, overload

from ..._core.validation import real_number
from ...laws.coloured import ColouredLaw
from ...laws.heads import HeadsLaw
from ...laws.law import Law
from ...losses import Loss
from .coloured import ColouredReadout, ColouredResult
from .heads import HeadsReadout, HeadsResult
from .plain import ErmResult, PlainReadout
from .readout import DEFAULT_ACCURACY, Accuracy, ReadoutProblem, WarmStart


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
        By the kind of law.

    Raises
    ------
    ConvergenceError
        Where no fixed point is found.
    AccuracyError
        Where the accuracy is not met, if `strict`.

    Warns
    -----
    AccuracyWarning
        Where the accuracy is not met; see `standard_error`.
    """
    alpha = real_number("alpha", alpha, 0.0, open_low=True)
    ridge = real_number("ridge", ridge, 0.0)
    problem: type[ReadoutProblem] = PlainReadout
    if isinstance(law, HeadsLaw):
        problem = HeadsReadout
    elif isinstance(law, ColouredLaw):
        problem = ColouredReadout
    return problem(law, alpha, ridge, loss).limit(Accuracy(accuracy, strict, warm_start))

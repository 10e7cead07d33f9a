"""Separability threshold: D1 is linearly separable (with a bias) below alpha*, with probability tending to 1, and not above.

alpha counts samples per dimension d (a vectorized law knows its factor L). What is minimised is in `separability`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._core.averages import standard_error
from .._core.validation import real_number
from ..laws.coloured import ColouredLaw, whitened_law
from ..laws.heads import HeadsLaw
from ..laws.law import MAXIMUM_POINTS, SECOND_LEVEL, Law
from ..plotting.show import axes_for, draw_shares
from ..plotting.style import MEASURED
from ..results import Result
from .separability import NEVER, heads_threshold, plain_threshold


@dataclass(frozen=True, repr=False)
class Capacity(Result):
    """The separability threshold and where the minimum behind it lies.

    Attributes
    ----------
    alpha : float
        alpha*; infinite where the classes do not mix at all (see `capacity`).
    standard_error : float
        Of alpha*, from the law's sampling; 0 where alpha* is infinite.
    m_q, m_u, bias : float
        The minimiser.
    residual : float
        The largest entry of the gradient there, each over the root of its own second derivative times the value.
    """

    alpha: float
    standard_error: float
    m_q: float
    m_u: float
    bias: float
    residual: float

    def _words(self) -> str:
        spread = f" ± {self.standard_error:.1g}" if self.standard_error else ""
        return f"alpha* {self.alpha:.4g}{spread}"

    def plot(self, ax: Any = None) -> Any:
        """alpha* as a point.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; new axes by default.

        Returns
        -------
        matplotlib Axes
        """
        ax = draw_shares(axes_for(ax, (6.0, 1.6)), ["capacity"], [self.alpha], [self.standard_error], MEASURED)
        ax.set_xlabel("samples per dimension α*, with two standard errors")
        return ax


def _refined(
    law: Law | HeadsLaw, accuracy: float, most_points: int, solve: Callable[[int, Any], tuple[Any, np.ndarray, float]]
) -> tuple[Any, float, float, float]:
    """The minimiser, alpha* (infinite where the classes do not mix) with its standard error, and the residual.

    `solve(points, start)` gives the minimiser, the replicates' values of 1/alpha* and the residual on the law's draws of a
    level; `start` is the minimiser of the last level, None at first.
    """
    points, found = law.first_points, None
    while True:
        found, value, residual = solve(points, found)
        apart = bool(value.mean() < NEVER)
        # The minimiser's own variation is second order, so the values' scatter at the common minimiser is the error. Draws
        # that do not mix at all carry little information on rare bags that do: more draws, once.
        relative = SECOND_LEVEL * accuracy if apart else float(standard_error(value, alone=0.0) / value.mean())
        enough = points > law.first_points if apart else relative <= accuracy
        finer = None if enough or points >= most_points else law.finer(points, relative / accuracy)
        if finer is None:
            break
        points = min(finer, most_points)
    if apart:
        return found, float("inf"), 0.0, residual
    alpha = float((law.dimension_factor if isinstance(law, Law) else 1) / value.mean())
    return found, alpha, relative * alpha, residual


def capacity(
    law: Law | HeadsLaw | ColouredLaw, *, accuracy: float = 1e-3, most_points: int = MAXIMUM_POINTS
) -> Capacity:
    """The separability threshold alpha* = n/d of a law.

    Eq. (12) of docs/theory.md.

    Parameters
    ----------
    law : Law, HeadsLaw or ColouredLaw
        The law of (T, S, kappa), or that of several heads, of which the minimiser (m_q, m_u, bias) is NaN. In coloured noise
        the threshold is that of the whitened bags, and so is the minimiser: separability does not change under an
        invertible map of the features.
    accuracy : float
        Target relative standard error; the law is refined until it is reached or cannot be refined further.
    most_points : int
        Draws per replicate and class at which refinement ends, for those who would rather have an error bar than wait.

    Returns
    -------
    Capacity
        With the standard error reached. alpha = inf where the classes lie so far apart that they do not mix: exact laws at
        1/alpha* below 1e-13, sampled ones where none of some 30,000 bags drawn of each class lies on the wrong side.

    Raises
    ------
    ConvergenceError
        Where the minimum is not found.
    ValueError
        If the noise of a coloured law leaves some directions out.
    """
    accuracy = real_number("accuracy", accuracy, 0.0, open_low=True)
    if isinstance(law, HeadsLaw):  # the threshold alone: the minimiser of several heads is not three numbers
        heads = law
        _, *found = _refined(law, accuracy, most_points, lambda points, s: heads_threshold(heads, points, s))
        return _capacity(np.full(3, np.nan), *found)
    if isinstance(law, ColouredLaw):
        law = whitened_law(law)
    if not isinstance(law, Law):
        raise TypeError(f"law must be a Law, HeadsLaw or ColouredLaw, not {type(law).__name__}")
    plain = law

    def solve(points: int, p: np.ndarray | None) -> tuple[np.ndarray, np.ndarray, float]:
        return plain_threshold(plain.at(points)[0], np.zeros(3) if p is None else p)

    p, *found = _refined(law, accuracy, most_points, solve)
    return _capacity(p, *found)


def _capacity(minimiser: np.ndarray, alpha: float, error: float, residual: float) -> Capacity:
    m_q, m_u, bias = map(float, minimiser)
    return Capacity(alpha, error, m_q, m_u, bias, residual)


def require_above_capacity(law: Law | HeadsLaw | ColouredLaw, alpha: float, accuracy: float = 1e-3) -> None:
    """Without a ridge the minimiser exists only above capacity: say so otherwise."""
    threshold = capacity(law, accuracy=accuracy)
    if alpha <= threshold.alpha:
        raise ValueError(
            f"ridge must be positive below capacity (alpha {alpha:g} <= {threshold.alpha:.4g}): the data are separable and "
            "the minimiser is at infinity; a small ridge gives the maximum-margin limit"
        )

"""Separability threshold: D1 is linearly separable (with a bias) below alpha*, with probability tending to 1, and not above.

    1/alpha* = min over m_q, m_u, b of  E[( sqrt(1 + m_u^2) G - y (m_q T + m_u S + b)/kappa )_+^2]

The objective is smooth and convex, and its G-average is closed (`shortfall`). alpha counts samples per dimension d (a
vectorized law knows its factor L).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .._core.replicates import standard_error
from .._core.validation import real_number
from ..laws.coloured import ColouredLaw, whitened_law
from ..laws.heads import HeadsLaw
from ..laws.law import MAXIMUM_POINTS, SECOND_LEVEL, Law
from ..laws.nodes import Population
from ..plotting.show import axes_for, draw_shares
from ..plotting.style import MEASURED
from ..results import Result
from .errors import ConvergenceError
from .heads_capacity import heads_threshold
from .shortfall import least, shortfall

NEVER = 1e-13  # values of 1/alpha* below are rounding: the classes are apart at any sample size one can have
_STEPS = 200  # Newton steps allowed; 5 to 15 are taken, some dozens where kappa nearly vanishes in some bags
_TOLERANCE = 1e-6  # on the scaled gradient, which is 1e-10 or less where the steps went their way


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


class _Terms(NamedTuple):
    """What the objective needs of a class, arrays flat over replicates and entries.

    Attributes
    ----------
    c : array (3, N)
        (T, S, 1) y/kappa, so that the bracket is Gaussian of mean -c.p.
    ratio2 : array (N,) or float
        tau^2/kappa^2, or 0 where T has no spread of its own: the bracket's variance is 1 + m_u^2 + m_q^2 ratio2.
    weight : array (N,)
        Class probability times the entry's weight.
    """

    c: np.ndarray
    ratio2: Any
    weight: np.ndarray


def _terms(population: Population) -> list[_Terms]:
    terms = []
    for label, probability, columns in population.training():
        shape = columns.T.shape

        def flat(v):
            return np.broadcast_to(v, shape).ravel()  # noqa: B023

        c = np.stack([flat(label * v / columns.kappa) for v in (columns.T, columns.S, 1.0)])
        ratio2 = flat((columns.tau / columns.kappa) ** 2) if np.any(columns.tau) else 0.0
        terms.append(_Terms(c, ratio2, probability * flat(columns.weight)))
    return terms


def _objective(p: np.ndarray, terms: list[_Terms], replicates: int):
    """Value for each replicate, pooled gradient and Hessian in p = (m_q, m_u, b)."""
    m_q, m_u, _ = p
    value = np.zeros(replicates)
    gradient, hessian = np.zeros(3), np.zeros((3, 3))
    for c, ratio2, weight in terms:
        v = 1 + m_u**2 + m_q**2 * ratio2
        square, tail, density, a, s = shortfall(p @ c, v)
        w = weight / replicates
        value += (weight * square).reshape(replicates, -1).sum(1)
        w_v, w_av = w * tail, -w * density / s
        w_vv = -0.5 * w_av * a / v
        # dv/dp = (2 m_q ratio2, 2 m_u, 0)
        gradient += c @ (2 * (w_v * a - w * s * density))
        gradient[:2] += 2 * m_q * (w_v * ratio2).sum(), 2 * m_u * w_v.sum()
        cross = np.stack([2 * m_q * (c @ (w_av * ratio2)), 2 * m_u * (c @ w_av), np.zeros(3)], axis=1)
        hessian += (c * (2 * w_v)) @ c.T + cross + cross.T
        both = 4 * m_q * m_u * (w_vv * ratio2).sum()
        hessian[:2, :2] += [
            [4 * m_q**2 * (w_vv * ratio2**2).sum() + 2 * (w_v * ratio2).sum(), both],
            [both, 4 * m_u**2 * w_vv.sum() + 2 * w_v.sum()],
        ]
    return value, gradient, hessian


def _minimise(population: Population, p: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """The minimiser, from p, the replicates' values there, and the scaled gradient; any point with a value below `NEVER`."""
    terms, replicates = _terms(population), population.replicates

    def objective(p: np.ndarray) -> tuple[float, tuple[np.ndarray, ...]]:
        found = _objective(p, terms, replicates)
        return float(found[0].mean()), found

    p, (value, *_), residual = least(objective, lambda _, found: found[1:], p, NEVER, _STEPS)
    if not residual <= _TOLERANCE:
        raise ConvergenceError(f"capacity: scaled gradient {residual:.1e} after {_STEPS} Newton steps at {p}")
    return p, value, residual


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
        apart = value.mean() < NEVER
        # The minimiser's own variation is second order, so the values' scatter at the common minimiser is the error. Draws
        # that do not mix at all say little about rare bags that do: more draws.
        scatter = standard_error(value, alone=0.0)
        relative = float(scatter / value.mean()) if not apart else SECOND_LEVEL * accuracy
        finer = None if relative <= accuracy or points >= most_points else law.finer(points, relative / accuracy)
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
    """The separability threshold alpha* = n/d of a law (see the module's text).

    Parameters
    ----------
    law : Law, HeadsLaw or ColouredLaw
        The law of (T, S, kappa), or that of several heads, of which the minimiser (m_q, m_u, bias) is NaN. In coloured noise
        the threshold is that of the whitened bags, and so is the minimiser: separability does not change under an
        invertible map of the features.
    accuracy : float
        Relative standard error wanted; the law is refined until it is met or cannot be refined further.
    most_points : int
        Draws per replicate and class at which refinement ends, for those who would rather have an error bar than wait.

    Returns
    -------
    Capacity
        With the standard error reached. alpha = inf where the classes lie so far apart that they do not mix: exact laws at
        1/alpha* below 1e-13, sampled ones where none of the bags drawn (half a million per class, unless `most_points` says
        otherwise) lies on the wrong side.

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
        _, *found = _refined(law, accuracy, most_points, lambda points, s: heads_threshold(heads, points, s, NEVER))
        return _capacity(np.full(3, np.nan), *found)
    if isinstance(law, ColouredLaw):
        law = whitened_law(law)
    if not isinstance(law, Law):
        raise TypeError(f"law must be a Law, HeadsLaw or ColouredLaw, not {type(law).__name__}")
    plain = law

    def solve(points: int, p: np.ndarray | None) -> tuple[np.ndarray, np.ndarray, float]:
        return _minimise(plain.at(points)[0], np.zeros(3) if p is None else p)

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

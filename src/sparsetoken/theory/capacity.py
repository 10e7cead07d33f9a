"""Separability threshold: D1 is linearly separable (with a bias) below alpha*, with probability tending to 1, and not above.

alpha counts samples per dimension d (a vectorized law includes its factor L). A margin that is Gaussian with mean a and
variance v = s^2 falls short of zero by (-a - s G)_+. Its mean square is closed,

    e = (v + a^2) Phi(-x) - a s phi(x),   x = a/s
    e_a = 2 (a Phi - s phi),   e_v = Phi,   e_aa = 2 Phi,   e_av = -phi/s,   e_vv = phi a/(2 s^3)

and averages of it over bags are smooth and convex in the readout: Newton's method with step halving finds the minimum of
Eq. (12) of docs/theory.md.

For several heads Eq. (19) is a saddle point, least in m, b and Q, greatest in V, which depends on neither the length of the
readout nor that of V: both matrices are held at trace 1. Newton's method on all unknowns fails where the classes are far
apart. What works is m and b at the minimum for the present Q and V, and then, as the derivatives in Q and V demand,

    V <- E[K Phi(-x)/tr(K V)]^{-1},     Q <- V E[K e/tr(K V)^2] V
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr

from .._core.arrays import ROUNDING
from .._core.averages import standard_error
from .._core.root_finding import NEWTON_STEPS
from .._core.validation import real_number
from ..laws.coloured import ColouredLaw, whitened_law
from ..laws.heads import HeadsLaw
from ..laws.law import MAXIMUM_POINTS, SECOND_LEVEL, Law
from ..plotting.show import axes_for, draw_shares
from ..plotting.style import MEASURED
from ..results import Result
from .accuracy import ConvergenceError
from .fixed_point.newton import SHORTEST, SUFFICIENT
from .fixed_point.prox_averages import LARGEST_RESIDUAL, TOLERANCE


@dataclass(frozen=True, repr=False)
class Capacity(Result):
    """The separability threshold and where the minimum behind it lies.

    Attributes
    ----------
    alpha : float
        alpha*; infinite where the classes do not mix at all (see `capacity`).
    standard_error : float
        Of alpha*, from the law's sampling; 0 where alpha* is infinite.
    m_q, m_u, bias, residual : float
        The minimiser, and the largest entry of the gradient there, each over the root of its own second derivative times the
        value.
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
        """alpha* as a point."""
        ax = draw_shares(axes_for(ax, (6.0, 1.6)), ["capacity"], [self.alpha], [self.standard_error], MEASURED)
        ax.set_xlabel("samples per dimension α*, with two standard errors")
        return ax


class _Margins(NamedTuple):
    """Margins y h of bags (last axis of all arrays) at unknowns p: means <p, columns>, and variances `variance` plus the sum of
    <p_c, K p_c> over parts (places c, K)."""

    columns: np.ndarray
    variance: np.ndarray
    parts: list[tuple[np.ndarray, np.ndarray]]


class _Shortfall(NamedTuple):
    """The mean square shortfall of margins, and what its derivatives are made of."""

    square: np.ndarray
    tail: np.ndarray
    density: np.ndarray
    mean: np.ndarray
    deviation: np.ndarray


def _shortfall(p: np.ndarray, margins: _Margins) -> _Shortfall:
    """e of every bag."""
    a, v = p @ margins.columns, margins.variance
    for places, K in margins.parts:
        v = v + np.tensordot(np.outer(p[places], p[places]), K, 2)
    s = np.sqrt(v)
    x = a / s
    tail, density = ndtr(-x), np.exp(-0.5 * x * x) / np.sqrt(2 * np.pi)
    return _Shortfall((v + a * a) * tail - a * s * density, tail, density, a, s)


def _derivatives(p: np.ndarray, margins: _Margins, weight: np.ndarray, at: _Shortfall) -> tuple[np.ndarray, np.ndarray]:
    """Gradient and Hessian of the sum of weight e."""
    _, tail, density, a, s = at
    w_a, w_v = 2 * weight * (a * tail - s * density), weight * tail
    w_av = -weight * density / s
    w_vv = -0.5 * w_av * a / s**2
    slope = np.zeros(margins.columns.shape)  # dv/dp
    for places, K in margins.parts:
        slope[places] = 2 * np.tensordot(p[places], K, 1)
    gradient = margins.columns @ w_a + slope @ w_v
    cross = (margins.columns * w_av) @ slope.T
    hessian = (margins.columns * (2 * w_v)) @ margins.columns.T + cross + cross.T + (slope * w_vv) @ slope.T
    for places, K in margins.parts:
        hessian[np.ix_(places, places)] += 2 * K @ w_v
    return gradient, hessian


def _least(p: np.ndarray, margins: _Margins, weight: np.ndarray, enough: float) -> tuple[np.ndarray, _Shortfall, float]:
    """The minimiser of the sum of weight e, from p, and the scaled gradient there; any point with a value below `enough`."""
    at = _shortfall(p, margins)
    value, residual = float(weight @ at.square), np.inf
    for _ in range(NEWTON_STEPS):
        if value < enough:
            return p, at, 0.0
        gradient, hessian = _derivatives(p, margins, weight, at)
        # The Hessian is singular where a part of the features vanishes; the tiny addition leaves its coordinates at zero.
        # Relative to each diagonal entry, because the bias counts in units of kappa, which nearly vanishes in some bags.
        size = np.sqrt(np.diagonal(hessian))
        size = np.where(size > 0, size, 1.0)
        residual = float(np.abs(gradient / size).max() / np.sqrt(value))
        if residual <= TOLERANCE:
            break
        step = -np.linalg.solve(hessian / np.outer(size, size) + ROUNDING * np.eye(len(p)), gradient / size) / size
        slope, scale = gradient @ step, 1.0
        while True:
            at = _shortfall(p + scale * step, margins)
            trial = float(weight @ at.square)
            # Near the minimum the decrease is below rounding, and the full step is right.
            if trial <= value * (1 + ROUNDING) + SUFFICIENT * scale * slope or scale < SHORTEST:
                break
            scale *= 0.5
        p, value = p + scale * step, trial
    if not residual <= LARGEST_RESIDUAL:
        raise ConvergenceError(f"capacity: scaled gradient {residual:.1e} after {NEWTON_STEPS} Newton steps at {p}")
    return p, at, residual


def plain_margins(law: Law, points: int) -> tuple[_Margins, np.ndarray]:
    """The margins of p = (m_q, m_u, b) on the draws of a level, flat over replicates, and their weights."""
    nodes = law.at(points)[1]
    y, T, S, kappa, tau, weight, _ = (v.ravel() for v in nodes.leaves())
    parts = [(np.array([1]), kappa[None, None] ** 2)]
    if tau.any():
        parts.append((np.array([0]), tau[None, None] ** 2))
    return _Margins(np.stack([y * T, y * S, y]), kappa**2, parts), weight / kappa**2


def _plain_threshold(law: Law, points: int, p: np.ndarray | None) -> tuple[np.ndarray, np.ndarray, float]:
    """The minimiser, from p, the replicates' values of 1/alpha* there, and the scaled gradient."""
    margins, weight = plain_margins(law, points)
    replicates = len(law.at(points)[1].y)
    p, at, residual = _least(np.zeros(3) if p is None else p, margins, weight, ROUNDING * replicates)
    return p, (weight * at.square).reshape(replicates, -1).sum(1), residual


class HeadsSaddle(NamedTuple):
    """The saddle point on the law's draws of a level."""

    m: np.ndarray
    b: float
    Q: np.ndarray
    V: np.ndarray


def _of_trace_one(matrix: np.ndarray) -> np.ndarray:
    return (matrix + matrix.T) / (2.0 * np.trace(matrix))


def heads_threshold(law: HeadsLaw, points: int, start: HeadsSaddle | None) -> tuple[HeadsSaddle, np.ndarray, float]:
    """The saddle point on the law's draws of a level, the replicates' values of 1/alpha* there, and the residual."""
    nodes = law.at(points)
    replicates, count = len(nodes.y), nodes.y.size
    mean = np.einsum("bn,bnij->ij", nodes.weight, nodes.K) / replicates
    size, axes = np.linalg.eigh(mean)
    # Differences of heads that are alike vanish. Where all of E[K] vanishes, so does every K, and the features with it.
    turn = axes[:, size > ROUNDING * size[-1]]
    both = turn.T @ np.concatenate([nodes.T, nodes.S], axis=-1).reshape(count, law.heads, -1)
    K = np.moveaxis(turn.T @ nodes.K.reshape(count, law.heads, law.heads) @ turn, 0, -1).copy()
    weight, columns = nodes.weight.ravel(), np.append(both.reshape(count, -1).T, np.ones((1, count)), axis=0)
    signal_places = np.arange(both[0].size).reshape(both.shape[1:])[:, nodes.T.shape[-1] :]
    margins = _Margins(columns * nodes.y.ravel(), np.zeros(count), [(places, K) for places in signal_places.T])
    if start is None:
        # The solution for weights that overlap alike in all bags, K = E[K].
        V = Q = _of_trace_one(np.linalg.inv(turn.T @ mean @ turn))
        p = np.zeros(len(columns))
    else:
        V, Q = (_of_trace_one(turn.T @ matrix @ turn) for matrix in (start.V, start.Q))
        p = np.append((turn.T @ start.m).ravel(), start.b)
    for _ in range(NEWTON_STEPS):
        step = np.tensordot(V, K, 2)
        scale = np.trace(np.linalg.solve(V, Q))
        margins = margins._replace(variance=np.tensordot(Q, K, 2))
        p, at, residual = _least(p, margins, weight / step, ROUNDING * scale * replicates)
        share = weight * at.square / step
        values = share.reshape(replicates, -1).sum(1) / scale
        if values.mean() < ROUNDING:
            change = 0.0
            break
        new_V = _of_trace_one(np.linalg.inv(K @ (weight * at.tail / step)))
        new_Q = _of_trace_one(new_V @ (K @ (share / step)) @ new_V)
        # The largest change of any quadratic form, relative to its size.
        ratios = [np.linalg.eigvals(np.linalg.solve(*pair)) for pair in ((V, new_V), (Q, new_Q))]
        change = float(np.abs(np.array(ratios) - 1.0).max())
        if change <= TOLERANCE:
            break
        V, Q = new_V, new_Q
    else:
        raise ConvergenceError(
            f"capacity of {law.heads} heads: matrices change by {change:.1e} after {NEWTON_STEPS} steps"
        )
    m = turn @ p[:-1].reshape(turn.shape[1], -1)
    saddle = HeadsSaddle(m, float(p[-1]), turn @ Q @ turn.T, turn @ V @ turn.T)
    return saddle, values, max(residual, change)


def capacity(
    law: Law | HeadsLaw | ColouredLaw, *, accuracy: float | None = None, most_points: int = MAXIMUM_POINTS
) -> Capacity:
    """The separability threshold alpha* = n/d of a law.

    Eq. (12) of docs/theory.md.

    Parameters
    ----------
    law : Law, HeadsLaw or ColouredLaw
        The law of (T, S, kappa), or that of several heads, of which the minimiser (m_q, m_u, bias) is NaN. In coloured noise
        the threshold is that of the whitened bags, and so is the minimiser: separability does not change under an
        invertible map of the features.
    accuracy : float, optional
        Target relative standard error; by default 1e-3, and 5e-3 for several heads, whose draws cost more.
    most_points : int
        Draws per replicate and class at which refinement ends: fewer are quicker and leave a larger standard error.

    Returns
    -------
    Capacity
        With the standard error reached. alpha = inf where the classes lie so far apart that they do not mix: exact laws at
        1/alpha* below 1e-12, sampled ones where none of some 30,000 bags drawn of each class lies on the wrong side.
    """
    if isinstance(law, ColouredLaw):
        law = whitened_law(law)
    if not isinstance(law, Law | HeadsLaw):
        raise TypeError(f"law must be a Law, HeadsLaw or ColouredLaw, not {type(law).__name__}")
    several = isinstance(law, HeadsLaw)
    solve: Any = heads_threshold if several else _plain_threshold
    if accuracy is None:
        accuracy = 5e-3 if several else 1e-3
    accuracy = real_number("accuracy", accuracy, 0.0, open_low=True)
    points, minimiser = law.first_points, None
    while True:
        minimiser, value, residual = solve(law, points, minimiser)
        apart = bool(value.mean() < ROUNDING)  # separable at any practical sample size
        # The minimiser's own variation is second order, so the values' scatter at the common minimiser is the error. Draws
        # that do not mix at all carry little information on rare bags that do: more draws, once.
        relative = SECOND_LEVEL * accuracy if apart else float(standard_error(value, alone=0.0) / value.mean())
        enough = points > law.first_points if apart else relative <= accuracy
        finer = None if enough or points >= most_points else law.finer(points, relative / accuracy)
        if finer is None:
            break
        points = min(finer, most_points)
    # The minimiser of several heads is not three numbers.
    m_q, m_u, bias = (np.nan,) * 3 if several else map(float, minimiser)
    if apart:
        return Capacity(np.inf, 0.0, m_q, m_u, bias, residual)
    alpha = float((law.dimension_factor if isinstance(law, Law) else 1) / value.mean())
    return Capacity(alpha, relative * alpha, m_q, m_u, bias, residual)


def require_above_capacity(law: Law | HeadsLaw | ColouredLaw, alpha: float) -> None:
    """Raise ValueError where there is no minimiser: without a ridge, below capacity."""
    threshold = capacity(law)
    if alpha <= threshold.alpha:
        raise ValueError(
            f"ridge must be positive below capacity (alpha {alpha:g} <= {threshold.alpha:.4g}): the data are separable and "
            "the minimiser is at infinity; a small ridge gives the maximum-margin limit"
        )

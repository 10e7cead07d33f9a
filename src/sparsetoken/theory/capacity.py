"""Separability threshold: D1 is linearly separable (with a bias) below alpha*, with probability tending to 1, and not above.

    1/alpha* = min over m_q, m_u, b of  E[( sqrt(1 + m_u^2) G - y (m_q T + m_u S + b)/kappa )_+^2]

The objective is smooth and convex; its G-average is closed, s^2 [(1 + x^2) Phi(-x) - x phi(x)] with s the deviation of the
bracket and x its scaled mean. alpha counts samples a dimension d (a vectorized law knows its factor L).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr

from .._core.validation import real_number
from ..laws.law import Law
from ..laws.nodes import Population
from .errors import ConvergenceError


@dataclass(frozen=True)
class Capacity:
    """alpha* and its standard error; the minimiser (m_q, m_u, bias) and the size of the scaled gradient there."""

    alpha: float
    standard_error: float
    m_q: float
    m_u: float
    bias: float
    residual: float

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


class _Terms(NamedTuple):
    """What the objective needs of a class, arrays flat over replicates and entries.

    c       (3, N): (T, S, 1) y/kappa, so that the bracket is Gaussian of mean -c.p
    ratio2  tau^2/kappa^2, or the scalar 0 where T has no spread of its own: its variance is 1 + m_u^2 + m_q^2 ratio2
    weight  class probability times the entry's weight
    """

    c: np.ndarray
    ratio2: Any
    weight: np.ndarray


def _terms(population: Population) -> list[_Terms]:
    terms = []
    for label, probability, columns in population.classes():
        shape = columns.T.shape
        flat = lambda v: np.broadcast_to(v, shape).ravel()  # noqa: B023, E731
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
        s = np.sqrt(v)
        a = p @ c
        x = a / s
        tail, density = ndtr(-x), np.exp(-0.5 * x * x) / np.sqrt(2 * np.pi)
        w = weight / replicates
        # In terms of the mean a and the variance v: f = (v + a^2) Phi(-a/s) - a s phi(a/s), so
        # f_a = 2 (a Phi - s phi), f_v = Phi, f_aa = 2 Phi, f_av = -phi/s, f_vv = phi a/(2 s^3)
        value += (weight * ((v + a * a) * tail - a * s * density)).reshape(replicates, -1).sum(1)
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


def _minimise(population: Population, p: np.ndarray):
    """Newton's method with step halving on the convex objective, from p: minimiser, values, scaled gradient."""
    terms, replicates = _terms(population), population.replicates
    value, gradient, hessian = _objective(p, terms, replicates)
    for _ in range(200):
        # The Hessian is singular where S vanishes (m_u then stays zero); the tiny ridge picks that solution.
        step = -np.linalg.solve(hessian + 1e-12 * np.trace(hessian) * np.eye(3), gradient)
        scale, slope = 1.0, gradient @ step
        if -slope <= 1e-22 * value.mean():
            break
        while True:
            trial = _objective(p + scale * step, terms, replicates)
            # Near the minimum the decrease drowns in rounding, and the full step is right.
            if trial[0].mean() <= value.mean() * (1 + 1e-14) + 1e-4 * scale * slope or scale < 1e-10:
                break
            scale *= 0.5
        p = p + scale * step
        value, gradient, hessian = trial
        if value.mean() < 1e-13:
            raise ConvergenceError(
                "capacity is infinite: the two classes' features can be separated at any sample size"
            )
    residual = float(np.abs(gradient).max() / value.mean())
    if not residual <= 1e-6:
        raise ConvergenceError(f"capacity: gradient {residual:.1e} of the value after 200 Newton steps at {p}")
    return p, value, residual


def capacity(law: Law, *, accuracy: float = 1e-3) -> Capacity:
    """The separability threshold alpha* = n/d of a law (see the module's text).

    `accuracy` is the relative standard error wanted; the law is refined until it is met or cannot be refined further, and
    the standard error reached is in the result.
    """
    accuracy = real_number("accuracy", accuracy, 0.0, open_low=True)
    points, p = law.first_points, np.zeros(3)
    while True:
        population, _ = law.at(points)
        p, value, residual = _minimise(population, p)
        # The minimiser's own variation is second order, so the values' scatter at the common minimiser is the error.
        relative = float(np.std(value, ddof=1) / np.sqrt(len(value)) / value.mean()) if len(value) > 1 else 0.0
        finer = None if relative <= accuracy else law.finer(points, relative / accuracy)
        if finer is None:
            break
        points = finer
    alpha = float(law.dimension_factor / value.mean())
    m_q, m_u, bias = map(float, p)
    return Capacity(alpha, relative * alpha, m_q, m_u, bias, residual)


def require_above_capacity(law: Law, alpha: float) -> None:
    """Without a ridge the minimiser exists only above capacity: say so otherwise."""
    threshold = capacity(law)
    if alpha <= threshold.alpha:
        raise ValueError(
            f"ridge must be positive below capacity (alpha {alpha:g} <= {threshold.alpha:.4g}): the data are separable and "
            "the minimiser is at infinity; a small ridge gives the maximum-margin limit"
        )

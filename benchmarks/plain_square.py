"""What one would write with NumPy and SciPy in place of `theory.erm(..., "square")`: the closed form of the square loss.

Objective: (1/n) sum_i (<w, f_i> + b - y_i)^2/2 + (ridge/2) ||w||^2, bias unpenalised, alpha = n/dimension. With
a = 1/(1 + V kappa^2) one scalar equation, alpha V (ridge + E[kappa^2 a]) = 1, is left to `brentq`, then three linear ones to
`np.linalg.solve`. The law is given as rows (y, T, S, kappa): drawn ones for attention, and one per class with the spread that T
has there for laws that are Gaussian given the class.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr

from .plain import PlainLaw


@dataclass(frozen=True)
class SquareReadout:
    """What the readout does in the limit."""

    test_error: float
    train_loss: float
    norm_w: float
    bias: float


def gaussian_rows(
    length: int, sparsity: int, strength: float, prevalence: float, vectorized: bool = False
) -> tuple[PlainLaw, float]:
    """The mean token (or, `vectorized`, all tokens beside each other): one row per class, and the spread of T in it."""
    if vectorized:
        mean, spread = strength * sparsity / np.sqrt(length), 1.0
    else:
        mean, spread = strength * sparsity / length, 1.0 / np.sqrt(length)
    rows = np.array([[1.0, mean, 0.0, spread, prevalence], [-1.0, 0.0, 0.0, spread, 1.0 - prevalence]])
    return PlainLaw(*rows.T), spread


def exact_readout(
    length: int,
    sparsity: int,
    strength: float,
    prevalence: float,
    alpha: float,
    ridge: float,
    vectorized: bool,
) -> SquareReadout:
    """The readout on the mean token, or on all tokens beside each other, which have L d coordinates."""
    law, spread = gaussian_rows(length, sparsity, strength, prevalence, vectorized)
    return square_readout(law, alpha / length if vectorized else alpha, ridge, spread)


def square_readout(law: PlainLaw, alpha: float, ridge: float, spread: float = 0.0) -> SquareReadout:
    """The fixed point at ridge > 0, and the test error that follows from it."""
    k2, weight = law.kappa**2, law.weight

    def gap(V: float) -> float:
        return alpha * V * (ridge + np.sum(weight * k2 / (1 + V * k2))) - 1

    V = brentq(gap, 0.0, 1.0 / (alpha * ridge), xtol=1e-14, rtol=1e-12)
    a = 1 / (1 + V * k2)
    columns = np.stack([law.T, law.S, np.ones_like(law.T)])
    system = (columns * (weight * a)) @ columns.T
    system[0, 0] += ridge + spread**2 * np.sum(weight * a)
    system[1, 1] += 1 / (alpha * V)
    m_q, m_u, b = np.linalg.solve(system, columns @ (weight * a * law.y))
    e2 = (m_q * law.T + m_u * law.S + b - law.y) ** 2 + (spread * m_q) ** 2
    B = np.sum(weight * a**2 * k2**2)
    nu2 = alpha * V**2 * (np.sum(weight * a**2 * k2 * e2) + B * m_u**2) / (1 - alpha * V**2 * B)
    deviation = np.sqrt((spread * m_q) ** 2 + k2 * (m_u**2 + nu2))
    wrong = ndtr(-law.y * (m_q * law.T + m_u * law.S + b) / deviation)
    train_loss = 0.5 * np.sum(weight * a**2 * (e2 + k2 * (m_u**2 + nu2)))
    return SquareReadout(float(weight @ wrong), float(train_loss), float(np.sqrt(m_q**2 + m_u**2 + nu2)), float(b))

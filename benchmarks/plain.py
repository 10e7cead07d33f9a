"""The state evolution as one would write it with NumPy and SciPy: the peer of `theory.erm` and `theory.capacity`.

    points    scrambled Sobol, one coordinate per token, the same for both classes (2^14 for the pinned comparison)
    noise     31 Gauss-Hermite nodes over the readout noise G
    prox      vectorised Newton's method kept inside a bracket
    solver    scipy.optimize.root(method="hybr") on (m_q, m_u, log nu, b, log V), Jacobian by finite differences,
              continuation in the ridge from 1 down by factors of ten

Objective: (1/n) sum_i log(1 + exp(-y_i z_i)) + (ridge/2) ||w||^2, bias unpenalised, alpha = n/d.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize, root
from scipy.special import expit, ndtr, ndtri
from scipy.stats import qmc

HERMITE_NODES = 31


@dataclass(frozen=True)
class PlainLaw:
    """Equally likely rows of (y, T, S, kappa) given the class, positives first; `weight` holds the class probabilities."""

    y: np.ndarray
    T: np.ndarray
    S: np.ndarray
    kappa: np.ndarray
    weight: np.ndarray


def attention_points(
    length: int,
    sparsity: int,
    strength: float,
    prevalence: float,
    cosine: float,
    sharpness: float,
    log2: int,
    seed: int,
) -> PlainLaw:
    """2^log2 scrambled Sobol points of the tokens' coordinates along the query, pushed through the softmax."""
    u = qmc.Sobol(length, scramble=True, rng=np.random.default_rng(seed)).random_base2(log2)
    t = ndtri(np.clip(u, 1e-16, 1 - 1e-16))
    columns = []
    for y, probability in ((1.0, prevalence), (-1.0, 1.0 - prevalence)):
        shifted = t.copy()
        if y > 0:
            shifted[:, :sparsity] += cosine * strength
        p = np.exp(sharpness * (shifted - shifted.max(axis=1, keepdims=True)))
        p /= p.sum(axis=1, keepdims=True)
        S = strength * np.sqrt(1 - cosine**2) * p[:, :sparsity].sum(axis=1) if y > 0 else np.zeros(len(t))
        rows = (np.full(len(t), y), (p * shifted).sum(axis=1), S, np.sqrt((p**2).sum(axis=1)))
        columns.append((*rows, np.full(len(t), probability / len(t))))
    return PlainLaw(*(np.concatenate(pair) for pair in zip(*columns)))


def logistic_prox(h: np.ndarray, step: np.ndarray, y: np.ndarray) -> np.ndarray:
    """r + step l'(r; y) = h: in the margin m = y r, m - step expit(-m) = y h, whose root lies in [y h, y h + step]."""
    u = y * h
    low, high = u, u + step
    m = np.clip(np.log1p(step), low, high)
    for _ in range(100):
        tail = expit(-m)
        f = m - step * tail - u
        low, high = np.where(f < 0, m, low), np.where(f > 0, m, high)
        new = m - f / (1 + step * tail * (1 - tail))
        new = np.where((new > low) & (new < high), new, 0.5 * (low + high))
        done = np.all(np.abs(new - m) <= 1e-10 * (1 + np.abs(new)))
        m = new
        if done:
            break
    return y * m


def residual(x: np.ndarray, law: PlainLaw, alpha: float, ridge: float, prox=logistic_prox) -> np.ndarray:
    """The five equations, scaled: see docs/theory.md."""
    m_q, m_u, log_nu, b, log_V = x
    nu, V = np.exp(log_nu), np.exp(log_V)
    G, weights = np.polynomial.hermite_e.hermegauss(HERMITE_NODES)
    weights = weights / weights.sum()
    y, kappa2 = law.y[:, None], law.kappa[:, None] ** 2
    mean = (m_q * law.T + m_u * law.S + b)[:, None]
    h = mean + law.kappa[:, None] * np.sqrt(m_u**2 + nu**2) * G
    step = V * kappa2
    r = prox(h, step, y)
    tail = expit(-y * r)
    slope, curvature = -y * tail, tail * (1 - tail)

    def mean_of(values):
        return float(law.weight @ (values @ weights))

    spread = mean_of(kappa2 * slope**2)
    D = np.sqrt(spread)
    return np.array(
        [
            (ridge * m_q + mean_of(law.T[:, None] * slope)) / D,
            (m_u / (alpha * V) + mean_of(law.S[:, None] * slope)) / D,
            mean_of(slope) / D,
            alpha * V * (ridge + mean_of(kappa2 * curvature / (1 + step * curvature))) - 1,
            2 * log_nu - np.log(alpha * spread) - 2 * log_V,
        ]
    )


def solve(law: PlainLaw, alpha: float, ridge: float, start: np.ndarray | None = None) -> np.ndarray:
    """The fixed point: from `start` at once, or by continuation in the ridge from 1."""
    ridges = [ridge] if start is not None else [*(10.0**-k for k in range(20) if 10.0**-k > ridge), ridge]
    x = np.array([0.0, 0.0, -1.0, 0.0, 0.0]) if start is None else np.asarray(start)
    for current in ridges:
        last = current == ridge
        found = root(residual, x, args=(law, alpha, current), method="hybr", options={"xtol": 1e-9 if last else 1e-4})
        if np.abs(found.fun).max() > (1e-6 if last else 1e-2):
            raise ArithmeticError(f"hybr stopped at ridge {current:g} with residual {np.abs(found.fun).max():.1e}")
        x = found.x
    return x


def test_error(x: np.ndarray, law: PlainLaw) -> float:
    m_q, m_u, log_nu, b, _ = x
    score = (m_q * law.T + m_u * law.S + b) / (law.kappa * np.sqrt(m_u**2 + np.exp(2 * log_nu)))
    return float(law.weight @ ndtr(-law.y * score))


def capacity(law: PlainLaw) -> float:
    """1/alpha* = min over m_q, m_u, b of E[(sqrt(1 + m_u^2) G - y (m_q T + m_u S + b)/kappa)_+^2], by BFGS."""

    def objective(p: np.ndarray) -> float:
        m_q, m_u, b = p
        s = np.sqrt(1 + m_u**2)
        x = law.y * (m_q * law.T + m_u * law.S + b) / (law.kappa * s)
        density = np.exp(-0.5 * x * x) / np.sqrt(2 * np.pi)
        return float(law.weight @ (s * s * ((1 + x * x) * ndtr(-x) - x * density)))

    found = minimize(objective, np.zeros(3), method="BFGS", options={"gtol": 1e-7})
    return 1.0 / float(found.fun)

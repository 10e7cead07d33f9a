"""The closed form of `square_loss` and the measures of `laws.measures` on Python numbers, for exact laws of a few entries.

Pooled and vectorized classifiers have one entry per class. On arrays of two numbers nearly all of the time goes into NumPy's
calls; the same formulas on floats take a fifth of it. Objective, unknowns and equations are those of `square_loss`; a test
holds the two against each other.
"""

from __future__ import annotations

import math
from itertools import chain
from typing import Any

import numpy as np

from ..laws.nodes import ClassColumns, Population
from .equations import TOLERANCE
from .refinement import Answer, Refined
from .square_loss import ITERATIONS, LAST_STEP

MOST_ENTRIES = 8  # per class; from here on arrays are as quick
_ROOT_HALF = 0.5**0.5

Entry = tuple[float, float, float, float, float]  # weight, T, S, kappa^2, tau^2


def solve_few(alpha: float, ridge: float, population: Population, gamma: float | None) -> Refined | None:
    """The fixed point and everything reported of it; None where arrays have to do it.

    Parameters
    ----------
    alpha : float
        n/dimension.
    ridge : float
        lambda.
    population : Population
        The law.
    gamma : float or None
        The query's cosine with the signal, where it is known.

    Returns
    -------
    Refined or None
        None without a ridge (the equations may then leave an overlap undetermined), for drawn laws, for many entries, and
        where numbers are so large or small that the equations are not met.
    """
    few = all(c.replicates == 1 and c.T.shape[1] <= MOST_ENTRIES for c in (population.positive, population.negative))
    if ridge <= 0 or not few:
        return None
    try:
        found = _solved(alpha, ridge, population, gamma)
    except (ArithmeticError, ValueError):  # beyond the floats, where arrays go on with infinities
        return None
    sound = found.answer.residual <= TOLERANCE and all(map(math.isfinite, found.values.values()))
    return found if sound else None


def _solved(alpha: float, ridge: float, population: Population, gamma: float | None) -> Refined:
    classes = population.positive, population.negative
    entries = {id(c): _entries(c) for c in classes}
    training = [(y, p, entries[id(c)]) for y, p, c in population.training()]
    k2s = [(p * w, k2) for _, p, rows in training for w, _, _, k2, _ in rows]
    V, gap = _prox_step(alpha, ridge, k2s)
    m_q, m_u, b, miss = _overlaps(alpha, ridge, V, training)
    e2 = B = A = own = 0.0
    for y, p, rows in training:
        for w, T, S, k2, tau2 in rows:
            a = 1.0 / (1.0 + V * k2)
            wa2 = p * w * a * a
            e = m_q * T + m_u * S + b - y
            square = e * e + m_q * m_q * tau2
            e2 += wa2 * k2 * square
            own += wa2 * square
            A += wa2 * k2
            B += wa2 * k2 * k2
    nu2 = alpha * V * V * (e2 + B * m_u * m_u) / (alpha * V * (ridge + A))
    rest = m_u * m_u + nu2
    nu, norm = math.sqrt(nu2), math.sqrt(m_q * m_q + rest)
    values = _measures(population, [entries[id(c)] for c in classes], m_q, m_u, b, rest, V)
    values |= {"m_q": m_q, "m_u": m_u, "nu": nu, "V": V, "bias": b, "norm_w": norm}
    if gamma is not None:
        values["overlap_w"] = gamma * m_q + math.sqrt(max(0.0, 1.0 - gamma**2)) * m_u
        values["cosine_w"] = values["overlap_w"] / norm
    values["train_loss"] = 0.5 * (own + A * rest)
    residual = max(gap, miss * V * math.sqrt(alpha / nu2))
    x = np.array([m_q, m_u, math.log(nu), b, math.log(V)])
    loss = np.array([values["train_loss"]])
    return Refined(Answer(x, loss, x[None], loss, residual, 0), values, dict.fromkeys(values, 0.0), 0, 0)


def _entries(columns: ClassColumns) -> list[Entry]:
    T = columns.T[0].tolist()
    parts = [v[0].tolist() for v in (columns.weight, columns.S, columns.kappa, columns.tau)]
    weight, S, kappa, tau = (part if len(part) == len(T) else part * len(T) for part in parts)
    return [(w, t, s, k * k, u * u) for w, t, s, k, u in zip(weight, T, S, kappa, tau)]


def _prox_step(alpha: float, ridge: float, k2s: list[tuple[float, float]]) -> tuple[float, float]:
    """V, and what its equation misses there: Newton's method from below, on a concave function."""
    V, gap = 1.0 / (alpha * (ridge + sum(w * k2 for w, k2 in k2s))), 0.0
    for _ in range(ITERATIONS):
        value = slope = ridge
        for w, k2 in k2s:
            a = 1.0 / (1.0 + V * k2)
            value += w * k2 * a
            slope += w * k2 * a * a
        gap = 1.0 - alpha * V * value
        step = gap / (alpha * slope)
        V += max(step, 0.0)
        if step <= LAST_STEP * V:
            break
    return V, abs(gap)


def _overlaps(
    alpha: float, ridge: float, V: float, training: list[tuple[float, float, list[Entry]]]
) -> tuple[float, float, float, float]:
    """(m_q, m_u, b) of the linear equations, positive definite with a ridge, and the largest entry that they miss."""
    one = t = s = tt = ts = ss = y1 = yt = ys = 0.0
    for y, p, rows in training:
        for w, T, S, k2, tau2 in rows:
            c = p * w / (1.0 + V * k2)
            one += c
            t += c * T
            s += c * S
            tt += c * (T * T + tau2)
            ts += c * T * S
            ss += c * S * S
            y1 += c * y
            yt += c * y * T
            ys += c * y * S
    tt += ridge
    ss += 1.0 / (alpha * V)
    # The bias first, then m_q, then m_u; the last pivots are spreads about what the earlier ones explain.
    lt, ls = t / one, s / one
    dt, dts = tt - lt * t, ts - ls * t
    lu = dts / dt
    du = ss - ls * s - lu * dts

    def solved(r1: float, rt: float, rs: float) -> tuple[float, float, float]:
        rt -= lt * r1
        rs -= ls * r1 + lu * rt
        u = rs / du
        q = rt / dt - lu * u
        return q, u, r1 / one - lt * q - ls * u

    def missed(q: float, u: float, b: float) -> tuple[float, float, float]:
        return y1 - (t * q + s * u + one * b), yt - (tt * q + ts * u + t * b), ys - (ts * q + ss * u + s * b)

    q, u, b = solved(y1, yt, ys)
    more = solved(*missed(q, u, b))  # one step of refinement
    q, u, b = q + more[0], u + more[1], b + more[2]
    return q, u, b, max(map(abs, missed(q, u, b)))


def _measures(
    population: Population, classes: list[list[Entry]], m_q: float, m_u: float, b: float, rest: float, V: float
) -> dict[str, Any]:
    """Test and training error, sensitivity, specificity, balanced error and AUC."""
    scores = [
        [(w, m_q * T + m_u * S + b, m_q * m_q * tau2 + k2 * rest, V * k2) for w, T, S, k2, tau2 in rows]
        for rows in classes
    ]
    pi, noise = float(population.prevalence), population.label_noise

    def share(rows: list[tuple[float, float, float, float]], sign: float, pull: float) -> float:
        return sum(w * _phi((sign * mean + pull * step) / math.sqrt(v)) for w, mean, v, step in rows)

    sensitivity, specificity = share(scores[0], 1.0, 0.0), share(scores[1], -1.0, 0.0)
    train_error = 0.0
    for probability, label, rows in ((pi, 1.0, scores[0]), (1.0 - pi, -1.0, scores[1])):
        # r has the wrong sign exactly when y h < step y l'(0; y) = -step
        train_error += probability * (1.0 - noise) * share(rows, -label, -1.0)
        if noise:
            train_error += probability * noise * share(rows, label, -1.0)
    pairs = chain.from_iterable(((one, other) for other in scores[1]) for one in scores[0])
    auc = sum(one[0] * other[0] * _phi((one[1] - other[1]) / math.sqrt(one[2] + other[2])) for one, other in pairs)
    return {
        "test_error": pi * (1.0 - sensitivity) + (1.0 - pi) * (1.0 - specificity),
        "train_error": train_error,
        "sensitivity": sensitivity,
        "specificity": specificity,
        "balanced_error": 1.0 - 0.5 * (sensitivity + specificity),
        "auc": auc,
    }


def _phi(x: float) -> float:
    return 0.5 * math.erfc(-x * _ROOT_HALF)

"""Square loss with the ridge at zero: closed form up to one scalar equation.

Objective: (1/n) sum_i (<w, f_i> + b - y_i)^2/2, alpha = n/dimension; below alpha = 1 the interpolator of least norm. With
e = m_q T + m_u S + b - y and g = kappa^2/(1 + V kappa^2), where alpha V E[g] = 1 (alpha > 1), everything is linear in
(m_q, m_u, b) after averaging with weights 1/(1 + V kappa^2); below 1, V diverges and the weights become 1/kappa^2.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq

from ..laws.law import MAXIMUM_POINTS, Law
from ..laws.nodes import Nodes
from ..losses import Loss
from .erm import SAFETY, ErmResult, _fields, refined

_TINY_DISTANCE = 1e-9  # |alpha - 1| below which the interpolation peak itself is meant


def _moments(weight, columns) -> np.ndarray:
    """Matrix of E[c_i c_j a] for columns c = (T, S, 1, y) with weights `weight`, and T's own spread in the T, T entry."""
    T, S, y, tau = columns
    c = np.stack([np.broadcast_to(v, T.shape) for v in (T, S, np.ones_like(T), y)]).reshape(4, -1)
    w = weight.reshape(-1)
    M = (c * w) @ c.T
    M[0, 0] += (w * np.broadcast_to(tau, T.shape).reshape(-1) ** 2).sum()
    return M


def _fixed_point(alpha: float, nodes: Nodes, weight: np.ndarray):
    """x = (m_q, m_u, log nu, b, log V), and E[l(r)], for nodes with the given (already normalised) weights."""
    k2 = nodes.kappa**2
    columns = (nodes.T, nodes.S, nodes.y, nodes.tau)
    if alpha > 1:
        equation = lambda log_V: alpha * (weight * k2 / (k2 + np.exp(-log_V))).sum() - 1.0  # noqa: E731
        V = np.exp(brentq(equation, -80.0, 80.0, xtol=1e-14))
        a = 1.0 / (1.0 + V * k2)
        M = _moments(weight * a, columns)
        system = M[:3, :3] + np.diag([0.0, 1.0 / (alpha * V), 0.0])
        m = _solve(system, M[:3, 3])
        e2 = np.append(m, -1.0) @ _moments(weight * a**2 * k2, columns) @ np.append(m, -1.0)
        B = (weight * (a * k2) ** 2).sum()
        # nu^2 = alpha V^2 E[kappa^2 (e^2 + kappa^2 (m_u^2 + nu^2)) a^2]
        nu2 = alpha * V**2 * (e2 + B * m[1] ** 2) / (1.0 - alpha * V**2 * B)
        loss_moment = np.append(m, -1.0) @ _moments(weight * a**2, columns) @ np.append(m, -1.0)
        train_loss = 0.5 * (loss_moment + (weight * a**2 * k2).sum() * (m[1] ** 2 + nu2))
    else:
        v = (1.0 - alpha) / alpha  # the limit of ridge * V
        M = _moments(weight / k2, columns)
        system = M[:3, :3] + np.diag([v, 1.0 / alpha, 0.0])
        m = _solve(system, M[:3, 3])
        e2 = np.append(m, -1.0) @ M @ np.append(m, -1.0)
        nu2 = alpha * (e2 + m[1] ** 2) / (1.0 - alpha)
        V, train_loss = np.inf, 0.0
    with np.errstate(divide="ignore"):
        return np.array([m[0], m[1], 0.5 * np.log(nu2), m[2], np.log(V)]), train_loss


def _solve(system: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Least-squares solution: a law without S (or without T) leaves its overlap undetermined, and zero is right."""
    return np.linalg.lstsq(system, right, rcond=1e-13)[0]


def ridgeless_square(law: Law, alpha: float, loss: Loss, accuracy: float) -> ErmResult:
    """The square loss at ridge = 0, alpha = n/d. At alpha = 1 (n = dimension) the norm diverges and the error is 1/2."""
    alpha_law = alpha / law.dimension_factor
    points = law.first_points
    while True:
        population, nodes = law.at(points)
        B = population.replicates
        peak = abs(alpha_law - 1.0) < _TINY_DISTANCE
        if peak:
            x, train_loss = np.array([0.0, 0.0, np.inf, 0.0, np.inf]), 0.0
            own, losses = np.tile(x, (B, 1)), np.zeros(B)
        else:
            x, train_loss = _fixed_point(alpha_law, nodes, nodes.weight / B)
            each = [_fixed_point(alpha_law, _row(nodes, b), nodes.weight[b]) for b in range(B)] if B > 1 else []
            own = np.array([x_b for x_b, _ in each]) if each else x[None]
            losses = np.array([value for _, value in each]) if each else np.array([train_loss])
        if peak:
            values, errors = _peak_values()
        else:
            with np.errstate(over="ignore", invalid="ignore"):
                common = _fields(loss, x, np.full(B, train_loss), population)
                scattered = _fields(loss, own, losses, population)
            values = {name: float(np.mean(v)) for name, v in common.items()}
            if np.isinf(values["V"]):  # an interpolator makes no training error
                values["train_error"] = 0.0
                scattered |= {"train_error": np.zeros(B), "V": np.zeros(B)}
            errors = {name: float(np.std(v, ddof=1) / np.sqrt(B)) if B > 1 else 0.0 for name, v in scattered.items()}
        shortfall = errors["test_error"] * SAFETY / accuracy
        if shortfall <= 1 or not law.refinable or points >= MAXIMUM_POINTS:
            break
        points = refined(points, shortfall, law)
    return ErmResult(
        **values,
        residual=0.0,
        iterations=0,
        standard_error=errors.pop("test_error"),
        errors=errors,
        law=law,
        alpha=alpha,
        ridge=0.0,
        loss=loss,
        points=points,
        coarse=None,
    )


def _row(nodes: Nodes, b: int) -> Nodes:
    return Nodes(*(leaf[b] for leaf in nodes.leaves()))


def _peak_values() -> tuple[dict[str, float], dict[str, float]]:
    """At alpha = 1 the norm is infinite and the classifier's sign is pure noise."""
    half = ("test_error", "sensitivity", "specificity", "balanced_error", "auc")
    values = dict.fromkeys(half, 0.5) | {"norm_w": np.inf, "nu": np.inf, "V": np.inf}
    values |= dict.fromkeys(("m_q", "m_u", "bias", "train_error", "train_loss"), 0.0)
    return values, dict.fromkeys(values, 0.0)

"""What the two gradient steps on D0 do, in the limit d, n0 -> infinity with n0 = alpha0 d: Eq. (23) of docs/theory.md.

All is a closed form up to one Gaussian integral per group of like bags; symbols are those of Eq. (23). With eta_b = "auto"
residuals are centred, Eq. (33): c = l'(b0; y) with E[c] = 0, and b1 is such that E[h] = 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .._core.arrays import namespace
from ..losses import Loss, balancing_bias
from ..task import BagKind, Task

# Trapezoidal rule on the Gaussian weight: exponentially accurate for analytic losses, 1e-8 for ones with kinks in l'.
FIELD_NODES = np.linspace(-10.0, 10.0, 8001)
FEW_FIELD_NODES = FIELD_NODES[::40]  # where many compositions of D0 are drawn: their scatter is far larger


def first_slopes(loss: Loss, eta_b: Any, labels: Any, probabilities: Any) -> Any:
    """c of each group of bags (last axis): l' at zero, or with eta_b = "auto" at the intercept for which E[c] = 0."""
    at = 0.0 * probabilities
    if isinstance(eta_b, str):
        at = at + balancing_bias(loss, at, labels, probabilities)[..., None]
    return loss.slope(at, labels)


def second_bias(loss: Loss, eta_b: Any, slopes: Any, labels: Any, probabilities: Any, means: Any, spreads: Any) -> Any:
    """b1 = -eta_b E[c], or with eta_b = "auto" the bias for which E[h] = 0, given the groups' fields without it."""
    if not isinstance(eta_b, str):
        return -eta_b * (probabilities * slopes).sum(-1)
    z, y, weights = _fields(labels, means, spreads)
    flat = (*z.shape[:-2], -1)
    return balancing_bias(loss, z.reshape(flat), y.reshape(flat), (probabilities[..., None] * weights).reshape(flat))


def residual_moments(loss: Loss, labels: Any, means: Any, spreads: Any) -> tuple[Any, Any]:
    """E[h] and E[h^2] of each group of bags (last axis), for fields u = mean + spread G and h = l'(u; y)."""
    z, y, weights = _fields(labels, means, spreads)
    h = loss.slope(z, y)
    return (weights * h).sum(-1), (weights * h**2).sum(-1)


def _fields(labels: Any, means: Any, spreads: Any) -> tuple[Any, Any, Any]:
    """Nodes of the groups' fields (..., groups, nodes), the labels there, and the nodes' weights."""
    xp = namespace(means, spreads)
    nodes = FIELD_NODES if means.ndim == 1 else FEW_FIELD_NODES
    weights = np.exp(-0.5 * nodes**2) * (nodes[1] - nodes[0]) / np.sqrt(2 * np.pi)
    z = means[..., None] + spreads[..., None] * xp.asarray(nodes)
    return z, xp.broadcast_to(xp.asarray(labels)[:, None], z.shape), xp.asarray(weights)


class BagGroups(NamedTuple):
    """Bags of D0 that are alike to the two steps, arrays over groups (last axis): push = theta R/L and
    scatter = theta^2 R(1 - R/L) where there is a signal, else 0; variance of a mean token's noise, k0; the correlation rho."""

    probability: Any
    label: np.ndarray
    length: np.ndarray
    push: Any
    scatter: Any
    variance: np.ndarray
    correlation: float


def bag_groups(task: Task, pi: Any, kinds: Sequence[BagKind] | None = None) -> BagGroups:
    """The bags of D0 by kind, presence of a signal and label seen."""
    eps, contaminated, rho = task.label_noise, task.contamination, task.correlation
    rows: list[tuple] = []
    kinds = kinds or task.kinds
    for L, R, theta, share in kinds:
        signal = (theta * R / L, theta**2 * (R * (1 - R / L)))
        # 1/L as such where tokens are independent, so that nothing is lost to rounding
        k0 = rho + (1.0 - rho) / L if rho else 1.0 / L
        for label, chance in ((1.0, 1.0 - eps), (-1.0, eps)) if eps else ((1.0, 1.0),):
            rows.append((share * pi * chance, label, L, *signal, k0))
            rows.append((share * ((1 - pi) * (1.0 - contaminated)) * chance, -label, L, 0.0, 0.0, k0))
            if contaminated:
                rows.append((share * ((1 - pi) * contaminated) * chance, -label, L, *signal, k0))
    xp = namespace(pi, *(kind.strength for kind in kinds))
    probability, labels, length, push, scatter, variance = ([row[i] for row in rows] for i in range(6))
    floats = (xp.stack([xp.asarray(v, dtype=float) for v in column]) for column in (probability, push, scatter))
    probabilities, pushes, scatters = floats
    return BagGroups(probabilities, np.array(labels), np.array(length), pushes, scatters, np.array(variance), rho)


class FirstStep(NamedTuple):
    """c of each group of bags, and w1 at eta_w = 1: overlap a, noise s^2 and norm."""

    slopes: Any
    overlap: Any
    noise: Any
    norm: Any


def first_step(loss: Loss, groups: BagGroups, alpha0: Any, eta_b: Any) -> FirstStep:
    """The first step as averages over groups of bags."""
    p = groups.probability
    c = first_slopes(loss, eta_b, groups.label, p)
    a = -(p * c * groups.push).sum(-1)
    s2 = (p * c**2 * groups.variance).sum(-1) / alpha0
    return FirstStep(c, a, s2, namespace(p, groups.push, alpha0).sqrt(a**2 + s2))


class SecondStep(NamedTuple):
    """b1 and averages of h over bags: G1 = (1 - rho) E[h (L-1)/L], E[h theta^2 R(1-R/L)/L],
    (1 - rho)^2 E[h^2 (L-1)/L^2] and (1 - rho) E[h^2 theta^2 R(1-R/L)/L^2]; the variance of (1 - rho) h (L-1)/L between
    bags of one group."""

    bias: Any
    mean: Any
    signal: Any
    mean_square: Any
    signal_square: Any
    variance: Any

    def noise(self, first: FirstStep, alpha0: Any) -> Any:
        """The part of Q that is there where residuals are centred."""
        return (first.norm**2 * self.mean_square + first.overlap**2 * self.signal_square) / alpha0


def second_step(loss: Loss, groups: BagGroups, first: FirstStep, alpha0: Any, eta_w: Any, eta_b: Any):
    """The residuals at w1 and b1; alpha0 = infinity leaves a bag's own pull out of its field.

    With eta_w taken out of w1, C and sqrt(Q), the query's direction and all derivatives have their limits at eta_w = 0.
    """
    p, label, L, push, scatter, variance, rho = groups
    c, a, _, norm = first
    means = eta_w * (a[..., None] * push - c * variance / alpha0)  # the second term is the bag's own pull on w1
    spreads = eta_w * norm[..., None] * variance**0.5
    b1 = second_bias(loss, eta_b, c, label, p, means, spreads)
    h, hh = residual_moments(loss, label, means + b1[..., None], spreads)
    rest = 1.0 - rho
    factor = rest * (L - 1) / L
    terms = (
        h * factor,
        h * scatter / L,
        hh * (rest * factor / L),
        hh * scatter * (rest / L**2),
        (hh - h**2) * factor**2,
    )
    return SecondStep(b1, *((p * term).sum(-1) for term in terms))


def alignment_formulas(loss: Loss, groups: BagGroups, alpha0, eta_w, eta_b, eta_q, beta) -> dict[str, Any]:
    """The formulas themselves, on Python floats or JAX scalars (then differentiable in all but L and R)."""
    xp = namespace(groups.probability, groups.push, alpha0, eta_w, eta_b, eta_q, beta)
    first = first_step(loss, groups, alpha0, eta_b)
    second = second_step(loss, groups, first, alpha0, eta_w, eta_b)
    condition = second.signal + second.mean
    C = condition * first.overlap
    Q = second.mean**2 * first.noise + second.noise(first, alpha0)
    scale = eta_w * eta_q * beta
    square = C**2 + Q
    learns = square > 0  # not at L = 1: one token has nothing to attend to
    size = xp.where(learns, xp.sqrt(xp.where(learns, square, 1.0)), 0.0)
    return {
        "a": eta_w * first.overlap,
        "norm_w": eta_w * first.norm,
        "bias": second.bias,
        "overlap_q": -scale * C,
        "norm_q": scale * size,
        "cos_q": -C / xp.where(learns, size, 1.0),
        "condition": condition,
    }

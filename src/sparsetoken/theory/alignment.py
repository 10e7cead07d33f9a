"""What the two gradient steps on D0 do, in the limit d, n0 -> infinity with n0 = alpha0 d.

Step 1 (at q = w = b = 0) moves readout and bias, step 2 the query:

    w1 = -(eta_w/n0) sum_i c_i xbar_i,   b1 = -(eta_b/n0) sum_i c_i,   c_i = l'(0; y_i)
    q2 = -(eta_q beta/(n0 L)) sum_i h_i X_i^T P X_i w1,   P = I - 11^T/L,   h_i = l'(<w1, xbar_i> + b1; y_i)

Everything below is a closed form up to one Gaussian integral a class.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from .._core.arrays import namespace
from ..losses import Loss
from ..task import Task
from ..training import Training

# Trapezoidal rule on the Gaussian weight: exponentially accurate for analytic losses, 1e-8 for ones with kinks in l'.
_NODES = np.linspace(-10.0, 10.0, 8001)
_WEIGHTS = np.exp(-0.5 * _NODES**2) * (_NODES[1] - _NODES[0]) / np.sqrt(2 * np.pi)


@dataclass(frozen=True)
class Alignment:
    """Limits after the two steps.

    cos_w       cos(w1, xi)
    norm_w      ||w1||
    bias        b1
    overlap_q   <q2, xi>
    norm_q      ||q2||
    cos_q       gamma = cos(q2, xi)
    rate        K of |cos_q| = 1 - K/alpha0 + o(1/alpha0); NaN where the query learns nothing (C = 0)
    anti_margin the left side of the anti-alignment condition, pi E[h+] theta^2 R(1 - R/L) + (L-1) E[h]; the query
                points away from the signal (with eta_w > 0) exactly when it is positive
    anti_aligned  whether that is so
    sharpness   k = beta ||q2||, the inverse temperature of the trained attention
    """

    cos_w: float
    norm_w: float
    bias: float
    overlap_q: float
    norm_q: float
    cos_q: float
    rate: float
    anti_margin: float
    anti_aligned: bool
    sharpness: float

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def _field_moments(loss: Loss, prevalence, mean_positive, mean_negative, spread):
    """E[h+], E[h], E[h+^2], E[h^2] for fields u± = mean± + spread G and h± = l'(u±; ±1)."""
    xp = namespace(mean_positive, mean_negative, spread, prevalence)
    nodes, weights = xp.asarray(_NODES), xp.asarray(_WEIGHTS)
    positive = loss.slope(mean_positive + spread * nodes, xp.ones_like(nodes))
    negative = loss.slope(mean_negative + spread * nodes, -xp.ones_like(nodes))
    h_positive, h_negative = (weights * positive).sum(), (weights * negative).sum()
    hh_positive, hh_negative = (weights * positive**2).sum(), (weights * negative**2).sum()
    mix = lambda p, n: prevalence * p + (1 - prevalence) * n  # noqa: E731
    return h_positive, mix(h_positive, h_negative), hh_positive, mix(hh_positive, hh_negative)


def alignment_formulas(loss: Loss, L, R, theta, pi, alpha0, eta_w, eta_b, eta_q, beta) -> dict[str, Any]:
    """The formulas themselves, on Python floats or JAX scalars (then differentiable in all but L and R)."""
    xp = namespace(theta, pi, alpha0, eta_w, eta_b, eta_q, beta)
    zero = 0.0 * xp.asarray(theta, dtype=float)
    c_positive, c_negative = loss.slope(zero, 1.0), loss.slope(zero, -1.0)
    Ec2 = pi * c_positive**2 + (1 - pi) * c_negative**2
    a = -eta_w * pi * c_positive * theta * R / L
    s2 = eta_w**2 * Ec2 / (alpha0 * L)
    norm2 = a**2 + s2
    b1 = -eta_b * (pi * c_positive + (1 - pi) * c_negative)
    pull = eta_w / (alpha0 * L)  # each sample's own weight in w1
    spread = xp.sqrt(norm2 / L)
    h_plus, h, hh_plus, hh = _field_moments(
        loss, pi, a * theta * R / L - pull * c_positive + b1, -pull * c_negative + b1, spread
    )
    rr = R * (1 - R / L)
    condition = pi * h_plus * theta**2 * rr + (L - 1) * h
    C = condition * a
    Q = ((L - 1) * h) ** 2 * s2 + ((L - 1) * norm2 * hh + pi * hh_plus * theta**2 * a**2 * rr) / alpha0
    scale = eta_q * beta / L
    size = xp.sqrt(C**2 + Q)
    return {
        "a": a,
        "norm_w": xp.sqrt(norm2),
        "bias": b1,
        "overlap_q": -scale * C,
        "norm_q": scale * size,
        "cos_q": -C / xp.where(size > 0, size, 1.0),
        "condition": condition,
    }


def _rate(loss: Loss, L, R, theta, pi, eta_w, eta_b) -> float:
    """K = lim alpha0 Q/(2 C^2), with the fields of alpha0 = infinity (no noise in w1, no own pull)."""
    c_positive, c_negative = float(loss.slope(0.0, 1.0)), float(loss.slope(0.0, -1.0))
    Ec2 = pi * c_positive**2 + (1 - pi) * c_negative**2
    a = -eta_w * pi * c_positive * theta * R / L
    b1 = -eta_b * (pi * c_positive + (1 - pi) * c_negative)
    h_plus, h, hh_plus, hh = _field_moments(loss, pi, a * theta * R / L + b1, b1, abs(a) / np.sqrt(L))
    rr = R * (1 - R / L)
    C = (pi * h_plus * theta**2 * rr + (L - 1) * h) * a
    Q = ((L - 1) * h) ** 2 * eta_w**2 * Ec2 / L + (L - 1) * a**2 * hh + pi * hh_plus * theta**2 * a**2 * rr
    return float(Q / (2 * C**2)) if C != 0 else float("nan")


def alignment(task: Task, training: Training) -> Alignment:
    """Limits of readout, bias and query after the two gradient steps; see `Alignment`."""
    loss = training.loss_function
    L, R, theta, pi = task.length, task.sparsity, task.strength, task.prevalence
    t = training
    f = alignment_formulas(loss, L, R, theta, pi, t.alpha0, t.eta_w, t.eta_b, t.eta_q, t.beta)
    norm_w, norm_q = float(f["norm_w"]), float(f["norm_q"])
    condition = float(f["condition"])
    return Alignment(
        cos_w=float(f["a"]) / norm_w if norm_w > 0 else 0.0,
        norm_w=norm_w,
        bias=float(f["bias"]),
        overlap_q=float(f["overlap_q"]),
        norm_q=norm_q,
        cos_q=float(f["cos_q"]),
        rate=_rate(loss, L, R, theta, pi, t.eta_w, t.eta_b),
        anti_margin=condition,
        anti_aligned=bool(condition > 0 and float(f["a"]) > 0),
        sharpness=t.beta * norm_q,
    )

"""What the two gradient steps on D0 do, in the limit d, n0 -> infinity with n0 = alpha0 d.

Step 1 (at q = w = b = 0) moves readout and bias, step 2 the query:

    w1 = -(eta_w/n0) sum_i c_i xbar_i,   b1 = -(eta_b/n0) sum_i c_i,   c_i = l'(0; y_i)
    q2 = -(eta_q beta/(n0 L)) sum_i h_i X_i^T P X_i w1,   P = I - 11^T/L,   h_i = l'(<w1, xbar_i> + b1; y_i)

Everything below is a closed form up to one Gaussian integral per class.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .._core.arrays import namespace
from ..losses import Loss
from ..results import TwoSteps, two_steps_from
from ..task import Task
from ..training import Training

# Trapezoidal rule on the Gaussian weight: exponentially accurate for analytic losses, 1e-8 for ones with kinks in l'.
_NODES = np.linspace(-10.0, 10.0, 8001)
_WEIGHTS = np.exp(-0.5 * _NODES**2) * (_NODES[1] - _NODES[0]) / np.sqrt(2 * np.pi)


@dataclass(frozen=True, kw_only=True, repr=False)
class Alignment(TwoSteps):
    """Limits of readout, bias and query after the two gradient steps.

    Attributes
    ----------
    overlap, cosine, norm, bias, sharpness
        As in `results.TwoSteps`: of w1 under "w", of q2 under "q"; gamma = `cosine["q"]`, k = `sharpness`.
    rate : float
        K of |gamma| = 1 - K/alpha0 + o(1/alpha0); NaN where the query learns nothing (C = 0).
    anti_margin : float
        The left side of the anti-alignment condition, pi E[h+] theta^2 R (1 - R/L) + (L - 1) E[h]. With eta_w > 0 the query
        points away from the signal exactly when it is positive.
    anti_aligned : bool
        Whether the query points away from the signal.
    """

    rate: float
    anti_margin: float
    anti_aligned: bool


def field_moments(loss: Loss, prevalence, mean_positive, mean_negative, spread):
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
    # w1, C and sqrt(Q) are proportional to eta_w up to what the fields do with it. With eta_w taken out, the query's
    # direction and the derivatives of everything have their limits at eta_w = 0.
    a1 = -pi * c_positive * theta * R / L
    s2 = Ec2 / (alpha0 * L)
    norm = xp.sqrt(a1**2 + s2)
    b1 = -eta_b * (pi * c_positive + (1 - pi) * c_negative)
    pull = eta_w / (alpha0 * L)  # each sample's own weight in w1
    h_plus, h, hh_plus, hh = field_moments(
        loss,
        pi,
        eta_w * a1 * theta * R / L - pull * c_positive + b1,
        -pull * c_negative + b1,
        eta_w * norm / L**0.5,
    )
    rr = R * (1 - R / L)
    condition = pi * h_plus * theta**2 * rr + (L - 1) * h
    C = condition * a1
    Q = ((L - 1) * h) ** 2 * s2 + ((L - 1) * norm**2 * hh + pi * hh_plus * theta**2 * a1**2 * rr) / alpha0
    scale = eta_w * eta_q * beta / L
    square = C**2 + Q
    learns = square > 0  # not at L = 1: one token has nothing to attend to
    size = xp.where(learns, xp.sqrt(xp.where(learns, square, 1.0)), 0.0)
    return {
        "a": eta_w * a1,
        "norm_w": eta_w * norm,
        "bias": b1,
        "overlap_q": -scale * C,
        "norm_q": scale * size,
        "cos_q": -C / xp.where(learns, size, 1.0),
        "condition": condition,
    }


def _rate(loss: Loss, L, R, theta, pi, eta_w, eta_b) -> float:
    """K = lim alpha0 Q/(2 C^2), with the fields of alpha0 = infinity (no noise in w1, no own pull)."""
    c_positive, c_negative = float(loss.slope(0.0, 1.0)), float(loss.slope(0.0, -1.0))
    Ec2 = pi * c_positive**2 + (1 - pi) * c_negative**2
    a = -eta_w * pi * c_positive * theta * R / L
    b1 = -eta_b * (pi * c_positive + (1 - pi) * c_negative)
    h_plus, h, hh_plus, hh = field_moments(loss, pi, a * theta * R / L + b1, b1, abs(a) / np.sqrt(L))
    rr = R * (1 - R / L)
    C = (pi * h_plus * theta**2 * rr + (L - 1) * h) * a
    Q = ((L - 1) * h) ** 2 * eta_w**2 * Ec2 / L + (L - 1) * a**2 * hh + pi * hh_plus * theta**2 * a**2 * rr
    return float(Q / (2 * C**2)) if C != 0 else float("nan")


def alignment(task: Task, training: Training) -> Alignment:
    """Limits of readout, bias and query after the two gradient steps.

    Parameters
    ----------
    task : Task
        What the data is.
    training : Training
        How it is learned; alpha0, the three rates, beta and the loss matter.

    Returns
    -------
    Alignment
    """
    loss = training.loss_function
    L, R, theta, pi = task.length, task.sparsity, task.strength, task.prevalence
    t = training
    f = alignment_formulas(loss, L, R, theta, pi, t.alpha0, t.eta_w, t.eta_b, t.eta_q, t.beta)
    a, condition = float(f["a"]), float(f["condition"])
    fields = two_steps_from(a, float(f["norm_w"]), float(f["overlap_q"]), float(f["norm_q"]), float(f["bias"]), t.beta)
    if fields["norm"]["q"] > 0:  # the formula's own cosine has no rounding from the rates' scale
        fields["cosine"]["q"] = float(f["cos_q"])
    return Alignment(
        **fields,
        rate=_rate(loss, L, R, theta, pi, t.eta_w, t.eta_b),
        anti_margin=condition,
        anti_aligned=bool(condition > 0 and a > 0),
    )

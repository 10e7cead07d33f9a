"""What the two gradient steps on D0 do, in the limit d, n0 -> infinity with n0 = alpha0 d.

Step 1 (at q = w = b = 0) moves readout and bias, step 2 the query:

    w1 = -(eta_w/n0) sum_i c_i xbar_i,   b1 = -(eta_b/n0) sum_i c_i,   c_i = l'(0; y_i)
    q2 = -(eta_q beta/n0) sum_i (h_i/L_i) X_i^T P X_i w1,   P = I - 11^T/L,   h_i = l'(<w1, xbar_i> + b1; y_i)

Every bag has its own length L, sparsity R and strength theta, a signal or none (sigma = 1 or 0), and a label y as it is seen.
With rho the correlation of a bag's tokens, k0 = rho + (1 - rho)/L and averages over bags:

    a = <w1, xi> = -eta_w E[c sigma theta R/L],   s^2 = eta_w^2 E[c^2 k0]/alpha0,   ||w1||^2 = a^2 + s^2,   b1 = -eta_b E[c]
    u = a sigma theta R/L - eta_w c k0/alpha0 + b1 + ||w1|| sqrt(k0) G,   h = l'(u; y)
    G1 = (1 - rho) E[h (L-1)/L],   C = (E[h sigma theta^2 R(1-R/L)/L] + G1) a
    Q = G1^2 s^2 + [(1 - rho)^2 ||w1||^2 E[h^2 (L-1)/L^2] + (1 - rho) a^2 E[h^2 sigma theta^2 R(1-R/L)/L^2]]/alpha0
    <q2, xi> = -eta_q beta C,   ||q2|| = eta_q beta sqrt(C^2 + Q)

The second term of u is the bag's own pull on w1. All is a closed form up to one Gaussian integral per group of like bags.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .._core.arrays import namespace
from ..losses import Loss
from ..results import TwoSteps, two_steps_from
from ..task import BagKind, Task
from ..training import Training

# Trapezoidal rule on the Gaussian weight: exponentially accurate for analytic losses, 1e-8 for ones with kinks in l'.
FIELD_NODES = np.linspace(-10.0, 10.0, 8001)
FIELD_WEIGHTS = np.exp(-0.5 * FIELD_NODES**2) * (FIELD_NODES[1] - FIELD_NODES[0]) / np.sqrt(2 * np.pi)


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
        The left side of the anti-alignment condition, pi E[h+] theta^2 R (1 - R/L) + (L - 1) E[h]; for bags of several
        lengths, the mean length times the average of the same over L. With eta_w > 0 the query points away from the signal
        exactly when it is positive.
    anti_aligned : bool
        Whether the query points away from the signal.
    """

    rate: float
    anti_margin: float
    anti_aligned: bool


def field_moments(loss: Loss, prevalence, mean_positive, mean_negative, spread):
    """E[h+], E[h], E[h+^2], E[h^2] for fields u± = mean± + spread G and h± = l'(u±; ±1)."""
    xp = namespace(mean_positive, mean_negative, spread, prevalence)
    nodes, weights = xp.asarray(FIELD_NODES), xp.asarray(FIELD_WEIGHTS)
    positive = loss.slope(mean_positive + spread * nodes, xp.ones_like(nodes))
    negative = loss.slope(mean_negative + spread * nodes, -xp.ones_like(nodes))
    h_positive, h_negative = (weights * positive).sum(), (weights * negative).sum()
    hh_positive, hh_negative = (weights * positive**2).sum(), (weights * negative**2).sum()

    def mix(p, n):
        return prevalence * p + (1 - prevalence) * n

    return h_positive, mix(h_positive, h_negative), hh_positive, mix(hh_positive, hh_negative)


class _Group(NamedTuple):
    """Bags of D0 that are alike to the two steps."""

    probability: Any
    label: float
    length: int
    push: Any
    spread: Any


def _groups(task: Task, kinds: Sequence[BagKind], pi: Any) -> list[_Group]:
    """The bags of D0 by kind, presence of a signal and label seen."""
    eps, contaminated = task.label_noise, task.contamination
    groups = []
    for L, R, theta, p in kinds:
        signal = (theta * R / L, theta**2 * (R * (1 - R / L)))
        for label, chance in ((1.0, 1.0 - eps), (-1.0, eps)) if eps else ((1.0, 1.0),):
            groups.append(_Group(p * pi * chance, label, L, *signal))
            groups.append(_Group(p * ((1 - pi) * (1.0 - contaminated)) * chance, -label, L, 0.0, 0.0))
            if contaminated:
                groups.append(_Group(p * ((1 - pi) * contaminated) * chance, -label, L, *signal))
    return groups


class _Averages(NamedTuple):
    """What the formulas need of h, averages over bags: G1 = (1 - rho) E[h (L-1)/L], E[h theta^2 R(1-R/L)/L],
    (1 - rho)^2 E[h^2 (L-1)/L^2] and (1 - rho) E[h^2 theta^2 R(1-R/L)/L^2]."""

    noise: Any
    signal: Any
    noise_square: Any
    signal_square: Any


def _field_averages(loss: Loss, groups: Sequence[_Group], means: Sequence[Any], spreads: Sequence[Any], rest: float):
    """Averages over fields u = mean + spread G, one mean and spread per group; rest = 1 - rho."""
    xp = namespace(*means, *spreads, *(g.probability for g in groups))
    nodes, weights = xp.asarray(FIELD_NODES), xp.asarray(FIELD_WEIGHTS)
    total = [0.0, 0.0, 0.0, 0.0]
    for (p, label, L, _, scatter), mean, spread in zip(groups, means, spreads, strict=True):
        slope = loss.slope(mean + spread * nodes, label * xp.ones_like(nodes))
        h, hh = (weights * slope).sum(), (weights * slope**2).sum()
        terms = (h * rest * ((L - 1) / L), h * scatter / L, hh * rest**2 * ((L - 1) / L**2), hh * rest * scatter / L**2)
        total = [sofar + p * term for sofar, term in zip(total, terms)]
    return _Averages(*total)


class _FirstStep(NamedTuple):
    """w1 at eta_w = 1, and b1: overlap a1, noise s2, norm; the bias; and c, E[xbar noise] of every group."""

    overlap: Any
    noise: Any
    norm: Any
    bias: Any
    slopes: list[Any]
    variances: list[float]


def _first_step(loss: Loss, task: Task, groups: Sequence[_Group], alpha0: Any, eta_b: Any, zero: Any) -> _FirstStep:
    xp = namespace(zero, alpha0, eta_b, *(g.probability for g in groups))
    rho = task.correlation
    at = xp.asarray(zero)  # a user's loss may rely on getting arrays
    slopes = [loss.slope(at, group.label) for group in groups]
    # Variance of a mean token's noise; 1/L as such where tokens are independent, so that nothing is lost to rounding.
    variances = [rho + (1.0 - rho) / group.length if rho else 1.0 / group.length for group in groups]
    a1 = -sum(g.probability * c * g.push for g, c in zip(groups, slopes))
    s2 = sum(g.probability * c**2 * v for g, c, v in zip(groups, slopes, variances)) / alpha0
    b1 = -eta_b * sum(g.probability * c for g, c in zip(groups, slopes))
    return _FirstStep(a1, s2, xp.sqrt(a1**2 + s2), b1, slopes, variances)


def alignment_formulas(
    loss: Loss, task: Task, pi, alpha0, eta_w, eta_b, eta_q, beta, kinds: Sequence[BagKind] | None = None
) -> dict[str, Any]:
    """The formulas themselves, on Python floats or JAX scalars (then differentiable in all but L and R)."""
    given = kinds or task.kinds
    xp = namespace(*(kind.strength for kind in given), pi, alpha0, eta_w, eta_b, eta_q, beta)
    groups = _groups(task, given, pi)
    # w1, C and sqrt(Q) are proportional to eta_w up to what the fields do with it. With eta_w taken out, the query's
    # direction and the derivatives of everything have their limits at eta_w = 0.
    first = _first_step(loss, task, groups, alpha0, eta_b, 0.0 * xp.asarray(given[0].strength, dtype=float))
    a1, s2, norm, b1 = first[:4]
    means = [  # the second term is the bag's own pull on w1
        eta_w * a1 * group.push - eta_w * c * v / alpha0 + b1
        for group, c, v in zip(groups, first.slopes, first.variances)
    ]
    spreads = [eta_w * norm * v**0.5 for v in first.variances]
    average = _field_averages(loss, groups, means, spreads, 1.0 - task.correlation)
    condition = average.signal + average.noise
    C = condition * a1
    Q = average.noise**2 * s2 + (norm**2 * average.noise_square + a1**2 * average.signal_square) / alpha0
    scale = eta_w * eta_q * beta
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


def _rate(loss: Loss, task: Task, eta_w, eta_b) -> float:
    """K = lim alpha0 Q/(2 C^2), with the fields of alpha0 = infinity (no noise in w1, no own pull)."""
    groups = _groups(task, task.kinds, task.prevalence)
    first = _first_step(loss, task, groups, 1.0, eta_b, 0.0)
    a = eta_w * first.overlap
    means = [a * group.push + first.bias for group in groups]
    spreads = [abs(a) * v**0.5 for v in first.variances]
    average = _field_averages(loss, groups, means, spreads, 1.0 - task.correlation)
    C = (average.signal + average.noise) * a
    Q = (average.noise * eta_w) ** 2 * first.noise + a**2 * (average.noise_square + average.signal_square)
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
    Task.require(task)
    Training.require(training)
    loss = training.loss_function
    t = training
    f = alignment_formulas(loss, task, task.prevalence, t.alpha0, t.eta_w, t.eta_b, t.eta_q, t.beta)
    a, condition = float(f["a"]), task.mean_length * float(f["condition"])
    fields = two_steps_from(a, float(f["norm_w"]), float(f["overlap_q"]), float(f["norm_q"]), float(f["bias"]), t.beta)
    if fields["norm"]["q"] > 0:  # the formula's own cosine has no rounding from the rates' scale
        fields["cosine"]["q"] = float(f["cos_q"])
    return Alignment(
        **fields,
        rate=_rate(loss, task, t.eta_w, t.eta_b),
        anti_margin=condition,
        anti_aligned=bool(condition > 0 and a > 0),
    )

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

With eta_b = "auto" residuals are centred: c = l'(b0; y) with E[c] = 0, and b1 is such that E[h] = 0. Where all bags have one
length G1 then vanishes, C = E[h sigma theta^2 R(1-R/L)/L] a, and with exact labels <q2, xi> > 0 as long as E[h+] < 0: always
where l'(z; +1) < 0 for all z; for the square loss until eta_w is so large that w1 overshoots.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .._core.arrays import namespace
from ..losses import Loss, balancing_bias
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
    z = means[..., None] + spreads[..., None] * xp.asarray(FIELD_NODES)
    return z, xp.broadcast_to(xp.asarray(labels)[:, None], z.shape), xp.asarray(FIELD_WEIGHTS)


class BagGroups(NamedTuple):
    """Bags of D0 that are alike to the two steps, arrays over groups (last axis): push = theta R/L and
    scatter = theta^2 R(1 - R/L) where there is a signal, else 0; variance of a mean token's noise, k0."""

    probability: Any
    label: np.ndarray
    length: np.ndarray
    push: Any
    scatter: Any
    variance: np.ndarray


def bag_groups(task: Task, kinds: Sequence[BagKind], pi: Any) -> BagGroups:
    """The bags of D0 by kind, presence of a signal and label seen."""
    eps, contaminated, rho = task.label_noise, task.contamination, task.correlation
    rows: list[tuple] = []
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
    return BagGroups(probabilities, np.array(labels), np.array(length), pushes, scatters, np.array(variance))


class StepMoments(NamedTuple):
    """The two steps at eta_w = 1: overlap a, noise s^2 and norm of w1; b1; and averages of h over bags,
    G1 = (1 - rho) E[h (L-1)/L], E[h theta^2 R(1-R/L)/L], (1 - rho)^2 E[h^2 (L-1)/L^2], (1 - rho) E[h^2 theta^2 R(1-R/L)/L^2]."""

    overlap: Any
    noise: Any
    norm: Any
    bias: Any
    mean: Any
    signal: Any
    mean_square: Any
    signal_square: Any


def step_moments(loss: Loss, groups: BagGroups, alpha0: Any, eta_w: Any, eta_b: Any, rho: float) -> StepMoments:
    """Both steps as averages over groups of bags; alpha0 = infinity leaves out the noise of w1 and the own pull in the fields.

    w1, C and sqrt(Q) are proportional to eta_w up to what the fields do with it. With eta_w taken out, the query's direction
    and the derivatives of everything have their limits at eta_w = 0.
    """
    p, label, L, push, scatter, variance = groups
    xp = namespace(p, push, alpha0, eta_w)
    c = first_slopes(loss, eta_b, label, p)
    a = -(p * c * push).sum(-1)
    s2 = (p * c**2 * variance).sum(-1) / alpha0
    norm = xp.sqrt(a**2 + s2)
    means = eta_w * (a[..., None] * push - c * variance / alpha0)  # the second term is the bag's own pull on w1
    spreads = eta_w * norm[..., None] * variance**0.5
    b1 = second_bias(loss, eta_b, c, label, p, means, spreads)
    h, hh = residual_moments(loss, label, means + b1[..., None], spreads)
    rest = 1.0 - rho
    terms = (h * (rest * (L - 1) / L), h * scatter / L, hh * (rest**2 * (L - 1) / L**2), hh * scatter * (rest / L**2))
    return StepMoments(a, s2, norm, b1, *((p * term).sum(-1) for term in terms))


def alignment_formulas(
    loss: Loss, task: Task, pi, alpha0, eta_w, eta_b, eta_q, beta, kinds: Sequence[BagKind] | None = None
) -> dict[str, Any]:
    """The formulas themselves, on Python floats or JAX scalars (then differentiable in all but L and R)."""
    groups = bag_groups(task, kinds or task.kinds, pi)
    xp = namespace(groups.probability, groups.push, alpha0, eta_w, eta_b, eta_q, beta)
    a1, s2, norm, b1, mean, signal, mean_square, signal_square = step_moments(
        loss, groups, alpha0, eta_w, eta_b, task.correlation
    )
    condition = signal + mean
    C = condition * a1
    Q = mean**2 * s2 + (norm**2 * mean_square + a1**2 * signal_square) / alpha0
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
    groups = bag_groups(task, task.kinds, task.prevalence)
    a, _, _, _, mean, signal, mean_square, signal_square = step_moments(
        loss, groups, np.inf, eta_w, eta_b, task.correlation
    )
    c = first_slopes(loss, eta_b, groups.label, groups.probability)
    noise = (groups.probability * c**2 * groups.variance).sum()  # alpha0 s^2
    C = (signal + mean) * a
    Q = mean**2 * noise + a**2 * (mean_square + signal_square)
    return float(Q / (2 * C**2)) if eta_w * C != 0 else float("nan")


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

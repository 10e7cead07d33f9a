"""The two gradient steps that give the query (stages 0 to 2 of the training).

From q = 0, w = 0, b = 0, on D0, of the mean loss (1/n0) sum_i l(<w, f_q(X_i)> + b; y_i):

    w1 = -(eta_w/n0) sum_i c_i xbar_i,   b1 = -(eta_b/n0) sum_i c_i,   c_i = l'(0; y_i)
    q2 = -(eta_q beta/n0) sum_i (h_i/L_i) X_i^T P X_i w1,   P = I - 11^T/L,   h_i = l'(<w1, xbar_i> + b1; y_i)

With eta_b = "auto" c_i = l'(b0; y_i), and b0 and b1 are such that the c_i and the h_i sum to zero. A spectral start
(`Training.query_by`) takes h_i = c_i and another direction for a query of the same length.

Eq. (3) of docs/theory.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from ..losses import balancing_bias
from ..results import NOT_PLAIN, TwoSteps, two_steps_from
from ..task import Task
from ..training import Training
from .learn_directions import SecondMoments, draw_moments, moments_of
from .samplers import TensorData
from .samplers.drawn_bags import DrawnBags, check_size, draw_bags, sample_count
from .samplers.implicit_bags import ImplicitBags
from .seeds import stream

# Samples of the two steps handled at a time; fixed, since their numbers are drawn block by block.
BLOCK_SAMPLES = 2**16


@dataclass(frozen=True, kw_only=True, repr=False)
class SimulatedSteps(TwoSteps):
    """The two gradient steps on drawn data: the numbers of `results.TwoSteps`, and the vectors themselves."""

    n0: int
    readout: np.ndarray = field(compare=False, metadata=NOT_PLAIN)
    query: np.ndarray = field(compare=False, metadata=NOT_PLAIN)
    signal: np.ndarray = field(compare=False, metadata=NOT_PLAIN)


def two_steps(task: Task, training: Training, d: int, seed: int, sampler: str = "reduced") -> SimulatedSteps:
    """The two gradient steps on a data set D0 of n0 = alpha0 d bags.

    The reduced sampler draws O(n0 + d) numbers (d = 1,000,000 takes about a second) and puts xi on the first axis; the
    tensor sampler draws every token.

    Parameters
    ----------
    task, training : Task, Training
        What the data is, and how it is learned; alpha0, the three rates, beta and the loss matter.
    d, seed : int
        Dimension of a token, at least 2, and where all randomness comes from.
    sampler : str
        "reduced" or "tensor".
    """
    Task.require(task)
    Training.require(training)
    d, seed = check_size(d, seed, sampler)
    n0 = sample_count("alpha0", training.alpha0, d)
    if sampler == "tensor":
        return steps_on(TensorData(task, n0, d, seed, "0"), training)
    bags, signal = draw_bags(task, n0, seed, "0"), np.eye(1, d)[0]
    if training.query_by != "steps":
        return _spectral_start(draw_moments(task, n0, d, seed, "0"), task.longest, training, bags.labels, signal)
    w1, b1, q2 = draw_two_steps(bags, training, d, seed)
    return summarise(w1, b1, q2, signal, n0, training.beta)


def first_slopes(training: Training, y: np.ndarray) -> np.ndarray:
    """c_i = l'(0; y_i), or with eta_b = "auto" l'(b0; y_i) at the intercept b0 for which they sum to zero."""
    loss, at = training.loss_function, np.zeros(len(y))
    if isinstance(training.eta_b, str):
        at += balancing_bias(loss, at, y, np.full(len(y), 1.0 / len(y)))
    return loss.slope(at, y)


def second_bias(training: Training, c: np.ndarray, fields: np.ndarray, y: np.ndarray) -> float:
    """b1 = -(eta_b/n) sum_i c_i, or with eta_b = "auto" the bias for which h_i = l'(<w1, xbar_i> + b1; y_i) sum to zero."""
    if not isinstance(training.eta_b, str):
        return -training.eta_b * float(c.mean())
    return float(balancing_bias(training.loss_function, fields, y, np.full(len(y), 1.0 / len(y))))


def draw_two_steps(
    bags: DrawnBags,
    training: Training,
    d: int,
    seed: int,
    signal: np.ndarray | None = None,
    root: np.ndarray | float = 1.0,
) -> tuple[np.ndarray, float, np.ndarray]:
    """(w1, b1, q2) of the two gradient steps on D0, in coordinates where xi is `signal`, by default the first axis.

    O(n0 + d) numbers are drawn. In white noise, with zbar_i the mean noise of a bag, of size sqrt(k0_i),
    k0 = rho + (1 - rho)/L, P = I - 11^T/L and w1hat = w1/||w1||:

    - w1 needs sum_i c_i zbar_i only, a Gaussian vector g of size sqrt(sum_i c_i^2 k0_i);
    - the fields <w1, zbar_i> given w1 are Gaussian, with their component along c_i sqrt(k0_i) pinned by g;
    - e_i = P Z_i w1hat, Z_i the tokens' own noise, is standard Gaussian on the space orthogonal to 1, and independent of the
      above. Only its component e1 along P v_i and its squared length matter: a normal and a chi-square number per sample;
    - the rest of sum_i (h_i/L_i) Z_i^T P X_i w1 is Gaussian, orthogonal to w1, of size sqrt(sum_i h_i^2 |P X_i w1|^2/L_i^2).

    In coloured noise Sigma^{1/2} z, in the eigenbasis of Sigma where `root` = sqrt(s_j), z enters through Sigma^{1/2} w1 only:
    this replaces w1 everywhere except in the overlap with xi, and the query's part from z is multiplied by Sigma^{1/2}.
    """
    rng = stream(seed, "steps")
    task, labels = bags.task, bags.labels
    loss, n0 = training.loss_function, len(bags)

    c = first_slopes(training, labels)
    pulls = c * bags.mean_scale
    norm_c = float(np.linalg.norm(pulls))
    xi = np.eye(1, d)[0] if signal is None else signal
    g = root * rng.standard_normal(d)
    w1 = (-training.eta_w * norm_c / n0) * g
    w1 -= training.eta_w / n0 * float(c @ bags.mean_shift) * xi
    seen, overlap = root * w1, float(w1 @ xi)
    norm_w = float(np.linalg.norm(seen))
    if norm_w == 0.0:
        return w1, second_bias(training, c, bags.mean_shift * overlap, labels), np.zeros(d)

    c_hat = pulls / norm_c
    noise = rng.standard_normal(n0)
    noise -= c_hat * (c_hat @ noise)
    field = bags.mean_scale * (c_hat * float(g @ w1) + norm_w * noise) + bags.mean_shift * overlap
    b1 = second_bias(training, c, field, labels)
    if task.longest == 1:  # one token has nothing to attend to
        return w1, b1, np.zeros(d)
    h = loss.slope(field + b1, labels) / bags.lengths

    own_noise = math.sqrt(1.0 - task.correlation)  # size of a token's own noise
    scatter = [kind.strength * math.sqrt(kind.sparsity * (1.0 - kind.sparsity / kind.length)) for kind in task.kinds]
    along_v, along_w, squares = 0.0, 0.0, 0.0
    for first in range(0, n0, BLOCK_SAMPLES):
        which = slice(first, min(first + BLOCK_SAMPLES, n0))
        count, length = which.stop - first, bags.lengths[which]
        e1 = rng.standard_normal(count) * (length > 1)
        e_square = e1**2 + 2.0 * rng.standard_gamma(np.maximum(length - 2, 0) / 2.0)
        spread = np.array(scatter)[bags.kind[which]] * bags.carries[which]  # theta |P v|
        push = overlap * spread
        hb, size = h[which], own_noise * norm_w
        along_v += float(hb @ (spread * (push + size * e1)))
        along_w += float(hb @ (push * e1 + size * e_square))
        squares += float(hb**2 @ (push**2 + 2.0 * size * push * e1 + size**2 * e_square))

    w_hat = seen / norm_w
    bulk = rng.standard_normal(d)
    bulk -= w_hat * float(w_hat @ bulk)
    total = root * (own_noise * along_w * w_hat + own_noise * math.sqrt(squares) * bulk) + along_v * xi
    return w1, b1, (-training.eta_q * training.beta / n0) * total


def steps_on(data: TensorData | ImplicitBags, training: Training) -> SimulatedSteps:
    """The two gradient steps on given bags, through products with their tokens."""
    if isinstance(data, TensorData) and training.query_by != "steps":
        return _spectral_start(moments_of(data), data.task.longest, training, data.labels, data.signal)
    y, n0, groups = data.labels, data.count, data.bags.by_length()
    c = first_slopes(training, y)
    means = [np.repeat((c[which] / (n0 * L))[:, None, None], L, axis=1) for which, L in groups]
    w1 = -training.eta_w * data.pull(means)[:, 0]
    scores = data.fields(w1[:, None])
    fields = np.concatenate([part[..., 0].mean(axis=1) for part in scores])
    b1 = second_bias(training, c, fields, y)
    h = training.loss_function.slope(fields + b1, y)
    weights = [
        (h[which] / (n0 * L))[:, None, None] * (part - fields[which, None, None])
        for (which, L), part in zip(groups, scores)
    ]
    q2 = -training.eta_q * training.beta * data.pull(weights)[:, 0]
    return summarise(w1, b1, q2, data.signal, n0, training.beta)


def _spectral_start(
    moments: SecondMoments, length: int, training: Training, y: np.ndarray, signal: np.ndarray
) -> SimulatedSteps:
    """The first step, and a query along the direction of `training.query_by`, of the length that one product would give."""
    n0, c = len(y), first_slopes(training, y)
    b0 = second_bias(training, c, np.zeros(n0), y)
    size = float(c[y < 0][0]) / moments.share  # c_i = -size a_i
    w1 = training.eta_w * size / n0 * moments.mean
    norm = training.eta_q * training.beta * size / (n0 * length) * float(np.linalg.norm(moments.product(w1)))
    return summarise(w1, b0, norm * moments.direction(training.query_by), signal, n0, training.beta)


def summarise(w1: np.ndarray, b1: float, q2: np.ndarray, signal: np.ndarray, n0: int, beta: float) -> SimulatedSteps:
    """Overlaps, norms and cosines of a readout, a bias and a query."""
    norm_w, norm_q = float(np.linalg.norm(w1)), float(np.linalg.norm(q2))
    fields = two_steps_from(float(w1 @ signal), norm_w, float(q2 @ signal), norm_q, b1, beta)
    return SimulatedSteps(**fields, n0=n0, readout=w1, query=q2, signal=signal)

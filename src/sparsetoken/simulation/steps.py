"""The two gradient steps that give the query (stages 0 to 2 of the training).

From q = 0, w = 0, b = 0, on D0, of the mean loss (1/n0) sum_i l(<w, f_q(X_i)> + b; y_i):

    w1 = -(eta_w/n0) sum_i c_i xbar_i,   b1 = -(eta_b/n0) sum_i c_i,   c_i = l'(0; y_i)
    q2 = -(eta_q beta/(n0 L)) sum_i h_i X_i^T P X_i w1,   P = I - 11^T/L,   h_i = l'(<w1, xbar_i> + b1; y_i)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from .._core.threads import single_blas_thread
from .._core.validation import whole_number
from ..task import Task
from ..training import Training
from .samplers import SAMPLERS, TensorData
from .samplers.labels import draw_labels, sample_count
from .samplers.reduced import draw_two_steps
from .samplers.streams import check_seed


@dataclass(frozen=True)
class TwoSteps:
    """What the two gradient steps give.

    cos_w      <w1, xi>/||w1||          norm_w     ||w1||        bias      b1
    cos_q      <q2, xi>/||q2|| (gamma)  norm_q     ||q2||        overlap_q <q2, xi>
    n0         samples used
    readout    w1                       query      q2            signal    xi

    A cosine is NaN where its vector vanishes (a bag of one token leaves the query at zero).
    """

    cos_w: float
    cos_q: float
    norm_w: float
    norm_q: float
    bias: float
    overlap_q: float
    n0: int
    readout: np.ndarray
    query: np.ndarray
    signal: np.ndarray


def two_steps(task: Task, training: Training, d: int, seed: int, sampler: str = "reduced") -> TwoSteps:
    """The two gradient steps on a data set D0 of n0 = alpha0 d bags.

    The reduced sampler draws O(n0 + d) numbers (d = 1,000,000 takes about a second) and puts xi on the first axis; the
    tensor sampler draws every token.
    """
    d, seed, n0 = check_size(training, d, seed, sampler)
    with single_blas_thread():
        if sampler == "tensor":
            return steps_on(TensorData(task, n0, d, seed, "0"), training)
        labels = draw_labels(task, n0, seed, "0")
        w1, b1, q2 = draw_two_steps(task, training, labels, d, seed)
    signal = np.zeros(d)
    signal[0] = 1.0
    return summarise(w1, b1, q2, signal, n0)


def check_size(training: Training, d: int, seed: int, sampler: str) -> tuple[int, int, int]:
    """(d, seed, n0), checked."""
    if sampler not in SAMPLERS:
        raise ValueError(f"sampler must be one of {', '.join(SAMPLERS)}, got {sampler!r}")
    d = whole_number("d", d, 2)
    return d, check_seed(seed), sample_count("alpha0", training.alpha0, d)


def steps_on(data: TensorData, training: Training) -> TwoSteps:
    """The two gradient steps on given bags."""
    loss, y, n0, length = training.loss_function, data.labels, data.count, data.task.length
    c = loss.slope(np.zeros(n0), y)
    total = np.zeros(data.d)
    for which, tokens in data.blocks():
        total += c[which] @ tokens.mean(axis=1)
    w1 = -training.eta_w / n0 * total
    b1 = -training.eta_b * float(c.mean())

    total = np.zeros(data.d)
    for which, tokens in data.blocks():
        scores = tokens @ w1
        field = scores.mean(axis=1, keepdims=True)
        h = loss.slope(field[:, 0] + b1, y[which])
        total += (h[:, None] * (scores - field)).ravel() @ tokens.reshape(-1, data.d)
    return summarise(w1, b1, -training.eta_q * training.beta / (n0 * length) * total, data.signal, n0)


def summarise(w1: np.ndarray, b1: float, q2: np.ndarray, signal: np.ndarray, n0: int) -> TwoSteps:
    """Norms and cosines of a readout, a bias and a query."""
    norm_w, norm_q = float(np.linalg.norm(w1)), float(np.linalg.norm(q2))
    overlap_w, overlap_q = float(w1 @ signal), float(q2 @ signal)
    return TwoSteps(
        cos_w=overlap_w / norm_w if norm_w > 0 else math.nan,
        cos_q=overlap_q / norm_q if norm_q > 0 else math.nan,
        norm_w=norm_w,
        norm_q=norm_q,
        bias=b1,
        overlap_q=overlap_q,
        n0=n0,
        readout=w1,
        query=q2,
        signal=signal,
    )

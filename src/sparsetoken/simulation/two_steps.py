"""The two gradient steps that give the query (stages 0 to 2 of the training).

From q = 0, w = 0, b = 0, on D0, of the mean loss (1/n0) sum_i l(<w, f_q(X_i)> + b; y_i):

    w1 = -(eta_w/n0) sum_i c_i xbar_i,   b1 = -(eta_b/n0) sum_i c_i,   c_i = l'(0; y_i)
    q2 = -(eta_q beta/n0) sum_i (h_i/L_i) X_i^T P X_i w1,   P = I - 11^T/L,   h_i = l'(<w1, xbar_i> + b1; y_i)

With eta_b = "auto" c_i = l'(b0; y_i), and b0 and b1 are such that the c_i and the h_i sum to zero. A spectral start
(`Training.query_by`) takes h_i = c_i and another direction for a query of the same length.

Eq. (3) of docs/theory.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ..losses import balancing_bias
from ..results import NOT_PLAIN, TwoSteps, two_steps_from
from ..task import Task
from ..training import Training
from .learn_directions import SecondMoments, draw_moments, moments_of
from .samplers import TensorData
from .samplers.drawn_bags import check_size, draw_bags, sample_count
from .samplers.implicit_bags import ImplicitBags
from .samplers.reduced import DrawnProducts


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
    return take_steps(DrawnProducts(bags, seed, signal), training)


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


class TokenProducts:
    """What the two steps need of the tokens of given bags: three products, asked for one after the other."""

    def __init__(self, data: TensorData | ImplicitBags):
        self.data, self.labels, self.signal, self.groups = data, data.labels, data.signal, data.bags.by_length()

    def mean_pull(self, c: np.ndarray) -> np.ndarray:
        """sum_i c_i xbar_i."""
        weights = [np.repeat((c[which] / L)[:, None, None], L, axis=1) for which, L in self.groups]
        return self.data.pull(weights)[:, 0]

    def mean_fields(self, w: np.ndarray) -> np.ndarray:
        """<w, xbar_i>."""
        self.fields = self.data.fields(w[:, None])
        self.means = np.concatenate([part[..., 0].mean(axis=1) for part in self.fields])
        return self.means

    def centred_pull(self, h: np.ndarray) -> np.ndarray:
        """sum_i (h_i/L_i) X_i^T P X_i w."""
        weights = [
            (h[which] / L)[:, None, None] * (part - self.means[which, None, None])
            for (which, L), part in zip(self.groups, self.fields)
        ]
        return self.data.pull(weights)[:, 0]


def steps_on(data: TensorData | ImplicitBags, training: Training) -> SimulatedSteps:
    """The two gradient steps on given bags, through products with their tokens."""
    if isinstance(data, TensorData) and training.query_by != "steps":
        return _spectral_start(moments_of(data), data.task.longest, training, data.labels, data.signal)
    return take_steps(TokenProducts(data), training)


def take_steps(products: TokenProducts | DrawnProducts, training: Training) -> SimulatedSteps:
    """The two gradient steps, whatever gives the products with the tokens."""
    y, n0 = products.labels, len(products.labels)
    c = first_slopes(training, y)
    w1 = -training.eta_w / n0 * products.mean_pull(c)
    fields = products.mean_fields(w1)
    b1 = second_bias(training, c, fields, y)
    h = training.loss_function.slope(fields + b1, y)
    q2 = -training.eta_q * training.beta / n0 * products.centred_pull(h)
    return summarise(w1, b1, q2, products.signal, n0, training.beta)


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

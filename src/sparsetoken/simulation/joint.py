"""Joint training: full-batch gradient descent on query, readout and bias together.

    F(q, w, b) = (1/n) sum_i l(<w, f_q(X_i)> + b; y_i) + (ridge/2) ||w||^2,   f_q(X) = X^T softmax(beta X q)

The query is not penalised; F is not convex in (q, w) together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..activations import softmax
from ..training import Training
from .samplers import TensorData

# Descent ends when PATIENCE iterations together lower F by less than this share of it, or after MAX_ITERATIONS: it is meant
# as a training of finite length rather than as a way to a minimum of F, which is not convex.
MAX_ITERATIONS = 400
RELATIVE_DECREASE = 1e-4
PATIENCE = 10


@dataclass(frozen=True)
class JointResult:
    """Where joint descent ended.

    Attributes
    ----------
    query, readout, bias : ndarray, ndarray, float
        q, w and b.
    outputs, labels : ndarray (n,)
        The bags' scores and labels.
    gradient_norm : float
        Norm of the gradient of F over all blocks.
    objective : tuple of float
        F at the start and after every iteration.
    stopped : str
        "decrease", "precision" or "iterations".
    """

    query: np.ndarray
    readout: np.ndarray
    bias: float
    outputs: np.ndarray
    labels: np.ndarray
    gradient_norm: float
    objective: tuple[float, ...]
    stopped: str


class _Bags:
    """Several data sets as one; scores are (n, L) arrays, vectors have d entries."""

    def __init__(self, data: Sequence[TensorData]):
        self.data = data
        self.labels = np.concatenate([part.labels for part in data])
        self.length, self.d = data[0].task.length, data[0].d

    def scores(self, vectors: np.ndarray) -> np.ndarray:
        """(n, L, m): the products of every token with each of the m columns."""
        return np.concatenate([tokens @ vectors for part in self.data for _, tokens in part.blocks()])

    def combine(self, weights: np.ndarray) -> np.ndarray:
        """(m, d): for weights (n, L, m), the sums over bags and tokens of weight times token."""
        total, first = np.zeros((weights.shape[2], self.d)), 0
        for part in self.data:
            for which, tokens in part.blocks():
                mine = weights[first + which.start : first + which.stop]
                total += mine.reshape(-1, weights.shape[2]).T @ tokens.reshape(-1, self.d)
            first += part.count
        return total


def descend(data: Sequence[TensorData], training: Training) -> JointResult:
    """Gradient descent on  F = (1/n) sum l + (ridge/2)||w||^2  over (q, w, b) from zero, on all bags of `data`.

    Step: the block gradients are scaled by the rates eta_q, eta_w, eta_b (a block with rate 0 stays where it is), and
    the scaled direction is taken s times, s found by backtracking: from twice the last accepted s (1 at first) halved
    until F falls by at least a tenth of what the gradient promises (Armijo). F thus decreases in every iteration.
    Stop: when ten iterations together lower F by less than a part in 10^4 ("decrease"), when no step lowers F
    ("precision"), or after 400 iterations ("iterations"). At the start the query's gradient is zero, and the first
    iteration is the first gradient step of the staged training up to its length.

    Parameters
    ----------
    data : sequence of TensorData
        The data sets, taken as one.
    training : Training
        Loss, rates, beta and ridge are used.

    Returns
    -------
    JointResult
    """
    bags, loss, beta, ridge = _Bags(data), training.loss_function, training.beta, training.ridge
    y = bags.labels
    n = len(y)
    q, w, b = np.zeros(bags.d), np.zeros(bags.d), 0.0
    attention, readout = np.zeros((n, bags.length)), np.zeros((n, bags.length))  # X q, X w
    rates = training.eta_q, training.eta_w, training.eta_b

    def outputs(attention: np.ndarray, readout: np.ndarray, b: float) -> tuple[np.ndarray, np.ndarray]:
        p = softmax(beta * attention)
        return p, np.einsum("il,il->i", p, readout) + b

    p, z = outputs(attention, readout, b)
    value = float(loss.value(z, y).mean())
    history, step, stopped = [value], 1.0, "iterations"
    while len(history) <= MAX_ITERATIONS and stopped == "iterations":
        r = loss.slope(z, y) / n
        pull = p * r[:, None]
        grad_q, grad_w = bags.combine(np.stack([beta * pull * (readout - (z - b)[:, None]), pull], axis=2))
        grad_w += ridge * w
        grad_b = float(r.sum())
        gradient_norm = math.sqrt(float(grad_q @ grad_q) + float(grad_w @ grad_w) + grad_b**2)
        promise = rates[0] * float(grad_q @ grad_q) + rates[1] * float(grad_w @ grad_w) + rates[2] * grad_b**2
        dq, dw, db = -rates[0] * grad_q, -rates[1] * grad_w, -rates[2] * grad_b
        change = bags.scores(np.stack([dq, dw], axis=1))
        step *= 2.0
        while True:
            b_new = b + step * db
            p_new, z_new = outputs(attention + step * change[..., 0], readout + step * change[..., 1], b_new)
            w_new = w + step * dw
            new = float(loss.value(z_new, y).mean()) + 0.5 * ridge * float(w_new @ w_new)
            if new <= value - 0.1 * step * promise and new < value:
                break
            step /= 2.0
            if step * promise <= 1e-15 * abs(value):
                stopped = "precision"
                break
        if stopped == "precision":
            break
        q, w, b, value, p, z = q + step * dq, w_new, b_new, new, p_new, z_new
        attention += step * change[..., 0]
        readout += step * change[..., 1]
        history.append(value)
        if len(history) > PATIENCE and history[-PATIENCE - 1] - value < RELATIVE_DECREASE * value:
            stopped = "decrease"
    return JointResult(q, w, b, z, y, gradient_norm, tuple(history), stopped)

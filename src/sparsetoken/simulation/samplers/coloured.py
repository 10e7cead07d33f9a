"""Exact in law, without the tokens, in coloured Gaussian noise: tokens theta v_l xi + Sigma^{1/2} z_l.

Everything is in the eigenbasis of Sigma, where Sigma^{1/2} multiplies coordinates by `root` = sqrt(s_j). With `root` =
1 the laws are those of `reduced`, which turns xi into the first axis and so needs fewer numbers still.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...activations import token_weights
from ...task import Task
from ...training import Training
from .reduced import BLOCK_SAMPLES, BLOCK_TOKENS
from .streams import stream


def coloured_tokens(root: np.ndarray, length: int) -> Callable[[np.random.Generator, int, int], np.ndarray]:
    """What draws the tokens of the tensor sampler: (generator, first bag, last bag) -> tokens."""
    return lambda rng, first, last: root * rng.standard_normal((last - first, length, len(root)))


def draw_coloured_steps(
    task: Task, training: Training, labels: np.ndarray, signal: np.ndarray, root: np.ndarray, seed: int
) -> tuple[np.ndarray, float, np.ndarray]:
    """(w1, b1, q2) of the two gradient steps on D0 with these labels.

    As in `reduced.draw_two_steps`, with Z_i = Y_i Sigma^{1/2} and Y_i standard Gaussian. Y_i meets w1 only through
    Sigma^{1/2} w1, of length omega; the fields are omega e_i, and what the query gathers is Sigma^{1/2} times what it
    would gather in white noise along Sigma^{1/2} w1.
    """
    rng = stream(seed, "steps")
    length, sparsity, theta, _ = task.only_kind("coloured noise")
    d = len(signal)
    loss, n0 = training.loss_function, len(labels)
    positive = labels > 0

    c = loss.slope(np.zeros(n0), labels)
    norm_c = float(np.linalg.norm(c))
    b1 = -training.eta_b * float(c.mean())
    g = root * rng.standard_normal(d)
    w1 = (-training.eta_w * norm_c / (n0 * math.sqrt(length))) * g
    w1 -= training.eta_w / n0 * (theta * sparsity / length) * float(c[positive].sum()) * signal
    seen = root * w1
    omega = float(np.linalg.norm(seen))
    if omega == 0.0 or length == 1:  # one token has nothing to attend to
        return w1, b1, np.zeros(d)

    overlap = float(w1 @ signal)
    c_hat = c / norm_c
    noise = rng.standard_normal(n0)
    noise -= c_hat * (c_hat @ noise)
    field = (c_hat * float(g @ w1) + omega * noise) / math.sqrt(length) + b1
    field[positive] += theta * sparsity / length * overlap
    h = loss.slope(field, labels)

    spread = math.sqrt(sparsity * (1.0 - sparsity / length))  # |P v|
    along_v, along_w, squares = 0.0, 0.0, 0.0
    for first in range(0, n0, BLOCK_SAMPLES):
        which = slice(first, min(first + BLOCK_SAMPLES, n0))
        count = which.stop - first
        e1 = rng.standard_normal(count)
        e_square = e1**2 + (rng.chisquare(length - 2, count) if length > 2 else 0.0)
        push = theta * overlap * spread * positive[which]
        hb = h[which]
        along_v += float(hb @ (positive[which] * spread * (push + omega * e1)))
        along_w += float(hb @ (push * e1 + omega * e_square))
        squares += float(hb**2 @ (push**2 + 2.0 * omega * push * e1 + omega**2 * e_square))

    direction = seen / omega
    bulk = rng.standard_normal(d)
    bulk -= direction * float(direction @ bulk)
    total = root * (along_w * direction + math.sqrt(squares) * bulk) + theta * along_v * signal
    return w1, b1, (-training.eta_q * training.beta / (n0 * length)) * total


def draw_coloured_features(
    task: Task,
    labels: np.ndarray,
    signal: np.ndarray,
    root: np.ndarray,
    seed: int,
    query: np.ndarray,
    activation: Callable[[Any], Any] | None = None,
) -> np.ndarray:
    """Attended features f = T a + S xi + kappa Sigma'^{1/2} z (n, d) of `laws.coloured`.

    Parameters
    ----------
    task : Task
        What the bags are.
    labels : ndarray (n,)
        -1 or +1.
    signal, root : ndarray (d,)
        xi and sqrt(s_j).
    seed : int
        Of the trial.
    query : ndarray (d,)
        beta q; zero is pooling.
    activation : callable, optional
        Of elementwise attention; None for softmax.

    Returns
    -------
    ndarray (n, d)
    """
    rng = stream(seed, "features")
    n, positive = len(labels), labels > 0
    spread = float(np.linalg.norm(root * query))  # sigma of beta q
    length, sparsity, theta, _ = task.only_kind("coloured noise")
    shift = theta * float(signal @ query)
    along, mass, kappa = np.empty(n), np.zeros(n), np.empty(n)
    block = max(1, BLOCK_TOKENS // length)
    for first in range(0, n, block):
        which = slice(first, min(first + block, n))
        t = rng.standard_normal((which.stop - first, length))
        scores = spread * t
        scores[positive[which], :sparsity] += shift
        weights = token_weights(scores, activation)
        along[which], kappa[which] = (weights * t).sum(axis=1), np.linalg.norm(weights, axis=1)
        mass[which] = weights[:, :sparsity].sum(axis=1) * positive[which]
    features = root * rng.standard_normal((n, len(root)))
    if spread > 0:  # what the noise has along the query is `along` already
        a = root**2 * query / spread
        features -= np.outer(features @ query / spread, a)
        features *= kappa[:, None]
        features += np.outer(along, a)
    else:
        features *= kappa[:, None]
    return features + np.outer(theta * mass, signal)

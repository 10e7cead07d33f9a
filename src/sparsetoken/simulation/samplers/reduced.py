"""Exact in law, without the tokens: only what the training can see is drawn.

The tokens are Gaussian, so along directions the training does not single out they can be drawn last, as one vector per
sample ("bulk"). Nothing here is an approximation: every array has the joint law the full tensor would give it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...laws.positions import draw_places
from ...laws.statistics import bag_statistics
from ...task import Task
from ...training import Training
from .streams import stream

# Samples of the two steps handled at a time; fixed, since their numbers are drawn block by block.
BLOCK_SAMPLES = 2**16
# Token coordinates held at a time (32 MB). They are drawn in one sequence, whatever the size of a block.
BLOCK_TOKENS = 2**22


def draw_two_steps(
    task: Task, training: Training, labels: np.ndarray, d: int, seed: int
) -> tuple[np.ndarray, float, np.ndarray]:
    """(w1, b1, q2) of the two gradient steps on D0 with these labels, in coordinates where xi is the first axis.

    O(n0 + d) numbers are drawn. With zbar_i the mean noise of a bag, P = I - 11^T/L and w1hat = w1/||w1||:

    - w1 needs sum_i c_i zbar_i only, a Gaussian vector g of size ||c||/sqrt(L);
    - the fields <w1, zbar_i> given w1 are Gaussian, with their component along c pinned by g;
    - e_i = P Z_i w1hat is standard Gaussian on the space orthogonal to 1, and independent of the above. Only its
      component e1 along P v_i and its squared length matter: a normal and a chi-square number per sample;
    - the rest of sum_i h_i Z_i^T P X_i w1 is Gaussian, orthogonal to w1, of size sqrt(sum_i h_i^2 |P X_i w1|^2).
    """
    rng = stream(seed, "steps")
    length, sparsity, theta = task.length, task.sparsity, task.strength
    loss, n0 = training.loss_function, len(labels)
    positive = labels > 0

    c = loss.slope(np.zeros(n0), labels)
    norm_c = float(np.linalg.norm(c))
    b1 = -training.eta_b * float(c.mean())
    g = rng.standard_normal(d)
    w1 = (-training.eta_w * norm_c / (n0 * math.sqrt(length))) * g
    w1[0] -= training.eta_w / n0 * (theta * sparsity / length) * float(c[positive].sum())
    norm_w = float(np.linalg.norm(w1))
    if norm_w == 0.0 or length == 1:  # one token has nothing to attend to
        return w1, b1, np.zeros(d)

    c_hat = c / norm_c
    noise = rng.standard_normal(n0)
    noise -= c_hat * (c_hat @ noise)
    field = (c_hat * float(g @ w1) + norm_w * noise) / math.sqrt(length) + b1
    field[positive] += theta * sparsity / length * w1[0]
    h = loss.slope(field, labels)

    spread = math.sqrt(sparsity * (1.0 - sparsity / length))  # |P v|
    along_v, along_w, squares = 0.0, 0.0, 0.0
    for first in range(0, n0, BLOCK_SAMPLES):
        which = slice(first, min(first + BLOCK_SAMPLES, n0))
        count = which.stop - first
        e1 = rng.standard_normal(count)
        e_square = e1**2 + (rng.chisquare(length - 2, count) if length > 2 else 0.0)
        push = theta * w1[0] * spread * positive[which]
        hb = h[which]
        along_v += float(hb @ (positive[which] * spread * (push + norm_w * e1)))
        along_w += float(hb @ (push * e1 + norm_w * e_square))
        squares += float(hb**2 @ (push**2 + 2.0 * norm_w * push * e1 + norm_w**2 * e_square))

    w_hat = w1 / norm_w
    bulk = rng.standard_normal(d)
    bulk -= w_hat * float(w_hat @ bulk)
    total = along_w * w_hat + math.sqrt(squares) * bulk
    total[0] += theta * along_v
    return w1, b1, (-training.eta_q * training.beta / (n0 * length)) * total


def draw_bulk(rng: np.random.Generator, count: int, dimension: int, leading: int = 0) -> np.ndarray:
    """`count` standard Gaussian rows in R^dimension, up to a rotation of R^dimension common to all of them.

    With fewer rows than dimensions the rotation makes them lower triangular (Bartlett): count^2/2 numbers. Room for
    `leading` more columns is left in front, as zeros.
    """
    if count >= dimension:
        rows = np.zeros((count, leading + dimension))
        rows[:, leading:] = rng.standard_normal((count, dimension))
        return rows
    rows = np.zeros((count, leading + count))
    for i in range(1, count):
        rng.standard_normal(out=rows[i, leading : leading + i])
    rows[np.arange(count), leading + np.arange(count)] = np.sqrt(rng.chisquare(dimension - np.arange(count)))
    return rows


def draw_pooled(task: Task, labels: np.ndarray, d: int, seed: int) -> np.ndarray:
    """Pooled features xbar; the first coordinate is <xbar, xi>."""
    rng = stream(seed, "features")
    first = rng.standard_normal(len(labels))
    features = draw_bulk(rng, len(labels), d - 1, leading=1)
    features[:, 0] = first
    features /= math.sqrt(task.length)
    features[labels > 0, 0] += task.strength * task.sparsity / task.length
    return features


def draw_pooled_leading(task: Task, labels: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The coordinate <xbar, xi> (n, 1) of pooled features, and the scale (n,) of all others."""
    scale = np.full(len(labels), task.length**-0.5)
    first = scale * stream(seed, "features").standard_normal(len(labels))
    first[labels > 0] += task.strength * task.sparsity / task.length
    return first[:, None], scale


def draw_flattened(task: Task, labels: np.ndarray, d: int, seed: int) -> np.ndarray:
    """Flattened bags; the first L coordinates are <x_l, xi>."""
    rng = stream(seed, "features")
    first = rng.standard_normal((len(labels), task.length))
    features = draw_bulk(rng, len(labels), task.length * (d - 1), leading=task.length)
    places = draw_places(stream(seed, "places1"), task, len(labels))
    bags = np.flatnonzero(labels > 0)
    features[:, : task.length] = first
    features[bags[:, None], places[bags]] += task.strength
    return features


def token_coordinates(rng: np.random.Generator, task: Task, labels: np.ndarray, cosine: float) -> np.ndarray:
    """t_l = <x_l, qhat>: (n, L). Signal tokens come first: their places do not matter to a sum over tokens."""
    t = rng.standard_normal((len(labels), task.length))
    t[labels > 0, : task.sparsity] += cosine * task.strength
    return t


def mixture(
    task: Task, t: np.ndarray, positive: np.ndarray | bool, cosine: float, sharpness: float, activation: Any
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(T, S, kappa) of bags whose tokens have coordinates t along qhat, signal tokens first; S = 0 if y = -1."""
    signal = slice(task.sparsity)
    along, across, scale = bag_statistics(t, signal, task.strength, cosine, sharpness, activation)
    return along, across * positive, scale


def draw_attended(
    task: Task,
    labels: np.ndarray,
    d: int,
    seed: int,
    cosine: float,
    sharpness: float,
    activation: Callable[[Any], Any] | None,
) -> np.ndarray:
    """Attended features f = T qhat + S u + kappa z; the first coordinate is along qhat, the second along u.

    qhat = q/||q||, u is xi's unit direction orthogonal to it, z standard Gaussian orthogonal to qhat.
    """
    leading, scale, rng = draw_attended_leading(task, labels, seed, cosine, sharpness, activation)
    features = draw_bulk(rng, len(labels), d - 2, leading=2)
    features *= scale[:, None]
    features[:, :2] = leading
    return features


def draw_attended_leading(
    task: Task,
    labels: np.ndarray,
    seed: int,
    cosine: float,
    sharpness: float,
    activation: Callable[[Any], Any] | None,
) -> tuple[np.ndarray, np.ndarray, np.random.Generator]:
    """The two leading coordinates (n, 2) of attended features, kappa (n,), and the generator for the rest."""
    rng = stream(seed, "features")
    n = len(labels)
    along, across, scale = np.empty(n), np.empty(n), np.empty(n)
    block = max(1, BLOCK_TOKENS // task.length)
    for first in range(0, n, block):
        which = slice(first, min(first + block, n))
        t = token_coordinates(rng, task, labels[which], cosine)
        along[which], across[which], scale[which] = mixture(task, t, labels[which] > 0, cosine, sharpness, activation)
    across += scale * rng.standard_normal(n)
    return np.stack([along, across], axis=1), scale, rng

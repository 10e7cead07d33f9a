"""Exact in law, without the tokens: only what the training can see is drawn.

The tokens are Gaussian, so along directions the training does not single out they can be drawn last, as one vector per
sample ("bulk"). Nothing here is an approximation: every array has the joint law the full tensor would give it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...laws.statistics import Activation, bag_statistics
from ...training import Training
from .drawn_bags import DrawnBags
from .streams import stream

# Samples of the two steps handled at a time; fixed, since their numbers are drawn block by block.
BLOCK_SAMPLES = 2**16
# Token coordinates held at a time (32 MB). They are drawn in one sequence, whatever the size of a block.
BLOCK_TOKENS = 2**22


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

    In coloured noise Sigma^{1/2} z, in the eigenbasis of Sigma where `root` = sqrt(s_j), z meets w1 only through
    Sigma^{1/2} w1: that takes w1's place in all but the overlap with xi, and what the query gathers of z is
    multiplied by Sigma^{1/2}.
    """
    rng = stream(seed, "steps")
    task, labels = bags.task, bags.labels
    loss, n0 = training.loss_function, len(bags)

    c = loss.slope(np.zeros(n0), labels)
    pulls = c * bags.mean_scale
    norm_c = float(np.linalg.norm(pulls))
    b1 = -training.eta_b * float(c.mean())
    xi = np.eye(1, d)[0] if signal is None else signal
    g = root * rng.standard_normal(d)
    w1 = (-training.eta_w * norm_c / n0) * g
    w1 -= training.eta_w / n0 * float(c @ bags.mean_shift) * xi
    seen, overlap = root * w1, float(w1 @ xi)
    norm_w = float(np.linalg.norm(seen))
    if norm_w == 0.0 or task.longest == 1:  # one token has nothing to attend to
        return w1, b1, np.zeros(d)

    c_hat = pulls / norm_c
    noise = rng.standard_normal(n0)
    noise -= c_hat * (c_hat @ noise)
    field = bags.mean_scale * (c_hat * float(g @ w1) + norm_w * noise) + b1 + bags.mean_shift * overlap
    h = loss.slope(field, labels) / bags.lengths

    own = math.sqrt(1.0 - task.correlation)  # size of a token's own noise
    scatter = [kind.strength * math.sqrt(kind.sparsity * (1.0 - kind.sparsity / kind.length)) for kind in task.kinds]
    along_v, along_w, squares = 0.0, 0.0, 0.0
    for first in range(0, n0, BLOCK_SAMPLES):
        which = slice(first, min(first + BLOCK_SAMPLES, n0))
        count, length = which.stop - first, bags.lengths[which]
        e1 = rng.standard_normal(count) * (length > 1)
        e_square = e1**2 + 2.0 * rng.standard_gamma(np.maximum(length - 2, 0) / 2.0)
        spread = np.array(scatter)[bags.kind[which]] * bags.carries[which]  # theta |P v|
        push = overlap * spread
        hb, size = h[which], own * norm_w
        along_v += float(hb @ (spread * (push + size * e1)))
        along_w += float(hb @ (push * e1 + size * e_square))
        squares += float(hb**2 @ (push**2 + 2.0 * size * push * e1 + size**2 * e_square))

    w_hat = seen / norm_w
    bulk = rng.standard_normal(d)
    bulk -= w_hat * float(w_hat @ bulk)
    total = root * (own * along_w * w_hat + own * math.sqrt(squares) * bulk) + along_v * xi
    return w1, b1, (-training.eta_q * training.beta / n0) * total


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


def draw_pooled(bags: DrawnBags, d: int, seed: int) -> np.ndarray:
    """Pooled features xbar; the first coordinate is <xbar, xi>."""
    rng = stream(seed, "features")
    first = rng.standard_normal(len(bags))
    features = draw_bulk(rng, len(bags), d - 1, leading=1)
    features[:, 0] = first
    features *= bags.mean_scale[:, None]
    features[:, 0] += bags.mean_shift
    return features


def draw_pooled_leading(bags: DrawnBags, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The coordinate <xbar, xi> (n, 1) of pooled features, and the scale (n,) of all others."""
    first = bags.mean_scale * stream(seed, "features").standard_normal(len(bags)) + bags.mean_shift
    return first[:, None], bags.mean_scale


def draw_flattened(bags: DrawnBags, d: int, seed: int) -> np.ndarray:
    """Flattened bags, all of one length and with independent tokens; the first L coordinates are <x_l, xi>."""
    rng, length = stream(seed, "features"), bags.task.longest
    first = rng.standard_normal((len(bags), length))
    features = draw_bulk(rng, len(bags), length * (d - 1), leading=length)
    features[:, :length] = first
    which, places, strength = bags.places(stream(seed, "places1"))
    features[which, places] += strength
    return features


def seen_statistics(
    t: np.ndarray,
    shared: np.ndarray | float,
    signal: slice,
    strength: float,
    cosine: float,
    sharpness: float,
    correlation: float,
    activation: Activation | None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(T, S, kappa) of bags whose tokens share a part of their noise.

    Parameters
    ----------
    t : ndarray (n, L)
        The tokens' coordinates along the query without what they share.
    shared : ndarray (n,) or float
        The coordinate of what they share, of variance rho.
    signal : slice
        The signal tokens of the last axis.
    strength, cosine, sharpness : float
        theta, gamma and k.
    correlation : float
        rho.
    activation : callable, optional
        sigma of elementwise attention; softmax, whose weights do not see what tokens share, without one.

    Returns
    -------
    tuple of ndarray (n,)
        S as of bags with signal.
    """
    if not correlation:
        return bag_statistics(t, signal, strength, cosine, sharpness, activation)
    if activation is not None:
        t = t + np.asarray(shared)[..., None]
    T, S, kappa = bag_statistics(t, signal, strength, cosine, sharpness, activation)
    total: Any = 1.0 if activation is None else np.mean(activation(sharpness * t), axis=-1)
    if activation is None:
        T = T + shared
    return T, S, np.sqrt((1.0 - correlation) * kappa**2 + correlation * total**2)


def draw_attended(
    bags: DrawnBags, d: int, seed: int, cosine: float, sharpness: float, activation: Activation | None
) -> np.ndarray:
    """Attended features f = T qhat + S u + kappa z; the first coordinate is along qhat, the second along u.

    qhat = q/||q||, u is xi's unit direction orthogonal to it, z standard Gaussian orthogonal to qhat.
    """
    leading, scale, rng = draw_attended_leading(bags, seed, cosine, sharpness, activation)
    features = draw_bulk(rng, len(bags), d - 2, leading=2)
    features *= scale[:, None]
    features[:, :2] = leading
    return features


def draw_attended_leading(
    bags: DrawnBags, seed: int, cosine: float, sharpness: float, activation: Activation | None
) -> tuple[np.ndarray, np.ndarray, np.random.Generator]:
    """The two leading coordinates (n, 2) of attended features, kappa (n,), and the generator for the rest."""
    rng = stream(seed, "features")
    n, rho = len(bags), bags.task.correlation
    own = math.sqrt(1.0 - rho)
    shared = math.sqrt(rho) * stream(seed, "shared1").standard_normal(n) if rho else np.zeros(n)
    along, across, scale = np.empty(n), np.empty(n), np.empty(n)
    for rows, kind in bags.by_kind():
        index = np.arange(n)[rows]
        block = max(1, BLOCK_TOKENS // kind.length)
        for first in range(0, len(index), block):
            which = index[first : first + block]
            t = rng.standard_normal((len(which), kind.length))
            if own != 1.0:
                t *= own
            # Signal tokens come first: their places do not matter to a sum over tokens.
            t[bags.carries[which], : kind.sparsity] += cosine * kind.strength
            T, S, kappa = seen_statistics(
                t, shared[which], slice(kind.sparsity), kind.strength, cosine, sharpness, rho, activation
            )
            along[which], across[which], scale[which] = T, S * bags.carries[which], kappa
    across += scale * rng.standard_normal(n)
    return np.stack([along, across], axis=1), scale, rng

"""Exact in law, without the tokens: only the quantities that training depends on are drawn.

The tokens are Gaussian, so along directions the training does not single out they can be drawn last, as one vector per
sample ("bulk"). Nothing here is an approximation: every array has the joint law the full tensor would give it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..._core.devices import working_on
from ...activations import token_weights
from ...laws.bag_statistics import Activation, bag_statistics
from ...task import Task
from ..seeds import stream
from .drawn_bags import DrawnBags

# Token coordinates held at a time (32 MB). They are drawn in one sequence, whatever the size of a block.
BLOCK_TOKENS = 2**22
# Bags of the two steps handled at a time; fixed, since their numbers are drawn block by block.
BLOCK_BAGS = 2**16


def draw_bulk(rng: np.random.Generator, count: int, dimension: int, leading: int = 0) -> np.ndarray:
    """`count` standard Gaussian rows in R^dimension, up to a common rotation, after `leading` columns of zeros.

    With fewer rows than dimensions the rotation makes them lower triangular (Bartlett): count^2/2 numbers.
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


class DrawnProducts:
    """What the two steps need of the tokens of D0 (see `two_steps.take_steps`), drawn one after the other: O(n0 + d) numbers.

    With zbar_i the mean noise of a bag, of size sqrt(k0_i), k0 = rho + (1 - rho)/L, P = I - 11^T/L and what = w/||w||:

    - sum_i c_i zbar_i is a Gaussian vector g of size sqrt(sum_i c_i^2 k0_i);
    - the fields <w, zbar_i> given w are Gaussian, with their component along c_i sqrt(k0_i) pinned by g;
    - e_i = P Z_i what, Z_i the tokens' own noise, is standard Gaussian on the space orthogonal to 1, and independent of the
      above. Only its component e1 along P v_i and its squared length matter: a normal and a chi-square number per bag;
    - the rest of sum_i (h_i/L_i) Z_i^T P X_i w is Gaussian, orthogonal to w, of size sqrt(sum_i h_i^2 |P X_i w|^2/L_i^2).

    In coloured noise Sigma^{1/2} z, in the eigenbasis of Sigma where `root` = sqrt(s_j), z enters through Sigma^{1/2} w only:
    this replaces w everywhere except in the overlap with xi, and the query's part from z is multiplied by Sigma^{1/2}.
    """

    def __init__(self, bags: DrawnBags, seed: int, signal: np.ndarray, root: np.ndarray | float = 1.0):
        self.bags, self.labels, self.signal, self.root = bags, bags.labels, signal, root
        self.rng = stream(seed, "steps")

    def mean_pull(self, c: np.ndarray) -> np.ndarray:
        """sum_i c_i xbar_i."""
        pulls = c * self.bags.mean_scale
        size = float(np.linalg.norm(pulls))
        self.c_hat = pulls / (size or 1.0)
        self.g = self.root * self.rng.standard_normal(len(self.signal))
        return size * self.g + float(c @ self.bags.mean_shift) * self.signal

    def mean_fields(self, w: np.ndarray) -> np.ndarray:
        """<w, xbar_i>."""
        seen = self.root * w
        self.overlap, self.norm = float(w @ self.signal), float(np.linalg.norm(seen))
        self.w_hat = seen / (self.norm or 1.0)
        noise = self.rng.standard_normal(len(self.bags))
        noise -= self.c_hat * (self.c_hat @ noise)
        along_g = self.c_hat * float(self.g @ w)
        return self.bags.mean_scale * (along_g + self.norm * noise) + self.bags.mean_shift * self.overlap

    def centred_pull(self, h: np.ndarray) -> np.ndarray:
        """sum_i (h_i/L_i) X_i^T P X_i w."""
        bags, task = self.bags, self.bags.task
        own_noise = math.sqrt(1.0 - task.correlation)  # size of a token's own noise
        size = own_noise * self.norm
        scatter = [
            kind.strength * math.sqrt(kind.sparsity * (1.0 - kind.sparsity / kind.length)) for kind in task.kinds
        ]
        along_v, along_w, squares = 0.0, 0.0, 0.0
        for first in range(0, len(bags), BLOCK_BAGS):
            which = slice(first, min(first + BLOCK_BAGS, len(bags)))
            length = bags.lengths[which]
            e1 = self.rng.standard_normal(len(length)) * (length > 1)
            e_square = e1**2 + 2.0 * self.rng.standard_gamma(np.maximum(length - 2, 0) / 2.0)
            spread = np.array(scatter)[bags.kind[which]] * bags.carries[which]  # theta |P v|
            push, weight = self.overlap * spread, h[which] / length
            along_v += float(weight @ (spread * (push + size * e1)))
            along_w += float(weight @ (push * e1 + size * e_square))
            squares += float(weight**2 @ (push**2 + 2.0 * size * push * e1 + size**2 * e_square))
        bulk = self.rng.standard_normal(len(self.signal))
        bulk -= self.w_hat * float(self.w_hat @ bulk)
        return self.root * own_noise * (along_w * self.w_hat + math.sqrt(squares) * bulk) + along_v * self.signal


class Leading(NamedTuple):
    """Leading coordinates (n, m) of features, the scale (n,) of their isotropic rest, and the generator for that."""

    coordinates: np.ndarray
    scale: np.ndarray
    rng: np.random.Generator


def draw_features(leading: Leading, dimension: int) -> np.ndarray:
    """Features in R^dimension, exact in law up to a rotation that leaves the leading coordinates in place."""
    count, special = leading.coordinates.shape
    features = draw_bulk(leading.rng, count, dimension - special, leading=special)
    features *= leading.scale[:, None]
    features[:, :special] = leading.coordinates
    return features


def draw_pooled(bags: DrawnBags, seed: int) -> Leading:
    """Of pooled features xbar: the coordinate <xbar, xi>."""
    rng = stream(seed, "features")
    first = bags.mean_scale * rng.standard_normal(len(bags)) + bags.mean_shift
    return Leading(first[:, None], bags.mean_scale, rng)


def draw_flattened(bags: DrawnBags, seed: int) -> Leading:
    """Of flattened bags, all of one length and with independent tokens: the coordinates <x_l, xi>."""
    rng = stream(seed, "features")
    first = rng.standard_normal((len(bags), bags.task.longest))
    which, places, strength = bags.places(stream(seed, "places1"))
    first[which, places] += strength
    return Leading(first, np.ones(len(bags)), rng)


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
    """(T, S, kappa) of bags whose tokens share a part of their noise."""
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
    bags: DrawnBags, seed: int, cosine: float, sharpness: float, activation: Activation | None
) -> Leading:
    """Of attended features f = T qhat + S u + kappa z: the coordinates along qhat and u.

    qhat = q/||q||, u is xi's unit direction orthogonal to it, z standard Gaussian orthogonal to qhat.
    """
    along, across, scale, rng = draw_statistics(bags, seed, cosine, sharpness, activation)
    across += scale * rng.standard_normal(len(bags))
    return Leading(np.stack([along, across], axis=1), scale, rng)


def draw_statistics(
    bags: DrawnBags, seed: int, cosine: float, sharpness: float, activation: Activation | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.random.Generator]:
    """T, S and kappa (n,) of bags, and the generator for further draws."""
    rng = stream(seed, "features")
    n, rho = len(bags), bags.task.correlation
    individual = math.sqrt(1.0 - rho)
    shared = math.sqrt(rho) * stream(seed, "shared1").standard_normal(n) if rho else np.zeros(n)
    along, across, scale = np.empty(n), np.empty(n), np.empty(n)
    for rows, kind in bags.by_kind():
        index = np.arange(n)[rows]
        block = max(1, BLOCK_TOKENS // kind.length)
        for first in range(0, len(index), block):
            which = index[first : first + block]
            t = rng.standard_normal((len(which), kind.length))
            if individual != 1.0:
                t *= individual
            # Signal tokens come first: their places do not matter to a sum over tokens.
            t[bags.carries[which], : kind.sparsity] += cosine * kind.strength
            T, S, kappa = seen_statistics(
                t, shared[which], slice(kind.sparsity), kind.strength, cosine, sharpness, rho, activation
            )
            along[which], across[which], scale[which] = T, S * bags.carries[which], kappa
    return along, across, scale, rng


def draw_coloured_features(
    task: Task,
    labels: np.ndarray,
    signal: np.ndarray,
    root: np.ndarray,
    seed: int,
    query: np.ndarray,
    activation: Callable[[Any], Any] | None = None,
) -> np.ndarray:
    """Attended features f = T a + S xi + kappa Sigma'^{1/2} z (n, d) of `laws.coloured`, in the eigenbasis of Sigma.

    `root` = sqrt(s_j) there. With `root` = 1 they have the law of `draw_attended`, which draws fewer numbers.
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
    if spread > 0:  # the noise along the query is in `along` already
        a = root**2 * query / spread
        features -= np.outer(features @ query / spread, a)
    features *= kappa[:, None]
    if spread > 0:
        features += np.outer(along, a)
    return features + np.outer(theta * mass, signal)


def place_features(leading: Leading, d: int, seed: int, device: Any) -> Any:
    """`draw_features` on a JAX device, from JAX's generator: a seed gives other numbers of the same law."""
    import jax
    import jax.numpy as jnp

    count, special = leading.coordinates.shape
    with working_on(device):
        bulk = jax.random.normal(key_of(seed), (count, d), dtype=jnp.float64) * jnp.asarray(leading.scale)[:, None]
        return bulk.at[:, :special].set(jnp.asarray(leading.coordinates))


def key_of(seed: int) -> Any:
    """JAX's key for a seed of any size: the first 63 bits make the key, and what is left is folded in, 32 bits at a time."""
    import jax

    key, rest = jax.random.key(seed & (2**63 - 1)), seed >> 63
    while rest:
        key = jax.random.fold_in(key, rest & 0xFFFFFFFF)
        rest >>= 32
    return key

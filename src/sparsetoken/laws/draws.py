"""Random numbers behind the sampled laws: independent randomisations of the tokens' Gaussian coordinates.

A law of L tokens is drawn as `REPLICATES` independent randomisations of `points` draws each, so that every average has a
standard error. Draws are scrambled Sobol points where the dimension is small; the signal tokens come first, because the
averages depend on them most. Beyond `EXPLICIT_TOKENS` noise tokens only the largest are drawn one by one: sums over the
others are Gaussian to high accuracy given their number, with exact conditional mean and covariance.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jax
import numpy as np
from scipy.special import ndtr, ndtri
from scipy.stats import binom, qmc

REPLICATES = 16
EXPLICIT_TOKENS = 384
TAIL_TOKENS = 128  # expected number of noise tokens drawn one by one when there are more than EXPLICIT_TOKENS
SOBOL_DIMENSIONS = 48
_ROOT_SEED = 20250925


@dataclass(frozen=True, eq=False)
class TokenDraws:
    """Standard normal coordinates of the tokens along the query, (replicates, points, ...).

    signal   (B, P, R): the tokens that carry the signal in a positive bag
    noise    (B, P, K): noise tokens drawn one by one; -inf pads unused places
    bulk     (B, P): how many further noise tokens lie below `ceiling` (zero when all are explicit)
    normals  (B, P, 3): standard normals for the bulk's sums
    offset   (B, P): uniform shift of the quadrature over the readout noise
    """

    signal: Any
    noise: Any
    bulk: Any
    normals: Any
    offset: Any
    ceiling: float

    @property
    def has_bulk(self) -> bool:
        return bool(np.isfinite(self.ceiling))


jax.tree_util.register_pytree_node(
    TokenDraws,
    lambda d: ((d.signal, d.noise, d.bulk, d.normals, d.offset), d.ceiling),
    lambda ceiling, leaves: TokenDraws(*leaves, ceiling=ceiling),
)


def _uniforms(rng: np.random.Generator, points: int, dimension: int) -> np.ndarray:
    """(points, dimension) uniforms in (0, 1): scrambled Sobol in the leading coordinates, independent in the others."""
    leading = min(dimension, SOBOL_DIMENSIONS)
    sobol = qmc.Sobol(leading, scramble=True, rng=rng).random(points)
    u = sobol if leading == dimension else np.hstack([sobol, rng.random((points, dimension - leading))])
    return np.clip(u, 1e-16, 1 - 1e-16)


def _largest_first(u: np.ndarray, count: np.ndarray, tail_probability: float) -> np.ndarray:
    """Standard normals above the tail's edge in falling order, `count` a row and -inf after them.

    The j-th largest of m uniforms is the (j-1)-th times V^(1/(m-j+1)). In this order the softmax depends on the leading
    coordinates above all, and quasi-random points integrate it far better than tokens in no order.
    """
    remaining = count[:, None] - np.arange(u.shape[1])
    present = remaining > 0
    log_fraction = np.cumsum(np.log(u) / np.where(present, remaining, 1), axis=1)
    tokens = -ndtri(np.clip(-np.expm1(log_fraction) * tail_probability, 1e-300, 1.0 - 1e-16))
    return np.where(present, tokens, -np.inf)


@lru_cache(maxsize=16)
def token_draws(length: int, sparsity: int, points: int, every_token: bool = False) -> TokenDraws:
    """Draws for bags of `length` tokens; the same arguments always give the same numbers.

    `every_token`: draw all noise tokens one by one, however many.
    """
    others = length - sparsity
    explicit = every_token or others <= EXPLICIT_TOKENS
    tail_probability = 1.0 if explicit else TAIL_TOKENS / others
    width = others if explicit else int(TAIL_TOKENS + 6 * np.sqrt(TAIL_TOKENS))
    ceiling = np.inf if explicit else float(-ndtri(tail_probability))
    parts = []
    seeds = np.random.SeedSequence([_ROOT_SEED, length, sparsity, points]).spawn(REPLICATES)
    for seed in seeds:
        rng = np.random.Generator(np.random.SFC64(seed))
        if explicit:
            u = _uniforms(rng, points, 1 + length)
            noise = _largest_first(u[:, 1 + sparsity :], np.full(points, others), 1.0)
            signal = ndtri(u[:, 1 : 1 + sparsity])
            parts.append((signal, noise, np.zeros(points), np.zeros((points, 3)), u[:, 0]))
            continue
        u = _uniforms(rng, points, 5 + sparsity + width)
        count = np.minimum(binom.ppf(u[:, 1], others, tail_probability), width).astype(int)
        normals, signal = ndtri(u[:, 2:5]), ndtri(u[:, 5 : 5 + sparsity])
        noise = _largest_first(u[:, 5 + sparsity :], count, tail_probability)
        parts.append((signal, noise, (others - count).astype(float), normals, u[:, 0]))
    signal, noise, bulk, normals, offset = (np.stack(arrays) for arrays in zip(*parts))
    return TokenDraws(signal, noise, bulk, normals, offset, ceiling)


@lru_cache(maxsize=64)
def truncated_normal_rule(ceiling: float, nodes: int = 160) -> tuple[np.ndarray, np.ndarray]:
    """Gauss-Legendre nodes and weights of the standard normal conditioned to lie below `ceiling`."""
    x, w = np.polynomial.legendre.leggauss(nodes)
    low = -9.0
    t = low + 0.5 * (ceiling - low) * (x + 1)
    density = np.exp(-0.5 * t**2) / np.sqrt(2 * np.pi)
    weights = 0.5 * (ceiling - low) * w * density
    return t, weights / ndtr(ceiling)

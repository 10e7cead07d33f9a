"""What one would write with NumPy and SciPy in place of `theory.bayes_limit`: state evolution, then the likelihood ratio test.

    m = x/(1 + x),  x = alpha pi theta^2 M(theta^2 m),  M(s) = E[sum_l v_l P(v_l = 1 | sqrt(s) v + noise)],

iterated from m near 0 and from m = 1 until nothing changes. With two tokens, one of them a signal, M and the test error are
integrals over one normal number, by the trapezoidal rule; with more tokens both are averages over 2^log2 scrambled Sobol points
of the tokens, the sum over the places of the signal written out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy.special import expit, ndtr, ndtri
from scipy.stats import qmc

_GRID = np.linspace(-9.0, 9.0, 721)
_NORMAL = np.exp(-0.5 * _GRID**2) / np.sqrt(2 * np.pi) * (_GRID[1] - _GRID[0])


@dataclass(frozen=True)
class PlainLimit:
    """Squared cosine and test error of the fixed points reached from m = 1 and from m = 0."""

    overlap: float
    test_error: float
    reachable_overlap: float


def bayes_limit(
    length: int, sparsity: int, strength: float, prevalence: float, alpha: float, log2: int = 14, seed: int = 0
) -> PlainLimit:
    """The fixed points, and the best possible test error where they are one (no hard phase)."""
    gain = alpha * prevalence * strength**2
    if (length, sparsity) == (2, 1):
        mass, error = _two_token_mass, _two_token_error
    else:
        tokens = _Tokens(length, sparsity, log2, seed)
        mass, error = tokens.mass, tokens.error
    low = _iterated(mass, gain, strength, 1e-3)
    high = _iterated(mass, gain, strength, 1.0)
    return PlainLimit(high, error(strength * np.sqrt(high), prevalence), low)


def _iterated(mass: Callable[[float], float], gain: float, strength: float, m: float) -> float:
    for _ in range(1000):
        x = gain * mass(strength * np.sqrt(m))
        new = x / (1 + x)
        if abs(new - m) < 1e-9 * new:
            break
        m = new
    return float(new)


def _two_token_mass(u: float) -> float:
    """The tokens' difference is all that matters: N(u, 2)."""
    return float(expit(u * (u + np.sqrt(2.0) * _GRID)) @ _NORMAL)


def _two_token_error(u: float, prevalence: float) -> float:
    """E[min(pi LR, 1 - pi)] without signal: given the second token, a threshold on the first, and normal integrals."""
    bound = 2 * (1 - prevalence) / prevalence * np.exp(0.5 * u * u)
    second = np.exp(u * _GRID)
    with np.errstate(divide="ignore"):
        threshold = np.log(np.maximum(bound - second, 0.0)) / u
    ratio = 0.5 * (ndtr(threshold - u) + second * np.exp(-0.5 * u * u) * ndtr(threshold))
    return float((prevalence * ratio + (1 - prevalence) * ndtr(-threshold)) @ _NORMAL)


class _Tokens:
    """Tokens of bags without signal, (points, L), and the places that a signal may have."""

    def __init__(self, length: int, sparsity: int, log2: int, seed: int):
        u = qmc.Sobol(length, scramble=True, rng=np.random.default_rng(seed)).random_base2(log2)
        self.noise, self.sparsity = ndtri(np.clip(u, 1e-16, 1 - 1e-16)), sparsity
        self.places = np.array(list(combinations(range(length), sparsity)))
        self.first = (self.places == 0).any(axis=1)

    def _weights(self, tokens: np.ndarray, u: float) -> np.ndarray:
        """exp(u sum of tokens) over the places, (points, places)."""
        return np.exp(u * tokens[:, self.places].sum(axis=2))

    def mass(self, u: float) -> float:
        tokens = self.noise.copy()
        tokens[:, : self.sparsity] += u
        weights = self._weights(tokens, u)
        return float(self.sparsity * np.mean(weights[:, self.first].sum(axis=1) / weights.sum(axis=1)))

    def error(self, u: float, prevalence: float) -> float:
        """P(wrong) = E[min(pi LR, 1 - pi)] over bags without signal."""
        ratio = self._weights(self.noise, u).mean(axis=1) * np.exp(-0.5 * self.sparsity * u * u)
        return float(np.mean(np.minimum(prevalence * ratio, 1 - prevalence)))

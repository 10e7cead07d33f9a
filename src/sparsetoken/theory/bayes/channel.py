"""The channel that hides the places of the signal tokens: v in {0,1}^L with exactly R ones, seen through sqrt(s) v + noise.

With root = sqrt(s) and t_l the tokens' coordinates (root v_l + N(0, 1)), a subset of places has posterior weight proportional
to the product of x_l = exp(root t_l) over it. Two numbers of this channel decide what can be learnt of the signal:

    M(s) = E[sum_l v_l P(v_l = 1 | t)]                       the posterior mass on the true places, from R^2/L to R
    I(s) = R s - E[log mean over R-subsets of prod x_l]      its mutual information, I' = (R - M)/2

For one signal token both are exact one-dimensional integrals at any length: adding independent Gumbel numbers G_l to
root t_l turns posterior weights into P(token l has the largest sum) and the log of the sum of exponentials into the mean of
that largest sum. For several signal tokens bags are drawn, and the sums over subsets are exact for each draw (`subset_sums`),
but for the bins in which tokens of long bags with many signal tokens are counted.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from functools import lru_cache

import numpy as np

from ...laws.draws import FAR, REPLICATES, TokenDraws, kept_with_draws, token_draws
from .subset_sums import SUBSET_STEPS, BinnedBags, chosen_one_by_one, drawn_bags, few_signal_tokens

_HERMITE = np.polynomial.hermite_e.hermegauss(40)  # for roots up to 1: exact to 1e-13 there
ROUGH = 8  # one bag in this many is enough to find the neighbourhood of a fixed point


class Channel(ABC):
    """M and I of the channel for given L and R. The draws are the same at every root, so both are smooth functions of it."""

    exact = False  # whether M is free of sampling error

    def __init__(self, length: int, sparsity: int):
        self.length, self.sparsity = length, sparsity
        self.least, self.most = sparsity**2 / length, float(sparsity)  # M at s = 0, and where nothing is hidden

    @abstractmethod
    def mass(self, root: float) -> np.ndarray:
        """M at s = root^2, one value per replicate (a single one where it is exact)."""

    def rough_mass(self, root: float) -> float:
        """M from fewer draws, to find the neighbourhood of a fixed point."""
        return float(self.mass(root).mean())

    @abstractmethod
    def information(self, root: float) -> float:
        """I at s = root^2."""


def clear_of_noise(length: int) -> float:
    """The root from which signal tokens stand nine deviations above the largest of `length` noise tokens: nothing is hidden."""
    return (2 * math.log(length)) ** 0.5 + FAR


class _WholeBag(Channel):
    """R = L: nothing is hidden."""

    exact = True

    def mass(self, root: float) -> np.ndarray:
        return np.array([float(self.sparsity)])

    def information(self, root: float) -> float:
        return 0.0


class _OneToken(Channel):
    """R = 1: the law of the largest of L independent sums root t_l + G_l, on a grid."""

    exact = True

    def __init__(self, length: int, sparsity: int = 1):
        super().__init__(length, sparsity)
        self._mass = lru_cache(maxsize=4096)(self._exact_mass)

    def _grid(self, root: float) -> tuple[np.ndarray, float]:
        """Places z of the largest sum, relative to the signal's mean root^2, and their spacing."""
        # The Gumbel law is analytic in a strip of half-width pi/2: errors of the trapezoidal rule are about exp(-pi^2/step).
        step = 0.25 if root > 1 else 0.2
        noise_top = np.log(self.length) + 0.5 * root**2 if root < 3 else root * (2 * np.log(self.length)) ** 0.5 + 6.0
        # The law's right tail exp(-z) is below rounding from 38 on.
        top = max(FAR * root, noise_top - root**2) + 38.0
        return np.arange(-FAR * root - 5.0, top + step, step), step

    def _smoothed(self, function, root: float, z: np.ndarray, step: float) -> np.ndarray:
        """E[function(z - root g)], g standard normal."""
        if root <= 1:
            nodes, weights = _HERMITE
            return function(z[:, None] - root * nodes) @ (weights / weights.sum())
        half = int(np.ceil(FAR * root / step))
        y = step * np.arange(-half, half + 1)
        weights = np.exp(-0.5 * (y / root) ** 2)
        values = function(z[0] - y[-1] + step * np.arange(len(z) + 2 * half))
        return np.convolve(values, weights / weights.sum(), mode="valid")

    def _laws(self, root: float):
        """Grid, spacing, the signal's density there and log distribution functions of one noise and of the signal's sum."""
        z, step = self._grid(root)
        with np.errstate(over="ignore", under="ignore"):

            def above(x):
                return -np.expm1(-np.exp(-x))

            def density(x):
                return np.exp(-x - np.exp(-x))

            noise_above = self._smoothed(above, root, z + root**2, step)
            signal_above = self._smoothed(above, root, z, step)
            signal_density = self._smoothed(density, root, z, step)
        with np.errstate(divide="ignore"):
            log_noise = np.log1p(-np.minimum(noise_above, 1.0))
            log_signal = np.log1p(-np.minimum(signal_above, 1.0))
        return z, step, signal_density, log_noise, log_signal

    def _exact_mass(self, root: float) -> float:
        if self.length == 1 or root == 0:
            return 1.0 / self.length
        if root > clear_of_noise(self.length):
            return 1.0
        _, step, density, log_noise, _ = self._laws(root)
        return float(min(step * (density * np.exp((self.length - 1) * log_noise)).sum(), 1.0))

    def mass(self, root: float) -> np.ndarray:
        return np.array([self._mass(float(root))])

    def information(self, root: float) -> float:
        if root == 0 or self.length == 1:
            return 0.0
        if root > clear_of_noise(self.length):
            return float(np.log(self.length))
        z, step, _, log_noise, log_signal = self._laws(root)
        below = np.exp((self.length - 1) * log_noise + log_signal)
        # Mean of the largest sum: the trapezoidal rule for 1{z > 0} - H(z) is exact to rounding on this smooth law when the
        # reference point lies midway between two nodes.
        reference = z[len(z) // 2] + 0.5 * step
        largest = root**2 + reference + step * ((z > reference) - below).sum()
        return float(root**2 - (largest - np.euler_gamma - np.log(self.length)))


class _DrawnBags(Channel):
    """R > 1: drawn bags, in independent replicates; by counts of tokens in bins where many signal tokens are in long bags."""

    def __init__(self, length: int, sparsity: int):
        super().__init__(length, sparsity)
        self._kept: tuple[float, np.ndarray, float] | None = None
        self._binned: BinnedBags | None = None
        if not chosen_one_by_one(length, sparsity):
            self._binned = _binned_bags(length, sparsity)

    def mass(self, root: float) -> np.ndarray:
        return self._at(root)[1]

    def information(self, root: float) -> float:
        return self._at(root)[2]

    def _at(self, root: float) -> tuple[float, np.ndarray, float]:
        if self._kept is None or self._kept[0] != root:
            self._kept = (root, *self._computed(root))
        return self._kept

    def rough_mass(self, root: float) -> float:
        return float(self._computed(root, ROUGH)[0].mean())

    def _computed(self, root: float, part: int = 1) -> tuple[np.ndarray, float]:
        """M per replicate and I, from the first of every `part` bags."""
        R = self.sparsity
        if root == 0:  # nothing is seen: every token is a member with probability R/L
            return np.full(REPLICATES, R**2 / self.length), 0.0
        if self._binned is not None:
            log_mean, squares, along = self._binned.subsets(root, root, part)
            return squares.mean(1), float((along - log_mean).mean())
        draws = _tokens(self.length, R, drawn_bags(self.length, R))
        if part > 1:
            draws = draws.first(draws.signals.tokens.shape[1] // part)
        signal = draws.signals.tokens + root
        log_mean, first = few_signal_tokens(draws, signal, root)
        return R * first.mean(1), float((root * signal.sum(-1) - log_mean).mean())


_binned_bags = kept_with_draws(4)(BinnedBags)


def _tokens(length: int, sparsity: int, bags: int) -> TokenDraws:
    """Drawn bags for the recursion; the power sums of a bulk are for few signal tokens."""
    return token_draws(length, sparsity, bags, every_token=sparsity > SUBSET_STEPS)


def drawn_log_ratios(
    length: int, sparsity: int, roots: tuple[float, ...], shift: float, bags: int
) -> tuple[np.ndarray, np.ndarray | None]:
    """Log likelihood ratios of drawn bags, signal against none, at every root, and where all are drawn their mean tokens."""
    L, R = length, sparsity
    if R < L and not chosen_one_by_one(L, R):
        binned = _binned_bags(L, R)
        ratios = np.stack([binned.subsets(root, shift)[0] - 0.5 * R * root**2 for root in roots])
        return ratios, binned.mean_token(shift)
    if R == L:  # the sum of the tokens is sufficient
        total = R * shift + R**0.5 * token_draws(1, 1, bags).signals.tokens[..., 0]
        return np.stack([root * total - 0.5 * R * root**2 for root in roots]), total / L
    draws = _tokens(L, R, bags if R == 1 else min(bags, drawn_bags(L, R)))
    signal = draws.signals.tokens + shift
    ratios = np.stack([few_signal_tokens(draws, signal, root)[0] - 0.5 * R * root**2 for root in roots])
    return ratios, None if draws.others.has_bulk else (signal.sum(-1) + draws.others.tokens.sum(-1)) / L


@kept_with_draws(16)
def channel(length: int, sparsity: int) -> Channel:
    """The channel for bags of `length` tokens of which exactly `sparsity` carry the signal; made once."""
    if sparsity == length:
        return _WholeBag(length, sparsity)
    return _OneToken(length, sparsity) if sparsity == 1 else _DrawnBags(length, sparsity)

"""Random numbers behind the sampled laws: independent randomisations of the tokens' Gaussian coordinates.

A law of L tokens is drawn as `REPLICATES` independent randomisations of `points` draws each, so that every average has a
standard error. A bag is drawn as two groups of tokens, those that carry the signal in a positive bag and the others. In a
group the tokens come in decreasing order: a softmax depends on the largest ones most, and quasi-random points, spent on the
leading coordinates of both groups in turn, then integrate it far better than tokens in no order. Of a group of more than
`EXPLICIT_TOKENS` tokens only the largest are drawn one by one: sums over the others, its bulk, are Gaussian to high
accuracy given their number, with exact conditional mean and covariance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import lru_cache, wraps
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri
from scipy.stats import binom, qmc

from .._core.arrays import ByteCache, namespace
from .._core.validation import whole_number

REPLICATES = 16  # their scatter gives the standard error to about 20 %, enough to choose a sample size
EXPLICIT_TOKENS = 384  # beyond, the bulk's sums hold hundreds of tokens and are Gaussian to within the error bars
TAIL_TOKENS = 128  # expected number of tokens of a group drawn one by one when there are more than EXPLICIT_TOKENS
POINTS = 1024  # draws per replicate where no accuracy is given
FAR = 9.0  # deviations: beyond lies 1e-19 of the normal law
LEAST_POINTS = 16  # of the rarest kind of bags: enough for an error that counts with a small probability only
NUMBERS_AT_A_TIME = 1 << 22  # most numbers held at a time where draws are processed in pieces: 32 MB
# Leading coordinates that are Sobol points where tokens come in decreasing order: integrands are nearly additive in the others,
# and Sobol points slow.
LEADING_COORDINATES = 48
# Beyond this many coordinates Sobol points are no more even, in pairs, than plain random numbers.
MOST_COORDINATES = 1024
CACHE_BYTES = 128 * 2**20  # draws kept for the next law of the same shape
_BLOCK_POINTS = 4096  # draws made at a time: 50 MB of the widest bags, 768 tokens one by one
_NO_ZERO, _NO_ONE = 1e-16, 1 - 1e-16  # uniforms are kept away from 0 and 1, where the normal quantile is infinite
_redraw: ContextVar[int] = ContextVar("redraw", default=0)


@contextmanager
def redrawn(seed: int) -> Iterator[None]:
    """Within this context all sampled limits are computed on other random numbers, to check their error bars.

    It applies to every function of `theory` in this process; 0 gives the usual numbers.

    Parameters
    ----------
    seed : int
        Which random numbers.
    """
    before = _redraw.set(whole_number("seed", seed, 0))
    try:
        yield
    finally:
        _redraw.reset(before)


def seed_of(*key: int) -> np.random.SeedSequence:
    """The seed for a key: always the same one, except under `redrawn`."""
    return np.random.SeedSequence(key, spawn_key=(_redraw.get(),) if _redraw.get() else ())


def kept_with_draws(maxsize: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """`lru_cache` of a function of random numbers, with separate entries under `redrawn`."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        kept = lru_cache(maxsize)(lambda redraw, *arguments: function(*arguments))
        return wraps(function)(lambda *arguments: kept(_redraw.get(), *arguments))

    return decorate


def scrambled_sobol(dimension: int, count: int, rng: np.random.Generator) -> np.ndarray:
    """The first points of one scramble of the sequence, (dimension, count)."""
    return _further_points(qmc.Sobol(dimension, rng=rng), count)


def _further_points(sobol: qmc.Sobol, count: int) -> np.ndarray:
    """The next points of a sequence; SciPy warns where the first ones are not a power of two."""
    return sobol.random(1 << (count - 1).bit_length())[:count].T


def standard_normals(uniform: np.ndarray) -> np.ndarray:
    """Standard normals from uniforms in [0, 1], finite at the ends too."""
    return ndtri(np.clip(uniform, _NO_ZERO, _NO_ONE))


def with_shared_part(values: Any, rho: Any) -> Any:
    """A V for values (..., L, n) of a bag's L tokens: A^2 = (1 - rho) I + rho 11^T is their covariance (NumPy or JAX)."""
    xp = namespace(values, rho)
    independent, length = xp.sqrt(1.0 - rho), values.shape[-2]
    spread = independent * values + (xp.sqrt(1.0 - rho + rho * length) - independent) * values.mean(-2, keepdims=True)
    return spread.astype(values.dtype)


@dataclass(frozen=True, eq=False)
class TokenGroup:
    """Standard normal coordinates, along the query, of one kind of a bag's tokens."""

    tokens: Any
    bulk: Any
    normals: Any
    ceiling: float = np.inf

    @property
    def has_bulk(self) -> bool:
        """Whether some of the tokens are not drawn one by one."""
        return bool(np.isfinite(self.ceiling))

    def leaves(self) -> tuple:
        """The arrays, in the order of the fields."""
        return (self.tokens, self.bulk, self.normals)


@dataclass(frozen=True, eq=False)
class TokenDraws:
    """Drawn bags: the tokens that carry the signal in a positive bag, the noise tokens, and the quadrature's shifts."""

    signals: TokenGroup
    others: TokenGroup
    offset: Any
    common: Any = None

    def first(self, count: int) -> TokenDraws:
        """The first `count` draws of every replicate (a low-discrepancy sequence stays balanced when cut short)."""
        signals, others = (
            replace(g, tokens=g.tokens[:, :count], bulk=g.bulk[:, :count], normals=g.normals[:, :count])
            for g in (self.signals, self.others)
        )
        return TokenDraws(
            signals, others, self.offset[:, :count], None if self.common is None else self.common[:, :count]
        )

    def leaves(self) -> tuple:
        """All arrays, in the order of the fields."""
        common = () if self.common is None else (self.common,)
        return (*self.signals.leaves(), *self.others.leaves(), self.offset, *common)


@dataclass(frozen=True)
class _Plan:
    """Which coordinates of a uniform point make a group of `size` tokens."""

    size: int
    explicit: bool
    ordered: bool

    @property
    def tail_probability(self) -> float:
        """Probability that a token is drawn one by one."""
        return 1.0 if self.explicit else TAIL_TOKENS / self.size

    @property
    def ceiling(self) -> float:
        return np.inf if self.explicit else float(-ndtri(self.tail_probability))

    @property
    def width(self) -> int:
        """Places for tokens drawn one by one: six deviations above the expected number where that is random."""
        return self.size if self.explicit else int(TAIL_TOKENS + 6 * np.sqrt(TAIL_TOKENS))

    @property
    def further(self) -> int:
        """Uniforms besides those of the tokens: the number in the tail, and three for the bulk's sums."""
        return 0 if self.explicit else 4

    def group(self, uniforms: np.ndarray, further: slice, places: Any) -> TokenGroup:
        """The group of tokens made from some coordinates of `uniforms` (replicates, coordinates, points); a token's points stay
        contiguous in memory, so that sums over tokens add long rows."""
        replicates, _, points = uniforms.shape
        if self.explicit:
            values = np.empty((replicates, self.width, points))
            for into, coordinates in zip(values, uniforms):  # one replicate fits the cache
                if self.ordered:
                    _all_largest_first(coordinates[places], into)
                else:
                    ndtri(coordinates[places], out=into)
            return TokenGroup(values.swapaxes(1, 2), np.zeros((replicates, points)), np.zeros((replicates, points, 3)))
        beside = uniforms[:, further]
        count = np.minimum(binom.ppf(beside[:, 0], self.size, self.tail_probability), self.width).astype(int)
        values = _largest_first(uniforms[:, places].swapaxes(1, 2), count, self.tail_probability)
        bulk = (self.size - count).astype(float)
        return TokenGroup(values, bulk, ndtri(beside[:, 1:]).swapaxes(1, 2), self.ceiling)


def _largest_first(u: np.ndarray, count: np.ndarray, tail_probability: float) -> np.ndarray:
    """Standard normals above the tail's edge in falling order, `count` per row and -inf after them: the j-th largest of m
    uniforms is the (j-1)-th times V^(1/(m-j+1))."""
    remaining = count[..., None] - np.arange(u.shape[-1])
    present = remaining > 0
    log_fraction = np.cumsum(np.log(u) / np.where(present, remaining, 1), axis=-1)
    tokens = -ndtri(np.clip(-np.expm1(log_fraction) * tail_probability, 1e-300, _NO_ONE))
    return np.where(present, tokens, -np.inf)


def _all_largest_first(u: np.ndarray, values: np.ndarray) -> None:
    """`_largest_first` of all tokens of a group, (tokens, points), into `values`, with exp for expm1, three times as fast: near
    1 the fraction is as exact as the uniforms."""
    np.log(u, out=values)
    values /= np.arange(len(values), 0, -1)[:, None]
    for j in range(1, len(values)):
        values[j] += values[j - 1]
    np.exp(values, out=values)
    ndtri(np.clip(values, 1e-300, _NO_ONE, out=values), out=values)


def _blocks(
    signals: _Plan,
    others: _Plan,
    points: int,
    seeds: Sequence[np.random.SeedSequence],
    block: int,
    common: bool = False,
) -> Iterator[TokenDraws]:
    """The draws of replicates, `block` of their points at a time: scrambled Sobol points in the leading coordinates,
    independent ones in the others."""
    generators = [np.random.Generator(np.random.SFC64(seed)) for seed in seeds]
    reserved = 1 + common
    head = reserved + others.further + signals.further
    dimension = head + signals.width + others.width
    leading = min(dimension, LEADING_COORDINATES)
    sequences = [qmc.Sobol(leading, rng=rng) for rng in generators]
    signal_places, other_places = _places(signals, others, head)
    for first in range(0, points, block):
        count = min(block, points - first)
        u = np.empty((len(generators), dimension, count))
        for rng, sobol, coordinates in zip(generators, sequences, u):
            coordinates[:leading] = _further_points(sobol, count)
            coordinates[leading:] = rng.random((count, dimension - leading)).T
        np.clip(u, _NO_ZERO, _NO_ONE, out=u)
        split = reserved + others.further
        yield TokenDraws(
            signals.group(u, slice(split, head), signal_places),
            others.group(u, slice(reserved, split), other_places),
            u[:, 0].copy(),
            ndtri(u[:, 1]) if common else None,
        )


def _places(signals: _Plan, others: _Plan, head: int) -> tuple[Any, Any]:
    """Coordinates of the tokens of both groups: alternating where both are in falling order, because leading coordinates are
    the best spread; signal tokens first where they are in no order."""
    R, K = signals.width, others.width
    if not signals.ordered:
        return slice(head, head + R), slice(head + R, head + R + K)
    both = min(R, K)
    signal = np.concatenate([2 * np.arange(both), 2 * both + np.arange(R - both)])
    other = np.concatenate([2 * np.arange(both) + 1, 2 * both + np.arange(K - both)])
    return head + signal, head + other


def _plans(length: int, sparsity: int, ordered: bool, every_token: bool) -> tuple[_Plan, _Plan]:
    """Plans of the signal and of the noise tokens."""

    def few(size):
        return every_token or size <= EXPLICIT_TOKENS

    signals = _Plan(sparsity, few(sparsity) or not ordered, ordered)
    return signals, _Plan(length - sparsity, few(length - sparsity), True)


def draw_blocks(length: int, sparsity: int, points: int, common: bool = False) -> Iterator[Iterator[TokenDraws]]:
    """The draws of `token_draws` with both groups in falling order, a piece at a time: none is ever held as a whole."""
    plans = _plans(length, sparsity, True, False)
    for seed in _seeds(length, sparsity, points):
        yield _blocks(*plans, points, [seed], _BLOCK_POINTS, common)


def _seeds(length: int, sparsity: int, points: int) -> list[np.random.SeedSequence]:
    return seed_of(20250925, length, sparsity, points).spawn(REPLICATES)


def bytes_of_draws(length: int, sparsity: int, points: int) -> int:
    """Memory that `token_draws(length, sparsity, points, ordered=True)` takes."""
    plans = _plans(length, sparsity, True, False)
    return 8 * REPLICATES * points * (1 + sum(plan.width + 4 for plan in plans))


def token_draws(
    length: int, sparsity: int, points: int, every_token: bool = False, *, ordered: bool = False, common: bool = False
) -> TokenDraws:
    """Draws for bags of `length` tokens; the same arguments always give the same numbers (except under `redrawn`),
    read-only."""
    ordered = ordered or sparsity == 1  # a single token is always in order: one entry of the cache for both

    def make() -> TokenDraws:
        plans = _plans(length, sparsity, ordered, every_token)
        draws = next(_blocks(*plans, points, _seeds(length, sparsity, points), points, common))
        for array in draws.leaves():
            array.flags.writeable = False
        return draws

    return _cache.get((length, sparsity, points, every_token, ordered, common, seed_of().spawn_key), make)


def forget_draws() -> None:
    """Empty the cache of draws."""
    _cache.clear()


_cache = ByteCache(CACHE_BYTES, lambda draws: sum(array.nbytes for array in draws.leaves()))


@lru_cache(maxsize=64)
def truncated_normal_rule(ceiling: float) -> tuple[np.ndarray, np.ndarray]:
    """Gauss-Legendre nodes and weights of the standard normal conditioned to lie below `ceiling`."""
    x, w = np.polynomial.legendre.leggauss(160)
    low = -FAR
    t = low + 0.5 * (ceiling - low) * (x + 1)
    density = np.exp(-0.5 * t**2) / np.sqrt(2 * np.pi)
    weights = 0.5 * (ceiling - low) * w * density
    return t, weights / ndtr(ceiling)

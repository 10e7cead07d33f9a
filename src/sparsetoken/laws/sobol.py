"""Scrambled Sobol points: the numbers of `scipy.stats.qmc.Sobol(dimension, scramble=True, rng=rng)`, several scrambles at once.

Point i is the exclusive or of direction numbers, one for every bit of i's Gray code, and of a random shift. The random linear
scramble multiplies the digits of the direction numbers, modulo 2, by random lower triangular matrices. A few thousand points
need a dozen direction numbers, and most of SciPy's time goes into the others and into copies of its generators.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache, wraps
from typing import Any

import numpy as np
from scipy.stats import qmc

from .._core.validation import whole_number

BITS = 30  # binary digits of a coordinate, SciPy's default
# Leading coordinates that are Sobol points where tokens come in decreasing order: integrands are nearly additive in the others,
# and Sobol points slow.
LEADING_COORDINATES = 48
# Beyond this many coordinates Sobol points are no more even, in pairs, than plain random numbers.
MOST_COORDINATES = 1024
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


class ScrambledSobol:
    """Independent scrambles of the sequence."""

    def __init__(self, dimension: int, points: int, generators: Sequence[np.random.Generator]):
        children = [rng.spawn(1)[0] for rng in generators]
        shifts = np.array([rng.integers(2, size=(dimension, BITS), dtype=np.uint32) for rng in children])
        matrices = np.array([rng.integers(2, size=(dimension, BITS, BITS), dtype=np.uint32) for rng in children])
        digits = _directions(dimension, max(1, (points - 1).bit_length())).astype(float)
        sums = matrices * np.tri(BITS, k=-1) @ digits + digits  # ones on the diagonal
        mixed = sums - 2.0 * np.floor(0.5 * sums)  # modulo 2
        powers = 2.0 ** np.arange(BITS - 1, -1, -1)  # of the digits, the leading one first
        self._shift = (shifts @ powers[::-1]).astype(np.uint32)
        self._directions = (powers @ mixed).astype(np.uint32)

    def points(self, first: int, count: int) -> np.ndarray:
        """Points `first` to `first` + `count` - 1, in [0, 1)."""
        bits = np.empty((*self._shift.shape, count), dtype=np.uint32)
        bits[..., 0] = self._shift
        gray = first ^ (first >> 1)  # Gray codes are linear: that of first + i is that of first with that of i
        for j in range(gray.bit_length()):
            if gray >> j & 1:
                bits[..., 0] ^= self._directions[..., j]
        for j in range(count.bit_length() - 1):
            # The second half's Gray codes are those of the first half, backwards, with one more digit.
            size = 1 << j
            np.bitwise_xor(bits[..., :size][..., ::-1], self._directions[..., j, None], out=bits[..., size : 2 * size])
        return bits * 2.0**-BITS


def scrambled_sobol(dimension: int, count: int, rng: np.random.Generator) -> np.ndarray:
    """The first points of one scramble."""
    return ScrambledSobol(dimension, count, [rng]).points(0, count)[0]


@lru_cache(maxsize=64)  # of some megabytes at most: a byte per digit
def _directions(dimension: int, count: int) -> np.ndarray:
    """Binary digits of the first direction numbers, (dimension, BITS, count): neighbouring points differ by one of them."""
    plain = qmc.Sobol(dimension, scramble=False, bits=BITS)
    numbers = np.empty((dimension, count), dtype=np.int64)
    for j in range(count):
        plain.reset()
        if j:
            plain.fast_forward((1 << j) - 1)
        before, after = (plain.random(2) * 2.0**BITS).astype(np.int64)
        numbers[:, j] = before ^ after
    return (numbers[:, None, :] >> np.arange(BITS - 1, -1, -1)[:, None] & 1).astype(np.uint8)

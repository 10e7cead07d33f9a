"""The definition: bags of L x d tokens, drawn in full and streamed.

Tokens come in blocks of a fixed number of bags, whatever chunk size is asked for, and sums go block by block: results
do not depend on the chunk size by a single bit, and memory stays bounded whatever the number of bags.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..._core.validation import whole_number
from ...activations import token_weights
from ...distributions import Distribution
from ...task import Task
from .drawn_bags import draw_bags, plain_bags
from .streams import check_seed, stream

# Numbers in a block of bags (16 MB), and in a data set that is kept rather than drawn again on every pass (512 MB).
BLOCK_NUMBERS = 2**21
KEPT_NUMBERS = 2**26


def draw_signal(seed: int, d: int) -> np.ndarray:
    """xi: a uniformly random unit vector."""
    direction = stream(seed, "signal").standard_normal(d)
    return direction / np.linalg.norm(direction)


class TensorData:
    """A data set of n labelled bags that can be walked through any number of times; bags of one length come together.

    Parameters
    ----------
    task : Task
        What the bags are.
    count : int
        n.
    d : int
        Dimension of a token.
    seed : int
        Of the trial.
    dataset : str
        "0", "1", ":k" (the k-th of a trajectory) or "_test": which of the trial's data sets.
    chunk : int, optional
        Bags drawn at a time, by default what fits 16 MB; it changes memory and speed, never the numbers.
    noise : callable, optional
        Draws other than white Gaussian tokens: (generator, first bag, last bag) -> tokens.
    signal : ndarray (d,), optional
        xi, a random direction when not given.
    labels : ndarray (n,), optional
        Instead of random ones.
    """

    def __init__(
        self,
        task: Task,
        count: int,
        d: int,
        seed: int,
        dataset: str,
        chunk: int | None = None,
        noise: Callable[[np.random.Generator, int, int], np.ndarray] | None = None,
        signal: np.ndarray | None = None,
        labels: np.ndarray | None = None,
    ):
        self.task, self.count, self.d, self.seed, self.dataset, self.noise = task, count, d, seed, dataset, noise
        self.signal = draw_signal(seed, d) if signal is None else signal
        drawn = draw_bags(task, count, seed, dataset) if labels is None else plain_bags(task, labels)
        self.bags = drawn.in_order_of_length()
        self.labels, self.truth = self.bags.labels, self.bags.truth
        self.carriers = self.bags.places(stream(seed, f"places{dataset}"))
        self.chunk = None if chunk is None else whole_number("chunk", chunk, 1)
        self._kept: list[np.ndarray] | None = None

    def _drawn(self) -> Iterator[np.ndarray]:
        """Blocks of tokens (m, L, d), drawn afresh."""
        rng, rho = stream(self.seed, f"tokens{self.dataset}"), self.task.correlation
        shared = stream(self.seed, f"shared{self.dataset}") if rho else None
        order = np.argsort(self.carriers[0], kind="stable")
        bags, places, strength = (column[order] for column in self.carriers)
        for group, length in self.bags.by_length():
            block = max(1, min(64, BLOCK_NUMBERS // (length * self.d)))
            step = block * (1 if self.chunk is None else -(-self.chunk // block))
            for first in range(group.start, group.stop, step):
                last = min(first + step, group.stop)
                tokens = self._noise(rng, first, last, length, block)
                if shared is not None:
                    tokens *= (1.0 - rho) ** 0.5
                    tokens += rho**0.5 * shared.standard_normal((last - first, 1, self.d))
                mine = slice(*np.searchsorted(bags, (first, last)))
                tokens[bags[mine] - first, places[mine]] += strength[mine, None] * self.signal
                for start in range(0, last - first, block):
                    yield tokens[start : start + block]

    def _noise(self, rng: np.random.Generator, first: int, last: int, length: int, block: int) -> np.ndarray:
        """Tokens' own noise. Other noise than Gaussian comes block by block, whatever the size of a chunk."""
        if self.noise is None:
            return rng.standard_normal((last - first, length, self.d))
        starts = range(first, last, block)
        return np.concatenate([self.noise(rng, start, min(start + block, last)) for start in starts])

    def blocks(self) -> Iterator[tuple[slice, np.ndarray]]:
        """(which bags, their tokens), in order. Small data sets are kept after the first pass."""
        if self._kept is None and int(self.bags.lengths.sum()) * self.d <= KEPT_NUMBERS:
            self._kept = list(self._drawn())
        first = 0
        for tokens in self._drawn() if self._kept is None else self._kept:
            yield slice(first, first + len(tokens)), tokens
            first += len(tokens)

    def means(self) -> np.ndarray:
        """Pooled features (n, d)."""
        return self._collect(lambda tokens: tokens.mean(axis=1), self.d)

    def flattened(self) -> np.ndarray:
        """All tokens of a bag in a row (n, L d), for bags of one length."""
        return self._collect(lambda tokens: tokens.reshape(len(tokens), -1), self.task.longest * self.d)

    def attended(self, query: np.ndarray, activation: Callable[[Any], Any] | None) -> np.ndarray:
        """sum_l p_l x_l (n, d); `query` is beta q, `activation` None for softmax."""

        def feature(tokens: np.ndarray) -> np.ndarray:
            weights = token_weights(tokens @ query, activation)
            return np.matmul(weights[:, None, :], tokens)[:, 0, :]

        return self._collect(feature, self.d)

    def _collect(self, feature: Callable[[np.ndarray], np.ndarray], width: int) -> np.ndarray:
        out = np.empty((self.count, width))
        for which, tokens in self.blocks():
            out[which] = feature(tokens)
        return out


def sample_bags(task: Task, count: int, d: int, seed: int) -> tuple[Any, np.ndarray, np.ndarray]:
    """Bags in full.

    Parameters
    ----------
    task : Task
        What the bags are.
    count : int
        How many.
    d : int
        Dimension of a token.
    seed : int
        All randomness comes from it.

    Returns
    -------
    tuple of ndarray
        Tokens (count, L, d), labels (-1 or +1; with label noise, as seen) and the signal direction xi (d,). Bags of
        several lengths are a list of arrays (L_i, d), shorter bags first.
    """
    count, d, seed = whole_number("count", count, 1), whole_number("d", d, 1), check_seed(seed)
    data = TensorData(task, count, d, seed, "_test")
    if isinstance(task.length, Distribution):
        return [bag for _, tokens in data.blocks() for bag in tokens], data.labels, data.signal
    return data.flattened().reshape(count, task.length, d), data.labels, data.signal

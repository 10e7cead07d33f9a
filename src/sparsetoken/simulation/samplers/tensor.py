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
from ...laws.positions import draw_places
from ...task import Task
from .labels import draw_labels
from .streams import check_seed, stream

# Numbers in a block of bags (16 MB), and in a data set that is kept rather than drawn again on every pass (512 MB).
BLOCK_NUMBERS = 2**21
KEPT_NUMBERS = 2**26


def draw_signal(seed: int, d: int) -> np.ndarray:
    """xi: a uniformly random unit vector."""
    direction = stream(seed, "signal").standard_normal(d)
    return direction / np.linalg.norm(direction)


class TensorData:
    """A data set of n labelled bags that can be walked through any number of times.

    dataset   "0", "1", ":k" (the k-th of a trajectory) or "_test": which of the trial's data sets
    chunk     bags drawn at a time (default: what fits 16 MB); it changes memory and speed, never the numbers
    noise     draws other than white Gaussian tokens: (generator, first bag, last bag) -> tokens
    signal    xi, a random direction when not given
    labels    instead of random ones
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
        self.labels = draw_labels(task, count, seed, dataset) if labels is None else labels
        self.places = draw_places(stream(seed, f"places{dataset}"), task, count)
        self.block = max(1, min(64, BLOCK_NUMBERS // (task.length * d)))
        wanted = self.block if chunk is None else whole_number("chunk", chunk, 1)
        self.blocks_a_chunk = -(-wanted // self.block)
        self._kept: list[np.ndarray] | None = None

    def _drawn(self) -> Iterator[np.ndarray]:
        """Blocks of tokens (m, L, d), drawn afresh."""
        task, rng = self.task, stream(self.seed, f"tokens{self.dataset}")
        step = self.block * self.blocks_a_chunk
        for first in range(0, self.count, step):
            last = min(first + step, self.count)
            tokens = self._noise(rng, first, last)
            bags = np.flatnonzero(self.labels[first:last] > 0)
            tokens[bags[:, None], self.places[first:last][bags]] += task.strength * self.signal
            for start in range(0, last - first, self.block):
                yield tokens[start : start + self.block]

    def _noise(self, rng: np.random.Generator, first: int, last: int) -> np.ndarray:
        """Tokens without the signal. Other noise than Gaussian comes block by block, whatever the size of a chunk."""
        if self.noise is None:
            return rng.standard_normal((last - first, self.task.length, self.d))
        starts = range(first, last, self.block)
        return np.concatenate([self.noise(rng, start, min(start + self.block, last)) for start in starts])

    def blocks(self) -> Iterator[tuple[slice, np.ndarray]]:
        """(which bags, their tokens), in order. Small data sets are kept after the first pass."""
        if self._kept is None and self.count * self.task.length * self.d <= KEPT_NUMBERS:
            self._kept = list(self._drawn())
        first = 0
        for tokens in self._drawn() if self._kept is None else self._kept:
            yield slice(first, first + len(tokens)), tokens
            first += len(tokens)

    def means(self) -> np.ndarray:
        """Pooled features (n, d)."""
        return self._collect(lambda tokens: tokens.mean(axis=1), self.d)

    def flattened(self) -> np.ndarray:
        """All tokens of a bag in a row (n, L d)."""
        return self._collect(lambda tokens: tokens.reshape(len(tokens), -1), self.task.length * self.d)

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


def sample_bags(task: Task, count: int, d: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
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
        Tokens (count, L, d), labels (-1 or +1) and the signal direction xi (d,).
    """
    count, d, seed = whole_number("count", count, 1), whole_number("d", d, 1), check_seed(seed)
    data = TensorData(task, count, d, seed, "_test")
    return data.flattened().reshape(count, task.length, d), data.labels, data.signal

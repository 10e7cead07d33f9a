"""The definition: bags of L x d tokens, drawn in full and streamed.

Tokens come in blocks of a fixed number of bags, and sums go block by block: memory stays bounded whatever the number of bags.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..._core.validation import whole_number
from ...distributions import Distribution
from ...laws.signals import Signals
from ...task import Task
from ..seeds import check_seed, stream
from .drawn_bags import draw_bags, plain_bags

# Numbers in a block of bags (16 MB), and in a data set that is kept rather than drawn again on every pass (512 MB).
BLOCK_NUMBERS = 2**21
KEPT_NUMBERS = 2**26


def draw_signal(seed: int, d: int) -> np.ndarray:
    """xi: a uniformly random unit vector."""
    direction = stream(seed, "signal").standard_normal(d)
    return direction / np.linalg.norm(direction)


def draw_directions(signals: Signals, seed: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Several signals (J, d) in a random place, and the orthonormal basis (d, dimension) that their coordinates refer to."""
    size = signals.directions.shape[1]
    if d <= size:
        raise ValueError(f"d must be larger than the number of the signals' coordinates ({size}), got {d}")
    basis, _ = np.linalg.qr(stream(seed, "signal").standard_normal((d, size)))
    return signals.directions @ basis.T, basis


class TensorData:
    """A data set of n labelled bags that can be iterated over any number of times, grouped by length.

    `signal` is the direction xi (d,), or those of several `signals` (J, d), which sit in the first R tokens.
    """

    def __init__(
        self,
        task: Task,
        count: int,
        d: int,
        seed: int,
        dataset: str,
        noise: Callable[[np.random.Generator, int, int], np.ndarray] | None = None,
        signal: np.ndarray | None = None,
        labels: np.ndarray | None = None,
        signals: Signals | None = None,
    ):
        self.task, self.count, self.d, self.seed, self.dataset, self.noise = task, count, d, seed, dataset, noise
        self.directions = np.atleast_2d(draw_signal(seed, d) if signal is None else signal)
        self.signal = self.directions[0]
        drawn = draw_bags(task, count, seed, dataset) if labels is None else plain_bags(task, labels)
        self.bags = drawn.in_order_of_length()
        self.labels, self.truth = self.bags.labels, self.bags.truth
        rng = stream(seed, f"places{dataset}")
        if signals is None:
            self.carriers, self._carried = self.bags.places(rng), None
        else:
            self.carriers, self._carried = self._places_of_several(signals, rng)
        self._kept: list[np.ndarray] | None = None

    def _places_of_several(self, signals: Signals, rng: np.random.Generator) -> tuple[Any, np.ndarray]:
        """(bag, token, strength) of every signal token, and which of the signals it carries."""
        _, sparsity, strength, _ = self.task.only_kind("several signals")
        positive = np.flatnonzero(self.labels > 0)
        carried = signals.carriers(rng.random(len(positive)), sparsity, rng).ravel()
        bags, places = np.repeat(positive, sparsity), np.tile(np.arange(sparsity), len(positive))
        return (bags, places, np.full(len(bags), strength)), carried

    def _drawn(self) -> Iterator[np.ndarray]:
        """Blocks of tokens (m, L, d), drawn afresh."""
        rng, rho = stream(self.seed, f"tokens{self.dataset}"), self.task.correlation
        shared = stream(self.seed, f"shared{self.dataset}") if rho else None
        order = np.argsort(self.carriers[0], kind="stable")
        bags, places, strength = (column[order] for column in self.carriers)
        carried = None if self._carried is None else self._carried[order]
        for group, length in self.bags.by_length():
            block = max(1, min(64, BLOCK_NUMBERS // (length * self.d)))
            for first in range(group.start, group.stop, block):
                last = min(first + block, group.stop)
                if self.noise is None:
                    tokens = rng.standard_normal((last - first, length, self.d))
                else:
                    tokens = self.noise(rng, first, last)
                if shared is not None:
                    tokens *= (1.0 - rho) ** 0.5
                    tokens += rho**0.5 * shared.standard_normal((last - first, 1, self.d))
                mine = slice(*np.searchsorted(bags, (first, last)))
                directions = self.signal if carried is None else self.directions[carried[mine]]
                tokens[bags[mine] - first, places[mine]] += strength[mine, None] * directions
                yield tokens

    def blocks(self) -> Iterator[tuple[slice, np.ndarray]]:
        """(which bags, their tokens), in order. Small data sets are kept after the first pass."""
        if self._kept is None and int(self.bags.lengths.sum()) * self.d <= KEPT_NUMBERS:
            self._kept = list(self._drawn())
        first = 0
        for tokens in self._drawn() if self._kept is None else self._kept:
            yield slice(first, first + len(tokens)), tokens
            first += len(tokens)

    def collect(self, feature: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """A function of blocks of tokens (m, L, d), evaluated for every bag."""
        out = None
        for which, tokens in self.blocks():
            part = feature(tokens)
            if out is None:
                out = np.empty((self.count, *part.shape[1:]))
            out[which] = part
        assert out is not None
        return out

    def fields(self, theta: np.ndarray) -> list[np.ndarray]:
        """X Theta for directions (d, r): (n, L, r) for the bags of each length."""
        parts: dict[int, list[np.ndarray]] = {}
        for _, tokens in self.blocks():
            parts.setdefault(tokens.shape[1], []).append(tokens @ theta)
        return [np.concatenate(blocks) for blocks in parts.values()]

    def pull(self, weights: list[np.ndarray]) -> np.ndarray:
        """sum_i X_i^T W_i for weights (n, L, r) of the bags of each length: (d, r)."""
        total = np.zeros((self.d, weights[0].shape[2]))
        groups = {length: (group.start, part) for (group, length), part in zip(self.bags.by_length(), weights)}
        for which, tokens in self.blocks():
            start, part = groups[tokens.shape[1]]
            mine = part[which.start - start : which.stop - start]
            total += tokens.reshape(-1, self.d).T @ mine.reshape(-1, mine.shape[2])
        return total


def sample_bags(task: Task, count: int, d: int, seed: int) -> tuple[Any, np.ndarray, np.ndarray]:
    """Bags in full."""
    count, d, seed = whole_number("count", count, 1), whole_number("d", d, 1), check_seed(seed)
    data = TensorData(task, count, d, seed, "_test")
    if isinstance(task.length, Distribution):
        return [bag for _, tokens in data.blocks() for bag in tokens], data.labels, data.signal
    return data.collect(lambda tokens: tokens), data.labels, data.signal

"""Bags in full with several signals, drawn token by token and streamed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...laws.signals import Signals
from ...task import Task
from .drawn_bags import draw_bags
from .streams import stream
from .tensor import BLOCK_NUMBERS


class SignalBags:
    """A data set of labelled bags whose positive ones carry one or more of several signals, in their first R tokens.

    Parameters
    ----------
    task : Task
        What the bags are; alike but for their signals.
    signals : Signals
        Which of them a bag carries.
    directions : ndarray (J, d)
        The signals in the coordinates of the tokens.
    count : int
        Bags.
    seed : int
        Of the trial.
    dataset : str
        "0" or "1": which of the trial's data sets.
    """

    def __init__(
        self, task: Task, signals: Signals, directions: np.ndarray, count: int, seed: int, dataset: str
    ) -> None:
        self.length, self.sparsity, self.strength, _ = task.only_kind("several signals")
        self.count, self.d, self.seed, self.dataset = count, directions.shape[1], seed, dataset
        self.directions, self.signal = directions, directions[0]
        self.labels = draw_bags(task, count, seed, dataset).labels
        self.positive = np.flatnonzero(self.labels > 0)
        rng = stream(seed, f"places{dataset}")
        self.carried = signals.carriers(rng.random(len(self.positive)), self.sparsity, rng)

    def blocks(self) -> Iterator[tuple[slice, np.ndarray]]:
        """(which bags, their tokens), in order; the same tokens in every pass."""
        rng = stream(self.seed, f"tokens{self.dataset}")
        step = max(1, min(64, BLOCK_NUMBERS // (self.length * self.d)))
        for first in range(0, self.count, step):
            last = min(first + step, self.count)
            tokens = rng.standard_normal((last - first, self.length, self.d))
            mine = slice(*np.searchsorted(self.positive, (first, last)))
            tokens[self.positive[mine] - first, : self.sparsity] += self.strength * self.directions[self.carried[mine]]
            yield slice(first, last), tokens


def draw_directions(signals: Signals, seed: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """The signals (J, d) in a random place, and the orthonormal basis (d, dimension) that their coordinates refer to."""
    size = signals.directions.shape[1]
    if d <= size:
        raise ValueError(f"d must be larger than the number of the signals' coordinates ({size}), got {d}")
    basis, _ = np.linalg.qr(stream(seed, "signal").standard_normal((d, size)))
    return signals.directions @ basis.T, basis

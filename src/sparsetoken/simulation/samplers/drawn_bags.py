"""What each bag of a data set is, before its tokens: label, signal or none, and which of the task's kinds; sample sizes, and
what is too large to simulate."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from ..._core.validation import LARGEST_RATIO, real_number, rejection, whole_number
from ...laws.signals import draw_places
from ...task import BagKind, Task
from ..seeds import check_seed, stream

SAMPLERS = ("reduced", "tensor")
MOST_TOKENS = 10**11  # in all bags together: drawing them takes about an hour


@dataclass(frozen=True, eq=False)
class DrawnBags:
    """The bags of a data set without their tokens, arrays over bags."""

    task: Task
    labels: np.ndarray
    truth: np.ndarray
    carries: np.ndarray
    kind: np.ndarray

    def __len__(self) -> int:
        return len(self.labels)

    @cached_property
    def lengths(self) -> np.ndarray:
        """L of every bag."""
        return self._of_kind([kind.length for kind in self.task.kinds])

    @cached_property
    def mean_shift(self) -> np.ndarray:
        """What the signal adds to a bag's mean token along xi, theta R/L; 0 without signal."""
        return self.carries * self._of_kind([kind.strength * kind.sparsity / kind.length for kind in self.task.kinds])

    @cached_property
    def mean_scale(self) -> np.ndarray:
        """Deviation of a mean token's noise, sqrt(rho + (1 - rho)/L)."""
        rho = self.task.correlation
        return self._of_kind([(rho + (1.0 - rho) / kind.length) ** 0.5 for kind in self.task.kinds])

    def _of_kind(self, values: list) -> np.ndarray:
        if len(values) == 1:
            return np.full(len(self), values[0])
        return np.array(values)[self.kind]

    def by_kind(self) -> Iterator[tuple[np.ndarray | slice, BagKind]]:
        """(which bags, their kind) for every kind that occurs."""
        if len(self.task.kinds) == 1:
            yield slice(None), self.task.kinds[0]
            return
        for k, kind in enumerate(self.task.kinds):
            rows = np.flatnonzero(self.kind == k)
            if len(rows):
                yield rows, kind

    def in_order_of_length(self) -> DrawnBags:
        """The same bags, those of one length next to each other."""
        if len({kind.length for kind in self.task.kinds}) == 1:
            return self
        order = np.argsort(self.lengths, kind="stable")
        return DrawnBags(self.task, self.labels[order], self.truth[order], self.carries[order], self.kind[order])

    def by_length(self) -> list[tuple[slice, int]]:
        """(which bags, their length) of bags that are in order of length."""
        if not len(self):
            return []
        edges = [0, *(np.flatnonzero(np.diff(self.lengths)) + 1).tolist(), len(self)]
        return [(slice(a, b), int(self.lengths[a])) for a, b in pairwise(edges)]

    def places(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Where the signal is: (bag, token, strength) of every signal token.

        Places are drawn for all bags, so that the places in one bag do not depend on which others carry a signal.
        """
        bags, tokens, sizes = [], [], []
        for rows, kind in self.by_kind():
            index = np.arange(len(self))[rows]
            places = draw_places(rng, self.task.single(kind), len(index))
            mine = self.carries[index]
            bags.append(np.repeat(index[mine], kind.sparsity))
            tokens.append(places[mine].ravel())
            sizes.append(np.full(int(mine.sum()) * kind.sparsity, kind.strength))
        if not bags:
            return np.empty(0, dtype=np.intp), np.empty(0, dtype=np.intp), np.empty(0)
        return np.concatenate(bags), np.concatenate(tokens), np.concatenate(sizes)


def plain_bags(task: Task, labels: np.ndarray) -> DrawnBags:
    """Bags of a plain task with these labels."""
    return DrawnBags(task, labels, labels, labels > 0, np.zeros(len(labels), dtype=np.intp))


def draw_bags(task: Task, count: int, seed: int, dataset: str) -> DrawnBags:
    """`count` bags without their tokens; `dataset` as in `draw_truth`. A single class to learn from is an error."""
    truth = draw_truth(task, count, seed, dataset)
    if task.differing is None:
        check_classes(truth, dataset, task)
        return plain_bags(task, truth)
    rng = stream(seed, "kinds" + dataset)
    # One uniform number for each decision about every bag, needed or not, so that no decision changes another.
    flips, contaminations, which = rng.random((3, count))
    labels = np.where(flips < task.label_noise, -truth, truth)
    check_classes(labels, dataset, task)
    edges = np.cumsum([kind.probability for kind in task.kinds])[:-1]
    kind = np.searchsorted(edges, which, side="right")
    return DrawnBags(task, labels, truth, (truth > 0) | (contaminations < task.contamination), kind)


def sample_count(name: str, alpha: float, d: int) -> int:
    """n = alpha d, rounded; `name` (alpha0, alpha1) is for the message."""
    count = round(real_number(name, alpha, 0.0, 2 * LARGEST_RATIO) * d)
    if count < 2:
        raise ValueError(f"{name} = {alpha:g} gives {count} samples at d = {d}, at least 2 are needed")
    return count


def draw_truth(task: Task, count: int, seed: int, dataset: str) -> np.ndarray:
    """`count` true labels, P(+1) = prevalence; `dataset` is "0", "1", ":k" (the k-th of a trajectory) or "_test"."""
    return np.where(stream(seed, f"labels{dataset}").random(count) < task.prevalence, 1.0, -1.0)


class OneClassError(ValueError):
    """A drawn data set to learn from holds a single class."""


def check_classes(labels: np.ndarray, dataset: str, task: Task) -> None:
    """Raise OneClassError if a data set to learn from holds a single class."""
    if dataset != "_test" and abs(labels.sum()) == len(labels):
        name = f"data set {dataset[1:]}" if dataset.startswith(":") else f"D{dataset}"
        sign = "positive" if labels[0] > 0 else "negative"
        raise OneClassError(
            f"{name} holds only {sign} samples ({len(labels)} of them, prevalence {task.prevalence:g}): "
            "take more samples, another prevalence or another seed"
        )


def check_size(d: Any, seed: Any, sampler: str) -> tuple[int, int]:
    """(d, seed), checked along with the sampler's name."""
    if sampler not in SAMPLERS:
        raise rejection("sampler", sampler, f"one of {', '.join(SAMPLERS)}")
    return whole_number("d", d, 2, 10**12), check_seed(seed)


def check_affordable(bags: int, length: int, d: int, numbers: float, drawn: int | None = None) -> None:
    """Refuse bags that would take more memory than is free, or hours to draw.

    `numbers` is what is held at once, `drawn` the number of bags whose tokens are drawn one by one (all by default).
    """
    free, size = available_memory(), 8.0 * numbers
    if size > free:
        raise ValueError(
            f"{bags:,} bags of {length:,} tokens are too many to simulate in dimension {d:,}: about {1e-9 * size:,.3g} GB "
            f"would be held, and {1e-9 * free:,.3g} GB are free; take a smaller d, fewer samples or shorter bags"
        )
    if (bags if drawn is None else drawn) * length > MOST_TOKENS:
        raise ValueError(
            f"{bags:,} bags of {length:,} tokens are too many to simulate: all bags together may have {MOST_TOKENS:,} tokens"
        )


def available_memory() -> float:
    """Bytes available without swapping (all memory where the system does not report it); infinite where neither is known."""
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            kilobytes = dict(line.split(":") for line in lines)["MemAvailable"]
        return 1024.0 * int(kilobytes.split()[0])
    except (OSError, KeyError, ValueError):
        pass
    try:
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, OSError, ValueError):
        return float("inf")

"""Where the signal tokens sit: drawing places, and the law of the subset they form."""

from __future__ import annotations

import math
from itertools import combinations, permutations

import numpy as np

from ..task import Task

# Subsets are listed one by one up to this many, and sampled beyond.
MOST_LISTED_SUBSETS = 5000


def draw_places(rng: np.random.Generator, task: Task, count: int) -> np.ndarray:
    """(count, R) indices of the signal tokens of `count` positive bags."""
    (length, sparsity, *_), positions = task.only_kind("drawing places"), task.positions
    if positions.kind == "fixed":
        places = positions.places or tuple(range(sparsity))
        return np.tile(np.array(places, dtype=np.intp), (count, 1))
    if positions.kind == "block":
        first = (rng.random(count) * length).astype(np.intp)
        return (first[:, None] + np.arange(sparsity)) % length
    # A race: token l arrives after an exponential time of rate weight_l, and the first R win. Equal rates give a
    # uniform subset, unequal ones successive draws without replacement.
    arrival = rng.standard_exponential((count, length))
    if positions.weights is not None:
        weights = np.array(positions.weights)
        with np.errstate(divide="ignore"):
            arrival = np.where(weights > 0, arrival / np.where(weights > 0, weights, 1.0), np.inf)
    if sparsity == length:
        return np.tile(np.arange(length), (count, 1))
    return np.argpartition(arrival, sparsity - 1, axis=1)[:, :sparsity]


def subset_law(task: Task) -> tuple[np.ndarray, np.ndarray] | None:
    """All possible (subsets (m, R), probabilities (m,)); None when they are too many to list."""
    (length, sparsity, *_), positions = task.only_kind("drawing places"), task.positions
    if positions.kind == "fixed":
        return np.array([positions.places or tuple(range(sparsity))], dtype=np.intp), np.ones(1)
    if positions.kind == "block":
        subsets = (np.arange(length)[:, None] + np.arange(sparsity)) % length
        return subsets, np.full(length, 1.0 / length)
    count = math.comb(length, sparsity)
    if positions.weights is None:
        if count > MOST_LISTED_SUBSETS:
            return None
        return np.array(list(combinations(range(length), sparsity)), dtype=np.intp), np.full(count, 1.0 / count)
    if math.perm(length, sparsity) > MOST_LISTED_SUBSETS:
        return None
    weights = np.array(positions.weights) / sum(positions.weights)
    probability: dict[tuple[int, ...], float] = {}
    for order in permutations(np.flatnonzero(weights).tolist(), sparsity):
        chance, left = 1.0, 1.0
        for place in order:
            chance *= weights[place] / left
            left -= weights[place]
        subset = tuple(sorted(order))
        probability[subset] = probability.get(subset, 0.0) + chance
    return np.array(list(probability), dtype=np.intp), np.array(list(probability.values()))

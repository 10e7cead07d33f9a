"""Signal tokens of a positive bag: where they sit, and in tasks with several signals, which of them they carry."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, permutations
from typing import Any

import numpy as np
from scipy.special import gammaln, xlogy

from .._core.validation import check_real, rejection, whole_number
from ..task import Task

CARRIED = ("one", "independent", "all")
_MOST_CONTENTS = 20_000  # ways in which the signal tokens of a bag may share the signals
MOST_LISTED_SUBSETS = 5000  # places of the signal tokens that are listed one by one; beyond, they are sampled


def real_array(name: str, value: Any, dimensions: int | None = None) -> np.ndarray:
    """`value` as an array of finite real numbers (2: a matrix with entries), or a ValueError naming the field."""
    check_real(name, value)
    requirement = f"{name} must be {'a matrix' if dimensions == 2 else 'an array'} of finite numbers"
    try:
        array = np.array(value, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(requirement) from None
    if not np.isfinite(array).all() or (dimensions is not None and (array.ndim != dimensions or 0 in array.shape)):
        raise ValueError(f"{requirement}, got shape {array.shape}")
    return array


@dataclass(frozen=True, eq=False)
class Signals:
    """Several signals; made by `Signals.of`.

    Attributes
    ----------
    directions : ndarray (J, dimension)
        Unit vectors xi_j, in an orthonormal basis of a space that holds them.
    shares, carried
        As in `Signals.of`.
    """

    directions: np.ndarray
    shares: np.ndarray
    carried: str = "one"

    @classmethod
    def of(cls, signals: Any, shares: Any = None, carried: str = "one") -> Signals:
        """Signals from their number or their directions.

        Parameters
        ----------
        signals : Signals, int or array (J, dimension)
            The number of signals, orthogonal to each other, or unit vectors.
        shares : array (J,), optional
            How often signal j is carried, probabilities; equal when not given.
        carried : {"one", "independent", "all"}
            Which signals a positive bag carries. "one": a single one, drawn by the shares, in all its R signal tokens.
            "independent": every signal token draws its own. "all": all of them, the R signal tokens in turn (R at least J;
            the shares do not count).
        """
        if isinstance(signals, Signals):
            return signals
        if np.ndim(signals) == 0:
            signals = np.eye(whole_number("signals", signals, 1))
        directions = real_array("signals", signals, 2)
        if not np.allclose(np.linalg.norm(directions, axis=1), 1.0, atol=1e-9):
            raise ValueError("signals must be unit vectors")
        count = len(directions)
        probabilities = np.full(count, 1.0 / count) if shares is None else np.array(shares, dtype=float)
        if probabilities.shape != (count,) or (probabilities < 0).any() or not np.isclose(probabilities.sum(), 1.0):
            raise ValueError(f"shares must be {count} probabilities that sum to 1, got {probabilities}")
        if carried not in CARRIED:
            raise rejection("carried", carried, f"one of {', '.join(CARRIED)}")
        return cls(directions, probabilities, carried)

    def __len__(self) -> int:
        return len(self.directions)

    def check(self, sparsity: int) -> None:
        """Raise ValueError where bags have too few signal tokens to carry what they should."""
        if self.carried == "all" and sparsity < len(self):
            raise ValueError(f"carried 'all' needs a sparsity of at least the number of signals ({len(self)})")

    def carriers(self, uniform: np.ndarray, sparsity: int, rng: np.random.Generator) -> np.ndarray:
        """Which signal each of the R signal tokens carries (bags, R); `uniform` (bags,) chooses where there is one per bag."""
        shape = (len(uniform), sparsity)
        if self.carried == "all":
            return np.broadcast_to(np.arange(sparsity) % len(self), shape)
        draws = np.broadcast_to(uniform[:, None], shape) if self.carried == "one" else rng.random(shape)
        return np.searchsorted(np.cumsum(self.shares)[:-1], draws, side="right")

    def contents(self, sparsity: int) -> Iterator[tuple[np.ndarray, float]]:
        """How many of the R signal tokens of a positive bag carry each signal (J,), with the probability of each case."""
        J = len(self)
        if self.carried == "all":
            yield np.bincount(np.arange(sparsity) % J, minlength=J).astype(float), 1.0
        elif self.carried == "one":
            for counts, share in zip(sparsity * np.eye(J), self.shares):
                yield counts, float(share)
        else:
            cases = math.comb(sparsity + J - 1, J - 1)
            if cases > _MOST_CONTENTS:
                raise ValueError(
                    f"carried 'independent' is limited to {_MOST_CONTENTS:,} ways to share {sparsity} signal tokens among {J} "
                    f"signals, got {cases:,}"
                )
            for parts in _partitions(sparsity, J):
                counted = parts.astype(float)
                log_ways = gammaln(sparsity + 1.0) - gammaln(counted + 1.0).sum()
                yield counted, float(np.exp(log_ways + xlogy(counted, self.shares).sum()))


def _partitions(total: int, parts: int) -> Iterator[np.ndarray]:
    """All rows of `parts` whole numbers that add up to `total`: the gaps between bars among stars."""
    for bars in combinations(range(total + parts - 1), parts - 1):
        yield np.diff([-1, *bars, total + parts - 1]) - 1


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

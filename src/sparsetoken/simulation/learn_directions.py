"""Directions learnt from drawn data without a readout: labelled means, products with the labelled second moment, eigenvectors.

`theory.recovery` at finite d. With p the share of positive bags in the data, a_i = 1 - p for them and -p for the others:

    w1 = sum_i a_i xbar_i,   M = sum_i a_i X_i^T P X_i,   P = I - 11^T/L

Without tokens, exact in law at any length: with rr = R(1 - R/L), the positive bags' sum of X_i^T P X_i is y y^T plus a Wishart
matrix of n+ (L-1) - 1 degrees of freedom, y = theta sqrt(n+ rr) xi + N(0, I_d), the negative bags' sum is a Wishart matrix of
n- (L-1), and w1 is independent of both. A Wishart matrix is B B^T with a triangular B (Bartlett): O(d^2) numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh

from .._core.validation import rejection
from ..results import NOT_PLAIN, Result
from ..task import BagKind, Task
from ..training import MOST_PRODUCTS, number_of_products
from .samplers.drawn_bags import check_affordable, check_size, draw_bags, sample_count
from .samplers.reduced import draw_bulk
from .samplers.tensor import TensorData, draw_signal
from .seeds import stream

METHODS = ("products:0", "products:1", "products:2", "products:3", "eigenvector", "positive_eigenvector")


@dataclass(frozen=True, kw_only=True, repr=False)
class LearntDirections(Result):
    """Directions learnt from one drawn data set.

    Attributes
    ----------
    n : int
        Bags of the data set (of each of them with fresh bags).
    cosine : mapping
        Method -> cosine of its direction with xi; of eigenvectors, which have no sign, its absolute value.
    directions : mapping
        Method -> the direction, of length one; eigenvectors on the side of the labelled mean.
    signal : ndarray
        xi.
    """

    n: int
    cosine: Mapping[str, float]
    directions: Mapping[str, np.ndarray] = field(compare=False, metadata=NOT_PLAIN)
    signal: np.ndarray = field(compare=False, metadata=NOT_PLAIN)

    def _words(self) -> str:
        return f"{self.n} bags, cosines: " + ", ".join(f"{m} {c:.4f}" for m, c in self.cosine.items())


class SecondMoments(NamedTuple):
    """The labelled mean of a data set, and roots B of the two classes' second moments B B^T."""

    mean: np.ndarray
    positive: np.ndarray
    negative: np.ndarray
    share: float

    def product(self, v: np.ndarray) -> np.ndarray:
        """M v."""
        positive, negative = (root @ (v @ root) for root in (self.positive, self.negative))
        return (1 - self.share) * positive - self.share * negative

    def direction(self, method: str) -> np.ndarray:
        """The unit vector that a method without fresh bags learns."""
        return _direction(method, lambda k: self)

    def top(self, positive_only: bool) -> np.ndarray:
        """The top eigenvector of M, or of the positive bags' second moment, on the side of the labelled mean."""
        matrix = self.positive @ self.positive.T
        if not positive_only:
            matrix = (1 - self.share) * matrix - self.share * (self.negative @ self.negative.T)
        last = len(matrix) - 1
        vector = eigh(matrix, subset_by_index=[last, last])[1][:, 0]
        return vector if vector @ self.mean >= 0 else -vector


def _kind(task: Task) -> BagKind:
    """The task's one kind of bags, of two tokens or more."""
    kind = task.only_kind("products with the labelled second moment")
    if kind.length < 2:
        raise rejection("length", kind.length, "at least 2: one token has no second moment about its mean")
    return kind


def draw_moments(task: Task, n: int, d: int, seed: int, dataset: str) -> SecondMoments:
    """Mean and roots of a data set without its tokens; xi is the first axis."""
    L, R, theta, _ = _kind(task)
    labels = draw_bags(task, n, seed, dataset).labels
    positive = int((labels > 0).sum())
    share, rng = positive / n, stream(seed, f"steps{dataset if dataset.startswith(':') else ''}")
    mean = np.sqrt(n * share * (1 - share) / L) * rng.standard_normal(d)
    mean[0] += theta * R / L * positive * (1 - share)
    y = rng.standard_normal(d)
    y[0] += theta * np.sqrt(positive * R * (1 - R / L))
    rest = draw_bulk(rng, d, positive * (L - 1) - 1)
    return SecondMoments(mean, np.column_stack([y, rest]), draw_bulk(rng, d, (n - positive) * (L - 1)), share)


def moments_of(data: TensorData) -> SecondMoments:
    """The same of bags in full."""
    _kind(data.task)
    tokens, means = data.collect(lambda t: t - t.mean(axis=1, keepdims=True)), data.collect(lambda t: t.mean(axis=1))
    positive = data.labels > 0
    share = float(positive.mean())
    first, second = (tokens[which].reshape(-1, data.d).T for which in (positive, ~positive))
    return SecondMoments((positive - share) @ means, first, second, share)


def learn_directions(
    task: Task, alpha: float, d: int, seed: int, methods: Sequence[str] = METHODS, sampler: str = "reduced"
) -> LearntDirections:
    """Directions that several methods learn from the same n = alpha d bags.

    Parameters
    ----------
    task : Task
        What the data is: bags that are alike, of two tokens or more.
    alpha : float
        n/d.
    d, seed : int
        Dimension of a token, and where all randomness comes from.
    methods : sequence of str
        "products:K", "fresh_products:K" (every product after the first on n new bags), "eigenvector" and
        "positive_eigenvector", as in `theory.recovery`.
    sampler : str
        "reduced" draws O(d^2) numbers at any length, "tensor" every token.
    """
    Task.require(task)
    d, seed = check_size(d, seed, sampler)
    n, length = sample_count("alpha", alpha, d), _kind(task).length
    full = sampler == "tensor"
    check_affordable(n, length, d, 2.0 * n * length * d if full else 4.0 * d * d, drawn=n if full else 0)
    signal = draw_signal(seed, d) if full else np.eye(1, d)[0]

    @cache
    def data_set(k: int) -> SecondMoments:
        name = f":{k}" if k else "0"
        return moments_of(TensorData(task, n, d, seed, name)) if full else draw_moments(task, n, d, seed, name)

    directions = {method: _direction(method, data_set) for method in methods}
    cosine = {method: float(vector @ signal) for method, vector in directions.items()}
    cosine |= {method: abs(value) for method, value in cosine.items() if method.endswith("eigenvector")}
    return LearntDirections(n=n, cosine=cosine, directions=directions, signal=signal)


def _direction(method: str, data_set: Callable[[int], SecondMoments]) -> np.ndarray:
    """The unit vector that a method learns."""
    first = data_set(0)
    if method in ("eigenvector", "positive_eigenvector"):
        return first.top(method == "positive_eigenvector")
    same, fresh = (number_of_products(method, word=word) for word in ("products", "fresh_products"))
    if same is None and fresh is None:
        ways = f"products:K, fresh_products:K (K up to {MOST_PRODUCTS}), eigenvector or positive_eigenvector"
        raise rejection("method", method, ways)
    vector = first.mean / np.linalg.norm(first.mean)
    for k in range(same or fresh or 0):
        vector = (first if fresh is None else data_set(k)).product(vector)
        vector /= np.linalg.norm(vector)
    return vector

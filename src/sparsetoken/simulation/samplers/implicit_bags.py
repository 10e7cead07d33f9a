"""Bags whose tokens are known only through the products that were asked for; exact in law at every d.

X = theta v xi^T + A Z: the signal's part is explicit, the noise Z of all tokens is an `ImplicitGaussian`, and A makes the
tokens of a bag correlated (the identity for most tasks). Unlike the features of `reduced`, such bags may be trained on again
and again. Bags of one length come together, and what is said of bags is said length by length.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...activations import token_weights
from ...laws.draws import with_shared_part
from ...task import Task
from .drawn_bags import draw_bags
from .implicit_gaussian import ImplicitGaussian
from .streams import stream


class ImplicitBags:
    """A data set of n labelled bags.

    Parameters
    ----------
    task : Task
        What the bags are.
    count : int
        How many, n.
    signal : ndarray of shape (d,)
        The unit vector xi.
    seed : int
        Of the trial.
    dataset : str
        Which of the trial's data sets: "0", "1" or ":k" (the k-th of a trajectory). Labels and places of the signal are
        those of the tensor sampler.
    """

    def __init__(self, task: Task, count: int, signal: np.ndarray, seed: int, dataset: str):
        self.bags = draw_bags(task, count, seed, dataset).in_order_of_length()
        self.labels, self.count, self.signal = self.bags.labels, count, signal
        self.rho = task.correlation
        lengths = self.bags.lengths.astype(np.intp)
        starts = np.concatenate([[0], np.cumsum(lengths)])
        rows = int(starts[-1])
        self.groups = [(which, slice(starts[which.start], starts[which.stop]), L) for which, L in self.bags.by_length()]
        bags, places, self.strength = self.bags.places(stream(seed, f"places{dataset}"))
        self.carriers = starts[bags] + places  # rows of Z with the signal
        self.carrying = bags
        self.noise = ImplicitGaussian(rows, len(signal), stream(seed, f"tokens{dataset}"))

    def _spread(self, values: np.ndarray) -> np.ndarray:
        """A V for values (N, r), bag by bag: A^2 = (1 - rho) I + rho 11^T is the covariance of a bag's tokens."""
        if not self.rho:
            return values
        out = np.empty_like(values)
        for _, rows, L in self.groups:
            part = with_shared_part(values[rows].reshape(-1, L, values.shape[1]), self.rho)
            out[rows] = part.reshape(-1, values.shape[1])
        return out

    def fields(self, theta: np.ndarray) -> list[np.ndarray]:
        """X Theta for directions (d, r): (n, L, r) for the bags of each length."""
        fields = self._spread(self.noise.right(theta))
        fields[self.carriers] += self.strength[:, None] * (self.signal @ theta)
        return [fields[rows].reshape(-1, L, theta.shape[1]) for _, rows, L in self.groups]

    def pull(self, weights: list[np.ndarray]) -> np.ndarray:
        """sum_i X_i^T W_i for weights (n, L, r) of the bags of each length: (d, r)."""
        flat = np.concatenate([part.reshape(-1, part.shape[2]) for part in weights])
        along = self.strength @ flat[self.carriers]
        return self.noise.left(self._spread(flat)) + np.outer(self.signal, along)

    def attended(self, query: np.ndarray, activation: Callable[[Any], Any] | None = None) -> np.ndarray:
        """Features sum_l p_l x_l (n, d), `query` being beta q and `activation` None for softmax: the last question.

        They have the law the tokens would give them after all that training has seen of these bags; n d numbers are drawn,
        not n L d.
        """
        weights = [token_weights(part[..., 0], activation) for part in self.fields(query[:, None])]
        flat = np.concatenate([part.ravel() for part in weights])
        features = self.noise.grouped(self._spread(flat[:, None])[:, 0], self.bags.lengths.astype(np.intp))
        shares = np.zeros(self.count)
        np.add.at(shares, self.carrying, self.strength * flat[self.carriers])
        features += np.outer(shares, self.signal)
        return features

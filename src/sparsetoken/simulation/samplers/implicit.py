"""Bags whose tokens are known only through the products that were asked for; exact in law at every d.

X = theta v xi^T + Z: the signal's part is explicit, the noise Z of all tokens is an `ImplicitGaussian`. Unlike the features of
`reduced`, such bags may be trained on again and again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...activations import token_weights
from ...laws.positions import draw_places
from ...task import Task
from .dice import ImplicitGaussian
from .labels import draw_labels
from .streams import stream


class ImplicitBags:
    """A data set of n labelled bags of L tokens.

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
        self.labels = draw_labels(task, count, seed, dataset)
        places = draw_places(stream(seed, f"places{dataset}"), task, count)
        positive = np.flatnonzero(self.labels > 0)
        self.count, self.length, self.signal, self.strength = count, task.length, signal, task.strength
        self.carriers = (positive[:, None] * task.length + places[positive]).ravel()  # rows of Z with the signal
        self.noise = ImplicitGaussian(count * task.length, len(signal), stream(seed, f"tokens{dataset}"))

    def fields(self, theta: np.ndarray) -> np.ndarray:
        """X Theta for directions (d, r): (n, L, r)."""
        fields = self.noise.right(theta)
        fields[self.carriers] += self.strength * (self.signal @ theta)
        return fields.reshape(self.count, self.length, -1)

    def pull(self, weights: np.ndarray) -> np.ndarray:
        """sum_i X_i^T W_i for weights (n, L, r): (d, r)."""
        weights = weights.reshape(self.count * self.length, -1)
        return self.noise.left(weights) + self.strength * np.outer(self.signal, weights[self.carriers].sum(axis=0))

    def attended(self, query: np.ndarray, activation: Callable[[Any], Any] | None = None) -> np.ndarray:
        """Features sum_l p_l x_l (n, d), `query` being beta q and `activation` None for softmax: the last question.

        They have the law the tokens would give them after all that training has seen of these bags; n d numbers are drawn,
        not n L d.
        """
        weights = token_weights(self.fields(query[:, None])[..., 0], activation)
        features = self.noise.grouped(weights)
        shares = np.zeros(self.count)
        np.add.at(shares, self.carriers // self.length, weights.ravel()[self.carriers])
        features += self.strength * np.outer(shares, self.signal)
        return features

"""What turns a bag into the feature of its readout, as far as the reduced sampler and the closed forms need to know it.

The readout's *special* directions are those along which features are more than isotropic noise: xi for pooling, xi at each
token for the vectorized classifier, qhat and u (the part of xi orthogonal to the query) for attention.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..models import SIMULATED, check_model
from ..task import Task
from .measures import Measures, attention_measures, pooled_measures, vectorized_measures
from .samplers import reduced
from .samplers.drawn_bags import DrawnBags


@dataclass(frozen=True)
class Mechanism:
    """A classifier's way from bag to feature.

    Attributes
    ----------
    model : str
        "attention", "elementwise", "pooled", "vectorized", or the name of a mechanism of the user's own.
    cosine : float
        gamma, the query's cosine with xi (models with a query).
    sharpness : float
        k = beta ||q|| (models with a query).
    activation : callable, optional
        sigma of the elementwise model, or the `Weighting` of a mechanism of the user's own.
    """

    model: str
    cosine: float = 1.0
    sharpness: float = 0.0
    activation: Callable[[Any], Any] | None = None

    def __post_init__(self) -> None:
        check_model(self.model, SIMULATED)

    def special_count(self, task: Task) -> int:
        """How many special directions there are: the leading coordinates of reduced features."""
        return {"pooled": 1, "vectorized": task.longest}.get(self.model, 2)

    def check(self, task: Task) -> None:
        """Raise ValueError if the classifier cannot be used on the bags of a task."""
        if self.model == "vectorized":
            task.require_plain("the vectorized classifier, which has weights for every token", "length")
            task.require_plain("the vectorized classifier, whose features would have two noise levels", "correlation")

    def draw(self, bags: DrawnBags, d: int, seed: int) -> np.ndarray:
        """Reduced features of bags, exact in law; the special coordinates come first."""
        self.check(bags.task)
        if self.model == "pooled":
            return reduced.draw_pooled(bags, d, seed)
        if self.model == "vectorized":
            return reduced.draw_flattened(bags, d, seed)
        return reduced.draw_attended(bags, d, seed, self.cosine, self.sharpness, self.activation)

    def draw_leading(self, bags: DrawnBags, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """The special coordinates (n, m) of reduced features, and the scale (n,) of the isotropic rest, for a device."""
        if self.model == "pooled":
            return reduced.draw_pooled_leading(bags, seed)
        return reduced.draw_attended_leading(bags, seed, self.cosine, self.sharpness, self.activation)[:2]

    def coordinates(self, task: Task, special: np.ndarray) -> tuple[float, float]:
        """(m_q, m_u) of a readout from its special coordinates.

        The vectorized model's qhat is xi at every token. Where qhat is xi itself (without a query, or with one that
        vanishes) nothing is left for u.
        """
        if self.model == "vectorized":
            return float(special.sum()) / math.sqrt(task.longest), 0.0
        if self.model == "pooled" or abs(self.cosine) == 1.0:
            return float(special[0]), 0.0
        return float(special[0]), float(special[1])

    def measures(self, task: Task, special: np.ndarray, norm: float, bias: float, rng: np.random.Generator) -> Measures:
        """Test error and its relatives of a readout.

        Parameters
        ----------
        task : Task
            What the data is.
        special : ndarray
            Coordinates of the readout along the special directions.
        norm, bias : float
            ||w|| and b.
        rng : numpy.random.Generator
            For the integration points where the formula needs some.

        Returns
        -------
        Measures
        """
        if self.model == "pooled":
            return pooled_measures(task, float(special[0]), norm, bias)
        if self.model == "vectorized":
            return vectorized_measures(task, special, norm, bias, rng)
        along, across = map(float, special)
        return attention_measures(task, self.cosine, self.sharpness, along, across, norm, bias, self.activation, rng)

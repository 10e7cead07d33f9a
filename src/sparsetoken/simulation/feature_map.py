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

from ..activations import Weighting
from ..classifiers import check_model, classifier
from ..laws.draws import EXPLICIT_TOKENS
from ..laws.law import Law, law_from_samples, law_of_model
from ..task import Task
from .readout import Measures, readout_measures, vectorized_measures
from .samplers import reduced
from .samplers.drawn_bags import DrawnBags, draw_bags

# Tokens drawn for the law of bags that the theory has no draws for (a second or two), and the least number of such bags.
DRAWN_TOKENS, LEAST_BAGS = 2**24, 2**10


@dataclass(frozen=True)
class FeatureMap:
    """A classifier's map from bag to feature; `cosine` and `sharpness` are those of its query."""

    model: str
    cosine: float = 1.0
    sharpness: float = 0.0

    def __post_init__(self) -> None:
        check_model(self.model)

    @property
    def activation(self) -> Callable[[Any], Any] | None:
        """What takes the softmax's place."""
        return classifier(self.model).weighting

    def special_count(self, task: Task) -> int:
        """How many special directions there are: the leading coordinates of reduced features."""
        return {"pooled": 1, "vectorized": task.longest}.get(self.model, 2)

    def check(self, task: Task) -> None:
        """Raise ValueError if the classifier cannot be used on the bags of a task."""
        if self.model == "vectorized":
            task.require_plain("the vectorized classifier, which has weights for every token", "length")
            task.require_plain("the vectorized classifier, whose features would have two noise levels", "correlation")

    def leading(self, bags: DrawnBags, seed: int) -> reduced.Leading:
        """The special coordinates of reduced features of bags, exact in law."""
        self.check(bags.task)
        if self.model == "pooled":
            return reduced.draw_pooled(bags, seed)
        if self.model == "vectorized":
            return reduced.draw_flattened(bags, seed)
        return reduced.draw_attended(bags, seed, self.cosine, self.sharpness, self.activation)

    def draw(self, bags: DrawnBags, d: int, seed: int) -> np.ndarray:
        """Reduced features of bags, exact in law; the special coordinates come first."""
        dimension = d * (bags.task.longest if self.model == "vectorized" else 1)
        return reduced.draw_features(self.leading(bags, seed), dimension)

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

    def law(self, task: Task) -> Law:
        """The law of (T, S, kappa) on the bags of a task.

        Weights that look at all tokens of a bag have one from drawn bags where these are too long for the theory's.
        """
        if not isinstance(self.activation, Weighting) or task.longest <= EXPLICIT_TOKENS:
            return law_of_model(task, self.model, self.cosine, self.sharpness)
        bags = draw_bags(task.but(prevalence=0.5), max(LEAST_BAGS, DRAWN_TOKENS // task.longest), 0, "_test")
        drawn = reduced.draw_statistics(bags, 0, self.cosine, self.sharpness, self.activation)
        rows = np.stack(drawn[:3], axis=1)
        return law_from_samples(rows[bags.truth > 0], rows[bags.truth < 0], task.prevalence)

    def measures(self, task: Task, special: np.ndarray, norm: float, bias: float, rng: np.random.Generator) -> Measures:
        """Test error and its relatives of a readout."""
        if self.model == "vectorized":
            return vectorized_measures(task, special, norm, bias, rng)
        return readout_measures(self.law(task), *self.coordinates(task, special), norm, bias)

"""Trials whose features are drawn without tokens: in white noise, from reused bags, on a device, in coloured noise."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..deployment import Deployment
from .measures import Measures, coloured_measures
from .readout import Readout
from .reuse import implicit_steps
from .samplers.coloured import draw_coloured_features
from .samplers.drawn_bags import draw_bags
from .samplers.implicit_bags import ImplicitBags
from .samplers.reduced import draw_two_steps
from .samplers.tensor import draw_signal
from .steps import SimulatedSteps, summarise, two_steps
from .trial_stages import Trial


class ReducedTrial(Trial):
    """Features come in coordinates whose first axes are the special directions."""

    sampler = "reduced"

    def take_steps(self) -> SimulatedSteps:
        return two_steps(self.task, self.training, self.d, self.seed)

    def features(self) -> tuple[Any, np.ndarray]:
        bags = draw_bags(self.task, self.n1, self.seed, "0" if self.training.schedule == "reuse" else "1")
        return self.mechanism.draw(bags, self.d, self.seed), bags.labels

    def special(self, w: np.ndarray) -> np.ndarray:
        return w[: self.mechanism.special_count(self.task)]


class ReusedTrial(ReducedTrial):
    """The readout learns from the very bags that gave the query: about n0 (3 L + d) numbers are drawn instead of n0 L d."""

    def take_steps(self) -> SimulatedSteps:
        self.bags = ImplicitBags(self.task, self.n0, draw_signal(self.seed, self.d), self.seed, "0")
        return implicit_steps(self.bags, self.training)

    def features(self) -> tuple[np.ndarray, np.ndarray]:
        assert self.steps is not None
        return self.bags.attended(self.training.beta * self.steps.query, self.sigma), self.bags.labels

    def special(self, w: np.ndarray) -> np.ndarray:
        return self.special_of_vectors(w)


class DeviceTrial(ReducedTrial):
    """The reduced trial with its features and readout on a JAX device (query models and pooled)."""

    def features(self) -> tuple[Any, np.ndarray]:
        from .samplers.jax_reduced import place_features

        bags = draw_bags(self.task, self.n1, self.seed, "1")
        leading, scale = self.mechanism.draw_leading(bags, self.seed)
        return place_features(leading, scale, self.d, self.seed, self.device), bags.labels


class ColouredTrial(Trial):
    """Coloured Gaussian noise without tokens, in the eigenbasis of its covariance: about n (L + d) numbers are drawn."""

    sampler = "reduced"

    def prepare(self) -> None:
        self.signal, self.root = self.source.directions(self.seed, self.d)

    def take_steps(self) -> SimulatedSteps:
        bags = draw_bags(self.task, self.n0, self.seed, "0")
        w1, b1, q2 = draw_two_steps(bags, self.training, self.d, self.seed, self.signal, self.root)
        return summarise(w1, b1, q2, self.signal, self.n0, self.training.beta)

    def features(self) -> tuple[np.ndarray, np.ndarray]:
        y = draw_bags(self.task, self.n1, self.seed, "1").labels
        query = np.zeros(self.d) if self.steps is None else self.training.beta * self.steps.query
        return draw_coloured_features(self.task, y, self.signal, self.root, self.seed, query, self.sigma), y

    def special(self, w: np.ndarray) -> np.ndarray:
        return np.array([w @ self.signal]) if self.model == "pooled" else self.special_of_vectors(w)

    def measures(self, readout: Readout, special: np.ndarray, test: Deployment) -> Measures:
        query = None if self.steps is None else self.query_at(test)
        return coloured_measures(
            test.task, readout.w, readout.bias + test.bias_shift, self.signal, self.root, query, self.sigma
        )

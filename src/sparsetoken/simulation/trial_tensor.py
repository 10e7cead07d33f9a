"""The trial that draws every token, in any noise."""

from __future__ import annotations

import numpy as np

from ..activations import token_weights
from ..deployment import Deployment
from ..task import Task
from .measures import Measures, coloured_measures, counted_measures
from .noise import Demand, Tokens
from .readout import Readout
from .samplers import TensorData
from .steps import SimulatedSteps, steps_on
from .trial_stages import Trial


class TensorTrial(Trial):
    """Every token is drawn."""

    sampler = "tensor"

    def prepare(self) -> None:
        self.signal, self.root = self.source.directions(self.seed, self.d)
        self.demands: dict[str, Demand] = {}
        if self.joint:
            self.demands = {":0": Demand(self.n0, self.task.longest)}
            return
        with self.clock.stage("sampling"):
            reuse = self.training.schedule == "reuse"
            counts = {"0": self.n0, "1": 0 if reuse and self.n0 else self.n1}
            if reuse and not self.n0:
                counts = {"0": self.n1, "1": 0}
            self.demands = {name: Demand(count, self.task.longest) for name, count in counts.items() if count}
            dealt = self.source.deal(self.seed, self.d, self.demands)
            data = {name: self.data(self.task, count, name, noise) for name, (count, noise) in dealt.items()}
            if self.n0:
                self.first = data["0"]
            self.second = data["0" if reuse else "1"]

    def data(
        self, task: Task, count: int, dataset: str, noise: Tokens | None = None, labels: np.ndarray | None = None
    ) -> TensorData:
        """One of the trial's data sets."""
        return TensorData(task, count, self.d, self.seed, dataset, self.chunk, noise, self.signal, labels)

    def tokens_of_descent(self) -> dict[str, Tokens | None]:
        dealt = self.source.deal(self.seed, self.d, self.demands)
        return {name: noise for name, (_, noise) in dealt.items()}

    def take_steps(self) -> SimulatedSteps:
        return steps_on(self.first, self.training)

    def features(self) -> tuple[np.ndarray, np.ndarray]:
        data = self.second
        if self.model == "pooled":
            return data.means(), data.labels
        if self.model == "vectorized":
            return data.flattened(), data.labels
        assert self.steps is not None
        return data.attended(self.training.beta * self.steps.query, self.sigma), data.labels

    def special(self, w: np.ndarray) -> np.ndarray:
        if self.model == "pooled":
            return np.array([w @ self.second.signal])
        if self.model == "vectorized":
            return w.reshape(self.task.longest, self.d) @ self.second.signal
        return self.special_of_vectors(w)

    def measures(self, readout: Readout, special: np.ndarray, test: Deployment) -> Measures:
        if self.source.spectrum is not None:
            query = None if self.steps is None else self.query_at(test)
            bias = readout.bias + test.bias_shift
            return coloured_measures(test.task, readout.w, bias, self.signal, self.root, query, self.sigma)
        if self.source.noise is None:
            return super().measures(readout, special, test)
        # The same test bags twice, without and with the signal.
        scores = {}
        demands = {**self.demands, "_test": Demand(self.test_samples or None, test.task.longest)}
        for label in (-1.0, 1.0):
            count, noise = self.source.deal(self.seed, self.d, demands)["_test"]
            data = self.data(test.task, count, "_test", noise, np.full(count, label))
            scores[label] = self.scores(data, readout, test)
        return counted_measures(scores[1.0], scores[-1.0], test.task.prevalence)

    def scores(self, data: TensorData, readout: Readout, test: Deployment) -> np.ndarray:
        """<w, f> + b of every bag."""
        found = np.empty(data.count)
        for which, tokens in data.blocks():
            if self.model == "vectorized":
                found[which] = tokens.reshape(len(tokens), -1) @ readout.w
            elif self.model == "pooled":
                found[which] = (tokens @ readout.w).mean(axis=1)
            else:
                weights = token_weights(tokens @ self.query_at(test), self.sigma)
                found[which] = np.einsum("il,il->i", weights, tokens @ readout.w)
        return found + readout.bias + test.bias_shift

    def sampled_error(self, readout: Readout, count: int, test: Deployment) -> float:
        """Share of `count` fresh bags with the wrong sign."""
        demands = {**self.demands, "_test": Demand(count, test.task.longest)}
        data = self.data(test.task, count, "_test", self.source.deal(self.seed, self.d, demands)["_test"][1])
        return float(np.mean(self.scores(data, readout, test) * data.truth <= 0.0))

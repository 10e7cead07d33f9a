"""One trial, stage by stage: two gradient steps, features, readout, measures on fresh bags.

The stages are common to all trials; how data is drawn differs: in full (`TensorTrial`), or without tokens in white noise
(`ReducedTrial`), from bags that serve twice (`ReusedTrial`), in coloured noise (`ColouredTrial`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np

from ..activations import token_weights
from ..classifiers import Classifier
from ..deployment import Deployment
from ..results import ClassifierResult, directions_of_readout
from ..task import Task
from ..training import Training
from ..trajectories import mistakes
from .noise import Demand, TokenDraw
from .readout import FeatureMap, Measures, TrainedReadout, coloured_measures, counted_measures, fit_readout
from .samplers import TensorData
from .samplers.drawn_bags import draw_bags
from .samplers.implicit_bags import ImplicitBags
from .samplers.reduced import DrawnProducts, draw_coloured_features, place_features
from .samplers.tensor import draw_signal
from .seeds import stream
from .token_source import TokenSource
from .trajectory import joint_descent
from .two_steps import SimulatedSteps, steps_on, summarise, take_steps, two_steps


@dataclass(frozen=True, kw_only=True, repr=False)
class SimulationResult(ClassifierResult):
    """What one trial gives.

    Attributes
    ----------
    model, test_error, standard_error, auc, sensitivity, specificity, balanced_error
        As in `results.ClassifierResult`, like all fields down to `errors`: the finite counterparts of `forecast`'s.
    train_loss, train_error, norm_w, bias, overlap, cosine, m_q, m_u, nu, sharpness, steps, errors, trained, tested
        See there; standard errors are those of the numerical integration.
    sampler : str
        "reduced" or "tensor".
    d, seed : int
        Dimension of a token, and the seed all randomness came from.
    n0, n1 : int
        Samples of the query (0 for models without one) and of the readout: the same ones twice for "reuse" and "joint".
    token_overlaps : tuple of float
        <W_l, xi> for each token l of the vectorized model; empty for the others.
    stopped, gradient_norm : str, float
        How the last optimisation ended (see `solvers.erm`); "steps" and NaN for joint training, which takes a fixed number of
        steps.
    converged : bool
        Whether it ended as it should, at a minimum or (joint) after its steps; if not, `simulate` warns.
    sampled_error, sampled_standard_error : float
        Test error, on true labels, counted on the deployment's `samples` fresh bags, and its standard error (NaN without any).
    noise : str
        What the noise is called: "gaussian", "coloured", or the name of another.
    seconds : mapping
        Time spent, stage by stage.
    """

    sampler: str
    d: int
    seed: int
    n0: int
    n1: int
    stopped: str
    gradient_norm: float
    converged: bool
    sampled_error: float = math.nan
    sampled_standard_error: float = math.nan
    token_overlaps: tuple[float, ...] = ()
    noise: str = "gaussian"
    seconds: Mapping[str, float] = field(default_factory=dict, compare=False)

    def _setting(self) -> str:
        return f"{self.model}, d={self.d}, seed={self.seed}"


class Trial:
    """The stages common to all trials; subclasses draw the data and give the special directions."""

    sampler: str
    device: Any = None  # of JAX, where features and readout live; None: NumPy

    def __init__(
        self,
        task: Task,
        training: Training,
        d: int,
        seed: int,
        classifier: Classifier,
        counts: tuple[int, int],
        source: TokenSource,
    ):
        self.task, self.training, self.d, self.seed, self.source = task, training, d, seed, source
        self.classifier, self.model, self.sigma = classifier, classifier.name, classifier.weighting
        self.n0, self.n1 = counts
        self.seconds: dict[str, float] = {}
        self.steps: SimulatedSteps | None = None
        self.prepare()

    def prepare(self) -> None:
        """Draw what has to exist before the first stage."""

    def take_steps(self) -> None:
        """The two gradient steps, as `self.steps`."""
        raise NotImplementedError

    def features(self) -> tuple[Any, np.ndarray]:
        """(features, labels) of the readout."""
        raise NotImplementedError

    def special(self, w: np.ndarray) -> np.ndarray:
        """w's coordinates along the special directions of the feature map."""
        raise NotImplementedError

    def feature(self, tokens: np.ndarray, scale: float) -> np.ndarray:
        """Features of bags in full (m, L, d), at `scale` times the learnt query."""
        raise NotImplementedError

    def fresh_bags(self, test: Deployment) -> TensorData:
        """Bags in full to count errors on."""
        raise NotImplementedError

    def scores(self, data: TensorData, readout: TrainedReadout, test: Deployment) -> np.ndarray:
        """Scores of bags in full in a test."""
        scale = self.scale_at(test)
        return data.collect(lambda tokens: self.feature(tokens, scale) @ readout.w) + readout.bias + test.bias_shift

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        start = perf_counter()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + perf_counter() - start

    def run(self, test: Deployment | None, samples: int) -> SimulationResult:
        """All stages and their results; without a separate test task, tested on the training task."""
        readout = self.train()
        if test is not None:
            test.check_query(self.query_norm)
        tested = replace(test or Deployment(self.task), samples=samples)
        with self.stage("test_error"):
            measured = self.measures(readout, tested)
        sampled = spread = math.nan
        if samples and self.source.noise is None:
            with self.stage("sampled_error"):
                data = self.fresh_bags(tested)
                sampled = float(mistakes(self.scores(data, readout, tested), data.truth).mean())
            spread = math.sqrt(sampled * (1.0 - sampled) / samples)
        geometry = self.geometry(readout)
        learned = {name: value for name, value in vars(readout).items() if name != "w"}
        return SimulationResult(
            model=self.model,
            sampler=self.sampler,
            d=self.d,
            seed=self.seed,
            **vars(measured),
            **learned,
            **geometry,
            norm_w=readout.norm,
            n0=self.n0,
            n1=self.n1,
            sampled_error=sampled,
            sampled_standard_error=spread,
            seconds=self.seconds,
            noise=self.source.name,
            **({} if test is None else test.record(self.task, geometry["sharpness"])),
        )

    def train(self) -> TrainedReadout:
        if self.joint:
            return self.train_jointly()
        if self.n0:
            with self.stage("steps"):
                self.take_steps()
        with self.stage("features"):
            x, y = self.features()
        with self.stage("readout"):
            return fit_readout(x, y, self.training.ridge, self.training.loss, self.device)

    def train_jointly(self) -> TrainedReadout:
        """Query, readout and bias by plain gradient descent on all bags at once."""
        training = self.training
        with self.stage("descent"):
            signal, _ = self.source.directions(self.seed, self.d)
            descent = joint_descent(self.task, training, self.d, self.seed, self.sampler)
            path = descent.path(signal, self.noise_of_descent())
        (query, w), bias = path.theta.T, float(path.bias[-1])
        self.steps = summarise(w, bias, query, signal, self.n0, training.beta)
        last = (float(path.train_loss[-1]), float(path.train_error[-1]))
        return TrainedReadout(w, bias, *last, stopped="steps", gradient_norm=math.nan, converged=True)

    def noise_of_descent(self) -> TokenDraw | None:
        """What draws the noise of the one data set of joint training, where it is not white and Gaussian."""
        return None

    @property
    def joint(self) -> bool:
        return self.training.schedule == "joint" and self.model == "attention"

    @property
    def query_norm(self) -> float:
        return math.inf if self.steps is None else self.steps.norm["q"]

    @property
    def feature_map(self) -> FeatureMap:
        if self.steps is None:
            return FeatureMap(self.model)
        return FeatureMap(self.model, self.steps.query_cosine, self.steps.sharpness)

    def measures(self, readout: TrainedReadout, test: Deployment) -> Measures:
        features, bias = self.feature_map, readout.bias + test.bias_shift
        if test.sharpness is not None:
            features = replace(features, sharpness=test.sharpness)
        special = self.special_coordinates(readout.w)
        return features.measures(test.bags, special, readout.norm, bias, stream(self.seed, "quadrature"))

    def special_coordinates(self, w: np.ndarray) -> np.ndarray:
        # Joint training has vectors whatever the sampler.
        return self.special_of_vectors(w) if self.joint else self.special(w)

    def special_of_vectors(self, w: np.ndarray) -> np.ndarray:
        """The readout's coordinates along qhat and u where query and signal are vectors of the same space."""
        assert self.steps is not None
        xi, norm_q = self.steps.signal, self.steps.norm["q"]
        q_hat = self.steps.query / norm_q if norm_q > 0 else xi
        u = xi - self.steps.query_cosine * q_hat
        length = float(np.linalg.norm(u))
        # At |gamma| = 1 u is what rounding leaves of xi, and has no direction.
        return np.array([w @ q_hat, w @ u / length if length > 1e-12 else 0.0])

    def geometry(self, readout: TrainedReadout) -> dict[str, Any]:
        special, norm = self.special_coordinates(readout.w), readout.norm
        steps = None if self.steps is None else self.steps.summary()
        m_q, m_u = self.feature_map.coordinates(self.task, special)
        return {
            **directions_of_readout(m_q, m_u, norm, steps),
            "m_q": m_q,
            "m_u": m_u,
            "nu": math.sqrt(max(0.0, norm**2 - m_q**2 - m_u**2)),
            "sharpness": math.nan if steps is None else steps.sharpness,
            "steps": steps,
            "token_overlaps": tuple(map(float, special)) if self.model == "vectorized" else (),
        }

    def scale_at(self, test: Deployment) -> float:
        """What the learnt query is multiplied by in a test: beta, or what gives the test's sharpness."""
        if test.sharpness is None:
            return self.training.beta
        return test.sharpness / (self.query_norm or 1.0)  # a query that vanishes has sharpness 0 only


class ReducedTrial(Trial):
    """Features come in coordinates whose first axes are the special directions."""

    sampler = "reduced"

    def take_steps(self) -> None:
        self.steps = two_steps(self.task, self.training, self.d, self.seed)

    def features(self) -> tuple[Any, np.ndarray]:
        bags = draw_bags(self.task, self.n1, self.seed, "0" if self.training.schedule == "reuse" else "1")
        if self.device is None:
            return self.feature_map.draw(bags, self.d, self.seed), bags.labels
        return place_features(self.feature_map.leading(bags, self.seed), self.d, self.seed, self.device), bags.labels

    def special(self, w: np.ndarray) -> np.ndarray:
        return w[: self.feature_map.special_count(self.task)]


class ReusedTrial(ReducedTrial):
    """The readout learns from the very bags that gave the query: about n0 (3 L + d) numbers are drawn instead of n0 L d."""

    def take_steps(self) -> None:
        self.bags = ImplicitBags(self.task, self.n0, draw_signal(self.seed, self.d), self.seed, "0")
        self.steps = steps_on(self.bags, self.training)

    def features(self) -> tuple[np.ndarray, np.ndarray]:
        assert self.steps is not None
        return self.bags.attended(self.training.beta * self.steps.query, self.sigma), self.bags.labels

    def special(self, w: np.ndarray) -> np.ndarray:
        return self.special_of_vectors(w)


class ColouredTrial(Trial):
    """Coloured Gaussian noise without tokens, in the eigenbasis of its covariance: about n (L + d) numbers are drawn."""

    sampler = "reduced"

    def prepare(self) -> None:
        self.signal, self.root = self.source.directions(self.seed, self.d)

    def take_steps(self) -> None:
        self.training.require_steps("coloured noise without tokens")
        bags = draw_bags(self.task, self.n0, self.seed, "0")
        self.steps = take_steps(DrawnProducts(bags, self.seed, self.signal, self.root), self.training)

    def features(self) -> tuple[np.ndarray, np.ndarray]:
        y = draw_bags(self.task, self.n1, self.seed, "1").labels
        query = np.zeros(self.d) if self.steps is None else self.training.beta * self.steps.query
        return draw_coloured_features(self.task, y, self.signal, self.root, self.seed, query, self.sigma), y

    def special(self, w: np.ndarray) -> np.ndarray:
        return np.array([w @ self.signal]) if self.model == "pooled" else self.special_of_vectors(w)

    def measures(self, readout: TrainedReadout, test: Deployment) -> Measures:
        query = None if self.steps is None else self.scale_at(test) * self.steps.query
        bias = readout.bias + test.bias_shift
        return coloured_measures(test.bags, readout.w, bias, self.signal, self.root, query, self.sigma)


class TensorTrial(ColouredTrial):
    """Every token is drawn, in any noise."""

    sampler = "tensor"

    def prepare(self) -> None:
        super().prepare()
        if self.joint:
            self.demands = {":0": Demand(self.n0, self.task.longest)}
            return
        # With "reuse" D0 serves the readout too, whether or not there is a query to learn from it.
        counts = {"0": self.n1} if self.training.schedule == "reuse" else {"0": self.n0, "1": self.n1}
        self.demands = {name: Demand(count, self.task.longest) for name, count in counts.items() if count}
        with self.stage("sampling"):
            assigned = self.source.assign(self.seed, self.d, self.demands)
            data = {name: self.data(self.task, count, name, noise) for name, (count, noise) in assigned.items()}
            self.first, self.second = data.get("0"), data["0" if self.training.schedule == "reuse" else "1"]

    def data(
        self, task: Task, count: int, dataset: str, noise: TokenDraw | None = None, labels: np.ndarray | None = None
    ) -> TensorData:
        return TensorData(task, count, self.d, self.seed, dataset, noise, self.signal, labels)

    def noise_of_descent(self) -> TokenDraw | None:
        return self.source.assign(self.seed, self.d, self.demands)[":0"][1]

    def take_steps(self) -> None:
        assert self.first is not None
        self.steps = steps_on(self.first, self.training)

    def feature(self, tokens: np.ndarray, scale: float) -> np.ndarray:
        if self.model == "pooled":
            return tokens.mean(axis=1)
        if self.model == "vectorized":
            return tokens.reshape(len(tokens), -1)
        assert self.steps is not None
        weights = token_weights(tokens @ (scale * self.steps.query), self.sigma)
        return np.matmul(weights[:, None, :], tokens)[:, 0, :]

    def features(self) -> tuple[np.ndarray, np.ndarray]:
        return self.second.collect(partial(self.feature, scale=self.training.beta)), self.second.labels

    def special(self, w: np.ndarray) -> np.ndarray:
        if self.model == "vectorized":
            return w.reshape(self.task.longest, self.d) @ self.signal
        return super().special(w)

    def measures(self, readout: TrainedReadout, test: Deployment) -> Measures:
        if self.source.spectrum is not None:
            return super().measures(readout, test)
        if self.source.noise is None:
            return Trial.measures(self, readout, test)
        # The same test bags twice, without and with the signal.
        scores = {}
        for label in (-1.0, 1.0):
            count, noise = self._test_tokens(test, test.samples or None)
            data = self.data(test.bags, count, "_test", noise, np.full(count, label))
            scores[label] = self.scores(data, readout, test)
        return counted_measures(scores[1.0], scores[-1.0], test.bags.prevalence)

    def fresh_bags(self, test: Deployment) -> TensorData:
        return self.data(test.bags, test.samples, "_test", self._test_tokens(test, test.samples)[1])

    def _test_tokens(self, test: Deployment, count: int | None) -> tuple[int, TokenDraw | None]:
        demands = {**self.demands, "_test": Demand(count, test.bags.longest)}
        return self.source.assign(self.seed, self.d, demands)["_test"]

"""The stages of one trial: two steps, features, readout, measures on fresh bags.

How data is drawn is left to the samplers' trials: `trial_reduced`, `trial_tensor`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from time import perf_counter
from typing import Any

import numpy as np

from ..deployment import Deployment, check_query_to_sharpen
from ..results import directions_of_readout
from .measures import Measures
from .mechanism import Mechanism
from .noise import Tokens
from .readout import Readout, fit_readout
from .samplers.streams import stream
from .steps import SimulatedSteps, summarise
from .token_source import WHITE
from .trajectory import joint_schedule, train
from .trial_result import SimulationResult


class _Clock:
    """Seconds spent in each stage."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        start = perf_counter()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + perf_counter() - start


class Trial:
    """The stages common to both samplers; subclasses draw, and say where the special directions are."""

    sampler: str
    device: Any = None  # of JAX, where features and readout live; None: NumPy

    def __init__(self, task, training, d, seed, model, sigma, n0, n1, chunk, source=WHITE):
        self.task, self.training, self.d, self.seed, self.source = task, training, d, seed, source
        self.model, self.sigma, self.n0, self.n1, self.chunk = model, sigma, n0, n1, chunk
        self.clock = _Clock()
        self.steps: SimulatedSteps | None = None
        self.test_samples = 0
        self.prepare()

    def prepare(self) -> None:
        """Draw what has to exist before the first stage."""

    def take_steps(self) -> SimulatedSteps:
        raise NotImplementedError

    def features(self) -> tuple[Any, np.ndarray]:
        """(features, labels) of the readout."""
        raise NotImplementedError

    def special(self, w: np.ndarray) -> np.ndarray:
        """w's coordinates along the special directions of the mechanism."""
        raise NotImplementedError

    def sampled_error(self, readout: Readout, count: int, test: Deployment) -> float:
        raise NotImplementedError

    def measures(self, readout: Readout, special: np.ndarray, test: Deployment) -> Measures:
        """How well the readout does on fresh bags."""
        mechanism, bias = self.mechanism, readout.bias + test.bias_shift
        if test.sharpness is not None:
            mechanism = replace(mechanism, sharpness=test.sharpness)
        return mechanism.measures(test.task, special, readout.norm, bias, stream(self.seed, "quadrature"))

    def query_at(self, test: Deployment) -> np.ndarray:
        """beta q of the test."""
        assert self.steps is not None
        scale = self.training.beta
        if test.sharpness is not None:
            scale = test.sharpness / (self.steps.norm["q"] or 1.0)  # a query that vanishes has sharpness 0 only
        return scale * self.steps.query

    def train_jointly(self) -> Readout:
        """Query, readout and bias by plain gradient descent on all bags at once."""
        training = self.training
        model, stages = joint_schedule(training)
        with self.clock.stage("descent"):
            path = train(
                *(self.task, model, stages, self.d, self.seed, self.sampler, training.loss),
                signal=self.source.signal,
                tokens=self.tokens_of_descent(),
                chunk=self.chunk,
            )
        (query, w), bias = path.theta.T, float(path.bias[-1])
        self.steps = summarise(w, bias, query, path.signal, self.n0, training.beta)
        last = (float(path.train_loss[-1]), float(path.train_error[-1]))
        return Readout(w, bias, *last, stopped="steps", gradient_norm=math.nan, converged=True)

    def tokens_of_descent(self) -> dict[str, Tokens | None]:
        """What draws the noise of the one data set of joint training, where it is not white and Gaussian."""
        return {}

    @property
    def joint(self) -> bool:
        """Whether query and readout are trained together."""
        return self.training.schedule == "joint" and self.model == "attention"

    def special_of_vectors(self, w: np.ndarray) -> np.ndarray:
        """The readout's coordinates along qhat and u where query and signal are vectors of the same space."""
        assert self.steps is not None
        xi, norm_q = self.steps.signal, self.steps.norm["q"]
        q_hat = self.steps.query / norm_q if norm_q > 0 else xi
        u = xi - self.steps.query_cosine * q_hat
        length = float(np.linalg.norm(u))
        # At |gamma| = 1 u is what rounding leaves of xi, and has no direction.
        return np.array([w @ q_hat, w @ u / length if length > 1e-12 else 0.0])

    @property
    def mechanism(self) -> Mechanism:
        """The way from bag to feature, once the query is known."""
        if self.steps is None:
            return Mechanism(self.model)
        return Mechanism(self.model, self.steps.query_cosine, self.steps.sharpness, self.sigma)

    def run(self, test_samples: int, deployment: Deployment | None = None) -> SimulationResult:
        """All stages, and what they give; without a deployment, tested on what it was trained on."""
        training, clock = self.training, self.clock
        if self.joint:
            readout = self.train_jointly()
        else:
            if self.n0:
                with clock.stage("steps"):
                    self.steps = self.take_steps()
            with clock.stage("features"):
                x, y = self.features()
            with clock.stage("readout"):
                readout = fit_readout(x, y, training.ridge, training.loss, self.device)
            del x
        mechanism, norm = self.mechanism, readout.norm
        if self.steps is not None:
            check_query_to_sharpen(deployment, self.steps.norm["q"])
        test = deployment or Deployment(self.task)
        self.test_samples = test_samples
        with clock.stage("test_error"):
            special = self.special_of_vectors(readout.w) if self.joint else self.special(readout.w)
            measured = self.measures(readout, special, test)
        sampled = math.nan
        if test_samples and self.source.noise is None:
            with clock.stage("sampled_error"):
                sampled = self.sampled_error(readout, test_samples, test)
        steps = None if self.steps is None else self.steps.summary()
        m_q, m_u = mechanism.coordinates(self.task, special)
        sharpness = math.nan if steps is None else steps.sharpness
        return SimulationResult(
            model=self.model,
            sampler=self.sampler,
            d=self.d,
            seed=self.seed,
            **vars(measured),
            train_loss=readout.train_loss,
            train_error=readout.train_error,
            norm_w=norm,
            bias=readout.bias,
            **directions_of_readout(m_q, m_u, norm, steps),
            m_q=m_q,
            m_u=m_u,
            nu=math.sqrt(max(0.0, norm**2 - m_q**2 - m_u**2)),
            sharpness=sharpness,
            steps=steps,
            n0=self.n0,
            n1=self.n1,
            stopped=readout.stopped,
            gradient_norm=readout.gradient_norm,
            converged=readout.converged,
            sampled_error=sampled,
            sampled_standard_error=math.sqrt(sampled * (1.0 - sampled) / test_samples) if test_samples else math.nan,
            token_overlaps=tuple(map(float, special)) if self.model == "vectorized" else (),
            seconds=clock.seconds,
            noise=self.source.name,
            **({} if deployment is None else deployment.record(self.task, sharpness)),
        )

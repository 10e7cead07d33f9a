"""One trial: draw data, train, and measure what came out, without a test set."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np

from .._core.devices import wanted_device
from .._core.validation import whole_number
from ..activations import DEFAULT_ACTIVATION, get_activation, token_weights
from ..models import SIMULATED, check_model
from ..results import ClassifierResult, NotConvergedWarning, directions_of_readout
from ..task import Task
from ..training import Training
from .joint import descend
from .mechanism import Mechanism
from .readout import Readout, fit_readout, summarised_readout
from .samplers import TensorData
from .samplers.labels import draw_labels, sample_count
from .samplers.streams import stream
from .steps import SimulatedSteps, check_size, steps_on, summarise, two_steps


@dataclass(frozen=True, kw_only=True, repr=False)
class SimulationResult(ClassifierResult):
    """What one trial gives.

    Attributes
    ----------
    model, test_error, standard_error, auc, sensitivity, specificity, balanced_error
        As in `results.ClassifierResult`, like all fields down to `errors`: the finite counterparts of `forecast`'s.
    train_loss, train_error, norm_w, bias, overlap, cosine, m_q, m_u, nu, sharpness, steps, errors
        See there; standard errors are those of the numerical integration.
    sampler : str
        "reduced" or "tensor".
    d, seed : int
        Dimension of a token, and the seed all randomness came from.
    n0, n1 : int
        Samples of the two steps (0 for models without a query) and of the readout.
    token_overlaps : tuple of float
        <W_l, xi> for each token l of the vectorized model; empty for the others.
    stopped, gradient_norm : str, float
        How the last optimisation ended (see `solvers.erm`; joint: see `joint.descend`).
    converged : bool
        Whether it ended at a minimum; if not, `simulate` warns.
    sampled_error, sampled_standard_error : float
        Test error counted on `test_samples` fresh bags, and its standard error (NaN when none were asked for).
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
    seconds: Mapping[str, float] = field(default_factory=dict, compare=False)

    def _setting(self) -> str:
        return f"{self.model}, d={self.d}, seed={self.seed}"


class _Clock:
    """Seconds spent in each stage."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        start = perf_counter()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + perf_counter() - start


def simulate(
    task: Task,
    training: Training,
    d: int,
    seed: int,
    model: str = "attention",
    sampler: str = "reduced",
    activation: str | Callable[[Any], Any] = DEFAULT_ACTIVATION,
    equal_samples: bool = False,
    test_samples: int = 0,
    chunk: int | None = None,
    device: str = "numpy",
) -> SimulationResult:
    """Train one classifier on data drawn from `task` in dimension d, and measure it.

    The readout minimises (1/n1) sum l(<w, f_i> + b; y_i) + (ridge/2) ||w||^2, bias unpenalised.

    Parameters
    ----------
    task : Task
        What the data is.
    training : Training
        How it is learned.
    d : int
        Dimension of a token, at least 2.
    seed : int
        All randomness of the trial comes from it.
    model : str
        "attention" and "elementwise" get their query from two gradient steps on D0, their readout from D1; "pooled" and
        "vectorized" learn from D1 alone.
    sampler : str
        "reduced" (exact in law, fast) or "tensor" (every token is drawn).
    activation : str or callable
        Of the elementwise model: a name or a function, see `activations`.
    equal_samples : bool
        Give pooled and vectorized n0 + n1 samples (models with a query have used D0 already).
    test_samples : int
        Also count errors on that many fresh bags (tensor sampler only).
    chunk : int, optional
        Bags the tensor sampler draws at a time; changes memory use, never a result.
    device : str
        "numpy"; "auto": an accelerator for features and readout if JAX has one, else NumPy; "gpu" or "cpu": JAX there. JAX
        draws other numbers of the same law. Reduced sampler only, and not for the vectorized model.

    Returns
    -------
    SimulationResult

    Raises
    ------
    ValueError
        If the arguments do not go together, or D0 or D1 holds fewer than two bags or only one class.

    Warns
    -----
    NotConvergedWarning
        If the readout's solver did not reach a minimum (`converged` is then False).
    """
    with_query = check_model(model, SIMULATED).has_query
    sigma = get_activation(activation) if model == "elementwise" else None
    d, seed = check_size(d, seed, sampler)
    test_samples = whole_number("test_samples", test_samples, 0)
    schedule = training.schedule
    if sampler == "reduced":
        if schedule != "staged":
            raise ValueError(f"schedule {schedule!r} needs the full tokens: use sampler 'tensor', not 'reduced'")
        if test_samples:
            raise ValueError("test_samples needs full bags: use sampler 'tensor', not 'reduced'")
    if schedule == "joint" and model == "elementwise":
        raise ValueError("schedule 'joint' trains the softmax query: use model 'attention', not 'elementwise'")
    n0, n1 = _sample_counts(training, d, with_query, equal_samples)
    trial = _device_trial(device, model, sampler) or (_TensorTrial if sampler == "tensor" else _ReducedTrial)
    result = trial(task, training, d, seed, model, sigma, n0, n1, chunk).run(test_samples)
    if not result.converged:
        warnings.warn(
            f"the training did not converge (stopped by {result.stopped!r}, relative gradient {result.gradient_norm:.1e}): "
            "its numbers are those of where it stopped",
            NotConvergedWarning,
            stacklevel=2,
        )
    return result


def _sample_counts(training: Training, d: int, with_query: bool, equal_samples: bool) -> tuple[int, int]:
    """(n0, n1): bags of the two steps, 0 for models without a query, and bags of the readout."""
    n0 = sample_count("alpha0", training.alpha0, d) if with_query else 0
    if training.schedule == "reuse":
        return n0, sample_count("alpha0", training.alpha0, d)
    n1 = sample_count("alpha1", training.alpha1, d)
    return n0, n1 + (round(training.alpha0 * d) if equal_samples and not with_query else 0)


def _device_trial(device: str, model: str, sampler: str) -> type[_Trial] | None:
    """The trial class for a JAX device, or None where NumPy is to be used."""
    if device == "numpy":
        return None
    found = wanted_device(device)
    if found is None:
        return None
    if sampler != "reduced" or model == "vectorized":
        if device == "auto":
            return None
        raise ValueError(f"device {device!r} serves the reduced sampler and models other than vectorized")
    return type("_PlacedTrial", (_DeviceTrial,), {"device": found})


class _Trial:
    """The stages common to both samplers; subclasses draw, and say where the special directions are."""

    sampler: str
    device: Any = None  # of JAX, where features and readout live; None: NumPy

    def __init__(self, task, training, d, seed, model, sigma, n0, n1, chunk):
        self.task, self.training, self.d, self.seed = task, training, d, seed
        self.model, self.sigma, self.n0, self.n1, self.chunk = model, sigma, n0, n1, chunk
        self.clock = _Clock()
        self.steps: SimulatedSteps | None = None
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

    def sampled_error(self, readout: Readout, count: int) -> float:
        raise NotImplementedError

    def train_jointly(self) -> Readout:
        raise NotImplementedError

    @property
    def mechanism(self) -> Mechanism:
        """The way from bag to feature, once the query is known."""
        if self.steps is None:
            return Mechanism(self.model)
        return Mechanism(self.model, self.steps.query_cosine, self.steps.sharpness, self.sigma)

    def run(self, test_samples: int) -> SimulationResult:
        """All stages, and what they give."""
        training, clock = self.training, self.clock
        if training.schedule == "joint" and self.model == "attention":
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
        with clock.stage("test_error"):
            special = self.special(readout.w)
            measured = mechanism.measures(self.task, special, norm, readout.bias, stream(self.seed, "quadrature"))
        sampled = math.nan
        if test_samples:
            with clock.stage("sampled_error"):
                sampled = self.sampled_error(readout, test_samples)
        steps = None if self.steps is None else self.steps.summary()
        m_q, m_u = mechanism.coordinates(self.task, special)
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
            sharpness=math.nan if steps is None else steps.sharpness,
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
        )


class _ReducedTrial(_Trial):
    """Features come in coordinates whose first axes are the special directions."""

    sampler = "reduced"

    def take_steps(self) -> SimulatedSteps:
        return two_steps(self.task, self.training, self.d, self.seed)

    def features(self) -> tuple[Any, np.ndarray]:
        y = draw_labels(self.task, self.n1, self.seed, "1")
        return self.mechanism.draw(self.task, y, self.d, self.seed), y

    def special(self, w: np.ndarray) -> np.ndarray:
        return w[: self.mechanism.special_count(self.task)]


class _DeviceTrial(_ReducedTrial):
    """The reduced trial with its features and readout on a JAX device (query models and pooled)."""

    def features(self) -> tuple[Any, np.ndarray]:
        from .samplers.jax_reduced import place_features

        y = draw_labels(self.task, self.n1, self.seed, "1")
        leading, scale = self.mechanism.draw_leading(self.task, y, self.seed)
        return place_features(leading, scale, self.d, self.seed, self.device), y


class _TensorTrial(_Trial):
    """Every token is drawn."""

    sampler = "tensor"

    def prepare(self) -> None:
        with self.clock.stage("sampling"):
            reuse = self.training.schedule == "reuse"
            if self.n0:
                self.first = TensorData(self.task, self.n0, self.d, self.seed, "0", self.chunk)
            if reuse and self.n0:
                self.second = self.first
            else:
                self.second = TensorData(self.task, self.n1, self.d, self.seed, "0" if reuse else "1", self.chunk)

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

    def train_jointly(self) -> Readout:
        with self.clock.stage("descent"):
            found = descend([self.first, self.second], self.training)
        self.steps = summarise(found.readout, found.bias, found.query, self.first.signal, self.n0, self.training.beta)
        ended = (found.stopped, found.gradient_norm, found.stopped != "iterations")
        return summarised_readout(found.readout, found.bias, found.outputs, found.labels, self.training.loss, *ended)

    def special(self, w: np.ndarray) -> np.ndarray:
        xi = self.second.signal
        if self.model == "pooled":
            return np.array([w @ xi])
        if self.model == "vectorized":
            return w.reshape(self.task.length, self.d) @ xi
        assert self.steps is not None
        norm_q = self.steps.norm["q"]
        q_hat = self.steps.query / norm_q if norm_q > 0 else xi
        u = xi - self.steps.query_cosine * q_hat
        length = float(np.linalg.norm(u))
        # At |gamma| = 1 u is what rounding leaves of xi, and has no direction.
        return np.array([w @ q_hat, w @ u / length if length > 1e-12 else 0.0])

    def sampled_error(self, readout: Readout, count: int) -> float:
        """Share of `count` fresh bags with the wrong sign."""
        data = TensorData(self.task, count, self.d, self.seed, "_test", self.chunk)
        wrong = 0
        for which, tokens in data.blocks():
            if self.model == "vectorized":
                z = tokens.reshape(len(tokens), -1) @ readout.w
            elif self.model == "pooled":
                z = (tokens @ readout.w).mean(axis=1)
            else:
                assert self.steps is not None
                weights = token_weights(self.training.beta * (tokens @ self.steps.query), self.sigma)
                z = np.einsum("il,il->i", weights, tokens @ readout.w)
            wrong += int(np.sum((z + readout.bias) * data.labels[which] <= 0.0))
        return wrong / count

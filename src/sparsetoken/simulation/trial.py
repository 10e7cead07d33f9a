"""One trial: draw data, train, and measure what came out, without a test set."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from time import perf_counter
from typing import Any

import numpy as np

from .._core.devices import wanted_device, working_on
from .._core.threads import single_blas_thread
from .._core.validation import whole_number
from ..activations import DEFAULT_ACTIVATION, get_activation, token_weights
from ..solvers.erm import fit_erm
from ..task import Task
from ..training import Training
from . import measures as closed_form
from .joint import descend
from .measures import Measures
from .samplers import TensorData, reduced
from .samplers.labels import draw_labels, sample_count
from .samplers.streams import stream
from .steps import TwoSteps, check_size, steps_on, summarise, two_steps

MODELS = ("attention", "pooled", "vectorized", "elementwise")
WITH_QUERY = ("attention", "elementwise")


@dataclass(frozen=True)
class SimulationResult:
    """What one trial gives.

    test_error, test_error_se   P(wrong sign) on a fresh bag, and the standard error of its numerical integration
                                (0 where the formula needs none)
    auc, sensitivity, specificity, balanced_error   from the same closed form
    train_loss, train_error     mean loss (without the ridge term) and misclassified share of the readout's samples
    norm_w, bias, cos_readout   ||w||, b and cosine with xi of the final readout (vectorized: with xi at every token)
    cos_w, cos_q, norm_q        of the two gradient steps (joint: of where descent ended); NaN without a query
    n0, n1                      samples of the two steps (0 for models without a query) and of the readout
    overlaps                    the numbers the test error depends on: query models `q` = <w, qhat>, `u` = <w, u>,
                                `rest` = norm of the rest; pooled `signal` = <w, xi>, `rest`; vectorized `token0`, ... =
                                <W_l, xi>, `rest`
    stopped, gradient_norm      how the last optimisation ended (see `models.erm`; joint: see `joint.descend`)
    sampled_error, sampled_error_se   test error counted on `test_samples` fresh bags (NaN when none were asked for)
    seconds                     time spent, stage by stage
    """

    model: str
    sampler: str
    d: int
    seed: int
    test_error: float
    test_error_se: float
    auc: float
    sensitivity: float
    specificity: float
    balanced_error: float
    train_loss: float
    train_error: float
    norm_w: float
    bias: float
    cos_readout: float
    cos_w: float
    cos_q: float
    norm_q: float
    n0: int
    n1: int
    stopped: str
    gradient_norm: float
    sampled_error: float
    sampled_error_se: float
    overlaps: dict[str, float] = field(compare=False)
    seconds: dict[str, float] = field(compare=False)

    def to_dict(self) -> dict[str, Any]:
        """Plain data: `overlaps` and `seconds` stay dictionaries."""
        plain = {f.name: getattr(self, f.name) for f in fields(self)}
        return plain | {"overlaps": dict(self.overlaps), "seconds": dict(self.seconds)}


@dataclass(frozen=True)
class _Readout:
    """A trained classifier and the few numbers that describe it."""

    w: np.ndarray
    bias: float
    train_loss: float
    train_error: float
    stopped: str
    gradient_norm: float


class _Clock:
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

    model          "attention" and "elementwise" get their query from two gradient steps on D0, their readout from D1;
                   "pooled" and "vectorized" learn from D1 alone
    sampler        "reduced" (exact in law, fast) or "tensor" (every token is drawn)
    activation     of the elementwise model: a name or a function, see `activations`
    equal_samples  give pooled and vectorized n0 + n1 samples (models with a query have used D0 already)
    test_samples   also count errors on that many fresh bags (tensor sampler only)
    chunk          bags the tensor sampler draws at a time; changes memory use, never a result
    device         "numpy"; "auto": an accelerator for features and readout if JAX has one, else NumPy; "gpu" or "cpu": JAX
                   there. JAX draws other numbers of the same law. Reduced sampler; not for the vectorized model
    """
    if model not in MODELS:
        raise ValueError(f"model must be one of {', '.join(MODELS)}, got {model!r}")
    sigma = get_activation(activation) if model == "elementwise" else None
    d, seed, n0 = check_size(training, d, seed, sampler)
    test_samples = whole_number("test_samples", test_samples, 0)
    schedule = training.schedule
    if sampler == "reduced":
        if schedule != "staged":
            raise ValueError(f"schedule {schedule!r} needs the full tokens: use sampler 'tensor', not 'reduced'")
        if test_samples:
            raise ValueError("test_samples needs full bags: use sampler 'tensor', not 'reduced'")
    if schedule == "joint" and model == "elementwise":
        raise ValueError("schedule 'joint' trains the softmax query: use model 'attention', not 'elementwise'")
    n1 = n0 if schedule == "reuse" else sample_count("alpha1", training.alpha1, d)
    if equal_samples and model not in WITH_QUERY and schedule != "reuse":
        n1 += n0
    trial = _device_trial(device, model, sampler) or (_TensorTrial if sampler == "tensor" else _ReducedTrial)
    with single_blas_thread():
        return trial(task, training, d, seed, model, sigma, n0, n1, chunk).run(test_samples)


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
    """The stages common to both samplers; subclasses draw and express the result in overlaps."""

    sampler: str
    device: Any = None  # of JAX, where features and readout live; None: NumPy
    readout_device = "numpy"

    def __init__(self, task, training, d, seed, model, sigma, n0, n1, chunk):
        self.task, self.training, self.d, self.seed = task, training, d, seed
        self.model, self.sigma, self.n0, self.n1, self.chunk = model, sigma, n0, n1, chunk
        self.clock = _Clock()
        self.steps: TwoSteps | None = None
        self.prepare()

    def prepare(self) -> None:
        """Draw what has to exist before the first stage."""

    def take_steps(self) -> TwoSteps:
        raise NotImplementedError

    def features(self) -> tuple[np.ndarray, np.ndarray]:
        """(features, labels) of the readout."""
        raise NotImplementedError

    def overlaps(self, w: np.ndarray) -> dict[str, float]:
        raise NotImplementedError

    def sampled_error(self, readout: _Readout, count: int) -> float:
        raise NotImplementedError

    @property
    def cosine(self) -> float:
        """gamma; a query that is zero pools, and xi may stand for its direction."""
        assert self.steps is not None
        return self.steps.cos_q if self.steps.norm_q > 0 else 1.0

    @property
    def sharpness(self) -> float:
        assert self.steps is not None
        return self.training.beta * self.steps.norm_q

    def run(self, test_samples: int) -> SimulationResult:
        if self.training.schedule == "joint" and self.model == "attention":
            readout = self.train_jointly()
        else:
            if self.model in WITH_QUERY:
                with self.clock.stage("steps"):
                    self.steps = self.take_steps()
            with self.clock.stage("features"):
                x, y = self.features()
            with self.clock.stage("readout"):
                readout = self.fit(x, y)
            del x
        with self.clock.stage("test_error"):
            overlaps = self.overlaps(readout.w)
            measured = self.measure(overlaps, readout)
        sampled = math.nan
        if test_samples:
            with self.clock.stage("sampled_error"):
                sampled = self.sampled_error(readout, test_samples)
        norm = float(np.linalg.norm(readout.w))
        steps = self.steps
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
            cos_readout=self.signal_overlap(overlaps) / norm if norm > 0 else math.nan,
            cos_w=steps.cos_w if steps else math.nan,
            cos_q=steps.cos_q if steps else math.nan,
            norm_q=steps.norm_q if steps else math.nan,
            n0=self.n0 if steps else 0,
            n1=self.n1,
            stopped=readout.stopped,
            gradient_norm=readout.gradient_norm,
            sampled_error=sampled,
            sampled_error_se=math.sqrt(sampled * (1.0 - sampled) / test_samples) if test_samples else math.nan,
            overlaps=overlaps,
            seconds=self.clock.seconds,
        )

    def fit(self, x: Any, y: np.ndarray) -> _Readout:
        fit = fit_erm(x, y, self.training.ridge, self.training.loss, device=self.readout_device)
        with working_on(self.device):
            outputs = np.asarray(x @ fit.coef) + fit.bias
        return self.summary(fit.coef, fit.bias, outputs, y, fit.stopped, fit.gradient_norm)

    def train_jointly(self) -> _Readout:
        raise NotImplementedError

    def summary(self, w, bias, z, y, stopped, gradient_norm) -> _Readout:
        loss = float(self.training.loss_function.value(z, y).mean())
        return _Readout(w, bias, loss, float(np.mean(z * y <= 0.0)), stopped, gradient_norm)

    def signal_overlap(self, overlaps: dict[str, float]) -> float:
        """<w, xi>; for the vectorized model the overlap with xi at every token."""
        if self.model == "pooled":
            return overlaps["signal"]
        if self.model == "vectorized":
            return sum(self.by_token(overlaps)) / math.sqrt(self.task.length)
        cosine = self.cosine
        return cosine * overlaps["q"] + math.sqrt(max(0.0, 1.0 - cosine**2)) * overlaps["u"]

    def by_token(self, overlaps: dict[str, float]) -> list[float]:
        return [overlaps[f"token{place}"] for place in range(self.task.length)]

    def measure(self, overlaps: dict[str, float], readout: _Readout) -> Measures:
        task, norm, rng = self.task, float(np.linalg.norm(readout.w)), stream(self.seed, "quadrature")
        if self.model == "pooled":
            return closed_form.pooled_measures(task, overlaps["signal"], norm, readout.bias)
        if self.model == "vectorized":
            return closed_form.vectorized_measures(task, np.array(self.by_token(overlaps)), norm, readout.bias, rng)
        return closed_form.attention_measures(
            task, self.cosine, self.sharpness, overlaps["q"], overlaps["u"], norm, readout.bias, self.sigma, rng
        )


def _named_overlaps(model: str, special: np.ndarray, w: np.ndarray) -> dict[str, float]:
    """Name w's overlaps with the special directions and add the norm of the rest."""
    rest = math.sqrt(max(0.0, float(w @ w) - float(special @ special)))
    if model == "vectorized":
        names = [f"token{place}" for place in range(len(special))]
    else:
        names = ["signal"] if model == "pooled" else ["q", "u"]
    return dict(zip(names, map(float, special), strict=True)) | {"rest": rest}


class _ReducedTrial(_Trial):
    """Features come in coordinates whose first axes are the special directions."""

    sampler = "reduced"

    def take_steps(self) -> TwoSteps:
        return two_steps(self.task, self.training, self.d, self.seed)

    def features(self) -> tuple[np.ndarray, np.ndarray]:
        y = draw_labels(self.task, self.n1, self.seed, "1")
        if self.model == "pooled":
            return reduced.draw_pooled(self.task, y, self.d, self.seed), y
        if self.model == "vectorized":
            return reduced.draw_flattened(self.task, y, self.d, self.seed), y
        features = reduced.draw_attended(self.task, y, self.d, self.seed, self.cosine, self.sharpness, self.sigma)
        return features, y

    def overlaps(self, w: np.ndarray) -> dict[str, float]:
        special = {"pooled": 1, "vectorized": self.task.length}.get(self.model, 2)
        return _named_overlaps(self.model, w[:special], w)


class _DeviceTrial(_ReducedTrial):
    """The reduced trial with its features and readout on a JAX device (query models and pooled)."""

    readout_device = "auto"  # where the features are

    def features(self) -> tuple[Any, np.ndarray]:
        from .samplers.jax_reduced import place_features

        y = draw_labels(self.task, self.n1, self.seed, "1")
        if self.model == "pooled":
            rng = stream(self.seed, "features")
            scale = np.full(self.n1, self.task.length**-0.5)
            mean = self.task.strength * self.task.sparsity / self.task.length
            leading = (scale * rng.standard_normal(self.n1) + mean * (y > 0))[:, None]
        else:
            leading, scale, _ = reduced.draw_attended_leading(
                self.task, y, self.seed, self.cosine, self.sharpness, self.sigma
            )
        return place_features(leading, scale, self.d, self.seed, self.device), y


class _TensorTrial(_Trial):
    sampler = "tensor"

    def prepare(self) -> None:
        with self.clock.stage("sampling"):
            self.first = TensorData(self.task, self.n0, self.d, self.seed, "0", self.chunk)
            if self.training.schedule == "reuse":
                self.second = self.first
            else:
                self.second = TensorData(self.task, self.n1, self.d, self.seed, "1", self.chunk)

    def take_steps(self) -> TwoSteps:
        return steps_on(self.first, self.training)

    def features(self) -> tuple[np.ndarray, np.ndarray]:
        data = self.second
        if self.model == "pooled":
            return data.means(), data.labels
        if self.model == "vectorized":
            return data.flattened(), data.labels
        assert self.steps is not None
        return data.attended(self.training.beta * self.steps.query, self.sigma), data.labels

    def train_jointly(self) -> _Readout:
        with self.clock.stage("descent"):
            found = descend([self.first, self.second], self.training)
        self.steps = summarise(found.readout, found.bias, found.query, self.first.signal, self.n0)
        return self.summary(found.readout, found.bias, found.outputs, found.labels, found.stopped, found.gradient_norm)

    def overlaps(self, w: np.ndarray) -> dict[str, float]:
        xi = self.second.signal
        if self.model == "pooled":
            special = np.array([w @ xi])
        elif self.model == "vectorized":
            special = w.reshape(self.task.length, self.d) @ xi
        else:
            assert self.steps is not None
            cosine = self.cosine
            q_hat = self.steps.query / self.steps.norm_q if self.steps.norm_q > 0 else xi
            u = xi - cosine * q_hat
            length = float(np.linalg.norm(u))
            special = np.array([w @ q_hat, w @ u / length if length > 1e-12 else 0.0])
        return _named_overlaps(self.model, special, w)

    def sampled_error(self, readout: _Readout, count: int) -> float:
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

"""One trial: draw data, train, and measure what came out, without a test set."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any

import numpy as np

from .._core.devices import wanted_device
from .._core.validation import whole_number
from ..activations import DEFAULT_ACTIVATION, token_weights
from ..deployment import Deployment, check_query_to_sharpen, deployment_of
from ..laws.signals import Signals
from ..models import SIMULATED, check_model, has_query, heads_of, weighting_of
from ..results import ClassifierResult, NotConvergedWarning, directions_of_readout
from ..task import Task
from ..training import Training
from .heads import simulate_heads
from .measures import Measures, coloured_measures, counted_measures
from .mechanism import Mechanism
from .noise import Demand, Tokens
from .readout import Readout, fit_readout
from .reuse import implicit_steps
from .samplers import TensorData
from .samplers.coloured import draw_coloured_features
from .samplers.implicit import ImplicitBags
from .samplers.kinds import draw_bags
from .samplers.labels import sample_count
from .samplers.reduced import draw_two_steps
from .samplers.streams import stream
from .samplers.tensor import draw_signal
from .steps import SimulatedSteps, check_size, steps_on, summarise, two_steps
from .trajectory import joint_schedule, train
from .world import WHITE, World, world_of


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
        How the last optimisation ended (see `solvers.erm`); "steps" and NaN for joint training, which takes its number of
        steps.
    converged : bool
        Whether it ended as it should, at a minimum or (joint) after its steps; if not, `simulate` warns.
    sampled_error, sampled_standard_error : float
        Test error, on true labels, counted on `test_samples` fresh bags, and its standard error (NaN when none were asked for).
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


# What a trial may ask for. Features: 64 GB of numbers, more than most machines have. Tokens: one bag's are held at a time, in
# about ten arrays (5 GB at the limit), and drawing them all at the other limit takes about an hour.
MOST_FEATURES, MOST_TOKENS_IN_A_BAG, MOST_TOKENS = 8 * 10**9, 5 * 10**7, 10**11


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
    d: int | None,
    seed: int,
    model: str = "attention",
    sampler: str | None = None,
    activation: str | Callable[[Any], Any] = DEFAULT_ACTIVATION,
    equal_samples: bool = False,
    test_samples: int = 0,
    chunk: int | None = None,
    device: str = "numpy",
    test_task: Task | Mapping[str, Any] | None = None,
    test_sharpness: float | None = None,
    test_bias_shift: float = 0.0,
    noise: Any = None,
    covariance: Any = None,
    signal: Any = None,
    signals: Any = None,
) -> SimulationResult:
    """Train one classifier on data drawn from `task` in dimension d, and measure it.

    The readout minimises (1/n1) sum l(<w, f_i> + b; y_i) + (ridge/2) ||w||^2, bias unpenalised. With schedule "joint"
    attention descends on the same with (q, w, b) together, over all n = (alpha0 + alpha1) d bags: `training.steps` steps of
    plain gradient descent from zero with constant rates, (q, w, b) <- (q, w, b) - (eta_q, eta_w, eta_b) * gradient, the
    run of `joint_trajectory`.

    Parameters
    ----------
    task : Task
        What the data is.
    training : Training
        How it is learned.
    d : int or None
        Dimension of a token, at least 2; None takes that of the noise, the covariance or the signal.
    seed : int
        All randomness of the trial comes from it.
    model : str
        "attention" and "elementwise" get their query from two gradient steps on D0, their readout from D1; "pooled" and
        "vectorized" learn from D1 alone. "heads:H" is H attention heads side by side under one readout, each with a query from
        two steps on its own n0/H bags of D0; `cosine` and `overlap` have one entry per head, "q1" to "qH". A mechanism of
        one's own goes by the name it was registered under (`register_mechanism`).
    sampler : str, optional
        "reduced" (exact in law, fast) or "tensor" (every token is drawn). The default is "reduced" in Gaussian noise and
        "tensor", the only one, in any other.
    activation : str or callable
        Of the elementwise model: a name or a function, see `activations`.
    equal_samples : bool
        Give pooled and vectorized n0 + n1 samples (models with a query have used D0 already).
    test_samples : int
        Also count errors on that many fresh bags (tensor sampler only). In other noise than Gaussian, where the test is
        counted anyway, the number of its bags.
    chunk : int, optional
        Bags the tensor sampler draws at a time; changes memory use, never a result.
    device : str
        "numpy"; "auto": an accelerator for features and readout if JAX has one, else NumPy; "gpu" or "cpu": JAX there. JAX
        draws other numbers of the same law. Reduced sampler and schedule "staged" only, and not for the vectorized model.
    test_task : Task or mapping, optional
        What the trained classifier is tested on, or the fields in which that differs from `task`; for the vectorized model
        with bags of the same length.
    test_sharpness : float, optional
        k = beta ||q|| at test time, for models with a query; the trained one by default.
    test_bias_shift : float
        Added to the trained bias at test time.
    noise : str, callable, Noise, Bags or what `Bags` takes, optional
        What tokens are made of besides the signal, white Gaussian noise by default; see `noise.noise_of`. In other noise than
        Gaussian the test is counted: on 10,000 bags where there is no end to the noise, else on the bags that were held
        out, and every one of them as it is and with the signal planted.
    covariance : array (d, d) or (d,), Spectrum or str, optional
        Gaussian noise of that covariance: a matrix, its eigenvalues, a `theory.Spectrum`, which has a signal of its own, or
        "power:a", eigenvalues proportional to j^-a with mean 1.
    signal : array (d,), optional
        The signal's direction xi, of any length; a random one by default. In the coordinates of the noise as it is standardised
        (see `noise.RealNoise`), or of the covariance.
    signals : Signals, int or array (J, dimension), optional
        Several signals, of which a positive bag carries one or more (`theory.Signals.of`), for "heads:H" and the sampler
        "tensor". `overlap` and `cosine` then have an entry per signal, "w:1" and "q1:1" for the first.

    Returns
    -------
    SimulationResult
        Where a test option is given, its measures on fresh bags (and `sampled_error`) are those of the test, all other
        fields those of the training; `trained` and `tested` say what the two were.

    Raises
    ------
    ValueError
        If the arguments do not go together, or D0 or D1 holds fewer than two bags or only one class.

    Warns
    -----
    NotConvergedWarning
        If the readout's solver did not reach a minimum (`converged` is then False).
    """
    if (heads := heads_of(model)) is not None:
        options = (equal_samples, test_samples, noise, covariance, signal, device != "numpy", chunk)
        if any(option is not None and option is not False and option != 0 for option in options):
            raise ValueError(
                f"model {model!r} takes none of equal_samples, test_samples, noise, covariance, signal, chunk, device"
            )
        several = None if signals is None else Signals.of(signals)
        sampler = sampler or ("reduced" if several is None else "tensor")
        d, seed = check_size(d, seed, sampler)  # type: ignore[arg-type]
        if several is not None:
            task.require_plain("several signals")
            several.check(task.only_kind("several signals").sparsity)
            if sampler != "tensor":
                raise ValueError("several signals need every token: use sampler 'tensor', not 'reduced'")
        there = deployment_of("attention", task, test_task, test_sharpness, test_bias_shift)
        fields = simulate_heads(task, training, d, seed, heads, sampler, there, several)
        return _warned(SimulationResult(model=model, sampler=sampler, d=d, seed=seed, **fields))
    if signals is not None:
        raise ValueError(f"signals are served by the model 'heads:H' ('heads:1' is attention), not by {model!r}")
    with_query = check_model(model, SIMULATED).has_query
    sigma = weighting_of(model, activation)
    world = world_of(noise, covariance, signal, d)
    sampler = sampler or world.sampler
    d, seed = check_size(world.dimension(d), seed, sampler)
    test_samples = whole_number("test_samples", test_samples, 0)
    deployment = deployment_of(model, task, test_task, test_sharpness, test_bias_shift)
    for used in {task, task if deployment is None else deployment.task}:
        Mechanism(model).check(used)
        world.check_task(used)
    schedule = training.schedule
    world.check(sampler, schedule, model, device)
    if sampler == "reduced" and test_samples:
        raise ValueError("test_samples needs full bags: use sampler 'tensor', not 'reduced'")
    if schedule == "joint" and sigma is not None:
        raise ValueError(f"schedule 'joint' trains the softmax query: use model 'attention', not {model!r}")
    n0, n1 = _sample_counts(training, d, with_query, equal_samples)
    _check_affordable(task, d, max(n0, n1), model)
    trial = _trial_class(device, model, sampler, schedule, world)
    return _warned(trial(task, training, d, seed, model, sigma, n0, n1, chunk, world).run(test_samples, deployment))


def _warned(result: SimulationResult) -> SimulationResult:
    """The result; with a warning that points at the caller of `simulate` where its readout did not converge."""
    if not result.converged:
        warnings.warn(
            f"the training did not converge (stopped by {result.stopped!r}, relative gradient {result.gradient_norm:.1e}): "
            "its numbers are those of where it stopped",
            NotConvergedWarning,
            stacklevel=3,
        )
    return result


def _check_affordable(task: Task, d: int, n: int, model: str) -> None:
    """Refuse what no machine would finish, before anything is drawn."""
    longest = task.longest
    held = max(n * d * (longest if model == "vectorized" else 1), n, d)
    if held > MOST_FEATURES:
        raise ValueError(
            f"{n:,} bags in dimension {d:,} are too many to simulate: their features would take {8e-9 * held:,.0f} GB, "
            f"and at most {8e-9 * MOST_FEATURES:,.0f} GB are held"
        )
    if longest > MOST_TOKENS_IN_A_BAG or n * longest > MOST_TOKENS:
        raise ValueError(
            f"{n:,} bags of {longest:,} tokens are too many to simulate: a bag may have {MOST_TOKENS_IN_A_BAG:,} tokens and "
            f"all bags together {MOST_TOKENS:,}"
        )


def _sample_counts(training: Training, d: int, with_query: bool, equal_samples: bool) -> tuple[int, int]:
    """(n0, n1): bags of the two steps, 0 for models without a query, and bags of the readout."""
    n0 = sample_count("alpha0", training.alpha0, d) if with_query else 0
    if training.schedule == "reuse":
        return n0, sample_count("alpha0", training.alpha0, d)
    if training.schedule == "joint" and with_query:
        n = sample_count("alpha0 + alpha1", training.alpha0 + training.alpha1, d)
        return n, n
    n1 = sample_count("alpha1", training.alpha1, d)
    return n0, n1 + (round(training.alpha0 * d) if equal_samples and not with_query else 0)


def _trial_class(device: str, model: str, sampler: str, schedule: str, world: World) -> type[_Trial]:
    """The trial class for the sampler, the schedule, the noise and the device, JAX's or NumPy."""
    chosen: type[_Trial] = _TensorTrial if sampler == "tensor" else _ReducedTrial
    if world.spectrum is not None and sampler == "reduced":
        return _ColouredTrial
    if sampler == "reduced" and schedule == "reuse" and has_query(model):
        chosen = _ReusedTrial
    found = None if device == "numpy" else wanted_device(device)
    if found is None:
        return chosen
    if sampler != "reduced" or model == "vectorized" or schedule != "staged":
        if device == "auto":
            return chosen
        raise ValueError(
            f"device {device!r} serves the reduced sampler, the staged schedule and models other than vectorized"
        )
    return type("_PlacedTrial", (_DeviceTrial,), {"device": found})


class _Trial:
    """The stages common to both samplers; subclasses draw, and say where the special directions are."""

    sampler: str
    device: Any = None  # of JAX, where features and readout live; None: NumPy

    def __init__(self, task, training, d, seed, model, sigma, n0, n1, chunk, world=WHITE):
        self.task, self.training, self.d, self.seed, self.world = task, training, d, seed, world
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
                signal=self.world.signal,
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
        if test_samples and self.world.noise is None:
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
            noise=self.world.name,
            **({} if deployment is None else deployment.record(self.task, sharpness)),
        )


class _ReducedTrial(_Trial):
    """Features come in coordinates whose first axes are the special directions."""

    sampler = "reduced"

    def take_steps(self) -> SimulatedSteps:
        return two_steps(self.task, self.training, self.d, self.seed)

    def features(self) -> tuple[Any, np.ndarray]:
        bags = draw_bags(self.task, self.n1, self.seed, "0" if self.training.schedule == "reuse" else "1")
        return self.mechanism.draw(bags, self.d, self.seed), bags.labels

    def special(self, w: np.ndarray) -> np.ndarray:
        return w[: self.mechanism.special_count(self.task)]


class _ReusedTrial(_ReducedTrial):
    """The readout learns from the very bags that gave the query: about n0 (3 L + d) numbers are drawn instead of n0 L d."""

    def take_steps(self) -> SimulatedSteps:
        self.bags = ImplicitBags(self.task, self.n0, draw_signal(self.seed, self.d), self.seed, "0")
        return implicit_steps(self.bags, self.training)

    def features(self) -> tuple[np.ndarray, np.ndarray]:
        assert self.steps is not None
        return self.bags.attended(self.training.beta * self.steps.query, self.sigma), self.bags.labels

    def special(self, w: np.ndarray) -> np.ndarray:
        return self.special_of_vectors(w)


class _DeviceTrial(_ReducedTrial):
    """The reduced trial with its features and readout on a JAX device (query models and pooled)."""

    def features(self) -> tuple[Any, np.ndarray]:
        from .samplers.jax_reduced import place_features

        bags = draw_bags(self.task, self.n1, self.seed, "1")
        leading, scale = self.mechanism.draw_leading(bags, self.seed)
        return place_features(leading, scale, self.d, self.seed, self.device), bags.labels


class _ColouredTrial(_Trial):
    """Coloured Gaussian noise without tokens, in the eigenbasis of its covariance: about n (L + d) numbers are drawn."""

    sampler = "reduced"

    def prepare(self) -> None:
        self.signal, self.root = self.world.directions(self.seed, self.d)

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


class _TensorTrial(_Trial):
    """Every token is drawn."""

    sampler = "tensor"

    def prepare(self) -> None:
        self.signal, self.root = self.world.directions(self.seed, self.d)
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
            dealt = self.world.deal(self.seed, self.d, self.demands)
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
        dealt = self.world.deal(self.seed, self.d, self.demands)
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
        if self.world.spectrum is not None:
            query = None if self.steps is None else self.query_at(test)
            bias = readout.bias + test.bias_shift
            return coloured_measures(test.task, readout.w, bias, self.signal, self.root, query, self.sigma)
        if self.world.noise is None:
            return super().measures(readout, special, test)
        # The same test bags twice, without and with the signal.
        scores = {}
        demands = {**self.demands, "_test": Demand(self.test_samples or None, test.task.longest)}
        for label in (-1.0, 1.0):
            count, noise = self.world.deal(self.seed, self.d, demands)["_test"]
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
        data = self.data(test.task, count, "_test", self.world.deal(self.seed, self.d, demands)["_test"][1])
        return float(np.mean(self.scores(data, readout, test) * data.truth <= 0.0))

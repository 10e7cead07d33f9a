"""`simulate`: check what one trial is asked for, choose who runs it, and say where its training did not converge."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

from .._core.devices import wanted_device
from .._core.validation import whole_number
from ..activations import DEFAULT_ACTIVATION
from ..deployment import deployment_of
from ..laws.signals import Signals
from ..models import SIMULATED, check_model, has_query, heads_of, weighting_of
from ..results import NotConvergedWarning
from ..task import Task
from ..training import Training
from .heads import simulate_heads
from .mechanism import Mechanism
from .samplers.labels import sample_count
from .steps import check_size
from .token_source import TokenSource, token_source
from .trial_reduced import ColouredTrial, DeviceTrial, ReducedTrial, ReusedTrial
from .trial_result import SimulationResult
from .trial_stages import Trial
from .trial_tensor import TensorTrial

# What a trial may ask for. Features: 64 GB of numbers, more than most machines have. Tokens: one bag's are held at a time, in
# about ten arrays (5 GB at the limit), and drawing them all at the other limit takes about an hour.
MOST_FEATURES, MOST_TOKENS_IN_A_BAG, MOST_TOKENS = 8 * 10**9, 5 * 10**7, 10**11


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
    source = token_source(noise, covariance, signal, d)
    sampler = sampler or source.sampler
    d, seed = check_size(source.dimension(d), seed, sampler)
    test_samples = whole_number("test_samples", test_samples, 0)
    deployment = deployment_of(model, task, test_task, test_sharpness, test_bias_shift)
    for used in {task, task if deployment is None else deployment.task}:
        Mechanism(model).check(used)
        source.check_task(used)
    schedule = training.schedule
    source.check(sampler, schedule, model, device)
    if sampler == "reduced" and test_samples:
        raise ValueError("test_samples needs full bags: use sampler 'tensor', not 'reduced'")
    if schedule == "joint" and sigma is not None:
        raise ValueError(f"schedule 'joint' trains the softmax query: use model 'attention', not {model!r}")
    n0, n1 = _sample_counts(training, d, with_query, equal_samples)
    _check_affordable(task, d, max(n0, n1), model)
    trial = _trial_class(device, model, sampler, schedule, source)
    return _warned(trial(task, training, d, seed, model, sigma, n0, n1, chunk, source).run(test_samples, deployment))


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


def _trial_class(device: str, model: str, sampler: str, schedule: str, source: TokenSource) -> type[Trial]:
    """The trial class for the sampler, the schedule, the noise and the device, JAX's or NumPy."""
    chosen: type[Trial] = TensorTrial if sampler == "tensor" else ReducedTrial
    if source.spectrum is not None and sampler == "reduced":
        return ColouredTrial
    if sampler == "reduced" and schedule == "reuse" and has_query(model):
        chosen = ReusedTrial
    found = None if device == "numpy" else wanted_device(device)
    if found is None:
        return chosen
    if sampler != "reduced" or model == "vectorized" or schedule != "staged":
        if device == "auto":
            return chosen
        raise ValueError(
            f"device {device!r} serves the reduced sampler, the staged schedule and models other than vectorized"
        )
    return type("_PlacedTrial", (DeviceTrial,), {"device": found})

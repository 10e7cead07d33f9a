"""`simulate`: check the arguments of one trial, choose what runs it, and warn where its training did not converge."""

from __future__ import annotations

import warnings
from typing import Any

from .._core.devices import wanted_device
from ..classifiers import SIMULATED, Classifier, check_model
from ..deployment import Deployment, deployment_of
from ..results import NotConvergedWarning
from ..task import Task, Tokens
from ..training import Training
from .heads import ReducedHeadsTrial, TensorHeadsTrial
from .readout import FeatureMap
from .samplers.drawn_bags import check_affordable, check_size, sample_count
from .token_source import TokenSource, token_source
from .trajectory import descent_numbers
from .trial import ColouredTrial, ReducedTrial, ReusedTrial, SimulationResult, TensorTrial, Trial


def simulate(
    task: Task,
    training: Training,
    d: int | None,
    seed: int,
    model: str = "attention",
    *,
    tokens: Tokens | None = None,
    deployment: Deployment | None = None,
    sampler: str | None = None,
) -> SimulationResult:
    """Train one classifier on data drawn from `task` in dimension d, and measure it.

    The readout minimises (1/n1) sum l(<w, f_i> + b; y_i) + (ridge/2) ||w||^2, bias unpenalised. With schedule "joint"
    attention descends on the same with (q, w, b) together, over all n = (alpha0 + alpha1) d bags: `training.steps` steps of
    plain gradient descent from zero with constant rates, (q, w, b) <- (q, w, b) - (eta_q, eta_w, eta_b) * gradient, the
    run of `joint_trajectory`.

    Parameters
    ----------
    task, training : Task, Training
        What the data is, and how it is learned.
    d : int or None
        Dimension of a token, at least 2; None takes that of the noise, the covariance or the signal.
    seed : int
        Where all randomness of the trial comes from.
    model : str
        "attention" and "elementwise" get their query from two gradient steps on D0, their readout from D1; "pooled" and
        "vectorized" learn from D1 alone. "elementwise" has the logistic sigmoid, "elementwise:relu" and so on another
        activation (`register_activation` for your own). "heads:H" is H attention heads side by side under one readout, each
        with a query from two steps on n0/H bags of D0; `cosine` and `overlap` have one entry per head, "q1" to "qH".
        Other classifiers go by the name given to `register_classifier`.
    tokens : Tokens, optional
        What tokens are made of, white Gaussian noise by default. In noise that is not Gaussian the test is counted: on 10,000
        bags of noise that can be drawn without limit, else on the held-out bags, each of them as it is and with the signal
        planted. `signals` are for "heads:H"; `overlap` and `cosine` then have an entry per signal, "w:1" and "q1:1" for the
        first.
    deployment : Deployment, optional
        What the trained classifier is tested on, where that is not what it was trained on, and fresh bags to count errors on.
    sampler : str, optional
        "reduced" (exact in law, fast) or "tensor" (every token is drawn). The default is "reduced" in Gaussian noise and
        "tensor", the only one, in any other and with several signals. "reduced:auto" has features and readout on an
        accelerator if JAX has one, "reduced:gpu" and "reduced:cpu" on JAX's device of that kind; JAX draws other numbers of
        the same law. White noise and schedule "staged" only, and not for the vectorized model and several heads.

    Returns
    -------
    SimulationResult
        With a deployment, its measures on fresh bags (and `sampled_error`) are those of the test, all other fields those of
        the training; `trained` and `tested` describe the two.

    Raises
    ------
    ValueError
        If the arguments do not go together, or D0 or D1 holds fewer than two bags or only one class.

    Warns
    -----
    NotConvergedWarning
        If the readout's solver did not reach a minimum (`converged` is then False).
    """
    Task.require(task)
    Training.require(training)
    chosen = check_model(model, (*SIMULATED, "heads"))
    source = token_source(tokens, d)
    sampler, _, device = str(sampler or source.sampler).partition(":")
    d, seed = check_size(source.dimension(d), seed, sampler)
    test = deployment_of(deployment, model, task)
    samples = 0 if deployment is None else deployment.samples
    for used in {task, task if test is None else test.bags}:
        _check_task(used, chosen, source)
    source.check(sampler, training.schedule, chosen)
    if sampler == "reduced" and samples:
        raise ValueError("samples of a deployment need full bags: use sampler 'tensor', not 'reduced'")
    _check_schedule(training.schedule, chosen)
    counts = _sample_counts(training, d, chosen)
    kind = _trial_class(chosen, sampler, training.schedule, source)
    placed = _device_for(device, kind, chosen, training.schedule, source)
    held = _numbers_held(kind, task, training, d, chosen, counts, placed is None)
    drawn = counts[1] if sampler == "reduced" and training.schedule == "staged" else max(counts)
    check_affordable(max(counts), task.longest, d, held, drawn)
    trial = kind(task, training, d, seed, chosen, counts, source)
    trial.device = placed
    result = trial.run(test, samples)
    if not result.converged:
        warnings.warn(
            f"the training did not converge (stopped by {result.stopped!r}, relative gradient {result.gradient_norm:.1e}): "
            "its numbers are those of the point where it stopped",
            NotConvergedWarning,
            stacklevel=2,
        )
    return result


def _check_task(task: Task, chosen: Classifier, source: TokenSource) -> None:
    """Raise ValueError where bags that differ are not served."""
    source.check_task(task)
    if chosen.heads is None:
        FeatureMap(chosen.name).check(task)
    else:
        task.require_plain("several heads")


def _check_schedule(schedule: str, chosen: Classifier) -> None:
    if chosen.heads is not None and schedule != "staged":
        raise ValueError(f"several heads are trained by the schedule 'staged', not {schedule!r}")
    if schedule == "joint" and chosen.weighting is not None:
        raise ValueError(f"schedule 'joint' trains the softmax query: use model 'attention', not {chosen.name!r}")


def _numbers_held(
    trial: type[Trial], task: Task, training: Training, d: int, chosen: Classifier, counts: tuple[int, int], host: bool
) -> float:
    """About how many numbers one trial holds at once: a dozen per bag, some vectors, the tokens of a bag, features twice."""
    (n0, n1), length = counts, task.longest
    held = 12.0 * (n0 + n1) + 8.0 * d + 10.0 * length * (d if trial.sampler == "tensor" else 1)
    if training.schedule == "joint" and n0:
        return held + descent_numbers(trial.sampler, n0 * length, d, 2, training.steps)
    width = d * (length if chosen.name == "vectorized" else chosen.heads or 1)
    if (
        trial is ReducedTrial and host
    ):  # with fewer bags than dimensions features come in a basis of as many coordinates
        width = min(width, n1 + length)
    if trial is ReusedTrial:
        held += 8.0 * n0 * length  # the products kept for the bags
    return held + 2.0 * n1 * width


def _sample_counts(training: Training, d: int, chosen: Classifier) -> tuple[int, int]:
    """(n0, n1): bags of the two steps, 0 for models without a query, and bags of the readout."""
    if chosen.heads is not None:
        per_head = sample_count("alpha0 per head", training.alpha0 / chosen.heads, d)
        return chosen.heads * per_head, sample_count("alpha1", training.alpha1, d)
    n0 = sample_count("alpha0", training.alpha0, d) if chosen.has_query else 0
    if training.schedule == "reuse":
        return n0, sample_count("alpha0", training.alpha0, d)
    if training.schedule == "joint" and chosen.has_query:
        n = sample_count("alpha0 + alpha1", training.alpha0 + training.alpha1, d)
        return n, n
    n1 = sample_count("alpha1", training.alpha1, d)
    return n0, n1 + (round(training.alpha0 * d) if training.equal_samples and not chosen.has_query else 0)


def _trial_class(chosen: Classifier, sampler: str, schedule: str, source: TokenSource) -> type[Trial]:
    """What runs the trial."""
    if chosen.heads is not None:
        return TensorHeadsTrial if sampler == "tensor" else ReducedHeadsTrial
    if sampler == "tensor":
        return TensorTrial
    if source.spectrum is not None:
        return ColouredTrial
    return ReusedTrial if schedule == "reuse" and chosen.has_query else ReducedTrial


def _device_for(device: str, trial: type[Trial], chosen: Classifier, schedule: str, source: TokenSource) -> Any | None:
    """The device of JAX's that features and readout live on; None for NumPy."""
    placed = wanted_device(device) if device else None
    if trial is ReducedTrial and schedule == "staged" and chosen.name != "vectorized" and source.white:
        return placed
    if placed is not None and device != "auto":
        raise ValueError(
            f"sampler 'reduced:{device}' serves white Gaussian noise, the staged schedule and models other than vectorized "
            "and heads"
        )
    return None

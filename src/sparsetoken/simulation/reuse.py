"""The schedule "reuse": the readout learns from the bags that gave the query, drawn without their tokens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..task import Task
from ..training import Training
from .samplers.implicit import ImplicitBags
from .samplers.labels import sample_count
from .samplers.tensor import draw_signal
from .steps import SimulatedSteps, check_size, summarise


def reused_features(
    task: Task, training: Training, d: int, seed: int, activation: Callable[[Any], Any] | None = None
) -> tuple[SimulatedSteps, np.ndarray, np.ndarray]:
    """Two gradient steps on D0 and the attended features of the same bags: (steps, features (n0, d), labels).

    Exact in law at every d; about n0 (3 L + d) numbers are drawn instead of n0 L d. The steps are those of `steps`, with
    `signal` and `query` in the features' coordinates. The readout, which minimises (1/n0) sum l(<w, f_i> + b; y_i) +
    (ridge/2) ||w||^2, is the caller's.

    Parameters
    ----------
    task : Task
        What the data is.
    training : Training
        alpha0, loss, rates and beta are used.
    d, seed : int
        Dimension and seed of the trial.
    activation : callable, optional
        Of the elementwise model; None for softmax.

    Returns
    -------
    tuple
        The two steps, the features and the labels.
    """
    d, seed = check_size(d, seed, "reduced")
    bags = ImplicitBags(task, sample_count("alpha0", training.alpha0, d), draw_signal(seed, d), seed, "0")
    steps = implicit_steps(bags, training)
    return steps, bags.attended(training.beta * steps.query, activation), bags.labels


def implicit_steps(bags: ImplicitBags, training: Training) -> SimulatedSteps:
    """The two gradient steps of `steps`, on bags that answer products."""
    loss, y, n, length = training.loss_function, bags.labels, bags.count, bags.length
    c = loss.slope(np.zeros(n), y)
    means = np.broadcast_to((c / (n * length))[:, None, None], (n, length, 1))
    w1 = -training.eta_w * bags.pull(means)[:, 0]
    b1 = -training.eta_b * float(c.mean())
    fields = bags.fields(w1[:, None])[..., 0]
    mean = fields.mean(axis=1)
    h = loss.slope(mean + b1, y)
    weights = h[:, None] * (fields - mean[:, None]) / (n * length)
    q2 = -training.eta_q * training.beta * bags.pull(weights[..., None])[:, 0]
    return summarise(w1, b1, q2, bags.signal, n, training.beta)

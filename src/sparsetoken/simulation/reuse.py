"""The two gradient steps of the schedule "reuse", on bags that are used again and drawn without their tokens."""

from __future__ import annotations

import numpy as np

from ..training import Training
from .samplers.implicit import ImplicitBags
from .steps import SimulatedSteps, summarise


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

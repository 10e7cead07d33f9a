"""The two gradient steps of the schedule "reuse", on bags that are used again and drawn without their tokens."""

from __future__ import annotations

import numpy as np

from ..training import Training
from .samplers.implicit_bags import ImplicitBags
from .steps import SimulatedSteps, summarise


def implicit_steps(bags: ImplicitBags, training: Training) -> SimulatedSteps:
    """The two gradient steps of `steps`, on bags that answer products."""
    loss, y, n = training.loss_function, bags.labels, bags.count
    c = loss.slope(np.zeros(n), y)
    means = [np.repeat((c[which] / (n * L))[:, None, None], L, axis=1) for which, _, L in bags.groups]
    w1 = -training.eta_w * bags.pull(means)[:, 0]
    b1 = -training.eta_b * float(c.mean())
    weights = []
    for (which, _, L), fields in zip(bags.groups, bags.fields(w1[:, None])):
        mean = fields.mean(axis=1, keepdims=True)
        h = loss.slope(mean[:, 0, 0] + b1, y[which])
        weights.append(h[:, None, None] * (fields - mean) / (n * L))
    q2 = -training.eta_q * training.beta * bags.pull(weights)[:, 0]
    return summarise(w1, b1, q2, bags.signal, n, training.beta)

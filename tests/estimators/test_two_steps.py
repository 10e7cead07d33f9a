"""The two gradient steps of the estimators, against finite differences of the loss."""

from __future__ import annotations

import numpy as np

from sparsetoken import Bags, Task, Training
from sparsetoken.estimators.paper.two_steps import Steps, pooled_tokens, two_gradient_steps
from sparsetoken.losses import get_loss
from sparsetoken.simulation.samplers import TensorData
from sparsetoken.simulation.two_steps import steps_on
from tests.helpers import planted_bags


def test_two_steps_are_the_gradients_of_the_mean_loss():
    bags, labels, _ = planted_bags(13, n=15, d=4, ragged=True)
    data, signs = Bags(bags), np.where(labels == 1, 1.0, -1.0)
    loss, weights = get_loss("logistic"), np.random.default_rng(0).random(15) + 0.5
    found = two_gradient_steps(data, pooled_tokens(data), signs, weights[None, :], loss, eta_w=0.7, eta_b=0.3)
    steps = Steps(*(part[0] for part in found))
    p = weights / weights.sum()

    def objective(q, w, b):
        total = 0.0
        for bag, y, share in zip(bags, signs, p):
            a = np.exp(bag @ q)
            total += share * loss.value((a / a.sum()) @ bag @ w + b, y)
        return total

    zero, h = np.zeros(4), 1e-5
    for k, e in enumerate(np.eye(4)):
        slope = (objective(zero, h * e, 0) - objective(zero, -h * e, 0)) / (2 * h)
        np.testing.assert_allclose(steps.readout[k], -0.7 * slope, rtol=1e-6, atol=1e-9)
        w, b = steps.readout, steps.bias
        slope = (objective(h * e, w, b) - objective(-h * e, w, b)) / (2 * h)
        np.testing.assert_allclose(steps.query[k], -slope, rtol=1e-5, atol=1e-9)
    slope = (objective(zero, zero, h) - objective(zero, zero, -h)) / (2 * h)
    np.testing.assert_allclose(steps.bias, -0.3 * slope, rtol=1e-6)


def test_auto_is_that_of_the_simulation():
    data = TensorData(Task(6, 1, 4.0, 0.1), 90, 12, 0, "0")
    tokens = np.concatenate([block for _, block in data.blocks()])
    bags, weights = Bags(list(tokens)), np.ones((1, 90))
    found = two_gradient_steps(bags, pooled_tokens(bags), data.labels, weights, get_loss("logistic"))
    steps = steps_on(data, Training(eta_b="auto", eta_q=1.0))
    np.testing.assert_allclose(found.readout[0], steps.readout, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.query[0], steps.query, rtol=1e-9, atol=1e-12)

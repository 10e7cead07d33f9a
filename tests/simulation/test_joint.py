"""Joint training: descent on query, readout and bias together."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from sparsetoken import Task, Training
from sparsetoken._core.arrays import softplus
from sparsetoken.simulation.joint import descend
from sparsetoken.simulation.samplers import TensorData

TASK = Task(length=6, sparsity=2, strength=3.0, prevalence=0.4)
TRAINING = Training(alpha0=2.0, alpha1=3.0, eta_q=12.0, ridge=1e-2)


@pytest.mark.parametrize("loss", ["logistic", "square", "smoothed_hinge"])
def test_joint_descent_descends(loss):
    training = TRAINING.but(schedule="joint", loss=loss)
    parts = [TensorData(TASK, 60, 20, 4, dataset) for dataset in "01"]
    found = descend(parts, training)
    assert np.all(np.diff(found.objective) < 0)
    assert found.objective[-1] < 0.7 * found.objective[0]
    assert found.stopped in ("decrease", "precision", "iterations") and np.any(found.query)
    # The objective, written out anew.
    x = np.concatenate([part.flattened().reshape(60, 6, 20) for part in parts])
    y = np.concatenate([part.labels for part in parts])
    p = np.exp(training.beta * x @ found.query)
    z = np.einsum("nl,nl->n", p / p.sum(axis=1, keepdims=True), x @ found.readout) + found.bias
    value = training.loss_function.value(z, y).mean() + 0.5 * training.ridge * found.readout @ found.readout
    assert found.objective[-1] == pytest.approx(value, rel=1e-9)
    np.testing.assert_allclose(found.outputs, z, atol=1e-9)


def test_joint_descent_follows_the_gradient():
    """One iteration, by finite differences: the direction is minus the gradient scaled by the rates."""
    training = Training(schedule="joint", eta_w=0.8, eta_b=0.4, eta_q=3.0)
    data = TensorData(TASK, 40, 6, 4, "0")
    x, y = data.flattened().reshape(40, 6, 6), data.labels

    def value(v):
        q, w, b = v[:6], v[6:12], v[12]
        p = np.exp(x @ q)
        z = np.einsum("nl,nl->n", p / p.sum(axis=1, keepdims=True), x @ w) + b
        return softplus(-y * z).mean() + 0.5 * training.ridge * w @ w

    import sparsetoken.simulation.joint as joint

    path = [np.zeros(13)]
    for iterations in (1, 2):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(joint, "MAX_ITERATIONS", iterations)
            found = descend([data], training)
        path.append(np.concatenate([found.query, found.readout, [found.bias]]))
    rates = np.repeat([3.0, 0.8, 0.4], [6, 6, 1])
    for here, there in pairwise(path):
        gradient = np.array([(value(here + e) - value(here - e)) / 2e-6 for e in 1e-6 * np.eye(13)])
        moved, expected = there - here, -rates * gradient
        step = moved @ expected / (expected @ expected)
        np.testing.assert_allclose(moved, step * expected, atol=1e-7)

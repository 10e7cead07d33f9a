"""Training the readout on the query's own bags: the reduced form against the tensor."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from sparsetoken import Task, Training, simulate
from sparsetoken.activations import softmax
from sparsetoken.simulation.samplers.implicit_bags import ImplicitBags
from sparsetoken.simulation.two_steps import steps_on

LEVEL = 1e-3
TASK = Task(length=5, sparsity=2, strength=3.0, prevalence=0.4)
# Few bags and a strong query: what the readout gains from bags the query has seen before is then large.
TRAINING = Training(alpha0=1.0, eta_q=30.0, eta_w=1.5, ridge=1e-2, schedule="reuse")
D = 20


def numbers(seed: int, activation: str | None, sampler: str) -> list[float]:
    """What a trial gives."""
    model = "attention" if activation is None else f"elementwise:{activation}"
    found = simulate(TASK, TRAINING, D, seed, model=model, sampler=sampler)
    steps = found.steps
    assert steps is not None and (found.n0, found.n1) == (D, D) and found.converged
    query = [steps.cosine["w"], steps.cosine["q"], steps.norm["q"]]
    return [*query, found.norm_w, found.bias, found.cosine["w"], found.test_error, found.train_loss]


@pytest.mark.parametrize("activation", [None, "relu"])
def test_reused_bags_have_the_law_of_the_tensor(activation):
    one = np.array([numbers(seed, activation, "reduced") for seed in range(120)])
    other = np.array([numbers(10_000 + seed, activation, "tensor") for seed in range(120)])
    values = [stats.ks_2samp(a, b).pvalue for a, b in zip(one.T, other.T, strict=True)]
    assert min(values) * len(values) > LEVEL


def test_fresh_features_would_be_caught():
    """The comparison sees the difference between bags that were used before and bags that were not."""
    staged = TRAINING.but(schedule="staged", alpha1=TRAINING.alpha0)
    one = [simulate(TASK, staged, D, seed).train_loss for seed in range(120)]
    other = [numbers(seed, None, "reduced")[-1] for seed in range(120)]
    assert stats.ks_2samp(one, other).pvalue < LEVEL


def test_features_agree_with_the_products_before_them():
    """Given the answers of the steps, <f, w1> and <f, q2> are no longer random."""
    signal = np.eye(D)[0]
    bags = ImplicitBags(TASK, 30, signal, 3, "0")
    steps = steps_on(bags, TRAINING)
    (fields,) = bags.fields(np.stack([steps.readout, steps.query], axis=1))
    features = bags.attended(steps.query)
    p = softmax(fields[..., 1])
    assert features @ steps.readout == pytest.approx((p * fields[..., 0]).sum(axis=1), abs=1e-10)
    assert features @ steps.query == pytest.approx((p * fields[..., 1]).sum(axis=1), abs=1e-10)

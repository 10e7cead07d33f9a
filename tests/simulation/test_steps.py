from __future__ import annotations

import math

import numpy as np
import pytest

from sparsetoken import Square, Task, Training
from sparsetoken.simulation.samplers import TensorData
from sparsetoken.simulation.two_steps import steps_on, two_steps
from sparsetoken.theory.alignment import alignment

TASK = Task(length=10, sparsity=3, strength=6.0, prevalence=0.2)
TRAINING = Training(eta_w=0.5, eta_b=0.5, eta_q=0.5)
NAMES = ("cosine_w", "overlap_w", "norm_w", "bias", "overlap_q", "norm_q", "cosine_q", "sharpness")


@pytest.mark.parametrize("loss", ["logistic", "square", "smoothed_hinge"])
def test_steps_are_gradients(loss):
    """w1, b1 and q2 by automatic differentiation of the loss of the attention classifier itself."""
    import jax
    import jax.numpy as jnp

    training = Training(loss, eta_w=0.7, eta_b=0.3, eta_q=1.9, beta=1.4)
    task = Task(5, 2, 2.0, 0.4)
    data = TensorData(task, 31, 8, 1, "0")  # an odd number: with classes of equal size b1 would be 0, whatever its sign
    x, y = data.collect(lambda tokens: tokens), data.labels
    found = steps_on(data, training)
    with jax.enable_x64(True):
        x, y = jnp.asarray(x), jnp.asarray(y)

        def mean_loss(q, w, b):
            p = jax.nn.softmax(training.beta * x @ q, axis=1)
            return training.loss_function.value(jnp.einsum("nl,nld,d->n", p, x, w) + b, y).mean()

        zero = jnp.zeros(8)
        gq, gw, gb = jax.grad(mean_loss, (0, 1, 2))(zero, zero, 0.0)
        assert not np.any(gq)
        w1, b1 = -training.eta_w * gw, -training.eta_b * gb
        q2 = -training.eta_q * jax.grad(mean_loss)(zero, w1, b1)
    np.testing.assert_allclose(found.readout, w1, rtol=1e-11, atol=1e-14)
    assert found.bias == pytest.approx(float(b1), rel=1e-12)
    np.testing.assert_allclose(found.query, q2, rtol=1e-11, atol=1e-14)
    for name, vector in (("w", found.readout), ("q", found.query)):
        assert found.overlap[name] == pytest.approx(vector @ data.signal)
        assert found.norm[name] == pytest.approx(np.linalg.norm(vector))
        assert found.cosine[name] == pytest.approx(vector @ data.signal / np.linalg.norm(vector))
    assert found.sharpness == pytest.approx(training.beta * np.linalg.norm(found.query))


@pytest.mark.parametrize("alpha0", [0.5, 4.0])
def test_reference_cosines(reference_cases, alpha0):
    """Ten trials at d = 1000: the mean is within three standard errors of the limit (a correct one fails 1 in 50)."""
    case = next(
        c["expect"]
        for c in reference_cases
        if c["function"] == "theory.alignment" and c["task"]["sparsity"] == 3 and c["training"]["alpha0"] == alpha0
    )
    found = [two_steps(TASK, TRAINING.but(alpha0=alpha0), 1000, seed).cosine["q"] for seed in range(10)]
    error = np.std(found, ddof=1) / math.sqrt(10)
    assert abs(np.mean(found) - case["cos_q"]) < 3 * error


@pytest.mark.parametrize(
    ("task", "training"),
    [
        (TASK, TRAINING.but(alpha0=0.5)),
        (TASK, TRAINING.but(alpha0=4.0)),
        (Task(), Training("square", eta_q=1.0)),
        (Task(40, 2, 2.0, 0.1), Training(alpha0=3.0, eta_b=0.0, eta_q=1.0)),  # anti-aligned
    ],
)
def test_large_dimension_meets_theory(task, training):
    """At d = 40,000 every number is within 5 standard errors of its limit; errors from 12 trials.

    Finite-size bias is O(1/d), a hundredth of an error here. A correct program fails one of the 32 comparisons with
    probability 32 P(|t_11| > 5) = 1.3%.
    """
    limit = alignment(task, training).to_row()
    found = [two_steps(task, training, 40_000, seed).to_row() for seed in range(12)]
    for name in NAMES:
        values = np.array([row[name] for row in found])
        error = values.std(ddof=1) / math.sqrt(len(values))
        assert abs(values.mean() - limit[name]) <= 5 * error + 1e-12, name


def test_a_million_dimensions():
    found = two_steps(TASK, TRAINING.but(alpha0=4.0), 1_000_000, 0)
    limit = alignment(TASK, TRAINING.but(alpha0=4.0)).to_row()
    assert found.n0 == 4_000_000
    for name in NAMES:  # fluctuations are of relative order 1/sqrt(d) = 0.001
        assert found.to_row()[name] == pytest.approx(limit[name], rel=0.01), name


def test_edges():
    one_token = two_steps(Task(1, 1), Training(), 50, 0)
    assert one_token.norm["q"] == 0.0 and one_token.cosine["q"] == 0.0 and one_token.norm["w"] > 0
    assert one_token.query_cosine == 1.0
    frozen = two_steps(Task(), Training(eta_w=0.0), 50, 0)
    assert frozen.norm == frozen.cosine == {"w": 0.0, "q": 0.0}
    assert two_steps(Task(), Training(eta_w=0.0), 50, 0, "tensor").norm["q"] == 0.0
    first, second = two_steps(Task(), Training(), 50, 3), two_steps(Task(), Training(), 50, 3)
    assert np.array_equal(first.query, second.query)
    assert two_steps(Task(), Training(), 50, 4).cosine != first.cosine


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"d": 1}, "d must be a whole number from 2"),
        ({"seed": 0.5}, "seed must be a whole number >= 0"),
        ({"training": Training(alpha0=0.001)}, "alpha0"),
    ],
)
def test_bad_input(change, message):
    good = {"task": Task(), "training": Training(), "d": 100, "seed": 0}
    with pytest.raises(ValueError, match=message):
        two_steps(**(good | change))


@pytest.mark.parametrize("sampler", ["reduced", "tensor"])
def test_fields_add_up_to_what_the_readout_is_made_of(sampler):
    """w1 = -(eta_w/n0) sum_i c_i xbar_i, so the fields <w1, xbar_i> weighted by c_i add up to -(n0/eta_w) ||w1||^2."""
    seen = []

    class Watched(Square):
        def slope(self, z, y):
            seen.append((np.array(z), np.array(y)))
            return super().slope(z, y)

    training = Training(loss=Watched(), alpha0=3.0, eta_w=2.0, eta_b=0.7)
    found = two_steps(Task(length=4, sparsity=2, strength=3.0), training, 5, 3, sampler)
    (_, labels), *fields = seen
    c = -labels  # slopes of the square loss at zero
    outputs = np.concatenate([z for z, _ in fields]) - found.bias
    assert c @ outputs == pytest.approx(-len(c) / 2.0 * found.readout @ found.readout, rel=1e-9)

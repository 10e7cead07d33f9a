"""Products and eigenvectors without tokens: the law of bags in full, and the limit of `theory.recovery`."""

import numpy as np
import pytest

from sparsetoken import Task
from sparsetoken.simulation import learn_directions
from sparsetoken.theory import recovery

METHODS = (
    "products:0",
    "products:1",
    "products:2",
    "fresh_products:2",
    "products:3",
    "eigenvector",
    "positive_eigenvector",
)


def cosines(task, alpha, d, seeds, sampler="reduced", methods=METHODS):
    runs = [learn_directions(task, alpha, d, seed, methods, sampler).cosine for seed in seeds]
    values = np.array([[run[method] for method in methods] for run in runs])
    return values.mean(0), values.std(0, ddof=1) / len(runs) ** 0.5


@pytest.mark.parametrize(
    "task, alpha",
    [
        (Task(length=12, sparsity=2, strength=2.5, prevalence=0.3), 1.5),
        (Task(length=6, sparsity=1, strength=3.0, prevalence=0.3), 0.8),  # fewer positive tokens than dimensions
    ],
)
def test_the_law_is_that_of_full_bags(task, alpha):
    d, seeds = 40, range(150)
    reduced, reduced_error = cosines(task, alpha, d, seeds)
    full, full_error = cosines(task, alpha, d, seeds, "tensor")
    z = (reduced - full) / np.hypot(reduced_error, full_error)
    assert np.abs(z).max() < 3.5, dict(zip(METHODS, z))
    assert full_error.max() < 0.03


def test_no_token_is_drawn_and_theory_is_met():
    """A million tokens per data set at hardly any cost; what is left of finite size is below 0.03 at d = 400."""
    task, alpha = Task(length=1000, sparsity=1, strength=14.0, prevalence=0.4), 2.0
    measured, error = cosines(task, alpha, 400, range(24))
    limits = np.array([recovery(task, alpha, method).cosine for method in METHODS])
    assert (np.abs(measured - limits) < 0.03 + 3 * error).all(), measured - limits
    assert error.max() < 0.02


def test_bags_in_full_give_the_products_as_they_are_written():
    task, d, seed = Task(length=5, sparsity=1, strength=2.0, prevalence=0.4), 20, 3
    from sparsetoken.simulation.samplers.tensor import TensorData

    data = TensorData(task, 30, d, seed, "0")
    tokens = data.collect(lambda t: t)
    a = (data.labels > 0) - (data.labels > 0).mean()
    centred = tokens - tokens.mean(1, keepdims=True)
    M = np.einsum("i,ilj,ilk->jk", a, centred, tokens)
    w1 = a @ tokens.mean(1)
    found = learn_directions(task, 1.5, d, seed, ("products:2", "eigenvector"), "tensor").directions
    second, top = M @ M @ w1, np.linalg.eigh(M)[1][:, -1]
    assert found["products:2"] == pytest.approx(second / np.linalg.norm(second), abs=1e-10)
    assert abs(found["eigenvector"] @ top) == pytest.approx(1.0, abs=1e-8)
    assert found["eigenvector"] @ w1 > 0


@pytest.mark.parametrize("arguments", [{"task": Task(length=1)}, {"methods": ("products",)}, {"sampler": "dice"}])
def test_refusals(arguments):
    given = {"task": Task(), "alpha": 2.0, "d": 10, "seed": 0} | arguments
    with pytest.raises(ValueError):
        learn_directions(**given)

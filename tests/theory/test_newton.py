"""Newton's method in blocks against the one traced in a piece, and against finite differences."""

import importlib
from functools import partial

import jax
import numpy as np
import pytest

from sparsetoken import Task, Training
from sparsetoken._core.precision import in_double_precision
from sparsetoken.losses import get_loss
from sparsetoken.theory import alignment, attention_law, law_from_samples
from sparsetoken.theory.continuation import first_guess
from sparsetoken.theory.equations import TOLERANCE, grid_size
from sparsetoken.theory.newton import BLOCK, SMALL_BLOCK, blocks_of, evaluate_blocks, newton_in_blocks, newton_traced

LOSS = get_loss("logistic")


def drawn_law(count: int):
    rng = np.random.default_rng(3)
    spike, rest = rng.standard_normal(count), rng.random((count, 2))
    rows = np.stack([spike, 0.3 * rest[:, 0], 0.5 + rest[:, 1]], axis=1)
    return law_from_samples(rows + [1.0, 0.0, 0.0], rows, 0.3)


LAWS = {
    "one block": lambda: attention_law(Task(), 0.9, 1.5).at(256)[1],
    "four blocks": lambda: attention_law(Task(prevalence=0.2), 0.5, 2.0).at(1024)[1],
    "padded": lambda: drawn_law(3000).at(0)[1],
    "padded small ones": lambda: drawn_law(600).at(0)[1],
}
BLOCKS = {  # how many, of how many nodes, and what is left over
    "four blocks": (4, BLOCK, 0),
    "padded": (1, BLOCK, 376),
    "padded small ones": (2, SMALL_BLOCK, 12),
}


@pytest.mark.parametrize("name", BLOCKS)
@in_double_precision
def test_same_solution_as_the_traced_method(name):
    nodes = LAWS[name]()
    blocks = blocks_of(nodes)
    count, size, left_over = BLOCKS[name]
    assert len(blocks) == count and nodes.T.shape[1] % size == left_over
    assert all(part.T.shape == (16, size) for part, _ in blocks)
    x0 = first_guess(LOSS, 3.0, 0.1, nodes)
    ours = newton_in_blocks(LOSS, nodes, x0, 3.0, 0.1)
    traced = jax.jit(partial(newton_traced, LOSS, grid_size(nodes)))(x0, 3.0, 0.1, nodes)
    assert np.abs(ours.F).max() <= TOLERANCE
    assert np.abs(np.asarray(traced.F)).max() <= TOLERANCE
    for field, scale in (("x", 1e-7), ("J", 1e-6), ("replicate_F", 1e-6), ("replicate_loss", 1e-7)):
        np.testing.assert_allclose(getattr(ours, field), getattr(traced, field), rtol=scale, atol=scale)


@in_double_precision
def test_jacobian_is_the_derivative_of_the_residual():
    nodes = LAWS["one block"]()
    blocks = blocks_of(nodes)
    x, step = np.array([0.7, 0.4, -0.3, -1.1, 0.8]), 1e-5

    def at(z):
        return evaluate_blocks(LOSS, z, 2.0, 0.05, blocks)

    for j in range(5):
        shift = step * np.eye(5)[j]
        up, down = at(x + shift), at(x - shift)
        change = np.append(up.F - down.F, up.replicate_loss.mean() - down.replicate_loss.mean()) / (2 * step)
        np.testing.assert_allclose(at(x).J[:, j], change, rtol=1e-6, atol=1e-7)


@in_double_precision
def test_a_start_without_a_finite_residual_is_no_solution():
    nodes = LAWS["one block"]()
    found = newton_in_blocks(LOSS, nodes, np.array([0.0, 0.0, 800.0, 0.0, 800.0]), 2.0, 0.1)
    assert not np.abs(found.F).max() <= TOLERANCE


def test_capacity_does_not_stall_in_rounding(monkeypatch):
    module = importlib.import_module("sparsetoken.theory.capacity")
    evaluations = []
    objective = module._objective
    monkeypatch.setattr(module, "_objective", lambda *given: evaluations.append(1) or objective(*given))
    steps = alignment(Task(), Training())
    found = module.capacity(attention_law(Task(), steps.cosine["q"], steps.sharpness))
    # Three levels of refinement, Newton's method on each: halving steps that rounding makes look bad took 134.
    assert len(evaluations) <= 30
    assert found.residual < 1e-10

"""Newton's method for the fixed point: blocks of nodes, the Jacobian, and starts that lead nowhere."""

import importlib

import numpy as np
import pytest
from scipy.special import ndtri

from sparsetoken import Task, Training, theory
from sparsetoken._core.devices import in_double_precision
from sparsetoken.losses import get_loss
from sparsetoken.theory import alignment, attention_law, law_from_samples
from sparsetoken.theory.fixed_point.plain import PLAIN, PlainReadout, quick_readout
from sparsetoken.theory.fixed_point.prox_averages import BLOCK, evaluate

LOSS = get_loss("logistic")


def drawn_law(count: int):
    rng = np.random.default_rng(3)
    spike, rest = rng.standard_normal(count), rng.random((count, 2))
    rows = np.stack([spike, 0.3 * rest[:, 0], 0.5 + rest[:, 1]], axis=1)
    return law_from_samples(rows + [1.0, 0.0, 0.0], rows, 0.3)


@pytest.mark.parametrize(
    ("law", "points", "count", "size"),
    [
        (attention_law(Task(), 0.9, 1.5), 256, 1, BLOCK),
        (attention_law(Task(prevalence=0.2), 0.5, 2.0), 1024, 4, BLOCK),
        (drawn_law(6000), 0, 2, BLOCK),
        (drawn_law(600), 0, 1, 128),
    ],
    ids=["one block", "four blocks", "padded", "few"],
)
@in_double_precision
def test_blocks_add_up_to_the_averages_over_all_nodes(law, points, count, size):
    """F3 times D is the mean slope at the prox, by a sum over all nodes in NumPy."""
    problem = PlainReadout(law, 3.0, 0.1, LOSS)
    blocks = problem.blocks(points)
    assert len(blocks) == count and all(part.y.shape == (16, size) for part in blocks)
    x = np.array([0.7, 0.4, -0.3, -1.1, 0.8])
    found = evaluate(PLAIN, LOSS, x, blocks, problem.constants(0.1))
    nodes = law.at(points)[1]
    total = np.zeros((2, 16))
    for stratum in range(5):
        zeta = ndtri((stratum + nodes.offset) / 5)
        mean = x[0] * nodes.T + x[1] * nodes.S + x[3]
        h = mean + nodes.kappa * np.sqrt(x[1] ** 2 + np.exp(2 * x[2])) * zeta
        slope = LOSS.slope(LOSS.prox(h, np.exp(x[4]) * nodes.kappa**2, nodes.y), nodes.y)
        total += [(nodes.weight * slope / 5).sum(1), (nodes.weight * nodes.kappa**2 * slope**2 / 5).sum(1)]
    level, square = total.mean(1)
    assert found.F[2] == pytest.approx(level / np.sqrt(square), rel=1e-9)


@in_double_precision
def test_jacobian_is_the_derivative_of_the_residual():
    problem = PlainReadout(attention_law(Task(correlation=0.2), 0.9, 1.5), 2.0, 0.05, LOSS)
    blocks, x, step = problem.blocks(256), np.array([0.7, 0.4, -0.3, -1.1, 0.8]), 1e-5

    def at(z):
        return evaluate(PLAIN, LOSS, z, blocks, problem.constants(0.05))

    for j in range(5):
        shift = step * np.eye(5)[j]
        up, down = at(x + shift), at(x - shift)
        change = np.append(up.F - down.F, up.replicate_loss.mean() - down.replicate_loss.mean()) / (2 * step)
        np.testing.assert_allclose(at(x).J[:, j], change, rtol=1e-6, atol=1e-7)


@in_double_precision
def test_a_start_without_a_finite_residual_is_no_solution():
    problem = PlainReadout(attention_law(Task(), 0.9, 1.5), 2.0, 0.1, LOSS)
    solver = problem.solver(256, problem.blocks(256))
    assert not solver.newton(np.array([0.0, 0.0, 800.0, 0.0, 800.0]), 0.1).converged
    wild = theory.WarmStart(np.array([0.0, 0.0, 800.0, 0.0, 800.0]))
    known, found = (theory.erm(problem.law, 2.0, 0.1, accuracy=0.1, warm_start=start) for start in (None, wild))
    assert found.test_error == pytest.approx(known.test_error, rel=1e-7)


@pytest.mark.parametrize("loss", ["logistic", "square"])
def test_a_quick_readout_is_erm_on_the_same_draws(loss):
    law = attention_law(Task(), 0.9, 1.5).on_draws(64)
    known = theory.erm(law, 2.0, 1e-3, loss)
    quick = quick_readout(law, 2.0, 1e-3, loss, near=known.fixed_point + 0.1)
    np.testing.assert_allclose(quick.x, known.fixed_point, rtol=1e-6)
    assert quick.test_error == pytest.approx(known.test_error, rel=1e-6)
    assert quick.standard_error == pytest.approx(known.standard_error, rel=1e-5) and known.points == 0


def test_capacity_does_not_stall_in_rounding(monkeypatch):
    module = importlib.import_module("sparsetoken.theory.capacity")
    evaluations = []
    objective = module._shortfall
    monkeypatch.setattr(module, "_shortfall", lambda *given: evaluations.append(1) or objective(*given))
    steps = alignment(Task(), Training())
    found = theory.capacity(attention_law(Task(), steps.cosine["q"], steps.sharpness))
    # Three levels of refinement, Newton's method on each: halving steps that rounding makes look bad took 134.
    assert len(evaluations) <= 30
    assert found.residual < 1e-10


@pytest.mark.parametrize("ridge", [1e-70, 1e-100])
def test_the_least_ridges_are_reached_step_by_step(ridge):
    """One step from 1e-10 does not find them."""
    law = attention_law(Task(), 0.9, 2.0).on_draws(64)
    least, larger = (quick_readout(law, 2.0, r, get_loss("logistic"), None) for r in (ridge, 1e-60))
    assert least.x[2] > larger.x[2]  # the readout grows like log(1/ridge): the bags are separable
    with pytest.raises(theory.ConvergenceError, match=r"at alpha=1e\+08, .*: Newton's method came down to ridge \d"):
        quick_readout(attention_law(Task(), 1.0, 25.0).on_draws(64), 1e8, 1e-3, get_loss("logistic"), None)

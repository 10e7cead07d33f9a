"""Newton's method for small problems, against the one for large ones."""

from dataclasses import replace

import numpy as np
import pytest

from sparsetoken.losses import get_loss
from sparsetoken.solvers import erm, small
from sparsetoken.solvers.erm import fit_erm
from sparsetoken.solvers.numpy_features import NumpyFeatures
from sparsetoken.solvers.problem import Problem


def cloud(n: int, d: int, shift: float = 1.0, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < 0.4, 1.0, -1.0)
    x = rng.standard_normal((n, d))
    x[:, 0] += shift * (y + 1)
    return x, y


@pytest.mark.parametrize("loss", ["logistic", "smoothed_hinge", "exponential"])
@pytest.mark.parametrize(("n", "d", "ridge", "shift"), [(60, 5, 1.0, 0.5), (200, 12, 1e-3, 2.5), (90, 40, 1e-2, 1.0)])
@pytest.mark.parametrize("fit_bias", [True, False])
def test_small_problems_have_the_same_minimiser(monkeypatch, loss, n, d, ridge, shift, fit_bias):
    x, y = cloud(n, d, shift)
    weights = np.random.default_rng(1).uniform(0.5, 2.0, n)
    found = fit_erm(x, y, ridge, loss, weights, tolerance=1e-9, fit_bias=fit_bias)
    assert found.converged and found.gradient_norm <= 1e-9 and found.factorisations == found.iterations <= 30
    monkeypatch.setattr(erm, "is_small", lambda problem: False)
    other = fit_erm(x, y, ridge, loss, weights, tolerance=1e-9, fit_bias=fit_bias)
    np.testing.assert_allclose(found.coef, other.coef, rtol=1e-6, atol=1e-8)
    assert found.bias == pytest.approx(other.bias, abs=1e-7) and found.value == pytest.approx(other.value, rel=1e-10)


def problem(n: int = 80, d: int = 4, ridge: float = 0.1, loss: str = "logistic") -> Problem:
    x, y = cloud(n, d)
    return Problem(NumpyFeatures(x), y, np.full(n, 1 / n), ridge, get_loss(loss), True)


def test_what_is_small():
    assert small.is_small(problem())
    assert not small.is_small(problem(ridge=0.0)) and not small.is_small(problem(n=4, d=9))
    assert not small.is_small(problem(n=3000, d=30))
    given = problem()
    single = NumpyFeatures(given.features.on_host().astype(np.float32))
    assert not small.is_small(replace(given, features=single))


def test_what_does_not_converge_is_left_to_the_other_method():
    """A tolerance below rounding, from a start far away with an exponential loss: no answer rather than a poor one."""
    given = problem()
    assert small.solve_small(given, np.zeros(4), 0.0, 1e-18) is None
    steep = problem(loss="exponential")
    assert small.solve_small(steep, np.full(4, 1e6), 0.0, 1e-6) is None
    x, y = cloud(80, 4)
    start = (np.full(4, 1e6), 0.0)
    assert fit_erm(x, y, 0.1, "exponential", start=start, tolerance=1e-6).converged
    assert fit_erm(x, y, 0.1, tolerance=1e-18).stopped == "precision"
    hasty = fit_erm(x, y, 0.1, tolerance=1e-9, max_iterations=1)
    assert hasty.stopped == "iterations" and not hasty.converged


def test_a_start_at_the_minimum_takes_no_step():
    x, y = cloud(100, 6)
    first = fit_erm(x, y, 0.05, tolerance=1e-8)
    again = fit_erm(x, y, 0.05, start=first, tolerance=1e-7)
    assert again.iterations == 0 and again.coef == pytest.approx(first.coef)

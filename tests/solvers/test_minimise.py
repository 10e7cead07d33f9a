from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sparsetoken.losses import get_loss
from sparsetoken.solvers import minimise as module
from sparsetoken.solvers.minimise import Solution, lbfgs, line_search, minimise
from sparsetoken.solvers.objective import Features, FitProblem


def problem(n: int = 80, d: int = 12, ridge: float = 1e-2, loss: str = "logistic", seed: int = 0) -> FitProblem:
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < 0.4, 1.0, -1.0)
    x = rng.standard_normal((n, d))
    x[:, 0] += y
    return FitProblem(Features(x), y, np.full(n, 1 / n), ridge, get_loss(loss))


def dense_hessian(p: FitProblem, curvature: np.ndarray) -> np.ndarray:
    a = np.hstack([p.features.on_host(), np.ones((len(curvature), 1))])
    return a.T @ (curvature[:, None] * a) + p.ridge * np.diag([1.0] * p.features.shape[1] + [0.0])


@pytest.mark.parametrize("loss", ["logistic", "smoothed_hinge"])
@pytest.mark.parametrize("shape", [(80, 12), (12, 40), (45, 40)])
def test_directions_solve_the_newton_system(shape, loss):
    p = problem(*shape, loss=loss)
    point = p.at(np.linspace(-0.3, 0.3, shape[1] + 1))
    curvature = p.curvatures(point.z)
    assert loss == "logistic" or 0 < np.count_nonzero(curvature) < shape[0]
    expected = np.linalg.solve(dense_hessian(p, curvature), -point.g)
    np.testing.assert_allclose(p.newton_direction(point), expected, rtol=1e-7, atol=1e-9)


def test_line_search_finds_the_minimum_along_a_direction():
    p = problem()
    start = p.at(np.zeros(13))
    for length in (1e-3, 1.0, 300.0):
        v = -length * start.g
        t = line_search(p, start, v, p.features.times(v[:-1]) + v[-1])
        assert abs(p.at(t * v).g @ v) <= 0.1 * abs(start.g @ v)
    assert line_search(p, start, start.g, p.features.times(start.g[:-1]) + start.g[-1]) == 0.0


@pytest.mark.parametrize("loss", ["logistic", "smoothed_hinge", "exponential"])
@pytest.mark.parametrize("shape", [(300, 90), (70, 200)])
def test_both_methods_have_the_same_minimiser(loss, shape):
    p = problem(*shape, loss=loss)
    start = p.at(np.zeros(shape[1] + 1))
    by_newton = module.newton(p, Solution(start, module.GOING), 1e-9)
    by_lbfgs = lbfgs(p, start, 1e-6, impatient=False)
    both = minimise(p, start, 1e-9)
    assert by_newton.stopped in ("gradient", "precision") and by_newton.iterations < by_lbfgs.iterations
    assert both.stopped in ("gradient", "precision")
    np.testing.assert_allclose(by_newton.point.v, both.point.v, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(by_lbfgs.point.v, both.point.v, rtol=1e-3, atol=1e-5)


def test_lbfgs_gives_up_where_it_is_slow():
    """Nearly separable data and a tiny ridge: it is far from done when Newton's method takes over."""
    p = problem(n=400, d=150, ridge=1e-7)
    start = p.at(np.zeros(151))
    assert lbfgs(p, start, 1e-7, impatient=True).stopped == module.GOING
    found = minimise(p, start, 1e-7)
    assert found.stopped == "gradient" and found.iterations < lbfgs(p, start, 1e-7, impatient=False).iterations / 3


def test_newton_costs_what_bends():
    """Samples on straight parts of the loss have no share in a Newton step, nor in its price."""
    p = problem(n=500, d=100, loss="smoothed_hinge")
    assert module.newton_price(p, 0.5 * p.labels) > 3 * module.newton_price(
        p, np.where(np.arange(500) < 50, 0.5, 2.0) * p.labels
    )


def test_stalling_is_not_convergence(monkeypatch):
    """A method whose directions are useless must be reported, unless the gradient is at rounding level."""
    p = problem()
    exact = minimise(p, p.at(np.zeros(13)), 1e-12).point
    monkeypatch.setattr(module, "line_search", lambda *_: 0.0)
    assert minimise(p, p.at(np.zeros(13)), 1e-8).stopped == "stalled"
    assert minimise(p, exact, 1e-18).stopped == "precision"


def test_flags_raised_by_a_blas_kernel_are_no_warning():
    """A kernel's discarded lanes may raise the flag of an invalid operation; the solution is as without it."""

    class Flagging(Features):
        def both_products(self, *args):
            np.subtract(np.inf, np.inf)
            return super().both_products(*args)

    plain = problem()
    flagging = replace(plain, features=Flagging(plain.features.on_host()))
    found, expected = (minimise(p, p.at(np.zeros(13)), 1e-8) for p in (flagging, plain))
    assert found.stopped == "gradient" == expected.stopped
    np.testing.assert_array_equal(found.point.v, expected.point.v)

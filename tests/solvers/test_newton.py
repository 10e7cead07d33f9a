from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sparsetoken.losses import get_loss
from sparsetoken.solvers import newton
from sparsetoken.solvers.newton import conjugate_gradients, lbfgs, line_search, minimise
from sparsetoken.solvers.problem import Features, FitProblem


def problem(n: int = 80, d: int = 12, ridge: float = 1e-2, loss: str = "logistic", seed: int = 0) -> FitProblem:
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < 0.4, 1.0, -1.0)
    x = rng.standard_normal((n, d))
    x[:, 0] += y
    return FitProblem(Features(x), y, np.full(n, 1 / n), ridge, get_loss(loss), True)


def dense_hessian(p: FitProblem, curvature: np.ndarray) -> np.ndarray:
    a = np.hstack([p.features.on_host(), np.ones((len(curvature), 1))])
    return a.T @ (curvature[:, None] * a) + p.ridge * np.diag([1.0] * p.features.shape[1] + [0.0])


@pytest.mark.parametrize("factorised", [False, True])
def test_conjugate_gradients_solve_the_newton_system(factorised):
    p = problem()
    point = p.at(np.zeros(13))
    c = p.curvatures(point.z)
    inverse = p.features.inverse_hessian(p.weights * 0.2, p.ridge, True) if factorised else lambda r: r
    v, dz, products = conjugate_gradients(p, c, inverse, point.g, 1e-10, 100)
    np.testing.assert_allclose(v, np.linalg.solve(dense_hessian(p, c), -point.g), rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(dz, p.features.times(v[:-1]) + v[-1], atol=1e-10)
    assert products < 30


@pytest.mark.parametrize("shape", [(80, 12), (12, 40)])
def test_an_exact_factor_takes_one_product(shape):
    p = problem(*shape)
    point = p.at(np.zeros(shape[1] + 1))
    c = p.curvatures(point.z)
    assert conjugate_gradients(p, c, p.features.inverse_hessian(c, p.ridge, True), point.g, 1e-8, 100)[2] == 1


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
def test_both_methods_have_the_same_minimiser(monkeypatch, loss, shape):
    p = problem(*shape, loss=loss)
    start = p.at(np.zeros(shape[1] + 1))
    both = minimise(p, start, 1e-9, 500)
    monkeypatch.setattr(newton, "FEW_UNKNOWNS", 10**6)
    newton_alone = minimise(p, start, 1e-9, 500)
    lbfgs_alone = lbfgs(p, start, 1e-6, 2000, 2000)
    assert both.stopped in ("gradient", "precision") and newton_alone.iterations < both.iterations
    np.testing.assert_allclose(newton_alone.point.v, both.point.v, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(lbfgs_alone.point.v, both.point.v, rtol=1e-3, atol=1e-5)


def test_lbfgs_gives_up_where_it_is_slow():
    """Nearly separable data and a tiny ridge: after its patience it is far from done, and Newton's method goes on."""
    p = problem(n=400, d=150, ridge=1e-7)
    start = p.at(np.zeros(151))
    assert lbfgs(p, start, 1e-7, 2000, 10).stopped == newton.GOING
    assert minimise(p, start, 1e-7, 2000).stopped == "gradient"


def test_stalling_is_not_convergence(monkeypatch):
    """A method whose directions are useless must say so, unless the gradient is at rounding level."""
    p = problem()
    exact = minimise(p, p.at(np.zeros(13)), 1e-12, 50).point
    monkeypatch.setattr(newton, "line_search", lambda *_: 0.0)
    assert minimise(p, p.at(np.zeros(13)), 1e-8, 50).stopped == "stalled"
    assert minimise(p, exact, 1e-18, 50).stopped == "precision"


def test_flags_raised_by_a_blas_kernel_are_no_warning():
    """A kernel's discarded lanes may raise the flag of an invalid operation; the solution is as without it."""

    class Flagging(Features):
        def both_products(self, *args):
            np.subtract(np.inf, np.inf)
            return super().both_products(*args)

    plain = problem()
    flagging = replace(plain, features=Flagging(plain.features.on_host()))
    found, expected = (minimise(p, p.at(np.zeros(13)), 1e-8, 100) for p in (flagging, plain))
    assert found.stopped == "gradient" == expected.stopped
    np.testing.assert_array_equal(found.point.v, expected.point.v)

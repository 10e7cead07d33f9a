from __future__ import annotations

import numpy as np
import pytest

from sparsetoken.losses import get_loss
from sparsetoken.solvers.linear_systems import Cholesky, InCoordinates, Scaling, conjugate_gradients
from sparsetoken.solvers.newton_cg import FactorPolicy, NewtonCG
from sparsetoken.solvers.numpy_features import NumpyFeatures
from sparsetoken.solvers.problem import Problem


def problem(n: int = 80, d: int = 12, ridge: float = 1e-2, loss: str = "logistic", seed: int = 0) -> Problem:
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < 0.4, 1.0, -1.0)
    x = rng.standard_normal((n, d))
    x[:, 0] += y
    return Problem(NumpyFeatures(x), y, np.full(n, 1 / n), ridge, get_loss(loss), True)


def dense_hessian(p: Problem, curvature: np.ndarray) -> np.ndarray:
    x = p.features.on_host()
    a = np.hstack([x, np.ones((len(x), 1))])
    return a.T @ (curvature[:, None] * a) + p.ridge * np.diag([1.0] * x.shape[1] + [0.0])


@pytest.mark.parametrize("preconditioner", [Scaling, lambda p: Cholesky(p, p.weights * 0.2)])
def test_conjugate_gradients_solve_the_newton_system(preconditioner):
    p = problem()
    point = p.at(np.zeros(12), 0.0)
    c = p.curvatures(point.z)
    v, dz, products = conjugate_gradients(p, c, preconditioner(p), point.g, 1e-10, 100)
    np.testing.assert_allclose(v, np.linalg.solve(dense_hessian(p, c), -point.g), rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(dz, p.features.times(v[:-1]) + v[-1], atol=1e-10)
    assert products < 30


def test_an_exact_factor_takes_one_product():
    p = problem()
    point = p.at(np.zeros(12), 0.0)
    c = p.curvatures(point.z)
    assert conjugate_gradients(p, c, Cholesky(p, c), point.g, 1e-8, 100)[2] == 1


def test_a_singular_hessian_still_has_a_preconditioner():
    p = problem(ridge=0.0)
    x = p.features.on_host()
    singular = Problem(NumpyFeatures(np.hstack([x, x, 0 * x])), p.labels, p.weights, 0.0, p.loss, True)
    found = Cholesky(singular, p.weights * 0.25).solve(np.arange(37.0))
    assert np.all(np.isfinite(found))


def test_preconditioner_of_n_coordinates():
    p = problem(n=10, d=25)
    coordinates = p.features.coordinates()
    small = Problem(coordinates.features, p.labels, p.weights, p.ridge, p.loss, True)
    small.features.be_exact()
    c = p.weights * 0.2
    r = np.append(p.features.transposed_times(np.arange(10.0)), 1.0)  # in the samples' span, as gradients are
    found = InCoordinates(coordinates, Cholesky(small, c)).solve(r)
    np.testing.assert_allclose(dense_hessian(p, c) @ found, r, atol=1e-8)


def test_policy_factorises_when_products_have_cost_as_much():
    policy = FactorPolicy(price=10.0)
    assert not policy.due(5.0)
    policy.note(6)
    assert not policy.due(5.0) and policy.limit(5.0) == 4
    policy.note(5)
    assert policy.due(5.0)
    assert not policy.due(0.0)  # one more system of 5 products is cheaper than a factor
    policy.factorised()
    assert not policy.due(5.0)
    policy.demand()
    assert policy.due(0.0)


def test_line_search_finds_the_minimum_along_a_direction():
    p = problem()
    method = NewtonCG(p, 1e-8, 50)
    method._move_to(np.zeros(12), 0.0)
    g = method.point.g
    for length in (1e-3, 1.0, 300.0):
        v = -length * g
        dz = p.features.times(v[:-1]) + v[-1]
        t = method.line_search(v, dz)
        after = p.at(t * v[:-1], t * v[-1])
        assert abs(after.g @ v) <= 0.1 * abs(g @ v)
    assert method.line_search(g, p.features.times(g[:-1]) + g[-1]) == 0.0


def test_a_factorisation_that_is_not_allowed_is_asked_for():
    p = problem(n=200, d=60, ridge=1e-6)
    found = NewtonCG(p, 1e-12, 50, price=2.0, may_factorise=False).solve(np.zeros(60), 0.0)
    assert found.stopped == "factor" and found.factorisations == 0


def test_stalling_is_not_convergence():
    """A method whose directions are useless must say so, unless the gradient is at rounding level."""
    method = NewtonCG(problem(), 1e-8, 50)
    method.line_search = lambda v, dz: 0.0  # type: ignore[method-assign]
    assert method.solve(np.zeros(12), 0.0).stopped == "stalled"
    exact = NewtonCG(problem(), 1e-12, 50).solve(np.zeros(12), 0.0)
    method._move_to(exact.point.w, exact.point.b)
    assert method.reason_to_give_up() == "precision"

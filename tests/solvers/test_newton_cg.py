from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sparsetoken.losses import get_loss
from sparsetoken.solvers import linear_systems
from sparsetoken.solvers.linear_systems import Cholesky, InCoordinates, Scaling, Secants, conjugate_gradients
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


def test_policy_counts_steps_without_a_system():
    policy = FactorPolicy(price=10.0)
    for _ in range(12):
        policy.note_step(0.5)  # as systems of 3.3 products each that leave a tenth
    assert policy.last == pytest.approx(np.log(10) / np.log(2))
    assert policy.due(8.0) and not policy.due(2.0)
    policy.note_step(1.2)  # a gradient that grows promises no end
    assert policy.due(0.0)
    policy.factorised()
    assert not policy.due(8.0)


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
    method.line_search = lambda v, dz, t=1.0: 0.0  # type: ignore[method-assign]
    method.quasi_newton_step = lambda secants: False  # type: ignore[method-assign]
    assert method.solve(np.zeros(12), 0.0).stopped == "stalled"
    exact = NewtonCG(problem(), 1e-12, 50).solve(np.zeros(12), 0.0)
    method._move_to(exact.point.w, exact.point.b)
    assert method.reason_to_give_up() == "precision"


def test_secants_reproduce_the_steps_they_were_shown():
    """On a quadratic with Hessian H and as many steps as dimensions they are its inverse, whatever they start from."""
    rng = np.random.default_rng(1)
    a = rng.standard_normal((9, 6))
    h = a.T @ a
    for inner, scaled in ((Scaling(problem()), True), (Scaling(problem()), False)):
        secants = Secants(inner, scaled)
        secants.add(np.ones(6), -np.ones(6))  # no curvature: left out
        gradient = rng.standard_normal(6)
        for _ in range(6):
            step = secants.solve(gradient)
            step *= (step @ gradient) / (step @ h @ step)  # exact line searches make the steps conjugate
            secants.add(step, h @ step)
            gradient = gradient - h @ step
            np.testing.assert_allclose(secants.solve(h @ step), step, rtol=1e-9, atol=1e-9)
        assert secants.pairs == 6
        r = rng.standard_normal(6)
        np.testing.assert_allclose(h @ secants.solve(r), r, rtol=1e-6, atol=1e-6)


def test_secants_forget_the_earlier_half(monkeypatch):
    """With a limit on pairs the later ones are kept exactly: the two loops over those pairs give the same."""
    monkeypatch.setattr(linear_systems, "MOST_PAIRS", 10)
    rng = np.random.default_rng(2)
    a = rng.standard_normal((30, 12))
    h = a.T @ a
    inner = Cholesky(problem(d=11), np.full(80, 0.01))
    for scaled in (True, False):
        secants, shown = Secants(inner, scaled), []
        for _ in range(23):
            step = rng.standard_normal(12)
            secants.add(step, h @ step)
            shown.append((step, h @ step))
        assert 5 <= secants.pairs <= 10
        kept, r = shown[-secants.pairs :], rng.standard_normal(12)
        gain = kept[-1][0] @ kept[-1][1] / (kept[-1][1] @ inner.solve(kept[-1][1])) if scaled else 1.0
        q, shares = r.copy(), []
        for step, change in reversed(kept):
            shares.append(step @ q / (step @ change))
            q -= shares[-1] * change
        q = gain * inner.solve(q)
        for (step, change), share in zip(kept, reversed(shares), strict=True):
            q += (share - change @ q / (step @ change)) * step
        np.testing.assert_allclose(secants.solve(r), q, rtol=1e-8, atol=1e-8 * np.abs(q).max())


@pytest.mark.parametrize("gain", [1e-4, 1e4])
def test_a_quasi_newton_step_of_the_wrong_length_is_mended_by_the_line_search(gain):
    p = problem()
    method = NewtonCG(p, 1e-8, 50)
    method._move_to(np.zeros(12), 0.0)
    before = method.point
    secants = Secants(Scaling(p), scaled=False)
    secants.gain = gain
    assert method.quasi_newton_step(secants) and secants.pairs == 1
    moved = np.append(method.point.w, method.point.b)
    assert abs(method.point.g @ moved) <= 0.1 * abs(before.g @ moved)
    assert p.value(method.point.z, method.point.w) < p.value(before.z, before.w)


def test_a_direction_that_leads_up_is_not_taken():
    p = problem()
    method = NewtonCG(p, 1e-8, 50)
    method._move_to(np.zeros(12), 0.0)
    before, secants = method.point, Secants(Scaling(p), scaled=False)
    method.secants, secants.gain = secants, -1.0
    assert not method.quasi_newton_step(secants)
    assert method.point is before and method.secants is None and not secants.pairs


@pytest.mark.parametrize("loss", ["logistic", "smoothed_hinge"])
def test_easy_tall_problems_take_quasi_newton_steps(loss):
    """Most of the way costs one evaluation per step: no product, no factor of its own."""
    p = problem(n=6000, d=30, ridge=1e-2, loss=loss)
    found = NewtonCG(replace(p, features=p.features.with_single_precision()), 1e-7, 50).solve(np.zeros(30), 0.0)
    assert found.stopped == "gradient" and found.products + found.factorisations < found.iterations
    exact = p.at(found.point.w, found.point.b)  # the point is judged in double precision
    assert exact.size <= 1e-7 * p.gradient_scale(exact.w)
    np.testing.assert_allclose(found.point.g, exact.g, rtol=0, atol=1e-14)


@pytest.mark.parametrize("known", [False, True])
def test_changes_in_single_precision_are_as_exact_as_they_are_small(known):
    """A step of 1e-4 from a point known exactly leaves errors of 1e-4 times single precision's, not more."""
    p = problem(n=4000, d=12)
    rough = replace(p, features=p.features.with_single_precision())
    rng = np.random.default_rng(3)
    w = rng.standard_normal(12)
    for size in (1.0, 1e-4):
        v = size * rng.standard_normal(13)
        dz = p.features.times(v[:-1]) + v[-1] if known else None
        moved, change, noise = rough.moved(rough.at(w, 0.3), v, dz)
        exact = p.at(w + v[:-1], 0.3 + v[-1])
        np.testing.assert_allclose(moved.z, exact.z, rtol=0, atol=3e-6 * size)
        np.testing.assert_allclose(change, exact.z - p.at(w, 0.3).z, rtol=0, atol=3e-6 * size)
        assert 0.0 < np.linalg.norm(moved.g - exact.g) < noise < 1e-6 * size


def test_points_are_summed_in_double_precision_before_they_are_judged():
    p = problem(n=4000, d=12)
    rough = replace(p, features=p.features.with_single_precision())
    exact = NewtonCG(p, 1e-10, 50).solve(np.zeros(12), 0.0).point
    method = NewtonCG(rough, 1e-10, 50)
    method._move_to(exact.w + 0.1, exact.b)
    step = np.append(np.full(12, -0.05), 0.0)
    method._move_by(step)
    assert method.age == 1 and method.noise > 0.0
    method._move_by(step)  # here rounding in single precision is all there is
    assert method.age == 0 and method.noise == 0.0 and method.rough
    np.testing.assert_allclose(method.point.g, exact.g, rtol=0, atol=1e-14)


def test_single_precision_that_underflows_is_left():
    """Squares of 1e-30 are beyond single precision: changes of the gradient would be lost, and are found missing."""
    p = problem(n=400, d=12)
    small = replace(p, features=NumpyFeatures(1e-30 * p.features.on_host()), ridge=1e-62, fit_bias=False)
    method = NewtonCG(replace(small, features=small.features.with_single_precision()), 1e-6, 100)
    found = method.solve(np.zeros(12), 0.0)
    assert found.stopped == "gradient" and not method.rough
    assert small.relative_gradient(small.at(found.point.w, found.point.b)) <= 1e-6


def test_flags_raised_by_a_blas_kernel_are_no_warning():
    """A kernel's discarded lanes may raise the flag of an invalid operation; the solution is as without it."""

    class Flagging(NumpyFeatures):
        def both_products(self, *args, **kwargs):
            np.subtract(np.inf, np.inf)
            return super().both_products(*args, **kwargs)

    plain = problem()
    flagging = replace(plain, features=Flagging(plain.features.on_host()))
    found, expected = (NewtonCG(p, 1e-8, 100).solve(np.zeros(12), 0.0) for p in (flagging, plain))
    assert found.stopped == "gradient" == expected.stopped
    np.testing.assert_array_equal(found.point.w, expected.point.w)

"""Many problems minimised side by side, against SciPy one by one."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize, rosen, rosen_der

from sparsetoken.solvers.minimise_together import minimise_together


def rosenbrock(x, which):
    return np.array([rosen(row) for row in x]), np.array([rosen_der(row) for row in x])


def test_curved_valleys_are_followed_to_their_ends():
    start = np.random.default_rng(0).uniform(-2.0, 2.0, (7, 4))
    found, reached = minimise_together(rosenbrock, start, 1e-14, 500)
    assert reached.all()
    for row, first in zip(found, start):
        alone = minimize(rosen, first, jac=rosen_der, method="L-BFGS-B", options={"ftol": 1e-14, "maxiter": 500})
        assert rosen(row) <= alone.fun + 1e-8


def test_problems_do_not_touch_each_other():
    """Each problem ends where it ends alone, and evaluations name the problems that are still going."""
    rng = np.random.default_rng(1)
    matrices = [np.diag(rng.uniform(0.1, 10.0**k, 5)) for k in range(4)]
    centres = rng.standard_normal((4, 5))
    asked = []

    def quadratic(x, which):
        asked.append(len(which))
        gaps = x - centres[which]
        pulled = np.array([matrices[k] @ gap for k, gap in zip(which, gaps)])
        return 0.5 * np.sum(gaps * pulled, axis=1), pulled

    together, _ = minimise_together(quadratic, np.zeros((4, 5)), 1e-15, 300)
    np.testing.assert_allclose(together, centres, atol=1e-5)
    assert asked[0] == 4 and asked[-1] < 4  # the easy ones are done first
    for k in range(4):
        alone, _ = minimise_together(lambda x, which, k=k: quadratic(x, np.array([k])), np.zeros((1, 5)), 1e-15, 300)
        np.testing.assert_array_equal(alone[0], together[k])


@pytest.mark.parametrize("iterations", [1, 3])
def test_steps_are_counted(iterations):
    _, reached = minimise_together(rosenbrock, np.full((2, 4), -1.5), 1e-14, iterations)
    assert not reached.any()


def test_a_start_at_the_minimum_stays_and_infinite_values_end():
    found, reached = minimise_together(rosenbrock, np.ones((1, 3)), 1e-10, 10)
    np.testing.assert_array_equal(found, np.ones((1, 3)))
    assert reached.all()

    def hopeless(x, which):
        return (np.full(len(x), np.inf), np.ones_like(x))

    _, reached = minimise_together(hopeless, np.zeros((2, 3)), 1e-10, 10)
    assert not reached.any()


def test_steps_into_infinity_are_shortened():
    """log(x) - like barriers: a step beyond zero has no value, and the search turns back."""

    def barrier(x, which):
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.sum(100.0 * x - np.log(x), axis=1), 100.0 - 1.0 / x

    found, reached = minimise_together(barrier, np.full((1, 2), 1.0), 1e-13, 200)
    assert reached.all()
    np.testing.assert_allclose(found, 0.01, rtol=1e-4)

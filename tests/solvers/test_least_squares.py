from __future__ import annotations

import numpy as np
import pytest

from sparsetoken.losses import Loss, Square
from sparsetoken.solvers.erm import fit_erm

SHAPES = [(200, 30), (40, 40), (30, 200)]


def data(n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    y = np.where(rng.random(n) < 0.4, 1.0, -1.0)
    x = rng.standard_normal((n, d))
    x[:, 0] += y
    return x, y


def limit_of_vanishing_ridge(x, y, p):
    """The minimiser of least norm, by the pseudo-inverse of the centred features."""
    centre, middle = p @ x, p @ y
    root = np.sqrt(p)
    w = np.linalg.pinv(root[:, None] * (x - centre), rcond=1e-12) @ (root * (y - middle))
    return w, middle - centre @ w


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("ridge", [1.0, 1e-3, 1e-6])
@pytest.mark.parametrize("weighted", [False, True])
def test_one_factorisation_is_enough(shape, ridge, weighted):
    from sklearn.linear_model import Ridge

    x, y = data(*shape)
    weight = np.random.default_rng(1).integers(0, 4, len(y)).astype(float) if weighted else np.ones(len(y))
    fit = fit_erm(x, y, ridge, "square", weight, tolerance=1e-9)
    oracle = Ridge(alpha=ridge * weight.sum(), tol=1e-12).fit(x, y, sample_weight=weight)
    np.testing.assert_allclose(fit.coef, oracle.coef_, rtol=1e-6, atol=1e-8)
    assert fit.bias == pytest.approx(oracle.intercept_, abs=1e-7)
    # The smaller the ridge, the more rounding leaves to refine with the same factor.
    assert fit.converged and fit.iterations <= {1.0: 1, 1e-3: 2, 1e-6: 3}[ridge]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("weighted", [False, True])
def test_no_ridge_is_the_limit_of_a_vanishing_one(shape, weighted):
    x, y = data(*shape)
    weight = np.random.default_rng(1).integers(1, 4, len(y)).astype(float) if weighted else np.ones(len(y))
    fit = fit_erm(x, y, 0.0, "square", weight)
    w, b = limit_of_vanishing_ridge(x, y, weight / weight.sum())
    assert fit.converged
    np.testing.assert_allclose(fit.coef, w, rtol=1e-6, atol=1e-8)
    assert fit.bias == pytest.approx(b, abs=1e-7)


@pytest.mark.parametrize("device", ["numpy", "cpu"])
@pytest.mark.parametrize("shape", SHAPES)
def test_dependent_features_without_a_ridge(shape, device):
    """Repeated samples and features: no factor exists, and the minimiser of least norm shares the weight evenly."""
    x, y = data(*shape)
    x, y = np.vstack([np.hstack([x, x, np.ones((len(x), 1))])] * 2), np.append(y, -y[::-1])
    fit = fit_erm(x, y, 0.0, "square", device=device)
    w, b = limit_of_vanishing_ridge(x, y, np.full(len(y), 1 / len(y)))
    assert fit.converged
    np.testing.assert_allclose(fit.coef, w, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(fit.coef[: shape[1]], fit.coef[shape[1] : -1], atol=1e-8)
    assert fit.bias == pytest.approx(b, abs=1e-7)


def test_features_of_very_different_sizes():
    x, y = data(100, 150)
    x *= np.geomspace(1e-4, 1e4, 150)
    assert fit_erm(x, y, 1e-3, "square").stopped == "gradient"


def test_a_loss_of_a_user_by_that_name_is_not_taken_for_it():
    class Steeper(Loss):
        name = "square"

        def value(self, z, y):
            return 2.0 * (z - y) ** 2

        def slope(self, z, y):
            return 4.0 * (z - y)

        def curvature(self, z, y):
            return 4.0 + 0.0 * z

    x, y = data(60, 5)
    mine = fit_erm(x, y, 0.4, Steeper(), tolerance=1e-9)
    np.testing.assert_allclose(mine.coef, fit_erm(x, y, 0.1, Square()).coef, rtol=1e-6)

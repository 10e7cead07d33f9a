"""Features in NumPy's memory and on a device do the same arithmetic."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from sparsetoken._core.devices import working_on
from sparsetoken.solvers import objective
from sparsetoken.solvers.objective import Features


def on_device(x: np.ndarray) -> Features:
    device = jax.devices("cpu")[0]
    with working_on(device):
        return Features(jax.device_put(x, device))


HOMES = {"numpy": Features, "jax": on_device}


@pytest.fixture(params=list(HOMES))
def home(request):
    return HOMES[request.param]


def matrix(n: int, d: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal((n, d))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_products_are_summed_in_double_precision(home, dtype, monkeypatch):
    monkeypatch.setattr(objective, "BLOCK_BYTES", 8 * 9 * 100)  # several blocks, the last one shorter
    x = matrix(710, 9).astype(dtype)
    v, r = np.arange(9.0) / 7, np.linspace(-1, 1, 710)
    exact = x.astype(np.float64)
    found = home(x)
    np.testing.assert_allclose(found.times(v), exact @ v, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(found.transposed_times(r), exact.T @ r, rtol=1e-11, atol=1e-11)
    assert found.mean_square == pytest.approx(np.mean(exact**2), rel=1e-12)
    z, pulls, sums = found.both_products(v, 0.5, lambda z, rows: r[rows] * z)
    np.testing.assert_allclose(z, exact @ v + 0.5, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(sums, exact.T @ pulls, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("uniform", [True, False])
@pytest.mark.parametrize("shape", [(60, 9), (9, 30), (12, 10)])
def test_inverse_hessian(home, uniform, shape):
    n, d = shape
    x = matrix(n, d)
    c = np.full(n, 0.4) if uniform else np.linspace(0.0, 1.0, n)
    a = np.hstack([x, np.ones((n, 1))])
    h = a.T @ (c[:, None] * a) + 0.2 * np.diag([1.0] * d + [0.0])
    r = np.linspace(-1.0, 1.0, d + 1)
    np.testing.assert_allclose(home(x).inverse_hessian(c, 0.2)(r), np.linalg.solve(h, r), rtol=1e-9, atol=1e-9)


def test_a_ridge_that_is_nothing_beside_the_features(home):
    """Woodbury's identity would lose all digits there, and the factor of order d takes its place."""
    x = matrix(9, 30) * np.geomspace(1e-6, 1e6, 30)
    a = np.hstack([x, np.ones((9, 1))])
    h = a.T @ a + 1e-6 * np.diag([1.0] * 30 + [0.0])
    r = a.T @ np.arange(9.0)
    found = home(x).inverse_hessian(np.ones(9), 1e-6)(r)
    assert np.linalg.norm(h @ found - r) < 1e-6 * np.linalg.norm(r)


def test_a_singular_hessian_has_an_inverse_all_the_same(home):
    x = matrix(30, 9)
    solve = home(np.hstack([x, x, 0.0 * x])).inverse_hessian(np.full(30, 0.25), 0.0)
    assert np.all(np.isfinite(solve(np.arange(28.0))))


def test_constant_columns_vanish_when_centred(home):
    x = matrix(50, 3) + 5.0
    x[:, 1] = 0.1
    found = home(x).centred(np.full(50, 1 / 50) @ x).on_host()
    assert not found[:, 1].any()
    np.testing.assert_allclose(found[:, [0, 2]], (x - x.mean(axis=0))[:, [0, 2]], atol=1e-12)

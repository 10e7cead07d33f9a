"""Both homes of the features do the same arithmetic."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from sparsetoken._core.devices import working_on
from sparsetoken.solvers import numpy_features
from sparsetoken.solvers.features import NotPositiveError
from sparsetoken.solvers.jax_features import JaxFeatures
from sparsetoken.solvers.numpy_features import NumpyFeatures


def on_device(x: np.ndarray, exact: bool = True) -> JaxFeatures:
    device = jax.devices("cpu")[0]
    with working_on(device):
        return JaxFeatures(jax.device_put(x, device), exact)


HOMES = {"numpy": NumpyFeatures, "jax": on_device}


@pytest.fixture(params=list(HOMES))
def home(request):
    return HOMES[request.param]


def matrix(n: int, d: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal((n, d))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_products_are_summed_in_double_precision(home, dtype):
    x = matrix(700, 9).astype(dtype)
    v, r = np.arange(9.0) / 7, np.linspace(-1, 1, 700)
    exact = x.astype(np.float64)
    found = home(x)
    np.testing.assert_allclose(found.times(v), exact @ v, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(found.transposed_times(r), exact.T @ r, rtol=1e-11, atol=1e-11)
    assert found.mean_square == pytest.approx(np.mean(exact**2), rel=1e-5)
    z, pulls, sums = found.both_products(v, 0.5, lambda z, rows: r[rows] * z)
    np.testing.assert_allclose(z, exact @ v + 0.5, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(sums, exact.T @ pulls, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("exact", [True, False])
def test_normal_product(home, exact):
    x, v, c = matrix(60, 9), np.arange(9.0), np.linspace(0, 1, 60)
    sums, dz = home(x, exact).normal_product(v, 0.5, c)
    tolerance = 1e-12 if exact else 1e-5
    np.testing.assert_allclose(dz, x @ v + 0.5, rtol=tolerance, atol=20 * tolerance)
    np.testing.assert_allclose(sums, x.T @ (c * (x @ v + 0.5)), rtol=tolerance, atol=400 * tolerance)


@pytest.mark.parametrize("exact", [True, False])
def test_blocks_change_nothing(monkeypatch, exact):
    x, v, c = matrix(61, 9), np.arange(9.0), np.linspace(0, 1, 61)
    features = NumpyFeatures(x, exact)
    whole = features.normal_product(v, 0.5, c), features.both_products(v, 0.5, lambda z, rows: c[rows] * z)
    monkeypatch.setattr(numpy_features, "LARGER_THAN_CACHE", 0)
    monkeypatch.setattr(numpy_features, "BLOCK_BYTES", 8 * 9 * 7)
    blocks = features.normal_product(v, 0.5, c), features.both_products(v, 0.5, lambda z, rows: c[rows] * z)
    for mine, other in zip(whole, blocks, strict=True):
        for a, b in zip(mine, other, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-3)
    monkeypatch.setattr(numpy_features, "GRAM_BLOCK", 1)
    np.testing.assert_allclose(features._weighted_gram(c, np.float64), x.T @ (c[:, None] * x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("fit_bias", [True, False])
@pytest.mark.parametrize("uniform", [True, False])
def test_hessian_factor(home, fit_bias, uniform):
    x = matrix(60, 9)
    c = np.full(60, 0.4) if uniform else np.linspace(0.1, 1, 60)
    a = np.hstack([x, np.ones((60, 1))])
    h = a.T @ (c[:, None] * a) + 0.2 * np.diag([1.0] * 9 + [0.0])
    if not fit_bias:
        h[-1], h[:, -1], h[-1, -1] = 0.0, 0.0, 1.0
    r = np.arange(10.0)
    np.testing.assert_allclose(home(x).hessian_factor(c, 0.2, fit_bias)(r), np.linalg.solve(h, r), rtol=1e-9, atol=1e-9)


def test_gram_factor(home):
    x, root, r = matrix(9, 30), np.linspace(0.5, 1, 9), np.arange(9.0)
    k = np.diag(root) @ x @ x.T @ np.diag(root) + 0.1 * np.eye(9)
    np.testing.assert_allclose(home(x).gram_factor(root, 0.1)(r), np.linalg.solve(k, r), rtol=1e-9, atol=1e-9)


def test_singular_matrices_are_reported(home):
    x = matrix(9, 30)
    twice = np.vstack([x, x])
    with pytest.raises(NotPositiveError):
        home(twice).gram_factor(np.ones(18), 0.0)
    with pytest.raises(NotPositiveError):
        home(np.hstack([x.T, x.T])).hessian_factor(np.ones(30), 0.0, False, least_pivot=1e-5)
    home(np.hstack([x.T, x.T])).hessian_factor(np.ones(30), 0.0, False, jitter=1e-8)


@pytest.mark.parametrize("dependent", [False, True])
def test_coordinates(home, dependent):
    x = matrix(9, 30)
    if dependent:
        x[3] = x[2]
    found = home(x).coordinates()
    w = np.linspace(-1, 1, 30)
    v = found.forward(w)
    np.testing.assert_allclose(found.features.times(v), x @ w, rtol=1e-8, atol=1e-8)  # C E w = X w
    np.testing.assert_allclose(x @ found.back(v), x @ w, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(found.forward(found.back(v)), v, atol=1e-8)


def test_constant_columns_vanish_when_centred(home):
    x = matrix(50, 3) + 5.0
    x[:, 1] = 0.1
    found = home(x).centred(np.full(50, 1 / 50) @ x).on_host()
    assert not found[:, 1].any()
    np.testing.assert_allclose(found[:, [0, 2]], (x - x.mean(axis=0))[:, [0, 2]], atol=1e-12)


def test_single_precision_is_left_when_told(home):
    x = matrix(40, 5)
    found = home(x).with_single_precision()
    assert not found.exact
    v, c = np.full(5, 1 / 3), np.ones(40)
    rough = found.normal_product(v, 0.0, c)[0]
    found.be_exact()
    fine = found.normal_product(v, 0.0, c)[0]
    assert found.exact and not np.array_equal(rough, fine)
    np.testing.assert_allclose(fine, x.T @ (x @ v), rtol=1e-12)

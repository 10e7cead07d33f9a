from __future__ import annotations

import dataclasses
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from threadpoolctl import threadpool_info

from sparsetoken.losses import LOSSES, Loss, get_loss
from sparsetoken.solvers import minimise as module
from sparsetoken.solvers.erm import ReadoutFit, fit_erm


def features(n: int, d: int, seed: int = 0, shift: float = 0.5) -> tuple[np.ndarray, np.ndarray]:
    """Two overlapping clouds of unequal spread, 40% positive."""
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < 0.4, 1.0, -1.0)
    x = rng.standard_normal((n, d)) * np.sqrt(rng.uniform(0.1, 1.0, n))[:, None]
    x[:, 0] += shift * (y + 1)
    return x, y


def gradient(x, y, w, b, ridge, loss, p=None, fit_bias=True):
    """||grad F|| / (ridge ||w||), written out anew."""
    p = np.full(len(y), 1 / len(y)) if p is None else p
    r = p * get_loss(loss).slope(x @ w + b, y)
    g = np.append(x.T @ r + ridge * w, r.sum() if fit_bias else 0.0)
    return np.linalg.norm(g) / (ridge * np.linalg.norm(w))


SHAPES = [(300, 40), (120, 100), (60, 200), (40, 41)]
RIDGES = [1e-1, 1e-3, 1e-5, 1e-8]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("ridge", RIDGES)
@pytest.mark.parametrize("loss", list(LOSSES))
def test_reaches_the_minimum(loss, ridge, shape):
    """The objective is convex: a vanishing gradient is the minimum. Separable data (n < d) included."""
    x, y = features(*shape)
    fit = fit_erm(x, y, ridge, loss, tolerance=1e-6)
    assert fit.converged
    measured = gradient(x, y, fit.coef, fit.bias, ridge, loss)
    assert measured <= 1e-6 or fit.stopped == "precision"
    assert measured <= 1e-4
    np.testing.assert_allclose(fit.gradient_norm, measured, rtol=0.1, atol=1e-8)
    z = x @ fit.coef + fit.bias
    expected = get_loss(loss).value(z, y).mean() + 0.5 * ridge * fit.coef @ fit.coef
    assert fit.value == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("ridge", [1e-1, 1e-3, 1e-5])
@pytest.mark.parametrize("weighted", [False, True])
def test_agrees_with_scikit_learn(shape, ridge, weighted):
    from sklearn.linear_model import LogisticRegression

    x, y = features(*shape)
    n = len(y)
    weight = np.random.default_rng(1).uniform(0.2, 3.0, n) if weighted else None
    total = n if weight is None else weight.sum()
    oracle = LogisticRegression(C=1 / (ridge * total), solver="newton-cholesky", tol=1e-12, max_iter=500)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # at this tolerance it reports rounding errors
        oracle.fit(x, y, sample_weight=weight)
    fit = fit_erm(x, y, ridge, sample_weight=weight, tolerance=1e-9)
    np.testing.assert_allclose(fit.coef, oracle.coef_[0], rtol=1e-5, atol=1e-6 * np.abs(oracle.coef_).max())
    assert fit.bias == pytest.approx(oracle.intercept_[0], rel=1e-5, abs=1e-6)


@pytest.mark.parametrize(
    "loss", ["exponential", "logistic:positives=9", "square:positives=0.2", "exponential:positives=5"]
)
def test_agrees_with_a_general_minimiser(loss):
    """The objective and its normalisation written out anew: a mean over samples, whatever the weights of the classes."""
    from scipy.optimize import minimize

    x, y = features(80, 6)
    name, _, weight = loss.partition(":positives=")
    factor, ridge = np.where(y > 0, float(weight or 1.0), 1.0), 0.03
    shape = {
        "exponential": lambda m: np.exp(-m),
        "logistic": lambda m: np.logaddexp(0.0, -m),
        "square": lambda m: 0.5 * (1.0 - m) ** 2,
    }[name]

    def objective(v):
        return np.mean(factor * shape(y * (x @ v[:-1] + v[-1]))) + 0.5 * ridge * v[:-1] @ v[:-1]

    oracle = minimize(objective, np.zeros(7), method="BFGS", options={"gtol": 1e-9})
    fit = fit_erm(x, y, ridge, loss)
    np.testing.assert_allclose([*fit.coef, fit.bias], oracle.x, atol=3e-6)
    assert fit.value == pytest.approx(oracle.fun, rel=1e-10)


def test_exponential_loss_from_a_start_far_on_the_wrong_side():
    """Margins of -1e4: slopes beyond the floats, which the line search has to come back from without a warning."""
    x, y = features(60, 5)
    far = (-2e4 * np.eye(5)[0], 300.0)
    start = fit_erm(x, y, 1e-2, "exponential", start=far)
    assert start.converged
    np.testing.assert_allclose(start.coef, fit_erm(x, y, 1e-2, "exponential").coef, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("shape", [(300, 40), (60, 200)])
def test_square_loss_solves_the_normal_equations(shape):
    x, y = features(*shape)
    n, d = x.shape
    ridge = 1e-3
    a = np.hstack([x, np.ones((n, 1))])
    penalty = ridge * np.diag(np.append(np.ones(d), np.zeros(a.shape[1] - d)))
    exact = np.linalg.solve(a.T @ a / n + penalty, a.T @ y / n)
    fit = fit_erm(x, y, ridge, "square", tolerance=1e-10)
    np.testing.assert_allclose(fit.coef, exact[:d], rtol=1e-7, atol=1e-9)
    assert fit.bias == pytest.approx(exact[d], abs=1e-8)


@pytest.mark.parametrize("loss", list(LOSSES))
def test_whole_number_weights_are_repeated_samples(loss):
    x, y = features(80, 30)
    counts = np.random.default_rng(2).integers(0, 4, len(y))
    weighted = fit_erm(x, y, 1e-3, loss, sample_weight=counts, tolerance=1e-9)
    repeated = fit_erm(np.repeat(x, counts, axis=0), np.repeat(y, counts), 1e-3, loss, tolerance=1e-9)
    np.testing.assert_allclose(weighted.coef, repeated.coef, rtol=1e-5, atol=1e-7)
    scaled = fit_erm(x, y, 1e-3, loss, sample_weight=7.5 * counts, tolerance=1e-9)
    np.testing.assert_allclose(weighted.coef, scaled.coef, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("shape", [(300, 40), (60, 200)])
def test_single_precision_features_get_double_precision_answers(shape):
    x, y = features(*shape)
    x32 = x.astype(np.float32)
    single = fit_erm(x32, y, 1e-5, tolerance=1e-8)
    double = fit_erm(x32.astype(np.float64), y, 1e-5, tolerance=1e-8)
    assert single.gradient_norm < 1e-8
    np.testing.assert_allclose(single.coef, double.coef, rtol=1e-6, atol=1e-8)


def test_memory_order_does_not_matter():
    x, y = features(200, 50)
    reference = fit_erm(x, y, 1e-4, tolerance=1e-9).coef
    padded = np.zeros((200, 100))
    padded[:, ::2] = x
    for same in (np.asfortranarray(x), padded[:, ::2]):
        np.testing.assert_allclose(fit_erm(same, y, 1e-4, tolerance=1e-9).coef, reference, rtol=1e-6, atol=1e-9)


def test_warm_start_saves_work():
    x, y = features(300, 100)
    cold = fit_erm(x, y, 1e-4)
    warm = fit_erm(x, y, 0.9e-4, start=cold)
    from_zero = fit_erm(x, y, 0.9e-4)
    assert warm.iterations < from_zero.iterations
    np.testing.assert_allclose(warm.coef, from_zero.coef, rtol=1e-5, atol=1e-6)
    again = fit_erm(x, y, 1e-4, start=(cold.coef, cold.bias))
    assert again.iterations == 0


@pytest.mark.parametrize(
    "spoil",
    [
        lambda x: np.vstack([x, x]),  # every sample twice
        lambda x: np.hstack([x, x[:, :7], np.zeros((len(x), 3))]),  # repeated and constant features
        lambda x: x * np.geomspace(1e-6, 1e6, x.shape[1]),  # unequal units
        lambda x: x[:, :1],  # one feature
    ],
    ids=["duplicates", "collinear", "units", "one"],
)
@pytest.mark.parametrize("shape", [(150, 20), (30, 90)])
@pytest.mark.parametrize("ridge", [1e-2, 1e-6])
def test_ill_posed_features(spoil, shape, ridge):
    x, y = features(*shape)
    x = spoil(x)
    y = np.resize(y, len(x))
    fit = fit_erm(x, y, ridge, tolerance=1e-5)
    assert fit.converged
    # Rounding of the sums sum_i p_i l'_i x_i bounds what any method can reach.
    noise = np.finfo(float).eps * np.linalg.norm(np.abs(x).max(axis=0)) / (ridge * np.linalg.norm(fit.coef))
    assert gradient(x, y, fit.coef, fit.bias, ridge, "logistic") <= 1e-5 + 200 * noise


@pytest.mark.parametrize("shape", [(150, 20), (30, 90)])
@pytest.mark.parametrize("ridge", [1e-2, 1e-6])
def test_far_from_the_origin(shape, ridge):
    """The bias is free, so moving all features by a constant changes only the bias."""
    x, y = features(*shape)
    here = fit_erm(x, y, ridge)
    offset = np.linspace(1e4, 3e4, x.shape[1])
    there = fit_erm(x + offset, y, ridge)
    assert there.converged
    np.testing.assert_allclose(there.coef, here.coef, rtol=1e-5, atol=1e-5 * np.abs(here.coef).max())
    assert there.bias + offset @ there.coef == pytest.approx(here.bias, rel=1e-4)


def test_no_features_worth_a_weight():
    y = np.array([1.0, 1.0, 1.0, -1.0])
    fit = fit_erm(np.zeros((4, 3)), y, 0.1)
    assert not np.any(fit.coef)
    assert fit.bias == pytest.approx(np.log(3), rel=1e-6)


def test_zero_ridge():
    x, y = features(400, 10)
    fit = fit_erm(x, y, 0.0)
    r = get_loss("logistic").slope(x @ fit.coef + fit.bias, y) / len(y)
    assert fit.converged and np.abs(x.T @ r).max() < 1e-7
    separable = fit_erm(x, np.sign(x[:, 0] - 0.3), 0.0)
    assert separable.stopped == "unbounded" and not separable.converged


def test_a_loss_of_a_user():
    class Exponential(Loss):
        """exp(-m) for m >= 0, continued by its second-order expansion: convex, smooth, unbounded curvature range."""

        name = "exponential"

        def value(self, z, y):
            m = y * z
            return np.where(m > 0, np.exp(-np.maximum(m, 0)), 1 - m + m**2 / 2)

        def slope(self, z, y):
            m = y * z
            return y * np.where(m > 0, -np.exp(-np.maximum(m, 0)), m - 1)

        def curvature(self, z, y):
            m = y * z
            return np.where(m > 0, np.exp(-np.maximum(m, 0)), 1.0)

    for shape in SHAPES:
        x, y = features(*shape)
        fit = fit_erm(x, y, 1e-4, Exponential(), tolerance=1e-6)
        assert gradient(x, y, fit.coef, fit.bias, 1e-4, Exponential()) < 1e-6


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"features": np.zeros((0, 3))}, "features must be"),
        ({"features": np.zeros(3)}, "features must be"),
        ({"features": np.full((4, 2), np.nan)}, "features must be finite"),
        ({"labels": [1, 1, -1]}, "labels must hold one label per sample"),
        ({"labels": [1, 0, 1, 0]}, "labels must be -1 or"),
        ({"ridge": -1.0}, "ridge must be"),
        ({"ridge": np.nan}, "ridge must be"),
        ({"loss": "hinge"}, "loss must be"),
        ({"tolerance": 0.0}, "tolerance must be"),
        ({"sample_weight": [1, 1, 1]}, "sample_weight must hold"),
        ({"sample_weight": [0, 0, 0, 0]}, "sample_weight must hold"),
        ({"sample_weight": [1, 1, 1, -1]}, "sample_weight must hold"),
        ({"start": (np.zeros(5), 0.0)}, "start must be 2"),
    ],
)
def test_bad_input(change, message):
    good = {"features": np.arange(8.0).reshape(4, 2), "labels": [1, -1, 1, -1], "ridge": 0.1}
    assert isinstance(fit_erm(**good), ReadoutFit)
    with pytest.raises(ValueError, match=message):
        fit_erm(**(good | change))


def test_leaves_thread_settings_and_inputs_alone():
    x, y = features(100, 20)
    before = x.copy(), [pool["num_threads"] for pool in threadpool_info()]
    x.flags.writeable = False
    fit_erm(x, y, 1e-3)
    assert np.array_equal(x, before[0])
    assert [pool["num_threads"] for pool in threadpool_info()] == before[1]


@pytest.mark.parametrize("loss", list(LOSSES))
@pytest.mark.parametrize("alpha", [0.5, 1, 2, 4])
def test_no_ridge_gives_a_clear_answer(loss, alpha):
    """Every pair of loss and sample size: a minimum with a vanishing gradient, or the news that there is none."""
    d = 60
    x, y = features(int(alpha * d), d, seed=1)
    fit = fit_erm(x, y, 0.0, loss)
    z = x @ fit.coef + fit.bias
    r = get_loss(loss).slope(z, y) / len(y)
    endless = loss in ("logistic", "exponential")
    if endless and np.all(y * z > 0):
        assert fit.stopped == "unbounded" and not fit.converged and "no minimiser" in fit.reason
    else:
        assert fit.converged
        assert np.linalg.norm(np.append(x.T @ r, r.sum())) < 1e-6 * np.sqrt(d)
        assert np.linalg.norm(fit.coef) < 1e3
    if endless:
        assert fit.converged == (alpha == 4)


def test_quasi_separable_data_have_no_minimiser():
    """Samples of both classes on the boundary, all others beyond it: the gradient vanishes only at infinity."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((60, 2))
    y = np.sign(x[:, 0])
    x[:20, 0] = 0.0
    x[:20, 1] = 0.0
    fit = fit_erm(x, y, 0.0)
    assert not fit.converged
    assert fit_erm(x, y, 1e-3).converged


@pytest.mark.parametrize("ridge", [0.0, 1e-2])
@pytest.mark.parametrize("loss", list(LOSSES))
@pytest.mark.parametrize("label", [-1.0, 1.0])
def test_one_class(loss, ridge, label):
    x, _ = features(50, 10)
    weight = np.ones(50)
    weight[0] = 0.0
    y = np.full(50, label)
    y[0] = -label  # without weight it does not count
    fit = fit_erm(x, y, ridge, loss, weight)
    assert not fit.coef.any() and fit.iterations == 0 and np.sign(fit.bias) == label
    if loss in ("logistic", "exponential"):
        assert fit.stopped == "one_class" and not fit.converged and fit.value < 1e-7
    else:
        assert fit.converged and fit.value == 0.0


@pytest.mark.parametrize("ridge", [0.0, 1e-2])
@pytest.mark.parametrize("loss", list(LOSSES))
@pytest.mark.parametrize("kind", ["mirrored", "zero", "constant"])
def test_an_optimum_at_zero_is_found_at_once(loss, ridge, kind):
    x, _ = features(50, 10)
    x = {"mirrored": x, "zero": 0 * x, "constant": 0 * x + 0.1}[kind]
    fit = fit_erm(np.vstack([x, x]), np.repeat([1.0, -1.0], 50), ridge, loss)
    assert fit.converged and fit.iterations <= 2
    assert np.linalg.norm(fit.coef) < 1e-12 and abs(fit.bias) < 1e-12


@pytest.mark.parametrize("loss", list(LOSSES))
@pytest.mark.parametrize("shape", [(300, 20), (100, 150)])
@pytest.mark.parametrize("ridge", [1e-3, 1e-1])
def test_features_of_very_different_sizes(loss, shape, ridge):
    x, y = features(*shape)
    x *= np.geomspace(1e-4, 1e4, shape[1])
    fit = fit_erm(x, y, ridge, loss)
    assert fit.stopped == "gradient"
    centre = x.mean(axis=0) if np.sum(x.mean(axis=0) ** 2) > 0.9 * np.mean(np.sum(x**2, axis=1)) else 0.0
    assert gradient(x - centre, y, fit.coef, fit.bias + np.sum(centre * fit.coef), ridge, loss) < 2e-7


@pytest.mark.parametrize("iterations", [3, 12])  # L-BFGS stops, Newton's method stops
def test_stopping_early_is_not_convergence(monkeypatch, iterations):
    monkeypatch.setattr(module, "MAX_ITERATIONS", iterations)
    x, y = features(60, 200)
    fit = fit_erm(x, y, 1e-6, tolerance=1e-12)
    assert fit.stopped == "iterations" and not fit.converged and fit.iterations == iterations
    assert fit.gradient_norm > 1e-12


def test_the_result_is_frozen_and_short():
    x, y = features(60, 20)
    fit = fit_erm(x, y, 0.1)
    assert len(repr(fit)) < 200 and "coef" not in repr(fit)
    with pytest.raises(dataclasses.FrozenInstanceError):
        fit.bias = 0.0
    assert fit.reason == "the gradient met the tolerance"


@given(
    st.integers(2, 60),
    st.integers(1, 60),
    st.floats(-3, 3),
    st.floats(-4, 1),
    st.sampled_from(list(LOSSES)),
    st.integers(0, 2**32),
)
def test_symmetries(n, d, log_unit, log_ridge, loss, seed):
    """Other labels turn the weights round; another unit, another order and another basis of the features change nothing."""
    x, y = features(n, d, seed)
    y[:2] = -1.0, 1.0
    ridge, unit = 10.0**log_ridge, 10.0**log_unit
    plain = fit_erm(x, y, ridge, loss)
    assert plain.converged
    rng = np.random.default_rng(seed)
    order, basis = rng.permutation(n), np.linalg.qr(rng.standard_normal((d, d)))[0]
    size = np.abs(x @ plain.coef + plain.bias).max() + 1e-3
    for other, outputs in (
        (fit_erm(x, -y, ridge, loss), lambda f: -(x @ f.coef + f.bias)),
        (fit_erm(unit * x, y, unit**2 * ridge, loss), lambda f: unit * x @ f.coef + f.bias),
        (fit_erm(x[order], y[order], ridge, loss), lambda f: x @ f.coef + f.bias),
        (fit_erm(x @ basis, y, ridge, loss), lambda f: x @ basis @ f.coef + f.bias),
    ):
        np.testing.assert_allclose(outputs(other) / size, (x @ plain.coef + plain.bias) / size, atol=1e-5)

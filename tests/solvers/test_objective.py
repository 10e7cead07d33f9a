from __future__ import annotations

import numpy as np
import pytest

from sparsetoken.losses import LOSSES, get_loss
from sparsetoken.solvers.objective import Features, FitProblem, always_falls


def problem(loss: str = "logistic", n: int = 30, d: int = 4) -> FitProblem:
    rng = np.random.default_rng(0)
    weights = rng.uniform(0.1, 1.0, n)
    labels = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    x = rng.standard_normal((n, d))
    return FitProblem(Features(x), labels, weights / weights.sum(), 0.3, get_loss(loss))


def value(p: FitProblem, v: np.ndarray) -> float:
    return p.at(v).value


@pytest.mark.parametrize("loss", list(LOSSES))
def test_gradient_is_the_derivative_of_the_value(loss):
    p = problem(loss)
    v = np.array([0.3, -0.2, 0.5, 0.1, -0.4])
    steps = 1e-6 * np.eye(5)
    expected = [(value(p, v + h) - value(p, v - h)) / 2e-6 for h in steps]
    np.testing.assert_allclose(p.at(v).g, expected, atol=1e-8)


def test_newton_direction_makes_the_gradient_vanish_to_first_order():
    p = problem()
    point = p.at(np.array([0.3, -0.2, 0.5, 0.1, 0.0]))
    v, h = p.newton_direction(point), 1e-6
    change = (p.at(point.v + h * v).g - p.at(point.v - h * v).g) / (2 * h)
    np.testing.assert_allclose(change, -point.g, atol=1e-8)


def test_samples_on_straight_parts_of_the_loss_have_a_curvature():
    p = problem("smoothed_hinge")
    np.testing.assert_allclose(
        p.curvatures(1.1 * p.labels), p.weights * 0.9 / 2
    )  # the kink at margin 1 is within reach


def test_what_a_loss_is_like():
    assert [always_falls(LOSSES[name]) for name in ("logistic", "square", "smoothed_hinge")] == [True, False, False]


def test_samples_without_weight_need_not_be_separated():
    p = problem()
    weights = p.weights.copy()
    weights[0] = 0.0
    z = p.labels.copy()
    z[0] *= -1
    assert not p.separates(z)
    assert FitProblem(p.features, p.labels, weights, 0.0, p.loss).separates(z)

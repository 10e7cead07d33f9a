"""The separability threshold where it is infinite, and where kappa nearly vanishes in some bags."""

import numpy as np
import pytest

from sparsetoken import Task, Training, theory
from sparsetoken.theory.capacity import _objective, _terms


def test_classes_that_never_mix_have_an_infinite_capacity():
    found = theory.capacity(theory.pooled_law(Task(length=2, strength=40.0)))
    assert found.alpha == np.inf and found.standard_error == 0.0
    assert theory.capacity(theory.attention_law(Task(length=5, strength=40.0), 0.95, 4.0)).alpha == np.inf
    forecast = theory.forecast(Task(length=2, strength=40.0), Training(), "pooled")
    assert forecast.capacity == np.inf and forecast.test_error < 1e-12


def test_few_draws_that_do_not_mix_are_not_taken_for_infinity():
    """At 256 draws per replicate the classes are apart; among half a million bags some are not."""
    found = theory.capacity(theory.attention_law(Task(length=5, strength=8.0), 0.95, 4.0))
    assert 3e3 < found.alpha < 3e4 and 0 < found.standard_error < 0.2 * found.alpha


def test_below_an_infinite_capacity_a_ridge_is_needed():
    with pytest.raises(ValueError, match="below capacity"):
        theory.erm(theory.pooled_law(Task(length=2, strength=40.0)), 100.0, 0.0)


@pytest.mark.parametrize("activation", ["threshold:1", "threshold:2"])
def test_bags_with_hardly_any_feature_do_not_stall_the_search(activation):
    """Activations that vanish leave kappa at its floor, 1e-6/L, in some bags: b counts in units of that."""
    law = theory.elementwise_law(Task(length=20, sparsity=2, strength=3.0), 0.95, 1.0, activation)
    found = theory.capacity(law, accuracy=0.02)
    assert np.isfinite(found.alpha) and found.alpha >= 2 - 1e-9 and found.residual < 1e-6


def test_gradient_and_hessian_of_the_objective():
    population, _ = theory.attention_law(Task(), 0.8, 1.0).at(64)
    terms = _terms(population)
    p, h = np.array([0.4, 0.3, -0.9]), 1e-5
    _, gradient, hessian = _objective(p, terms, population.replicates)
    for i, e in enumerate(np.eye(3)):
        up, down = (_objective(p + sign * h * e, terms, population.replicates) for sign in (1, -1))
        assert gradient[i] == pytest.approx((up[0].mean() - down[0].mean()) / (2 * h), rel=1e-6)
        np.testing.assert_allclose(hessian[i], (up[1] - down[1]) / (2 * h), rtol=1e-6, atol=1e-9)

"""The separability threshold where it is infinite, and where kappa nearly vanishes in some bags."""

import numpy as np
import pytest

from sparsetoken import Task, Training, theory
from sparsetoken.theory.capacity import _derivatives, _shortfall, heads_threshold, plain_margins


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


def test_refinement_ends_where_it_is_told_to():
    law = theory.attention_law(Task(strength=6.0), 0.95, 4.0)
    few, more = (theory.capacity(law, accuracy=1e-3, most_points=most) for most in (256, 2048))
    assert few.standard_error > 2 * more.standard_error > 0  # neither meets the accuracy
    assert abs(few.alpha - more.alpha) < 4 * np.hypot(few.standard_error, more.standard_error)
    assert max(law._made) == 2048


def test_below_an_infinite_capacity_a_ridge_is_needed():
    with pytest.raises(ValueError, match="below capacity"):
        theory.erm(theory.pooled_law(Task(length=2, strength=40.0)), 100.0, 0.0)


@pytest.mark.parametrize("activation", ["threshold:1", "threshold:2"])
def test_bags_with_hardly_any_feature_do_not_stall_the_search(activation):
    """Activations that vanish leave kappa at its floor, 1e-6/L, in some bags: b counts in units of that."""
    law = theory.elementwise_law(Task(length=20, sparsity=2, strength=3.0), 0.95, 1.0, activation)
    found = theory.capacity(law, accuracy=0.02)
    assert np.isfinite(found.alpha) and found.alpha >= 2 - 1e-9 and found.residual < 1e-6


@pytest.mark.parametrize(
    "law", [theory.attention_law(Task(), 0.8, 1.0), theory.pooled_law(Task())], ids=lambda law: law.name
)
def test_gradient_and_hessian_of_the_objective(law):
    margins, weight = plain_margins(law, law.first_points)
    p, h = np.array([0.4, 0.3, -0.9]), 1e-5
    gradient, hessian = _derivatives(p, margins, weight, _shortfall(p, margins))
    for i, e in enumerate(np.eye(3)):
        up, down = (_shortfall(p + sign * h * e, margins) for sign in (1, -1))
        assert gradient[i] == pytest.approx(weight @ (up.square - down.square) / (2 * h), rel=1e-6)
        slopes = [_derivatives(p + sign * h * e, margins, weight, at)[0] for sign, at in ((1, up), (-1, down))]
        np.testing.assert_allclose(hessian[i], (slopes[0] - slopes[1]) / (2 * h), rtol=1e-6, atol=1e-9)


def far_apart_heads():
    """Two heads as `forecast` has them at L = 6, theta = 5: cosine 0.91 and sharpness 4.23."""
    return theory.heads_law(Task(length=6, strength=5.0), [0.91, 0.91], [4.23, 4.23])


def test_the_threshold_of_heads_is_a_saddle_point():
    """Least in the readout and Q, greatest in V: the function written out anew, its average over G by quadrature."""
    law = far_apart_heads()
    nodes = law.at(64)
    saddle, value, residual = heads_threshold(law, 64, None)
    G = np.linspace(-9.0, 9.0, 361)
    weight = np.exp(-0.5 * G**2) / np.exp(-0.5 * G**2).sum()
    D = nodes.T.shape[-1]

    def inverse(m, b, Q, V):
        m_T, m_S = m[:, :D], m[:, D:]
        mean = (nodes.T * m_T).sum((2, 3)) + (nodes.S * m_S).sum((2, 3)) + b
        deviation = np.sqrt((nodes.K * (Q + m_S @ m_S.T)).sum((2, 3)))
        short = np.maximum(-nodes.y[..., None] * (mean[..., None] + deviation[..., None] * G), 0.0) ** 2 @ weight
        average = (nodes.weight * short / (nodes.K * V).sum((2, 3))).sum() / len(nodes.y)
        return average / np.trace(np.linalg.inv(V) @ Q)

    here = inverse(*saddle)
    assert here == pytest.approx(value.mean(), rel=1e-3) and residual < 1e-8
    rng = np.random.default_rng(0)
    for _ in range(4):
        turn = rng.standard_normal((2, 2))
        for name, sign in (("m", 1), ("b", 1), ("Q", 1), ("V", -1)):
            old = getattr(saddle, name)
            if name in "QV":  # stays positive: a congruence
                moved = [(np.eye(2) + e * turn) @ old @ (np.eye(2) + e * turn).T for e in (0.03, -0.03)]
            else:
                moved = [old + e * rng.standard_normal(np.shape(old)) for e in (0.03, -0.03)]
            bent = [inverse(**{**saddle._asdict(), name: new}) - here for new in moved]
            assert min(sign * b for b in bent) > -2e-3 * here, (name, bent)


def test_heads_far_apart_have_a_threshold():
    found = theory.capacity(far_apart_heads(), accuracy=0.05)
    assert 40 < found.alpha < 60 and found.standard_error <= 0.05 * found.alpha
    one = theory.capacity(theory.attention_law(Task(length=6, strength=5.0), 0.91, 4.23)).alpha
    assert found.alpha > one
    law = theory.heads_law(Task(length=5, strength=40.0), [0.95, 0.9], [4.0, 3.0])
    assert theory.capacity(law, accuracy=0.5).alpha == np.inf


def test_heads_that_are_alike_count_once():
    query = np.array([[1.2, 0.6]])
    one, three = (
        theory.capacity(theory.heads_law(Task(), queries=np.repeat(query, heads, axis=0)), accuracy=0.05)
        for heads in (1, 3)
    )
    assert three.alpha == pytest.approx(one.alpha, abs=3 * np.hypot(one.standard_error, three.standard_error))
    known = theory.capacity(theory.attention_law(Task(), 1.2 / np.hypot(1.2, 0.6), np.hypot(1.2, 0.6)))
    assert one.alpha == pytest.approx(known.alpha, abs=3 * one.standard_error)

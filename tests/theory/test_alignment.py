import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from sparsetoken import Task, Training, theory
from sparsetoken.losses import LOSSES
from sparsetoken.theory.gradient import gradient

ISSUE_TASK = Task(length=10, sparsity=3, strength=6, prevalence=0.2)


@pytest.mark.parametrize("loss", list(LOSSES))
def test_cosine_approaches_one_at_the_stated_rate(loss):
    training = Training(loss=loss, eta_w=0.5, eta_b=0.5, eta_q=0.5)
    far, farther = (theory.alignment(ISSUE_TASK, training.but(alpha0=a)) for a in (1e4, 1e5))
    for a, found in ((1e4, far), (1e5, farther)):
        assert a * (1 - abs(found.cosine["q"])) == pytest.approx(found.rate, rel=20 / np.sqrt(a))
    assert abs(1e5 * (1 - abs(farther.cosine["q"])) - farther.rate) < abs(1e4 * (1 - abs(far.cosine["q"])) - far.rate)


def test_gaussian_integrals_agree_with_adaptive_quadrature():
    """E[h] of the negative field, recomputed with scipy from the definition."""
    task, training = ISSUE_TASK, Training(alpha0=0.7, eta_w=2.0, eta_b=1.0, eta_q=1.0)
    L, R, theta, pi = task.length, task.sparsity, task.strength, task.prevalence
    found = theory.alignment(task, training)
    a = found.overlap["w"]
    own = training.eta_w / (training.alpha0 * L)
    loss = LOSSES["logistic"]

    def mean(y, power):
        centre = found.bias + (a * theta * R / L if y > 0 else 0.0) - own * float(loss.slope(0.0, y))
        spread = found.norm["w"] / np.sqrt(L)
        return quad(lambda g: float(loss.slope(centre + spread * g, y)) ** power * norm.pdf(g), -9, 9, epsabs=1e-12)[0]

    Eh = pi * mean(1.0, 1) + (1 - pi) * mean(-1.0, 1)
    expected = pi * mean(1.0, 1) * theta**2 * R * (1 - R / L) + (L - 1) * Eh
    assert found.anti_margin == pytest.approx(expected, rel=1e-9)


def test_query_turns_away_from_the_signal_exactly_where_the_condition_says():
    seen = set()
    for eta_b in (0.0, 1.0, 4.0):
        for pi in (0.05, 0.2, 0.5):
            task = Task(length=40, sparsity=2, strength=2, prevalence=pi)
            found = theory.alignment(task, Training(alpha0=3, eta_b=eta_b))
            assert (found.cosine["q"] < 0) == found.anti_aligned == (found.anti_margin > 0)
            seen.add(found.anti_aligned)
    assert seen == {True, False}


def test_rates_scale_the_query_and_nothing_else():
    one, two = (theory.alignment(ISSUE_TASK, Training(eta_q=e)) for e in (1.0, 3.0))
    assert two.norm["q"] == pytest.approx(3 * one.norm["q"])
    assert (two.cosine, two.norm["w"], two.bias) == (one.cosine, one.norm["w"], one.bias)
    assert one.sharpness == one.norm["q"]


def test_no_step_learns_nothing():
    found = theory.alignment(ISSUE_TASK, Training(eta_w=0.0))
    assert found.norm == found.overlap == {"w": 0.0, "q": 0.0}
    assert found.cosine == {"w": 0.0, "q": 0.0}
    assert np.isnan(found.rate) and not found.anti_aligned


@pytest.mark.parametrize("model", ["pooled", "vectorized"])
def test_exact_models_gradient_is_the_finite_difference(model):
    task, training = Task(), Training(ridge=1e-2)
    found = gradient(task, training, model)
    assert found.test_error == pytest.approx(theory.forecast(task, training, model).test_error, abs=1e-9)
    for name, h in (("strength", 1e-3), ("ridge", 1e-5), ("alpha1", 1e-3), ("prevalence", 1e-4)):
        error = []
        for sign in (1, -1):
            changed = task.but(**{name: getattr(task, name) + sign * h}) if name in ("strength", "prevalence") else task
            other = training if changed is not task else training.but(**{name: getattr(training, name) + sign * h})
            error.append(theory.forecast(changed, other, model, with_capacity=False).test_error)
        assert found[name] == pytest.approx((error[0] - error[1]) / (2 * h), rel=2e-4, abs=1e-7), name
    assert found["eta_q"] == found["beta"] == 0.0


@pytest.mark.slow
def test_attention_gradient_is_the_finite_difference():
    """Differences of forecasts share their draws; the two estimates use different numbers of them. 4.5 s.e., five
    parameters: false alarm below 1e-4."""
    task, training = Task(), Training(ridge=1e-2, eta_b=0.5).but(alpha0=1.0)
    task = task.but(prevalence=0.4)
    found = gradient(task, training)
    for name in ("strength", "beta", "ridge", "alpha0", "eta_q"):
        owner = task if name == "strength" else training
        h = 0.02 * getattr(owner, name)
        error = []
        for sign in (1, -1):
            changed = owner.but(**{name: getattr(owner, name) + sign * h})
            pair = (changed, training) if owner is task else (task, changed)
            error.append(theory.forecast(*pair, with_capacity=False).test_error)
        slope = (error[0] - error[1]) / (2 * h)
        assert abs(found[name] - slope) <= 4.5 * found.errors[name] + 0.02 * abs(slope), (name, found[name], slope)

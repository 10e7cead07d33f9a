"""Settings with the least loss."""

from __future__ import annotations

import pytest

from sparsetoken import Task, Training, forecast
from sparsetoken.planning import tune_attention, tune_linear
from sparsetoken.planning.forecast_at import REPORT_SEED, forecast_at
from sparsetoken.planning.tuning import best_rates, mean_alignment
from sparsetoken.theory import erm, pooled_law

TASK = Task()  # L = 10, R = 1, theta = 5, pi = 1/2


def test_plan_settings_are_what_the_forecast_says(small_plan):
    settings = small_plan.settings
    again = forecast_at(TASK, settings.training, 200, seed=REPORT_SEED)
    assert again.value == pytest.approx(settings.loss, rel=1e-9)
    limit = forecast(TASK, settings.training, with_capacity=False, accuracy=5e-4)
    assert limit.test_error == pytest.approx(settings.limit.loss, abs=4 * settings.limit.standard_error + 1e-3)
    assert limit.cosine["q"] == pytest.approx(settings.cosine, abs=0.01)
    assert settings.training.alpha0 + settings.training.alpha1 == pytest.approx(2.0)
    assert small_plan.n0 + small_plan.n1 == 400 and small_plan.n0 == round(200 * settings.training.alpha0)


@pytest.mark.slow
def test_the_search_does_not_end_early():
    """Settings found at n = d = 20,000 have 0.0512 at n = d = 5,000, where the search used to end at 0.0549."""
    settings = tune_attention(TASK, 1.0, d=5000)
    assert settings.loss < 0.0522


def test_no_neighbouring_setting_is_better(small_plan):
    """Every setting moved by a third, either way, gives no lower error at this size (2 %: the search sees fewer draws)."""
    training = small_plan.settings.training
    best = forecast_at(TASK, training, 200, groups=4).value
    for name in ("eta_q", "ridge", "alpha0"):
        for factor in (0.67, 1.5):
            change = {name: getattr(training, name) * factor}
            if name == "alpha0":
                change["alpha1"] = 2.0 - change["alpha0"]
            assert forecast_at(TASK, training.but(**change), 200, groups=4).value > 0.98 * best, (name, factor)


def test_the_bias_makes_up_for_the_realised_share_at_finite_size():
    """At pi = 1/2 the logistic bias moves by eta_b (2p - 1)/2, and cancels the mean of l' to first order at eta_b = 4."""
    task = Task(20, 1, 4.0, 0.5)
    plain, centred = (best_rates(task, "logistic", 1.0, 100, centred) for centred in (False, True))
    assert plain[1] == pytest.approx(4.0, rel=0.1)
    assert centred[1] == "auto"  # which fits the bias without a rate to choose


@pytest.mark.parametrize(("task", "choice"), [(Task(30, 1, 4.0, 0.05), str), (Task(4, 1, 1.0, 0.45), float)], ids=str)
def test_residuals_are_centred_where_that_aligns_the_query_better(task, choice):
    """Rare positives gain; a weak signal gains more from a bias that leaves the readout's direction in the query."""
    eta_w, eta_b = best_rates(task, "logistic", 3.0)
    assert isinstance(eta_b, choice)
    plain = Training(alpha0=3.0, eta_w=1.0)
    found = mean_alignment(task, plain.but(eta_w=eta_w, eta_b=eta_b))[0]
    assert found >= max(mean_alignment(task, plain.but(eta_b=b))[0] for b in (1.0, 4.0, "auto")) - 1e-3


@pytest.mark.parametrize(
    "task", [Task(10, 9, 5.0), Task(10, 1, 100.0), Task(10, 1, 1000.0, 0.1), Task(100, 50, 30.0, 0.3)], ids=str
)
def test_strong_signals_get_a_query_that_looks_at_them(task):
    """With rates for weak signals the readout is right about all positives after one step, and the query turns away."""
    eta_w, eta_b = best_rates(task, "logistic", 2.0, 200)
    assert mean_alignment(task, Training(alpha0=2.0, eta_w=eta_w, eta_b=eta_b), 200)[0] > 0.9


def test_best_ridge_of_pooling_beats_others():
    task = Task(prevalence=0.3)
    tuned = tune_linear("pooled", task, 3.0)
    for ridge in (1e-5, 1e-3, 1e-2, 0.1, 1.0, 10.0):
        assert tuned.loss <= erm(pooled_law(task), 3.0, ridge).test_error + 1e-5

"""Forecasts at given n and d: the binomial share of positives, drawn queries."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.plans import judged
from scipy.stats import binom

from sparsetoken import Task, Training, forecast, plan
from sparsetoken.planning import forecast_at
from sparsetoken.theory.finite_size import class_shares, like_queries

TASK = Task()  # L = 10, R = 1, theta = 5, pi = 1/2


@pytest.mark.parametrize(("n", "pi"), [(20, 0.5), (50, 0.1), (1000, 0.3), (100_000, 0.5)])
def test_shares_have_the_binomial_s_moments(n, pi):
    """Given both classes: mean and variance of Binomial(n, pi)/n without its two ends."""
    shares, weights = class_shares(n, pi, 129)
    counts = np.arange(1, n)
    law = binom.pmf(counts, n, pi) / binom.pmf(counts, n, pi).sum()
    mean = law @ counts / n
    assert weights.sum() == pytest.approx(1.0) and (np.diff(shares) > 0).all() and 0 < shares[0] < shares[-1] < 1
    assert weights @ shares == pytest.approx(mean, rel=1e-4)
    assert weights @ (shares - mean) ** 2 == pytest.approx(law @ (counts / n - mean) ** 2, rel=0.01)


@pytest.mark.parametrize(
    ("ridge", "limit", "averaged"), [(10.0, 0.2520, 0.4816), (1.0, 0.2520, 0.3480), (0.1, 0.2529, 0.2561)]
)
def test_pooling_at_a_thousand_bags(ridge, limit, averaged):
    """Reference values of an independent implementation; simulated: 0.476 +- 0.011, 0.357 +- 0.013, 0.2574 +- 0.0010."""
    found = forecast_at(TASK, Training(alpha0=1.0, alpha1=4.0, ridge=ridge), 250, "pooled")
    assert found.limit == pytest.approx(limit, abs=1e-4)
    assert found.value == pytest.approx(averaged, abs=2e-3)


@pytest.mark.parametrize(
    ("ridge", "eta_q", "limit", "simulated", "error"),
    [(0.1, 150.0, 0.233, 0.264, 0.002), (0.1, 25.0, 0.283, 0.314, 0.004), (10.0, 25.0, 0.278, 0.480, 0.003)],
)
def test_attention_with_drawn_queries(ridge, eta_q, limit, simulated, error):
    """L = 20, n = 200, d = 100: limits and simulations of an independent implementation; the limit alone is far off."""
    found = forecast_at(Task(20, 1, 4.0, 0.5), Training(alpha0=1.0, alpha1=1.0, ridge=ridge, eta_q=eta_q), 100)
    assert found.limit == pytest.approx(limit, abs=2e-3)
    assert found.value == pytest.approx(simulated, abs=3 * np.hypot(0.003, error))
    assert 0.02 * found.value < found.standard_error < 0.04 * found.value  # the remainder of order 1/d included
    assert found.scatter > 0.004


def test_large_sizes_are_the_limit():
    training = Training(alpha0=2.0, alpha1=2.0, ridge=0.1, eta_q=30.0)
    found = forecast_at(TASK, training, 20_000, groups=4)
    limit = forecast(TASK, training, with_capacity=False).test_error
    assert found.value == pytest.approx(limit, abs=4 * found.standard_error + 1e-3)


def test_like_queries_keep_the_mean_and_the_spread():
    rng = np.random.default_rng(0)
    cosines, k = rng.uniform(0.2, 0.8, 384), rng.uniform(1, 2, 384)
    few = like_queries(cosines, k, 12)
    assert len(few) == 12
    assert few.mean(0) == pytest.approx([cosines.mean(), k.mean()])
    assert few[:, 0].std() == pytest.approx(cosines.std(), rel=0.02)
    assert len(like_queries(0.9 + 1e-4 * cosines, k, 12)) == 3  # nearly equal queries need few groups


@pytest.mark.slow
def test_recommended_settings_hold_where_the_limit_is_far_off():
    """The plan that the limit would make here promises 0.301 and measures 0.500: ridge 10, and the imbalance decides."""
    made = plan(Task(20, 1, 4.0, 0.5), 100, 100, questions=())
    assert made.settings.training.ridge < 5 and 0.33 < made.value("attention") < 0.40
    for row in made.expected:
        if row.learner in ("attention", "pooled"):
            error = row.spread / row.trials**0.5
            assert abs(row.simulated - row.value) < 3.5 * error and row.simulated < 0.45, row


@pytest.mark.slow
def test_random_plans_hold():
    """One of the cases of `benchmarks.plans`, which tries many."""
    for row in judged(2, 0):
        assert row["holds"], row


def test_criteria_at_given_size():
    """A threshold chosen afterwards makes up for the bias that the realised share leaves behind."""
    training = Training(alpha0=1.0, alpha1=4.0, ridge=10.0)
    trained, chosen, auc = (
        forecast_at(TASK, training, 250, "pooled", criterion=name) for name in ("error", "threshold_error", "auc")
    )
    assert trained.value > 0.45 > 0.26 > chosen.value > 0.24
    assert auc.value == pytest.approx(auc.limit, abs=5e-3) and 0.5 < auc.value < 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"model": "bayes"}, "model"),
        ({"d": 1}, "d must be"),
        ({"schedule": "joint"}, "staged"),
        ({"alpha1": 1e-3}, "alpha1"),
    ],
)
def test_forecasts_at_given_size_refuse(options, words):
    training = Training(alpha1=options.pop("alpha1", 1.0), schedule=options.pop("schedule", "staged"))
    with pytest.raises(ValueError, match=words):
        forecast_at(TASK, training, **({"d": 100} | options))

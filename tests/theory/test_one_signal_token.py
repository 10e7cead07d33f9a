"""The likelihood ratio test on bags with one signal token, in closed form given the other tokens."""

import numpy as np
import pytest
from scipy.stats import norm

from sparsetoken import Task, theory
from sparsetoken.theory.bayes.channel import channel, drawn_log_ratios
from sparsetoken.theory.bayes.one_signal_token import one_token_error
from sparsetoken.theory.bayes.oracle import bayes_error


def by_draws(length: int, sparsity: int, theta: float, pi: float) -> tuple[float, float]:
    """E[min(pi LR, 1 - pi)] as it stands: drawn bags in equal parts with and without signal, weighed by their mixture."""
    each = 0.0
    for shift in (theta, 0.0):
        log_ratio = drawn_log_ratios(length, sparsity, (theta,), shift, 2048)[0][0]
        wrong = np.minimum(np.log(pi) + log_ratio, np.log1p(-pi))
        each = each + np.exp(wrong - np.logaddexp(log_ratio, 0.0)).mean(1)
    return float(each.mean()), float(each.std(ddof=1) / len(each) ** 0.5)


@pytest.mark.parametrize("length", [3, 12, 500])
@pytest.mark.parametrize(("theta", "pi"), [(0.4, 0.5), (1.5, 0.1), (2.5, 0.7), (5.0, 0.5)])
def test_one_signal_token_against_drawn_likelihood_ratios(length, theta, pi):
    expected, scatter = by_draws(length, 1, theta, pi)
    error, se = one_token_error(length, theta, pi, 1024)
    assert abs(error - expected) < 5 * np.hypot(se, scatter) + 1e-7
    assert se < 2 * scatter


@pytest.mark.parametrize(("theta", "pi"), [(0.3, 0.5), (1.0, 0.2), (3.0, 0.9)])
def test_two_tokens_by_an_integral_over_both(theta, pi):
    t = np.linspace(-8, 8, 1601)
    density = norm.pdf(t) * (t[1] - t[0])
    ratio = 0.5 * np.exp(-0.5 * theta**2) * np.add.outer(np.exp(theta * t), np.exp(theta * t))
    expected = density @ np.minimum(pi * ratio, 1 - pi) @ density
    error, se = one_token_error(2, theta, pi, 1024)
    assert abs(error - expected) < 5 * se + 5e-6 and se < 1e-5


@pytest.mark.parametrize(("length", "sparsity"), [(3, 2), (8, 3), (30, 29)])
def test_several_signal_tokens_with_the_mean_token_integrated(length, sparsity):
    for theta, pi in ((0.4, 0.5), (1.5, 0.1)):
        expected, scatter = by_draws(length, sparsity, theta, pi)
        error, se = bayes_error(Task(length, sparsity, theta, pi))
        assert abs(error - expected) < 5 * np.hypot(se, scatter) + 1e-7
        assert se < scatter


def test_all_tokens_but_one():
    drawn = drawn_log_ratios(6, 5, (1.2,), 1.2, 2048)[0][0].mean(1)
    scatter = drawn.std(ddof=1) / len(drawn) ** 0.5
    # I is the mean of log(dP(t|v)/dP(t)) = root sum_signal t - R root^2/2 - log LR at bags with signal
    assert channel(6, 5).information(1.2) == pytest.approx(0.5 * 5 * 1.2**2 - drawn.mean(), abs=5 * scatter + 1e-4)
    # One token without signal is hidden among the others as one with signal would be.
    assert channel(6, 5).mass(1.2).mean() == pytest.approx(4.0 + channel(6, 1).mass(1.2)[0], rel=1e-4)


@pytest.mark.parametrize(("length", "alpha"), [(2, 0.3), (2, 5.0), (3, 1.0)])
def test_limits_of_short_bags_solve_their_equation(length, alpha):
    task = Task(length, 1, 2.0, 0.3)
    found = theory.bayes_limit(task, alpha)
    x = alpha * 0.3 * 4.0 * channel(length, 1).mass(2.0 * found.overlap**0.5)[0]
    assert found.overlap == pytest.approx(x / (1 + x), rel=1e-7)
    assert found.test_error == pytest.approx(bayes_error(task, 2.0 * found.overlap**0.5)[0], rel=1e-6)

"""The Bayes limit: the hidden places of the signal tokens, the fixed points, and the corners where they are steep."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy.special import expit, gammaln, ndtr

from sparsetoken import Task, theory
from sparsetoken.laws.draws import token_draws
from sparsetoken.theory.bayes.channel import channel
from sparsetoken.theory.bayes.limit import _Map
from sparsetoken.theory.bayes.oracle import bayes_error
from sparsetoken.theory.bayes.subset_sums import BinnedBags, few_signal_tokens, subset_sums


def _enumerated(t: np.ndarray, root: float, size: int) -> np.ndarray:
    """Posterior weight of every place, by all subsets: (bags, L)."""
    subsets = list(combinations(range(t.shape[1]), size))
    logs = np.stack([root * t[:, list(c)].sum(1) for c in subsets])
    weights = np.exp(logs - np.logaddexp.reduce(logs))
    return np.stack([sum(w for w, c in zip(weights, subsets) if l in c) for l in range(t.shape[1])], axis=1)


@pytest.mark.parametrize(("length", "sparsity", "root"), [(4, 2, 1.3), (5, 1, 0.6), (6, 1, 2.5), (6, 5, 1.0)])
def test_posterior_mass_by_enumeration(length, sparsity, root):
    """M on fresh draws, all subsets enumerated (4.5 s.e.)."""
    t = np.random.default_rng(3).standard_normal((40_000, length))
    t[:, :sparsity] += root
    mass = _enumerated(t, root, sparsity)[:, :sparsity].sum(1)
    mine = channel(length, sparsity).mass(root)
    error = np.hypot(mass.std() / len(mass) ** 0.5, mine.std(ddof=1) / 4 if len(mine) > 1 else 0.0)
    assert abs(mass.mean() - mine.mean()) <= 4.5 * error


@pytest.mark.parametrize(("length", "sparsity"), [(2, 1), (10, 1), (1000, 1), (10**7, 1), (12, 3)])
@pytest.mark.parametrize("root", [0.2, 1.0, 3.0, 5.5])
def test_information_grows_by_the_mass_that_is_missing(length, sparsity, root):
    """I' = (R - M)/2 in s; exact for one token, on common draws for several."""
    found = channel(length, sparsity)
    h = 1e-3 * root
    slope = (found.information(root + h) - found.information(root - h)) / (4 * root * h)
    missing = (sparsity - float(found.mass(root).mean())) / 2
    # Signal tokens' own sum is part of the drawn I, whose slope scatters with it: 4.5 standard errors of that.
    scatter = 0.0 if found.exact else 4.5 * (sparsity / (16 * 2048)) ** 0.5 / root
    assert slope == pytest.approx(missing, abs=1e-5 + scatter)


def test_sums_over_subsets_by_enumeration():
    x = np.random.default_rng(0).normal(size=(3, 7)) * np.array([[0.3], [3.0], [40.0]])
    for size in (1, 3, 6):
        log_sum, squares = subset_sums(x, np.ones_like(x), size)
        terms = np.stack([x[:, list(c)].sum(1) for c in combinations(range(7), size)])
        np.testing.assert_allclose(log_sum, np.logaddexp.reduce(terms), rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(squares, (_enumerated(x, 1.0, size) ** 2).sum(1), rtol=1e-9)
    twice, _ = subset_sums(x[:, :4], np.full((3, 4), 2.0), 3)
    np.testing.assert_allclose(twice, subset_sums(np.repeat(x[:, :4], 2, axis=1), np.ones((3, 8)), 3)[0], rtol=1e-12)


def test_the_two_ways_for_many_signal_tokens_agree():
    """L = 500, R = 20: token by token with a bulk, and counted in bins (4.5 s.e.)."""
    for root in (0.5, 2.5):
        binned = BinnedBags(500, 20).subsets(root, root)[1].mean(1)
        draws = token_draws(500, 20, 64)
        assert draws.others.has_bulk
        drawn = 20 * few_signal_tokens(draws, draws.signals.tokens + root, root)[1].mean(1)
        error = np.hypot(binned.std(ddof=1), drawn.std(ddof=1)) / 4
        assert abs(binned.mean() - drawn.mean()) < 4.5 * error < 0.2


def test_bulk_of_a_long_bag_against_every_token():
    """Power sums for the bulk against all tokens one by one, L = 420, R = 3 (4.5 s.e. of the difference)."""
    for root in (0.4, 2.0, 3.5):
        each = []
        for every in (False, True):
            draws = token_draws(420, 3, 256, every)
            each.append(3 * few_signal_tokens(draws, draws.signals.tokens + root, root)[1].mean(1))
        difference = each[0] - each[1]  # the signal tokens' draws are independent too, as the draws' layout differs
        assert abs(difference.mean()) < 4.5 * difference.std(ddof=1) / 4


def test_bayes_limit_of_one_token_is_linear_regression_like():
    """L = R = 1: M = 1, so m = x/(1 + x) with x = alpha pi theta^2 exactly."""
    found = theory.bayes_limit(Task(length=1, strength=1.0, prevalence=0.5), 4.0)
    assert found.overlap == pytest.approx(2 / 3, abs=1e-9) and not found.hard
    assert found.test_error == pytest.approx(ndtr(-0.5 * (2 / 3) ** 0.5), abs=4.5 * found.errors["test_error"] + 1e-6)


def test_hard_phase_is_found_and_gone_with_more_samples():
    hard = theory.bayes_limit(Task(length=1000), 1.0)
    assert hard.hard and hard.reachable_overlap < 0.05 and hard.overlap > 0.9
    assert hard.test_error < hard.reachable_test_error
    assert not theory.bayes_limit(Task(length=1000), 60.0).hard


def test_more_samples_never_hurt_the_limit():
    errors = [theory.bayes_limit(Task(strength=3.0), a).test_error for a in (0.2, 0.5, 1, 3, 10)]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] > bayes_error(Task(strength=3.0))[0]


@pytest.mark.parametrize(
    ("task", "alpha", "overlap", "reachable"),
    [
        (Task(10**7, 1, 5.0), 2.0, 2.50015e-6, 2.50015e-6),
        (Task(20_000, 1, 20.0), 0.1, 20 / 21, 20 / 21),
        (Task(1000, 1, 50.0), 1.0, 1250 / 1251, 1250 / 1251),
        (Task(10**6, 1, 20.0), 0.2, 40 / 41, 4.0654e-5),
        (Task(2000, 2000, 0.1), 1.0, 10 / 11, 10 / 11),
    ],
)
def test_limits_where_the_posterior_is_steep(task, alpha, overlap, reachable):
    """M is R beyond the transition, hence x/(1 + x) with x = alpha pi theta^2 R there; below it M = R^2/L (1 + O(s))."""
    found = theory.bayes_limit(task, alpha)
    assert found.overlap == pytest.approx(overlap, rel=1e-4)
    assert found.reachable_overlap == pytest.approx(reachable, rel=1e-4)
    assert found.hard == (overlap > reachable) and found.residual <= 1e-7
    assert all(np.isfinite(list(found.errors.values())))


def test_many_signal_tokens_have_an_answer():
    """L = 1000, R = 500: direct iteration of the map ends at the reported fixed point."""
    task = Task(1000, 500, 1.0)
    found = theory.bayes_limit(task, 0.01)
    m, drawn = found.overlap / 2, channel(1000, 500)
    for _ in range(4):  # M hardly changes here: four rounds gain six digits
        x = 0.01 * 0.5 * float(drawn.mass(m**0.5).mean())
        m = x / (1 + x)
    assert found.overlap == pytest.approx(m, rel=1e-3) and not found.hard
    assert 0 < found.errors["overlap"] < 0.01 * found.overlap


def test_two_tokens_have_one_fixed_point():
    """M is concave in s there: what the search finds is the root of the equation, and the only one."""
    rng = np.random.default_rng(8)
    for _ in range(20):
        strength, alpha = 10 ** rng.uniform(-2, 1.3), 10 ** rng.uniform(-2, 3)
        search = _Map(Task(2, 1, strength, rng.uniform(0.02, 0.98)), alpha)
        (interval,) = search.crossings()
        u = search.polished(*interval)
        assert search.direct(u) == pytest.approx(u, rel=1e-9)


def test_mass_of_two_tokens_is_the_channel_of_a_sign():
    """All there is to know is the difference of the tokens, N(root, 2): M = E[expit(root (root + sqrt(2) g))]."""
    g = np.linspace(-9.0, 9.0, 4001)
    weight = np.exp(-0.5 * g**2)
    for root in (0.01, 0.7, 2.0, 5.0, 9.0):
        expected = expit(root * (root + np.sqrt(2.0) * g)) @ weight / weight.sum()
        assert channel(2, 1).mass(root)[0] == pytest.approx(expected, rel=1e-9)


def test_direct_iteration_ends_at_the_reachable_limit():
    for task, alpha in ((Task(50, 1, 4.0, 0.3), 1.5), (Task(20, 3, 2.0, 0.4), 2.0)):
        found, drawn = theory.bayes_limit(task, alpha), channel(task.length, task.sparsity)
        m = 0.0
        for _ in range(200):
            x = alpha * task.prevalence * task.strength**2 * float(drawn.mass(task.strength * m**0.5).mean())
            m = x / (1 + x)
        assert found.reachable_overlap == pytest.approx(m, rel=1e-5)


@pytest.mark.parametrize(("length", "sparsity"), [(7, 5), (9, 8), (120, 40), (120, 80)])
def test_recursion_is_the_sum_over_angles(length, sparsity):
    """Token by token, whichever of the two kinds is rarer, against the characteristic function: equal on the same bags."""
    for root in (0.05, 1.3, 6.0):
        draws = token_draws(length, sparsity, 4, every_token=True)
        signal = draws.signals.tokens + root
        log_mean, first = few_signal_tokens(draws, signal, root)
        log_x = root * np.concatenate([signal, draws.others.tokens], axis=-1).reshape(-1, length)
        log_choices = gammaln(length + 1) - gammaln(sparsity + 1) - gammaln(length - sparsity + 1)
        angles, _ = subset_sums(log_x, np.ones_like(log_x), sparsity)
        np.testing.assert_allclose(log_mean.ravel(), angles - log_choices, atol=1e-10, rtol=1e-11)
        without, _ = subset_sums(log_x[:, 1:], np.ones_like(log_x[:, 1:]), sparsity - 1)
        np.testing.assert_allclose(first.ravel(), np.exp(log_x[:, 0] + without - angles), rtol=1e-8)


@pytest.mark.parametrize(
    ("task", "alpha", "overlap", "test_error"),
    [
        (Task(64, 40, 0.5), 0.5, (0.614755, 3.1e-5), (0.15897, 1.9e-3)),
        (Task(64, 40, 2.0), 0.1, (0.866907, 7.8e-5), (2.79e-7, 1.1e-7)),
    ],
)
def test_limits_with_many_signal_tokens(task, alpha, overlap, test_error):
    """Reference values by the sum over angles, with its standard errors (4.5 s.e. of both)."""
    found = theory.bayes_limit(task, alpha)
    for name, (value, error) in {"overlap": overlap, "test_error": test_error}.items():
        assert abs(getattr(found, name) - value) <= 4.5 * np.hypot(error, found.errors[name]), name
    assert found.residual <= 1e-7 and not found.hard


@pytest.mark.slow
@pytest.mark.parametrize("length", [10**5, 10**7])
def test_nearly_whole_bags_have_the_error_of_their_mean_token(length):
    """All but one of very many tokens with signal: the mean token says all, N(theta R/L, 1/L), and is in closed form."""
    found = theory.bayes_limit(Task(length, length - 1, 3.0 * length**-0.5), 1.0)
    exact = ndtr(-0.5 * 3.0 * found.overlap**0.5)
    assert found.test_error == pytest.approx(exact, rel=1e-4)
    assert found.errors["test_error"] < 1e-6 * exact


def test_the_mean_token_of_binned_bags_has_its_law():
    """Mean and variance of tokens put at their bins' means; the bins hide 0.05 % of the variance."""
    bags = BinnedBags(5000, 1000)
    mean = bags.mean_token(0.5).ravel() - 0.1
    assert abs(mean.mean()) < 4.5 * (len(mean) * 5000) ** -0.5
    assert mean.var() == pytest.approx(1 / 5000, rel=4.5 * (2 / len(mean)) ** 0.5)


@pytest.mark.parametrize("sparsity", [2, 4])
def test_several_signal_tokens_in_very_long_bags(sparsity):
    """Bags whose bulk is not drawn token by token: at strength zero a token is a member with probability R/L."""
    drawn = channel(10_000, sparsity)
    np.testing.assert_allclose(drawn.mass(0.0), sparsity**2 / 10_000)
    assert drawn.information(0.0) == 0.0
    assert drawn.rough_mass(1e-3) == pytest.approx(sparsity**2 / 10_000, rel=0.05)
    found = theory.bayes_limit(Task(10_000, sparsity, 8.0, 0.5), 4.0)
    assert 0 < found.reachable_overlap < 1 and found.test_error < 0.05

"""The Bayes limit of bags that differ: by listing every subset of short bags, and in limits where it is the plain one."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from sparsetoken import Task, theory
from sparsetoken.laws.draws import token_draws
from sparsetoken.theory.bayes.differing_bags import DifferingBags, differing_bayes_error
from sparsetoken.theory.bayes.subset_sums import few_signal_tokens


def brute_force(task: Task, root_m: float, draws: int = 40_000) -> tuple[float, float, float]:
    """X(m), and the error of the best rule with its standard error, by listing every subset of short bags.

    Whitened tokens are used as they are: the definition, without any of the sums' algebra.
    """
    rng = np.random.default_rng(5)
    pi, eps, contaminated, rho = task.prevalence, task.label_noise, task.contamination, task.correlation
    overlap, errors = 0.0, []
    for length in sorted({kind.length for kind in task.kinds}):
        mine = [kind for kind in task.kinds if kind.length == length]
        share = sum(kind.probability for kind in mine)
        covariance = (1 - rho) * np.eye(length) + rho
        inverse = np.linalg.inv(np.linalg.cholesky(covariance))
        options, prior = [], []
        for kind in mine:
            subsets = list(combinations(range(length), kind.sparsity))
            for subset in subsets:
                v = np.zeros(length)
                v[list(subset)] = kind.strength
                options.append(inverse @ v)
                prior.append(kind.probability / share / len(subsets))
        signals, prior = np.array(options), np.array(prior)
        y = np.where(rng.random(draws) < pi, 1, -1)
        seen = np.where(rng.random(draws) < eps, -y, y)
        carries = (y > 0) | (rng.random(draws) < contaminated)
        which = rng.choice(len(signals), draws, p=prior / prior.sum())
        s = signals[which] * carries[:, None]
        t = root_m * s + rng.standard_normal((draws, length))
        ratio = np.exp(root_m * t @ signals.T - 0.5 * root_m**2 * (signals**2).sum(1)) * prior
        for label in (1, -1):
            p_label = pi * ((1 - eps) if label > 0 else eps) + (1 - pi) * (eps if label > 0 else 1 - eps)
            with_signal = pi * ((1 - eps) if label > 0 else eps) + (1 - pi) * contaminated * (
                eps if label > 0 else 1 - eps
            )
            q = with_signal / p_label
            rows = seen == label
            mean = (q * ratio[rows]) @ signals / (1 - q + q * ratio[rows].sum(1))[:, None]
            overlap += share * (s[rows] * mean).sum() / draws
        A = ratio.sum(1)
        says = np.where(pi * A > (1 - pi) * (1 - contaminated + contaminated * A), 1, -1)
        errors.append((share, np.mean(says != y)))
    error = sum(p * e for p, e in errors)
    return overlap, error, (error * (1 - error) / draws) ** 0.5


@pytest.mark.parametrize(
    "task",
    [
        Task({3: 0.5, 5: 0.5}, 1, 2.0, 0.4),
        Task(5, {1: 0.5, 2: 0.5}, {1.0: 0.4, 2.5: 0.6}, 0.4, label_noise=0.15),
        Task(4, 2, 2.0, 0.3, contamination=0.3),
        Task(4, {1: 0.5, 4: 0.5}, 2.0, 0.5, correlation=0.4),
        Task({3: 0.5, 4: 0.5}, {1: 0.5, 2: 0.5}, {1.0: 0.5, 3.0: 0.5}, 0.4, "uniform", 0.1, 0.2, 0.3),
    ],
)
def test_the_best_rule_against_brute_force(task):
    root_m = 0.8
    overlap, error, spread = brute_force(task, root_m)
    channel = DifferingBags(task)
    found = channel.mass(root_m * task.mean_strength) * channel.unit
    assert found.mean() == pytest.approx(overlap, rel=0.03)
    assert 0 < channel.least < found.mean() / channel.unit < channel.most
    ours, standard_error = differing_bayes_error(task, root_m)
    assert abs(ours - error) < 4.5 * np.hypot(spread, standard_error)


def test_many_signal_tokens():
    """33 and 34 of 35 tokens: the subsets are listed by the tokens left out."""
    for size in (33, 34):
        draws = token_draws(35, 33, 16, every_token=True)
        signal, root = draws.signals.tokens + 0.7, 0.8
        log_mean, first = few_signal_tokens(draws, signal, root, size)
        tokens = root * np.concatenate([signal, draws.others.tokens], axis=-1)
        out = np.array([[i in left for i in range(35)] for left in combinations(range(35), 35 - size)])
        each = tokens.sum(-1, keepdims=True) - tokens @ out.T
        np.testing.assert_allclose(log_mean, np.log(np.exp(each).mean(-1)), rtol=1e-9, atol=1e-9)
        kept = np.where(out[:, 0], 0.0, np.exp(each)).sum(-1) / np.exp(each).sum(-1)
        np.testing.assert_allclose(first, kept, rtol=1e-9)


def test_many_signal_tokens_in_bags_that_differ():
    """Strengths that hardly differ give the limit of a plain task (0.9086 and 0.0699(11), by sums over angles)."""
    found = theory.bayes_limit(Task(60, 40, {0.6: 0.5, 0.6001: 0.5}), 2.0)
    assert found.overlap == pytest.approx(0.9086, abs=3e-4)
    assert abs(found.test_error - 0.0699) < 4 * np.hypot(0.0011, found.errors["test_error"])
    with pytest.raises(ValueError, match=r"at most 65,536, for the Bayes limit .* got 80 with 1,000 tokens$"):
        theory.bayes_limit(Task(1000, 80, 1.0, label_noise=0.1), 1.0)

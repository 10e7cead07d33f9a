"""(T, S, kappa): one function of a bag's tokens, and the same numbers from groups of drawn ones."""

import jax
import numpy as np
import pytest

from sparsetoken import Task, theory
from sparsetoken._core.devices import in_double_precision
from sparsetoken.activations import get_activation
from sparsetoken.laws.bag_statistics import bag_statistics
from sparsetoken.laws.draws import token_draws
from sparsetoken.laws.populations import drawn_population


def by_hand(t, signal, theta, gamma, p):
    return (p * t).sum(-1), theta * np.sqrt(1 - gamma**2) * (p * signal).sum(-1), np.sqrt((p**2).sum(-1))


@pytest.mark.parametrize("activation", [None, "sigmoid", "tanh"])
def test_statistics_of_a_bag(activation):
    t = np.random.default_rng(0).standard_normal((5, 7))
    signal = np.zeros((5, 7))
    signal[:, 2:5] = 1.0
    if activation is None:
        p = np.exp(1.3 * t) / np.exp(1.3 * t).sum(-1, keepdims=True)
        sigma = None
    else:
        sigma = get_activation(activation)
        p = sigma(1.3 * t) / 7
    expected = by_hand(t, signal, 3.0, 0.6, p)
    for where in (signal, signal > 0, slice(2, 5)):
        np.testing.assert_allclose(bag_statistics(t, where, 3.0, 0.6, 1.3, sigma), expected, rtol=1e-13)


def test_sharp_weights_do_not_overflow():
    T, S, kappa = bag_statistics(np.array([[800.0, -900.0, 3.0]]), slice(0, 1), 2.0, 0.0, 50.0)
    assert (T, S, kappa) == (800.0, 2.0, 1.0)


@in_double_precision
def test_statistics_on_jax_numbers():
    t = np.random.default_rng(1).standard_normal((4, 6))
    signal = np.arange(6) < 2
    plain = bag_statistics(t, signal, 3.0, 0.6, 1.3)
    traced = jax.jit(bag_statistics)(t, signal, 3.0, 0.6, 1.3)
    assert all(isinstance(v, jax.Array) for v in traced)
    np.testing.assert_allclose(traced, plain, rtol=1e-13)


@pytest.mark.parametrize("activation", [None, "sigmoid"])
def test_groups_of_drawn_tokens_give_what_the_tokens_give(activation):
    draws, gamma, theta, k = token_draws(9, 3, 64, ordered=True), 0.7, 2.0, 1.5
    sigma = None if activation is None else get_activation(activation)
    population = drawn_population(draws, 9, 0.4, theta, gamma, k, sigma)
    for label, columns in ((1, population.positive), (0, population.negative)):
        t = np.concatenate([draws.signals.tokens + label * gamma * theta, draws.others.tokens], axis=-1)
        T, S, kappa = bag_statistics(t, slice(0, 3), label * theta, gamma, k, sigma)
        np.testing.assert_allclose(columns.T, T, rtol=1e-12)
        np.testing.assert_allclose(columns.S, S, rtol=1e-12)
        np.testing.assert_allclose(columns.kappa, kappa, rtol=1e-12)


@pytest.mark.parametrize("activation", [None, "sigmoid"])
def test_many_signal_tokens_against_the_definition(activation):
    """A group with a bulk of its own: means of T, S, kappa and of their products, 12 comparisons per case within 4.5 s.e."""
    task, gamma, k, count = Task(length=1500, sparsity=700, strength=1.5), 0.6, 1.2, 4000
    sigma = None if activation is None else get_activation(activation)
    law = theory.attention_law(task, gamma, k) if sigma is None else theory.elementwise_law(task, gamma, k, activation)
    population, _ = law.at(512)
    rng = np.random.default_rng(5)
    for label, columns in ((1, population.positive), (0, population.negative)):
        t = rng.standard_normal((count, 1500))
        t[:, :700] += label * gamma * 1.5
        direct = np.stack(bag_statistics(t, slice(0, 700), label * 1.5, gamma, k, sigma))
        drawn = np.stack([np.broadcast_to(v, columns.T.shape) for v in columns[:3]])
        for f in (lambda v: v, lambda v: v * np.roll(v, 1, axis=0)):
            x, y = f(direct), f(drawn)
            error = np.sqrt(x.var(1) / count + y.mean(2).var(1, ddof=1) / len(y[0]))
            assert (np.abs(x.mean(1) - y.mean((1, 2))) <= 4.5 * error + 1e-12).all()

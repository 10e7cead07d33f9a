import numpy as np
import pytest
from scipy.stats import kstest, norm

from sparsetoken import Task, theory
from sparsetoken.laws.draws import EXPLICIT_TOKENS, forget_draws, token_draws


def _by_definition(task, cosine, sharpness, count, seed, weights):
    """(T, S, kappa) of both classes straight from drawn tokens."""
    rng = np.random.default_rng(seed)
    L, R, theta = task.length, task.sparsity, task.strength
    out = []
    for positive in (True, False):
        t = rng.standard_normal((count, L))
        if positive:
            t[:, :R] += cosine * theta
        p = weights(sharpness * t)
        S = theta * np.sqrt(1 - cosine**2) * p[:, :R].sum(1) * positive
        out.append(np.stack([(p * t).sum(1), S, np.sqrt((p**2).sum(1))]))
    return out


def _softmax(z):
    e = np.exp(z - z.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def _columns(law, points):
    population, _ = law.at(points)
    return [
        np.stack([np.broadcast_to(v, c.T.shape) for v in c[:3]]) for c in (population.positive, population.negative)
    ]


@pytest.mark.parametrize(
    ("task", "cosine", "sharpness", "count"),
    [
        (Task(), 0.8, 1.0, 100_000),
        (Task(length=7, sparsity=3, strength=2), -0.4, 3.0, 100_000),
        (Task(length=5, sparsity=5, strength=1), 0.5, 0.7, 100_000),
        (Task(length=1200, sparsity=2, strength=4), 0.9, 2.0, 6_000),
    ],
)
def test_softmax_law_is_the_definition(task, cosine, sharpness, count):
    """Means of T, S, kappa and their squares and products, within 4.5 s.e. (56 comparisons: false alarm 4e-4)."""
    direct = _by_definition(task, cosine, sharpness, count, 1, _softmax)
    law = _columns(theory.attention_law(task, cosine, sharpness), 512)
    for a, b in zip(direct, law):
        for f in (lambda v: v, lambda v: v**2, lambda v: v * np.roll(v, 1, axis=0)):
            x, y = f(a), f(b)
            gap = x.mean(1) - y.mean((1, 2))
            error = np.sqrt(x.var(1) / x.shape[1] + y.mean(2).var(1, ddof=1) / y.shape[1])
            assert (np.abs(gap) <= 4.5 * error + 1e-12).all(), (gap, error)


def test_elementwise_law_is_the_definition():
    task = Task(length=6, sparsity=2, strength=3)
    direct = _by_definition(task, 0.7, 1.5, 100_000, 2, lambda z: 1 / (1 + np.exp(-z)) / 6)
    law = _columns(theory.elementwise_law(task, 0.7, 1.5), 512)
    for a, b in zip(direct, law):
        gap = a.mean(1) - b.mean((1, 2))
        error = np.sqrt(a.var(1) / a.shape[1] + b.mean(2).var(1, ddof=1) / b.shape[1])
        assert (np.abs(gap) <= 4.5 * error + 1e-12).all()


def test_ordered_tokens_are_still_standard_normal():
    """Kolmogorov-Smirnov at level 1e-4 on one randomly chosen token per bag, and the law of the largest. (Quasi-random points
    are more even than independent ones, so the test errs on the side of passing only for even deviations.)"""
    draws = token_draws(9, 1, 2048)
    rng = np.random.default_rng(0)
    flat = draws.others.tokens.reshape(-1, 8)
    assert (np.diff(flat, axis=1) <= 0).all()
    one = flat[np.arange(len(flat)), rng.integers(0, 8, len(flat))]
    assert kstest(one, norm.cdf).pvalue > 1e-4
    assert kstest(flat[:, 0], lambda x: norm.cdf(x) ** 8).pvalue > 1e-4


def test_tail_tokens_of_a_long_bag_have_the_right_number_and_law():
    length = 4 * EXPLICIT_TOKENS
    draws = token_draws(length, 1, 512)
    present = np.isfinite(draws.others.tokens)
    counts = present.sum(-1)
    assert (counts + draws.others.bulk == length - 1).all()
    expected = (length - 1) * norm.sf(draws.others.ceiling)
    assert counts.mean() == pytest.approx(expected, abs=4 * np.sqrt(expected / counts.size))
    tail = draws.others.tokens[present]
    assert kstest(tail, lambda x: 1 - norm.sf(x) / norm.sf(draws.others.ceiling)).pvalue > 1e-4


def test_same_arguments_same_draws():
    a = token_draws(5, 2, 64)
    forget_draws()
    b = token_draws(5, 2, 64)
    assert (
        a is not b
        and np.array_equal(a.others.tokens, b.others.tokens)
        and np.array_equal(a.signals.tokens, b.signals.tokens)
    )


def test_law_of_a_user_from_samples_and_from_nodes():
    task = Task()
    law = theory.attention_law(task, 0.8, 1.0)
    built_in = theory.erm(law, 2.0, 1e-2)
    positive, negative = (c.reshape(3, -1).T for c in _columns(theory.attention_law(task, 0.8, 1.0), 1024))
    own = theory.erm(theory.law_from_samples(positive, negative, 0.5), 2.0, 1e-2)
    assert own.standard_error > 0
    assert abs(own.test_error - built_in.test_error) <= 4.5 * np.hypot(own.standard_error, built_in.standard_error)
    exact = theory.erm(theory.law_from_nodes(positive[:2000], negative[:2000], 0.5), 2.0, 1e-2)
    assert exact.standard_error == 0.0 and exact.test_error == pytest.approx(built_in.test_error, abs=0.01)


def test_nodes_of_the_pooled_law_reproduce_it():
    """The pooled law written as Gauss-Hermite nodes in T must give its exact values."""
    task = Task()
    x, w = np.polynomial.hermite_e.hermegauss(61)
    nodes = [np.stack([m + x / np.sqrt(10), 0 * x, np.full_like(x, 10**-0.5)], axis=1) for m in (0.5, 0.0)]
    own = theory.erm(theory.law_from_nodes(*nodes, 0.5, weights=(w, w)), 2.0, 1e-2)
    exact = theory.erm(theory.pooled_law(task), 2.0, 1e-2)
    for name in ("test_error", "train_loss", "norm_w", "auc", "V"):
        assert getattr(own, name) == pytest.approx(getattr(exact, name), rel=2e-5), name


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: theory.attention_law(Task(), 1.5, 1.0), "cosine"),
        (lambda: theory.attention_law(Task(), 0.5, -1.0), "sharpness"),
        (lambda: theory.attention_law(Task(), 0.5, float("nan")), "sharpness"),
        (lambda: theory.vectorized_law(Task(positions="block")), "uniform positions"),
        (lambda: theory.law_from_samples([[0, 0, 0.0]] * 50, [[0, 0, 1.0]] * 50, 0.5), "kappa"),
        (lambda: theory.law_from_samples([[0, 0, 1.0]], [[0, 0, 1.0]] * 50, 0.5), "at least 32"),
        (lambda: theory.law_from_nodes([[0, 0]], [[0, 0, 1.0]], 0.5), "T, S, kappa"),
        (lambda: theory.law_from_nodes([[0, 0, 1.0]], [[0, 0, 1.0]], 1.5), "prevalence"),
        (lambda: theory.elementwise_law(Task(), 0.5, 1.0, "cosine"), "activation"),
    ],
)
def test_bad_laws_say_what_is_wrong(call, words):
    with pytest.raises(ValueError, match=words):
        call()

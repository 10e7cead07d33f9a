"""The quadrature rule of short bags against draws, and its error bars against a far finer rule."""

import pickle
from dataclasses import replace

import numpy as np
import pytest

from sparsetoken import Task, theory
from sparsetoken.laws import measures, short_bags
from sparsetoken.laws.short_bags import ruled_population, spacing_of, token_nodes

MEASURED = ("test_error", "auc", "sensitivity", "specificity", "train_loss", "train_error", "norm_w", "bias")


@pytest.mark.parametrize(("length", "sparsity"), [(2, 1), (2, 2), (3, 1), (3, 3), (4, 2), (5, 1)])
def test_nodes_have_the_moments_of_normal_tokens(length, sparsity):
    """Less their mean, tokens have variance 1 - 1/L and fourth moments 3 (1 - 1/L)^2, in every coarse lattice."""
    draws, weight = token_nodes(length, sparsity, 0.7)
    tokens = np.concatenate([draws.signals.tokens, draws.others.tokens], axis=-1)
    assert weight.sum(1) == pytest.approx(np.ones(length), abs=1e-12)
    assert np.abs(tokens.sum(-1)).max() < 1e-12
    for group in (tokens[..., :sparsity], tokens[..., sparsity:]):
        for c in range(length):
            square, fourth = (weight[c] @ (group[c] ** power).sum(-1) for power in (2, 4))
            assert square == pytest.approx(group.shape[-1] * (1 - 1 / length), abs=1e-6)
            assert fourth == pytest.approx(3 * group.shape[-1] * (1 - 1 / length) ** 2, abs=1e-5)


def settings():
    rng = np.random.default_rng(5)
    for length in (2, 2, 2, 3, 3, 4):
        sparsity, sharpness = int(rng.integers(1, length)), 10 ** rng.uniform(-0.5, {2: 1.3, 3: 0.6, 4: 0.0}[length])
        task = Task(length, sparsity, 10 ** rng.uniform(-0.5, 1), rng.uniform(0.1, 0.9))
        yield task, rng.uniform(0.1, 1.0), sharpness, 10 ** rng.uniform(-1, 1.5), 10 ** rng.uniform(-4, 0)
    odd = Task(3, {1: 0.5, 2: 0.5}, {2.0: 0.3, 4.0: 0.7}, 0.3, label_noise=0.1, contamination=0.2, correlation=0.3)
    yield odd, 0.8, 1.5, 2.0, 1e-2
    yield Task(2, 1, 3.0), 0.6, 4.0, 0.5, 0.0  # an interpolator


@pytest.mark.parametrize("setting", list(settings()), ids=str)
def test_the_rule_is_the_limit_of_draws(setting):
    task, cosine, sharpness, alpha, ridge = setting
    law = theory.attention_law(task, cosine, sharpness)
    ruled = theory.erm(law, alpha, ridge, "square")
    drawn = theory.erm(replace(law, has_rule=False), alpha, ridge, "square")
    assert ruled.points == 0 and drawn.points > 0
    assert ruled.standard_error < 0.1 * drawn.standard_error
    for name in MEASURED:
        error = drawn.standard_error if name == "test_error" else drawn.errors[name]
        slack = 1e-5 if name == "auc" else 1e-9  # that of draws comes from a histogram
        assert getattr(ruled, name) == pytest.approx(getattr(drawn, name), abs=5 * error + slack), name


@pytest.mark.parametrize("setting", list(settings())[::2], ids=str)
def test_error_bars_hold(setting, monkeypatch):
    """Against half the spacing: nothing is off by more than its standard error."""
    task, cosine, sharpness, alpha, ridge = setting
    monkeypatch.setattr(measures, "_DENSITY_ENTRIES", 1 << 20)  # of more entries the AUC comes from a histogram
    coarse = theory.erm(theory.attention_law(task, cosine, sharpness), alpha, ridge, "square")
    for name in ("_WANTED", "_FLAT"):
        monkeypatch.setattr(short_bags, name, 0.5 * getattr(short_bags, name))
    monkeypatch.setattr(short_bags, "MOST_NODES", 1 << 15)
    fine = theory.erm(theory.attention_law(task, cosine, sharpness), alpha, ridge, "square")
    for name in MEASURED:
        error = coarse.standard_error if name == "test_error" else coarse.errors[name]
        assert getattr(coarse, name) == pytest.approx(getattr(fine, name), abs=error + 2e-9), name


def test_draws_where_the_rule_does_not_do():
    """Steep scores along a direction that the query hardly sees: the coarse lattices differ, and draws take over."""
    hard = theory.attention_law(Task(2, 1, 16.94), 0.08, 1.96)
    assert hard.has_rule and theory.erm(hard, 790.0, 0.0, "square").points > 0
    long, sharp = theory.attention_law(Task(6, 1), 0.9, 0.1), theory.attention_law(Task(4, 1), 0.9, 8.0)
    mixed = theory.attention_law(Task({2: 0.5, 3: 0.5}, 1), 0.9, 0.5)
    assert not any(law.has_rule for law in (long, sharp, mixed))
    assert spacing_of(2, 1, 1e6) is None
    with pytest.raises(ValueError, match="no rule"):
        ruled_population(4, 1, 5.0, 0.5, 0.9, 8.0)


def test_results_on_the_rule_go_where_others_do():
    """They can be pickled, tested on other bags, swept, and asked for their margins."""
    task = Task(2, 1, 2.0)
    law = theory.attention_law(task, 0.9, 1.5)
    found = theory.erm(law, 2.0, 0.1, "square")
    again = pickle.loads(pickle.dumps(found))
    assert again == found and again.law.at(0)[0].replicates == 2
    margins = found.margin_densities(np.linspace(-8.0, 8.0, 400))
    assert sum(margins["test"]) * 16 / 399 == pytest.approx(1.0, abs=1e-3)
    same = found.on(task)
    assert same.test_error == pytest.approx(found.test_error, abs=5 * same.standard_error)
    assert found.on(Task(2, 1, 3.0)).test_error < found.test_error
    swept = theory.erm_sweep(law, [1.0, 2.0], 0.1, "square")
    assert [one.points for one in swept] == [0, 0] and swept[1].test_error == found.test_error

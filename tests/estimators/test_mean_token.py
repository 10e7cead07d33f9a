"""Mean tokens that are drawn towards the mean of all tokens where bags are short."""

from dataclasses import replace

import numpy as np
import pytest

from sparsetoken import BagClassifier, Bags
from sparsetoken.estimators.candidates import MEAN_RIDGES, Heads, Problem
from sparsetoken.estimators.folds import fold_rounds
from sparsetoken.estimators.heads import decisions, fit_pooled, start_head
from sparsetoken.estimators.mean_token import MOST_ADDED, added_tokens, mean_tokens
from sparsetoken.losses import get_loss


def drawn(seed, count, tau, shift=0.0, features=6, lengths=(1, 60)):
    """Bags of very different lengths whose true means differ by tau; positive ones are shifted in the first feature."""
    rng = np.random.default_rng(seed)
    signs = np.where(np.arange(count) % 2 == 0, 1.0, -1.0)
    tokens = []
    for sign in signs:
        size = int(np.exp(rng.uniform(*np.log(lengths))))
        x = 5.0 + tau * rng.standard_normal(features) + rng.standard_normal((size, features))
        x[:, 0] += shift * sign
        tokens.append(x)
    return Bags(tokens), signs


def test_added_tokens_are_the_ratio_of_the_variances():
    for tau, wanted in ((1.0, 1.0), (0.4, 6.25)):
        bags, _ = drawn(0, 600, tau)
        means = mean_tokens(bags).bags.tokens
        assert added_tokens(bags, means) == pytest.approx(wanted, rel=0.2)


def test_bags_that_do_not_differ_and_bags_of_one_length():
    bags, _ = drawn(1, 300, 0.0)
    assert added_tokens(bags, mean_tokens(bags).bags.tokens) > 20
    rng = np.random.default_rng(2)
    even = Bags(rng.standard_normal((30, 4, 3)))
    assert added_tokens(even, mean_tokens(even).bags.tokens) == 0.0
    alike = Bags([np.ones((size, 2)) for size in (1, 2, 3)])
    assert added_tokens(alike, mean_tokens(alike).bags.tokens) == 0.0
    # The bags' means differ less than their tokens make likely: the estimate of their variance is negative.
    opposite = Bags([np.array([[1.0], [-1.0]] * size) for size in (1, 2, 3)])
    assert added_tokens(opposite, mean_tokens(opposite).bags.tokens) == MOST_ADDED


@pytest.mark.parametrize("features", [6, 200])  # in the features as they are, and in a basis of the means' span
def test_the_head_on_tokens_says_what_the_head_on_means_said(features):
    bags, signs = drawn(3, 40, 0.5, 0.5, features)
    means = mean_tokens(bags, drawn_in=True)
    assert means.added > 0
    assert (means.basis is not None) == (features == 200)
    weights, loss = np.ones(len(bags)), get_loss("logistic")
    start = start_head("pooled", means.bags, signs, weights, loss)
    fitted = fit_pooled(means.bags.tokens, signs, weights, loss, 0.05, start)
    on_means = decisions([fitted], means.bags)[0]
    on_tokens = means.on_tokens(fitted)
    np.testing.assert_allclose(on_tokens.decide(bags.tokens, bags.starts), on_means, rtol=1e-9, atol=1e-9)
    plain = replace(on_tokens, added=0.0)
    assert not np.allclose(plain.decide(bags.tokens, bags.starts), on_means, atol=1e-3)


def test_held_out_bags_of_different_lengths_are_told_better():
    for seed in range(2):  # the gain is .06 to .08 on six seeds
        bags, signs = drawn(10 + seed, 300, 0.3, 0.3, lengths=(1, 200))
        rounds = fold_rounds(signs, np.random.default_rng(seed))
        problem = Problem({"tokens": bags}, signs, np.ones(len(bags)), rounds, get_loss("logistic"), 0)
        plain, drawn_in = (
            min(
                s.calibration.loss
                for s in Heads("mean", "tokens", "pooled", MEAN_RIDGES, drawn_in=is_so).validated(problem)
            )
            for is_so in (False, True)
        )
        assert drawn_in < plain - 0.03


def test_the_default_learner_keeps_the_added_tokens():
    bags, signs = drawn(20, 60, 0.4, 0.6)
    model = BagClassifier(candidates=["mean"]).fit(bags, signs)
    assert all(member.model.added > 0 for member in model.members_)
    # A bag repeated within itself says the same with more tokens: it is surer, and on the same side.
    one = bags[[0]].tokens[:1] + np.array([1.5, 0, 0, 0, 0, 0])
    short, long = model.decision_function([one, np.repeat(one, 30, axis=0)])
    assert 0 < short < long

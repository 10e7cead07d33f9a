"""The vote: shares by held-out losses, from equal ones to the best candidate's."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import softmax

from sparsetoken import AttentionClassifier, BagClassifier
from sparsetoken.estimators.default.candidates import CANDIDATES, chosen_candidates
from sparsetoken.estimators.default.vote import LEAST_SHARE, vote_shares
from sparsetoken.losses import Logistic, Square


def scores(n, noise, seed=0):
    """Log odds of candidates that are more or less sure of the labels."""
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    return np.stack([2 * (y + s * rng.standard_normal(n)) / s**2 for s in noise]), y


def test_shares_minimise_what_the_module_says():
    odds, y = scores(12, (1.5, 1.6, 2.0))
    shares = vote_shares(odds, y, np.ones(12), Logistic(), 12.0)

    def objective(a):
        c = softmax(a)
        return np.sum(np.logaddexp(0.0, -y * (c @ odds))) + np.sum(c * np.log(3 * c))

    least = min(minimize(objective, 2.0 * start, method="Nelder-Mead", options={"xatol": 1e-8, "fatol": 1e-10}).fun
                for start in np.eye(3))  # fmt: skip
    assert shares.sum() == pytest.approx(1.0) and shares.min() > LEAST_SHARE
    assert objective(np.log(shares)) == pytest.approx(least, abs=1e-4)


def test_equal_shares_where_little_is_known_and_the_best_where_much_is():
    odds, y = scores(4, (1.0, 1.1))
    few = vote_shares(odds, y, np.ones(4), Logistic(), 0.5)
    assert np.abs(few - 0.5).max() < 0.2
    odds, y = scores(4000, (1.0, 4.0))
    odds[1] = -odds[1]
    many = vote_shares(odds, y, np.ones(4000), Logistic(), 4000.0)
    assert many[0] > 1 - LEAST_SHARE
    numbers = np.stack([y, -y])
    np.testing.assert_allclose(vote_shares(numbers, y, np.ones(4000), Square(), 4000.0), [1.0, 0.0], atol=1e-6)


def test_candidates_by_name():
    assert [c.name for c in chosen_candidates("auto", CANDIDATES)] == [c.name for c in CANDIDATES]
    assert len({c.name for c in CANDIDATES}) == len(CANDIDATES) == 6
    for wanted, words in (("tied", "'auto' or a list"), (["nobody"], "must be among"), (["likeness"], "sees tokens")):
        with pytest.raises(ValueError, match=words):
            chosen_candidates(wanted, CANDIDATES)


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_more_bags_are_not_worse_than_the_best_candidate_and_attention(seed):
    """Features of unequal variance, and a small shift per bag: one candidate had the whole vote, and more bags did not help."""
    rng, direction = np.random.default_rng(seed), np.random.default_rng(9).standard_normal(20)
    direction /= np.linalg.norm(direction)

    def drawn(n, length=10, d=20):
        X = rng.standard_normal((n, length, d)) * np.linspace(0.5, 2.0, d) + 0.3 * rng.standard_normal((n, 1, d))
        y = rng.integers(0, 2, n)
        X[np.flatnonzero(y), 0] += 5.0 * direction
        return X, y

    test, truth = drawn(4000)
    losses = []
    for n in (300, 2000):
        X, y = drawn(n)
        for model in (BagClassifier(), AttentionClassifier()):
            p = model.fit(X, y).predict_proba(test)
            losses.append(-np.mean(np.log(p[np.arange(4000), truth])))
    assert losses[2] < losses[3] + 0.004  # with one candidate alone it was 0.008 and 0.011 behind
    assert losses[2] < losses[0]

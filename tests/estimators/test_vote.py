"""The default learner's candidates, their one inner validation and their vote."""

from __future__ import annotations

import numpy as np
import pytest

from sparsetoken import BagClassifier, Bags
from sparsetoken.estimators.candidates import DEFAULT, KNOWN, Problem
from sparsetoken.estimators.folds import FEW_BAGS, FEW_TOKENS, ROUNDS, fold_rounds
from sparsetoken.estimators.lift import TokenLift, seen_often
from sparsetoken.estimators.statistics import BagStatistics
from sparsetoken.estimators.views import BagViews
from sparsetoken.estimators.vote import take_vote, vote_shares
from sparsetoken.losses import get_loss
from tests.helpers import planted_bags

NAMES = [candidate.name for candidate in KNOWN]


def test_few_bags_are_held_out_in_several_rounds():
    signs = np.where(np.arange(FEW_BAGS) % 3, 1.0, -1.0)
    rounds = fold_rounds(signs, np.random.default_rng(0))
    assert len(rounds) == ROUNDS > 1
    for folds in rounds:
        np.testing.assert_array_equal(np.sort(np.concatenate(folds)), np.arange(FEW_BAGS))
    assert any(not np.array_equal(a, b) for a, b in zip(*rounds[:2]))
    assert len(fold_rounds(np.append(signs, 1.0), np.random.default_rng(0))) == 1
    assert len(fold_rounds(signs, np.random.default_rng(0), None, FEW_TOKENS)) == ROUNDS
    assert len(fold_rounds(signs, np.random.default_rng(0), None, FEW_TOKENS + 1)) == 1
    assert fold_rounds(np.array([1.0, -1.0, -1.0]), np.random.default_rng(0)) == []


def test_every_round_is_scored_by_heads_that_have_not_seen_the_bag():
    drawn, labels, _ = planted_bags(3, n=30, length=4, d=3, strength=3.0)
    bags, signs = Bags(drawn), np.where(np.asarray(labels) == 1, 1.0, -1.0)
    views = BagViews(("tokens",), 0, True).fit(bags, signs, 0).of(bags)
    rounds = fold_rounds(signs, np.random.default_rng(1))
    weights = np.ones(len(signs))
    candidate = next(c for c in KNOWN if c.name == "mean")
    found = list(candidate.validated(Problem(views, signs, weights, rounds, get_loss("logistic"), 0)))
    one_by_one = [
        list(candidate.validated(Problem(views, signs, weights, [folds], get_loss("logistic"), 0))) for folds in rounds
    ]
    assert found[0].scores.shape == (2, 30)
    for k, alone in enumerate(one_by_one):
        np.testing.assert_allclose(found[0].scores[k], alone[0].scores[0], rtol=1e-2, atol=1e-3)
    held = rounds[1][2]
    flipped = signs.copy()
    flipped[held] *= -1.0  # what is held out has no say in its own scores
    again = next(iter(candidate.validated(Problem(views, flipped, weights, rounds, get_loss("logistic"), 0))))
    np.testing.assert_allclose(again.scores[1, held], found[0].scores[1, held], rtol=1e-5, atol=1e-6)
    take_vote(found, Problem(views, signs, weights, rounds, get_loss("logistic"), 0))


def test_shares_follow_the_losses_as_far_as_bags_support_them():
    rng = np.random.default_rng(0)
    base = rng.exponential(0.5, 400)
    losses = np.array([base, base + 0.2, base + rng.normal(0.0, 1.0, 400) * 0.02])
    shares = vote_shares(losses, np.ones(400), 0)
    assert shares.sum() == pytest.approx(1.0)
    assert shares[1] == 0.0  # 80 nats worse
    assert min(shares[0], shares[2]) > 0.1  # chance decides between these two
    few = vote_shares(losses[:, :5], np.ones(5), 0)
    assert few[1] > 0.05  # five bags do not settle it
    doubled = vote_shares(np.repeat(losses, 2, axis=1), np.ones(800), 0)
    assert abs(doubled[0] - doubled[2]) >= abs(shares[0] - shares[2]) - 0.2
    one_sided = vote_shares(np.array([np.r_[0.0, 9.0], np.r_[9.0, 0.0]]), np.array([1.0, 1e-9]), 0)
    assert one_sided[0] > 0.95  # a bag without weight has no say


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("statistics", "likeness", "trees", "forest")])
def test_each_candidate_that_sees_tokens_learns_alone(name):
    bags, labels, _ = planted_bags(2, n=160, d=5, strength=5.0)
    model = BagClassifier(candidates=[name], lift=20).fit(bags[:100], labels[:100])
    assert {member.name.split()[0] for member in model.members_} == {name}
    assert model.score(bags[100:], labels[100:]) > (0.6 if name in ("mean", "pooled") else 0.8)


def test_statistics_may_win_the_vote_and_tokens_are_explained_all_the_same():
    """Half of the bags spread twice as far: no token says so, the bag's statistics do."""
    rng = np.random.default_rng(4)
    labels = np.arange(240) % 2
    bags = [rng.standard_normal((12, 3)) * (2.0 if y else 1.0) * rng.choice([0.5, 1.0, 2.0, 4.0]) for y in labels]
    bags = [np.vstack([bag, 0.1 * rng.standard_normal((8, 3))]) if y else bag for bag, y in zip(bags, labels)]
    model = BagClassifier(candidates=["linear", "statistics", "likeness", "trees"]).fit(bags[:160], labels[:160])
    voting = {member.name.split()[0] for member in model.members_ if member.share > 0}
    assert "linear" not in voting
    assert model.score(bags[160:], labels[160:]) > 0.9
    weights = model.attention_weights(bags[160:])
    assert all(len(w) == len(b) and w.sum() == pytest.approx(1.0) for w, b in zip(weights, bags[160:]))
    assert all(np.all(np.isfinite(s)) for s in model.token_scores(bags[160:]))
    assert model.transform(bags[160:]).shape[1] == len(model.get_feature_names_out())


def test_the_number_of_tokens_is_evidence():
    """Positive bags are longer and otherwise the same."""
    rng = np.random.default_rng(5)
    labels = np.arange(200) % 2
    bags = [rng.standard_normal((rng.integers(3, 9) + 8 * y, 4)) for y in labels]
    model = BagClassifier().fit(bags[:120], labels[:120])
    assert model.score(bags[120:], labels[120:]) > 0.9


def test_few_bags_of_many_features_are_told_by_their_plain_mean():
    """A signal in the mean of a few hundred features beside strong effects of no interest: kernels only blur it."""
    right = []
    for seed in range(3):
        rng = np.random.default_rng([9, seed])
        y = np.arange(260) % 2
        strong, signal = rng.standard_normal((5, 300)), rng.standard_normal(300)
        effects = rng.standard_normal((260, 5)) @ strong + 0.6 * rng.standard_normal((260, 300))
        X = (
            rng.standard_normal((260, 12, 300))
            + (effects + np.outer(y, 6.0 * signal / np.linalg.norm(signal)))[:, None]
        )
        model = BagClassifier().fit(X[:60], y[:60])
        assert any(member.name.startswith("mean") and member.share > 0 for member in model.members_)
        right.append(model.score(X[60:], y[60:]))
    assert np.mean(right) > 0.91  # 0.86 without


def test_fifty_bags_with_a_moderate_signal_are_not_distrusted():
    """Many candidates on few bags: the vote keeps what it has found, though no single bag is beyond doubt."""
    ratios = []
    for seed in range(4):
        rng = np.random.default_rng([8, seed])
        y = np.arange(450) % 2
        X = rng.standard_normal((450, 8, 20))
        X[y == 1, :, :4] += 0.3
        odds = BagClassifier(candidates=["linear", "pooled", "statistics", "likeness"]).fit(X[:50], y[:50])
        u = odds.decision_function(X[50:])
        ratios.append(np.mean(np.logaddexp(0.0, np.where(y[50:] == 1, -u, u))) / np.log(2.0))
    assert np.mean(ratios) < 0.83  # 0.84 where every setting that was tried counts against the vote


def test_candidates_are_checked_by_name():
    bags, labels, _ = planted_bags(3, n=30)
    assert set(DEFAULT) < set(NAMES) and len(KNOWN) == len(set(NAMES))
    with pytest.raises(ValueError, match=r"candidates must be among linear, .*, got 'woods'"):
        BagClassifier(candidates=["woods"]).fit(bags, labels)
    with pytest.raises(
        ValueError, match="at least one that sees tokens: linear, mean, pooled, tied, free, even, likelihood"
    ):
        BagClassifier(candidates=["trees"]).fit(bags, labels)
    with pytest.raises(ValueError, match="candidates must be 'auto' or a list of names"):
        BagClassifier(candidates="trees").fit(bags, labels)


def test_features_that_one_or_two_bags_hold_are_left_out():
    rng = np.random.default_rng(6)
    tokens = np.zeros((50, 4, 6))
    tokens[:, :, :3] = rng.standard_normal((50, 4, 3))
    tokens[:4, 0, 3], tokens[:6, 0, 4] = 1.0, 1.0
    np.testing.assert_array_equal(seen_often(Bags(tokens)), [0, 1, 2, 4])
    assert seen_often(Bags(tokens[:, :, :3])) is None
    assert seen_often(Bags(np.zeros((50, 4, 6)))) is None  # nothing would be left


@pytest.mark.parametrize("kind", ["tied", "pooled"])
def test_a_basis_of_the_tokens_span_changes_nothing(kind, monkeypatch):
    """Twenty tokens in ninety dimensions: heads in the span's basis decide as heads in all dimensions do."""
    rng = np.random.default_rng(7)
    labels = np.arange(14) % 2
    X = rng.standard_normal((14, 3, 90))
    X[labels == 1, 0] += 1.0
    test = rng.standard_normal((30, 3, 90)) + rng.integers(0, 2, (30, 1, 1))
    model = BagClassifier(candidates=[kind], lift=10).fit(X, labels)
    assert model.views_.lift_.basis_ is not None and model.views_.lift_.linear_width <= 42
    monkeypatch.setattr("sparsetoken.estimators.lift.SPAN_SHARE", 0.0)
    plain = BagClassifier(candidates=[kind], lift=10).fit(X, labels)
    assert plain.views_.lift_.basis_ is None
    np.testing.assert_allclose(model.decision_function(test), plain.decision_function(test), atol=2e-2)


def test_statistics_are_those_of_the_scaled_tokens():
    rng = np.random.default_rng(8)
    bags = Bags([rng.standard_normal((n, 2)) for n in (1, 3, 5, 4, 2, 6)])
    signs = np.array([1.0, -1.0] * 3)
    lift = TokenLift(0).fit(bags, signs, np.random.default_rng(0))
    statistics = BagStatistics(lift).fit(bags, np.random.default_rng(0))
    raw = statistics.raw(bags)
    for row, bag in zip(raw, bags):
        z = lift.scaled(bag)
        expected = np.concatenate([z.mean(0), z.max(0), z.min(0), z.std(0), [np.log(len(z))]])
        np.testing.assert_allclose(row, expected, atol=1e-7)
    assert np.sum(statistics.kernel(raw).var(axis=0)) == pytest.approx(100.0)


def test_one_scale_for_all_features_keeps_their_sizes():
    from sparsetoken import BagScaler

    rng = np.random.default_rng(9)
    X = rng.standard_normal((40, 5, 3)) * [1.0, 10.0, 0.1] + [3.0, 0.0, 1.0]
    scaled = BagScaler(common=True).fit_transform(Bags(X)).tokens
    np.testing.assert_allclose(scaled.std(axis=0) / scaled.std(axis=0)[1], [0.1, 1.0, 0.01], rtol=0.2)
    assert np.mean(scaled.var(axis=0)) == pytest.approx(1.0)
    with pytest.raises(ValueError, match="common must be False where compress is True"):
        BagScaler(common=True, compress=True).fit(X)

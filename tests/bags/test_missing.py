"""Missing values: refused by default, tokens left out, or values filled in."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import BaseEstimator

from sparsetoken import Bags
from sparsetoken.bags.checks import checked_bags


class Learner(BaseEstimator):
    """What `checked_bags` knows of an estimator."""

    def __init__(self, missing: str = "error"):
        self.missing = missing

    def predict(self, X):
        return checked_bags(self, X, reset=False)


@pytest.fixture
def holed():
    rng = np.random.default_rng(3)
    bags = [rng.standard_normal((n, 3)) for n in (4, 2, 3)]
    bags[0][1, 2] = bags[2][0, 0] = np.nan
    return bags


def test_they_are_refused_by_default_and_the_message_names_the_options(holed):
    with pytest.raises(
        ValueError, match=r"contains NaN: bag 0, token 1, feature 2; .* missing='drop-token' .*'impute'"
    ):
        Bags(holed)
    with pytest.raises(ValueError, match="missing='drop-token'"):
        checked_bags(Learner(), Bags(holed, missing="keep"), reset=True)
    with pytest.raises(ValueError, match="missing must be 'error' or 'drop-token' or 'impute', got 'mean'"):
        checked_bags(Learner("mean"), holed, reset=True)


def test_tokens_are_left_out(holed):
    whole = [bag[~np.isnan(bag).any(axis=1)] for bag in holed]
    for bags in (Bags(holed, missing="drop-token"), checked_bags(Learner("drop-token"), holed, reset=True)):
        assert list(bags.lengths) == [3, 2, 2]
        assert np.array_equal(bags.tokens, np.concatenate(whole))


def test_a_bag_of_which_nothing_is_left_is_named(holed):
    holed[1][:] = np.nan
    with pytest.raises(ValueError, match="bag 1 has no token without missing values"):
        Bags(holed, missing="drop-token")


def test_values_are_learnt_in_training_and_filled_in_afterwards(holed):
    learner = Learner("impute")
    bags = checked_bags(learner, holed, reset=True)
    means = np.nanmean(np.concatenate(holed), axis=0)
    assert learner.fill_values_ == pytest.approx(means)
    assert bags[0][1, 2] == pytest.approx(means[2])
    assert bags[2][0, 0] == pytest.approx(means[0])
    other = checked_bags(learner, [np.full((2, 3), np.nan)], reset=False)
    assert other[0] == pytest.approx(np.stack([means, means]))


def test_a_feature_without_any_value_is_named(holed):
    for bag in holed:
        bag[:, 1] = np.nan
    with pytest.raises(ValueError, match="feature 1 has no value"):
        checked_bags(Learner("impute"), holed, reset=True)


def test_infinite_values_stay_refused(holed):
    holed[1][0, 0] = np.inf
    with pytest.raises(ValueError, match="contains inf: bag 1"):
        Bags(holed, missing="drop-token")


def test_a_table_is_treated_alike():
    table = np.arange(12.0).reshape(4, 3)
    table[2, 1] = np.nan
    assert checked_bags(Learner("impute"), table, reset=True).tokens[2, 1] == pytest.approx((1 + 4 + 10) / 3)


def test_one_bag_where_bags_are_expected_is_refused_with_the_remedy():
    rng = np.random.default_rng(0)
    learner = Learner()
    checked_bags(learner, [rng.standard_normal((n, 3)) for n in (4, 2)], reset=True)
    with pytest.raises(ValueError, match=r"pass \[X\] for one bag"):
        checked_bags(learner, rng.standard_normal((5, 3)), reset=False)
    assert len(checked_bags(learner, [rng.standard_normal((5, 3))], reset=False)) == 1

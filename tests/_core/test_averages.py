"""Averages over trials and replicates, their extrapolation in the dimension, and how they are written."""

import math
from math import inf, nan

import numpy as np
import pandas as pd
import pytest

from sparsetoken._core.averages import combined_degrees, extrapolate, standard_error, summarise, with_error


def test_mean_error_and_extrapolation():
    rng = np.random.default_rng(0)
    rows = [
        {"x": x, "d": d, "value": x + 3.0 / d + 0.01 * rng.standard_normal()}
        for x in (1.0, 2.0)
        for d in (10, 20)
        for _ in range(50)
    ]
    table = pd.DataFrame(rows)
    means = summarise(table, ["x", "d"], "value")
    first = table.query("x == 1 and d == 10")["value"]
    assert means.loc[0, "mean"] == pytest.approx(first.mean())
    assert means.loc[0, "error"] == pytest.approx(first.std(ddof=1) / np.sqrt(50))
    limits = extrapolate(table, ["x"], "value")
    # 2 mean(20) - mean(10): standard error sqrt(5) 0.01/sqrt(50), and five of them allowed (error rate 1e-6)
    assert np.abs(limits["limit"] - limits["x"]).max() < 5 * np.sqrt(5) * 0.01 / np.sqrt(50)
    assert limits["error"].to_numpy() == pytest.approx(np.sqrt(5) * 0.01 / np.sqrt(50), rel=0.4)
    assert limits["bias"].to_numpy() == pytest.approx(3.0 / 20, abs=0.03)


def test_degrees_of_freedom_of_a_sum():
    assert combined_degrees([1.0, 1.0], [7, 7]) == pytest.approx(14)
    assert combined_degrees([1.0, 1e-9], [5, 50]) == pytest.approx(5)
    assert combined_degrees([0.0, 0.0], [3, 4]) == 7


def test_it_is_the_spread_of_the_mean():
    x = np.random.default_rng(0).standard_normal((4000, 9))
    assert standard_error(x.T).mean() == pytest.approx(x.mean(1).std(), rel=0.05)
    assert standard_error([1.0, 3.0]) == pytest.approx(1.0)
    assert standard_error(x, axis=1).shape == (4000,)


def test_one_replicate_is_unknown_or_exact_as_the_caller_says():
    assert math.isnan(standard_error([2.0])) and standard_error([2.0], alone=0.0) == 0.0
    assert standard_error(np.ones((1, 3)), alone=0.0).tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("value", "error", "words"),
    [
        (0.037312, 0.00112, "0.0373 ± 0.0011"),
        (1234.5, 27.0, "1234 ± 27"),
        (0.30152, 0.000032, "0.301520 ± 0.000032"),  # never "± 0.0000"
        (0.01905769, 0.00000036, "0.01906"),
        (0.3, 0.0, "0.3"),
        (12.0, nan, "12"),
        (12.0, inf, "12"),
        (0.1, 1e-15, "0.1"),  # the rounding of equal values
        (nan, 0.0, "-"),
        (0.02, 3e-10, "0.02"),  # never "0.02000000 ± 0.00000000"
        (5.746e-83, 4.3e-85, "< 1e-10"),
        (3.12e-7, 2e-10, "3.1200e-07 ± 2.0e-10"),
        (1e-12, 3e-11, "< 1e-10"),
        (0.0, 3e-11, "0.0e+00 ± 3.0e-11"),
    ],
)
def test_a_value_has_the_digits_its_error_supports(value, error, words):
    assert with_error(value, error) == words


def test_a_share_is_extrapolated_without_leaving_its_range():
    table = pd.DataFrame({"d": [100, 100, 200, 200], "g": "a", "auc": [0.90, 0.92, 0.97, 0.99]})
    (row,) = extrapolate(table, ["g"], "auc").to_dict("records")
    assert 0.98 < row["limit"] < 1  # on the scale of the AUC itself it would be 1.05
    plain = extrapolate(table.rename(columns={"auc": "value"}), ["g"], "value").iloc[0]
    assert plain["limit"] == pytest.approx(1.05) and row["error"] == pytest.approx(plain["error"])


def test_a_share_that_is_not_known_to_be_above_zero_has_a_limit_with_a_wide_error():
    """The logit of 0.001 ± 0.05 carries the limit almost to 1, and its error with it."""
    values = [-0.049, 0.051, 0.12, 0.30]
    table = pd.DataFrame({"d": [200, 200, 400, 400], "g": "a", "test_error": values})
    (row,) = extrapolate(table, ["g"], "test_error").to_dict("records")
    assert row["limit"] > 0.9 and row["error"] > 0.5


def test_numbers_that_are_nothing_are_said_to_be_small():
    assert with_error(3e-12) == with_error(3e-12, 1e-13) == "< 1e-10"
    assert with_error(0.0) == "0" and with_error(2e-10) == "2e-10"

"""Ticks of logarithmic axes: plain numbers, neither crowded nor bare."""

import pytest

from sparsetoken.plotting.scales import plain_number, round_numbers


@pytest.mark.parametrize(
    "value, words",
    [
        (0.05, "0.05"),
        (0.0001, "0.0001"),
        (1e-5, "10⁻⁵"),
        (10_000.0, "10,000"),
        (1e6, "10⁶"),
        (2e-7, "2·10⁻⁷"),
        (0.0, "0"),
    ],
)
def test_numbers_in_words(value, words):
    assert plain_number(value) == words


@pytest.mark.parametrize("low, high", [(0.02, 0.09), (0.02, 0.5), (0.5, 10.0), (1e-5, 1.0), (1.0, 1e9), (1e-12, 1e12)])
def test_every_range_has_a_few_numbers_within_it(low, high):
    ticks = round_numbers(low, high)
    assert 2 <= len(ticks) <= 10 and ticks == sorted(ticks)
    assert all(0.8 * low <= tick <= 1.25 * high for tick in ticks)

"""Ticks of logarithmic axes: plain numbers, neither crowded nor bare."""

import pytest

from sparsetoken.plotting.style import MOST_POWERS, in_lines, plain_number, round_numbers, with_indices


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


def test_powers_of_ten_do_not_touch_each_other():
    assert len(round_numbers(10.0, 1e9)) <= MOST_POWERS and round_numbers(4.0, 400.0) == [10.0, 30.0, 100.0, 300.0]


def test_names_in_lines_and_indices_of_symbols():
    assert in_lines("elementwise attention") == "elementwise\nattention" and in_lines("") == ""
    assert in_lines("L\xa010, R\xa01, θ\xa05") == "L\xa010, R\xa01,\nθ\xa05"
    assert in_lines("After 12 steps (L = 5, θ = 3.5)", 20) == "After 12 steps\n(L\xa0=\xa05, θ\xa0=\xa03.5)"
    assert with_indices("η_b and eta_b, η_bag, η_w = 1", "<", ">") == "η<b> and eta_b, η_bag, η<w> = 1"

"""Single values: what is refused is refused in one short sentence, however odd it is."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from sparsetoken import Task
from sparsetoken._core.validation import real_number, whole_number


@pytest.mark.parametrize(
    "value",
    [10**400, -(10**400), Fraction(10**400), 10**5000, float("inf"), float("nan"), True],
    ids=lambda v: type(v).__name__,
)
def test_numbers_beyond_the_floats_are_refused_in_one_short_sentence(value):
    with pytest.raises(ValueError, match=r"^strength must be a number in \[0, 1e\+50\], got ") as refused:
        Task(strength=value)
    assert len(str(refused.value)) < 150 and "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "value", ["x" * 10_000, [1] * 10_000, {"a": 1}, None, 1j, Decimal("1.5"), 2.5, np.float64(0.5)]
)
def test_what_is_no_whole_number_is_refused(value):
    with pytest.raises(ValueError, match=r"^length must be a whole number >= 1, got ") as refused:
        whole_number("length", value, 1)
    assert len(str(refused.value)) < 150


@pytest.mark.parametrize("value", [3, 3.0, np.int64(3), np.float32(3), Fraction(3)])
def test_whole_numbers_of_every_type(value):
    found = whole_number("n", value, 1)
    assert found == 3 and type(found) is int


def test_large_integers_stay_exact():
    assert whole_number("seed", 2**63 + 1, 0) == 2**63 + 1


def test_open_and_closed_ends():
    assert real_number("x", 0, 0.0, 1.0) == 0.0 and real_number("x", 1, 0.0, 1.0) == 1.0
    with pytest.raises(ValueError, match=r"x must be a number in \(0, 1\), got 1"):
        real_number("x", 1, 0.0, 1.0, open_low=True, open_high=True)

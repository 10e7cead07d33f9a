"""Numbers in words."""

from math import inf, nan

import pytest

from sparsetoken._core.words import with_error


@pytest.mark.parametrize(
    ("value", "error", "words"),
    [
        (0.037312, 0.00112, "0.0373 ± 0.0011"),
        (1234.5, 27.0, "1234 ± 27"),
        (0.30152, 0.000012, "0.301520 ± 0.000012"),  # never "± 0.0000"
        (0.3, 0.0, "0.3"),
        (12.0, nan, "12"),
        (12.0, inf, "12"),
        (0.1, 1e-15, "0.1"),  # the rounding of equal values
        (nan, 0.0, "-"),
        (0.02, 3e-10, "0.02"),  # never "0.02000000 ± 0.00000000"
        (5.746e-83, 4.3e-85, "5.746e-83 ± 4.3e-85"),
        (3.12e-7, 2e-10, "3.1200e-07 ± 2.0e-10"),
        (1e-12, 3e-11, "1.0e-12 ± 3.0e-11"),
        (0.0, 3e-11, "0.0e+00 ± 3.0e-11"),
    ],
)
def test_a_value_has_the_digits_its_error_supports(value, error, words):
    assert with_error(value, error) == words

"""Numbers, lists and ranges given as text."""

from __future__ import annotations

import pytest

from sparsetoken.cli.values import parse_values


def test_values_from_text():
    assert parse_values("x", "2") == [2.0] and parse_values("x", "1,2.5") == [1.0, 2.5]
    assert parse_values("x", "0.5:8:4") == [0.5, 3.0, 5.5, 8.0]
    assert parse_values("x", "1e-4:1:3:log") == [1e-4, 1e-2, 1.0]
    for bad in ("", "a", "1,,2", "1:2", "1:2:1", "1:2:3:lin", "0:1:3:log", "1:nan:3", "1:2:x"):
        with pytest.raises(ValueError, match=r"^x must be a number, a list"):
            parse_values("x", bad)

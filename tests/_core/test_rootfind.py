"""The searches along one parameter, on functions whose answers are known."""

from __future__ import annotations

import math

import pytest

from sparsetoken._core.rootfind import falling_root, last_that_holds


@pytest.mark.parametrize("first", [0.05, 3.0, 900.0, 1e9])
def test_falling_root_finds_a_root_and_a_jump(first):
    status, x = falling_root(lambda x: math.log(7.0 / x), first, 0.02, 2000.0)
    assert status == "found" and x == pytest.approx(7.0, rel=0.01)
    status, x = falling_root(lambda x: 1.0 if x < 7.0 else -1.0, first, 0.02, 2000.0, precision=1e-4)
    assert status == "found" and x == pytest.approx(7.0, rel=2e-4)


def test_falling_root_says_when_there_is_none():
    assert falling_root(lambda x: 1.0, 3.0, 0.02, 2000.0) == ("beyond", 2000.0)
    assert falling_root(lambda x: -1.0, 3.0, 0.02, 2000.0) == ("always", 0.02)
    with pytest.raises(ArithmeticError, match="NaN at 3"):
        falling_root(lambda x: math.nan, 3.0, 0.02, 2000.0)


def test_no_point_is_evaluated_twice():
    seen: list[float] = []

    def gap(x: float) -> float:
        seen.append(x)
        return 5.0 - x

    falling_root(gap, 1.0, 0.01, 100.0, precision=1e-6)
    assert len(seen) == len(set(seen)) < 20


@pytest.mark.parametrize("first", [1, 30, 32, 33, 5000])
def test_last_that_holds_finds_the_edge(first):
    assert last_that_holds(lambda n: n <= 32, first, 1, 5000) == ("found", 32)


def test_last_that_holds_at_the_ends():
    assert last_that_holds(lambda n: True, 7, 1, 5000) == ("beyond", 5000)
    assert last_that_holds(lambda n: False, 7, 3, 5000) == ("never", 3)
    status, n = last_that_holds(lambda n: n <= 3000, 7, 1, 5000)
    assert status == "found" and 2940 <= n <= 3000

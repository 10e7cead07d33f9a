"""Searches along one parameter, proximal points, and Wright's omega function."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import wrightomega

from sparsetoken._core.root_finding import falling_root, last_that_holds, least_on_grid, proximal_point, wright_omega


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


@pytest.mark.parametrize(
    ("slope", "curvature"),
    [
        (lambda r: np.sinh(np.clip(r, -300, 300)), lambda r: np.cosh(np.clip(r, -300, 300))),  # as steep as exp(300)
        (lambda r: r**3, lambda r: 3 * r**2),  # flat where it begins
        (lambda r: np.clip(r, -1, 1), lambda r: 1.0 * (np.abs(r) < 1)),  # Newton's steps see its corners too late
    ],
    ids=["steep", "flat", "corners"],
)
def test_the_point_solves_its_equation(slope, curvature):
    h, step = np.meshgrid([-40.0, -1.0, 0.0, 0.3, 7.0, 200.0], [0.0, 1e-3, 1.0, 1e8])
    r = proximal_point(slope, curvature, h, step)
    np.testing.assert_allclose(r + step * slope(r), h, rtol=1e-9, atol=1e-6)
    np.testing.assert_array_equal(r[0], h[0])


def test_omega_is_scipys():
    x = np.concatenate([np.linspace(-60.0, 60.0, 1201), [-800.0, -300.0, 1e3, 1e12]])
    np.testing.assert_allclose(wright_omega(x), wrightomega(x), rtol=1e-13)


def test_least_on_grid_takes_the_deeper_of_two_valleys_and_the_ends():
    def valleys(x):
        return min((x - 1.3) ** 2, (x - 7.77) ** 2 - 0.1)

    x, value = least_on_grid(valleys, np.linspace(0.0, 10.0, 11), 1e-6)
    assert x == pytest.approx(7.77, abs=1e-4) and value == pytest.approx(-0.1)
    assert least_on_grid(lambda x: x, np.linspace(2.0, 3.0, 5), 1e-3) == (2.0, 2.0)

"""Proximal points by Newton's method inside a bracket, and Wright's omega function."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import wrightomega

from sparsetoken._core.prox import proximal_point, wright_omega


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

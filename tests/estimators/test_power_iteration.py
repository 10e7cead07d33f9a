"""The largest eigenvalue by power iteration: one digit, whatever the size of the numbers."""

from __future__ import annotations

import numpy as np
import pytest

from sparsetoken.estimators.power_iteration import largest_eigenvalue


@pytest.mark.parametrize("size", [1e-150, 1.0, 1e150])
def test_largest_variance_of_tokens(size):
    rng = np.random.default_rng(1)
    x = rng.standard_normal((400, 30)) * np.linspace(1.0, 3.0, 30)
    found = largest_eigenvalue(lambda v: size * (x.T @ (x @ v) / len(x)), 30)
    expected = np.linalg.eigvalsh(x.T @ x / len(x))[-1]
    assert 0.9 * expected < found / size <= expected * (1 + 1e-12)


def test_what_vanishes_or_overflows():
    assert largest_eigenvalue(np.zeros_like, 5) == 0.0
    assert largest_eigenvalue(lambda v: np.full_like(v, np.inf), 5) == np.inf
    assert np.isnan(largest_eigenvalue(lambda v: np.full_like(v, np.nan), 5))

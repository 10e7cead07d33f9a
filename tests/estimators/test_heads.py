"""Attention heads: gradients of their objectives."""

from __future__ import annotations

import numpy as np
import pytest

from sparsetoken import Bags
from sparsetoken.estimators.heads import _objective
from sparsetoken.losses import get_loss
from tests.helpers import planted_bags


@pytest.mark.parametrize("kind", ["tied", "free"])
def test_head_gradients_agree_with_differences(kind):
    rng = np.random.default_rng(3)
    bags, labels, _ = planted_bags(14, n=10, d=3, ragged=True)
    data, signs = Bags(bags), np.where(labels == 1, 1.0, -1.0)
    objective, size = _objective(kind, get_loss("logistic")), 4 if kind == "tied" else 7
    x, p = rng.standard_normal(size), np.full(10, 0.1)
    arguments = (data.tokens, data.starts, signs, p, 0.3)
    _, gradient = objective(x, *arguments)
    for k in range(size):
        step = np.zeros(size)
        step[k] = 1e-6
        slope = (objective(x + step, *arguments)[0] - objective(x - step, *arguments)[0]) / 2e-6
        np.testing.assert_allclose(gradient[k], slope, rtol=1e-6, atol=1e-8)

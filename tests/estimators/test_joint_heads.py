"""Attention heads: gradients of their objectives, and folds fitted at once against folds fitted alone."""

from __future__ import annotations

import numpy as np
import pytest

from sparsetoken import Bags
from sparsetoken.bags import temporary_files
from sparsetoken.estimators.paper.joint_heads import (
    Head,
    decisions,
    fit_heads,
    shared_objective,
)
from sparsetoken.losses import get_loss
from tests.helpers import planted_bags

LOGISTIC = get_loss("logistic")


def problem(n=10, d=3):
    bags, labels, _ = planted_bags(14, n=n, d=d, ragged=True)
    return Bags(bags), np.where(labels == 1, 1.0, -1.0)


@pytest.mark.parametrize("kind", ["tied", "free"])
@pytest.mark.parametrize("sharpness", [1.0, 2.5])
def test_head_gradients_agree_with_differences(kind, sharpness):
    rng = np.random.default_rng(3)
    bags, signs = problem()
    size = 7 if kind == "free" else 4
    p = rng.dirichlet(np.ones(10), size=2)
    p[1, :3] = 0.0  # bags that the second head must not see
    objective = shared_objective(kind, LOGISTIC, sharpness, bags, signs, p, 0.3)
    x, which = rng.standard_normal((2, size)), np.array([0, 1])
    _, gradient = objective(x, which)
    for k in range(size):
        step = np.zeros((2, size))
        step[:, k] = 1e-6
        slope = (objective(x + step, which)[0] - objective(x - step, which)[0]) / 2e-6
        np.testing.assert_allclose(gradient[:, k], slope, rtol=1e-6, atol=1e-8)
    alone = objective(x[1:], which[1:])
    np.testing.assert_allclose(alone[1][0], gradient[1], rtol=1e-12)


def test_folds_fitted_together_are_those_fitted_alone():
    bags, signs = problem(60, 4)
    weights = np.ones((3, 60))
    weights[0, :20], weights[1, 20:40] = 0.0, 0.0
    starts = [Head("tied", np.zeros(4), np.zeros(4), 0.0)] * 3
    together = fit_heads(bags, signs, weights, LOGISTIC, 0.05, starts, 1e-12)
    for row, start, head in zip(weights, starts, together):
        seen = np.flatnonzero(row)
        alone = fit_heads(bags[seen], signs[seen], np.ones((1, len(seen))), LOGISTIC, 0.05, [start], 1e-12)[0]
        np.testing.assert_allclose(head.readout, alone.readout, rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(head.bias, alone.bias, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("size", [200, 2**21], ids=["bag by bag", "at once"])
def test_heads_decide_together_as_they_do_alone(size, monkeypatch):
    rng = np.random.default_rng(5)
    bags, _ = problem(12, 4)
    monkeypatch.setattr(temporary_files, "BLOCK_BYTES", size)
    some = [Head("tied", 2.0 * w, w, float(w[0]), 2.0) for w in rng.standard_normal((3, 4))]
    expected = [head.decide(bags.tokens, bags.starts) for head in some]
    np.testing.assert_allclose(decisions(some, bags), expected, rtol=1e-12, atol=1e-14)


def test_a_tied_head_lies_between_mean_and_maximum():
    bags, _ = problem()
    w = np.array([1.0, -0.5, 0.2])
    z = Head("tied", 4.0 * w, w, 0.0, 4.0).decide(bags.tokens, bags.starts)
    for value, bag in zip(z, bags):
        assert np.mean(bag @ w) <= value <= np.max(bag @ w)
        np.testing.assert_allclose(value, np.log(np.mean(np.exp(4.0 * bag @ w))) / 4.0, rtol=1e-12)

"""The standard error of a mean."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sparsetoken._core.replicates import standard_error


def test_it_is_the_spread_of_the_mean():
    x = np.random.default_rng(0).standard_normal((4000, 9))
    assert standard_error(x.T).mean() == pytest.approx(x.mean(1).std(), rel=0.05)
    assert standard_error([1.0, 3.0]) == pytest.approx(1.0)
    assert standard_error(x, axis=1).shape == (4000,)


def test_one_replicate_is_unknown_or_exact_as_the_caller_says():
    assert math.isnan(standard_error([2.0])) and standard_error([2.0], alone=0.0) == 0.0
    assert standard_error(np.ones((1, 3)), alone=0.0).tolist() == [0.0, 0.0, 0.0]

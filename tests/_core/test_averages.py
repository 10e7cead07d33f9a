"""Averages over trials and their extrapolation in the dimension."""

import numpy as np
import pandas as pd
import pytest

from sparsetoken._core.averages import combined_degrees, extrapolate, summarise


def test_mean_error_and_extrapolation():
    rng = np.random.default_rng(0)
    rows = [
        {"x": x, "d": d, "value": x + 3.0 / d + 0.01 * rng.standard_normal()}
        for x in (1.0, 2.0)
        for d in (10, 20)
        for _ in range(50)
    ]
    table = pd.DataFrame(rows)
    means = summarise(table, ["x", "d"], "value")
    first = table.query("x == 1 and d == 10")["value"]
    assert means.loc[0, "mean"] == pytest.approx(first.mean())
    assert means.loc[0, "error"] == pytest.approx(first.std(ddof=1) / np.sqrt(50))
    limits = extrapolate(table, ["x"], "value")
    # 2 mean(20) - mean(10): standard error sqrt(5) 0.01/sqrt(50), and five of them allowed (error rate 1e-6)
    assert np.abs(limits["limit"] - limits["x"]).max() < 5 * np.sqrt(5) * 0.01 / np.sqrt(50)
    assert limits["error"].to_numpy() == pytest.approx(np.sqrt(5) * 0.01 / np.sqrt(50), rel=0.4)
    assert limits["bias"].to_numpy() == pytest.approx(3.0 / 20, abs=0.03)


def test_degrees_of_freedom_of_a_sum():
    assert combined_degrees([1.0, 1.0], [7, 7]) == pytest.approx(14)
    assert combined_degrees([1.0, 1e-9], [5, 50]) == pytest.approx(5)
    assert combined_degrees([0.0, 0.0], [3, 4]) == 7

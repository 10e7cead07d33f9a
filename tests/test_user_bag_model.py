"""The example of a bag model of one's own: theory and simulation agree, and what it prints is what it found."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "own_bag_model.py"


def test_the_example_agrees_with_simulation(capsys):
    d = 300
    exact, measured = runpy.run_path(str(EXAMPLE))["main"](d, 6)
    assert exact.model == measured.model == "votes" and exact.test_error[-1] < 0.3
    for name in ("test_error", "train_loss", "auc", "bias"):
        value, other = getattr(exact, name), getattr(measured, name)
        spread = np.hypot(exact.errors[name], measured.errors[name])
        assert (np.abs(value - other) < 4.5 * spread + 2 / d).all(), name
    gap = np.abs(exact.overlap["w"] - measured.overlap["w"])
    assert (gap < 4.5 * np.hypot(exact.errors["overlap"]["w"], measured.errors["overlap"]["w"]) + 2 / d).all()
    assert f"step 8: test error {exact.test_error[8]:.4f}" in capsys.readouterr().out

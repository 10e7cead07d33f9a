"""Random streams of one seed, seeds of repeated trials, and their means."""

from __future__ import annotations

import math

from sparsetoken._core.averages import mean_and_error
from sparsetoken.simulation.seeds import STREAMS, stream, trial_seeds


def test_trial_seeds_and_means():
    assert trial_seeds(0, 3) == trial_seeds(0, 5)[:3]
    assert len(set(trial_seeds(0, 100))) == 100 and trial_seeds(0, 1) != trial_seeds(1, 1)
    assert mean_and_error([1.0, 3.0]) == (2.0, 1.0)
    assert math.isnan(mean_and_error([1.0])[1]) and math.isnan(mean_and_error([1.0, math.nan])[0])


def test_streams_are_distinct_and_reproducible():
    first = {name: stream(1, name).standard_normal() for name in STREAMS}
    assert len(set(first.values())) == len(STREAMS)
    assert first == {name: stream(1, name).standard_normal() for name in STREAMS}
    assert first["signal"] != stream(2, "signal").standard_normal()

"""A fixed set of calls gives what it gave before: a change of behaviour has to say so, by recording the outputs anew."""

from __future__ import annotations

import json

import pytest

from tests.helpers import DATA
from tests.recorded import estimator_calls, simulation_calls, theory_calls

RECORDED = json.loads((DATA / "recorded.json").read_text())
# Fixed points and readouts are solved to tolerances near 1e-8; estimators choose settings on held-out bags and stop earlier.
SETS = {"theory": (theory_calls, 1e-5), "simulation": (simulation_calls, 1e-5), "estimators": (estimator_calls, 1e-3)}


@pytest.mark.parametrize("name", SETS)
def test_outputs_are_the_recorded_ones(name):
    calls, tolerance = SETS[name]
    found = dict(calls())
    assert found
    for call, values in found.items():
        assert values == pytest.approx(RECORDED[call], rel=tolerance, abs=1e-3 * tolerance, nan_ok=True), call

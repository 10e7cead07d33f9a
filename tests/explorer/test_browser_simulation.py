"""Simulations in a real browser: begun, laid over the curves, cancelled."""

from __future__ import annotations

import pytest

from sparsetoken import Task, Training, simulate
from sparsetoken.simulation.seeds import trial_seeds
from tests.explorer.browser import TRACES, line

pytestmark = pytest.mark.browser


def test_simulation_runs_and_is_laid_over_the_curves(visit):
    page = visit("?d=40&trials=2&seed=7")
    other = visit("?view=alignment")
    page.wait(d=40)
    page.page.click("#simulate")
    page.page.wait_for_function("() => document.getElementById('progress').innerText.includes('18 of 18 trials, done')")
    page.page.wait_for_function("() => document.querySelector('#graph .js-plotly-plot').data.length >= 7")
    drawn = line(page.page.evaluate(TRACES), "simulated-attention")
    errors = [simulate(Task(), Training(), 40, seed).test_error for seed in trial_seeds(7, 2)]
    at = drawn["x"].index(4)
    assert drawn["y"][at] == pytest.approx(sum(errors) / 2)
    assert drawn["error"][at] == pytest.approx(abs(errors[0] - errors[1]) / 2)
    # Another page knows nothing of it, and other parameters take it off the figure.
    assert other.page.locator("#progress").inner_text() == ""
    page.put("seed", "8")
    traces = page.wait(seed=8)
    assert not [t for t in traces if str(t["meta"]).startswith("simulated")]


def test_simulation_can_be_cancelled_and_the_page_stays_alive(visit):
    page = visit("?d=200&trials=200")
    page.wait(d=200)
    page.page.click("#simulate")
    page.page.wait_for_function("() => parseInt(document.getElementById('progress').innerText) >= 1")
    page.view("alignment")
    page.wait(view="alignment")  # answers while the simulation runs
    page.view("curves")
    page.page.click("#cancel")
    page.page.wait_for_function("() => document.getElementById('progress').innerText.startsWith('cancelled')")
    page.page.wait_for_function("() => !document.getElementById('simulate').disabled")
    assert page.page.locator("#cancel").is_disabled()

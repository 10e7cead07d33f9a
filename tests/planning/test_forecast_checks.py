"""Forecasts held against measurements on parts of the bags: drawn ones, ones that differ, real ones."""

from __future__ import annotations

import json

import pytest

from sparsetoken import Bags
from sparsetoken.planning import Criterion, Outlook, estimate
from sparsetoken.planning.forecast_checks import check_forecasts
from tests.helpers import DATA


def test_the_theory_takes_bags_as_they_differ(unlike, monkeypatch):
    """The checked forecast is that of the differing task, and holds; bags all alike would promise far too much."""
    bags, labels, found = unlike
    assert len(found.strength_law) > 1 and len(found.length_law) == 2
    monkeypatch.setattr("sparsetoken.planning.forecast_checks.CHECKED", ("message_passing",))
    monkeypatch.setattr("sparsetoken.planning.forecast_checks.FRACTIONS", (0.5,))
    monkeypatch.setattr("sparsetoken.planning.forecast_checks.EXTRAPOLATED", ())
    monkeypatch.setattr("sparsetoken.planning.forecast_checks._calibrated", lambda *arguments: None)
    (check,), more = check_forecasts(Bags(bags), labels, found, Criterion("error"), 4, lambda words: None)
    assert not more and check.agrees(check.forecast), check
    alike = Outlook(Criterion("error"), d=40).measured("message_passing", found.task, check.n / 40).loss
    assert alike < 0.6 * check.forecast


def test_forecasts_hold_on_drawn_bags(checked):
    """Three (generous) standard errors at six places that share their bags: at most one false alarm in fifty draws of bags."""
    found = checked.reasons
    assert found.trust == "forecast"
    assert {check.learner for check in found.checks} == {"pooled", "message_passing"}
    errors = {(check.learner, check.n): check.measured for check in found.checks}
    assert errors["pooled", 192] > errors["message_passing", 192]
    assert [row["n"] for row in found.more if row["learner"] == "pooled"] == [240, 480, 960]
    for check in found.checks:
        assert abs(check.forecast - check.measured) < 3 * check.standard_error, check
        if check.fitted:
            assert check.calibrated == pytest.approx(check.measured, abs=0.01)
    text, plain = str(checked), json.loads(json.dumps(checked.to_dict()))
    assert "look to the theory like" in text and "rely on: forecast" in text
    assert plain["reasons"]["estimate"]["task"]["length"] == 10 and len(plain["reasons"]["checks"]) == 6


def test_real_bags_are_forecast_by_calibration(monkeypatch):
    """Pooling on musk1: a curve calibrated on half of the bags holds on other sizes."""
    from sparsetoken.bags.files import read_bags

    monkeypatch.setattr("sparsetoken.planning.forecast_checks.CHECKED", ("pooled",))
    monkeypatch.setattr("sparsetoken.planning.forecast_checks.FRACTIONS", (0.5, 0.8))
    monkeypatch.setattr("sparsetoken.planning.forecast_checks.EXTRAPOLATED", (1, 4))
    held = read_bags(DATA / "musk1.csv.gz")
    found = estimate(held.bags, held.labels)
    assert found.dimension < 30  # 166 strongly correlated features
    assert any("correlated" in remark for remark in found.remarks)
    checks, more = check_forecasts(held.bags, held.labels, found, Criterion(), 5, lambda words: None)
    assert all(check.agrees(check.calibrated) for check in checks)
    assert [row["n"] for row in more] == [92, 368]

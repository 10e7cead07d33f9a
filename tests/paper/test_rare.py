"""Criteria of the study of rare positives, on synthetic tables that make each verdict."""

import numpy as np
import pandas as pd
import pytest

from sparsetoken.paper.catalogue import rare_positives as rare


def tables(
    noise=0.003,
    shift=0.0,
    cosines=(0.4, 0.8),
    fitted=None,
    as_it_is=None,
    focal=0.98,
    focal_error=1e-4,
    focal_shift=0.0,
    cases=rare.FEW,
):
    """A study's tables around the given values; `fitted` and `as_it_is` change errors of the given query by loss and weight."""
    rng = np.random.default_rng(0)
    names = {case: rare.weighted(*case) for case in rare.MANY}
    plain, balanced = cosines
    query = [
        {
            "loss": rare.weighted(loss, w),
            "eta_b": eta_b,
            "cosine_q": (plain if w == 1 else balanced) - 0.1 * (eta_b > 0),
        }
        for loss in rare.RATES
        for w in rare.WEIGHTS
        for eta_b in (0.0, 1.0, 2.0, 4.0, 8.0)
    ]
    drawn = [
        {
            "loss": rare.weighted(loss, w),
            "d": d,
            "cosine_q": (plain if w == 1 else balanced) + noise * rng.standard_normal(),
        }
        for loss in rare.RATES
        for w in (1.0, rare.BALANCED)
        for d in (1000, 4000)
        for _ in range(12)
    ]
    errors = dict.fromkeys(cases, 0.01) | (fitted or {})
    raw = {case: 0.01 if case[1] > 1 else 0.02 for case in cases} | (as_it_is or {})
    given = [
        {
            "loss": names[case],
            "ridge": ridge,
            "threshold_error": errors[case] + off,
            "test_error": raw[case] + off,
            "auc": 0.99,
        }
        for case in cases
        for ridge, off in ((30.0, 0.0), (0.1, 0.005))
    ]
    simulated = [
        {"loss": names[case], "d": d, "auc": 0.99 + shift + noise * rng.standard_normal()}
        for case in cases
        if case[1] > 1
        for d in (150, 300)
        for _ in range(12)
    ]
    rates = {rate: str({"w": rate}) for rate in (3.0, 4.0, 6.0)}
    once = [
        {
            "loss": loss,
            "rates": rates[rate],
            "step": step,
            "auc": auc - 0.02 * (rate < 4) - 0.1 * (step == 0),
            "auc_se": se,
        }
        for loss, auc, se in (("logistic", 0.99, 1e-4), ("focal:2", focal, focal_error))
        for rate in (3.0, 4.0, 6.0)
        for step in (0, rare.STEPS)
    ]
    runs = [
        {
            **{"loss": "focal:2", "rates": rates[4.0], "step": step, "d": d},
            "auc": focal + focal_shift - 0.1 * (step == 0) + noise * rng.standard_normal(),
        }
        for step in (0, rare.STEPS)
        for d in (100, 200)
        for _ in range(12)
    ]
    made = {"query": query, "query_simulated": drawn, "trained": given, "given": given, "simulated": simulated}
    made |= {"at_once": once, "at_once_simulated": runs, "bayes": [{"test_error": 0.007}]}
    return {name: pd.DataFrame(rows) for name, rows in made.items()}


@pytest.mark.parametrize(
    ("criterion", "arguments", "verdict"),
    [
        (rare.auc_exact, {}, "confirmed"),
        (rare.auc_exact, {"shift": -0.04}, "refuted"),
        (rare.auc_exact, {"focal_shift": -0.04}, "refuted"),
        (rare.auc_exact, {"noise": 0.2}, "undecided"),
        (rare.weights_align, {}, "confirmed"),
        (rare.weights_align, {"cosines": (0.8, 0.4)}, "refuted"),
        (rare.weights_align, {"noise": 1.0}, "undecided"),
        (rare.threshold_only, {"cases": rare.MANY}, "confirmed"),
        (rare.threshold_only, {"cases": rare.MANY, "fitted": {("square", rare.BALANCED): 0.0112}}, "refuted"),
        (rare.threshold_only, {}, "undecided"),
        (rare.weight_sets_threshold, {}, "confirmed"),
        (rare.weight_sets_threshold, {"as_it_is": {("logistic", rare.BALANCED): 0.0112}}, "refuted"),
        (rare.weight_sets_threshold, {"as_it_is": {("logistic", 1.0): 0.0128}}, "refuted"),
        (rare.focal_gains_nothing, {}, "confirmed"),
        (rare.focal_gains_nothing, {"focal": 0.997}, "refuted"),
        (rare.focal_gains_nothing, {"focal": 0.994}, "confirmed"),
        (rare.focal_gains_nothing, {"focal_error": 0.005}, "undecided"),
    ],
)
def test_verdicts(criterion, arguments, verdict):
    assert criterion(tables(**arguments)).verdict == verdict


def test_the_best_of_the_settings_is_what_counts():
    found = tables(cases=rare.MANY)
    assert rare.cosines(found)["square", rare.BALANCED] == pytest.approx(0.8)
    assert rare.best(found, "given", "threshold_error")["square", 1.0] == pytest.approx(0.01)
    assert list(rare.best(found, "given", "test_error")) == rare.MANY


def test_missing_rows_leave_a_claim_undecided():
    found = tables()
    found["given"] = found["given"][found["given"]["loss"] == "logistic"]
    claim = next(claim for claim in rare.rare.claims if claim.id == "threshold-only")
    assert claim.judge(found).verdict == "undecided"


def test_weights_have_a_rate_each_and_balance_the_classes():
    assert pytest.approx((1 - rare.TASK["prevalence"]) / rare.TASK["prevalence"]) == rare.BALANCED
    assert all(len(rates) == len(rare.WEIGHTS) for rates in rare.RATES.values())
    assert rare.steps_at("exponential", 4.0)["eta_b"] == 2.0 and rare.steps_at("square", 1.0)["loss"] == "square"
    panels = rare.draw(tables())
    assert len(panels) == 3 and "Bayes limit is 0.0070" in rare.findings(tables())

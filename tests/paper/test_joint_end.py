"""Criteria of the study about where joint training ends, on synthetic tables that make each verdict."""

import numpy as np
import pandas as pd
import pytest

from sparsetoken.paper.catalogue import joint_end as study

CLAIMS = {claim.id.removeprefix("joint-end-"): claim for claim in study.joint_end.claims}


def tables(
    end=0.045,
    best=0.025,
    refit=0.0255,
    loo=0.045,
    staged=0.035,
    bayes=0.024,
    zero=0.06,
    planted=0.55,
    both=True,
    hard=False,
):
    """What the study's trials would give, with small errors."""
    rng = np.random.default_rng(0)
    measures = {
        "test_error": end,
        "best_bias_error": best,
        "refitted_error": refit,
        "leave_one_out_error": loo,
    }
    errors = {f"{name}_se": 1e-4 for name in measures}
    runs = [
        {**case, "d": 200, **{name: value + 1e-4 * rng.standard_normal() for name, value in measures.items()}}
        for case in study.CASES
        for _ in range(12)
    ]

    def overlaps(value):
        return pd.DataFrame({"decay": 0.7, "d": 200, "overlap[w]": value + 0.01 * rng.standard_normal(8)})

    branches = [
        {"decay": decay, "start": start, "coexist": both and decay in study.BOTH, "overlap[w]": 0.5}
        for decay in (*study.BOTH, *study.ONE)
        for start in ("uninformed", "informed")
    ]
    decays = [
        {**task, "decay": decay, "replicates": 8} | measures | errors for task in study.TASKS for decay in (0.6, 1.0)
    ]
    return {
        "predicted": pd.DataFrame([{**case, "replicates": 8} | measures | errors for case in study.CASES]),
        "simulated": pd.DataFrame(runs),
        "staged": pd.DataFrame([{"prevalence": pi, "ridge": 0.1, "test_error": staged} for pi in (0.5, 0.2)]),
        "decays": pd.DataFrame(decays),
        "bayes": pd.DataFrame([{**task, "test_error": bayes} for task in study.TASKS]),
        "branches": pd.DataFrame(branches),
        "trapped": pd.DataFrame({"alpha": [0.6, 2.0], "coexist": both, "overlap[w]": zero}),
        "possible": pd.DataFrame({"alpha": [0.1, 0.6, 2.0], "hard": hard, "overlap": 0.8}),
        "zero": overlaps(zero),
        "planted": overlaps(planted),
    }


def test_all_claims_hold_where_they_should():
    found = tables()
    assert {name: claim.criterion(found).verdict for name, claim in CLAIMS.items()} == dict.fromkeys(
        CLAIMS, "confirmed"
    )
    assert "0.0255" in study.findings(found) and len(study.draw(found)) == 2


@pytest.mark.parametrize(
    "name, wrong",
    [
        ("not-staged", {"staged": 0.0449}),
        ("bias", {"best": 0.044}),
        ("cure", {"refit": 0.035}),
        ("estimate", {"loo": 0.08}),
        ("near-bayes", {"bayes": 0.015}),
        ("two", {"both": False}),
        ("trap", {"both": False}),
        ("trap", {"hard": True}),
        ("two", {"planted": 0.1}),
        ("two", {"zero": 0.5}),
    ],
)
def test_each_claim_can_fail(name, wrong):
    assert CLAIMS[name].criterion(tables(**wrong)).verdict == "refuted"


def test_theory_and_simulation_must_agree():
    found = tables()
    found["predicted"]["test_error"] += 0.02
    assert CLAIMS["exact"].criterion(found).verdict == "refuted"

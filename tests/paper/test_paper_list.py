"""Criteria of the studies that complete the paper's own list, on synthetic tables that make each verdict."""

import numpy as np
import pandas as pd
import pytest

from sparsetoken.paper.catalogue import alignment, capacity, plans_and_designs, ridgeless
from sparsetoken.paper.catalogue import error_against_samples_and_length as samples_and_length


def judge(study, claim):
    """The criterion of a claim."""
    return next(c.judge for c in study.claims if c.id == claim)


def draws(rows, noise, repeats=24, column="test_error", seed=0):
    """A table of noisy trials around the given values."""
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {**row, column: row[column] + noise * rng.standard_normal()} for row in rows for _ in range(repeats)
    )


def capacity_tables(values=(2.1, 3.06, 4.4), pooled=2.57, noise=0.05, factor=1.0):
    """Capacities at the quick form's cosines; simulated crossings are `factor` times the predicted ones."""
    places = [("attention", c, v) for c, v in zip((0.0, 0.4, 0.6), values)] + [("pooled", 1.0, pooled)]
    predicted = [{"model": m, "cosine": c, "alpha_star": v} for m, c, v in places]
    rows = [{**row, "d": d, "alpha_star": factor * row["alpha_star"]} for row in predicted for d in (40, 120)]
    return {"query_draws": draws(rows, noise, column="alpha_star"), "predicted": pd.DataFrame(predicted)}


@pytest.mark.parametrize(
    ("criterion", "arguments", "verdict"),
    [
        (capacity.crossings_exact, {}, "confirmed"),
        (capacity.crossings_exact, {"factor": 1.4}, "refuted"),
        (capacity.crossings_exact, {"noise": 2.0}, "undecided"),
        (capacity.grows, {}, "confirmed"),
        (capacity.grows, {"values": (2.1, 4.4, 3.06)}, "refuted"),
        (capacity.grows, {"values": (2.1, 2.1, 3.06)}, "undecided"),
        (capacity.misaligned, {}, "confirmed"),
        (capacity.misaligned, {"pooled": 1.9}, "refuted"),
        (capacity.misaligned, {"pooled": 2.1}, "undecided"),
    ],
)
def test_query_capacity(criterion, arguments, verdict):
    assert criterion(capacity_tables(**arguments)).verdict == verdict


@pytest.mark.parametrize(
    ("criterion", "change", "verdict"),
    [
        (capacity.trained_capacity, {}, "confirmed"),
        (capacity.trained_capacity, {"separated": 0.1}, "refuted"),
        (capacity.cosine_governs, {}, "refuted"),
        (capacity.cosine_governs, {"sharper": 3.1}, "confirmed"),
    ],
)
def test_trained_query_and_sharpness(criterion, change, verdict):
    tables = {
        "predicted": pd.DataFrame(
            {"model": ["attention"] * 2 + ["pooled"], "cosine": [0.0, 1.0, 1.0], "alpha_star": [2.0, 8.0, 2.5]}
        ),
        "staged": pd.DataFrame({"alpha0": [2.0, 12.0], "alpha1": [2.0, 12.0], "cosine_q": [0.5, 0.9]}),
        "staged_runs": pd.DataFrame({"alpha1": [2.0, 12.0], "train_error": [0.0 + change.get("separated", 0.0), 0.2]}),
        "sharper": pd.DataFrame({"sharpness": [0.1, 1.0], "alpha_star": [3.0, change.get("sharper", 4.5)]}),
    }
    assert criterion(tables).verdict == verdict


def test_pooling_is_matched_where_the_capacities_cross():
    tables = capacity_tables()
    line = pd.DataFrame({"model": "attention", "cosine": [-1.0, 0.0, 0.4, 1.0], "alpha_star": [2.0, 2.1, 3.06, 7.0]})
    pooled = pd.DataFrame({"model": "pooled", "cosine": [1.0], "alpha_star": [2.57]})
    words = capacity.query_capacity_findings({**tables, "predicted": pd.concat([line, pooled])})
    expected = np.interp(2.57, [2.1, 3.06], [0.0, 0.4])
    assert f"below a cosine of {expected:.2f} attention separates fewer" in words


def transition_tables(
    below=(0.2, 0.1, 0.004),
    above=(0.3, 0.25, 0.24),
    noise=1e-4,
    shift=0.0,
    exponent=-0.5,
    meet=1e-4,
    measured=0.3,
    spread=0.01,
):
    rows = [
        {"ridge": ridge, "alpha": place, "train_loss": value}
        for place, values in ((ridgeless.BELOW, below), (ridgeless.ABOVE, above))
        for ridge, value in zip((1e-2, 1e-3, 1e-5), values)
    ]
    simulated = [{**row, "d": d, "train_loss": row["train_loss"] + shift} for row in rows for d in (80, 240)]
    rng = np.random.default_rng(0)
    task = {"cosine": 1.0, "sparsity": 1, "strength": 3.0}
    wide = [
        {"model": model, **task, "d": d, "alpha_star": 3.4 + 0.5 * (d / 50) ** exponent * z}
        for model in capacity.MODELS
        for d in (25, 50, 100)
        for z in rng.standard_normal(60)
    ]
    return {
        "predicted": pd.DataFrame(rows),
        "simulated": draws(simulated, noise, column="train_loss"),
        "draws": pd.DataFrame(wide),
        "twice_draws": pd.DataFrame(wide).assign(sparsity=2),
        "query_draws": pd.DataFrame(wide).assign(strength=4.0),
        "margin_runs": draws(
            [{"loss": x, "d": d, "test_error": measured} for x in ("logistic", "exponential") for d in (80, 240)],
            spread,
        ),
        "margin": pd.DataFrame(
            {
                "loss": loss,
                "ridge": ridge,
                "test_error": 0.3 + off * share,
                "norm_w": ridge**-0.2,
                "standard_error": 1e-5,
            }
            for loss, off in (("logistic", 0.0), ("exponential", meet))
            for ridge, share in ((1e-4, 4.0), (1e-6, 2.0), (1e-8, 1.0))
        ),
    }


@pytest.mark.parametrize(
    ("criterion", "arguments", "verdict"),
    [
        (judge(ridgeless.transition, "transition-exact"), {}, "confirmed"),
        (judge(ridgeless.transition, "transition-exact"), {"shift": 0.05}, "refuted"),
        (judge(ridgeless.transition, "transition-exact"), {"noise": 0.3}, "undecided"),
        (ridgeless.zero_below, {}, "confirmed"),
        (ridgeless.zero_below, {"below": (0.2, 0.15, 0.1)}, "refuted"),
        (ridgeless.zero_below, {"above": (0.3, 0.05, 0.01)}, "refuted"),
        (ridgeless.zero_below, {"noise": 0.02}, "undecided"),
        (ridgeless.sharpens, {}, "confirmed"),
        (ridgeless.sharpens, {"exponent": 0.0}, "refuted"),
        (ridgeless.max_margin, {}, "confirmed"),
        (ridgeless.max_margin, {"meet": 0.01}, "refuted"),
        (ridgeless.max_margin, {"measured": 0.4}, "refuted"),
        (ridgeless.max_margin, {"spread": 0.2}, "undecided"),
    ],
)
def test_transition(criterion, arguments, verdict):
    assert criterion(transition_tables(**arguments)).verdict == verdict


def test_the_transition_is_drawn_about_the_capacity():
    """The constant that places are shares of is the capacity of that setting."""
    from sparsetoken import Task, theory

    law = theory.attention_law(Task(**capacity.TASK), 0.8, 1.0)
    found = theory.capacity(law)
    assert found.alpha == pytest.approx(ridgeless.STAR, abs=0.01)


def map_tables(
    mass=0.7, measured=None, negative=0.1, noise=0.01, exponent=1.0, starved=0.36, spread=0.01, off=0.0, least=0.02
):
    measured = mass if measured is None else measured
    bins = [{"bin": i, "share": 0.1, "share_se": 0.0} for i in range(10)]
    common = {"mass_se": 0.0, "uniform": 0.1, "negative_mass": 0.1}
    predicted = [{"alpha0": a, "mass": mass, **b, **common} for a in (0.5, 2.0, 8.0) for b in bins]
    rows = [
        {"alpha0": a, "d": d, "mass": measured, "negative_mass": negative, **b}
        for a in (0.5, 2.0, 8.0)
        for d in (80, 240)
        for b in bins
    ]
    simulated = draws(rows, noise, column="mass")
    simulated["negative_mass"] += noise * np.random.default_rng(1).standard_normal(len(simulated))
    simulated["share"] += noise * np.random.default_rng(2).standard_normal(len(simulated))
    few = [{"alpha0": a, "d": d, "cosine_q": 0.6 * a**exponent} for a in (0.025, 0.05, 0.1) for d in (20_000, 60_000)]
    errors = {
        ("attention", alignment.STARVED): starved,
        **{("attention", a): 0.15 for a in (0.2, 0.6)},
        ("attention", alignment.FED): 0.03,
        ("pooled", alignment.STARVED): 0.28,
    }
    trained = [{"model": m, "alpha0": a, "d": d, "test_error": e} for (m, a), e in errors.items() for d in (300, 900)]
    return {
        "predicted": pd.DataFrame(predicted),
        "simulated": simulated,
        "few": draws(few, 1e-4, column="cosine_q"),
        "regime": pd.DataFrame({"alpha0": [0.02, 50.0], "test_error": [0.48, least]}),
        "known": pd.DataFrame({"test_error": [0.019]}),
        "trained": draws(trained, spread),
        "trained_predicted": pd.DataFrame(
            {"model": m, "alpha0": a, "test_error": e + off * (m == "attention"), "standard_error": 0.0}
            for (m, a), e in errors.items()
        ),
    }


@pytest.mark.parametrize(
    ("criterion", "arguments", "verdict"),
    [
        (alignment.law_exact, {}, "confirmed"),
        (alignment.law_exact, {"measured": 0.6}, "refuted"),
        (alignment.law_exact, {"noise": 1.0}, "undecided"),
        (alignment.amplifies, {}, "confirmed"),
        (alignment.amplifies, {"measured": 0.3}, "refuted"),
        (alignment.amplifies, {"measured": 0.5}, "undecided"),
        (alignment.law_exact, {"negative": 0.2}, "refuted"),
        (alignment.unaligned, {}, "confirmed"),
        (alignment.unaligned, {"exponent": 0.5}, "refuted"),
        (judge(alignment.attention_map, "few-errors-exact"), {}, "confirmed"),
        (judge(alignment.attention_map, "few-errors-exact"), {"off": 0.1}, "refuted"),
        (judge(alignment.attention_map, "few-errors-exact"), {"spread": 0.3}, "undecided"),
        (alignment.starved, {}, "confirmed"),
        (alignment.starved, {"starved": 0.2}, "refuted"),
        (alignment.starved, {"spread": 0.3}, "undecided"),
        (alignment.regime, {}, "confirmed"),
        (alignment.regime, {"least": 0.03}, "refuted"),
    ],
)
def test_attention_map(criterion, arguments, verdict):
    assert criterion(map_tables(**arguments)).verdict == verdict


def fixed_tables(factor=1.0, noise=0.002, swap=False, far=0.03):
    errors = {"attention": 0.01, "pooled": 0.2, "vectorized": 0.3}
    if swap:
        errors = {"attention": 0.3, "pooled": 0.2, "vectorized": 0.1}
    predicted = [
        {"model": m, "length": n, "test_error": e * (1 if n < 64 else 0.5 / e), "standard_error": 0.0}
        for m, e in errors.items()
        for n in (1, 4, 8, 16, 64)
    ]
    predicted = [{**r, "test_error": far} if (r["model"], r["length"]) == ("attention", 64) else r for r in predicted]
    values = {(r["model"], r["length"]): r["test_error"] for r in predicted}
    rows = [
        {"model": m, "length": n, "d": d, "test_error": factor * values[m, n]}
        for m in errors
        for n in ((4, 8, 16) if m == "vectorized" else (4, 16, 64))
        for d in (100, 300)
    ]
    return {"predicted": pd.DataFrame(predicted), "simulated": draws(rows, noise)}


@pytest.mark.parametrize(
    ("criterion", "arguments", "verdict"),
    [
        (judge(samples_and_length.fixed_strength, "fixed-strength-exact"), {}, "confirmed"),
        (judge(samples_and_length.fixed_strength, "fixed-strength-exact"), {"factor": 1.2}, "refuted"),
        (judge(samples_and_length.fixed_strength, "fixed-strength-exact"), {"noise": 0.5}, "undecided"),
        (samples_and_length.error_order, {}, "confirmed"),
        (samples_and_length.error_order, {"swap": True}, "refuted"),
        (samples_and_length.error_order, {"noise": 0.5}, "undecided"),
        (samples_and_length.longer, {"far": 0.4}, "refuted"),
        (samples_and_length.longer, {"noise": 1.0}, "undecided"),
    ],
)
def test_fixed_strength(criterion, arguments, verdict):
    tables = fixed_tables(**arguments)
    if criterion is samples_and_length.longer:  # pooling passes the target at a fifth of the longest bags simulated
        at = (tables["predicted"]["model"] == "pooled") & (tables["predicted"]["length"] >= 8)
        tables["predicted"].loc[at, "test_error"] = 0.4
    assert criterion(tables).verdict == verdict


def test_the_length_of_a_target_error_is_interpolated():
    table = pd.DataFrame({"model": "pooled", "length": [4, 16], "test_error": [0.2, 0.3]})
    assert samples_and_length.longest({"predicted": table}, "pooled") == pytest.approx(8.0)
    assert samples_and_length.longest({"predicted": table.assign(test_error=0.1)}, "pooled") == np.inf


def plan_tables(error=0.05, default=0.1, noise=0.005, share=0.6):
    rng = np.random.default_rng(0)
    rows = [
        {
            **{f: case[f] for f in plans_and_designs.FIELDS},
            "expected": 0.05,
            "expected_se": 0.0,
            "share": 0.3 if name == "plain" else share,
            "planned_error": error + noise * rng.standard_normal(),
            "default_error": default,
        }
        for name, case in plans_and_designs.CASES.items()
        for _ in range(24)
    ]
    return {"planned": pd.DataFrame(rows)}


@pytest.mark.parametrize(
    ("criterion", "arguments", "verdict"),
    [
        (plans_and_designs.hold, {}, "confirmed"),
        (plans_and_designs.hold, {"error": 0.07}, "refuted"),
        (plans_and_designs.hold, {"noise": 0.05}, "undecided"),
        (plans_and_designs.pays, {}, "confirmed"),
        (plans_and_designs.pays, {"default": 0.03}, "refuted"),
        (plans_and_designs.pays, {"noise": 0.1}, "undecided"),
        (plans_and_designs.more_for_the_query, {}, "confirmed"),
        (plans_and_designs.more_for_the_query, {"share": 0.35}, "refuted"),
    ],
)
def test_guidelines(criterion, arguments, verdict):
    assert criterion(plan_tables(**arguments)).verdict == verdict

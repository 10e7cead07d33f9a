"""Criteria of the studies about training step by step, on synthetic tables that make each verdict."""

import numpy as np
import pandas as pd
import pytest

from sparsetoken.paper.catalogue import joint_training as joint
from sparsetoken.paper.catalogue import plans_and_designs as designed
from sparsetoken.paper.catalogue import reuse_and_more_steps as reuse
from sparsetoken.schedules import as_stages, expand


def noisy(rows, column, noise, repeats=12, seed=0):
    """Trials around the rows' values at two dimensions."""
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {**row, "d": d, column: row[column] + noise * rng.standard_normal()}
        for row in rows
        for d in (200, 400)
        for _ in range(repeats)
    )


def joint_tables(
    ends, staged=0.05, error=1e-4, noise=1e-4, other=0.02, bayes=0.005, hard=(1.0, 2.0, 3.0, 4.0), behind=0.013, off=0.0
):
    """Joint training that falls to 0.2, then to `ends[decay]`; staged training's error at two ridges."""

    def curve(end):
        return np.array([0.5, 0.2, min(0.2, end) if end > 0.1 else 0.15, end])

    steps = (0, 10, 20, joint.STEPS)
    rows = [
        {
            **{"decay": decay, "alpha": alpha, "step": step, "replicates": 8},
            "test_error": float(value),
            "test_error_se": error,
        }
        for decay, end in ends.items()
        for alpha in joint.SIMULATED
        for step, value in zip(steps, curve(end))
    ]
    staged_rows = [
        {"alpha0": a / 2, "alpha1": a / 2, "ridge": ridge, "test_error": staged + shift, "standard_error": error}
        for a in joint.SIMULATED
        for ridge, shift in ((0.1, 0.01), (0.3, 0.0))
    ]
    others = {
        name: [{"alpha": joint.SIMULATED[0], "step": joint.STEPS, "test_error": value, "test_error_se": error}]
        for name, value in (("random_start", other), ("batches", other), ("biased_start", other + behind))
    }
    runs = {f"{name}_simulated": noisy(rows, "test_error", noise) for name, rows in others.items()}
    runs["batches_simulated"]["test_error"] += off
    order = [
        {**task, "step": joint.STEPS, "test_error": 0.02 * x, "test_error_se": error}
        for task, x in zip(joint.TASKS, hard)
    ]
    order_staged = [
        {**task, "ridge": ridge, "test_error": 0.1 * i * ridge, "standard_error": 0.0}
        for i, task in enumerate(joint.TASKS, 1)
        for ridge in (1.0, 2.0)
    ]
    return {
        "limit": pd.DataFrame(rows),
        **{name: pd.DataFrame(rows) for name, rows in others.items()},
        **runs,
        "bayes": pd.DataFrame([{"alpha": a, "test_error": bayes} for a in joint.SIMULATED]),
        "order": pd.DataFrame(order),
        "order_staged": pd.DataFrame(order_staged),
        "staged": pd.DataFrame(staged_rows),
        "simulated": noisy(rows, "test_error", noise),
    }


@pytest.mark.parametrize(
    ("criterion", "arguments", "verdict"),
    [
        (joint.steps_exact, {}, "confirmed"),
        (joint.steps_exact, {"noise": 0.5}, "undecided"),
        (joint.overfits, {}, "confirmed"),
        (joint.overfits, {"ends": {0.0: 0.05, joint.DECAY: 0.02}}, "undecided"),
        (joint.overfits, {"error": 0.1}, "undecided"),
        (joint.undecayed_loses, {}, "confirmed"),
        (joint.undecayed_loses, {"staged": 0.3}, "refuted"),
        (joint.alike, {}, "confirmed"),
        (joint.alike, {"other": 0.03}, "refuted"),
        (joint.alike, {"error": 0.01}, "undecided"),
        (joint.variants_exact, {}, "confirmed"),
        (joint.variants_exact, {"off": 0.01}, "refuted"),
        (joint.variants_exact, {"noise": 0.2}, "undecided"),
        (joint.delayed, {}, "confirmed"),
        (joint.delayed, {"behind": 0.0}, "refuted"),
        (joint.delayed, {"error": 0.01}, "undecided"),
        (joint.nearer, {}, "confirmed"),
        (joint.nearer, {"staged": 0.02}, "refuted"),
        (joint.nearer, {"error": 0.01}, "undecided"),
        (joint.same_order, {}, "confirmed"),
        (joint.same_order, {"hard": (1.0, 3.0, 2.0, 4.0)}, "refuted"),
        (joint.same_order, {"error": 0.01}, "undecided"),
        (joint.measured_gain, {}, "confirmed"),
        (joint.measured_gain, {"staged": 0.01}, "refuted"),
        (joint.measured_gain, {"noise": 0.1}, "undecided"),
    ],
)
def test_joint(criterion, arguments, verdict):
    given = {"ends": {0.0: 0.25, joint.DECAY: 0.02}} | arguments
    assert criterion(joint_tables(**given)).verdict == verdict


def test_the_words_about_joint_training_have_both_sides_with_their_errors():
    tables = joint_tables({0.0: 0.25, joint.DECAY: 0.02})
    assert joint.gaps_left(tables) == pytest.approx(dict.fromkeys(joint.SIMULATED, 1 / 3))
    predicted, seen = joint.variant_ends(tables, "biased_start")[joint.SIMULATED[0]]
    assert predicted == pytest.approx(0.033) and abs(seen.value - 0.033) < 5 * seen.error < 1e-3
    assert "33% to 33%" in joint.findings(tables) and "0.0330" in joint.findings(tables)


def test_joint_against_simulation_that_is_off():
    tables = joint_tables({0.0: 0.25, joint.DECAY: 0.02})
    tables["simulated"]["test_error"] += 0.02
    assert joint.steps_exact(tables).verdict == "refuted"


def reuse_tables(value=0.03, split=0.05, independent=0.035, error=1e-4, noise=1e-4):
    rows = [{"alpha": a, "step": 40, "test_error": value, "test_error_se": error} for a in (0.5, 1.0, 2.0)]
    runs = [{"alpha0": a, "test_error": value} for a in (1.0, 2.0)]

    def forecast(factor, v):
        return pd.DataFrame({"alpha0": factor * a, "test_error": v, "standard_error": error} for a in (0.5, 1.0, 2.0))

    return {
        "exact": pd.DataFrame(rows),
        "simulated": noisy(runs, "test_error", noise),
        "split": forecast(0.5, split),
        "independent": forecast(1.0, independent),
    }


@pytest.mark.parametrize(
    ("criterion", "arguments", "verdict"),
    [
        (reuse.reuse_exact, {}, "confirmed"),
        (reuse.reuse_exact, {"noise": 0.3}, "undecided"),
        (reuse.beats_the_split, {}, "confirmed"),
        (reuse.beats_the_split, {"split": 0.02}, "refuted"),
        (reuse.beats_the_split, {"error": 0.01}, "undecided"),
        (reuse.pessimistic, {}, "confirmed"),
        (reuse.pessimistic, {"independent": 0.02}, "refuted"),
        (reuse.pessimistic, {"error": 0.01}, "undecided"),
    ],
)
def test_reuse(criterion, arguments, verdict):
    assert criterion(reuse_tables(**arguments)).verdict == verdict


def rounds_tables(cosines=(0.8, 0.85, 0.7, 0.5), errors=(0.05, 0.03, 0.035, 0.06), noise=1e-3, error=1e-4):
    rows = [
        {"alpha": a, "step": 2 * k, "cosine[q]": c, "cosine[q]_se": error}
        for a in reuse.ALPHAS
        for k, c in zip((1, 2, 3, 5), cosines)
    ]
    ends = [
        {"alpha": a, "steps": k, "step": step, "test_error": e, "test_error_se": error}
        for a in reuse.ALPHAS
        for k, e in zip((1, 2, 3, 5), errors)
        for step in (47,)
    ]
    return {"rounds": pd.DataFrame(rows), "simulated": noisy(rows, "cosine[q]", noise), "finished": pd.DataFrame(ends)}


@pytest.mark.parametrize(
    ("criterion", "arguments", "verdict"),
    [
        (reuse.cosines_exact, {}, "confirmed"),
        (reuse.cosines_exact, {"noise": 1.0}, "undecided"),
        (reuse.falls, {}, "confirmed"),
        (reuse.falls, {"cosines": (0.8, 0.7, 0.8, 0.9)}, "refuted"),
        (reuse.falls, {"noise": 1.0}, "undecided"),
        (reuse.best_at_two, {}, "confirmed"),
        (reuse.best_at_two, {"errors": (0.05, 0.03, 0.02, 0.06)}, "refuted"),
        (reuse.best_at_two, {"error": 0.02}, "undecided"),
    ],
)
def test_query_steps(criterion, arguments, verdict):
    assert criterion(rounds_tables(**arguments)).verdict == verdict


def test_rounds_alternate_and_have_one_length():
    lengths = set()
    for rounds in (1, 2, 3, 5, reuse.MOST):
        schedule = expand(as_stages(reuse.with_readout(rounds, 2.0)), ("q", "w"))
        lengths.add(schedule.steps)
        assert (schedule.rates[: 2 * rounds : 2, 1] == 1).all() and (
            schedule.rates[1 : 2 * rounds : 2, 0] == reuse.RATE
        ).all()
        assert (schedule.rates[: 2 * rounds : 2, 0] == 0).all() and len(schedule.alpha) == 2
    assert len(lengths) == 1


def designed_tables(value=0.022, staged=0.03, bayes=0.02, error=1e-5, noise=1e-4, small=0.05):
    tasks = [{name: design[name] for name in (*designed.TASK, "alpha")} for design in designed.DESIGNS]
    limit = [{**task, "step": designed.STEPS, "test_error": value, "test_error_se": error} for task in tasks]
    halves = [{**{k: v for k, v in task.items() if k != "alpha"}, "alpha0": task["alpha"] / 2} for task in tasks]
    return {
        "limit": pd.DataFrame(limit),
        "simulated": noisy(limit, "test_error", noise),
        "small": noisy([{**limit[designed.RARE], "test_error": value + small}], "test_error", noise),
        "staged": pd.DataFrame(
            {**h, "alpha1": h["alpha0"], "test_error": staged, "standard_error": error} for h in halves
        ),
        "bayes": pd.DataFrame({**task, "test_error": bayes, "reachable_test_error": bayes} for task in tasks),
    }


@pytest.mark.parametrize(
    ("criterion", "arguments", "verdict"),
    [
        (designed.designs_hold, {}, "confirmed"),
        (designed.designs_hold, {"noise": 0.3}, "undecided"),
        (designed.needs_size, {}, "confirmed"),
        (designed.needs_size, {"small": -0.01}, "refuted"),
        (designed.needs_size, {"small": 0.0}, "undecided"),
        (designed.near_the_limit, {}, "confirmed"),
        (designed.near_the_limit, {"value": 0.028}, "refuted"),
        (designed.near_the_limit, {"error": 0.01}, "undecided"),
    ],
)
def test_designed(criterion, arguments, verdict):
    tables = designed_tables(**arguments)
    assert criterion(tables).verdict == verdict
    assert len(designed.comparison(tables)) == len(designed.DESIGNS) == 5


def test_designed_schedules_have_one_length_and_one_data_set():
    for design in designed.DESIGNS:
        schedule = expand(as_stages(design["stages"]), ("q", "w"))
        assert schedule.steps == designed.STEPS and schedule.alpha.tolist() == [design["alpha"]]

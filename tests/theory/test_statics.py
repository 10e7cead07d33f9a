"""Where joint training ends: stored values, limits in which other parts of the theory know the answer, several ends."""

import importlib
import json
import warnings
from pathlib import Path

import numpy as np
import pytest

from sparsetoken import Stage, Task, theory
from sparsetoken.bag_models import get_bag_model

equations = importlib.import_module("sparsetoken.theory.dynamics.statics_equations")
GOLDEN = json.loads((Path(__file__).parents[1] / "data" / "golden_statics.json").read_text())["cases"]
TEN = Task(length=10, sparsity=1, strength=5.0, prevalence=0.5)
LONG = Task(length=40, sparsity=1, strength=4.0, prevalence=0.5)
QUICK = {"B"}


@pytest.mark.parametrize(
    "case", [pytest.param(c, id=c["name"], marks=[] if c["name"] in QUICK else pytest.mark.slow) for c in GOLDEN]
)
def test_stored_ends(case):
    task = Task(**{name: case[name] for name in ("length", "sparsity", "strength", "prevalence")})
    names = get_bag_model(case["model"]).directions
    found = theory.statics(task, case["model"], case["alpha"], dict(zip(names, case["decay"])), case["loss"])
    stored, own = case["result"], found.errors
    pairs = [
        (getattr(found, name), own.get(name, found.standard_error), stored[name], stored[f"{name}_se"])
        for name in ("bias", "train_loss", "test_error")
    ]
    for name, value, error in zip(names, stored["m"], stored["m_se"], strict=False):  # of one of several heads
        pairs.append((found.overlap[name], own[f"overlap_{name}"], value, error))
    places = [(i, j) for i in range(min(2, len(names))) for j in range(i, min(2, len(names)))]
    for (i, j), value, error in zip(places, stored["Q"], stored["Q_se"], strict=True):
        pairs.append((found.gram[i, j], own[f"gram_{i}_{j}"], value, error))
    for value, error, known, known_error in pairs:
        assert abs(value - known) < 4.0 * np.hypot(error, known_error)
    assert abs(found.replicon - stored["replicon"]) < 0.03
    assert found.residual < 1e-6 and found.coexist is False


@pytest.mark.parametrize(
    "task, loss",
    [
        (TEN, "square"),
        pytest.param(
            Task(length={5: 0.5, 12: 0.5}, sparsity=1, strength=4.0, prevalence=0.4, label_noise=0.1, correlation=0.2),
            "logistic",
            marks=pytest.mark.slow,
        ),
    ],
    ids=["plain", "differing"],
)
def test_pooling_ends_at_the_convex_readout(task, loss):
    end = theory.statics(task, "pooled", 2.0, 0.05, loss, sampling=theory.Sampling(512, 4))
    readout = theory.erm(theory.pooled_law(task), 2.0, 0.05, loss)
    for name in ("test_error", "train_loss", "bias", "auc"):
        error = 5e-4 + 4.0 * end.errors.get(name, end.standard_error)
        assert abs(getattr(end, name) - getattr(readout, name)) < error
    assert end.overlap["w"] == pytest.approx(readout.overlap["w"], abs=5e-3)
    assert end.V[0, 0] == pytest.approx(readout.V, rel=5e-3)


@pytest.mark.slow
def test_a_query_that_may_not_move_leaves_pooling():
    held = theory.statics(TEN, "attention", 2.0, {"q": 1e5, "w": 0.05}, sampling=theory.Sampling(512, 4))
    pooled = theory.statics(TEN, "pooled", 2.0, 0.05, sampling=theory.Sampling(512, 4))
    assert held.test_error == pytest.approx(pooled.test_error, abs=2e-3)
    assert held.overlap["w"] == pytest.approx(pooled.overlap["w"], rel=0.02)


@pytest.mark.slow
def test_two_ends_and_the_start_decides():
    ends = {
        start: theory.statics(LONG, "tied:2", 1.0, 0.7, start=start, sampling=theory.Sampling(256, 2))
        for start in ("uninformed", "informed")
    }
    assert all(end.coexist for end in ends.values())
    assert ends["uninformed"].overlap["w"] == pytest.approx(0.060, abs=0.006)
    assert ends["informed"].overlap["w"] == pytest.approx(0.558, abs=0.02)
    planted = theory.statics(
        LONG, "tied:2", 1.0, 0.7, start={"w": 0.6, "cosine[w]": 0.9}, sampling=theory.Sampling(256, 2)
    )
    assert planted.overlap["w"] == pytest.approx(ends["informed"].overlap["w"], abs=1e-4)


def test_the_bias_follows_memory_and_a_refit_cures_it():
    end = theory.statics(TEN, "tied:2", 2.0, 0.2, sampling=theory.Sampling(replicates=4))
    assert end.test_error > end.best_bias_error + 0.006
    assert end.refitted_error == pytest.approx(end.best_bias_error, abs=5e-4)
    assert end.best_bias_error == pytest.approx(0.0236, abs=6e-4)


@pytest.mark.slow
@pytest.mark.parametrize("model, decay", [("tied:2", 0.2), ("attention", 0.15)])
def test_many_steps_end_there(model, decay):
    names = get_bag_model(model).directions
    # The bias is what comes to rest last.
    stage = Stage(100, 2.0, dict.fromkeys(names, 1.0) | {"bias": 2.0}, dict.fromkeys(names, decay))
    run = theory.trajectory(TEN, model, [stage], sampling=theory.Sampling(2048, 6), tested=[100], accuracy=0.01)
    end = theory.statics(TEN, model, 2.0, decay)
    for name in names:
        error = np.hypot(run.errors["overlap"][name][-1], end.errors[f"overlap_{name}"])
        assert abs(run.overlap[name][-1] - end.overlap[name]) < 4.0 * error + 2e-3
    error = np.hypot(run.standard_error[-1], end.standard_error)
    assert abs(run.test_error[-1] - end.test_error) < 4.0 * error + 3e-4


@pytest.mark.slow
def test_an_unstable_end_is_said():
    with pytest.warns(theory.ReplicaSymmetryWarning, match="above 1"):
        end = theory.statics(TEN, "attention", 2.0, {"q": 0.02, "w": 0.35}, sampling=theory.Sampling(1024, 2))
    assert end.replicon > 1.0


@pytest.mark.parametrize(
    "task, model, alpha, decay",
    [
        (TEN, "attention", 0.1, 0.2),
        (Task(12, 2, 3.2, 0.35), "tied:3", 1.4, 0.15),  # simulated: an overlap of 1.13, not .97
    ],
)
def test_bags_with_several_minima_are_said(task, model, alpha, decay):
    with pytest.warns(theory.ReplicaSymmetryWarning, match="single bags have several minima"):
        theory.statics(task, model, alpha, decay, sampling=theory.Sampling(256, 2))


def test_a_loss_with_straight_parts_has_an_end():
    # simulate_end, d = 150, six seeds: 0.0314 +- 0.0009 and an overlap of 0.709
    end = theory.statics(TEN, "tied:2", 2.0, 0.2, "smoothed_hinge", sampling=theory.Sampling(512, 2))
    assert end.best_bias_error == pytest.approx(0.0312, abs=6e-4)
    assert end.overlap["w"] == pytest.approx(0.710, abs=0.01)


def test_no_end_is_an_error_that_says_what_was_tried(monkeypatch):
    monkeypatch.setattr(equations, "STEPS", 3)
    with pytest.raises(theory.ConvergenceError, match=r"Anderson iteration .* lowered step by step"):
        theory.statics(TEN, "tied:2", 2.0, 0.2, sampling=theory.Sampling(256, 2))


def test_refusals_and_form():
    with pytest.raises(ValueError, match="decay"):
        theory.statics(TEN, "tied:2", 2.0, 0.0)
    with pytest.raises(ValueError, match="decay must be a number or name q, w"):
        theory.statics(TEN, "attention", 2.0, {"q": 0.1})
    with pytest.raises(ValueError, match="start must be one of"):
        theory.statics(TEN, "tied:2", 2.0, 0.2, start="planted")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        end = theory.statics(TEN, "tied:2", 2.0, 0.2, sampling=theory.Sampling(256, 2))
    row = end.to_row()
    assert row["gram_0_0"] == end.gram[0, 0] and row["V_0_0_se"] > 0 and row["coexist"] is False
    assert "tied:2" in repr(end)

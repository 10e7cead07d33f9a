"""The package's own kinds of trial: certified separability, margins, curves, and the numbers they must agree on."""

import numpy as np
import pytest
from scipy.optimize import linprog

from sparsetoken.solvers.erm import separable
from sparsetoken.study import TrialSpec
from sparsetoken.study.kind_registry import get_kind, stream_seed
from sparsetoken.task import Task
from sparsetoken.training import Training


def call(kind, **arguments):
    return get_kind(kind).call(TrialSpec.of(kind, **arguments).arguments)


def separable_by_linear_program(x, y):
    n, p = x.shape
    left = -(y[:, None] * np.hstack([x, np.ones((n, 1))]))
    found = linprog(np.zeros(p + 1), left, -np.ones(n), bounds=(None, None), method="highs")
    assert found.status in (0, 2)  # solved, or proved infeasible
    return found.status == 0


def test_separability_agrees_with_a_linear_program():
    """n = 2 (p + 1) = 22 is where about half of the draws are separable, so both answers occur."""
    answers = []
    for n in (18, 22, 26, 34):
        for seed in range(12):
            rng = np.random.default_rng([n, seed])
            x, y = rng.standard_normal((n, 10)), np.where(rng.random(n) < 0.5, 1.0, -1.0)
            answers.append(separable(x, y))
            assert answers[-1] == separable_by_linear_program(x, y)
    assert 10 < sum(answers) < 38


def test_separability_is_scale_free_and_sees_tiny_margins():
    x = np.array([[0.0], [1.0], [1.0 + 1e-4], [2.0]])
    y = np.array([-1.0, -1.0, 1.0, 1.0])
    assert separable(x, y) and separable(1e-3 * x, y) and separable(1e3 * x, y)
    assert not separable(x, np.array([-1.0, 1.0, -1.0, 1.0]))


def test_the_separability_threshold_is_where_prefixes_stop_being_separable():
    arguments = {"d": 8, "alpha_high": 8.0, "model": "pooled", "strength": 3.0}
    for seed in range(4):
        found = call("separability", **arguments, seed=seed)
        assert found["n_star"] == round(found["alpha_star"] * 8)
        assert 8 <= found["n_star"] < 64  # d + 1 points in general position are always separable
    with pytest.raises(ValueError, match="still separable"):
        call("separability", **{**arguments, "alpha_high": 1.0})


def test_pooled_noise_has_covers_capacity():
    """No signal, balanced classes: by Cover's count n* is the toss of a fair coin that shows heads for the (d+1)-th time.

    Its mean and its variance are 2(d+1); a classifier without a bias would have 2d.
    """
    d, count = 12, 60
    draws = [
        call("separability", d=d, alpha_high=8.0, model="pooled", strength=0.0, seed=s)["n_star"] for s in range(count)
    ]
    mean = 2 * (d + 1)
    assert abs(np.mean(draws) - mean) < 3 * np.sqrt(mean / count)  # three standard errors: 2.0
    assert 0.5 * mean < np.var(draws, ddof=1) < 1.8 * mean


def test_unknown_models_are_refused():
    with pytest.raises(ValueError, match="model must be one of"):
        call("readout", d=20, alpha=2.0, model="magic")
    with pytest.raises(ValueError, match="model must be one of"):
        call("capacity", model="magic")


@pytest.mark.parametrize("model", ["attention", "pooled", "vectorized", "elementwise"])
def test_readout_trials_are_reproducible_and_sane(model):
    arguments = {"d": 30, "alpha": 4.0, "ridge": 1e-2, "model": model, "cosine": 0.9, "sharpness": 2.0, "seed": 3}
    first, again = call("readout", **arguments), call("readout", **arguments)
    assert first == again
    assert 0 < first["test_error"] < 0.5
    assert first["train_error"] <= first["test_error"]


def test_margins_of_a_trial_are_shares():
    rows = call("margins", d=40, alpha=4.0, low=-2.0, high=6.0, bins=8, cosine=0.9, sharpness=2.0)
    assert len(rows) == 8
    for name in ("train_share", "test_share"):
        assert sum(row[name] for row in rows) == pytest.approx(1.0)
        assert min(row[name] for row in rows) >= 0


def test_predicted_margins_below_zero_are_the_predicted_errors():
    law = {"alpha": 4.0, "ridge": 1e-2, "cosine": 0.9, "sharpness": 2.0}
    rows = call("margins_theory", **law, low=-4.0, high=8.0, bins=12)
    (found,) = call("readout_theory", **{**law, "alpha": [4.0]})
    below = {name: sum(row[f"{name}_share"] for row in rows if row["bin"] < 4) for name in ("train", "test")}
    assert below["test"] == pytest.approx(found["test_error"], rel=0.01)
    assert below["train"] == pytest.approx(found["train_error"], rel=0.05)


def test_a_curve_of_forecasts_is_made_of_forecasts():
    fixed = {"model": "pooled", "ridge": 1e-2}
    curve = call("forecast_curve", **fixed, over="alpha1", values=[1.0, 2.0])
    points = [call("forecast", **fixed, alpha1=a) for a in (1.0, 2.0)]
    assert [row["alpha1"] for row in curve] == [1.0, 2.0]
    for row, point in zip(curve, points):
        assert row["test_error"] == pytest.approx(point["test_error"], abs=1e-6)


def test_a_curve_of_forecasts_can_be_tested_elsewhere():
    fixed = {"model": "pooled", "ridge": 1e-2, "test_length": 20, "test_bias_shift": 0.3}
    curve = call("forecast_curve", **fixed, over="strength", values=[4.0, 6.0])
    points = [call("forecast", **fixed, strength=theta) for theta in (4.0, 6.0)]
    plain = call("forecast_curve", model="pooled", ridge=1e-2, over="strength", values=[4.0, 6.0])
    for row, point, here in zip(curve, points, plain):
        assert row["test_error"] == pytest.approx(point["test_error"], abs=1e-6)
        assert row["test_error"] > here["test_error"] + 0.01
        assert row["norm_w"] == pytest.approx(here["norm_w"], rel=1e-6)  # the training is the same
    with pytest.raises(ValueError, match="sharpness is for models with a query"):
        call("forecast_curve", model="pooled", over="alpha1", values=[1.0], test_sharpness=2.0)


def test_thresholds_are_fitted_at_every_ridge():
    """One bag in ten positive: as it is the classifier calls nearly all negative, and a fitted threshold repairs that."""
    common = {"prevalence": 0.1, "ridges": [0.1, 10.0], "sharpness": 2.0, "accuracy": 4e-3}
    trained = call("threshold_forecast", **common, eta_b=4.0)
    given = call("threshold_forecast", **common, cosine=0.9)
    assert [row["ridge"] for row in trained] == [10.0, 0.1] and trained[0]["k"] == pytest.approx(2.0)
    assert given[0]["cosine_q"] == 0.9 and given[0]["k"] == 2.0 and trained[0]["cosine_q"] != 0.9
    for row in (*trained, *given):
        assert row["threshold_error"] < row["test_error"] <= 0.1 + 1e-9
    plain = {"prevalence": 0.1, "cosine": 0.9, "sharpness": 2.0, "accuracy": 4e-3}
    (alone,) = call("readout_theory", **plain, alpha=[2.0], ridge=0.1)
    assert given[1]["test_error"] == pytest.approx(alone["test_error"], abs=2e-3)


def test_sharpness_sets_the_query_step():
    from sparsetoken.study.kinds.staged import with_sharpness
    from sparsetoken.theory import alignment

    task, training = Task(), Training()
    assert alignment(task, with_sharpness(task, training, 3.5)).sharpness == pytest.approx(3.5)
    assert with_sharpness(task, training, None) == training


@pytest.mark.parametrize("mechanism", ["pooled", "hardmax", "bayes", "attention", "elementwise"])
def test_strength_needed_gives_the_target_error(mechanism):
    from sparsetoken.theory import oracle

    needed = call("known_strength", length=20, mechanism=mechanism, guess=3.0, points=1024)["strength_needed"]
    errors = oracle(Task(20, 1, needed, 0.5), sharpness=1.0, points=1024).to_dict()
    assert errors[mechanism] == pytest.approx(0.1, abs=0.003)


def test_message_passing_trial():
    found = call("message_passing", d=60, alpha=4.0, test_samples=2000)
    assert found["overlap"] > 0.8 and found["test_error"] < 0.06
    assert found["expected_overlap"] == pytest.approx(found["overlap"], abs=0.1)


def test_training_step_by_step_is_a_row_per_step():
    plain = {"d": 60, "seed": 0, "steps": 3, "rates": {"q": 1.0, "w": 1.0}, "decay": 0.1}
    by_rates = call("simulate_trajectory", **plain)
    stages = [{"steps": 3, "alpha": 2.0, "rates": {"q": 1.0, "w": 1.0}, "decay": {"q": 0.1, "w": 0.1}}]
    assert [row["step"] for row in by_rates] == [0, 1, 2, 3]
    assert "cosine[q]" in by_rates[0]
    exact = call("trajectory", model="pooled", steps=2, accuracy=0.02)
    assert len(exact) == 3 and exact[2]["test_error_se"] > 0
    by_stages = call("simulate_trajectory", d=60, seed=0, stages=stages)
    assert [set(row) for row in by_stages] == [set(row) for row in by_rates]
    # Rows of some steps only: the same run, and the same theory.
    assert call("simulate_trajectory", **plain, rows_at=[1, 3]) == [by_rates[1], by_rates[3]]
    assert call("trajectory", model="pooled", steps=2, accuracy=0.02, rows_at=[2]) == exact[2:]


def test_a_start_may_name_how_its_cosine_is_learnt():
    from sparsetoken import Task
    from sparsetoken.theory import recovery

    plain = {"d": 60, "seed": 0, "length": 5, "strength": 3.0, "alpha": 2.0, "steps": 2, "rows_at": [0]}
    learnt = call("simulate_trajectory", **plain, start={"q": 1.0, "cosine[q]": "eigenvector"})[0]
    number = recovery(Task(length=5, strength=3.0), 2.0, "eigenvector").cosine
    assert 0.5 < number < 1.0 and learnt["cosine[q]"] == pytest.approx(number, abs=1e-12)


def test_asking_for_fewer_rows_is_another_trial_of_the_same_run():
    trial = TrialSpec.of("simulate_trajectory", d=20)
    some = TrialSpec.of("simulate_trajectory", d=20, rows_at=[3, 20])
    assert trial.key != some.key
    seeds = {stream_seed(t.kind, t.arguments) for t in (trial, some)}
    older = {name: value for name, value in trial.arguments.items() if name != "rows_at"}
    assert seeds == {stream_seed(trial.kind, older)}


def test_simulations_take_noise_and_test_options():
    fixed = {"length": 5, "strength": 4.0, "alpha0": 1.0, "alpha1": 2.0, "d": 30, "model": "pooled", "seed": 0}
    plain, sparse, coloured, longer = (
        call("simulate", **fixed, **more)
        for more in ({}, {"noise": "sparse:0.2", "test_samples": 500}, {"covariance": "power:1"}, {"test_length": 50})
    )
    assert len({row["test_error"] for row in (plain, sparse, coloured, longer)}) == 4
    assert longer["norm_w"] != plain["norm_w"]  # seeds derive from all arguments
    assert longer["test_error"] > plain["test_error"]
    options = {"length": 5, "strength": 4.0, "ridge": 0.01}
    here, there = (call("forecast", **options, **more) for more in ({}, {"test_length": 50, "test_sharpness": 3.0}))
    assert here["norm_w"] == there["norm_w"]
    assert there["test_error"] > here["test_error"]


def test_coloured_forecasts_follow_the_theory():
    from sparsetoken import theory

    row = call("coloured_forecast", d=40, covariance="power:0.5", model="pooled", ridge=0.01)
    values = np.arange(1, 41) ** -0.5
    spectrum = theory.Spectrum.of(values / values.mean())
    law = theory.coloured_law(Task(), spectrum, spectrum.query(np.ones(40)), 0.0)
    assert row["test_error"] == pytest.approx(theory.erm(law, 2.0, 0.01, accuracy=1e-3).test_error, abs=2e-3)
    with pytest.raises(ValueError, match="covariance is served for one attention head and pooling"):
        call("coloured_forecast", d=40, covariance="power:0.5", model="vectorized")


def test_what_long_bags_cost():
    """Every fit can only help, and at the training's own length nothing was lost."""
    rows = call("length_theory", length=5, strength=4.0, ridge=0.01, test_lengths=[5, 200])
    for row in rows:
        assert row["query_error"] < row["test_error"] + 0.01
        assert row["sharpness_error"] <= row["threshold_error"] <= row["test_error"] + 1e-3
    here = call("forecast", length=5, strength=4.0, ridge=0.01)
    assert rows[0]["test_error"] == pytest.approx(here["test_error"], abs=2e-3)
    assert rows[1]["test_error"] - rows[1]["threshold_error"] > 0.01


def test_attention_mass_is_measured_as_predicted():
    fixed = {"length": 6, "strength": 4.0, "alpha0": 8.0, "sharpness": 2.0}
    rows = call("attention_mass", **fixed, d=60, test_samples=2000, bins=5)
    theory = call("attention_mass_theory", **fixed, bins=5)
    assert len(rows) == len(theory) == 5
    for table in (rows, theory):
        assert sum(row["share"] for row in table) == pytest.approx(1.0)
    assert theory[0]["k"] == pytest.approx(2.0)
    assert rows[0]["mass"] == pytest.approx(theory[0]["mass"], abs=0.1)
    assert rows[0]["mass"] > 4 / 6 > rows[0]["negative_mass"]
    assert rows[0]["negative_mass"] == pytest.approx(1 / 6, abs=0.02)


def test_a_bag_left_out_is_scored_as_the_theory_says():
    given = {"length": 6, "strength": 4.0, "alpha": 4.0, "ridge": 0.1, "loss": "logistic", "model": "attention"}
    rows = call("left_out", **given, cosine=0.9, sharpness=1.5, d=200, seed=0, bags=4)
    for row in rows:
        assert abs(row["shortcut"] - row["left_out"]) < 0.3 * abs(row["fitted"] - row["left_out"]) + 1e-3


def test_every_kind_says_what_it_gives():
    from sparsetoken.study import kind_registry as registry
    from sparsetoken.study import kinds  # noqa: F401  (loads the package's kinds)

    own = {
        name: kind
        for name, kind in registry._KINDS.items()
        if kind.function.__module__.startswith("sparsetoken.study.kinds")
    }
    for name, kind in own.items():
        assert kind.function.__doc__ and kind.columns and all(words for words in kind.columns.values()), name


def test_columns_of_tables():
    alignment, steps = get_kind("alignment"), get_kind("trajectory")
    assert alignment.has_column("cosine_q") and alignment.has_column("alpha0") and not alignment.has_column("cosine")
    assert steps.has_column("overlap[q]") and steps.has_column("gram[q,w]_se") and not steps.has_column("overlaps[q]")
    forecast = get_kind("forecast")
    assert forecast.has_column("k") and not forecast.has_column("test_error_result")
    assert "sharpness" in forecast.names and "sharpness_result" not in forecast.table_columns


def test_a_result_of_another_name_is_an_error():
    from sparsetoken.study.kind_registry import TrialKind

    kind = TrialKind("k", 1, lambda x: {"y": x, "z": x}, None, {"y": "it"})
    with pytest.raises(ValueError, match="trial kind 'k' returned 'z', which is none of its columns: y"):
        kind.call({"x": 1.0})


def test_heads_are_one_attention_when_alone():
    fixed = {"length": 6, "strength": 4.0, "alpha0": 2.0, "alpha1": 2.0, "ridge": 0.1, "sharpness": 2.0}
    alone = call("heads_forecast", **fixed, heads=1)
    assert alone["test_error"] == pytest.approx(call("forecast", **fixed)["test_error"], abs=1e-9)
    assert alone["k"] == pytest.approx(2.0)
    runs = [call("heads", **fixed, heads=2, d=40, seed=s) for s in range(3)]
    assert all(0 < run["test_error"] < 0.5 and run["cosine_q"] < alone["cosine_q"] + 0.05 for run in runs)
    with pytest.raises(ValueError, match="heads must be"):
        call("heads", **fixed, heads=0, d=40)


def test_planned_trials_follow_the_planner():
    rows = call("planned", length=6, strength=4.0, alpha=4.0, d=60, trials=3)
    assert len(rows) == 3 and len({row["planned_error"] for row in rows}) == 3
    assert all(row["planned_ridge"] == rows[0]["planned_ridge"] > 0 and 0 < row["share"] < 1 for row in rows)
    assert np.mean([row["planned_error"] for row in rows]) < 0.5

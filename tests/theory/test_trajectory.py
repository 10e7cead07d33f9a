"""Exact training dynamics: stored values, and the limits in which other parts of the theory know the answer."""

import importlib
import json
import pickle
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from scipy.special import ndtr

from sparsetoken import Task, Training, theory
from sparsetoken._core.devices import double_precision
from sparsetoken.bag_models import BagModel, get_bag_model
from sparsetoken.schedules import Stage
from sparsetoken.simulation.trajectory import simulate_trajectory
from sparsetoken.theory.dynamics.problem import problem_of, replicate_draws
from sparsetoken.theory.dynamics.trajectory import solve_replicate
from sparsetoken.theory.dynamics.trajectory_gradient import CONTROLS, replicate_gradient

trajectory_module = importlib.import_module("sparsetoken.theory.dynamics.trajectory")

GOLDEN = json.loads((Path(__file__).parents[1] / "data" / "golden_dynamics.json").read_text())
# Compiling costs far more than running: tests of the same model share the shapes (tokens, steps, bags) of one of these.
SHORT, TIED, HEADS = (4, 6), (10, 16), (8, 20)
# The stored runs rounded the number of positive bags, which their standard errors do not show.
ROUNDED = 5e-5


def golden_pairs(case, found, model):
    """(name, step, value, error, stored value, stored error) for everything stored."""
    for step, stored in case["result"].items():
        t = int(step)
        for name, (value, error) in stored.items():
            if name.startswith("overlap"):
                a = model.directions[int(name[7:])]
                mine, my_error = found.overlap[a][t], found.errors["overlap"][a][t]
            elif name.startswith("gram"):
                index = (t, int(name[4]), int(name[5]))
                mine, my_error = found.gram[index], found.errors["gram"][index]
            else:
                mine, my_error = getattr(found, name)[t], found.errors[name][t]
            yield f"{name} at step {t}", mine, my_error, value, error


@pytest.mark.slow
@pytest.mark.parametrize("case", GOLDEN, ids=lambda c: c["name"])
def test_stored_values(case):
    model = get_bag_model({"heads2": "heads:2"}.get(case["model"], case["model"]))
    rates = dict(zip((*model.directions, "bias"), case["rates"]))
    stage = Stage(case["steps"], case["alpha"], rates, dict(zip(model.directions, case["weight_decay"])))
    norms = case["start_norms_squared"]
    start = None if norms is None else dict(zip(model.directions, np.sqrt(norms)))
    task = Task(case["L"], case["R"], case["theta"], case["pi"])
    found = theory.trajectory(task, model, stage, case["loss"], start=start, accuracy=0.01)
    scores = []
    for name, mine, my_error, value, error in golden_pairs(case, found, model):
        scores.append((mine - value) / np.hypot(np.hypot(error, my_error), ROUNDED))
        assert abs(scores[-1]) < 4, f"{name}: {mine:.5f} ± {my_error:.5f}, stored {value:.5f} ± {error:.5f}"
    assert np.sqrt(np.mean(np.square(scores))) < 2


def test_two_steps_are_the_alignment():
    task, training = Task(4, 2, 3.0, 0.3), Training(alpha0=1.5, eta_w=1.2, eta_b=0.7, eta_q=9.0, beta=1.5)
    stages = [
        Stage(1, 1.5, {"w": 1.2, "bias": 0.7}, data="D0"),
        Stage(1, 1.5, {"q": 9.0}, data="D0"),
        Stage(4, 1.5, {}, data="D0"),
    ]
    found = theory.trajectory(task, "attention:1.5", stages, accuracy=0.01)
    known = theory.alignment(task, training)
    assert found.norm("w")[1] == pytest.approx(known.norm["w"], rel=1e-9)
    assert found.cosine["w"][1] == pytest.approx(known.cosine["w"], rel=1e-9)
    assert found.bias[1] == pytest.approx(known.bias, rel=1e-9)
    for value, error, expected in (
        (found.overlap["q"][2], found.errors["overlap"]["q"][2], known.overlap["q"]),
        (found.gram[2, 0, 0], found.errors["gram"][2, 0, 0], known.norm["q"] ** 2),
        (found.cosine["q"][2], found.errors["cosine"]["q"][2], known.cosine["q"]),
    ):
        assert 0 < error < 0.05 * abs(expected)
        assert abs(value - expected) < 4 * error + 1e-3 * abs(expected)


@pytest.mark.slow
def test_a_long_readout_on_new_data_is_the_convex_fixed_point():
    task, training = Task(4, 1, 4.0, 0.5), Training(alpha0=2.0, alpha1=2.0, eta_q=15.0, ridge=0.1)
    known = theory.forecast(task, training, "attention", with_capacity=False)
    stages = [
        Stage(1, 2.0, {"w": 1.0, "bias": 1.0}, data="D0"),
        Stage(1, 2.0, {"q": 15.0}, data="D0"),
        Stage(38, 2.0, {"w": 1.5, "bias": 6.0}, {"w": 0.1}, 0.3, data="D1"),
    ]
    found = theory.trajectory(task, "attention", stages, accuracy=0.02, sampling=theory.Sampling(512))
    for name, expected in (("test_error", known.test_error), ("train_loss", known.train_loss), ("bias", known.bias)):
        value, error = getattr(found, name)[-1], found.errors[name][-1]
        assert abs(value - expected) < 4 * error + 2e-3, name
    assert found.norm("w")[-1] == pytest.approx(known.norm_w, rel=0.03)
    assert found.train_error[-1] == pytest.approx(known.train_error, abs=4 * found.errors["train_error"][-1] + 2e-3)


def pooled_square(task, alpha, steps, rate, bias_rate, decay, rho):
    """Pooling with the square loss, where everything is linear and Gaussian: the same limit without any drawing.

    With e^t = mean_l H^t_l + b_t - y, the gradient is e^t/L on every token and the residuals obey a linear recursion, so
    that averages over the bags are sums of second moments.
    """
    L, R, theta, pi = task.length, task.sparsity, task.strength, task.prevalence
    n = steps + 1
    P, Q, C = np.zeros((n, n + 1)), np.zeros((n, n)), np.zeros((n + 1, n + 1))
    nu, m, b, loss = np.zeros(n), np.zeros(n + 1), np.zeros(n + 1), np.zeros(n)
    memory = np.zeros((n, n))
    for t in range(n):
        memory[t, :t] = -(rate / alpha) * P[:t, t] / L
        response = np.linalg.inv(np.eye(t + 1) - memory[: t + 1, : t + 1])  # de^t/d(mean of U^s)
        forced = {+1: theta * R / L * m[: t + 1] + b[: t + 1] - 1, -1: b[: t + 1] + 1}
        mean = {y: response @ forced[y] for y in forced}
        noise = response @ (C[: t + 1, : t + 1] / L) @ response.T
        second = noise + pi * np.outer(mean[1], mean[1]) + (1 - pi) * np.outer(mean[-1], mean[-1])
        loss[t] = second[t, t] / 2
        nu[t] = -theta * rate * pi * mean[1][t] * R / L
        Q[t, : t + 1] = Q[: t + 1, t] = second[t] / (L * alpha)
        K = response[t] / L * rate
        P[:t, t + 1] = P[:t, t] * (1 - decay * rate) + rho * (P[:t, t] - P[:t, t - 1]) - P[:t, : t + 1] @ K
        P[t, t + 1] = 1.0
        m[t + 1] = nu[: t + 1] @ P[: t + 1, t + 1]
        b[t + 1] = b[t] - bias_rate * (pi * mean[1][t] + (1 - pi) * mean[-1][t])
        column = rate**2 * P[: t + 1, : t + 2].T @ Q[: t + 1, : t + 1] @ P[: t + 1, t + 1] + m[: t + 2] * m[t + 1]
        C[: t + 2, t + 1] = C[t + 1, : t + 2] = column
    deviation = np.sqrt(np.maximum(np.diag(C)[1:n], 1e-300) / L)
    error = pi * ndtr(-(theta * R / L * m[1:n] + b[1:n]) / deviation) + (1 - pi) * ndtr(b[1:n] / deviation)
    return m[:n], np.diag(C)[:n], b[:n], loss, np.concatenate([[0.5], error])


@pytest.mark.parametrize(("decay", "rho"), [(0.0, 0.0), (0.2, 0.0), (0.1, 0.6)])
def test_pooling_with_the_square_loss_is_linear(decay, rho):
    task, alpha, steps = Task(5, 2, 2.0, 0.4), 1.5, 15
    m, norm2, b, loss, error = pooled_square(task, alpha, steps, 1.1, 0.3, decay, rho)
    stage = Stage(steps, alpha, {"w": 1.1, "bias": 0.3}, {"w": decay}, rho)
    found = theory.trajectory(task, "pooled", stage, "square", accuracy=0.02)
    for value, spread, expected in (
        (found.overlap["w"], found.errors["overlap"]["w"], m),
        (found.gram[:, 0, 0], found.errors["gram"][:, 0, 0], norm2),
        (found.bias, found.errors["bias"], b),
        (found.train_loss, found.errors["train_loss"], loss),
        (found.test_error, found.errors["test_error"], error),
    ):
        assert np.abs(value - expected) == pytest.approx(0.0, abs=0.02 * np.abs(expected).max())
        assert (np.abs(value - expected) < 5 * spread + 1e-3 * np.abs(expected).max()).all()
    # At the start no score is defined: a tie, half right.
    assert found.test_error[0] == found.train_error[0] == found.sensitivity[0] == found.auc[0] == 0.5


def test_fresh_data_has_no_memory():
    task, rates = Task(4, 1, 4.0, 0.4), {"q": 1.0, "w": 1.0, "bias": 0.5}
    fresh = theory.trajectory(task, "attention", Stage(6, 0.7, rates, data="fresh"), accuracy=0.02)
    again = theory.trajectory(task, "attention", Stage(6, 0.7, rates), accuracy=0.02)
    gap = fresh.train_error - fresh.test_error
    assert (np.abs(gap[1:]) < 5 * np.hypot(fresh.errors["train_error"], fresh.standard_error)[1:] + 2e-3).all()
    assert again.train_error[-1] < again.test_error[-1] - 0.1
    # Data sets that are used once each are the same thing under other names.
    named = theory.trajectory(task, "attention", Stage(6, 0.7, rates, data=tuple("ABCDEFG")), accuracy=0.02)
    assert named.test_error == pytest.approx(fresh.test_error, abs=1e-12)

    # Two data sets in turn: nothing is used again before step 2, and each remembers its own steps afterwards.
    turns = theory.trajectory(task, "attention", Stage(6, 0.7, rates, data=("A", "B")), accuracy=0.02)
    assert turns.overlap["w"][:3] == pytest.approx(fresh.overlap["w"][:3], rel=0.02)
    assert again.train_loss[-1] < turns.train_loss[-1] - 0.02 < fresh.train_loss[-1] - 0.04


@pytest.mark.slow
def test_heads_permute():
    task, steps = Task(HEADS[0], 1, 4.0), HEADS[1]
    stage = Stage(steps, 1.0, {"q1": 1.0, "w1": 0.8, "q2": 0.5, "w2": 1.2, "bias": 0.5}, {"q1": 0.1})
    turned = Stage(steps, 1.0, {"q2": 1.0, "w2": 0.8, "q1": 0.5, "w1": 1.2, "bias": 0.5}, {"q2": 0.1})
    start = {"q1": 0.2, "w1": 0.3, "q2": 0.1}
    one = theory.trajectory(task, "heads:2", stage, start=start, accuracy=1.0)
    turned_start = {"q2": 0.2, "w2": 0.3, "q1": 0.1}
    other = theory.trajectory(task, "heads:2", turned, start=turned_start, accuracy=1.0)
    for a, b in (("q1", "q2"), ("w1", "w2"), ("q2", "q1"), ("w2", "w1")):
        spread = np.hypot(one.errors["overlap"][a], other.errors["overlap"][b])
        assert (np.abs(one.overlap[a] - other.overlap[b]) <= 5 * spread + 1e-12).all()
    assert one.overlap["w1"][-1] != pytest.approx(one.overlap["w2"][-1], rel=0.05)


def tied_stage(**options):
    return Stage(TIED[1], 1.0, {"w": 1.0, "bias": 0.5}, **options)


@pytest.mark.slow
def test_momentum_zero_is_none_and_runs_repeat():
    task = Task(TIED[0])
    plain = theory.trajectory(task, "tied", tied_stage(), accuracy=0.05)
    zero = theory.trajectory(task, "tied", tied_stage(momentum=[0.0] * TIED[1]), accuracy=0.05)
    moved = theory.trajectory(task, "tied", tied_stage(momentum=0.5), accuracy=0.05)
    assert (plain.test_error == zero.test_error).all() and (plain.gram == zero.gram).all()
    assert moved.overlap["w"][1] == plain.overlap["w"][1] and moved.overlap["w"][2] > plain.overlap["w"][2] + 0.01


def test_a_rate_of_zero_leaves_a_direction_at_its_start():
    found = theory.trajectory(Task(4), "attention", Stage(6, 1.0, {"w": 1.0}), start={"q": 0.5}, accuracy=0.05)
    assert found.gram[:, 0, 0] == pytest.approx(np.full(7, 0.25), abs=1e-12)
    assert found.overlap["q"] == pytest.approx(np.zeros(7), abs=1e-12)
    assert (found.bias == 0).all()


@pytest.mark.slow
def test_a_start_with_a_cosine_is_there_at_step_zero_and_trains_as_simulations_do():
    task, start = Task(TIED[0], 1, 3.0), {"w": 0.8, "cosine[w]": -0.6}
    found = theory.trajectory(task, "tied", tied_stage(), start=start, accuracy=0.05)
    assert found.overlap["w"][0] == pytest.approx(-0.48, abs=1e-12) and found.gram[0, 0, 0] == pytest.approx(0.64)
    runs = [simulate_trajectory(task, "tied", tied_stage(), 400, seed, start=start) for seed in range(8)]
    for step in (0, 1, 4, TIED[1]):
        measured = np.array([run.overlap["w"][step] for run in runs])
        error = np.hypot(measured.std(ddof=1) / np.sqrt(len(runs)), found.errors["overlap"]["w"][step])
        assert abs(measured.mean() - found.overlap["w"][step]) < 6 * error + 5 / 400  # and finite d
    assert found.overlap["w"][-1] > found.overlap["w"][0] + 0.2  # it had a way to go


@pytest.mark.slow
def test_rounding_does_not_pass_for_innovations():
    """Long bags and many steps: each of the fields is nearly known from the earlier ones. One of these replicates flew apart
    (a squared norm of 113) where innovations of 1e-11 of the variance were kept."""
    stage = Stage(40, 4.0, {"q": 1.0, "w": 1.0, "bias": 1.0}, {"q": 0.1, "w": 0.1})
    problem = problem_of(Task(30, 1, 4.0), "attention", stage, "logistic", None)
    with double_precision():
        norms = [
            np.diagonal(solve_replicate(problem, i, 64, 2, tested=[40])["gram"], axis1=1, axis2=2) for i in range(8)
        ]
    assert 1 < np.max(norms) < 3


def test_accuracy_is_met_or_refused():
    task, stage = Task(TIED[0]), tied_stage()
    loose = theory.trajectory(task, "tied", stage, accuracy=0.05)
    aim = 1.5 * float(loose.standard_error.max())
    tight = theory.trajectory(task, "tied", stage, accuracy=aim)
    assert tight.details["replicates"] > loose.details["replicates"]
    assert tight.standard_error.max() <= aim / 2.5
    with pytest.warns(theory.AccuracyWarning, match="use at least"):
        found = theory.trajectory(task, "tied", stage, accuracy=1e-6)
    assert np.array_equal(found.test_error, loose.test_error) and found.standard_error.max() > 0
    with pytest.raises(theory.AccuracyError, match="use at least"):
        theory.trajectory(task, "tied", stage, "square", accuracy=theory.Accuracy(1e-6, strict=True))


def test_accuracy_is_asked_for_at_the_steps_that_are_tested():
    """The steep middle of a training scatters most: where only its start is tested, few replicates do."""
    task, stage = Task(TIED[0]), tied_stage()
    loose = theory.trajectory(task, "tied", stage, accuracy=0.05)
    aim = 1.5 * float(loose.standard_error.max())
    start = theory.trajectory(task, "tied", stage, accuracy=aim, tested=[0])
    assert start.details["replicates"] == loose.details["replicates"]
    assert start.test_error[0] == loose.test_error[0] == 0.5
    assert np.isnan(start.test_error[1:]).all() and np.array_equal(start.gram, loose.gram)


@pytest.mark.parametrize(("rate", "unstable"), [(8.0, True), (2.0, False)])
def test_training_that_amplifies_small_differences_says_so(rate, unstable):
    """At rates of 8 the thresholded model swings about; finite sizes are then far from the limit (docs/training.md)."""
    stage = Stage(6, 1.5, {"q": rate, "w": rate, "bias": 0.5}, {"q": 0.05, "w": 0.05}, 0.2)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", theory.UnstableTrainingWarning)
        found = theory.trajectory(
            Task(5, 1, 4.0, 0.4),
            "thresholded",
            stage,
            start={"q": 0.5, "w": 0.4},
            accuracy=1.0,
            sampling=theory.Sampling(256),
        )
    caught = [
        w for w in caught if w.category is not theory.AccuracyWarning
    ]  # what few bags shift is another test's subject
    assert [w.category for w in caught] == [theory.UnstableTrainingWarning] * unstable
    if unstable:
        assert 3 <= found.details["unstable_from"] <= 5
        assert "smaller rates" in str(caught[0].message) and caught[0].filename == __file__
    else:
        assert "unstable_from" not in found.details


def test_a_run_that_diverges_says_so():
    stage = Stage(15, 0.2, {"w": 1e25, "bias": 1e25})
    with pytest.raises(theory.AccuracyError, match="diverges"):
        theory.trajectory(Task(5, 2), "pooled", stage, "square", sampling=theory.Sampling(replicates=2))


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"start": {"v": 1.0}}, "start must name"),
        ({"start": {"w": -1.0}}, "start"),
        ({"start": {"w": 1.0, "cosine[w]": 1.1}}, r"start\['cosine\[w\]'\] must be"),
        ({"start": {"cosine[w]": 0.5}}, "needs a norm"),
        ({"start": {"w": 1.0, "cosine[v]": 0.5}}, "start must name"),
        ({"accuracy": 0.0}, "accuracy"),
        ({"tested": [0, 3]}, "tested must hold at least one step, and none beyond 2"),
        ({"loss": "hinge"}, "loss"),
    ],
)
def test_arguments_are_checked(arguments, match):
    with pytest.raises(ValueError, match=match):
        theory.trajectory(Task(4), "pooled", Stage(2, 1.0, {"w": 1.0}), **arguments)


def test_a_sampling_is_checked():
    with pytest.raises(ValueError, match="bags must be a power of two, got 100"):
        theory.Sampling(100)
    with pytest.raises(ValueError, match="replicates"):
        theory.Sampling(replicates=1)


@pytest.mark.slow
def test_positions_matter_only_to_models_that_look_at_them():
    def first_token(H, bias):
        return H[0, 0] + bias

    length, steps = SHORT
    stage = Stage(steps, 2.0, {"w": 1.0, "bias": 0.5})
    model = BagModel(first_token, ("w",), "first token")
    scattered = theory.trajectory(Task(length, 1, 3.0), model, stage, accuracy=0.05)
    fixed = theory.trajectory(Task(length, 1, 3.0, positions="fixed"), model, stage, accuracy=0.05)
    assert fixed.test_error[-1] < scattered.test_error[-1] - 0.1
    attention = [
        theory.trajectory(Task(length, 1, 3.0, positions=p), "attention", stage, accuracy=0.05).test_error[-1]
        for p in ("uniform", "fixed")
    ]
    assert attention[0] == pytest.approx(attention[1], abs=0.01)


DESCENT = Stage(5, 2.0, {"q": 0.8, "w": 0.8, "bias": 0.8}, {"q": 0.1, "w": 0.1}, 0.1)


def test_derivatives_against_finite_differences():
    directions = ("q", "w")
    problem = problem_of(Task(4), "attention", DESCENT, "logistic", None)
    last = len(directions)
    with double_precision():
        draws = replicate_draws(problem, 0, 64, 2, differentiable=True)
        _, slopes = replicate_gradient(problem, 5, draws)
        given = [np.array(getattr(problem.plan, name), dtype=float) for name in CONTROLS]
        for which, index in ((0, (1, 0)), (0, (3, last)), (1, (2, 0)), (2, (3,)), (3, ())):
            values = []
            for size in (1e-4, -1e-4):
                moved = [a.copy() for a in given]
                moved[which][index] += size
                values.append(float(replicate_gradient(problem, 5, draws, moved)[0]))
            slope = (values[0] - values[1]) / 2e-4
            assert np.asarray(slopes[which])[index] == pytest.approx(slope, rel=1e-4, abs=1e-7), CONTROLS[which]


def test_gradient_by_name():
    found = theory.trajectory_gradient(Task(4), "attention", DESCENT, step=5, sampling=theory.Sampling(64, 2))
    assert found.rates["w"].shape == found.decay["q"].shape == found.momentum.shape == (5,)
    assert set(found.errors) == {"rates", "decay", "momentum", "sharpness"}
    with pytest.raises(ValueError, match="read-only"):
        found.rates["w"][0] = 0.0
    with pytest.raises(ValueError, match="step"):
        theory.trajectory_gradient(Task(4), "attention", DESCENT, step=9)


def test_the_result_reads_well():
    found = theory.trajectory(Task(4), "attention", Stage(6, 1.0, {"q": 1.0, "w": 1.0, "bias": 0.5}), accuracy=0.05)
    table = found.frame()
    assert len(table) == 7 and {"test_error", "test_error_se", "overlap[q]", "gram[q,w]", "cosine[w]_se"} <= set(table)
    assert table["gram[q,w]"].to_numpy() == pytest.approx(found.gram[:, 0, 1])
    assert found.best_step == int(np.argmin(found.test_error))
    assert "attention, 6 steps" in repr(found) and len(repr(found)) < 120
    axes = found.plot()
    assert axes.get_xlabel() == "gradient step t" and len(axes.lines) == 3
    assert found.to_dict()["columns"]["bias"] == found.bias.tolist()
    for array in (found.gram, found.overlap["q"], found.errors["overlap"]["w"], found.errors["gram"]):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1.0
    with pytest.raises(TypeError):
        found.errors["bias"] = found.bias
    assert pickle.loads(pickle.dumps(found)).details == found.details


def test_progress_is_told_after_each_replicate_and_may_stop_the_work():
    reported = []

    def stop(done, wanted):
        reported.append((done, wanted))
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        theory.trajectory(Task(4), "pooled", Stage(2, 1.0, {"w": 1.0}), sampling=theory.Sampling(64, 3, stop))
    assert reported == [(1, 3), (2, 3)]


def test_single_precision_of_tangents_does_not_change_the_answer():
    problem = problem_of(Task(TIED[0]), "tied", tied_stage(), "logistic", None)
    with double_precision():
        quick = solve_replicate(problem, 0, 128, 4)
        plain = solve_replicate(problem, 0, 128, 4, differentiable=True)
    assert 0 < np.abs(quick["gram"] - plain["gram"]).max() < 1e-6
    assert quick["test_error"] == pytest.approx(plain["test_error"], abs=1e-7)
    assert quick["train_loss"] == pytest.approx(plain["train_loss"], abs=1e-6)


def test_a_gradient_that_vanishes_is_not_unstable():
    """At w = 0, where nothing that the first layer found is read, q moves by sampling errors alone: all of it is scatter."""
    stage = Stage(2, 2.0, {"k": 1.0, "v": 1.0, "q": 1.0, "w": 1.0})
    with warnings.catch_warnings():
        warnings.simplefilter("error", theory.UnstableTrainingWarning)
        found = theory.trajectory(
            Task(4), "two_layer:1e-9", stage, start={"k": 0.3, "v": 0.3}, accuracy=1.0, sampling=theory.Sampling(32)
        )
    assert "unstable_from" not in found.details


@pytest.mark.parametrize(("shift", "scatter"), [(0.0, 0.05), (5.0, 0.05), (5.0, 0.5)])
def test_what_few_bags_shift_is_estimated_and_said(monkeypatch, shift, scatter):
    """Replicates whose training loss is shifted by shift/N: a quarter of the bags shows it, in unstable training too."""
    problem = problem_of(Task(4), "pooled", Stage(2, 1.0, {"w": 1.0}), "logistic", None)

    def replicate(problem, index, bags, probes, tested=None):
        noise = np.random.default_rng(index).standard_normal(3)
        loss = 0.5 + shift / bags + 1e-4 * noise
        return {"gram": 1.0 + scatter * noise[:, None, None], "train_loss": loss, "test_error": 0.2 + 1e-4 * noise}

    monkeypatch.setattr(trajectory_module, "solve_replicate", replicate)
    rows = [replicate(problem, i, 256, 2) for i in range(16)]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        details = trajectory_module._checked(problem, rows, 256, 1e-2)
    assert details["shift"]["test_error"] == 0.0
    assert details["shift"]["train_loss"] == pytest.approx(shift / 256, abs=3e-4 if shift else 0.0)
    unstable = [theory.UnstableTrainingWarning] * (scatter > 0.1)
    assert [w.category for w in caught] == unstable + [theory.AccuracyWarning] * bool(shift)
    if shift:
        message = str(caught[-1].message)
        assert "in the training loss, as" in message and "test error" not in message
        assert "sampling=theory.Sampling(bags=1024)" in message


def test_the_best_step_is_one_that_was_tested():
    found = theory.trajectory(
        Task(4), "pooled", Stage(3, 1.0, {"w": 1.0}), accuracy=1.0, sampling=theory.Sampling(32), tested=[1, 2]
    )
    assert found.best_step in (1, 2) and "nan" not in repr(found)


@pytest.mark.parametrize(
    ("score", "words"),
    [
        (lambda H, bias: 1 / 0, "raises ZeroDivisionError"),
        (lambda H, bias: H[:, 0] + bias, "one number for a bag, got shape"),
        (lambda H, bias: np.mean(np.asarray(H)) + bias, "use jax.numpy"),
    ],
)
def test_a_score_that_cannot_be_used_is_refused_in_a_sentence(score, words):
    model = BagModel(score, ("w",), "mine")
    for call in (theory.trajectory, partial(simulate_trajectory, d=20, seed=0)):
        with pytest.raises(ValueError, match=f"score of bag model 'mine'.*{words}"):
            call(Task(4), model, stages=Stage(1, 1.0, {"w": 1.0}))


def test_arguments_are_named_in_a_sentence():
    stage = Stage(1, 1.0, {"w": 1.0})
    with pytest.raises(ValueError, match="task must be a Task, got None"):
        theory.trajectory(None, "pooled", stage)
    with pytest.raises(ValueError, match="start must be a mapping"):
        theory.trajectory(Task(4), "pooled", stage, start="w")

"""Bags that differ: limits in which the theory must be the plain one, and agreement with simulation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from sparsetoken import Stage, Task, Training, simulate, simulate_trajectory, theory
from sparsetoken.losses import get_loss
from sparsetoken.simulation.two_steps import two_steps
from sparsetoken.study.kinds.readout import GivenReadout, readout_trial
from sparsetoken.task import BagKind
from sparsetoken.theory.bayes.oracle import hardmax_error, pooled_error
from sparsetoken.theory.two_step_formulas import alignment_formulas, bag_groups

TRAINING = Training(alpha0=2.0, alpha1=3.0, ridge=0.05, eta_q=60.0)
TASKS = {
    "length": Task({5: 0.5, 15: 0.5}, 1, 4.0),
    "sparsity": Task(12, {1: 0.5, 3: 0.5}, 3.0),
    "strength": Task(10, 1, {2.0: 0.3, 6.0: 0.7}),
    "label_noise": Task(label_noise=0.2),
    "contamination": Task(contamination=0.3, prevalence=0.4),
    "correlation": Task(correlation=0.3),
    "all": Task({6: 0.5, 14: 0.5}, {1: 0.5, 2: 0.5}, {3.0: 0.4, 6.0: 0.6}, 0.4, "uniform", 0.1, 0.1, 0.2),
}
NEARLY_PLAIN = {
    "label_noise": Task(8, 2, 3.0, label_noise=1e-12),
    "contamination": Task(8, 2, 3.0, contamination=1e-12),
    "correlation": Task(8, 2, 3.0, correlation=1e-12),
    "strength": Task(8, 2, {3.0: 0.5, 3.0 + 1e-9: 0.5}),
}
MEASURED = ("test_error", "auc", "sensitivity", "specificity", "train_loss", "train_error", "norm_w", "bias")


@pytest.mark.parametrize("name", NEARLY_PLAIN)
def test_a_vanishing_difference_is_none(name):
    """Another path through the code, the same numbers."""
    plain, task = Task(8, 2, 3.0), NEARLY_PLAIN[name]
    here, there = (theory.alignment(t, TRAINING) for t in (plain, task))
    assert there.query_cosine == pytest.approx(here.query_cosine, abs=1e-8)
    assert there.rate == pytest.approx(here.rate, rel=1e-8)
    for model in ("attention", "pooled", "elementwise", *(("vectorized",) if name != "correlation" else ())):
        one, other = (theory.forecast(t, TRAINING, model, with_capacity=False) for t in (plain, task))
        room = 5 * np.hypot(one.standard_error, other.standard_error) + 1e-7
        for field in ("test_error", "sensitivity", "train_error"):
            assert abs(getattr(one, field) - getattr(other, field)) < 3 * room, (model, field)
        assert other.norm_w == pytest.approx(one.norm_w, rel=2e-3)
    one, other = theory.bayes_limit(plain, 1.5), theory.bayes_limit(task, 1.5)
    assert other.overlap == pytest.approx(one.overlap, abs=5 * other.errors["overlap"] + 2e-3)
    assert other.test_error == pytest.approx(one.test_error, abs=5 * other.errors["test_error"] + 5e-4)
    assert pooled_error(task) == pytest.approx(pooled_error(plain), abs=1e-6)
    assert hardmax_error(task) == pytest.approx(hardmax_error(plain), abs=1e-6)


def test_labels_of_pure_noise_teach_nothing():
    for model in ("attention", "pooled", "elementwise", "vectorized"):
        found = theory.forecast(Task(prevalence=0.3, label_noise=0.5), TRAINING, model, with_capacity=False)
        assert found.test_error == pytest.approx(0.5, abs=5 * found.standard_error + 1e-5), model
        assert found.auc == pytest.approx(0.5, abs=2e-3)
    capacity = theory.capacity(theory.pooled_law(Task(label_noise=0.5)))
    assert capacity.alpha == pytest.approx(2.0, rel=1e-9)  # Cover's, whatever the bags are


def test_alignment_of_types_that_go_together():
    """Length, sparsity and strength drawn together; reference values from a simulation of the definition at d = 1200."""
    kinds = (BagKind(5, 1, 4.0, 0.5), BagKind(15, 2, 3.0, 0.5))
    found = alignment_formulas(get_loss("logistic"), bag_groups(Task(), 0.3, kinds), 2.0, 1.0, 1.0, 1.0, 1.0)
    measured = {
        "norm_w": (0.1576, 0.0010),
        "overlap_q": (0.0139, 0.0005),
        "norm_q": (0.0297, 0.0003),
        "cos_q": (0.468, 0.013),
    }
    for name, (mean, error) in measured.items():
        assert abs(found[name] - mean) < 3 * error, name


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize("loss", ["logistic", "square", "smoothed_hinge"])
def test_alignment_is_the_limit_of_the_steps(name, loss):
    training = TRAINING.but(loss=loss, eta_b=0.7)
    limit = theory.alignment(TASKS[name], training)
    steps = [two_steps(TASKS[name], training, 8000, seed) for seed in range(12)]
    for pick in (
        lambda s: s.cosine["w"], lambda s: s.norm["w"], lambda s: s.cosine["q"], lambda s: s.norm["q"], lambda s: s.bias
    ):  # fmt: skip
        values = np.array([pick(s) for s in steps])
        assert abs(values.mean() - pick(limit)) < 4.5 * values.std(ddof=1) / 12**0.5 + 2e-4


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize("model", ["attention", "pooled", "elementwise", "vectorized"])
def test_forecasts_are_the_limit_of_simulation(name, model):
    """At d and 2 d: what is left of the gap is of the size of the scatter, or falls with d."""
    task = TASKS[name]
    if model == "vectorized" and (task.correlation or name in ("length", "all")):
        with pytest.raises(ValueError, match=r"must be (one number|0) for the vectorized classifier"):
            theory.forecast(task, TRAINING, model)
        with pytest.raises(ValueError, match=r"must be (one number|0) for the vectorized classifier"):
            simulate(task, TRAINING, 30, 0, model)
        return
    found = theory.forecast(task, TRAINING, model, with_capacity=False)
    gaps = []
    for d, trials in ((80, 12), (160, 12)):
        runs = [simulate(task, TRAINING, d, 50 + seed, model) for seed in range(trials)]
        rows = np.array([[getattr(run, field) for field in MEASURED] for run in runs])
        error = rows.std(axis=0, ddof=1) / trials**0.5 + 2e-3
        gaps.append(np.abs(rows.mean(axis=0) - [getattr(found, field) for field in MEASURED]) / error)
    assert (np.minimum(*gaps) < 4.5).all(), dict(zip(MEASURED, np.round(gaps, 1).T))
    assert np.sqrt(np.mean(gaps[1] ** 2)) < 2.5


@pytest.mark.parametrize("loss", ["square", "smoothed_hinge"])
def test_all_losses_and_a_readout_alone(loss):
    task = TASKS["all"]
    found = theory.erm(theory.attention_law(task, 0.8, 1.5), 2.5, 0.05, loss)
    given = GivenReadout("attention", 0.8, 1.5, 0.05, loss)
    runs = [readout_trial(task, 250, seed, 2.5, given) for seed in range(12)]
    for field in ("test_error", "train_loss", "norm_w", "train_error"):
        values = np.array([run[field] for run in runs])
        assert abs(values.mean() - getattr(found, field)) < 4.5 * values.std(ddof=1) / 12**0.5 + 1e-3, field


@pytest.mark.slow
def test_gradient_is_a_difference_of_forecasts():
    task, training = Task(6, 1, {3.0: 0.4, 6.0: 0.6}, 0.4, "uniform", 0.1, 0.0, 0.2), Training(ridge=1e-2)
    slopes = theory.gradient(task, training)
    step = 0.05
    up, down = (
        theory.forecast(task.at_strength(task.mean_strength + s), training, with_capacity=False).test_error
        for s in (step, -step)
    )
    assert slopes["strength"] == pytest.approx((up - down) / (2 * step), abs=5 * slopes.errors["strength"] + 2e-3)
    up, down = (
        theory.forecast(task, training.but(alpha1=2.0 + s), with_capacity=False).test_error for s in (step, -step)
    )
    assert slopes["alpha1"] == pytest.approx((up - down) / (2 * step), abs=5 * slopes.errors["alpha1"] + 2e-3)


@pytest.mark.slow
def test_margins_integrate_to_one():
    found = theory.erm(theory.attention_law(TASKS["all"], 0.8, 1.5), 2.0, 0.05)
    margins = np.linspace(-12, 16, 1401)
    for name, density in found.margin_densities(margins).items():
        assert np.trapezoid(density, margins) == pytest.approx(1.0, abs=2e-3), name


@pytest.mark.parametrize("name", TASKS)
def test_nothing_trained_beats_the_bayes_limit(name):
    limit = theory.bayes_limit(TASKS[name], 5.0)
    found = theory.forecast(TASKS[name], TRAINING, with_capacity=False)
    assert limit.test_error < found.test_error
    assert limit.reachable_test_error >= limit.test_error and 0 < limit.overlap < 1


@pytest.mark.slow
def test_training_step_by_step():
    """Theory against simulation at d = 400, everything at once but in two kinds of bags."""
    task = Task({4: 0.5, 8: 0.5}, 1, 4.0, 0.4, "uniform", 0.1, 0.1, 0.2)
    stages = [Stage(4, 3.0, {"q": 1.5, "w": 1.5, "bias": 0.3}, {"w": 0.05})]
    exact = theory.trajectory(task, "attention", stages, accuracy=0.02, sampling=theory.Sampling(replicates=4))
    runs = [simulate_trajectory(task, "attention", stages, 400, seed) for seed in range(10)]
    for field in ("test_error", "auc", "train_loss", "bias"):
        values = np.array([getattr(run, field) for run in runs])
        error = np.hypot(values.std(axis=0, ddof=1) / 10**0.5, exact.errors[field]) + 2e-3
        assert (np.abs(values.mean(axis=0) - getattr(exact, field)) < 4.5 * error).all(), field
    for direction in ("q", "w"):
        values = np.array([run.overlap[direction] for run in runs])
        error = np.hypot(values.std(axis=0, ddof=1) / 10**0.5, exact.errors["overlap"][direction]) + 2e-3
        assert (np.abs(values.mean(axis=0) - exact.overlap[direction]) < 4.5 * error).all(), direction


@pytest.mark.slow
def test_two_steps_of_a_trajectory_are_the_alignment():
    task = Task({4: 0.5, 8: 0.5}, 1, 4.0, 0.4, "uniform", 0.1, 0.1, 0.2)
    training = Training(alpha0=2.0, eta_w=1.3, eta_b=0.4, eta_q=8.0)
    # Two steps more, at rest: the shape of the trajectory above, whose compiled program serves here as well.
    stages = [Stage(1, 2.0, {"w": 1.3, "bias": 0.4}), Stage(1, 2.0, {"q": 8.0}), Stage(2, 2.0, {})]
    found = theory.trajectory(task, "attention", stages, accuracy=0.02, sampling=theory.Sampling(replicates=16))
    limit = theory.alignment(task, training)
    assert found.overlap["w"][1] == pytest.approx(limit.overlap["w"], rel=1e-9)
    assert found.bias[1] == pytest.approx(limit.bias, rel=1e-9)
    assert abs(found.overlap["q"][2] - limit.overlap["q"]) < 5 * found.errors["overlap"]["q"][2]
    assert (
        abs(found.gram[2, 0, 0] ** 0.5 - limit.norm["q"]) < 5 * found.errors["gram"][2, 0, 0] + 0.02 * limit.norm["q"]
    )


def test_pooled_mixtures_are_gaussian_in_closed_form():
    """The AUC of a pooled classifier over two lengths, by hand."""
    task = Task({4: 0.5, 16: 0.5}, 1, 4.0, contamination=0.2)
    found = theory.erm(theory.pooled_law(task), 3.0, 0.05)
    spread = found.norm_w / np.array([2.0, 4.0])
    shift = found.m_q * 4.0 / np.array([4, 16])
    auc = 0.0
    for i in range(2):
        for j in range(2):
            deviation = np.hypot(spread[i], spread[j])
            auc += 0.25 * (
                0.8 * stats.norm.cdf(shift[i] / deviation) + 0.2 * stats.norm.cdf((shift[i] - shift[j]) / deviation)
            )
    assert found.auc == pytest.approx(auc, abs=1e-9)

from __future__ import annotations

import json
import math
from dataclasses import FrozenInstanceError
from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

from sparsetoken import Loss, Positions, Task, Training, simulate
from sparsetoken._core.arrays import sigmoid, softplus
from sparsetoken.cli.values import parse_values
from sparsetoken.models import SIMULATED
from sparsetoken.simulation.joint import descend
from sparsetoken.simulation.measures import (
    OutputLaw,
    attention_measures,
    measures,
    pooled_measures,
    vectorized_measures,
)
from sparsetoken.simulation.repeats import mean_and_error, trial_seeds
from sparsetoken.simulation.samplers import TensorData
from sparsetoken.simulation.steps import two_steps
from sparsetoken.simulation.trial import SimulationResult

TASK = Task(length=6, sparsity=2, strength=3.0, prevalence=0.4)
TRAINING = Training(alpha0=2.0, alpha1=3.0, eta_q=12.0, ridge=1e-2)
WEIGHTED = Positions("weighted", weights=(3.0, 1.0, 1.0, 0.0, 2.0, 0.5))
PROMISED = (
    *("test_error", "train_loss", "train_error", "norm_w", "bias", "cosine_w", "overlap_w", "m_q", "m_u", "nu"),
    *("auc", "sensitivity", "specificity", "balanced_error", "n0", "n1"),
    *("cosine_q", "overlap_q", "sharpness", "steps_cosine_w", "steps_norm_q", "steps_bias"),
)


@pytest.mark.parametrize("model", SIMULATED)
@pytest.mark.parametrize("where", [Positions(), WEIGHTED], ids=["uniform", "weighted"])
def test_closed_form_and_counting_agree(model, where):
    """Error on 40,000 fresh bags within 4 standard errors of the formula: a correct one fails 1 in 15,000."""
    task = TASK.but(positions=where)
    found = simulate(task, TRAINING, 40, 3, model=model, sampler="tensor", test_samples=40_000)
    error = math.hypot(found.sampled_standard_error, found.standard_error)
    assert abs(found.test_error - found.sampled_error) < 4 * error
    assert 0.01 < found.test_error < 0.49
    assert found.standard_error < 1e-3


@pytest.mark.parametrize("activation", ["relu", "tanh", "threshold:1.5", np.square])
def test_closed_form_for_other_activations(activation):
    options = {"model": "elementwise", "activation": activation, "sampler": "tensor", "test_samples": 20_000}
    found = simulate(TASK, TRAINING, 40, 1, **options)
    assert abs(found.test_error - found.sampled_error) < 4 * math.hypot(
        found.sampled_standard_error, found.standard_error
    )


@pytest.mark.parametrize("schedule", ["reuse", "joint"])
def test_closed_form_for_other_schedules(schedule):
    found = simulate(TASK, TRAINING.but(schedule=schedule), 40, 1, sampler="tensor", test_samples=20_000)
    assert abs(found.test_error - found.sampled_error) < 4 * math.hypot(
        found.sampled_standard_error, found.standard_error
    )


def brute_force(task: Task, cosine: float, k: float, w: np.ndarray, bias: float, count: int) -> tuple:
    """Scores of `count` bags a class in d = len(w), from tokens; qhat is the first axis."""
    rng = np.random.default_rng(5)
    xi = np.zeros(len(w))
    xi[:2] = cosine, math.sqrt(1 - cosine**2)
    scores = []
    for positive in (True, False):
        x = rng.standard_normal((count, task.length, len(w)))
        if positive:
            x[:, : task.sparsity] += task.strength * xi
        p = np.exp(k * x[:, :, 0])
        p /= p.sum(axis=1, keepdims=True)
        scores.append(np.einsum("nl,nld,d->n", p, x, w) + bias)
    return tuple(scores)


def test_every_measure_against_brute_force():
    w = np.array([1.0, 0.5, -0.7, 0.2])
    cosine, k, bias, count = 0.6, 1.2, -1.5, 200_000
    positive, negative = brute_force(TASK, cosine, k, w, bias, count)
    found = attention_measures(
        TASK, cosine, k, w[0], w[1], float(np.linalg.norm(w)), bias, None, np.random.default_rng(0)
    )
    sensitivity, specificity = np.mean(positive > 0), np.mean(negative < 0)
    auc = stats.mannwhitneyu(positive, negative).statistic / count**2
    tolerance = 4 * 0.5 / math.sqrt(count)  # four standard errors of a share, at most
    assert found.sensitivity == pytest.approx(sensitivity, abs=tolerance)
    assert found.specificity == pytest.approx(specificity, abs=tolerance)
    assert found.auc == pytest.approx(auc, abs=tolerance)
    assert found.balanced_error == pytest.approx(1 - (sensitivity + specificity) / 2, abs=tolerance)
    error = TASK.prevalence * (1 - sensitivity) + (1 - TASK.prevalence) * (1 - specificity)
    assert found.test_error == pytest.approx(error, abs=tolerance)


def test_integration_error_is_honest():
    """Forty integrations of one classifier spread as their stated standard errors say (chi-square, level 1e-3 a side)."""
    runs = [
        attention_measures(Task(), 0.9, 1.5, 5.4, 3.0, 8.6, -16.9, None, np.random.default_rng(seed))
        for seed in range(40)
    ]
    errors, stated = np.array([r.test_error for r in runs]), np.array([r.standard_error for r in runs])
    ratio = 39 * errors.var(ddof=1) / np.mean(stated**2)
    low, high = stats.chi2.ppf([1e-3, 1 - 1e-3], 39)
    assert low < ratio < high
    assert stated.mean() < 2e-4


def test_pooled_and_vectorized_formulas_by_hand():
    phi = stats.norm.cdf
    found = pooled_measures(TASK, 2.0, 5.0, -1.0)
    sd, shift = 5 / math.sqrt(6), 3.0 * 2 / 6 * 2.0
    assert found.sensitivity == pytest.approx(phi((shift - 1) / sd))
    assert found.specificity == pytest.approx(phi(1 / sd))
    assert found.auc == pytest.approx(phi(shift / (sd * math.sqrt(2))))
    assert found.standard_error == 0.0
    fixed = TASK.but(positions=Positions("fixed", places=(1, 4)))
    overlaps = np.arange(6.0)
    found = vectorized_measures(fixed, overlaps, 9.0, -2.0, np.random.default_rng(0))
    assert found.sensitivity == pytest.approx(phi((3.0 * (1 + 4) - 2) / 9))
    listed = vectorized_measures(TASK, overlaps, 9.0, -2.0, np.random.default_rng(0))
    pairs = [phi((3.0 * (i + j) - 2) / 9) for i in range(6) for j in range(i)]
    assert listed.sensitivity == pytest.approx(np.mean(pairs))


def test_sampled_subsets_agree_with_listed_ones(monkeypatch):
    overlaps = np.linspace(-1, 2, 6)
    listed = vectorized_measures(TASK, overlaps, 3.0, -2.0, np.random.default_rng(0))
    monkeypatch.setattr("sparsetoken.simulation.samplers.positions.MOST_LISTED_SUBSETS", 1)
    sampled = vectorized_measures(TASK, overlaps, 3.0, -2.0, np.random.default_rng(0))
    assert 0 < sampled.standard_error < 1e-2
    assert abs(sampled.test_error - listed.test_error) < 4 * sampled.standard_error
    assert sampled.auc == pytest.approx(listed.auc, abs=0.01)


def test_a_silent_classifier():
    """No weights: the sign of the bias decides, and a bias of zero is a coin."""
    law = OutputLaw(np.zeros((1, 1)), np.zeros((1, 1)), np.ones(1))
    assert measures(law, law, 0.3).test_error == 0.5 and measures(law, law, 0.3).auc == 0.5
    assert pooled_measures(TASK, 0.0, 0.0, -1.0).test_error == pytest.approx(0.4)


@pytest.mark.parametrize("sampler", ["reduced", "tensor"])
@pytest.mark.parametrize("model", SIMULATED)
def test_results_are_complete_and_reproducible(model, sampler):
    first, again, other = (simulate(TASK, TRAINING, 30, seed, model=model, sampler=sampler) for seed in (1, 1, 2))
    assert isinstance(first, SimulationResult)
    with_query = model in ("attention", "elementwise")
    row = first.to_row()
    for name in PROMISED:
        of_the_query = name in PROMISED[-6:]
        assert math.isnan(row[name]) if of_the_query and not with_query else math.isfinite(row[name]), name
    plain, plain_again = first.to_dict(), again.to_dict()
    for timed in (plain, plain_again):
        assert all(seconds >= 0 for seconds in timed.pop("seconds").values())
    assert repr(plain) == repr(plain_again)
    assert first.test_error != other.test_error
    json.dumps(plain)
    with pytest.raises(FrozenInstanceError):
        first.test_error = 0.0
    assert (first.n0, first.n1) == ((60, 90) if with_query else (0, 90))
    assert math.hypot(first.m_q, first.m_u, first.nu) == pytest.approx(first.norm_w)
    assert (first.steps is not None) == with_query and set(first.cosine) == ({"w", "q"} if with_query else {"w"})
    assert first.balanced_error == pytest.approx(1 - (first.sensitivity + first.specificity) / 2)
    error = 0.4 * (1 - first.sensitivity) + 0.6 * (1 - first.specificity)
    assert first.test_error == pytest.approx(error)


def test_the_query_does_not_depend_on_what_follows():
    steps = two_steps(TASK, TRAINING, 30, 1)
    for model in ("attention", "elementwise"):
        found = simulate(TASK, TRAINING.but(alpha1=1.0), 30, 1, model=model)
        assert found.steps == steps.summary()
        assert found.cosine["q"] == steps.cosine["q"] and found.sharpness == steps.sharpness


def test_cosine_of_the_readout():
    """From the vectors themselves, in the full tensor; reproduced here from the sampler's own data."""
    from sparsetoken.solvers.erm import fit_erm

    found = simulate(TASK, TRAINING, 30, 2, sampler="tensor")
    data = TensorData(TASK, 90, 30, 2, "1")
    steps = two_steps(TASK, TRAINING, 30, 2, "tensor")
    fit = fit_erm(data.attended(steps.query, None), data.labels, TRAINING.ridge)
    cosine = fit.coef @ data.signal / np.linalg.norm(fit.coef)
    assert found.cosine["w"] == pytest.approx(cosine, abs=1e-9)
    assert found.norm_w == pytest.approx(np.linalg.norm(fit.coef))
    loss = softplus(-data.labels * (data.attended(steps.query, None) @ fit.coef + fit.bias)).mean()
    assert found.train_loss == pytest.approx(loss)
    flat = simulate(TASK, TRAINING, 30, 2, model="vectorized", sampler="tensor")
    fit = fit_erm(data.flattened(), data.labels, TRAINING.ridge)
    everywhere = np.tile(data.signal, 6) / math.sqrt(6)
    assert flat.cosine["w"] == pytest.approx(fit.coef @ everywhere / np.linalg.norm(fit.coef), abs=1e-9)


def test_equal_samples_are_for_baselines():
    for model, n1 in (("pooled", 150), ("vectorized", 150), ("attention", 90), ("elementwise", 90)):
        assert simulate(TASK, TRAINING, 30, 0, model=model, equal_samples=True).n1 == n1


def test_reuse_takes_the_same_bags_again():
    found = simulate(TASK, TRAINING.but(schedule="reuse"), 30, 0, sampler="tensor")
    assert (found.n0, found.n1) == (60, 60)
    staged = simulate(TASK, TRAINING, 30, 0, sampler="tensor")
    assert found.cosine["q"] == staged.cosine["q"] and found.test_error != staged.test_error


@pytest.mark.parametrize("loss", ["logistic", "square", "smoothed_hinge"])
def test_joint_descent_descends(loss):
    training = TRAINING.but(schedule="joint", loss=loss)
    parts = [TensorData(TASK, 60, 20, 4, dataset) for dataset in "01"]
    found = descend(parts, training)
    assert np.all(np.diff(found.objective) < 0)
    assert found.objective[-1] < 0.7 * found.objective[0]
    assert found.stopped in ("decrease", "precision", "iterations") and np.any(found.query)
    # The objective, written out anew.
    x = np.concatenate([part.flattened().reshape(60, 6, 20) for part in parts])
    y = np.concatenate([part.labels for part in parts])
    p = np.exp(training.beta * x @ found.query)
    z = np.einsum("nl,nl->n", p / p.sum(axis=1, keepdims=True), x @ found.readout) + found.bias
    value = training.loss_function.value(z, y).mean() + 0.5 * training.ridge * found.readout @ found.readout
    assert found.objective[-1] == pytest.approx(value, rel=1e-9)
    np.testing.assert_allclose(found.outputs, z, atol=1e-9)


def test_joint_descent_follows_the_gradient():
    """One iteration, by finite differences: the direction is minus the gradient scaled by the rates."""
    training = Training(schedule="joint", eta_w=0.8, eta_b=0.4, eta_q=3.0)
    data = TensorData(TASK, 40, 6, 4, "0")
    x, y = data.flattened().reshape(40, 6, 6), data.labels

    def value(v):
        q, w, b = v[:6], v[6:12], v[12]
        p = np.exp(x @ q)
        z = np.einsum("nl,nl->n", p / p.sum(axis=1, keepdims=True), x @ w) + b
        return softplus(-y * z).mean() + 0.5 * training.ridge * w @ w

    import sparsetoken.simulation.joint as joint

    path = [np.zeros(13)]
    for iterations in (1, 2):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(joint, "MAX_ITERATIONS", iterations)
            found = descend([data], training)
        path.append(np.concatenate([found.query, found.readout, [found.bias]]))
    rates = np.repeat([3.0, 0.8, 0.4], [6, 6, 1])
    for here, there in pairwise(path):
        gradient = np.array([(value(here + e) - value(here - e)) / 2e-6 for e in 1e-6 * np.eye(13)])
        moved, expected = there - here, -rates * gradient
        step = moved @ expected / (expected @ expected)
        np.testing.assert_allclose(moved, step * expected, atol=1e-7)


def test_vectorized_at_full_size():
    """Ten thousand weights, 2000 samples."""
    found = simulate(Task(), Training(), 1000, 0, model="vectorized")
    assert found.stopped == "gradient" and len(found.token_overlaps) == 10
    assert 0.38 < found.test_error < 0.43  # the limit is 0.4034, and trials at this size spread by 0.003


def test_a_loss_of_ones_own_runs():
    class Soft(Loss):
        name = "soft"

        def value(self, z, y):
            return softplus(-2 * y * z) / 2

        def slope(self, z, y):
            return -y * sigmoid(-2 * y * z)

        def curvature(self, z, y):
            return 2 * sigmoid(-2 * y * z) * sigmoid(2 * y * z)

    found = simulate(TASK, TRAINING.but(loss=Soft()), 30, 0)
    assert found.stopped == "gradient" and found.test_error < 0.5


def test_one_token_bags_pool():
    task = Task(1, 1, 2.0)
    attention, pooled = (simulate(task, Training(), 40, 0, model=m, sampler="tensor") for m in ("attention", "pooled"))
    assert attention.test_error == pytest.approx(pooled.test_error, abs=4 * attention.standard_error + 1e-6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"model": "transformer"},
            "model must be one of attention, pooled, vectorized, elementwise, got 'transformer'",
        ),
        ({"sampler": "quick"}, "sampler must be one of reduced, tensor"),
        ({"activation": "step", "model": "elementwise"}, "activation must be one of"),
        ({"training": Training(schedule="reuse")}, "schedule 'reuse' needs the full tokens: use sampler 'tensor'"),
        ({"training": Training(schedule="joint")}, "schedule 'joint' needs the full tokens"),
        (
            {"training": Training(schedule="joint"), "sampler": "tensor", "model": "elementwise"},
            "use model 'attention'",
        ),
        ({"test_samples": 10}, "test_samples needs full bags"),
        ({"test_samples": -1}, "test_samples must be"),
        ({"d": 1}, "d must be"),
        ({"seed": "x"}, "seed must be"),
        ({"chunk": 0, "sampler": "tensor"}, "chunk must be"),
        ({"training": Training(alpha1=0.001)}, "alpha1 = 0.001 gives 0 samples"),
    ],
)
def test_bad_input(change, message):
    good = {"task": Task(), "training": Training(), "d": 100, "seed": 0}
    with pytest.raises(ValueError, match=message):
        simulate(**(good | change))


def test_trial_seeds_and_means():
    assert trial_seeds(0, 3) == trial_seeds(0, 5)[:3]
    assert len(set(trial_seeds(0, 100))) == 100 and trial_seeds(0, 1) != trial_seeds(1, 1)
    assert mean_and_error([1.0, 3.0]) == (2.0, 1.0)
    assert math.isnan(mean_and_error([1.0])[1]) and math.isnan(mean_and_error([1.0, math.nan])[0])


def test_values_from_text():
    assert parse_values("x", "2") == [2.0] and parse_values("x", "1,2.5") == [1.0, 2.5]
    assert parse_values("x", "0.5:8:4") == [0.5, 3.0, 5.5, 8.0]
    assert parse_values("x", "1e-4:1:3:log") == [1e-4, 1e-2, 1.0]
    for bad in ("", "a", "1,,2", "1:2", "1:2:1", "1:2:3:lin", "0:1:3:log", "1:nan:3", "1:2:x"):
        with pytest.raises(ValueError, match=r"^x must be a number, a list"):
            parse_values("x", bad)

"""Whole trials: every model and sampler, what is measured, and what is refused."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from dataclasses import FrozenInstanceError

import numpy as np
import pytest

from sparsetoken import Deployment, Loss, Positions, Task, Training, simulate
from sparsetoken._core.arrays import sigmoid, softplus
from sparsetoken.activations import softmax
from sparsetoken.classifiers import SIMULATED
from sparsetoken.results import NotConvergedWarning
from sparsetoken.simulation.samplers import TensorData
from sparsetoken.simulation.trajectory import joint_descent, joint_trajectory
from sparsetoken.simulation.trial import SimulationResult
from sparsetoken.simulation.two_steps import two_steps
from sparsetoken.solvers import minimise
from sparsetoken.solvers.erm import fit_erm
from sparsetoken.theory import Sampling, trajectory

TASK = Task(length=6, sparsity=2, strength=3.0, prevalence=0.4)
TRAINING = Training(alpha0=2.0, alpha1=3.0, eta_q=12.0, ridge=1e-2)
JOINT = Training(alpha0=2.0, alpha1=3.0, eta_q=2.0, eta_w=1.5, eta_b=0.7, ridge=1e-2, schedule="joint", steps=12)
WEIGHTED = Positions("weighted", weights=(3.0, 1.0, 1.0, 0.0, 2.0, 0.5))
PROMISED = (
    *("test_error", "train_loss", "train_error", "norm_w", "bias", "cosine_w", "overlap_w", "m_q", "m_u", "nu"),
    *("auc", "sensitivity", "specificity", "balanced_error", "n0", "n1"),
    *("cosine_q", "overlap_q", "sharpness", "steps_cosine_w", "steps_norm_q", "steps_bias"),
)


@pytest.mark.parametrize("model", list(SIMULATED))
@pytest.mark.parametrize("where", [Positions(), WEIGHTED], ids=["uniform", "weighted"])
def test_closed_form_and_counting_agree(model, where):
    """Error on 40,000 fresh bags within 4 standard errors of the formula: a correct one fails 1 in 15,000."""
    task = TASK.but(positions=where)
    found = simulate(task, TRAINING, 40, 3, model=model, sampler="tensor", deployment=Deployment(samples=40_000))
    error = math.hypot(found.sampled_standard_error, found.standard_error)
    assert abs(found.test_error - found.sampled_error) < 4 * error
    assert 0.01 < found.test_error < 0.49
    assert found.standard_error < 1e-3


@pytest.mark.parametrize("activation", ["relu", "tanh", "threshold:1.5", "sparsemax"])
def test_closed_form_for_other_activations(activation):
    counted = Deployment(samples=20_000)
    found = simulate(TASK, TRAINING, 40, 1, f"elementwise:{activation}", sampler="tensor", deployment=counted)
    assert abs(found.test_error - found.sampled_error) < 4 * math.hypot(
        found.sampled_standard_error, found.standard_error
    )


@pytest.mark.parametrize("training", [TRAINING.but(schedule="reuse"), JOINT], ids=["reuse", "joint"])
def test_closed_form_for_other_schedules(training):
    found = simulate(TASK, training, 40, 1, sampler="tensor", deployment=Deployment(samples=20_000))
    assert abs(found.test_error - found.sampled_error) < 4 * math.hypot(
        found.sampled_standard_error, found.standard_error
    )


@pytest.mark.parametrize("sampler", ["reduced", "tensor"])
@pytest.mark.parametrize("model", list(SIMULATED))
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
    found = simulate(TASK, TRAINING, 30, 2, sampler="tensor")
    data = TensorData(TASK, 90, 30, 2, "1")
    steps = two_steps(TASK, TRAINING, 30, 2, "tensor")

    def attended(tokens):
        return np.einsum("nl,nld->nd", softmax(tokens @ steps.query), tokens)

    fit = fit_erm(data.collect(attended), data.labels, TRAINING.ridge)
    cosine = fit.coef @ data.signal / np.linalg.norm(fit.coef)
    assert found.cosine["w"] == pytest.approx(cosine, abs=1e-9)
    assert found.norm_w == pytest.approx(np.linalg.norm(fit.coef))
    loss = softplus(-data.labels * (data.collect(attended) @ fit.coef + fit.bias)).mean()
    assert found.train_loss == pytest.approx(loss)
    flat = simulate(TASK, TRAINING, 30, 2, model="vectorized", sampler="tensor")
    fit = fit_erm(data.collect(lambda tokens: tokens.reshape(len(tokens), -1)), data.labels, TRAINING.ridge)
    everywhere = np.tile(data.signal, 6) / math.sqrt(6)
    assert flat.cosine["w"] == pytest.approx(fit.coef @ everywhere / np.linalg.norm(fit.coef), abs=1e-9)


def test_equal_samples_are_for_baselines():
    for model, n1 in (("pooled", 150), ("vectorized", 150), ("attention", 90), ("elementwise", 90)):
        assert simulate(TASK, TRAINING.but(equal_samples=True), 30, 0, model=model).n1 == n1


@pytest.mark.parametrize("sampler", ["reduced", "tensor"])
def test_joint_training_is_the_last_step_of_its_trajectory(sampler):
    found = simulate(TASK, JOINT, 30, 2, sampler=sampler)
    run = joint_trajectory(TASK, JOINT, 30, 2, sampler)
    assert (found.n0, found.n1) == (150, 150)
    assert (found.stopped, found.converged) == ("steps", True) and math.isnan(found.gradient_norm)
    assert found.norm_w == pytest.approx(run.norm("w")[-1]) and found.bias == pytest.approx(run.bias[-1])
    assert found.train_loss == run.train_loss[-1] and found.train_error == run.train_error[-1]
    for name in "qw":
        assert found.cosine[name] == pytest.approx(run.cosine[name][-1])
        assert found.overlap[name] == pytest.approx(run.overlap[name][-1])
    for name in ("test_error", "auc", "sensitivity", "specificity"):  # one formula and the other
        error = run.errors[name][-1]
        assert getattr(found, name) == pytest.approx(getattr(run, name)[-1], abs=5 * error + 2e-3), name


@pytest.mark.slow
def test_joint_training_tends_to_the_theorys_last_step():
    """Trials scatter like 1/d and lie 1/d from the limit; eight at d = 400 leave about 3e-3 of the test error."""
    run = joint_descent(TASK, JOINT, 400, 0, "reduced")
    limit = trajectory(TASK, run.model, run.stages, JOINT.loss, accuracy=0.01, sampling=Sampling(256))
    trials = [simulate(TASK, JOINT, 400, seed) for seed in range(8)]
    expected = {
        "test_error": (limit.test_error[-1], limit.standard_error[-1]),
        "train_loss": (limit.train_loss[-1], limit.errors["train_loss"][-1]),
        "norm_w": (limit.norm("w")[-1], 0.0),
        "sharpness": (limit.norm("q")[-1], 0.0),
        "bias": (limit.bias[-1], limit.errors["bias"][-1]),
    }
    for name, (value, error) in expected.items():
        found = [getattr(trial, name) for trial in trials]
        spread = math.hypot(np.std(found, ddof=1) / math.sqrt(len(found)), error)
        assert abs(np.mean(found) - value) < 4 * spread + 5 / 400 * abs(value), name


def test_joint_training_serves_attention_alone():
    """The other models have a readout only, which is trained as ever."""
    found = simulate(TASK, JOINT, 30, 0, "pooled")
    assert found.test_error == simulate(TASK, JOINT.but(schedule="staged"), 30, 0, "pooled").test_error


def test_reuse_takes_the_same_bags_again():
    found = simulate(TASK, TRAINING.but(schedule="reuse"), 30, 0, sampler="tensor")
    assert (found.n0, found.n1) == (60, 60)
    staged = simulate(TASK, TRAINING, 30, 0, sampler="tensor")
    assert found.cosine["q"] == staged.cosine["q"] and found.test_error != staged.test_error


def test_vectorized_at_full_size():
    """Ten thousand weights, 2000 samples."""
    found = simulate(Task(), Training(), 1000, 0, model="vectorized")
    assert found.stopped == "gradient" and len(found.token_overlaps) == 10
    assert 0.38 < found.test_error < 0.43  # the limit is 0.4034, and trials at this size spread by 0.003


def test_a_loss_of_a_user_runs():
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
            "model must be one of attention, pooled, vectorized, elementwise, heads, got 'transformer'",
        ),
        ({"sampler": "quick"}, "sampler must be one of reduced, tensor"),
        ({"model": "elementwise:step"}, "activation must be one of"),
        ({"training": Training(schedule="joint", beta=0.0)}, "beta must be positive"),
        (
            {"training": Training(schedule="reuse"), "sampler": "reduced:cpu"},
            "'reduced:cpu' serves .* the staged schedule",
        ),
        ({"sampler": "tensor:cpu"}, "'reduced:cpu' serves white Gaussian noise"),
        (
            {"training": Training(schedule="joint"), "sampler": "tensor", "model": "elementwise"},
            "use model 'attention'",
        ),
        ({"deployment": Deployment(samples=10)}, "samples of a deployment need full bags"),
        ({"d": 1}, "d must be"),
        ({"seed": "x"}, "seed must be"),
        ({"training": Training(alpha1=0.001)}, "alpha1 = 0.001 gives 0 samples"),
    ],
)
def test_bad_input(change, message):
    good = {"task": Task(), "training": Training(), "d": 100, "seed": 0}
    with pytest.raises(ValueError, match=message):
        simulate(**(good | change))


@pytest.mark.parametrize("model", ["pooled", "vectorized"])
@pytest.mark.parametrize("sampler", ["reduced", "tensor"])
def test_models_without_a_query_do_not_ask_for_d0(model, sampler):
    """An alpha0 that would give no samples at all is nothing to them, but for what equal_samples adds."""
    few = TRAINING.but(alpha0=1e-6)
    found = simulate(TASK, few, 30, 0, model, sampler=sampler)
    assert found.test_error == simulate(TASK, TRAINING, 30, 0, model, sampler=sampler).test_error
    assert simulate(TASK, few.but(equal_samples=True), 30, 0, model, sampler=sampler).n1 == found.n1 == 90
    with pytest.raises(ValueError, match="alpha0 = 1e-06 gives 0 samples"):
        simulate(TASK, few, 30, 0, "attention", sampler=sampler)
    rare = TASK.but(prevalence=0.02)  # six bags of D0 are all negative; D1 has both classes
    found = simulate(rare, TRAINING.but(alpha0=0.2, alpha1=8.0), 30, 0, model, sampler=sampler)
    assert found.n0 == 0


def test_reuse_without_a_query_learns_from_d0():
    reused = simulate(TASK, TRAINING.but(schedule="reuse"), 30, 0, "pooled", sampler="tensor")
    assert (reused.n0, reused.n1) == (0, 60)
    reduced = simulate(TASK, TRAINING.but(schedule="reuse"), 30, 0, "pooled")
    assert (reduced.n0, reduced.n1) == (0, 60)
    data = TensorData(TASK, 60, 30, 0, "0")
    fit = fit_erm(data.collect(lambda tokens: tokens.mean(axis=1)), data.labels, TRAINING.ridge)
    assert reused.norm_w == pytest.approx(np.linalg.norm(fit.coef))


def test_a_readout_that_did_not_converge_says_so(monkeypatch):
    """The warning points at the caller's line."""
    assert simulate(TASK, TRAINING, 30, 0).converged
    monkeypatch.setattr(minimise, "MAX_ITERATIONS", 1)
    with pytest.warns(NotConvergedWarning, match="did not converge .stopped by 'iterations'") as caught:
        found = simulate(TASK, TRAINING, 30, 0)
    assert not found.converged and found.stopped == "iterations"
    assert caught[0].filename == __file__


@pytest.mark.parametrize("model", ["attention", "elementwise", "pooled"])
def test_very_long_bags(model):
    """Beyond the 21,201 coordinates of a Sobol sequence: a strong signal is found, and the error bar says how exactly."""
    found = simulate(Task(22_000, 2_000, 3.0), Training(eta_q=400.0), 20, 0, model)
    assert found.standard_error < 5e-3 and 0.0 <= found.test_error < 0.2


def test_simulating_needs_no_jax():
    """Importing JAX takes a second, which a process that only simulates with NumPy does not spend."""
    code = (
        "import sys; from sparsetoken import Task, Training, simulate\n"
        "for model in ('attention', 'elementwise', 'pooled', 'vectorized'):\n"
        "    simulate(Task(), Training(), 30, 0, model)\n"
        "sys.exit('jax' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

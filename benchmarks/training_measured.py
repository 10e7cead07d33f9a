"""Figures about training step by step, about its end and about schedules: what docs/training_measured.md shows.

Each is an estimate with its standard error, no race against a peer: rows are dictionaries whose keys are a table's columns.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sparsetoken import Stage, Task, simulate_end, simulate_trajectory, theory
from sparsetoken._core.averages import mean_and_error, with_error
from sparsetoken.bag_models import get_bag_model
from sparsetoken.planning.tuning import tune_attention
from sparsetoken.simulation import mean_trajectory
from sparsetoken.trajectories import Trajectory

from .measure import case

ALPHA = 2.0
JOINT = Stage(30, ALPHA, {"q": 1.0, "w": 1.0, "bias": 0.5}, {"q": 0.1, "w": 0.1})


def timed_row(make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """A row with the CPU seconds that it took; what bags drawn at random leave open is in its error."""
    begun = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        row = make()
    return row | {"CPU s": f"{time.process_time() - begun:.0f}"}


# What schedules reach.


@case("designs", "test error of schedules found by theory.design with its defaults and 32 steps, next to others")
def designs(quick: bool) -> list[dict[str, Any]]:
    plain, alpha = Task(), ALPHA
    rows = [timed_row(lambda: _staged(plain, alpha)), timed_row(lambda: _constant(plain))]
    for task, size in ((plain, alpha), (Task(6, 1, 4.0, 0.3), 4.0))[: 1 if quick else 2]:
        rows.append(timed_row(lambda: _designed(task, "tied:2", size, quick)))  # noqa: B023
    return rows


def _about(task: Task, alpha: float, training: str, error: str, steps: str, gradients: int | None) -> dict[str, Any]:
    what = f"L = {task.length}, R = {task.sparsity}, θ = {task.strength:g}, π = {task.prevalence:g}, α = {alpha:g}"
    bayes = f"{theory.bayes_limit(task, alpha).test_error:.4f}"
    return {
        "task": what, "training": training, "test error": error, "Bayes limit": bayes, "steps": steps, "gradients": gradients,
    }  # fmt: skip


def _staged(task: Task, alpha: float) -> dict[str, Any]:
    found = tune_attention(task, alpha).measured
    error = with_error(found.loss, found.standard_error)
    return _about(task, alpha, "staged attention, tuned", error, "2 and a convex readout", None)


def _constant(task: Task) -> dict[str, Any]:
    found = theory.trajectory(task, "attention", JOINT, accuracy=5e-4, tested=[JOINT.steps])
    error = with_error(found.test_error[-1], found.standard_error[-1])
    return _about(task, ALPHA, "joint attention, rates 1, decay 0.1", error, str(JOINT.steps), None)


def _designed(task: Task, model: str, alpha: float, quick: bool) -> dict[str, Any]:
    found = theory.design(task, model, alpha, 4 if quick else 32, most_evaluations=1 if quick else 100)
    error = with_error(found.test_error, found.standard_error)
    return _about(task, alpha, f"`{model}`, designed", error, str(found.stopping_step), found.evaluations)


# Where it ends.

# Model, decay, prevalence; the last one has many ends near each other.
ENDS: tuple[tuple[str, Any, float], ...] = (
    ("attention", 0.15, 0.5),
    ("attention", 0.15, 0.2),
    ("attention", 0.1, 0.2),
    ("tied:2", 0.2, 0.5),
    ("tied:2", 0.2, 0.2),
    ("attention", {"q": 0.02, "w": 0.35}, 0.5),
)


@case("ends", "where joint training ends at L = 10, R = 1, θ = 5, α = 2: theory, and simulated at d = 300")
def ends(quick: bool) -> list[dict[str, Any]]:
    d, runs = (30, 2) if quick else (300, 16)
    return [timed_row(lambda: _end(*given, d, runs)) for given in (ENDS[3:4] if quick else ENDS)]  # noqa: B023


def _end(model: str, decay: Any, prevalence: float, d: int, runs: int) -> dict[str, Any]:
    task = Task(prevalence=prevalence)
    exact = theory.statics(task, model, ALPHA, decay)
    found = [simulate_end(task, model, ALPHA, decay, d, seed) for seed in range(runs)]

    def simulated(name: str) -> str:
        return with_error(*mean_and_error([getattr(run, name) for run in found]))

    def predicted(name: str) -> str:
        return with_error(getattr(exact, name), {"test_error": exact.standard_error, **exact.errors}[name])

    return {
        "model": f"`{model}`",
        "decay": ", ".join(f"{a} {rate:g}" for a, rate in decay.items()) if isinstance(decay, dict) else f"{decay:g}",
        "π": f"{prevalence:g}",
        "replicon": f"{exact.replicon:.2f}",
        "test error": predicted("test_error"),
        "simulated": simulated("test_error"),
        "best bias": predicted("best_bias_error"),
        "refitted bias": predicted("refitted_error"),
        "refitted, simulated": simulated("refitted_error"),
        "leave-one-out, simulated": simulated("leave_one_out_error"),
    }


# How far the limit is to be trusted.

CHECKED = ("attention", "pooled", "tied", "heads:2", "gated", "two_layer", "thresholded")
SIX_STEPS = 6
FIVE_TOKENS = Task(5, 1, 4.0, 0.4)


def six_steps(model: str, rate: float) -> tuple[Stage, dict[str, float]]:
    """A schedule, and a start off zero, for all directions of a model."""
    names = get_bag_model(model).directions
    stage = Stage(SIX_STEPS, 1.5, dict.fromkeys(names, rate) | {"bias": 0.5}, dict.fromkeys(names, 0.05), 0.2)
    return stage, dict.fromkeys(names, 0.4)


def z_scores(exact: Trajectory, runs: Sequence[Trajectory]) -> np.ndarray:
    """(mean of the runs - limit)/standard error of both, of all overlaps, Gram entries, losses and biases after the start."""
    mean, (rows, columns) = mean_trajectory(runs), np.triu_indices(len(exact.directions))

    def numbers(run: Trajectory, of: Callable[[str], Any]) -> np.ndarray:
        overlaps = of("overlap")
        gram = of("gram")[:, rows, columns].T
        return np.array([*(overlaps[a] for a in run.directions), *gram, of("train_loss"), of("bias")])[:, 1:]

    (seen, error), (limit, se) = (
        (numbers(run, lambda name: getattr(run, name)), numbers(run, lambda name: run.errors[name]))  # noqa: B023
        for run in (mean, exact)
    )
    return ((seen - limit) / np.hypot(error, se)).ravel()


@case("dynamics_check", "theory.trajectory against 16 simulations of six steps: root mean square of the z-scores")
def dynamics_check(quick: bool) -> list[dict[str, Any]]:
    sizes, runs = ((20, 40), 2) if quick else ((400, 800), 16)
    return [timed_row(lambda: _check(model, sizes, runs)) for model in (CHECKED[1:2] if quick else CHECKED)]  # noqa: B023


def _check(model: str, sizes: tuple[int, ...], runs: int) -> dict[str, Any]:
    stage, start = six_steps(model, 2.0 if model == "thresholded" else 1.0)
    exact = theory.trajectory(FIVE_TOKENS, model, stage, start=start)
    row: dict[str, Any] = {"model": f"`{model}`", "rates": f"{stage.rates[exact.directions[0]]:g}"}
    for d in sizes:
        found = [simulate_trajectory(FIVE_TOKENS, model, stage, d, seed, start=start) for seed in range(runs)]
        scores = z_scores(exact, found)
        row["numbers"] = scores.size
        row[f"d = {d}"] = f"{np.sqrt(np.mean(scores**2)):.2f}"
    return row


@case("unstable", "unstable training: ‖w‖² of the thresholded model at rates of 8 after six steps")
def unstable(quick: bool) -> list[dict[str, Any]]:
    sizes, bags, runs = ((20,), (64,), 2) if quick else ((400, 1600, 6400), (256, 2048, 16384), 12)
    stage, start = six_steps("thresholded", 8.0)
    rows = []
    for count in bags:
        rows.append(timed_row(lambda: _unstable_limit(stage, start, count)))  # noqa: B023
    for d in sizes:
        rows.append(timed_row(lambda: _unstable_runs(stage, start, d, runs)))  # noqa: B023
    return rows


def _unstable_limit(stage: Stage, start: dict[str, float], bags: int) -> dict[str, Any]:
    sampling = theory.Sampling(bags, 8)
    found = theory.trajectory(FIVE_TOKENS, "thresholded", stage, start=start, tested=[0], sampling=sampling)
    return {
        "what": f"theory, replicates of {bags:,} bags",
        "‖w‖²": with_error(found.gram[-1, 1, 1], found.errors["gram"][-1, 1, 1]),
    }


def _unstable_runs(stage: Stage, start: dict[str, float], d: int, runs: int) -> dict[str, Any]:
    found = [
        simulate_trajectory(FIVE_TOKENS, "thresholded", stage, d, seed, start=start, tested=[0]).gram[-1, 1, 1]
        for seed in range(runs)
    ]
    return {"what": f"simulated, d = {d:,}", "‖w‖²": with_error(*mean_and_error(found))}

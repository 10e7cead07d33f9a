"""The theory engine against the plain state evolution of `plain.py`, and the time to a first answer."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np

from sparsetoken import Task, Training, theory
from sparsetoken.laws.draws import forget_draws

from . import plain
from .measure import Row, Timing, case, children_seconds, timed, timed_command

TASK = Task(length=10, sparsity=1, strength=5.0, prevalence=0.5)
COSINE, SHARPNESS, ALPHA, RIDGE = 0.9, 1.5, 2.0, 1e-5
ACCURACY = 2.5e-4  # on the test error: asks for a standard error of 1e-4
PINNED = 14  # log2 of the plain version's Sobol points


def plain_points(log2: int, seed: int) -> plain.PlainLaw:
    return plain.attention_points(
        TASK.length, TASK.sparsity, TASK.strength, TASK.prevalence, COSINE, SHARPNESS, log2, seed
    )


def our_point(alpha: float = ALPHA, start: theory.WarmStart | None = None) -> theory.ErmResult:
    """The point from nothing: law, draws and fixed point (compiled code is what stays warm)."""
    if start is None:
        forget_draws()
    return theory.erm(
        theory.attention_law(TASK, COSINE, SHARPNESS), alpha, RIDGE, "logistic", accuracy=ACCURACY, warm_start=start
    )


def plain_spread(log2: int, start: np.ndarray, scrambles: int) -> tuple[float, Timing]:
    """Standard error of the plain test error at one scramble, from independent ones; and the time of a warm solve."""
    laws = [plain_points(log2, seed) for seed in range(1, scrambles + 1)]
    timing, solutions = timed(lambda: [plain.solve(law, ALPHA, RIDGE, start) for law in laws], 1)
    errors = [plain.test_error(x, law) for x, law in zip(solutions, laws)]
    return float(np.std(errors, ddof=1)), timing.times(1.0 / scrambles)


@case("point", "theory.erm at L=10, R=1, theta=5, pi=0.5, cosine 0.9, sharpness 1.5, alpha 2, ridge 1e-5, logistic")
def point(quick: bool) -> list[Row]:
    log2, scrambles = (8, 4) if quick else (PINNED, 8)
    our_point()  # compile
    ours, found = timed(our_point, 3 if quick else 7)
    law = plain_points(log2, 0)
    theirs, x = timed(lambda: plain.solve(law, ALPHA, RIDGE), 1)
    spread, _ = plain_spread(log2, x, scrambles)
    error = plain.test_error(x, law)
    # To first order a Sobol average errs like 1/points: the most favourable scaling the plain version could have.
    factor = spread / found.standard_error
    work, name = "theory point, warm", f"NumPy, hybr, 2^{log2} Sobol x {plain.HERMITE_NODES}"
    return [
        Row(
            work,
            ours,
            name,
            theirs,
            f"test error {found.test_error:.5f} ± {found.standard_error:.1e}; peer {error:.5f} ± {spread:.1e}",
            "0.2 s, >= 100x",
        ),
        Row(
            work,
            ours,
            "the same at equal standard error",
            theirs.times(factor),
            f"peer's time x {factor:.2f} (its error falling like 1/points)",
            ">= 100x",
        ),
    ]


@case("sweep", "50 points in alpha from 0.5 to 8 at the same law, each from its neighbour's solution")
def sweep(quick: bool) -> list[Row]:
    alphas = np.linspace(0.5, 8.0, 5 if quick else 50)
    law = theory.attention_law(TASK, COSINE, SHARPNESS)

    def ours() -> float:
        results = theory.erm_sweep(law, alphas, RIDGE, "logistic", accuracy=ACCURACY)
        return max(found.standard_error for found in results)

    ours()
    timing, worst = timed(ours, 1 if quick else 3)
    log2 = 8 if quick else 12
    points = plain_points(log2, 0)
    x = plain.solve(points, 2.0, RIDGE)
    few = (2.15, 2.30)
    warm, _ = timed(lambda: [plain.solve(points, a, RIDGE, x) for a in few], 1)
    scale = len(alphas) / len(few) * 2.0 ** (PINNED - log2)
    return [
        Row(
            f"{len(alphas)}-point sweep in alpha",
            timing,
            f"NumPy, hybr, warm starts, 2^{PINNED} Sobol",
            warm.times(scale),
            f"largest standard error {worst:.1e}; peer extrapolated from {len(few)} points at 2^{log2}",
            "3 s",
        )
    ]


_FIRST_CALL = """
from sparsetoken import Task, theory
r = theory.erm(theory.attention_law(Task(), 0.9, 1.5), 2.0, 1e-5, "logistic", accuracy=2.5e-4)
print(r.test_error, r.standard_error)
"""


@case("first", "from nothing to an answer in a fresh process, import and compilation included")
def first(quick: bool) -> list[Row]:
    repeats = 1 if quick else 3
    with tempfile.TemporaryDirectory() as folder:
        cold = {"JAX_COMPILATION_CACHE_DIR": "", "JAX_ENABLE_COMPILATION_CACHE": "0"}
        call, _ = timed_command([sys.executable, "-c", _FIRST_CALL], cold, repeats)
        command = [str(Path(sys.executable).with_name("sparsetoken")), "forecast"]
        shell_cold, _ = timed_command(command, cold, repeats)
        warm = {"JAX_COMPILATION_CACHE_DIR": folder, "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.1"}
        timed_command(command, warm, 1)  # fills the cache
        shell_warm, _ = timed_command(command, warm, repeats)
        light, _ = timed_command([command[0], "--version"], warm, repeats)
    return [
        Row("first theory.erm of a process", call, note="nothing compiled beforehand", goal="6 s"),
        Row("sparsetoken forecast, first ever", shell_cold, note="nothing compiled beforehand"),
        Row("sparsetoken forecast, from then on", shell_warm, note="compiled code kept by the command", goal="3 s"),
        Row("sparsetoken --version", light),
    ]


@case("phases", "phase diagram: test error over signal strength and alpha1")
def phases(quick: bool) -> list[Row]:
    size = 3 if quick else 40
    over = {"strength": np.linspace(0.5, 8.0, size), "alpha1": np.linspace(0.25, 8.0, size)}
    rows = []
    for models, workers in ((["attention"], 1), (["attention", "pooled"], 2)):

        def ours(models: list[str] = models, workers: int = workers) -> list[dict]:
            return theory.forecast_grid(
                TASK, Training(), models, over=over, accuracy=2e-3, with_capacity=False, workers=workers
            )

        cpu = children_seconds()
        timing, found = timed(ours, 1)
        timing = Timing(timing.wall, timing.cpu + children_seconds() - cpu)
        failures = [row["failure"] for row in found if row["failure"]]
        worst = max(row["standard_error"] for row in found if not row["failure"])
        processes = "one process" if workers == 1 else f"{workers} processes, their start included"
        note = f"{processes}; {len(found)} fixed points, standard error <= {worst:.1e}, {len(failures)} failures"
        what = f"phase diagram {size} x {size}, {' and '.join(models)}"
        rows.append(Row(what, timing, note=note, goal="60 s on 2 cores"))
    return rows


@case("capacity", "separability threshold of the attention law")
def capacity(quick: bool) -> list[Row]:
    log2 = 10 if quick else PINNED

    def ours() -> theory.Capacity:
        forget_draws()
        return theory.capacity(theory.attention_law(TASK, COSINE, SHARPNESS))

    timing, found = timed(ours, 3)

    def peer(seed: int) -> float:
        return plain.capacity(plain_points(log2, seed))

    theirs, value = timed(lambda: peer(0), 1 if quick else 3)
    spread = float(np.std([peer(seed) for seed in range(1, 5)], ddof=1))
    factor = spread / found.standard_error
    return [
        Row(
            "capacity",
            timing,
            f"NumPy, BFGS, 2^{log2} Sobol",
            theirs,
            f"alpha* {found.alpha:.4f} ± {found.standard_error:.1e}; peer {value:.4f} ± {spread:.1e}",
        ),
        Row(
            "capacity",
            timing,
            "the same at equal standard error",
            theirs.times(factor),
            f"peer's time x {factor:.2f} (its error falling like 1/points)",
        ),
    ]

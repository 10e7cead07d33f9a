"""Test error of the message-passing classifier on bags of the model, next to the limit of state evolution, and its time.

Its settings were chosen on seeds 0 to 27 of the first task's core; the seeds here are others.
"""

from __future__ import annotations

import time

import numpy as np

from sparsetoken import Bags, Task
from sparsetoken._core.workers import single_blas_thread
from sparsetoken.planning.forecast_at import message_passing_error
from sparsetoken.theory import bayes_limit

from .measure import Row, Timing, case

FIRST_SEED = 1000
RARE = Task(length=100, sparsity=2, strength=4.0, prevalence=0.3)
# Task, bags, dimensions, draws.
SETTINGS = (
    (RARE, 150, 768, 4),
    (RARE, 300, 768, 4),
    (RARE, 600, 768, 2),
    (Task(length=10, strength=5.0), 200, 200, 4),
    (Task(length=10, sparsity=3, strength=3.0), 600, 300, 4),
    (Task(length=15, strength=3.5), 100, 15, 8),
)


def model_bags(n: int, length: int, d: int, ragged: bool) -> tuple[Bags, np.ndarray]:
    """Bags of the model with one signal token of strength 4 in every second; lengths from a third to five thirds if ragged."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(length // 3, 2 * length - length // 3, n, endpoint=True) if ragged else np.full(n, length)
    signs, xi = np.where(np.arange(n) % 2, 1.0, -1.0), rng.standard_normal(d)
    bags = [rng.standard_normal((own, d)) for own in lengths]
    for bag in bags[1::2]:
        bag[0] += 4.0 * xi / np.linalg.norm(xi)
    return Bags(bags), signs


@case("message_passing", "test error of MessagePassingClassifier on bags of the model, and CPU seconds of a fit")
def message_passing(quick: bool) -> list[Row]:
    rows = []
    for task, n, d, draws in SETTINGS[-1:] if quick else SETTINGS:
        wall, cpu = time.perf_counter(), time.process_time()
        with single_blas_thread():
            found = message_passing_error(task, n, d, FIRST_SEED, draws)
        timing = Timing(time.perf_counter() - wall, time.process_time() - cpu, draws).times(1.0 / draws)
        what = f"{n} bags × {task.length} tokens × {d}, {task.sparsity} of strength {task.strength:g}"
        limit = bayes_limit(task, n / d).reachable_test_error
        note = f"error {found.loss:.4f} ± {found.standard_error:.4f}, limit {limit:.4f}"
        rows.append(Row(what, timing, note=note))
    return rows

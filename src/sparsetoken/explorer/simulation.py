"""Simulations in the background: one job a page, with progress and cancel.

A trial is the smallest unit: cancelling lets the one at work finish and starts no other. Threads are enough, since the
work is NumPy's; one trial runs at a time, so that pages stay responsive however many ask.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import Any

from ..simulation.repeats import mean_and_error, trial_seeds
from ..simulation.trial import simulate
from ..training import Training
from .state import State
from .views import MODELS, at_total

FACTORS = (0.5, 1.0, 2.0)  # of the state's samples
MOST_NUMBERS = 4e7  # entries of a readout's design matrix
_FORGOTTEN = 3600.0  # seconds after which a finished job is dropped
_one_at_a_time = threading.Lock()


@dataclass
class Job:
    """A page's simulation: `rows` grows as points are done."""

    state: State
    key: str
    total: int
    done: int = 0
    rows: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    cancelled: bool = False
    finished: bool = False
    touched: float = field(default_factory=time.monotonic)

    def snapshot(self) -> dict[str, Any]:
        """What the page shows."""
        return {
            "key": self.key,
            "done": self.done,
            "total": self.total,
            "rows": [dict(row) for row in self.rows],
            "notes": list(self.notes),
            "cancelled": self.cancelled,
            "finished": self.finished,
        }


def _cases(state: State) -> tuple[list[tuple[str, Training]], list[str]]:
    cases, notes = [], []
    total = state.training.alpha0 + state.training.alpha1
    for model in MODELS:
        for factor in FACTORS:
            training = at_total(state.training, total * factor)
            alpha = training.alpha1 + (training.alpha0 if state.equal_samples and model != "attention" else 0.0)
            width = state.d * (state.task.length if model == "vectorized" else 1)
            if alpha * state.d * width > MOST_NUMBERS:
                notes.append(
                    f"{model} at {alpha * state.d:,.0f} samples is too large to simulate here; take a smaller d"
                )
                continue
            cases.append((model, training))
    return cases, notes


class Simulations:
    """All pages' jobs."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: dict[str, Job] = {}

    def start(self, page: str, state: State, key: str) -> Job:
        """Begin a simulation for a page; the one it had is cancelled."""
        self.cancel(page)
        cases, notes = _cases(state)
        job = Job(state, key, len(cases) * state.trials, notes=notes)
        with self._lock:
            now = time.monotonic()
            self._jobs = {p: j for p, j in self._jobs.items() if not j.finished or now - j.touched < _FORGOTTEN}
            self._jobs[page] = job
        threading.Thread(target=_run, args=(job, cases), daemon=True, name="simulation").start()
        return job

    def get(self, page: str) -> Job | None:
        with self._lock:
            job = self._jobs.get(page)
        if job is not None:
            job.touched = time.monotonic()
        return job

    def cancel(self, page: str) -> None:
        with self._lock:
            job = self._jobs.get(page)
        if job is not None and not job.finished:
            job.cancelled = True


def _run(job: Job, cases: list[tuple[str, Training]]) -> None:
    state = job.state
    try:
        for model, training in cases:
            errors: list[float] = []
            for seed in trial_seeds(state.seed, state.trials):
                with _one_at_a_time:
                    if job.cancelled:
                        return
                    try:
                        found = simulate(state.task, training, state.d, seed, model, equal_samples=state.equal_samples)
                    except (ValueError, ArithmeticError) as error:
                        job.notes.append(f"{model}: {error}")
                        job.done += state.trials - len(errors)
                        break
                errors.append(found.test_error)
                job.done += 1
            else:
                mean, spread = mean_and_error(errors)
                job.rows.append({"model": model, "x": training.alpha0 + training.alpha1, "y": mean, "error": spread})
    except Exception as error:
        job.notes.append(f"the simulation failed: {error}")
        raise
    finally:
        job.finished = True

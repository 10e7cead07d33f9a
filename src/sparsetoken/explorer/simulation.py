"""Simulations in the background: one job per page, two at work; cancelling lets the trial at work finish."""

from __future__ import annotations

import traceback
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from .._core.averages import mean_and_error
from ..simulation.samplers.reduced import BLOCK_BAGS
from ..simulation.seeds import trial_seeds
from ..simulation.simulate import simulate
from ..theory.forecast import readout_alpha
from ..training import Training
from .curves import at_total
from .fields import MODELS, State
from .forecasts import REFUSALS, words_of

_AT_WORK = ThreadPoolExecutor(2, thread_name_prefix="simulation")


@dataclass
class Job:
    """A page's simulation."""

    state: State
    key: str
    total: int
    done: int = 0
    rows: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    cancelled: bool = False
    finished: bool = False

    def snapshot(self) -> dict[str, Any]:
        """What the page shows."""
        shown = {name: getattr(self, name) for name in ("key", "done", "total", "cancelled", "finished")}
        return {**shown, "d": self.state.d, "rows": list(self.rows), "notes": list(self.notes)}


class Simulations:
    """All pages' jobs."""

    def __init__(self) -> None:
        self._jobs: dict[str, Job] = {}

    def start(self, page: str, state: State, key: str) -> Job:
        """Begin a simulation for a page; the one it had is cancelled."""
        self.cancel(page)
        cases, notes = _cases(state)
        job = self._jobs[page] = Job(state, key, len(cases) * state.trials, notes=notes)
        _AT_WORK.submit(_run, job, cases)
        return job

    def get(self, page: str) -> Job | None:
        """The page's job, if it has one."""
        return self._jobs.get(page)

    def cancel(self, page: str) -> None:
        """Stop the page's job after the trial at work."""
        job = self.get(page)
        if job is not None and not job.finished:
            job.cancelled = True


def _cases(state: State) -> tuple[list[tuple[str, Training]], list[str]]:
    cases, notes = [], []
    for model, factor in product(MODELS, (0.5, 1.0, 2.0)):
        training = at_total(state.training, state.samples * factor)
        samples = readout_alpha(training, model) * state.d
        if _numbers(state, model, samples) > 4e7:  # held at once by a trial: 320 MB
            notes.append(f"{model} at {samples:,.0f} samples is too large to simulate here; take a smaller d")
        else:
            cases.append((model, training))
    return cases, notes


def _numbers(state: State, model: str, samples: float) -> float:
    """How many numbers one trial holds at once: its design matrix, or a block of samples' tokens for attention."""
    length = state.task.longest
    design = samples * state.d * (length if model == "vectorized" else 1)
    # Attention makes four arrays of a number per token of a block of samples.
    tokens = 4 * min(samples, BLOCK_BAGS) * length if model == "attention" else 0.0
    return max(design, tokens)


def _run(job: Job, cases: list[tuple[str, Training]]) -> None:
    try:
        for number, (model, training) in enumerate(cases, 1):
            try:
                _simulate(job, model, training)
            except REFUSALS as error:
                job.notes.append(f"{model}: {words_of(error)}")
            if job.cancelled:
                return
            job.done = number * job.state.trials
    except Exception as error:  # a bug: reported on the page, with the traceback on the server's terminal
        job.notes.append(f"the simulation failed: {error}")
        traceback.print_exc()
    finally:
        job.finished = True


def _simulate(job: Job, model: str, training: Training) -> None:
    state, trials = job.state, []
    for seed in trial_seeds(state.seed, state.trials):
        if job.cancelled:
            return
        trials.append(simulate(state.task, training, state.d, seed, model))
        job.done += 1
    total = training.alpha0 + training.alpha1
    unfinished = sum(not trial.converged for trial in trials)
    if unfinished:
        at = f"{model} at α = {total:.3g}"
        job.notes.append(f"{at}: {unfinished} of {len(trials)} readouts stopped short of their minimum")
    mean, spread = mean_and_error([trial.test_error for trial in trials])
    job.rows.append({"model": model, "x": total, "y": mean, "error": spread})

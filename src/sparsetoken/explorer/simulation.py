"""Simulations in the background: one job per page, with progress and cancel.

A trial is the smallest unit: cancelling lets the one at work finish and starts no other. A few threads are enough, since
the work is NumPy's: they take turns, one trial at a time, so that pages stay responsive however many ask.
"""

from __future__ import annotations

import threading
import time
import traceback
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from ..simulation.repeats import mean_and_error, trial_seeds
from ..simulation.samplers.reduced import BLOCK_SAMPLES
from ..simulation.trial import simulate
from ..training import Training
from .points import REFUSALS, words_of
from .state import State
from .views import MODELS, at_total

FACTORS = (0.5, 1.0, 2.0)  # of the state's samples
MOST_NUMBERS = 4e7  # held at once by a trial: 320 MB
TOKEN_ARRAYS = 4  # arrays of a number per token that attention makes of a block of samples
JOBS_AT_WORK, JOBS_WAITING = 4, 16  # taking turns; and behind them, before more are refused
_FORGOTTEN = 3600.0  # seconds after which a finished job is dropped
_one_at_a_time = threading.Lock()


@dataclass
class Job:
    """A page's simulation.

    Attributes
    ----------
    state : State
        What is simulated.
    key : str
        The page's own name for that state.
    total, done : int
        Trials altogether, and so far.
    rows : list of dict
        Points: grows as they are done.
    notes : list of str
        What the page should say.
    cancelled, finished : bool
        Whether it was stopped, and whether it has ended.
    touched : float
        When the page last asked for it.
    """

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
            if _numbers(state, model, alpha) > MOST_NUMBERS:
                notes.append(
                    f"{model} at {alpha * state.d:,.0f} samples is too large to simulate here; take a smaller d"
                )
                continue
            cases.append((model, training))
    return cases, notes


def _numbers(state: State, model: str, alpha: float) -> float:
    """How many numbers one trial holds at once: its design matrix, or a block of samples' tokens for attention."""
    samples, length = alpha * state.d, state.task.longest
    design = samples * state.d * (length if model == "vectorized" else 1)
    tokens = TOKEN_ARRAYS * min(samples, BLOCK_SAMPLES) * length if model == "attention" else 0.0
    return max(design, tokens)


class Simulations:
    """All pages' jobs, worked on by a bounded number of threads."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._jobs: dict[str, Job] = {}
        self._waiting: deque[tuple[Job, list[tuple[str, Training]]]] = deque()
        self._threads: list[threading.Thread] = []

    def start(self, page: str, state: State, key: str) -> Job:
        """Begin a simulation for a page; the one it had is cancelled.

        Parameters
        ----------
        page : str
            The page's identity.
        state : State
            What to simulate.
        key : str
            The page's own name for that state, handed back with the results.

        Returns
        -------
        Job
            Already finished, with a note, where too many are waiting.
        """
        self.cancel(page)
        cases, notes = _cases(state)
        job = Job(state, key, len(cases) * state.trials, notes=notes)
        with self._changed:
            now = time.monotonic()
            self._jobs = {p: j for p, j in self._jobs.items() if not j.finished or now - j.touched < _FORGOTTEN}
            self._jobs[page] = job
            if len(self._waiting) >= JOBS_WAITING:
                job.notes.append("too many simulations are waiting on this server; try again later")
                job.cancelled = job.finished = True
                return job
            self._waiting.append((job, cases))
            self._changed.notify()
            if len(self._threads) < JOBS_AT_WORK:
                thread = threading.Thread(target=self._work, daemon=True, name="simulation")
                self._threads.append(thread)
                thread.start()
        return job

    def _work(self) -> None:
        while True:
            with self._changed:
                while not self._waiting:
                    self._changed.wait()
                job, cases = self._waiting.popleft()
            _run(job, cases)

    def get(self, page: str) -> Job | None:
        """The page's job, if it has one."""
        with self._changed:
            job = self._jobs.get(page)
        if job is not None:
            job.touched = time.monotonic()
        return job

    def cancel(self, page: str) -> None:
        """Stop the page's job after the trial at work; one that waits ends at once."""
        with self._changed:
            job = self._jobs.get(page)
            if job is None or job.finished:
                return
            job.cancelled = True
            waiting = [entry for entry in self._waiting if entry[0] is job]
            for entry in waiting:
                self._waiting.remove(entry)
                job.finished = True


def _run(job: Job, cases: list[tuple[str, Training]]) -> None:
    state = job.state
    try:
        for model, training in cases:
            errors: list[float] = []
            unfinished = 0
            for seed in trial_seeds(state.seed, state.trials):
                with _one_at_a_time:
                    if job.cancelled:
                        return
                    try:
                        found = simulate(state.task, training, state.d, seed, model, equal_samples=state.equal_samples)
                    except REFUSALS as error:
                        job.notes.append(f"{model}: {words_of(error)}")
                        job.done += state.trials - len(errors)
                        break
                errors.append(found.test_error)
                unfinished += not found.converged
                job.done += 1
            else:
                if unfinished:
                    at = f"{model} at α = {training.alpha0 + training.alpha1:.3g}"
                    job.notes.append(f"{at}: {unfinished} of {len(errors)} readouts stopped short of their minimum")
                mean, spread = mean_and_error(errors)
                job.rows.append({"model": model, "x": training.alpha0 + training.alpha1, "y": mean, "error": spread})
    except Exception as error:  # the thread lives on for other jobs
        job.notes.append(f"the simulation failed: {error}")
        traceback.print_exc()
    finally:
        job.finished = True

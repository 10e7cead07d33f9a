"""Run the trials that are not in the store yet, record every outcome as it arrives, and return tidy tables."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Future, wait
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from .._core.user_code import shared_sources
from .executor import LOST, ExecutorError, TrialExecutor, run_trial
from .store import Store
from .study import Study, TrialSpec
from .tables import StudyTables, build_tables


@dataclass
class RunSummary:
    """How a run went."""

    total: int = 0
    reused: int = 0
    done: int = 0
    failed: list[TrialSpec] = field(default_factory=list)
    cpu_seconds: float = 0.0


@dataclass
class Batch:
    """Trials that are accounted for together, such as those of one study."""

    trials: list[TrialSpec]
    advance: Callable[[int], None] = lambda count: None
    summary: RunSummary = field(default_factory=RunSummary)


def run_trials(
    trials: Iterable[TrialSpec],
    store: Store,
    executor: TrialExecutor,
    advance: Callable[[int], None] = lambda count: None,
    *,
    fresh: bool = False,
) -> RunSummary:
    """Run every distinct trial that is not done in the store; earlier failures are run again.

    Parameters
    ----------
    trials : iterable of TrialSpec
        What is wanted.
    store : Store
        Takes every outcome as it comes.
    executor : TrialExecutor
        Where trials run.
    advance : callable
        Called with a number of newly settled trials (for a progress bar).
    fresh : bool
        Whether rows of the store are left aside, and replaced by new ones.
    """
    batch = Batch(list(trials), advance)
    run_batches([batch], store, executor, fresh=fresh)
    return batch.summary


def run_batches(batches: Sequence[Batch], store: Store, executor: TrialExecutor, *, fresh: bool = False) -> None:
    """Run the trials of several batches one after the other, without a pause between them; see `run_trials`.

    A trial that several batches contain is run once, for the first of them.
    """
    run = _OngoingRun(store, executor, fresh)
    finished = set() if fresh else store.finished()
    run.work(deque(trial for batch in batches for trial in run.enter(batch, finished)))


@dataclass
class _OngoingRun:
    """A run in progress. When a worker dies, the trials in flight are repeated one at a time, which identifies the one at
    fault."""

    store: Store
    executor: TrialExecutor
    fresh: bool
    wanted_by: dict[str, list[Batch]] = field(default_factory=dict)  # the first one runs the trial

    def enter(self, batch: Batch, finished: set[str]) -> list[TrialSpec]:
        """Account for a batch; the trials that must run for it."""
        distinct = {trial.key: trial for trial in batch.trials}
        missing = [trial for key, trial in distinct.items() if key not in finished]
        new = [trial for trial in missing if trial.key not in self.wanted_by]
        for trial in missing:
            self.wanted_by.setdefault(trial.key, []).append(batch)
        batch.summary.total, batch.summary.reused = len(distinct), len(distinct) - len(new)
        batch.advance(batch.summary.reused)
        return new

    def work(self, waiting: deque[TrialSpec]) -> None:
        """Run until nothing is left."""
        flying: dict[Future, TrialSpec] = {}
        while waiting or flying:
            while waiting and len(flying) < self.executor.slots:
                trial = waiting.popleft()
                flying[self._submit(trial)] = trial
            suspects = self._collect(flying, wait(flying, return_when=FIRST_COMPLETED).done)
            if suspects:
                suspects += self._collect(flying, wait(flying).done)  # a broken pool settles all its futures at once
                self._repeat(suspects)

    def _submit(self, trial: TrialSpec) -> Future:
        """Hand a trial to the executor."""
        code = trial.code if self.executor.remote else None
        sources = tuple(dict.fromkeys((*shared_sources(), *([trial.source] if trial.source else []))))
        try:
            return self.executor.submit(run_trial, trial.kind, dict(trial.arguments), sources, code)
        except BrokenExecutor as error:  # handled as if the worker had died in this trial
            failed: Future = Future()
            failed.set_exception(error)
            return failed

    def _collect(self, flying: dict[Future, TrialSpec], done: Iterable[Future]) -> list[TrialSpec]:
        """Record outcomes; the trials in which a worker process died."""
        suspects = []
        for future in done:
            trial = flying.pop(future)
            try:
                outcome = future.result()
            except BrokenExecutor:
                suspects.append(trial)
                continue
            except CancelledError as error:
                raise ExecutorError(LOST) from error
            except Exception as error:  # the trial never ran or its result could not travel: a failure of this trial
                outcome = {"result": None, "traceback": f"{type(error).__name__}: {error}"}
            self._settle(trial, outcome)
        return suspects

    def _repeat(self, suspects: Sequence[TrialSpec]) -> None:
        """Start new workers and run these trials one at a time; one that has killed its worker too often is a failed one."""
        self.executor.restart()
        deaths = 2  # so many, running alone
        for trial in suspects:
            for _ in range(deaths):
                future = self._submit(trial)
                if not self._collect({future: trial}, wait([future]).done):
                    break
                self.executor.restart()
            else:
                reason = f"the worker process died {deaths} times in this trial"
                self._settle(trial, {"result": None, "traceback": reason})

    def _settle(self, trial: TrialSpec, outcome: dict[str, Any]) -> None:
        self.store.record(trial, outcome, replace=self.fresh)
        first, *others = self.wanted_by[trial.key]
        first.summary.cpu_seconds += outcome.get("cpu_seconds") or 0.0
        first.summary.done += outcome["traceback"] is None
        if outcome["traceback"] is not None:
            for batch in (first, *others):
                batch.summary.failed.append(trial)
            for batch in others:
                batch.summary.reused -= 1
        first.advance(1)


def run_study(
    study: Study,
    store: Store,
    executor: TrialExecutor,
    size: str = "quick",
    advance: Callable[[int], None] = lambda count: None,
    *,
    fresh: bool = False,
) -> tuple[StudyTables, RunSummary]:
    """Run a study's missing trials and build its tables: by name, with how the run went.

    Parameters
    ----------
    study : Study
        What is wanted.
    store, executor
        As for `run_trials`.
    size : str
        "quick" or "full".
    advance, fresh
        As for `run_trials`.
    """
    tables = study.trials(size)
    store.enrol(study.name, tables)
    summary = run_trials(chain(*tables.values()), store, executor, advance, fresh=fresh)
    return build_tables(tables, store), summary

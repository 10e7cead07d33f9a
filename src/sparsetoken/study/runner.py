"""Run the trials that are not in the store yet, record every outcome as it arrives, and return tidy tables."""

from __future__ import annotations

from collections import Counter, deque
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

SOLO_DEATHS = 2  # a trial that kills its worker this often, running alone, is recorded as failed


@dataclass
class RunSummary:
    """How a run went."""

    total: int = 0
    reused: int = 0
    done: int = 0
    failed: list[TrialSpec] = field(default_factory=list)
    worker_deaths: int = 0
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

    Returns
    -------
    RunSummary
        How it went.
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
    queues = [run.enter(batch, finished) for batch in batches]
    run.work(deque(scouts_ahead(queues)))


@dataclass
class _OngoingRun:
    """A run in progress. When a worker dies, the trials in flight are repeated one at a time, which identifies the one at
    fault."""

    store: Store
    executor: TrialExecutor
    fresh: bool
    wanted_by: dict[str, list[Batch]] = field(default_factory=dict)  # the first one runs the trial
    flying: dict[Future, TrialSpec] = field(default_factory=dict)
    suspects: deque[TrialSpec] = field(default_factory=deque)
    solo_deaths: Counter[str] = field(default_factory=Counter)

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
        while waiting or self.suspects or self.flying:
            alone = bool(self.suspects) and not self.flying
            healthy = self._submit(self.suspects.popleft()) if alone else True
            while healthy and waiting and not alone and not self.suspects and len(self.flying) < self.executor.slots:
                healthy = self._submit(waiting.popleft())
            if self.flying:
                done = wait(self.flying, return_when=FIRST_COMPLETED).done
                healthy = self._collect(done, alone) and healthy
            if not healthy:
                self._recover()

    def _submit(self, trial: TrialSpec) -> bool:
        """Hand a trial to the executor; False where its workers are gone."""
        try:
            code = trial.code if self.executor.remote else None
            sources = tuple(dict.fromkeys((*shared_sources(), *([trial.source] if trial.source else []))))
            self.flying[self.executor.submit(run_trial, trial.kind, dict(trial.arguments), sources, code)] = trial
        except BrokenExecutor:
            self.suspects.append(trial)
            return False
        return True

    def _collect(self, futures: Iterable[Future], alone: bool = False) -> bool:
        """Record outcomes; False where a worker process died in one of these trials."""
        healthy = True
        for future in futures:
            trial = self.flying.pop(future)
            try:
                outcome = future.result()
            except BrokenExecutor:
                healthy = False
                self.suspects.append(trial)
                self.solo_deaths[trial.key] += alone
                continue
            except CancelledError as error:
                raise ExecutorError(LOST) from error
            except Exception as error:  # the trial never ran or its result could not travel: a failure of this trial
                outcome = {"result": None, "traceback": f"{type(error).__name__}: {error}"}
            self._settle(trial, outcome)
        return healthy

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

    def _recover(self) -> None:
        """Start new workers; a trial that has killed its worker too often is a failed one."""
        self._collect(wait(self.flying).done)  # a broken pool settles all its futures at once
        self.wanted_by[self.suspects[-1].key][0].summary.worker_deaths += 1
        for trial in [t for t in self.suspects if self.solo_deaths[t.key] >= SOLO_DEATHS]:
            self.suspects.remove(trial)
            reason = f"the worker process died {SOLO_DEATHS} times in this trial"
            self._settle(trial, {"result": None, "traceback": reason})
        self.executor.restart()


def run_study(
    study: Study,
    store: Store,
    executor: TrialExecutor,
    size: str = "quick",
    advance: Callable[[int], None] = lambda count: None,
    *,
    fresh: bool = False,
) -> tuple[StudyTables, RunSummary]:
    """Run a study's missing trials and build its tables.

    Parameters
    ----------
    study : Study
        What is wanted.
    store : Store
        Takes every outcome as it comes.
    executor : TrialExecutor
        Where trials run.
    size : str
        "quick" or "full".
    advance : callable
        Called with a number of newly settled trials (for a progress bar).
    fresh : bool
        Whether rows of the store are left aside, and replaced by new ones.

    Returns
    -------
    tuple of dict and RunSummary
        Tables by name, and how the run went.
    """
    tables = study.trials(size)
    store.enrol(study.name, tables)
    summary = run_trials(chain(*tables.values()), store, executor, advance, fresh=fresh)
    return build_tables(tables, store), summary


def scouts_ahead(queues: Iterable[Sequence[TrialSpec]]) -> list[TrialSpec]:
    """All trials in the order to run them: batch after batch, but each batch's scouts before the rest of the batch before it.

    A scout is the first trial of its kind, texts and whole numbers, which decide what is compiled. By the time the others run,
    the program that a worker has compiled for it is shared with the other workers.
    """
    seen: set[tuple[Any, ...]] = set()
    ordered: list[TrialSpec] = []
    rest: list[TrialSpec] = []
    for trials in queues:
        scouts: list[TrialSpec] = []
        others: list[TrialSpec] = []
        for trial in trials:
            shape = (
                (name, value)
                for name, value in trial.arguments.items()
                if name != "seed" and isinstance(value, str | int)
            )
            program = (trial.kind, *shape)
            (others if program in seen else scouts).append(trial)
            seen.add(program)
        ordered += [*scouts, *rest]
        rest = others
    return ordered + rest

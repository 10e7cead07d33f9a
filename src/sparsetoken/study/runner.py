"""Run what is not in the store yet, record every outcome as it comes, and hand back tidy tables."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Future, wait
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

from .._core.user_code import shared_sources
from .executor import LOST, ExecutorError, TrialExecutor
from .specification import Study, Trial
from .store import Store
from .tables import StudyTables, build_tables
from .worker import run_trial

SOLO_DEATHS = 2  # a trial that kills its worker this often, running alone, is recorded as failed


@dataclass
class RunSummary:
    """How a run went.

    Attributes
    ----------
    total : int
        Distinct trials.
    reused : int
        Of these, found in the store.
    done : int
        Newly computed.
    failed : list of Trial
        Those that failed.
    worker_deaths : int
        How often a worker process died.
    cpu_seconds : float
        Spent in this run.
    """

    total: int = 0
    reused: int = 0
    done: int = 0
    failed: list[Trial] = field(default_factory=list)
    worker_deaths: int = 0
    cpu_seconds: float = 0.0


@dataclass
class Batch:
    """Trials that are accounted for together, such as those of one study.

    Attributes
    ----------
    trials : list of Trial
        What is wanted.
    advance : callable
        Called with a number of newly settled trials (for a progress bar).
    summary : RunSummary
        How it went.
    """

    trials: list[Trial]
    advance: Callable[[int], None] = lambda count: None
    summary: RunSummary = field(default_factory=RunSummary)


def run_trials(
    trials: Iterable[Trial],
    store: Store,
    executor: TrialExecutor,
    advance: Callable[[int], None] = lambda count: None,
    *,
    fresh: bool = False,
) -> RunSummary:
    """Run every distinct trial that the store does not hold as done; earlier failures are tried again.

    Parameters
    ----------
    trials : iterable of Trial
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

    A trial that several batches want is run for the first of them, and found by the others.

    Parameters
    ----------
    batches : sequence of Batch
        Their summaries are filled in.
    store : Store
        Takes every outcome as it comes.
    executor : TrialExecutor
        Where trials run.
    fresh : bool
        Whether rows of the store are left aside, and replaced by new ones.
    """
    finished = set() if fresh else store.finished()
    queues: list[list[Trial]] = []
    wanted_by: dict[str, list[Batch]] = {}  # the first one runs the trial
    for batch in batches:
        distinct = {trial.key: trial for trial in batch.trials}
        missing = [trial for key, trial in distinct.items() if key not in finished]
        new = [trial for trial in missing if trial.key not in wanted_by]
        for trial in missing:
            wanted_by.setdefault(trial.key, []).append(batch)
        queues.append(new)
        batch.summary.total, batch.summary.reused = len(distinct), len(distinct) - len(new)
        batch.advance(batch.summary.reused)
    waiting = deque(scouts_ahead(queues))
    flying: dict[Future, Trial] = {}
    suspects: deque[Trial] = deque()  # in flight when a worker died: repeated one at a time, which finds the culprit
    solo_deaths: Counter[str] = Counter()

    def settle(trial: Trial, outcome: dict[str, Any]) -> None:
        store.record(trial, outcome, replace=fresh)
        first, *others = wanted_by[trial.key]
        first.summary.cpu_seconds += outcome.get("cpu_seconds") or 0.0
        first.summary.done += outcome["traceback"] is None
        if outcome["traceback"] is not None:
            for batch in (first, *others):
                batch.summary.failed.append(trial)
            for batch in others:
                batch.summary.reused -= 1
        first.advance(1)

    def collect(future: Future, trial: Trial) -> bool:
        """Record a future's outcome; False when its worker process died."""
        try:
            outcome = future.result()
        except BrokenExecutor:
            return False
        except CancelledError as error:
            raise ExecutorError(LOST) from error
        except Exception as error:  # the trial never ran or its result could not travel: a failure of this trial
            outcome = {"result": None, "traceback": f"{type(error).__name__}: {error}"}
        settle(trial, outcome)
        return True

    def submit(trial: Trial) -> bool:
        try:
            code = trial.code if executor.remote else None
            own = tuple(dict.fromkeys((*shared_sources(), *([trial.source] if trial.source else []))))
            flying[executor.submit(run_trial, trial.kind, dict(trial.arguments), own, code)] = trial
        except BrokenExecutor:
            suspects.append(trial)
            return False
        return True

    while waiting or suspects or flying:
        healthy, alone = True, False
        if suspects:
            if not flying:
                healthy, alone = submit(suspects.popleft()), True
        else:
            while healthy and waiting and len(flying) < executor.slots:
                healthy = submit(waiting.popleft())
        if flying:
            for future in wait(flying, return_when=FIRST_COMPLETED).done:
                trial = flying.pop(future)
                if not collect(future, trial):
                    healthy = False
                    suspects.append(trial)
                    if alone:
                        solo_deaths[trial.key] += 1
        if healthy:
            continue
        for future in wait(flying).done:  # a broken pool settles all its futures at once
            trial = flying.pop(future)
            if not collect(future, trial):
                suspects.append(trial)
        wanted_by[suspects[-1].key][0].summary.worker_deaths += 1
        for trial in [t for t in suspects if solo_deaths[t.key] >= SOLO_DEATHS]:
            suspects.remove(trial)
            settle(trial, {"result": None, "traceback": f"the worker process died {SOLO_DEATHS} times in this trial"})
        executor.restart()


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
    summary = run_trials(in_turn(tables), store, executor, advance, fresh=fresh)
    return build_tables(tables, store), summary


def scouts_ahead(queues: Iterable[Sequence[Trial]]) -> list[Trial]:
    """All trials in the order to run them: batch after batch, but each batch's scouts before the rest of the batch before it.

    A scout is the first trial that needs some compiled program, as far as its kind, texts and whole numbers tell. By the time
    the others come, what one worker has compiled for it lies where the other workers find it.
    """
    seen: set[tuple[Any, ...]] = set()
    ordered: list[Trial] = []
    rest: list[Trial] = []
    for trials in queues:
        scouts: list[Trial] = []
        others: list[Trial] = []
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


def in_turn(tables: Mapping[str, Sequence[Trial]]) -> list[Trial]:
    """The trials of all tables, one of each in turn.

    Trials of one table mostly need the same compiled program. This way workers do not begin by compiling the same one.
    """
    rows = zip_longest(*tables.values())
    return [trial for row in rows for trial in row if trial is not None]

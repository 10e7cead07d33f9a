"""Run studies without a pause between them, judge their claims and write the report."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor
from contextlib import suppress
from pathlib import Path

from .._core.workers import Advance, progress
from ..study.claims import attempt, ledger, made_from
from ..study.executor import TrialExecutor, get_ready
from ..study.runner import Batch, in_turn, run_batches
from ..study.store import Store
from ..study.study import Study
from ..study.tables import build_tables
from .report import StudyOutcome, write_report


def run_studies(
    studies: Sequence[Study],
    store: Store,
    executor: TrialExecutor,
    size: str = "quick",
    show: bool | None = None,
    fresh: bool = False,
) -> list[StudyOutcome]:
    """Run every study and judge its claims."""
    _start_workers(executor)
    with progress(show) as add:
        wanted = [study.trials(size) for study in studies]
        batches = []
        for study, trials in zip(studies, wanted):
            store.enrol(study.name, trials)
            ordered = in_turn(trials)
            many = len({trial.key for trial in ordered})
            batches.append(Batch(ordered, _bar(add, study.name, many, told=len(studies) > 1)))
        run_batches(batches, store, executor, fresh=fresh)
    outcomes = []
    for study, trials, batch in zip(studies, wanted, batches):
        tables = build_tables(trials, store)
        panels, bad_figure = attempt(f"figure of study {study.name!r}", made_from, study.draw, tables)
        found, bad_words = attempt(f"findings of study {study.name!r}", made_from, study.findings, tables)
        short, bad_headline = attempt(f"headline of study {study.name!r}", made_from, study.headline, tables)
        judged = ledger(study.name, study.claims, tables)
        problems = [problem for problem in (bad_figure, bad_words, bad_headline) if problem]
        outcomes.append(StudyOutcome(study, tables, panels or [], found, judged, batch.summary, problems, short))
    return outcomes


def _start_workers(executor: TrialExecutor) -> None:
    """Let worker processes on this machine start and import while this one works out what there is to do."""
    if not executor.remote and executor.slots > 1:
        with suppress(BrokenExecutor):  # found out, and mended, where trials are run
            for _ in range(executor.slots - 1):
                executor.submit(get_ready)


def _bar(add: Callable[[str, int], Advance], name: str, total: int, told: bool) -> Advance:
    """A progress bar that appears when there is something to tell; where there is no terminal, a line at its end."""
    bar: list[Advance] = []
    done = 0

    def advance(count: int) -> None:
        nonlocal done
        if count and not bar:
            bar.append(add(name, total))
        if bar:
            bar[0](count)
        done += count
        if told and count and done == total and not sys.stderr.isatty():
            print(f"{name}: {total} trials", file=sys.stderr, flush=True)

    return advance


def reproduce(
    studies: Sequence[Study],
    store: Store,
    executor: TrialExecutor,
    folder: Path,
    size: str = "quick",
    title: str = "Single-layer attention on sparse tokens: the paper, executable",
    show: bool | None = None,
    fresh: bool = False,
    width: float | None = None,
) -> tuple[list[StudyOutcome], Path]:
    """Run studies (see `run_studies`), then write the report, with figures of that width in inches."""
    outcomes = run_studies(studies, store, executor, size, show, fresh)
    return outcomes, write_report(outcomes, folder, size, title, executor, width)

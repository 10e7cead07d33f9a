"""Run studies without a pause between them, judge their claims, and write the report: one page that needs no network."""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor, Future
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from itertools import chain
from pathlib import Path
from typing import Any

from .. import __version__
from .._core.files import write_bytes
from .._core.workers import Advance, progress
from ..plotting.matplotlib_panels import save_figure
from ..plotting.panels import Panel
from ..plotting.plotly_panels import plotly_panel
from ..study.claims import LedgerRow, attempt, ledger, ledger_table, made_from
from ..study.executor import TrialExecutor
from ..study.runner import Batch, RunSummary, run_batches
from ..study.store import Store
from ..study.study import Study
from ..study.tables import StudyTables, build_tables, write_table


@dataclass
class StudyOutcome:
    """A study that has been run."""

    study: Study
    tables: StudyTables
    panels: Sequence[Panel]
    found: str | None
    ledger: Sequence[LedgerRow]
    summary: RunSummary
    problems: list[str]


def run_studies(
    studies: Sequence[Study],
    store: Store,
    executor: TrialExecutor,
    size: str = "quick",
    show: bool | None = None,
    fresh: bool = False,
) -> list[StudyOutcome]:
    """Run every study and judge its claims."""
    with progress(show) as add:
        wanted = [study.trials(size) for study in studies]
        batches = []
        for study, trials in zip(studies, wanted):
            store.enrol(study.name, trials)
            ordered = list(chain(*trials.values()))
            many = len({trial.key for trial in ordered})
            batches.append(Batch(ordered, _bar(add, study.name, many, announced=len(studies) > 1)))
        run_batches(batches, store, executor, fresh=fresh)
    outcomes = []
    for study, trials, batch in zip(studies, wanted, batches):
        tables = build_tables(trials, store)
        panels, bad_figure = attempt(f"figure of study {study.name!r}", made_from, study.draw, tables)
        found, bad_words = attempt(f"findings of study {study.name!r}", made_from, study.findings, tables)
        judged = ledger(study.name, study.claims, tables)
        problems = [problem for problem in (bad_figure, bad_words) if problem]
        outcomes.append(StudyOutcome(study, tables, panels or [], found, judged, batch.summary, problems))
    return outcomes


def _bar(add: Callable[[str, int], Advance], name: str, total: int, announced: bool) -> Advance:
    """A progress bar that appears with the first progress; without a terminal, a line at its end."""
    bar: list[Advance] = []
    done = 0

    def advance(count: int) -> None:
        nonlocal done
        if count and not bar:
            bar.append(add(name, total))
        if bar:
            bar[0](count)
        done += count
        if announced and count and done == total and not sys.stderr.isatty():
            print(f"{name}: {total} trials", file=sys.stderr, flush=True)

    return advance


def environment() -> dict[str, str]:
    """What the numbers were computed with."""
    facts = {"sparsetoken": __version__, "Python": platform.python_version(), "machine": platform.platform()}
    for package in ("numpy", "scipy", "jax", "scikit-learn", "pandas"):
        try:
            facts[package] = version(package)
        except PackageNotFoundError:
            facts[package] = "not installed"
    return facts


def write_report(
    outcomes: Sequence[StudyOutcome],
    folder: Path,
    size: str,
    title: str,
    executor: TrialExecutor | None = None,
    width: float | None = None,
) -> Path:
    """Write report.html, figures (of that width in inches), tables and ledger; what cannot be drawn is a problem."""
    from .page import report_page

    drawn: dict[str, list[dict[str, Any]]] = {}
    pictures: dict[str, Future] = {}
    if executor is not None and not executor.remote:
        with suppress(BrokenExecutor):  # this process then draws them
            for outcome in outcomes:
                stem = folder / "figures" / outcome.study.name
                if outcome.panels:
                    pictures[outcome.study.name] = executor.submit(save_figure, outcome.panels, stem, width)
    for outcome in outcomes:
        if outcome.panels:
            name = outcome.study.name
            arguments = (outcome.panels, folder / "figures" / name, width, pictures.get(name))
            drawn[name], problem = attempt(f"figure of study {name!r}", _draw_twice, *arguments)
            if problem:
                outcome.problems.append(problem)
        for name, table in outcome.tables.items():
            write_table(table, folder / "tables" / f"{outcome.study.name}-{name}.csv")
    rows = [row for outcome in outcomes for row in outcome.ledger]
    if rows:
        write_table(ledger_table(rows), folder / "ledger.csv")
    page = folder / "report.html"
    write_bytes(page, report_page(outcomes, drawn, rows, size, title).encode(), make_folder=True)
    return page


def _draw_twice(
    panels: Sequence[Panel], stem: Path, width: float | None, picture: Future | None
) -> list[dict[str, Any]]:
    """Write the pictures, unless another process does; returns the figures for the page."""
    figures = [plotly_panel(panel) for panel in panels]
    if picture is None or picture.exception() is not None:  # its errors are raised here
        save_figure(panels, stem, width)
    return figures

"""The report: one HTML file that needs no network, with figures (PNG, PDF), tables and ledger (CSV) beside it."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from concurrent.futures import BrokenExecutor, Future
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from .. import __version__
from .._core.files import write_bytes
from ..plotting.matplotlib_panels import save_figure
from ..plotting.panels import Panel
from ..plotting.plotly_panels import plotly_panel
from ..study.claims import LedgerRow, attempt, ledger_table
from ..study.executor import TrialExecutor
from ..study.runner import RunSummary
from ..study.study import Study
from ..study.tables import StudyTables, write_table


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
    headline: str | None = None


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
    """Write report.html, figures (of that width in inches), tables and ledger.

    A figure that cannot be drawn becomes a problem of its study, and the report goes without it.
    """
    from .page import report_page

    drawn: dict[str, list[dict[str, Any]]] = {}
    pictures: dict[str, Future] = {}
    if executor is not None and not executor.remote:
        with suppress(BrokenExecutor):  # this process draws them then
            for outcome in outcomes:
                stem = folder / "figures" / outcome.study.name
                if outcome.panels:
                    pictures[outcome.study.name] = executor.submit(save_figure, outcome.panels, stem, width)
    for outcome in outcomes:
        if outcome.panels:
            stem, words = folder / "figures" / outcome.study.name, f"figure of study {outcome.study.name!r}"
            picture = pictures.get(outcome.study.name)
            drawn[outcome.study.name], problem = attempt(words, _draw_twice, outcome.panels, stem, width, picture)
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
    if picture is None or picture.exception() is not None:  # what went wrong there is found out here
        save_figure(panels, stem, width)
    return figures

"""Run studies one after the other, judge their claims and write the report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from .._core.progress import progress
from ..study.claims import ledger, made_from
from ..study.executor import TrialExecutor
from ..study.runner import run_study
from ..study.specification import Study
from ..study.store import Store
from .report import StudyOutcome, write_report


def run_studies(
    studies: Sequence[Study], store: Store, executor: TrialExecutor, size: str = "quick", show: bool | None = None
) -> list[StudyOutcome]:
    """Run every study (what the store holds is reused) and judge its claims.

    show  progress bars: True, False, or None for "when standard error is a terminal"
    """
    outcomes = []
    with progress(show) as add:
        for study in studies:
            distinct = {trial.key for trials in study.trials(size).values() for trial in trials}
            tables, summary = run_study(study, store, executor, size, add(study.name, len(distinct)))
            panels = made_from(study.draw, tables) or []
            outcomes.append(StudyOutcome(study, tables, panels, ledger(study.name, study.claims, tables), summary))
    return outcomes


def reproduce(
    studies: Sequence[Study],
    store: Store,
    executor: TrialExecutor,
    folder: Path,
    size: str = "quick",
    title: str = "Sparse-token classification with single-layer attention: every figure, every claim",
    show: bool | None = None,
) -> tuple[list[StudyOutcome], Path]:
    """`run_studies`, then the report under `folder`; returns the outcomes and the page's path."""
    outcomes = run_studies(studies, store, executor, size, show)
    return outcomes, write_report(outcomes, folder, size, title)

"""`reproduce` and `run`: the executable paper, and users' studies."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from .._core.files import check_writable
from .._core.imports import require
from .options import MODULES, STORE, STUDIES, Options, command, option, rare
from .printing import echo, echo_list, echo_text, page_width

if TYPE_CHECKING:
    from ..paper.reproduce import StudyOutcome
    from ..study.claims import LedgerRow
    from ..study.study import Study


@dataclass(frozen=True)
class RunOptions(Options):
    """Where studies run, and where their results go."""

    seed: int = option(0, "Other random numbers for all trials: an independent repetition.", min=0)
    fresh: bool = option(False, "Compute everything again; rows in the store are replaced.")
    workers: int | None = option(None, "Local processes [number of cores]; 1 runs in this process.", "-w")
    store: Path | None = STORE
    report: Path | None = option(
        None, "Folder for report, figures and tables [beside the store, one for each selection]."
    )
    verbose: bool = option(False, "Print every claim with its source, criterion and numbers.", "-v")
    width: float | None = rare(None, "Width of the PNG and PDF figures in inches, as of a LaTeX column.")
    executor: str = rare("local", "local or dask.")
    scheduler: str | None = rare(None, "Dask scheduler, such as tcp://127.0.0.1:8786.")
    modules: list[Path] = MODULES


@command(STUDIES)
def reproduce(
    *,
    names: list[str] = typer.Argument(None, help="Studies to run [all]; `sparsetoken studies` lists them."),
    full: bool = option(False, "The published sizes instead of the quick ones."),
    options: RunOptions,
    extra: list[Path] = option([], "A study file of your own, whose claims join the ledger; repeatable.", "--with"),
) -> int:
    """Run the paper's studies, judge its claims and write the report. Run again to resume; finished trials are kept.

    It prints the number of verdicts of each kind and a line for each claim that is not confirmed.

    The exit code is 1 where a claim's verdict differs from the recorded one, a trial failed, or a study has an error.

    Example: sparsetoken reproduce capacity --workers 2
    """
    from ..paper.catalogue import get_studies

    title = "Single-layer attention on sparse tokens: the paper, executable"
    listed = get_studies(names or None)
    joined = _joining(extra, listed)
    chosen = [study.reseeded(options.seed) for study in (*listed, *joined)]
    selection = [*(["full"] if full else []), *(s.name for s in listed if names), *(f"with-{s.name}" for s in joined)]
    size = "full" if full else "quick"
    return _run(chosen, size, title, selection, options)


@command(STUDIES)
def run(
    *,
    file: Path = typer.Argument(..., help="A study in TOML (data only) or Python (your own code, executed)."),
    options: RunOptions,
) -> int:
    """Run a study of your own: trials, tables, figures, claims and report.

    Example: sparsetoken run mine.toml
    """
    from ..study.study_files import load_studies

    studies = [study.reseeded(options.seed) for study in load_studies(file)]
    title = studies[0].title if len(studies) == 1 else file.stem
    return _run(studies, "quick", title, [file.stem], options)


def _joining(files: list[Path], listed: list[Study]) -> list[Study]:
    """The studies of a user's files; no two of the run may have one name."""
    from ..study.study_files import load_studies

    taken = {study.name for study in listed}
    joined = []
    for file in files:
        for study in load_studies(file):
            if study.name in taken:
                raise ValueError(f"study file {file}: name {study.name!r} is taken by another study of this run")
            taken.add(study.name)
            joined.append(study)
    return joined


def _run(chosen: list[Study], size: str, title: str, selection: list[str], options: RunOptions) -> int:
    """Run and report: to `report`, else beside the store, where each selection but the default has a folder named after it."""
    from ..paper.reproduce import run_studies, write_report
    from ..study.executor import open_executor
    from ..study.store import DEFAULT_STORE, Store

    require("report")  # before hours of trials, not after them
    path, seed = options.store or DEFAULT_STORE, options.seed
    folder = options.report or path.parent / "-".join([*selection, *([f"seed{seed}"] if seed else [])])
    for study in chosen:  # a misspelt name anywhere stops the run before it starts
        study.trials(size)
    check_writable(folder / "report.html", make_folder=True)
    with Store(path) as opened, open_executor(options.executor, options.workers, options.scheduler) as pool:
        outcomes = run_studies(chosen, opened, pool, size, fresh=options.fresh)
        page = write_report(outcomes, folder, size, title, pool, options.width)
    return _conclude(outcomes, page, path, options.verbose)


def _conclude(outcomes: list[StudyOutcome], page: Path, store: Path, verbose: bool) -> int:
    """Print the findings, the paper's results, the verdicts, the failures and the report's path; the exit code."""
    from ..paper.page import first_sentences
    from ..paper.stated_results import paper_lines

    rows = [row for outcome in outcomes for row in outcome.ledger]
    for outcome in outcomes if len(outcomes) <= 3 else ():  # of more, the report has them
        if outcome.found:
            echo_text(first_sentences(outcome.found))
    if rows:
        echo_list(dict(paper_lines(rows)))
        if verbose:
            _print_ledger(rows)
        _print_verdicts(rows, verbose)
    total, reused = (sum(getattr(o.summary, name) for o in outcomes) for name in ("total", "reused"))
    failed = [trial for o in outcomes for trial in o.summary.failed]
    seconds = sum(o.summary.cpu_seconds for o in outcomes)
    echo(f"{total} trial{'s' if total != 1 else ''}, {reused} of them from {store}; {seconds:.0f} CPU seconds spent")
    echo(f"report: {page}")
    problems = [
        *(problem for outcome in outcomes for problem in outcome.problems),
        *(row.problem for row in rows if row.problem),
    ]
    if failed:
        again = f"sparsetoken results --failed --store {store}"
        problems.append(f"{len(failed)} trial{'s' if len(failed) > 1 else ''} failed; tracebacks: {again}")
    for row in rows:
        if not row.as_recorded and not row.problem:
            problems.append(f"claim {row.claim.id}: {row.judgement.verdict}, recorded as {row.claim.expected}")
    for problem in problems:
        echo(problem, err=True)
    return 1 if problems else 0


def _print_verdicts(rows: list[LedgerRow], verbose: bool) -> None:
    """How many claims have which verdict, and a line for each that is not confirmed, cut to the terminal's width."""
    from ..paper.stated_results import counted
    from ..study.claims import SOURCES

    deviating = sum(not row.as_recorded for row in rows)
    record = f"{deviating} not as recorded" if deviating else "all as recorded"
    echo(f"{len(rows)} claim{'s' if len(rows) > 1 else ''}: {counted(rows)}; {record}")
    apart = {heading: [row for row in rows if row.claim.source == source] for source, heading in SOURCES.items()}
    for heading, mine in apart.items():
        if 0 < len(mine) < len(rows):
            echo(f"  {heading}: {counted(mine)}")
    unconfirmed = [row for row in rows if row.judgement.verdict != "confirmed" or not row.as_recorded]
    width = page_width()
    for row in sorted(unconfirmed, key=lambda row: row.as_recorded):  # what deviates comes first
        recorded = " as recorded" if row.as_recorded else f", recorded {row.claim.expected}"
        line = f"{row.judgement.verdict}{recorded}  {row.claim.id}: {_finding(row)}"
        echo(line if width is None or len(line) <= width else line[: width - 1] + "…")
    if not verbose:
        echo("every claim with its criterion and numbers: --verbose, or the report")


def _finding(row: LedgerRow) -> str:
    """The finding in a line: the reason of an undecided claim, else measurement, prediction and statement."""
    judged = row.judgement
    numbers = f"measured {judged.measured}, predicted {judged.predicted}"
    if judged.verdict == "undecided":
        missing = judged.measured == judged.predicted == "-"
        reason = judged.note or "the errors are too large to tell"
        return " ".join((row.problem or (reason if missing else f"{numbers}; {reason}")).split())
    return " ".join(f"{row.claim.statement} ({numbers})".split())


def _print_ledger(rows: list[LedgerRow]) -> None:
    for row in rows:
        claim, judged = row.claim, row.judgement
        recorded = "" if row.as_recorded else f" (recorded: {claim.expected})"
        echo_text(f"{judged.verdict}{recorded}: {claim.statement}", 4)
        echo_text(f"    {claim.id}: {claim.cited}; {claim.rule}; tested at {row.tested or '-'}")
        note = f"; {judged.note}" if judged.verdict == "undecided" and judged.note else ""
        echo_text(f"    predicted {judged.predicted}, measured {judged.measured}{note}")

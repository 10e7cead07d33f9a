"""`reproduce`, `studies`, `run`, `results`: the executable paper and users' studies."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from .._core.files import check_writable
from .._core.imports import require
from ..task import Task
from ..training import Training
from .console import echo, echo_list, echo_text, page_width, print_table
from .options import MODULES, STUDIES, Options, command, option, rare

if TYPE_CHECKING:
    from ..paper.reproduce import StudyOutcome
    from ..study.claims import LedgerRow
    from ..study.store import Row
    from ..study.study import Study

SHARED = ("task", "training", "tokens", "deployment")  # described once for all kinds
_STORE = option(None, "SQLite file of finished trials [sparsetoken-results/store.sqlite].")


@dataclass(frozen=True)
class RunOptions(Options):
    """Where studies run, and where their results go."""

    seed: int = option(0, "Other random numbers for all trials: an independent repetition.", min=0)
    fresh: bool = option(False, "Compute everything again; rows in the store are replaced.")
    workers: int | None = option(None, "Local processes [number of cores]; 1 runs in this process.", "-w")
    store: Path | None = _STORE
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


@command(STUDIES)
def studies(
    json_output: bool = option(False, "As JSON.", "--json"),
    kinds: bool = option(False, "List the kinds of trial instead: what they take, and the columns they give."),
    paper: bool = option(False, "List the paper's results instead, with their recorded verdicts."),
    modules: list[Path] = MODULES,
) -> None:
    """List the paper's studies with their sizes and running times (CPU seconds, shared by the workers).

    Example: sparsetoken studies --paper
    """
    from ..paper.catalogue import get_studies
    from ..study.study import SIZES

    if kinds:
        _print_kinds(json_output)
        return
    if paper:
        from ..paper.stated_results import paper_lines, recorded_rows

        echo_list(dict(paper_lines(recorded_rows())))
        return
    rows = []
    for study in get_studies():
        row: dict[str, Any] = {"study": study.name, "title": study.title, "claims": len(study.claims)}
        for size in SIZES:
            if json_output:  # the table has no room for them, and they take seconds to count
                row[f"{size} trials"] = len({t.specification for part in study.trials(size).values() for t in part})
            row[f"{size} CPU s"] = study.cost.get(size)
        rows.append(row)
    if json_output:
        echo(json.dumps(rows, indent=1))
        return
    times = {row["study"]: ", ".join(f"{size} {_duration(row[f'{size} CPU s'])}" for size in SIZES) for row in rows}
    echo_list({row["study"]: f"{row['title']} ({row['claims']} claims; {times[row['study']]})" for row in rows})
    echo("quick, full: CPU time of the two sizes, shared by the workers")
    echo("--json has the numbers of trials, too")


def _print_kinds(json_output: bool) -> None:
    """The kinds of trial with their arguments (fields of task and training listed once) and columns."""
    from dataclasses import fields

    from ..study.kind_registry import all_kinds

    flat = {"task": [f.name for f in fields(Task)], "training": [f.name for f in fields(Training)]}
    rows: dict[str, dict[str, Any]] = {}
    for name, kind in all_kinds().items():
        summary = " ".join((kind.function.__doc__ or "").split("\n\n")[0].split())
        fields_of_part = {
            part: [f.name for f in fields(group)] for part, group in kind.groups.items() if part not in SHARED
        }
        taken = [name for part in kind.parameters for name in fields_of_part.get(part, [part]) if name != "seed"]
        rows[name] = {"does": summary, "random": kind.random, "arguments": taken, "columns": dict(kind.columns or {})}
    if json_output:
        echo(json.dumps({"fields": flat, "kinds": rows}, indent=1, ensure_ascii=False))
        return
    for part, names in flat.items():
        echo_text(f"{part}: {', '.join(names)}", 4)
    for name, row in rows.items():
        echo_text(f"\n{name}{' (random)' if row['random'] else ''}: {row['does']}", 4)
        echo_text(f"  takes: {', '.join(row['arguments'])}", 4)
        echo_list(row["columns"], 2)


@command(STUDIES)
def results(
    study: str = option(None, "Only this study's trials."),
    kind: str = option(None, "Only this kind of trial."),
    failed: bool = option(False, "The failed trials and their tracebacks instead."),
    out: Path = option(None, "Write all columns to a .csv, .parquet or .json file.", "-o"),
    limit: int = option(20, "Rows to print of each kind.", min=1),
    columns: str = option(None, "Columns to print, such as alpha1,d,test_error."),
    store: Path = _STORE,
) -> None:
    """Look into the store: a summary, a table of some trials, or an export of them.

    Example: sparsetoken results --study mine --out trials.csv
    """
    from ..study.store import DEFAULT_STORE, Store
    from ..study.tables import ENDINGS, tidy, write_table

    check_writable(out, endings=ENDINGS, make_folder=True)
    with Store(store or DEFAULT_STORE, read_only=True) as opened:
        studies = opened.studies()
        if study is not None and study not in studies:
            raise ValueError(f"store {opened.path} has no study {study!r}; it has {', '.join(studies) or 'none'}")
        rows = opened.rows(study=study, kind=kind, status="failed" if failed else None)
        if kind is not None and not rows and not opened.rows(kind=kind):
            kinds = ", ".join(dict.fromkeys(row.kind for row in opened.rows())) or "none"
            raise ValueError(f"store {opened.path} has no trials of kind {kind!r}; it has {kinds}")
    if failed:
        for row in rows:
            arguments = ", ".join(f"{name}={value}" for name, value in row.arguments.items())
            echo(f"{row.kind}({arguments})\n{row.traceback}\n")
        echo(f"{len(rows)} failed trial{'s' if len(rows) != 1 else ''}")
        return
    done = [row for row in rows if row.status == "done"]
    if study is None:
        done, old = _of_latest_code(done)
        if old:
            echo(f"{old} rows were made by earlier code and are left out", err=True)
    if out is not None:
        write_table(tidy(done), out)
        echo(f"{len(done)} trials written to {out}")
    elif study is None and kind is None:
        _print_summary([*done, *(row for row in rows if row.status == "failed")], studies)
    else:
        _print_rows(done, limit, columns.split(",") if columns else None)


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


def _of_latest_code(rows: list[Row]) -> tuple[list[Row], int]:
    """Of each kind the rows that the code of its latest row made, and the number of the others."""
    latest = {_sort(row): row.code for row in sorted(rows, key=lambda row: row.finished)}
    kept = [row for row in rows if row.code == latest[_sort(row)]]
    return kept, len(rows) - len(kept)


def _sort(row: Row) -> tuple[str, ...]:
    """The kind, and the user's things that the row was made with (`kind.code_of`)."""
    return (row.kind, *(part.partition("=")[0] for part in row.code.split("+")[1:]))


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


def _print_summary(rows: list, studies: dict[str, int]) -> None:
    lines = []
    for kind in sorted({row.kind for row in rows}):
        mine = [row for row in rows if row.kind == kind]
        done = sum(row.status == "done" for row in mine)
        seconds = sum(row.cpu_seconds or 0.0 for row in mine)
        lines.append([kind, str(done), str(len(mine) - done), f"{seconds:.1f}"])
    studied = ", ".join(f"{name} ({count})" for name, count in studies.items())
    print_table(f"studies: {studied or 'none'}", ["kind", "done", "failed", "CPU s"], lines)


def _print_rows(rows: list, limit: int, columns: list[str] | None) -> None:
    """A table per kind, with the chosen columns or as many varying ones as fit."""
    from ..study.tables import tidy

    if not rows:
        echo("no trials")
    for kind in dict.fromkeys(row.kind for row in rows):
        table = tidy(row for row in rows if row.kind == kind)
        for name in columns or ():
            if name not in table:
                raise ValueError(f"{kind} has no column {name!r}; it has {', '.join(map(str, table))}")
        varying = [name for name in table if table[name].astype(str).nunique() > 1] or list(table)
        shown = columns or varying[: max(2, (page_width() or 80) // 14)]
        cells = [
            [f"{v:.4g}" if isinstance(v, float) else str(v) for v in values]
            for values in table[shown].head(limit).itertuples(index=False)
        ]
        left = [str(name) for name in varying if name not in shown]
        more = f"; not shown: {', '.join(left)}" if left else ""
        print_table(f"{kind}: {len(cells)} of {len(table)} rows{more}", [str(name) for name in shown], cells)


def _duration(seconds: object) -> str:
    if not isinstance(seconds, int | float):
        return "not timed"
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"

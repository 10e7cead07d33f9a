"""`studies` and `results`: what can be run, and what is in the store."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._core.files import check_writable
from ..task import Task
from ..training import Training
from .options import MODULES, STORE, STUDIES, command, option
from .printing import echo, echo_list, echo_text, page_width, print_table

if TYPE_CHECKING:
    from ..study.store import Row

SHARED = ("task", "training", "tokens", "deployment")  # described once for all kinds


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


def _duration(seconds: object) -> str:
    if not isinstance(seconds, int | float):
        return "not timed"
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


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
    store: Path = STORE,
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


def _of_latest_code(rows: list[Row]) -> tuple[list[Row], int]:
    """The rows made by the same code as the latest row of their kind, and the number of the others."""
    latest = {_sort(row): row.code for row in sorted(rows, key=lambda row: row.finished)}
    kept = [row for row in rows if row.code == latest[_sort(row)]]
    return kept, len(rows) - len(kept)


def _sort(row: Row) -> tuple[str, ...]:
    """The kind, and the user's things that the row was made with (`kind_registry.code_of`)."""
    return (row.kind, *(part.partition("=")[0] for part in row.code.split("+")[1:]))


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

"""What commands share: tables on the terminal, and JSON and CSV files."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import Any

from .._core.files import write_bytes


def with_error(mean: float, error: float) -> str:
    """`0.0373 ± 0.0011`: the mean to the digits its error supports; a dash where there is no number."""
    if math.isnan(mean):
        return "-"
    if math.isnan(error) or error <= 0.0:
        return f"{mean:.4g}"
    digits = min(8, max(0, 1 - math.floor(math.log10(error))))
    return f"{mean:.{digits}f} ± {error:.{digits}f}"


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], keys: int = 1) -> None:
    """A title and a table on standard output, one line a row.

    A terminal too narrow for all columns gets them in several tables, each with the first `keys` columns again. Piped
    output is never split and has no trailing spaces.
    """
    from rich.console import Console

    console = Console()
    listed = [list(row) for row in rows]
    if console.is_terminal:
        console.print(title, highlight=False, markup=False)
        for part in _fitting(columns, listed, keys, console.width):
            console.print(_table(columns, listed, part))
        return
    wide = Console(width=10_000, file=StringIO())
    wide.print(_table(columns, listed, range(len(columns))))
    lines = [line.rstrip() for line in wide.file.getvalue().splitlines()]  # type: ignore[attr-defined]
    print("\n".join([title, *(line for line in lines if line)]))


def _table(columns: Sequence[str], rows: list[list[str]], part: Iterable[int]) -> Any:
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    part = list(part)
    table = Table(*(escape(columns[k]) for k in part), box=box.SIMPLE_HEAD, pad_edge=False)
    for row in rows:
        table.add_row(*(escape(row[k]) for k in part))
    return table


def _fitting(columns: Sequence[str], rows: list[list[str]], keys: int, width: int) -> list[list[int]]:
    """Groups of column indices, each beginning with the keys, that fit `width` (a lone column may still not)."""
    from rich.cells import cell_len

    widths = [3 + max(cell_len(text) for text in (columns[k], *(row[k] for row in rows))) for k in range(len(columns))]
    first = list(range(keys))
    groups: list[list[int]] = [first.copy()]
    for k in range(keys, len(columns)):
        if len(groups[-1]) > keys and sum(widths[j] for j in groups[-1]) + widths[k] > width:
            groups.append(first.copy())
        groups[-1].append(k)
    return groups


def plain(value: Any) -> Any:
    """`value` as JSON can hold it: NaN and infinities become null."""
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def write_json(path: Path, value: Any) -> None:
    write_bytes(path, (json.dumps(plain(value), indent=1) + "\n").encode())


def write_csv(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """One line a row; nested dictionaries become columns `name.key`, missing values are empty."""
    flat = [_flatten(row) for row in rows]
    columns = list(dict.fromkeys(name for row in flat for name in row))
    text = StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: "" if value is None else value for name, value in plain(row).items()} for row in flat)
    write_bytes(path, text.getvalue().encode())


def _flatten(row: Mapping[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, Mapping):
            flat |= {f"{name}.{key}": item for key, item in value.items()}
        else:
            flat[name] = value
    return flat

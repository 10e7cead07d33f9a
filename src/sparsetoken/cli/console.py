"""What commands share: tables on the terminal, JSON and CSV files, and the order in which results leave the program."""

from __future__ import annotations

import codecs
import csv
import json
import math
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from io import StringIO
from pathlib import Path
from typing import Any

from .._core.files import write_bytes

# The signs that our own texts hold, as a terminal without them gets them; anything else becomes a question mark.
_SPELLED = {
    "±": "+-", "−": "-", "–": "-", "—": "-", "…": "...", "→": "->", "≥": ">=", "≤": "<=", "×": "x", "·": "|", "‖": "||",
    "²": "^2", "₀": "0", "₁": "1", "₂": "2", "Σ": "sum", "α": "alpha", "β": "beta", "γ": "gamma", "η": "eta", "θ": "theta",
    "κ": "kappa", "λ": "lambda", "ξ": "xi", "π": "pi", "✓": "v", "✗": "x",
    "⟨": "<", "⟩": ">", "₋": "-", "─": "-", "━": "-", "│": "|", "┃": "|", "╶": "-", "╴": "-",
}  # fmt: skip


def _spell(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    signs = error.object[error.start : error.end]
    return "".join(_SPELLED.get(sign, "?") for sign in signs), error.end


codecs.register_error("sparsetoken.spell", _spell)


def spell_where_needed(stream: Any) -> None:
    """Let a text stream write signs that its encoding lacks in letters, instead of failing on them."""
    if hasattr(stream, "reconfigure"):
        stream.reconfigure(errors="sparsetoken.spell")


def echo(text: str, *, err: bool = False, end: str = "\n") -> None:
    """Print on standard output or error, in the signs that it has (`typer.echo` would go past `spell_where_needed`)."""
    print(text, file=sys.stderr if err else sys.stdout, end=end)


def deliver(show: Callable[[], None], files: Iterable[tuple[Path | None, Callable[[Path], None]]]) -> None:
    """Hand over what a command has computed: files first, then the terminal, and no failure costs another part.

    A file that cannot be written where it was wanted goes to the folder for temporary files.

    Parameters
    ----------
    show : callable
        Prints the results.
    files : iterable of (Path or None, callable)
        Where a file is wanted (None: nowhere), and what writes it to a given path.

    Raises
    ------
    OSError
        After everything else is done, if a file could not be written; the message says where its content is instead.
    """
    failures, broken = [], None
    for path, write in files:
        if path is None:
            continue
        try:
            write(path)
        except OSError as error:
            failures.append(f"{error}{_rescued(path, write)}")
        except Exception as error:  # whatever it is, what was computed is shown first
            broken = broken or error
    try:
        show()
        if sys.stdout is not None:
            sys.stdout.flush()  # what waits in the buffer could fail later, past all care
    except OSError:
        if failures:  # where the results are now is worth more than that nobody reads them
            abandon_output()
            raise OSError("; ".join(failures)) from None
        raise
    if failures:
        raise OSError("; ".join(failures))
    if broken is not None:
        raise broken


def abandon_output() -> None:
    """Drop what is left to be printed: standard output is full or closed, and would fail again at the end."""
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _rescued(path: Path, write: Callable[[Path], None]) -> str:
    """Write to the folder for temporary files instead; in words, where that is (or nothing, where it failed too)."""
    try:
        other = Path(tempfile.mkdtemp(prefix="sparsetoken-")) / path.name
        write(other)
    except OSError:
        return ""
    return f" (its content is in {other})"


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], keys: int = 1) -> None:
    """A title and a table on standard output, one line per row.

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
    """Write a value as JSON, NaN and infinities as null."""
    write_bytes(path, (json.dumps(plain(value), indent=1) + "\n").encode())


def write_csv(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """One line per row; nested dictionaries become columns `name.key`, missing values are empty."""
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

"""What commands share: tables on the terminal, JSON and CSV files, and the order in which results leave the program."""

from __future__ import annotations

import codecs
import json
import math
import os
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from .._core.files import check_apart, check_ending, check_writable, write_bytes
from .._core.imports import require

# Replacements for the special characters of our texts on terminals without them; any other becomes a question mark.
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
    """Make a text stream replace characters that its encoding lacks, instead of failing on them."""
    if hasattr(stream, "reconfigure"):
        stream.reconfigure(errors="sparsetoken.spell")


def echo(text: str, *, err: bool = False, end: str = "\n") -> None:
    """Print on standard output or error, in the characters that it has (`typer.echo` bypasses `spell_where_needed`)."""
    print(text, file=sys.stderr if err else sys.stdout, end=end)


def page_width() -> int | None:
    """Width to print in: COLUMNS, the terminal's width, or None where neither sets a limit."""
    from rich.console import Console

    asked = os.environ.get("COLUMNS", "")
    if asked.isdigit() and int(asked) > 0:
        return int(asked)
    console = Console()
    return console.width if console.is_terminal else None


def echo_text(text: str, indent: int = 0) -> None:
    """Print sentences, broken at 80 columns (or the page's width below 100); further lines of a paragraph are indented."""
    width = min(page_width() or 80, 100)
    for line in text.splitlines():
        more = " " * (indent or len(line) - len(line.lstrip()))
        echo(textwrap.fill(line, width, subsequent_indent=more, break_on_hyphens=False, break_long_words=False))


def echo_list(entries: Mapping[str, str], indent: int = 0) -> None:
    """Print names with words beside them."""
    width = max(map(len, entries), default=0)
    for name, text in entries.items():
        echo_text(f"{' ' * indent}{name:<{width}}  {text}".rstrip(), indent + width + 2)


def check_files(
    outputs: Iterable[tuple[Path | None, str]], inputs: Iterable[Any] = (), picture: Path | None = None
) -> None:
    """Check before the work that files, each with the endings it may have, can be written and replace no other or an input."""
    from ..plotting.show import ENDINGS

    outputs = list(outputs)
    check_apart((*(path for path, _ in outputs), picture), inputs)
    for path, endings in outputs:
        check_writable(path)
        check_ending(path, *endings.split())
        if path is not None and path.suffix.lower() == ".parquet":
            require("parquet")
    check_writable(picture, endings=ENDINGS)


def deliver(show: Callable[[], None], files: Iterable[Sequence[Any]], failed: Sequence[str] = ()) -> int:
    """Write a command's files (path, writer, perhaps a name for a last line), then show results and failures; the exit code.

    A file that fails does not prevent the others; what could not be computed comes last, on standard error.
    """
    written: list[str] = []
    broken: Exception | None = None
    for path, write, *what in files:
        if path is None:
            continue
        try:
            write(path)
            written += [f"{label} written to {path}" for label in what]
        except Exception as error:  # any error: the results are shown first
            broken = broken or error
    show()
    if sys.stdout is not None:
        sys.stdout.flush()  # the buffer could fail later, where nothing handles it
    for line in written:
        echo(line, err=True)
    if broken is not None:
        raise broken
    for line in failed:
        echo(line, err=True)
    return 1 if failed else 0


def abandon_output() -> None:
    """Drop what is left to be printed: standard output is full or closed, and would fail again at the end."""
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], keys: int = 1) -> None:
    """A title and a table, one line per row; on a narrow page several tables, each with the first `keys` columns again."""
    from rich.cells import cell_len

    lines, page = [columns, *rows], page_width()
    widths = _widths(lines)
    echo(title) if page is None else echo_text(title)
    for group in [range(len(columns))] if page is None else _fitting(widths, keys, page):
        for place, line in enumerate(lines):
            cells = (line[k] + " " * (widths[k] - cell_len(line[k])) for k in group)
            echo(f" {'   '.join(cells)}".rstrip())
            if place == 0:
                echo(f" {'─' * (sum(widths[k] + 3 for k in group) - 3)}")


def fits(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> bool:
    """Whether a table is no wider than the page."""
    page = page_width()
    return page is None or sum(width + 3 for width in _widths([columns, *rows])) - 2 <= page


def _widths(lines: Sequence[Sequence[str]]) -> list[int]:
    from rich.cells import cell_len

    return [max(cell_len(line[k]) for line in lines) for k in range(len(lines[0]))]


def _fitting(widths: Sequence[int], keys: int, page: int) -> list[Sequence[int]]:
    """Groups of columns of about equal width, each beginning with the keys, that fit the page (a lone column may not)."""
    room = max(page - sum(width + 3 for width in widths[:keys]), 1)

    def split(limit: int) -> list[list[int]]:
        groups: list[list[int]] = [[]]
        for k in range(keys, len(widths)):
            if groups[-1] and sum(widths[j] + 3 for j in [*groups[-1], k]) > limit:
                groups.append([])
            groups[-1].append(k)
        return groups

    fewest = len(split(room))
    limit = next(limit for limit in range(1, room + 1) if len(split(limit)) == fewest) if fewest > 1 else room
    return [[*range(keys), *group] for group in split(limit)]


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
    """One line per row; nested dictionaries become columns `name.key`; missing and infinite values are empty."""
    import pandas as pd

    from ..study.tables import as_csv

    flat = [_flatten(plain(row)) for row in rows]
    write_bytes(path, as_csv(pd.DataFrame(flat, dtype=object)))  # objects: whole numbers stay whole


def _flatten(row: Mapping[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in row.items():
        flat |= {f"{name}.{key}": item for key, item in value.items()} if isinstance(value, Mapping) else {name: value}
    return flat


@contextmanager
def stages(first: str) -> Iterator[Callable[[str], None]]:
    """A spinner on standard error while something runs, where that is a terminal; yields say(words), the current work."""
    from rich.console import Console
    from rich.markup import escape

    with Console(stderr=True).status(escape(first)) as status:
        yield lambda work: status.update(escape(work))

"""A bar per piece of work, with counts and time left, on a terminal; nothing elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

Advance = Callable[[int], None]


@contextmanager
def progress(enabled: bool | None = None) -> Iterator[Callable[[str, int], Advance]]:
    """A context in which bars can be added."""
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True)
    if not (console.is_terminal if enabled is None else enabled):
        yield lambda title, total: lambda count: None
        return
    columns = (
        TextColumn("{task.description:<16}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as bars:

        def add(title: str, total: int) -> Advance:
            task = bars.add_task(escape(title), total=total)
            return lambda count: bars.advance(task, count)

        yield add

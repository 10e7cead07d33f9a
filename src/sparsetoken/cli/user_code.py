"""`--module mine.py`: a user's own losses, mechanisms, bag models and kinds of trial in the commands that know them by name.

Also `--loss`, which several commands share.
"""

from __future__ import annotations

import os
from pathlib import Path

import typer


def _execute(files: list[Path]) -> list[Path]:
    """Execute the user's files, before the command looks at its other options; worker processes will do the same."""
    from .._core.user_code import share_source

    for file in files:
        if not file.is_file():
            raise ValueError(f"--module {file} does not exist")
        try:
            share_source(file)
        except Exception as error:  # whatever the user's code raises; SPARSETOKEN_DEBUG=1 shows where
            if os.environ.get("SPARSETOKEN_DEBUG"):
                raise
            raise ValueError(f"--module {file} cannot be executed: {type(error).__name__}: {error}") from error
    return files


LOSS = typer.Option(
    "logistic",
    help="logistic, square, smoothed_hinge, exponential or one of your own (--module); logistic:positives=9 and so on weigh "
    "positive bags nine times.",
)
DESCENDED_LOSS = typer.Option(
    "logistic",
    help="logistic, square, smoothed_hinge, exponential, focal:2 or one of your own (--module); logistic:positives=9 and so on "
    "weigh positive bags nine times.",
)
MODULES = typer.Option(
    [],
    "--module",
    callback=_execute,
    is_eager=True,
    help="Python file of your own, executed first: what it registers is known by name; repeatable.",
)

"""Blocks of options: one parameter in the code, one option per field on the command line."""

from __future__ import annotations

from typing import NamedTuple

import typer
from typer.testing import CliRunner

from sparsetoken.cli.option_blocks import with_blocks


class Size(NamedTuple):
    width: int = typer.Option(3, "--width", help="How wide.")
    tags: list[str] = typer.Option([], "--tag")


def made() -> tuple[typer.Typer, list]:
    app, seen = typer.Typer(), []

    @app.command()
    @with_blocks
    def draw(
        *, name: str = typer.Option("a", "--name"), size: Size, deep: bool = typer.Option(False, "--deep")
    ) -> None:
        """Draw something."""
        seen.append((name, size, deep))

    return app, seen


def test_a_command_gets_its_blocks_with_what_was_written():
    app, seen = made()
    for words in ([], ["--width", "5", "--tag", "x", "--tag", "y", "--deep", "--name", "b"]):
        assert CliRunner().invoke(app, words).exit_code == 0
    assert seen == [("a", Size(3, []), False), ("b", Size(5, ["x", "y"]), True)]


def test_help_and_refusals_know_each_option():
    app, seen = made()
    shown = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "100", "TERM": "dumb"}).output
    assert "Draw something." in shown and shown.index("--name") < shown.index("--width") < shown.index("--deep")
    assert "How wide." in shown and "size" not in shown
    assert CliRunner().invoke(app, ["--width", "wide"]).exit_code == 2 and not seen

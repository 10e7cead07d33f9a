"""Options: numbers given as text; blocks of them, one parameter in the code and one option per field on the command line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pytest
import typer
from typer.testing import CliRunner

from sparsetoken.cli.options import Options, with_options
from sparsetoken.cli.values import parse_values


@dataclass(frozen=True)
class Size(Options):
    panel: ClassVar[str] = "Measures"
    width: int = typer.Option(3, "--width", help="How wide.")
    tags: list[str] = typer.Option([], "--tag")


def made() -> tuple[typer.Typer, list]:
    app, seen = typer.Typer(), []

    @app.command()
    @with_options
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
    assert "Draw something." in shown and shown.index("--name") < shown.index("Measures") < shown.index("--width")
    assert "How wide." in shown and "size" not in shown
    assert CliRunner().invoke(app, ["--width", "wide"]).exit_code == 2 and not seen


def test_rare_options_are_shown_by_help_all(command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    code, short, _ = command("simulate", "--help")
    assert code == 0 and "--covariance" not in short and "more options: sparsetoken simulate --help-all" in short
    code, whole, _ = command("simulate", "--help-all")
    assert code == 0 and "--covariance" in whole and "more options" not in whole
    assert max(map(len, (short + whole).splitlines())) <= 80


def test_every_command_has_an_example_that_it_takes(command):
    """Options of examples exist; nothing is run."""
    import shlex

    import sparsetoken.cli as cli

    command("--version")  # imports all commands
    group = typer.main.get_command(cli.app)
    for name, known in group.commands.items():
        example = known.help.split("Example: sparsetoken ")[1].partition(" > ")[0]
        words = shlex.split(example)
        assert words[0] == name
        known.make_context(name, words[1:]).close()


def test_values_from_text():
    assert parse_values("x", "2") == [2.0] and parse_values("x", "1,2.5") == [1.0, 2.5]
    assert parse_values("x", "0.5:8:4") == [0.5, 3.0, 5.5, 8.0]
    assert parse_values("x", "1e-4:1:3:log") == [1e-4, 1e-2, 1.0]
    for bad in ("", "a", "1,,2", "1:2", "1:2:1", "1:2:3:lin", "0:1:3:log", "1:nan:3", "1:2:x"):
        with pytest.raises(ValueError, match=r"^x must be a number, a list"):
            parse_values("x", bad)

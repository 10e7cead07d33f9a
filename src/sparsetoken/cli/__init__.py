"""The command line: parse, call the library, print. Bad input is one line and exit code 2 (SPARSETOKEN_DEBUG: traceback)."""

from __future__ import annotations

import errno
import inspect
import os
import sys
import warnings
from importlib import import_module
from typing import Any, NoReturn

import typer

from .._core.workers import THREAD_VARIABLES, keep_compiled_code
from .printing import abandon_output, echo, spell_where_needed

app = typer.Typer(
    name="sparsetoken",
    help="Sparse-token classification with single-layer attention: theory, simulation, learners.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

# The thread variables that were set before `main` gave the others a default.
CHOSEN_THREADS = tuple(name for name in THREAD_VARIABLES if os.environ.get(name))
# In the order of the help.
COMMAND_MODULES = (
    "fit_and_predict", "evaluate", "explain", "plan_and_solve",
    "forecast", "explore", "simulate", "train",
    "reproduce_and_run", "studies_and_results", "doctor_and_cite",
)  # fmt: skip
# How a stream fails that is full or closed; other errors without a file's name come from elsewhere.
OUTPUT_ERRORS = (errno.EPIPE, errno.ENOSPC, errno.EIO, errno.EBADF)


@app.callback(invoke_without_command=True)
def _root(version: bool = typer.Option(False, "--version", help="Print the version and exit.")) -> None:
    if version:
        from .. import __version__

        echo(__version__)
        raise typer.Exit()


def main(arguments: list[str] | None = None) -> None:
    """Entry point: run a command, turn every expected failure into one line and exit code 2."""
    for variable in THREAD_VARIABLES:
        os.environ.setdefault(variable, "1")  # read by BLAS when NumPy is first imported
    keep_compiled_code()
    for module in COMMAND_MODULES:
        import_module(f".{module}", __name__)
    for stream in (sys.stdout, sys.stderr):
        spell_where_needed(stream)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _say_warning
            # NumPy's remarks on single operations; results that are not finite are refused in words.
            warnings.filterwarnings("ignore", ".* encountered in ", RuntimeWarning)
            asked = sys.argv[1:] if arguments is None else arguments
            everything = "--help-all" in asked or "_SPARSETOKEN_COMPLETE" in os.environ
            typed = ["--help" if word == "--help-all" else word for word in asked]
            outcome = _command(everything)(typed, standalone_mode=False)
        if sys.stdout is not None:
            sys.stdout.flush()
    except KeyboardInterrupt:
        _fail("interrupted", 130)
    except SystemExit as leaving:
        if isinstance(leaving.__context__, OSError):  # Click's exit where the output is closed
            raise
        _fail(f"your own code ended the program: SystemExit: {leaving}", 2)
    except Exception as error:
        if os.environ.get("SPARSETOKEN_DEBUG"):
            raise
        if type(error).__name__ == "NoArgsIsHelpError":  # the help text has been shown
            sys.exit(2)
        if hasattr(error, "format_message"):  # click's usage errors
            _fail(error.format_message(), 2)
        if isinstance(error, OSError) and error.errno in OUTPUT_ERRORS and error.filename is None:
            _fail_on_output(error)
        if type(error) in (ZeroDivisionError, OverflowError, FloatingPointError):  # Python's own message is enough
            _fail(f"these values cannot be computed ({error}): use less extreme ones", 2)
        if isinstance(error, ValueError | OSError | ArithmeticError | MemoryError | ImportError):
            _fail(str(error) or type(error).__name__, 2)
        raise
    sys.exit(outcome if isinstance(outcome, int) else 0)


def _say_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    """A warning for users of a command: one line, without the place in the code that it came from."""
    echo("warning: " + " ".join(str(message).split()), err=True)


def _command(everything: bool) -> Any:
    """The commands, with help texts shown as written, not as markup; --help-all shows rare options, too."""
    from rich.markup import escape

    command = typer.main.get_command(app)
    for part in (command, *getattr(command, "commands", {}).values()):
        paragraphs = inspect.cleandoc(part.help or "").split("\n\n")  # each in one line, broken where the terminal ends
        part.help = escape("\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs))
        rare = [parameter for parameter in part.params if getattr(parameter, "hidden", False)]
        if rare and not everything:
            part.epilog = f"{len(rare)} more options: sparsetoken {part.name} --help-all"
        for parameter in part.params:
            parameter.hidden = everything is False and parameter in rare
            if getattr(parameter, "help", None):
                parameter.help = escape(parameter.help)
    return command


def _fail_on_output(error: OSError) -> NoReturn:
    """Standard output is full or closed. Files are written before anything is printed, so these are complete."""
    abandon_output()
    if error.errno == errno.EPIPE:  # the reader of the output has closed it
        sys.exit(1)
    _fail(f"cannot write to standard output: {error.strerror}", 2)


def _fail(message: str, code: int) -> NoReturn:
    print("error: " + " ".join(message.split()), file=sys.stderr)
    sys.exit(code)

"""The command line: thin commands that parse, call the library and print.

Each module of this package registers its commands on `app`; heavy imports stay inside the commands. Bad input ends in
one line on standard error and exit code 2, never in a traceback (set SPARSETOKEN_DEBUG=1 to see one).
"""

from __future__ import annotations

import os
import sys
from importlib import import_module

import typer

app = typer.Typer(
    name="sparsetoken",
    help="Sparse-token classification with single-layer attention: theory, simulation, learners.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

COMMAND_MODULES = ("simulate", "forecast", "study", "plan", "explore", "bags")


@app.callback(invoke_without_command=True)
def _root(version: bool = typer.Option(False, "--version", help="Print the version and exit.")) -> None:
    if version:
        from .. import __version__

        typer.echo(__version__)
        raise typer.Exit()


def main(arguments: list[str] | None = None) -> None:
    """Entry point: run a command, turn every expected failure into one line and exit code 2."""
    for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(variable, "1")  # read by BLAS when NumPy is first imported
    _keep_compiled_code()
    for module in COMMAND_MODULES:
        import_module(f".{module}", __name__)
    try:
        outcome = app(args=arguments, standalone_mode=False)
    except KeyboardInterrupt:
        _fail("interrupted", 130)
    except Exception as error:
        if os.environ.get("SPARSETOKEN_DEBUG"):
            raise
        if type(error).__name__ == "NoArgsIsHelpError":  # the help text has been shown
            sys.exit(2)
        if hasattr(error, "format_message"):  # click's usage errors
            _fail(error.format_message(), 2)
        if isinstance(error, ValueError | OSError | ArithmeticError | MemoryError | ImportError):
            _fail(str(error) or type(error).__name__, 2)
        raise
    sys.exit(outcome if isinstance(outcome, int) else 0)


def _keep_compiled_code() -> None:
    """Let JAX keep compiled code between commands, in the user's cache folder: it halves the time to a first answer."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", os.path.join(home, "sparsetoken", "jax"))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1")


def _fail(message: str, code: int) -> None:
    print("error: " + " ".join(message.split()), file=sys.stderr)
    sys.exit(code)

"""`plan`, `solve`, `test-size`: how many bags, which settings, what to expect, for a task or for the bags of a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer

from . import app
from .console import echo
from .fields import WORDS, TaskOptions
from .option_blocks import with_blocks
from .user_code import LOSS, MODULES

_CRITERION = typer.Option(
    "error", help="error, threshold_error, balanced_error, auc or sensitivity@0.95 (at that specificity)."
)


@app.command()
@with_blocks
def plan(
    *,
    source: Path = typer.Option(
        None, "--from", help="A file of labelled bags (csv, csv.gz, parquet or npz): estimate the task from it."
    ),
    bag: str = typer.Option("bag_id", "--bag", help="With --from: column of the bag ids."),
    label: str = typer.Option("label", "--label", help="With --from: column of the labels."),
    labels: Path = typer.Option(
        None, "--labels", help="With --from: table with one row per bag (bag id, label), where labels are kept apart."
    ),
    ignore: list[str] = typer.Option([], "--ignore", help="With --from: column that is not a feature; repeatable."),
    literal_ids: bool = typer.Option(
        False, "--literal-ids", help="With --from: take bag ids such as NA, null or nan as they stand."
    ),
    budget: float = typer.Option(
        60.0, "--budget", help="With --from: CPU seconds that measuring the default learner may take."
    ),
    theory: bool = typer.Option(
        True, "--theory/--no-theory", help="With --from: add the theory's reasons, or give the measured answer only."
    ),
    of_task: TaskOptions,
    n: int = typer.Option(None, "--samples", "-n", help="n, bags at hand (with --from: those of the file)."),
    d: int = typer.Option(None, "--dimension", "-d", help="d, dimension of a token."),
    criterion: str = _CRITERION,
    target: float = typer.Option(
        None, "--target", "--target-error", help="Value of the criterion that the inverse questions aim at."
    ),
    loss: str = LOSS,
    ask: list[str] = typer.Option(
        ["all"], "--ask", help="samples, strength, length, crossing, all or none; repeatable. Each takes seconds."
    ),
    curve: bool = typer.Option(False, "--curve", help="Predict the learning curves too (implied by --plot)."),
    trials: int = typer.Option(
        8, help="Data sets simulated at this n and d beside the forecasts of attention and pooling; 0 for none."
    ),
    json_file: Path = typer.Option(None, "--json", help="Write the whole plan here."),
    plot: Path = typer.Option(None, "--plot", help="Draw the predicted learning curves here (png, svg or pdf)."),
    modules: list[Path] = MODULES,
) -> None:
    """Say what to do with n bags of d-dimensional tokens, and what to expect.

    With --from, measure the learner that `fit` uses on parts of your bags, and say how good it is now, how many bags your
    target needs, and what the theory gives as reasons.
    """
    from .._core.files import check_apart, check_ending, check_writable
    from .._core.validation import real_number
    from ..planning import advice
    from ..planning import plan as make_plan
    from ..plotting.pictures import ENDINGS, write_picture
    from .console import deliver, write_json

    check_writable(json_file)
    check_writable(plot, endings=ENDINGS)
    check_apart((json_file, plot), (source, labels))
    check_ending(json_file, ".json")
    questions = advice.QUESTIONS if "all" in ask else tuple(name for name in ask if name != "none")
    common: dict[str, Any] = {"criterion": criterion, "target": target, "questions": questions, "trials": trials}
    common["curve"] = curve or plot is not None
    made: Any
    if source is not None:
        from ..bags.files import read_bags
        from ..planning import plan_for_bags

        if d is not None:
            raise ValueError("dimension is that of the file's features: leave out -d with --from")
        own = [name for name, option in TaskOptions._field_defaults.items() if getattr(of_task, name) != option.default]
        if own or loss != LOSS.default:
            told = (own or ["loss"])[0].replace("_", "-")
            raise ValueError(
                f"--{told} is no question of a file's bags, which are taken as they are: leave it out with --from"
            )
        real_number("budget", budget, 0.0, open_low=True)
        held = read_bags(source, bag, label, ignore=ignore, labels_file=labels, literal_ids=literal_ids)
        with _stages() as say:
            made = plan_for_bags(held.bags, held.labels, n=n, budget=budget, theory=theory, progress=say, **common)
    else:
        if labels is not None or ignore or literal_ids or not theory or (bag, label) != ("bag_id", "label"):
            raise ValueError(
                "--bag, --label, --labels, --ignore, --literal-ids and --no-theory belong to a file of bags: give one with "
                "--from"
            )
        if n is None or d is None:
            raise ValueError("give the number of bags with -n and the tokens' dimension with -d, or a file with --from")
        with _stages() as say:
            made = make_plan(of_task.task(), n, d, loss=loss, progress=say, **common)
    files: list[tuple[Path | None, Callable[[Path], None]]] = [
        (json_file, lambda path: write_json(path, made.to_dict())),
        (plot, lambda path: write_picture(path, made.figure())),
    ]
    deliver(lambda: echo(str(made)), files)


_SOLVED_FOR = {"n": "n", "d": "d", "error": "target_error", "target": "target_error"}


@app.command()
def solve(
    unknown: str = typer.Option(
        None,
        "--for",
        help="n, d, error, strength, length, sparsity or prevalence; by default what is not given of n, error.",
    ),
    length: int = typer.Option(10, help="L, tokens per bag."),
    sparsity: int = typer.Option(1, help="R, signal tokens in a positive bag."),
    strength: float = typer.Option(5.0, help="θ, the signal's size."),
    prevalence: float = typer.Option(0.5, help=WORDS["prevalence"]),
    n: int = typer.Option(None, "--samples", "-n", help="n, bags to learn from."),
    d: int = typer.Option(None, "--dimension", "-d", help="d, dimension of a token; without it the answer is n/d."),
    target: float = typer.Option(None, "--target", "--target-error", help="Value of the criterion aimed at."),
    criterion: str = _CRITERION,
    learner: str = typer.Option(
        "attention", help="attention, pooled, vectorized, message_passing or optimal (the Bayes limit)."
    ),
    loss: str = LOSS,
    trials: int = typer.Option(8, help="Training sets simulated at the solution, for the spread; 0 for none."),
    json_file: Path = typer.Option(None, "--json", help="Write the solution here."),
    modules: list[Path] = MODULES,
) -> int:
    """Power analysis: the number of bags that a target needs, or whichever quantity --for names.

    The exit code is 1 where there is no solution.
    """
    from .._core.files import check_ending, check_writable
    from ..planning.power import LARGE, UNKNOWNS
    from ..planning.power import solve as solve_for
    from ..task import Task
    from .console import deliver, write_json

    check_writable(json_file)
    check_ending(json_file, ".json")
    name = None if unknown is None else _SOLVED_FOR.get(unknown, unknown)
    if name is not None and name not in UNKNOWNS:
        raise ValueError(f"--for must be n, d, error, strength, length, sparsity or prevalence, got {unknown!r}")
    if name is None:
        name = "target_error" if target is None and n is not None else "n"
    given: dict[str, Any] = {"n": n, "target_error": target, "d": LARGE if d is None and name != "d" else d}
    if given.get(name) is not None and name in given and given[name] is not LARGE:
        if unknown is None:
            raise ValueError("nothing is left to solve for: leave out -n or --target, or say with --for what is wanted")
        raise ValueError(f"{unknown} is to be solved for: leave out its value")
    given[name] = None  # a task's own value is where the search begins
    for option, value in (("-n", given["n"]), ("--target", given["target_error"])):
        if value is None and name != {"-n": "n", "--target": "target_error"}[option]:
            raise ValueError(f"{option} must be given to solve for {unknown or name}")
    with _stages() as say:
        say("solving")
        found = solve_for(
            Task(length, sparsity, strength, prevalence), learner=learner, criterion=criterion, loss=loss,
            trials=trials, **given,
        )  # fmt: skip
    deliver(lambda: _echo(str(found)), [(json_file, lambda path: write_json(path, found.to_dict()))])
    return 0 if found.solved else 1


@app.command("test-size")
def test_size(
    error: float = typer.Option(..., "--error", help="Error rate expected.", show_default=False),
    width: float = typer.Option(None, "--width", help="Whole width of the interval wanted, such as 0.04."),
    versus: float = typer.Option(
        None, "--versus", help="Instead of --width: error rate of a classifier to compare with."
    ),
    disagreement: float = typer.Option(
        None, "--disagreement", help="With --versus: share of bags on which exactly one of the two is wrong."
    ),
    power: float = typer.Option(0.8, help="With --versus: probability of finding the difference."),
    confidence: float = typer.Option(0.95, help="Of the interval; one minus the level of the comparison's test."),
) -> None:
    """Bags to test on, for an error rate known to a wanted width or to tell two classifiers apart (exact)."""
    from ..planning.evaluation_sizes import comparison_set_size, error_interval, test_set_size

    if (width is None) == (versus is None):
        raise ValueError("give either --width or --versus")
    level = f"{100 * confidence:g} %"
    if width is not None:
        m = test_set_size(error, width, confidence)
        low, high = error_interval(error * m, m, confidence)
        _echo(
            f"{m:,} test bags: an error of {error:g} is then known to lie between {low:.4g} and {high:.4g} ({level} interval)."
        )
        return
    m = comparison_set_size(error, versus, power, confidence, disagreement)
    _echo(
        f"{m:,} test bags, the same for both: the exact McNemar test at {level} confidence then tells errors of "
        f"{error:g} and {versus:g} apart with probability {power:g}."
    )


def _echo(text: str) -> None:
    """Print sentences in lines of at most 80 columns."""
    import textwrap

    for line in text.splitlines():
        echo(textwrap.fill(line, 80, break_on_hyphens=False))


@contextmanager
def _stages() -> Iterator[Callable[[str], None]]:
    """Yields say(words): the stage at work, on a terminal; nothing elsewhere."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda words: None
        return
    from rich.markup import escape

    with console.status("starting") as status:
        yield lambda words: status.update(escape(words))

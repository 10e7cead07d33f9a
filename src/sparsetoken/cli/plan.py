"""`plan`: settings and expectations for given data, or for the bags of a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer

from . import app


@app.command()
def plan(
    source: Path = typer.Option(
        None, "--from", help="A file of labelled bags (csv, csv.gz, parquet or npz): estimate the task from it."
    ),
    bag: str = typer.Option("bag_id", "--bag", help="With --from: column of the bag ids."),
    label: str = typer.Option("label", "--label", help="With --from: column of the labels."),
    length: int = typer.Option(10, help="L, tokens per bag."),
    sparsity: int = typer.Option(1, help="R, signal tokens in a positive bag."),
    strength: float = typer.Option(5.0, help="θ, the signal's size."),
    prevalence: float = typer.Option(0.5, help="π = P(y = +1)."),
    n: int = typer.Option(None, "--samples", "-n", help="n, bags at hand (with --from: those of the file)."),
    d: int = typer.Option(None, "--dimension", "-d", help="d, dimension of a token."),
    criterion: str = typer.Option(
        "error", help="error, threshold_error, balanced_error, auc or sensitivity@0.95 (at that specificity)."
    ),
    target: float = typer.Option(
        None, "--target", "--target-error", help="Value of the criterion that the inverse questions aim at."
    ),
    loss: str = typer.Option("logistic", help="logistic, square or smoothed_hinge."),
    ask: list[str] = typer.Option(
        ["all"], "--ask", help="samples, strength, length, crossing, all or none; repeatable. Each takes seconds."
    ),
    curve: bool = typer.Option(False, "--curve", help="Predict the learning curves too (implied by --plot)."),
    trials: int = typer.Option(
        8, help="Data sets simulated at this n and d beside the forecasts of attention and pooling; 0 for none."
    ),
    json_file: Path = typer.Option(None, "--json", help="Write the whole plan here."),
    plot: Path = typer.Option(None, "--plot", help="Draw the predicted learning curves here (png, svg or pdf)."),
) -> None:
    """Say what to do with n bags of d-dimensional tokens, and what to expect."""
    from .._core.files import check_writable
    from ..planning import advice
    from ..planning import plan as make_plan
    from ..plotting.pictures import ENDINGS, write_picture
    from ..task import Task
    from .console import deliver, write_json

    check_writable(json_file)
    check_writable(plot, endings=ENDINGS)
    questions = advice.QUESTIONS if "all" in ask else tuple(name for name in ask if name != "none")
    common: dict[str, Any] = {"criterion": criterion, "target": target, "questions": questions, "trials": trials}
    common["curve"] = curve or plot is not None
    made: Any
    if source is not None:
        from ..bags.files import read_bags
        from ..planning import plan_for_bags

        held = read_bags(source, bag, label)
        with _stages() as say:
            made = plan_for_bags(held.bags, held.labels, n=n, progress=say, **common)
    else:
        if n is None or d is None:
            raise ValueError("give the number of bags with -n and the tokens' dimension with -d, or a file with --from")
        task = Task(length, sparsity, strength, prevalence)
        with _stages() as say:
            made = make_plan(task, n, d, loss=loss, progress=say, **common)
    files: list[tuple[Path | None, Callable[[Path], None]]] = [
        (json_file, lambda path: write_json(path, made.to_dict())),
        (plot, lambda path: write_picture(path, made.figure())),
    ]
    deliver(lambda: typer.echo(str(made)), files)


@contextmanager
def _stages() -> Iterator[Callable[[str], None]]:
    """Yields say(words): the stage at work, on a terminal; nothing elsewhere."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda words: None
        return
    with console.status("starting") as status:
        yield status.update

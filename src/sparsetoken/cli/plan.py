"""`plan`, `solve`, `test-size`: how many bags, which settings, what to expect, for a task or for the bags of a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import typer

from . import OWN_BAGS, app
from .console import echo_text
from .options import LOSS, MODULES, Options, TaskOptions, rare, with_options

_CRITERION = typer.Option(
    "error", help="error, threshold_error, balanced_error, auc or sensitivity@0.95 (at that specificity)."
)
_JSON = typer.Option(None, "--json", help="File for every number, as JSON.", rich_help_panel="Output")


@dataclass(frozen=True)
class OwnBags(Options):
    """A file of labelled bags to plan for."""

    panel: ClassVar[str] = "Your own bags"
    source: Path = typer.Option(None, "--from", help="File of labelled bags: csv, csv.gz, parquet or npz.")
    bag: str = typer.Option("bag_id", "--bag", help="Column of the bag ids.")
    label: str = typer.Option("label", "--label", help="Column of the labels.")
    labels: Path = rare(None, "--labels", help="Table with one row per bag (bag id, label), if labels are kept apart.")
    ignore: list[str] = rare([], "--ignore", help="Column that is not a feature; repeatable.")
    literal_ids: bool = rare(False, "--literal-ids", help="Take bag ids such as NA, null or nan as they stand.")
    budget: float = typer.Option(60.0, "--budget", help="CPU seconds that measuring the default learner may take.")

    def plan(self, n: int | None, **wanted: Any) -> Any:
        """The plan for the bags of the file."""
        from .._core.validation import real_number
        from ..bags.reading.read_bags import read_bags
        from ..planning import plan_for_bags

        real_number("budget", self.budget, 0.0, open_low=True)
        read = read_bags(
            self.source,
            self.bag,
            self.label,
            ignore=self.ignore,
            labels_file=self.labels,
            literal_ids=self.literal_ids,
        )
        return plan_for_bags(read.bags, read.labels, n=n, budget=self.budget, **wanted)

    def check_absent(self) -> None:
        """Refuse options of a file where there is none."""
        for name in self.changed():
            raise ValueError(f"{self.declared()[name].param_decls[0]} goes with a file of bags: give one with --from")


@app.command(rich_help_panel=OWN_BAGS)
@with_options
def plan(
    *,
    n: int = typer.Option(None, "--samples", "-n", help="n, bags at hand [those of the file]."),
    d: int = typer.Option(None, "--dimension", "-d", help="d, dimension of a token."),
    criterion: str = _CRITERION,
    target: float = typer.Option(
        None, "--target", "--target-error", help="Value of the criterion that the inverse questions aim at."
    ),
    own: OwnBags,
    task: TaskOptions,
    loss: str = LOSS,
    ask: list[str] = typer.Option(
        ["all"], "--ask", help="samples, strength, length (with --target), crossing, all or none; repeatable."
    ),
    curve: bool = rare(False, "--curve", help="Predict the learning curves too (implied by --plot)."),
    json_file: Path = _JSON,
    plot: Path = typer.Option(
        None, "--plot", help="Picture of the learning curves (.png, .svg or .pdf).", rich_help_panel="Output"
    ),
    modules: list[Path] = MODULES,
) -> None:
    """Say what to do with n bags of d-dimensional tokens, and what to expect.

    With --from, measure the learner that `fit` uses on parts of your bags, and say how good it is now, what more bags would
    bring, and how many your target needs.

    Example: sparsetoken plan --from bags.csv --target 0.05
    """
    from .._core.files import check_apart, check_ending, check_writable
    from ..planning import plan as make_plan
    from ..planning.plan import CROSSING, CURVE, OF_TARGET
    from ..plotting.show import ENDINGS, write_picture
    from .console import deliver, write_json

    check_apart((json_file, plot), (own.source, own.labels))
    check_writable(json_file)
    check_ending(json_file, ".json")
    check_writable(plot, endings=ENDINGS)
    wanted: dict[str, Any] = {"criterion": criterion, "target": target}
    made: Any
    if own.source is None:
        own.check_absent()
        if n is None or d is None:
            raise ValueError("give the number of bags with -n and the tokens' dimension with -d, or a file with --from")
        questions = {name for name in ask if name not in ("all", "none")}
        if "all" in ask:
            questions |= {CROSSING, *(() if target is None else OF_TARGET)}
        if curve or plot is not None:
            questions.add(CURVE)
        with _stages() as say:
            made = make_plan(task.task(), n, d, loss=loss, questions=questions, progress=say, **wanted)
    else:
        for name in (*task.changed(), *(["loss"] if loss != LOSS.default else []), *(["dimension"] if d else [])):
            option = name.replace("_", "-")
            raise ValueError(
                f"--{option} does not go with --from, which takes the file's bags as they are: leave it out"
            )
        with _stages() as say:
            made = own.plan(n, progress=say, **wanted)
    files: list[tuple[Path | None, Callable[[Path], None]]] = [
        (json_file, lambda path: write_json(path, made.to_dict())),
        (plot, lambda path: write_picture(path, made.figure())),
    ]
    deliver(lambda: echo_text(str(made)), files)


@app.command(rich_help_panel=OWN_BAGS)
@with_options
def solve(
    *,
    unknown: str = typer.Option(
        None, "--for", help="n, d, error, strength, length, sparsity or prevalence [what is not given of n, error]."
    ),
    n: int = typer.Option(None, "--samples", "-n", help="n, bags to learn from."),
    d: int = typer.Option(None, "--dimension", "-d", help="d, dimension of a token; without it the answer is n/d."),
    target: float = typer.Option(None, "--target", "--target-error", help="Value of the criterion aimed at."),
    criterion: str = _CRITERION,
    learner: str = typer.Option(
        "attention", help="attention, pooled, vectorized, message_passing or optimal (the Bayes limit)."
    ),
    task: TaskOptions,
    loss: str = LOSS,
    json_file: Path = _JSON,
    modules: list[Path] = MODULES,
) -> int:
    """Power analysis: the number of bags that a target needs, or whichever quantity --for names.

    The exit code is 1 where there is no solution.

    Example: sparsetoken solve --target 0.05 -d 100
    """
    from .._core.files import check_ending, check_writable
    from ..planning.solve import solve as solve_for
    from .console import deliver, write_json

    check_writable(json_file)
    check_ending(json_file, ".json")
    if unknown is None:
        if n is not None and target is not None:
            raise ValueError("nothing is left to solve for: leave out -n or --target, or say with --for what is wanted")
        unknown = "error" if target is None and n is not None else "n"
    sizes: dict[str, Any] = {"n": n, "d": d, "target": target}
    with _stages() as say:
        say("solving")
        found = solve_for(task.task(), unknown, learner=learner, criterion=criterion, loss=loss, **sizes)
    deliver(lambda: echo_text(str(found)), [(json_file, lambda path: write_json(path, found.to_dict()))])
    return 0 if found.solved else 1


@app.command("test-size", rich_help_panel=OWN_BAGS)
def size_of_test(
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
    """Bags to test on, for an error rate known to a wanted width or to tell two classifiers apart (exact).

    Example: sparsetoken test-size --error 0.1 --width 0.04
    """
    from ..planning.evaluation_sizes import error_interval, sample_size_for_comparison, sample_size_for_error

    if (width is None) == (versus is None):
        raise ValueError("give either --width or --versus")
    level = f"{100 * confidence:g} %"
    if width is not None:
        m = sample_size_for_error(error, width, confidence)
        low, high = error_interval(round(error * m), m, confidence)
        echo_text(
            f"{m:,} test bags: an error of {error:g} is then known to lie between {low:.4g} and {high:.4g} ({level} interval)."
        )
        return
    m = sample_size_for_comparison(error, versus, power, confidence, disagreement)
    echo_text(
        f"{m:,} test bags, the same for both: the exact McNemar test at {level} confidence then tells errors of "
        f"{error:g} and {versus:g} apart with probability {power:g}."
    )


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

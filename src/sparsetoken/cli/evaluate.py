"""`evaluate`: learners and baselines compared on a file of bags by cross-validation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from . import app
from .bag_files import (
    BAG,
    FILE,
    GROUPS,
    IGNORE,
    KEY,
    LABEL,
    LABELS,
    LITERAL,
    SKIP,
    TASK,
    TOKEN_LABEL,
    is_regression,
)

_PICTURES = (".png", ".svg", ".pdf")


@app.command()
def evaluate(
    file: Path = FILE,
    bag: str = BAG,
    label: str = LABEL,
    labels: Path = LABELS,
    ignore: list[str] = IGNORE,
    token_label: str = TOKEN_LABEL,
    literal_ids: bool = LITERAL,
    key: str = KEY,
    skip_unmatched: bool = SKIP,
    groups: str = GROUPS,
    task: str = TASK,
    model: list[str] = typer.Option([], "--model", "-m", help="Learner to evaluate; repeatable (default: all)."),
    folds: int = typer.Option(10, "--folds", help="Folds of each cross-validation."),
    repeats: int = typer.Option(5, "--repeats", help="Repetitions with fresh folds."),
    seed: int = typer.Option(0, "--seed", help="Seed of the folds."),
    plot: Path = typer.Option(None, "--plot", help="Picture to write (.png, .svg or .pdf)."),
    csv: Path = typer.Option(None, "--csv", help="Table to write."),
) -> None:
    """Repeated stratified cross-validation of all learners and of simple baselines."""
    from .._core.files import check_apart, check_writable
    from .._core.validation import whole_number
    from ..bags.files import read_bags
    from ..estimators.evaluation import Evaluation, stratified_splits
    from ..estimators.evaluation import evaluate as cross_validate
    from ..estimators.learners import MAJORITY, chosen_learners
    from .console import deliver, print_table, with_error, write_csv
    from .words import verdict_in_words

    check_writable(plot, endings=_PICTURES)
    check_writable(csv)
    check_apart((plot, csv), (file, labels))
    whole_number("seed", seed, 0)
    read = read_bags(
        file,
        bag,
        label,
        token_label=token_label,
        ignore=ignore,
        labels_file=labels,
        literal_ids=literal_ids,
        key=key,
        skip_unmatched=skip_unmatched,
        groups=groups,
    )
    assert read.labels is not None
    if is_regression(task, read.labels):
        _evaluate_regression(file, read, model, folds, whole_number("repeats", repeats, 1), seed, plot, csv)
        return
    makers = chosen_learners(model, read.bags)
    splits = stratified_splits(read.labels, folds, whole_number("repeats", repeats, 1), seed, read.groups)
    found: list[Evaluation] = []
    with _bar("cross-validating", len(makers) * folds * repeats) as advance:
        for step in cross_validate(read.bags, read.labels, makers, splits, read.token_labels, read.groups):
            if step is None:
                advance()
            else:
                found.append(step)
    tokens = any(e.token_auc == e.token_auc for e in found)
    columns = ["learner", "accuracy", "AUC", "log loss", *(["token AUC"] if tokens else []), "CPU s per fit"]
    rows = [
        [
            e.learner,
            with_error(e.accuracy, e.accuracy_error),
            with_error(e.auc, e.auc_error),
            with_error(e.log_loss, e.log_loss_error),
            *([f"{e.token_auc:.3f}" if e.token_auc == e.token_auc else "-"] if tokens else []),
            f"{e.fit_seconds:.2g}",
        ]
        for e in found
    ]
    title = f"{file.name}: {read.bags}; {repeats} x {folds}-fold cross-validation, mean ± s.e. over bags"
    numbers = [{k: v for k, v in vars(e).items() if k != "scores"} for e in found]

    def show() -> None:
        print_table(title, columns, rows)
        for line in verdict_in_words(found, MAJORITY):
            print(line)

    deliver(
        show,
        [(csv, lambda path: write_csv(path, numbers)), (plot, lambda path: _draw(found, title, path))],
    )


def _evaluate_regression(
    file: Path, read: Any, names: list[str], folds: int, repeats: int, seed: int, plot: Path | None, csv: Path | None
) -> None:
    """As `evaluate`, for labels that are numbers."""
    from ..estimators.learners import chosen_regressors
    from ..estimators.regression_evaluation import RegressionEvaluation, evaluate_regression, regression_splits
    from .console import deliver, print_table, with_error, write_csv
    from .words import regression_verdict_in_words

    makers = chosen_regressors(names)
    splits = regression_splits(read.labels.astype(float), folds, repeats, seed, read.groups)
    found: list[RegressionEvaluation] = []
    with _bar("cross-validating", len(makers) * folds * repeats) as advance:
        for step in evaluate_regression(read.bags, read.labels, makers, splits, read.groups):
            if step is None:
                advance()
            else:
                found.append(step)
    title = f"{file.name}: {read.bags}; {repeats} x {folds}-fold cross-validation, mean ± s.e. over bags"
    columns = ["learner", "R²", "RMSE", "mean absolute error", "CPU s per fit"]
    rows = [
        [
            e.learner,
            with_error(e.r2, e.r2_error),
            f"{e.rmse:.4g}",
            f"{e.mae:.4g} ± {e.mae_error:.2g}",
            f"{e.fit_seconds:.2g}",
        ]
        for e in found
    ]
    numbers = [{k: v for k, v in vars(e).items() if k != "predictions"} for e in found]

    def show() -> None:
        print_table(title, columns, rows)
        for line in regression_verdict_in_words(found):
            print(line)

    deliver(
        show,
        [
            (csv, lambda path: write_csv(path, numbers)),
            (plot, lambda path: _draw(found, title, path, (("r2", "R²"), ("mae", "mean absolute error")))),
        ],
    )


def _bar(words: str, total: int) -> Any:
    """A context that gives a function to call after every step; a bar on standard error where that is a terminal."""
    from contextlib import contextmanager

    from rich.console import Console
    from rich.progress import Progress

    @contextmanager
    def shown():
        with Progress(console=Console(stderr=True), disable=not Console(stderr=True).is_terminal) as progress:
            task = progress.add_task(words, total=total)
            yield lambda: progress.advance(task)

    return shown()


def _draw(
    found: list[Any],
    title: str,
    path: Path,
    fields: tuple[tuple[str, str], ...] = (("accuracy", "accuracy"), ("auc", "AUC")),
) -> None:
    """Two measures (attribute, name) of every learner with their standard errors."""
    from io import BytesIO

    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from .._core.files import write_bytes
    from ..plotting.style import MEASURED

    figure = Figure(figsize=(8.5, 1.6 + 0.38 * len(found)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(1, 2, sharey=True)
    places = list(range(len(found)))[::-1]
    for axis, (field, name) in zip(axes, fields):
        values = [getattr(e, field) for e in found]
        errors = [getattr(e, f"{field}_error") for e in found]
        axis.errorbar(values, places, xerr=errors, fmt="o", capsize=3, color=MEASURED)
        axis.set_xlabel(f"{name}, held out (mean ± s.e.)")
        axis.grid(axis="x", alpha=0.3)
    axes[0].set_yticks(places, [f"{e.learner}  ({e.fit_seconds:.2g} s)" for e in found])
    figure.suptitle(title.replace("; ", "\n"), fontsize=9)
    buffer = BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "sparsetoken"}):
        figure.savefig(buffer, format=path.suffix.lstrip(".").lower(), dpi=150)
    write_bytes(path, buffer.getvalue())

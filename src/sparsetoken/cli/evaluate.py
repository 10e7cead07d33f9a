"""`evaluate`: learners and baselines compared on a file of bags by cross-validation."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import typer

from . import app
from .bag_files import LabelledBags, is_regression
from .option_blocks import with_blocks


@app.command()
@with_blocks
def evaluate(
    given: LabelledBags,
    model: list[str] = typer.Option([], "--model", "-m", help="Learner to evaluate; repeatable (default: all)."),
    folds: int = typer.Option(10, "--folds", help="Folds of each cross-validation."),
    repeats: int = typer.Option(5, "--repeats", help="Repetitions with fresh folds."),
    seed: int = typer.Option(0, "--seed", help="Seed of the folds."),
    plot: Path = typer.Option(None, "--plot", help="Picture to write (.png, .svg or .pdf)."),
    csv: Path = typer.Option(None, "--csv", help="Table to write."),
) -> None:
    """Repeated stratified cross-validation of all learners and of simple baselines."""
    from .._core.files import check_apart, check_ending, check_writable
    from .._core.validation import whole_number
    from ..plotting.pictures import ENDINGS
    from .console import deliver, print_table, write_csv

    check_writable(plot, endings=ENDINGS)
    check_writable(csv)
    check_apart((plot, csv), (given.file, given.labels))
    check_ending(csv, ".csv")
    whole_number("seed", seed, 0)
    read = given.read()
    assert read.labels is not None
    compare = _regressors if is_regression(given.task, read.labels) else _classifiers
    compared = compare(read, model, folds, whole_number("repeats", repeats, 1), seed)
    title = f"{given.file.name}: {read.bags}; {repeats} x {folds}-fold cross-validation, mean ± s.e. over bags"
    # Held-out scores and predictions of all bags are no part of the table.
    numbers = [{k: v for k, v in vars(e).items() if k not in ("scores", "predictions")} for e in compared.found]

    def show() -> None:
        print_table(title, compared.columns, compared.rows)
        for line in compared.verdict:
            print(line)

    deliver(
        show,
        [
            (csv, lambda path: write_csv(path, numbers)),
            (plot, lambda path: _draw(compared.found, title, path, compared.drawn)),
        ],
    )


class _Comparison(NamedTuple):
    """Learners compared: their results, the printed table, the last lines, and the two measures (attribute, name) drawn."""

    found: list[Any]
    columns: list[str]
    rows: list[list[str]]
    verdict: list[str]
    drawn: tuple[tuple[str, str], tuple[str, str]]


def _classifiers(read: Any, names: list[str], folds: int, repeats: int, seed: int) -> _Comparison:
    from .._core.words import with_error
    from ..estimators.evaluation import evaluate as cross_validate
    from ..estimators.evaluation import stratified_splits
    from ..estimators.learners import MAJORITY, chosen_learners
    from .words import verdict_in_words

    makers = chosen_learners(names, read.bags)
    splits = stratified_splits(read.labels, folds, repeats, seed, read.groups)
    steps = cross_validate(read.bags, read.labels, makers, splits, read.token_labels, read.groups)
    found = _finished(steps, len(makers) * folds * repeats)
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
    return _Comparison(
        found, columns, rows, verdict_in_words(found, MAJORITY), (("accuracy", "accuracy"), ("auc", "AUC"))
    )


def _regressors(read: Any, names: list[str], folds: int, repeats: int, seed: int) -> _Comparison:
    from .._core.words import with_error
    from ..estimators.learners import chosen_regressors
    from ..estimators.regression_evaluation import evaluate_regression, regression_splits
    from .words import regression_verdict_in_words

    makers = chosen_regressors(names)
    splits = regression_splits(read.labels.astype(float), folds, repeats, seed, read.groups)
    steps = evaluate_regression(read.bags, read.labels, makers, splits, read.groups)
    found = _finished(steps, len(makers) * folds * repeats)
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
    drawn = (("r2", "R²"), ("mae", "mean absolute error"))
    return _Comparison(found, columns, rows, regression_verdict_in_words(found), drawn)


def _finished(steps: Iterator[Any], total: int) -> list[Any]:
    """The results among the steps of an evaluation, with a bar that advances by every fit (a step that is None)."""
    from .._core.progress import progress

    found = []
    with progress() as add:
        advance = add("cross-validating", total)
        for step in steps:
            if step is None:
                advance(1)
            else:
                found.append(step)
    return found


def _draw(found: list[Any], title: str, path: Path, fields: tuple[tuple[str, str], tuple[str, str]]) -> None:
    """Two measures (attribute, name) of every learner with their standard errors."""
    from ..plotting.pictures import write_picture
    from ..plotting.show import new_figure
    from ..plotting.style import MEASURED

    figure = new_figure((8.5, 1.6 + 0.38 * len(found)))
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
    write_picture(path, figure)

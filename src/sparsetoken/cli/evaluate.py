"""`evaluate`: learners and baselines compared on a file of bags by cross-validation."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import typer

from . import OWN_BAGS, app
from .bag_files import LabelledBags, is_regression
from .console import deliver, echo, echo_text, print_table
from .options import SEED, DrawnFiles, with_options

WORTH_SAYING = 60.0  # seconds: a learner that takes longer is announced after its first fit


@app.command(rich_help_panel=OWN_BAGS)
@with_options
def evaluate(
    *,
    given: LabelledBags,
    model: list[str] = typer.Option([], "--model", "-m", help="Learner to evaluate; repeatable [all]."),
    folds: int = typer.Option(10, "--folds", help="Folds of each cross-validation."),
    repeats: int = typer.Option(5, "--repeats", help="Repetitions with fresh folds."),
    seed: int = SEED,
    files: DrawnFiles,
) -> None:
    """Repeated stratified cross-validation of all learners and of simple baselines.

    Example: sparsetoken evaluate bags.csv --folds 5 --repeats 2 -m bag-classifier -m "mean-pool LR"
    """
    from .._core.validation import whole_number

    files.check((given.file, given.labels))
    whole_number("seed", seed, 0)
    read = given.read_from(given.file)
    compare = _regressors if is_regression(given.task, read.labels) else _classifiers
    compared = compare(given, read, model, (folds, whole_number("repeats", repeats, 1), seed))
    title = (
        f"{given.file.name}: {read.bags}; {repeats} x {folds}-fold cross-validation, mean ± standard error over bags"
    )
    # Held-out scores and predictions of all bags are no part of the table.
    aside = ("scores", "predictions", "codes")
    numbers = [{k: v for k, v in vars(e).items() if k not in aside} for e in compared.found]

    def show() -> None:
        echo_text("\n".join(compared.verdict))
        print_table(title, compared.columns, compared.rows)

    deliver(show, files.writers(numbers, numbers, lambda path: _draw(compared.found, title, path, compared.drawn)))


class _Comparison(NamedTuple):
    """Learners compared: results, printed table, the answer in words, and the two measures (attribute, name) drawn."""

    found: list[Any]
    columns: list[str]
    rows: list[list[str]]
    verdict: list[str]
    drawn: tuple[tuple[str, str], tuple[str, str]]


def _classifiers(given: LabelledBags, read: Any, names: list[str], plan: tuple[int, int, int]) -> _Comparison:
    from .._core.averages import with_error
    from ..estimators.evaluation import evaluate as cross_validate
    from ..estimators.evaluation import stratified_splits
    from ..estimators.learners import MAJORITY, chosen_learners
    from .words import verdict_in_words

    bags, makers = _prepared(given, read.bags, chosen_learners(names, read.bags))
    tokens_labelled = None if given.missing == "drop-token" else read.token_labels
    splits = stratified_splits(read.labels, *plan, read.groups)
    steps = cross_validate(bags, read.labels, makers, splits, tokens_labelled, read.groups)
    found = sorted(_finished(steps, len(makers), len(splits) * plan[0]), key=lambda e: (-e.accuracy, -e.auc))
    tokens = any(e.token_auc == e.token_auc for e in found)
    columns = ["learner", "accuracy", "AUC", "log loss", *(["token AUC"] if tokens else []), "CPU s"]
    rows = [
        [
            e.learner,
            with_error(e.accuracy, e.accuracy_error),
            with_error(e.auc, e.auc_error),
            f"{e.log_loss:.3f}",
            *([f"{e.token_auc:.3f}" if e.token_auc == e.token_auc else "-"] if tokens else []),
            f"{e.fit_seconds:.2g}",
        ]
        for e in found
    ]
    return _Comparison(
        found, columns, rows, verdict_in_words(found, MAJORITY), (("accuracy", "accuracy"), ("auc", "AUC"))
    )


def _regressors(given: LabelledBags, read: Any, names: list[str], plan: tuple[int, int, int]) -> _Comparison:
    from .._core.averages import with_error
    from ..estimators.evaluation import evaluate_regression, regression_splits
    from ..estimators.learners import chosen_regressors
    from .words import regression_verdict_in_words

    bags, makers = _prepared(given, read.bags, chosen_regressors(names))
    splits = regression_splits(read.labels.astype(float), *plan, read.groups)
    steps = evaluate_regression(bags, read.labels, makers, splits, read.groups)
    found = sorted(_finished(steps, len(makers), len(splits) * plan[0]), key=lambda e: -e.r2)
    columns = ["learner", "R²", "RMSE", "mean absolute error", "CPU s"]
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


def _prepared(given: LabelledBags, bags: Any, makers: Mapping[str, Callable[[], Any]]) -> tuple[Any, dict[str, Any]]:
    """Bags and learners with what is to be done about missing values."""
    if given.missing != "impute":  # tokens are left out for all learners, the baselines included
        from ..bags.missing import without_missing

        return (without_missing(bags, given.missing) if given.missing == "drop-token" else bags), dict(makers)
    return bags, {name: partial(_made, given, name, make) for name, make in makers.items()}


def _made(given: LabelledBags, name: str, make: Callable[[], Any]) -> Any:
    return given.prepared(name, make())


def _finished(steps: Iterator[Any], learners: int, fits: int) -> list[Any]:
    """The results among the steps of an evaluation, with a bar that advances by every fit (a step that is None).

    After the first fit of each learner standard error says how long all of its fits will take, where that is long.
    """
    from .._core.progress import progress

    found: list[Any] = []
    begun, done = time.monotonic(), 0
    with progress() as add:
        advance = add("cross-validating", learners * fits)
        for step in steps:
            if step is not None:
                found.append(step)
                begun, done = time.monotonic(), 0
                continue
            advance(1)
            done += 1
            seconds = (time.monotonic() - begun) * fits
            if done == 1 and seconds > WORTH_SAYING:
                place = f"learner {len(found) + 1} of {learners}"
                echo(f"{place}: about {seconds / 60:.0f} min for {fits} fits (fewer with --folds, --repeats)", err=True)
    return found


def _draw(found: list[Any], title: str, path: Path, fields: tuple[tuple[str, str], tuple[str, str]]) -> None:
    """Two measures (attribute, name) of every learner with their standard errors."""
    from ..plotting.show import new_figure, write_picture
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

"""`fit`, `predict`, `evaluate`, `explain`: the learners on one's own files of bags."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from ..estimators.learners import DEFAULT, DEFAULT_REGRESSOR, LEARNERS, REGRESSORS
from . import app
from .console import echo

_FILE = typer.Argument(
    ...,
    help="Bags, one row per token: .csv, .csv.gz, .parquet or .npz; or a folder (or 'features/*.h5') with one .npy, .npz, "
    ".h5, .pt or .parquet file per bag.",
    show_default=False,
)
_KEY = typer.Option(None, "--key", help="Array of features, where the files of a folder hold several.")
_SKIP = typer.Option(False, "--skip-unmatched", help="Leave out files without a label and labels without a file.")
_MODEL = typer.Argument(..., help="Model file written by `sparsetoken fit`.", show_default=False)
_BAG = typer.Option("bag_id", "--bag", help="Column with the bag ids.")
_SAME_BAG = typer.Option(None, "--bag", help="Column with the bag ids [the one that `fit` was given].")
_LABEL = typer.Option("label", "--label", help="Column with the labels.")
_LABELS = typer.Option(
    None, "--labels", help="Table with one row per bag (bag id, label), where labels are kept apart."
)
_IGNORE = typer.Option([], "--ignore", help="Column that is not a feature; repeatable.")
_LITERAL = typer.Option(False, "--literal-ids", help="Take bag ids such as NA, null or nan as they stand.")
_EXECUTOR = typer.Option("local", "--executor", help="Where sums over a folder's bags are computed: local or dask.")
_SCHEDULER = typer.Option(None, "--scheduler", help="Address of the Dask scheduler, such as tcp://127.0.0.1:8786.")
_TO_FIT = [name for name, learner in LEARNERS.items() if not learner.baseline]
_TASK = typer.Option("auto", "--task", help="classification, regression, or auto: as the labels suggest.")
_TOKEN_LABEL = typer.Option(
    "instance_label", "--token-label", help="Column with labels of single tokens, never a feature; may be absent."
)
_PICTURES = (".png", ".svg", ".pdf")
_CLASS_WEIGHT = typer.Option(None, "--class-weight", help="'balanced' counts all classes alike.")
_GROUPS = typer.Option(
    None,
    "--groups",
    help="Column with the groups of the bags, such as patients: a group stays on one side of every split.",
)


@app.command()
def fit(
    file: Path = _FILE,
    out: Path = typer.Option(..., "--out", "-o", help="Model file to write (.skops).", show_default=False),
    bag: str = _BAG,
    label: str = _LABEL,
    labels: Path = _LABELS,
    ignore: list[str] = _IGNORE,
    token_label: str = _TOKEN_LABEL,
    literal_ids: bool = _LITERAL,
    key: str = _KEY,
    skip_unmatched: bool = _SKIP,
    groups: str = _GROUPS,
    task: str = _TASK,
    model: str = typer.Option(
        None,
        "--model",
        "-m",
        help=f"{', '.join(_TO_FIT)}; for a regression {DEFAULT_REGRESSOR} (default: {DEFAULT} or {DEFAULT_REGRESSOR}).",
    ),
    class_weight: str = _CLASS_WEIGHT,
    seed: int = typer.Option(0, "--seed", help="Seed of splits, folds and landmarks."),
    executor: str = _EXECUTOR,
    scheduler: str = _SCHEDULER,
    verbose: bool = typer.Option(False, "--verbose", "-v", help="Print all that the fit records about itself."),
) -> None:
    """Fit a classifier or regressor to a file of bags and write it to a model file."""
    from .._core.files import check_apart, check_writable
    from .._core.validation import whole_number
    from ..bags.files import read_bags
    from ..estimators.persistence import save_model
    from .console import deliver
    from .words import details, fit_in_words

    check_writable(out)
    check_apart((out,), (file, labels))
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
        executor=_checked_executor(executor, scheduler),
        scheduler=scheduler,
    )
    assert read.labels is not None
    regression = _is_regression(task, read.labels)
    lowest, highest = (read.labels.min(), read.labels.max()) if regression else (0.0, 0.0)
    name = model or (DEFAULT_REGRESSOR if regression else DEFAULT)
    estimator = _learner(name, regression, class_weight, seed)
    with _waiting(f"fitting {name} to {len(read.bags)} bags"):
        _fit_aloud(estimator, read)
    estimator.bag_column_ = bag  # `predict` and `explain` look for it in their files
    written: list[Path] = []

    def write(path: Path) -> None:
        save_model(path, estimator)
        written.append(path)

    def show() -> None:
        what = (
            f"labels from {lowest:g} to {highest:g}"
            if regression
            else f"classes {', '.join(str(c) for c in estimator.classes_)}"
        )
        print(f"{read.bags}, {what}")
        found = estimator.diagnostics_
        classes = None if regression else estimator.classes_
        for line in details(found) if verbose else fit_in_words(found, classes):
            print(line)
        if out in written:
            print(f"model written to {out}")

    deliver(show, [(out, write)])


@app.command()
def predict(
    model: Path = _MODEL,
    file: Path = _FILE,
    bag: str = _SAME_BAG,
    literal_ids: bool = _LITERAL,
    key: str = _KEY,
    out: Path = typer.Option(None, "--out", "-o", help="CSV file to write (default: standard output)."),
    executor: str = _EXECUTOR,
    scheduler: str = _SCHEDULER,
) -> None:
    """Predict the label of every bag of a file, and the probability of the second class (of all, if there are more)."""
    import pandas as pd

    from .._core.files import check_apart, check_writable, write_bytes
    from ..estimators.persistence import load_model
    from .console import deliver

    check_writable(out)
    check_apart((out,), (model, file))
    estimator = load_model(model)
    bag = bag or _bag_column(estimator)
    read = _read_for(estimator, file, bag, literal_ids, key, executor=executor, scheduler=scheduler)
    with _waiting(f"predicting {len(read.bags)} bags"):
        if not hasattr(estimator, "classes_"):
            _deliver_numbers(estimator, read, bag, out)
            return
        probability = estimator.predict_proba(read.bags)
    if len(estimator.classes_) == 2:
        likeliest, given = (probability[:, 1] > 0.5).astype(int), [1]
    else:
        likeliest, given = probability.argmax(axis=1), list(range(len(estimator.classes_)))
    table = pd.DataFrame(
        {
            bag: read.bags.ids,
            "prediction": estimator.classes_[likeliest],
            **{f"probability_{estimator.classes_[k]}": probability[:, k].round(6) for k in given},
        }
    )

    def show() -> None:
        if out is None:
            echo(_as_csv(table), end="")
        if read.labels is not None and set(read.labels) <= set(estimator.classes_):
            right = float((table["prediction"].to_numpy() == read.labels).mean())
            echo(f"accuracy on the {len(read.bags)} labelled bags: {right:.4f}", err=True)

    deliver(show, [(out, lambda path: write_bytes(path, _as_csv(table).encode()))])


@app.command()
def evaluate(
    file: Path = _FILE,
    bag: str = _BAG,
    label: str = _LABEL,
    labels: Path = _LABELS,
    ignore: list[str] = _IGNORE,
    token_label: str = _TOKEN_LABEL,
    literal_ids: bool = _LITERAL,
    key: str = _KEY,
    skip_unmatched: bool = _SKIP,
    groups: str = _GROUPS,
    task: str = _TASK,
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
    if _is_regression(task, read.labels):
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


@app.command()
def explain(
    model: Path = _MODEL,
    file: Path = _FILE,
    bag: str = _SAME_BAG,
    token_label: str = _TOKEN_LABEL,
    literal_ids: bool = _LITERAL,
    key: str = _KEY,
    top: int = typer.Option(3, "--top", help="Tokens to show of each bag."),
    bags: int = typer.Option(20, "--bags", help="Bags to show, the likeliest of the class first."),
    of_class: str = typer.Option(
        None,
        "--class",
        help="Class to explain (default: the second of two; each bag's likeliest where there are more).",
    ),
    out: Path = typer.Option(None, "--out", "-o", help="CSV file for the weights and scores of all tokens."),
) -> None:
    """Show which tokens carry the signal: attention weights and token scores."""
    import numpy as np
    import pandas as pd

    from .._core.files import check_apart, check_writable, write_bytes
    from .._core.validation import whole_number
    from ..estimators.calibration import area_under_curve
    from ..estimators.persistence import load_model
    from .console import deliver, print_table

    check_writable(out)
    check_apart((out,), (model, file))
    top = whole_number("top", top, 1)
    estimator = load_model(model)
    if not hasattr(estimator, "token_scores"):
        raise ValueError(f"{type(estimator).__name__} weighs all tokens alike: there is nothing to explain")
    bag = bag or _bag_column(estimator)
    read = _read_for(estimator, file, bag, literal_ids, key, token_label)
    classes = getattr(estimator, "classes_", None)
    if classes is None:
        if of_class is not None:
            raise ValueError("--class goes with a classifier; this model predicts numbers")
        answer, explained = estimator.predict(read.bags), np.ones(len(read.bags), dtype=int)
        name_of_answer, whom = "prediction", "a higher label"
    else:
        probabilities = estimator.predict_proba(read.bags)
        explained = _explained_class(estimator, of_class, probabilities)
        answer = probabilities[np.arange(len(read.bags)), explained]
        name_of_answer = "probability"
        whom = "the class shown" if len(classes) > 2 else f"class {classes[explained[0]]}"
    weights, scores = estimator.attention_weights(read.bags), estimator.token_scores(read.bags)
    lengths = read.bags.lengths
    several = classes is not None and len(classes) > 2
    if several:
        weights, scores = ([values[:, k] for values, k in zip(own, explained)] for own in (weights, scores))
    elif explained[0] == 0:  # what speaks against the second class speaks for the first
        scores = [-values for values in scores]
    table = pd.DataFrame(
        {
            bag: np.repeat(read.bags.ids, lengths),
            **({"class": np.repeat(classes[explained], lengths)} if several else {}),
            "token": np.concatenate([np.arange(n) for n in lengths]),
            "weight": np.concatenate(weights).astype(float).round(6),
            "score": np.concatenate(scores).astype(float).round(6),
            f"bag_{name_of_answer}": np.repeat(answer, lengths).astype(float).round(6),
        }
    )
    rows = []
    for i in np.argsort(-answer, kind="stable")[: max(bags, 0)]:
        best = np.argsort(-scores[i], kind="stable")[:top]
        said = ", ".join(f"{j} (weight {weights[i][j]:.2f}, score {scores[i][j]:+.2f})" for j in best)
        name = [str(classes[explained[i]])] if several else []
        rows.append([str(read.bags.ids[i]), *name, f"{answer[i]:.3f}", str(lengths[i]), said])
    title = f"tokens that speak most for {whom}, counted from 0 within their bag"
    area = None
    if read.token_labels is not None and not several and explained[0] == 1:
        witness = read.token_labels == np.max(read.token_labels)
        if witness.any() and not witness.all():
            area = area_under_curve(np.concatenate(scores), witness)

    def show() -> None:
        columns = [bag, *(["class"] if several else []), name_of_answer, "tokens", "strongest tokens"]
        print_table(title, columns, rows)
        if area is not None:
            print(f"token AUC against column {token_label!r}: {area:.4f}")

    deliver(show, [(out, lambda path: write_bytes(path, _as_csv(table).encode()))])


def _is_regression(task: str, labels: Any) -> bool:
    """Whether to predict numbers; an inference that could surprise is said on standard error."""
    from ..estimators.regression_evaluation import DECIMALS, inferred_task

    if task not in ("auto", "classification", "regression"):
        raise ValueError(f"--task must be auto, classification or regression, got {task!r}")
    found, why = inferred_task(labels)
    if task == "auto":
        if found == "regression":
            other = "" if why == DECIMALS else " (--task classification takes every value as a class)"
            echo(f"regression: {why}{other}", err=True)
        return found == "regression"
    if task == "regression" and labels.dtype.kind not in "iuf":
        raise ValueError(f"--task regression needs labels that are numbers, got labels such as {labels[0]!s}")
    if task == "classification" and why == DECIMALS:
        raise ValueError("--task classification needs labels that are whole numbers or text; these have decimals")
    return task == "regression"


def _learner(name: str, regression: bool, class_weight: str | None, seed: int) -> Any:
    known = LEARNERS | REGRESSORS
    allowed = [DEFAULT_REGRESSOR] if regression else _TO_FIT
    if name not in allowed:
        kind = "a regression" if regression else "a classification"
        raise ValueError(f"--model must be one of {', '.join(allowed)} for {kind}, got {name!r}")
    if regression and class_weight is not None:
        raise ValueError("--class-weight goes with a classification; these labels are numbers to predict")
    estimator = known[name].make()
    wanted = {"class_weight": class_weight, "random_state": seed}
    return estimator.set_params(**{k: v for k, v in wanted.items() if k in estimator.get_params()})


def _fit_aloud(estimator: Any, read: Any) -> None:
    """Fit, and say the training warnings as plain lines on standard error."""
    import warnings

    from ..estimators.base import TrainingWarning

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", TrainingWarning)
        estimator.fit(read.bags, read.labels, groups=read.groups)
    for warning in caught:
        if issubclass(warning.category, TrainingWarning):
            echo(f"warning: {warning.message}", err=True)


def _explained_class(estimator: Any, wanted: str | None, probabilities: Any) -> Any:
    """For each bag the number of the class to explain."""
    import numpy as np

    names = [str(label) for label in estimator.classes_]
    if wanted is not None:
        if wanted not in names:
            raise ValueError(f"--class must be one of {', '.join(names)}, got {wanted!r}")
        return np.full(len(probabilities), names.index(wanted))
    return np.ones(len(probabilities), dtype=int) if len(names) == 2 else probabilities.argmax(axis=1)


def _deliver_numbers(estimator: Any, read: Any, bag: str, out: Path | None) -> None:
    """The predictions of a regressor, as `predict` gives them."""
    import sys

    import numpy as np
    import pandas as pd

    from .._core.files import write_bytes
    from .console import deliver

    predicted = estimator.predict(read.bags)
    table = pd.DataFrame({bag: read.bags.ids, "prediction": [f"{value:.6g}" for value in predicted]})

    def show() -> None:
        if out is None:
            echo(_as_csv(table), end="")
        if read.labels is not None and read.labels.dtype.kind in "iuf" and np.var(read.labels) > 0:
            r2 = 1.0 - np.mean((predicted - read.labels) ** 2) / np.var(read.labels)
            print(f"R² on the {len(read.bags)} labelled bags: {r2:.4f}", file=sys.stderr)

    deliver(show, [(out, lambda path: write_bytes(path, _as_csv(table).encode()))])


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


def _read_for(
    estimator: Any,
    file: Path,
    bag: str,
    literal_ids: bool,
    key: str | None,
    token_label: str = "instance_label",
    executor: str = "local",
    scheduler: str | None = None,
) -> Any:
    from ..bags.files import read_bags

    names = getattr(estimator, "feature_names_in_", None)
    return read_bags(
        file,
        bag,
        token_label=token_label,
        need_labels=False,
        features=None if names is None else list(names),
        literal_ids=literal_ids,
        key=key,
        executor=_checked_executor(executor, scheduler),
        scheduler=scheduler,
    )


def _checked_executor(executor: str, scheduler: str | None) -> str:
    """The executor's name, where it goes with the scheduler."""
    if executor not in ("local", "dask"):
        raise ValueError(f"--executor must be local or dask, got {executor!r}")
    if executor == "dask" and scheduler is None:
        raise ValueError("--executor dask needs --scheduler, such as tcp://127.0.0.1:8786")
    if executor == "local" and scheduler is not None:
        raise ValueError("--scheduler belongs to --executor dask")
    return executor


def _bag_column(estimator: Any) -> str:
    """The column of bag ids that the model was fitted with."""
    return getattr(estimator, "bag_column_", "bag_id")


def _as_csv(table: Any) -> str:
    return table.to_csv(index=False, lineterminator="\n")


def _waiting(words: str) -> Any:
    """A spinner on standard error while something runs, where that is a terminal."""
    from contextlib import nullcontext

    from rich.console import Console

    console = Console(stderr=True)
    return console.status(words) if console.is_terminal else nullcontext()


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

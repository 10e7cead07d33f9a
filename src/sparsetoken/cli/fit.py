"""`fit`: a learner on a file or folder of bags, written to a model file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from ..estimators.learners import DEFAULT, DEFAULT_REGRESSOR, LEARNERS, REGRESSORS, check_kind
from . import OWN_BAGS, app
from .bag_files import ClusterOptions, LabelledBags, in_words, is_regression
from .console import check_files, deliver, echo, echo_text, stages
from .options import SEED, with_options

_TO_FIT = [name for name, learner in LEARNERS.items() if not learner.baseline]


@app.command(rich_help_panel=OWN_BAGS)
@with_options
def fit(
    *,
    given: LabelledBags,
    out: Path = typer.Option(..., "--out", "-o", help="Model file to write (.skops).", show_default=False),
    model: str = typer.Option(
        None,
        "--model",
        "-m",
        help=f"{', '.join(_TO_FIT)}; for a regression {DEFAULT_REGRESSOR} [{DEFAULT} or {DEFAULT_REGRESSOR}].",
    ),
    class_weight: str = typer.Option(None, "--class-weight", help="'balanced' counts all classes alike."),
    seed: int = SEED,
    cluster: ClusterOptions,
    verbose: bool = typer.Option(False, "--verbose", "-v", help="Print all that the fit records about itself."),
) -> None:
    """Fit a classifier or regressor to a file of bags and write it to a model file.

    Example: sparsetoken fit bags.csv --label diagnosis --out model.skops
    """
    from .._core.validation import whole_number
    from ..estimators.persistence import save_model

    check_files([(out, ".skops")], (given.file, given.labels))
    whole_number("seed", seed, 0)
    read = given.read_from(given.file, cluster)
    regression = is_regression(given.task, read.labels)
    name = model or (DEFAULT_REGRESSOR if regression else DEFAULT)
    estimator = given.prepared(name, _learner(name, regression, class_weight, seed))
    with stages(f"fitting {name} to {len(read.bags)} bags"):
        _fit_aloud(estimator, read)
    # `predict` and `explain` look for these in their files.
    estimator.bag_column_, estimator.label_column_ = given.bag, given.label
    said = "\n".join(_said(estimator, read, verbose))
    deliver(lambda: echo_text(said), [(out, lambda path: save_model(path, estimator), "model")])


def _said(estimator: Any, read: Any, verbose: bool) -> list[str]:
    """How good the model is, then what it was fitted to."""
    from .words import details, fit_in_words

    labels = read.labels
    counts: dict[Any, int] = {}
    if hasattr(estimator, "classes_"):
        counts = {label: int((labels == label).sum()) for label in estimator.classes_}
        what = "classes " + ", ".join(f"{label} ({count})" for label, count in counts.items())
    else:
        what = f"labels from {labels.min():g} to {labels.max():g}"
    lines = details(estimator.diagnostics_) if verbose else fit_in_words(estimator.diagnostics_, counts)
    return [*lines, f"fitted to {in_words(read.bags)}; {what}"]


def _learner(name: str, regression: bool, class_weight: str | None, seed: int) -> Any:
    known = LEARNERS | REGRESSORS
    check_kind(name, regression)
    allowed = [DEFAULT_REGRESSOR] if regression else _TO_FIT
    if name not in allowed:
        if name in known:
            raise ValueError(
                f"{name!r} is a baseline for `evaluate` to compare with; --model takes {', '.join(allowed)}"
            )
        raise ValueError(f"--model must be one of {', '.join(allowed)}, got {name!r}")
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
    if read.groups is not None and not any(name.startswith("held_out") for name in estimator.diagnostics_):
        echo("warning: the groups allow no bag to be held out, so nothing says how good the model is", err=True)
    for warning in caught:
        if issubclass(warning.category, TrainingWarning):
            echo(f"warning: {warning.message}", err=True)

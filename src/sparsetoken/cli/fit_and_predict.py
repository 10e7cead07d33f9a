"""`fit` and `predict`: from a file or folder of bags to a model file, and from that to labels or numbers for new bags."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .._core.validation import as_float, whole_number
from ..estimators.learners import DEFAULT, DEFAULT_REGRESSOR, LEARNERS, REGRESSORS, check_kind
from .bag_files import TABLES, BagsForModel, ClusterOptions, LabelledBags, id_column, in_words, is_regression
from .options import OWN_BAGS, SEED, command, option
from .printing import check_files, deliver, echo, echo_text, stages

_TO_FIT = [name for name, learner in LEARNERS.items() if not learner.baseline]


@command(OWN_BAGS)
def fit(
    *,
    given: LabelledBags,
    out: Path = option(..., "Model file to write (.skops).", "-o", show_default=False),
    model: str = option(
        None, f"{', '.join(_TO_FIT)}; for a regression {DEFAULT_REGRESSOR} [{DEFAULT} or {DEFAULT_REGRESSOR}].", "-m"
    ),
    class_weight: str = option(None, "'balanced' gives all classes equal weight."),
    seed: int = SEED,
    cluster: ClusterOptions,
    verbose: bool = option(False, "Print all diagnostics of the fit.", "-v"),
) -> None:
    """Fit a classifier or regressor to a file of bags and write it to a model file.

    Example: sparsetoken fit bags.csv --label diagnosis --out model.skops
    """
    from ..estimators.persistence import save_model

    check_files([(out, ".skops")], (given.file, given.labels))
    whole_number("seed", seed, 0)
    read = given.read_from(given.file, cluster)
    regression = is_regression(given.task, read.labels)
    name = model or (DEFAULT_REGRESSOR if regression else DEFAULT)
    estimator = given.prepared(name, _learner(name, regression, class_weight, seed))
    positive = given.positive_of(read.labels)
    if positive is not None:
        if "positive_label" not in estimator.get_params():
            raise ValueError(f"--positive-label goes with learners that look for a signal; {name} does not")
        estimator.set_params(positive_label=positive)
    with stages(f"fitting {name} to {len(read.bags)} bags"):
        estimator.fit(read.bags, read.labels, groups=read.groups)
    if read.groups is not None and not any(name.startswith("held_out") for name in estimator.diagnostics_):
        echo("warning: the groups allow no bag to be held out, so the model's accuracy is unknown", err=True)
    # `predict` and `explain` look for these in their files.
    estimator.bag_column_, estimator.label_column_ = given.bag, given.label
    report = "\n".join(_said(estimator, read, verbose))
    deliver(lambda: echo_text(report), [(out, lambda path: save_model(path, estimator), "model")])


def _said(estimator: Any, read: Any, verbose: bool) -> list[str]:
    """How good the model is, then what it was fitted to."""
    labels = read.labels
    counts: dict[Any, int] = {}
    if hasattr(estimator, "classes_"):
        counts = {label: int((labels == label).sum()) for label in estimator.classes_}
        what = "classes " + ", ".join(f"{label} ({count})" for label, count in counts.items())
    else:
        what = f"labels from {labels.min():g} to {labels.max():g}"
    given = getattr(estimator, "positive_label", None) is not None
    diagnostics = estimator.diagnostics_
    lines = details(diagnostics) if verbose else _fit_in_words(diagnostics, counts, given)
    return [*lines, f"fitted to {in_words(read.bags)}; {what}"]


def _learner(name: str, regression: bool, class_weight: str | None, seed: int) -> Any:
    learners = LEARNERS | REGRESSORS
    check_kind(name, regression)
    allowed = [DEFAULT_REGRESSOR] if regression else _TO_FIT
    if name not in allowed:
        if name in learners:
            raise ValueError(
                f"{name!r} is a baseline for `evaluate` to compare with; --model takes {', '.join(allowed)}"
            )
        raise ValueError(f"--model must be one of {', '.join(allowed)}, got {name!r}")
    if regression and class_weight is not None:
        raise ValueError("--class-weight goes with a classification; these labels are numbers to predict")
    estimator = learners[name].make()
    wanted = {"class_weight": class_weight, "random_state": seed}
    return estimator.set_params(**{k: v for k, v in wanted.items() if k in estimator.get_params()})


def _fit_in_words(diagnostics: Mapping[str, Any], counts: Mapping[Any, int], class_given: bool) -> list[str]:
    """A fit's diagnostics as sentences: held-out results first, training accuracy last. `counts` are the classes' bags;
    `class_given` says whether the user named the class with the signal."""
    finite = {name: value for name, value in diagnostics.items() if as_float(value) is not None}
    areas = {
        label: as_float(of_class.get("held_out_auc")) for label, of_class in diagnostics.get("per_class", {}).items()
    }
    lines, signal_found = _held_out(finite, areas, counts), diagnostics.get("signal_found")
    if signal_found is not None:
        better, worse = "better than chance: there is a signal", "no better than chance: do not rely on the predictions"
        lines.append(f"this is {better if signal_found else worse}")
    if signal_found and diagnostics.get("either_class"):
        lines.append("bags of either class may carry the signal: held-out bags do not decide, --positive-label does")
    elif signal_found and "signal_class" in diagnostics and not class_given:
        held_out = "either_class" in diagnostics
        how = "seem to carry the signal (decided on held-out bags)"
        untested = "are taken to carry the signal (not tested; --positive-label changes it)"
        lines.append(f"bags of class {diagnostics['signal_class']} {how if held_out else untested}")
    if {"strength", "sparsity"} <= set(finite):
        count, strength = finite["sparsity"], finite["strength"]
        lines.append(f"estimated: {count:.3g} signal tokens per positive bag, of strength {strength:.3g}")
    if diagnostics.get("converged") is False:
        reason = diagnostics.get("ended")
        lines.append(f"training stopped before it converged{f': {reason}' if reason else ''}")
    if "training_error" in finite:
        lines.append(f"training accuracy {1 - finite['training_error']:.1%} (on new bags, expect the held-out error)")
    return lines


def _held_out(finite: Mapping[str, float], areas: Mapping[Any, float | None], counts: Mapping[Any, int]) -> list[str]:
    """How good the model is on bags that it was not trained on; nothing where none could be held out."""
    ending = f", log loss {finite['held_out_log_loss']:.3g}" if "held_out_log_loss" in finite else ""
    if {"held_out_r2", "held_out_rmse"} <= set(finite):
        return [f"held-out R² {finite['held_out_r2']:.3f}, typical error {finite['held_out_rmse']:.3g}"]
    if "held_out_accuracy" in finite:
        known_areas = {label: area for label, area in areas.items() if area is not None}
        macro = (
            f", macro AUC {sum(known_areas.values()) / len(known_areas):.3f}"
            if len(known_areas) == len(areas) > 0
            else ""
        )
        error = f"held-out error {1 - finite['held_out_accuracy']:.1%} with {finite['classes']} classes"
        each = ", ".join(f"{label} {area:.3f}" for label, area in known_areas.items())
        return [f"{error}{macro}{ending}", *([f"AUC of each class against the others: {each}"] if each else [])]
    if "held_out_auc" not in finite:
        return []
    area, interval = finite["held_out_auc"], ""
    if len(counts) == 2:
        from ..estimators.evaluation import area_error, auc_interval

        low, high = auc_interval(area, area_error(area, *counts.values()), min(counts.values()))
        interval = f" (95% interval {low:.3f} to {high:.3f})"
    error = f"held-out error {finite['held_out_error']:.1%}, " if "held_out_error" in finite else ""
    return [f"{error}AUC {area:.3f}{interval}{ending}"]


def details(diagnostics: Mapping[str, Any]) -> list[str]:
    """All diagnostics of a fit, one line per entry."""
    lines = []
    for name, value in diagnostics.items():
        if name == "per_class":
            lines += [f"class {label}: {'; '.join(details(of_class))}" for label, of_class in value.items()]
            continue
        if isinstance(value, Mapping):
            value = [f"{key} {_short(item)}" for key, item in value.items()]
        shown = "; ".join(map(str, value)) if isinstance(value, list) else _short(value)
        lines.append(f"{name.replace('_', ' ')}: {shown}")
    return lines


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


@command(OWN_BAGS)
def predict(
    *,
    given: BagsForModel,
    out: Path = option(None, "File to write: CSV, or .parquet or .json by its ending [standard output].", "-o"),
    cluster: ClusterOptions,
) -> None:
    """Predict the label of every bag of a file, and the probability of the second class (of all, if there are more).

    Where the bags have labels, it also shows accuracy, AUC, log loss and the confusion of the predictions.

    Example: sparsetoken predict model.skops new.csv --label diagnosis --out predictions.csv
    """
    import pandas as pd

    from ..estimators.persistence import load_model
    from ..study.tables import as_csv, write_table

    check_files([(out, TABLES)], (given.model, given.file, given.labels))
    estimator = load_model(given.model)
    read = given.read(estimator, cluster)
    with stages(f"predicting {len(read.bags)} bags"), given.using_model():
        if hasattr(estimator, "classes_"):
            probability = estimator.predict_proba(read.bags)
            columns = _classes(estimator, probability)
            score_lines = _score_of_classes(estimator, probability, columns["prediction"], read.labels)
        else:
            predicted = estimator.predict(read.bags)
            columns = {"prediction": [float(f"{value:.6g}") for value in predicted]}
            score_lines = _score_of_numbers(predicted, read.labels)
    table = pd.DataFrame({id_column(given.bag_column(estimator), columns): read.bags.ids, **columns})

    def show() -> None:
        if out is None:
            echo(as_csv(table).decode(), end="")
        for line in score_lines:
            echo(line, err=True)

    deliver(show, [(out, lambda path: write_table(table, path, ".csv"), f"predictions of {len(read.bags)} bags")])


def _classes(estimator: Any, probability: Any) -> dict[str, Any]:
    """The likeliest class, and the probability of the second of two classes or of all."""
    classes = estimator.classes_
    if len(classes) == 2:
        likeliest, shown = (probability[:, 1] > 0.5).astype(int), [1]
    else:
        likeliest, shown = probability.argmax(axis=1), list(range(len(classes)))
    columns = {f"probability_{classes[k]}": probability[:, k].round(6) for k in shown}
    return {"prediction": classes[likeliest], **columns}


def _score_of_classes(estimator: Any, probability: Any, guess: Any, labels: Any) -> list[str]:
    from sklearn.metrics import confusion_matrix, log_loss, roc_auc_score

    if labels is None:
        return []
    classes = estimator.classes_
    unknown = sorted({str(label) for label in set(labels) - set(classes)})
    if unknown:
        return [f"no accuracy: the model was not trained on the label {unknown[0]!r} of the file"]
    codes = np.searchsorted(classes, labels)
    line = f"accuracy {np.mean(guess == labels):.1%} on {len(labels)} labelled bags"
    present = np.unique(codes)
    if len(classes) == 2 and len(present) == 2:
        line += f", AUC {roc_auc_score(codes, probability[:, 1]):.3f}"
    elif len(present) == len(classes):
        line += f", macro AUC {roc_auc_score(codes, probability, multi_class='ovr', labels=range(len(classes))):.3f}"
    line += f", log loss {log_loss(codes, probability, labels=range(len(classes))):.3g}"
    counts = confusion_matrix(labels, guess, labels=classes)
    rows = [
        f"  {label}: " + ", ".join(f"{n} as {c}" for n, c in zip(row, classes)) for label, row in zip(classes, counts)
    ]
    return [line, "bags of each class, and their predicted classes:", *rows]


def _score_of_numbers(predicted: Any, labels: Any) -> list[str]:
    if labels is None or labels.dtype.kind not in "iuf" or not np.var(labels) > 0:
        return []
    squares, size = np.mean((predicted - labels) ** 2), np.mean(np.abs(predicted - labels))
    return [
        f"R² {1.0 - squares / np.var(labels):.4f} on {len(labels)} labelled bags, typical error {np.sqrt(squares):.4g}, "
        f"mean absolute error {size:.4g}"
    ]

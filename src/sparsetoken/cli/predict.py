"""The command `predict`: labels, probabilities or numbers for new bags, and how good they are where labels are known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .bag_files import TABLES, BagsForModel, ClusterOptions, id_column
from .console import check_files, deliver, echo, stages
from .options import OWN_BAGS, command, option


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
    import numpy as np
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
    import numpy as np

    if labels is None or labels.dtype.kind not in "iuf" or not np.var(labels) > 0:
        return []
    squares, size = np.mean((predicted - labels) ** 2), np.mean(np.abs(predicted - labels))
    return [
        f"R² {1.0 - squares / np.var(labels):.4f} on {len(labels)} labelled bags, typical error {np.sqrt(squares):.4g}, "
        f"mean absolute error {size:.4g}"
    ]

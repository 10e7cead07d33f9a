"""`predict`: labels and probabilities of the bags in a file, from a model file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from . import app
from .bag_files import (
    EXECUTOR,
    FILE,
    KEY,
    LITERAL,
    MODEL,
    SAME_BAG,
    SCHEDULER,
    as_csv,
    bag_column,
    check_table,
    id_column,
    read_for,
    waiting,
    write_table,
)
from .console import echo


@app.command()
def predict(
    model: Path = MODEL,
    file: Path = FILE,
    bag: str = SAME_BAG,
    literal_ids: bool = LITERAL,
    key: str = KEY,
    out: Path = typer.Option(
        None, "--out", "-o", help="File to write: CSV, or .parquet or .json by its ending (default: standard output)."
    ),
    executor: str = EXECUTOR,
    scheduler: str = SCHEDULER,
) -> None:
    """Predict the label of every bag of a file, and the probability of the second class (of all, if there are more)."""
    import pandas as pd

    from .._core.files import check_apart, check_writable
    from ..estimators.persistence import load_model
    from .console import deliver

    check_writable(out)
    check_apart((out,), (model, file))
    check_table(out)
    estimator = load_model(model)
    bag = bag or bag_column(estimator)
    read = read_for(estimator, file, bag, literal_ids, key, executor=executor, scheduler=scheduler)
    with waiting(f"predicting {len(read.bags)} bags"):
        if not hasattr(estimator, "classes_"):
            _deliver_numbers(estimator, read, bag, out)
            return
        probability = estimator.predict_proba(read.bags)
    if len(estimator.classes_) == 2:
        likeliest, given = (probability[:, 1] > 0.5).astype(int), [1]
    else:
        likeliest, given = probability.argmax(axis=1), list(range(len(estimator.classes_)))
    columns = {
        "prediction": estimator.classes_[likeliest],
        **{f"probability_{estimator.classes_[k]}": probability[:, k].round(6) for k in given},
    }
    table = pd.DataFrame({id_column(bag, columns): read.bags.ids, **columns})

    def show() -> None:
        if out is None:
            echo(as_csv(table), end="")
        unknown = [] if read.labels is None else sorted({str(v) for v in set(read.labels) - set(estimator.classes_)})
        if unknown:
            echo(f"no accuracy: the model does not know the label {unknown[0]!r} of the file", err=True)
        elif read.labels is not None:
            right = float((table["prediction"].to_numpy() == read.labels).mean())
            echo(f"accuracy on the {len(read.bags)} labelled bags: {right:.4f}", err=True)

    deliver(show, [(out, lambda path: write_table(path, table))])


def _deliver_numbers(estimator: Any, read: Any, bag: str, out: Path | None) -> None:
    """The predictions of a regressor, as `predict` gives them."""
    import sys

    import numpy as np
    import pandas as pd

    from .console import deliver

    predicted = estimator.predict(read.bags)
    name = id_column(bag, ("prediction",))
    table = pd.DataFrame({name: read.bags.ids, "prediction": [float(f"{value:.6g}") for value in predicted]})
    text = table.assign(prediction=[f"{value:.6g}" for value in predicted])

    def show() -> None:
        if out is None:
            echo(as_csv(text), end="")
        if read.labels is not None and read.labels.dtype.kind in "iuf" and np.var(read.labels) > 0:
            r2 = 1.0 - np.mean((predicted - read.labels) ** 2) / np.var(read.labels)
            print(f"R² on the {len(read.bags)} labelled bags: {r2:.4f}", file=sys.stderr)

    deliver(show, [(out, lambda path: write_table(path, table, text))])

"""`explain`: the tokens that speak for a class, from a model file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from . import app
from .bag_files import (
    FILE,
    KEY,
    LITERAL,
    MODEL,
    SAME_BAG,
    TOKEN_LABEL,
    bag_column,
    check_table,
    id_column,
    read_for,
    write_table,
)


@app.command()
def explain(
    model: Path = MODEL,
    file: Path = FILE,
    bag: str = SAME_BAG,
    token_label: str = TOKEN_LABEL,
    literal_ids: bool = LITERAL,
    key: str = KEY,
    top: int = typer.Option(3, "--top", help="Tokens to show of each bag."),
    bags: int = typer.Option(20, "--bags", help="Bags to show, the likeliest of the class first."),
    of_class: str = typer.Option(
        None,
        "--class",
        help="Class to explain (default: the second of two; each bag's likeliest where there are more).",
    ),
    out: Path = typer.Option(
        None, "--out", "-o", help="File for the weights and scores of all tokens: CSV, or .parquet or .json."
    ),
) -> None:
    """Show which tokens carry the signal: attention weights and token scores."""
    import numpy as np
    import pandas as pd

    from .._core.files import check_apart, check_writable
    from .._core.validation import whole_number
    from ..estimators.calibration import area_under_curve
    from ..estimators.persistence import load_model
    from .console import deliver, print_table

    check_writable(out)
    check_apart((out,), (model, file))
    check_table(out)
    top, bags = whole_number("top", top, 1), whole_number("bags", bags, 0)
    estimator = load_model(model)
    if not hasattr(estimator, "token_scores"):
        raise ValueError(f"{type(estimator).__name__} weighs all tokens alike: there is nothing to explain")
    bag = bag or bag_column(estimator)
    read = read_for(estimator, file, bag, literal_ids, key, token_label)
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
    columns = {
        **({"class": np.repeat(classes[explained], lengths)} if several else {}),
        "token": np.concatenate([np.arange(n) for n in lengths]),
        "weight": np.concatenate(weights).astype(float).round(6),
        "score": np.concatenate(scores).astype(float).round(6),
        f"bag_{name_of_answer}": np.repeat(answer, lengths).astype(float).round(6),
    }
    table = pd.DataFrame({id_column(bag, columns): np.repeat(read.bags.ids, lengths), **columns})
    rows = []
    for i in np.argsort(-answer, kind="stable")[:bags]:
        best = np.argsort(-scores[i], kind="stable")[:top]
        said = ", ".join(f"{j} (weight {weights[i][j]:.2f}, score {scores[i][j]:+.2f})" for j in best)
        name = [str(classes[explained[i]])] if several else []
        rows.append([str(read.bags.ids[i]), *name, f"{answer[i]:.3f}", str(lengths[i]), said])
    title = f"tokens that speak most for {whom}, counted from 0 within their bag"
    area = None
    if read.token_labels is not None and not several and explained[0] == 1:
        witness = read.token_labels == np.unique(read.token_labels)[-1]  # the last one of texts, too
        if witness.any() and not witness.all():
            area = area_under_curve(np.concatenate(scores), witness)

    def show() -> None:
        headings = [bag, *(["class"] if several else []), name_of_answer, "tokens", "strongest tokens"]
        print_table(title, headings, rows)
        if area is not None:
            print(f"token AUC against column {token_label!r}: {area:.4f}")

    deliver(show, [(out, lambda path: write_table(path, table))])


def _explained_class(estimator: Any, wanted: str | None, probabilities: Any) -> Any:
    """For each bag the number of the class to explain."""
    import numpy as np

    names = [str(label) for label in estimator.classes_]
    if wanted is not None:
        if wanted not in names:
            raise ValueError(f"--class must be one of {', '.join(names)}, got {wanted!r}")
        return np.full(len(probabilities), names.index(wanted))
    return np.ones(len(probabilities), dtype=int) if len(names) == 2 else probabilities.argmax(axis=1)

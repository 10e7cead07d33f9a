"""`explain`: the tokens that are evidence for a class, from a model file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from .._core.validation import whole_number
from .bag_files import TABLES, BagsForModel, id_column
from .options import OWN_BAGS, Options, command, option
from .printing import check_files, deliver, echo, echo_text, fits, print_table

_FEATURES = 3  # of a token in the table: those farthest from the mean of all tokens, in standard deviations


@dataclass(frozen=True)
class TokenOptions(Options):
    """Which bags and tokens are shown, and how."""

    panel: ClassVar[str] = "What is shown"
    top: int = option(3, "Tokens to show of each bag.")
    bags: int = option(5, "Bags to show, the likeliest of the class first.")
    only: list[str] = option([], "Id of a bag to show; repeatable [the likeliest].")
    of_class: str = option(
        None, "Class to explain [the second of two; each bag's likeliest where there are more].", "--class"
    )
    token_name: str = option(None, "Column with the names of tokens, to show them by.")
    coordinates: str = option(
        None, "Columns with the tokens' places, such as x,y; or an array of the files, such as coords."
    )

    @property
    def columns(self) -> list[str]:
        """What is to be read beside the features."""
        places = [] if self.coordinates is None else self.coordinates.split(",")
        return places if self.token_name is None else [self.token_name, *places]

    def beside(self, read: Mapping[str, Any], file: Path) -> dict[str, Any]:
        """The tokens' names, and their places x and y, as far as they are asked for, from the columns that the file had."""
        for name in self.columns:
            if name not in read:
                raise ValueError(f"{file} has no column {name!r} to show, or some of its tokens were left out")
        names = {} if self.token_name is None else {"name": read[self.token_name]}
        if self.coordinates is None:
            return names
        try:
            places = np.column_stack([read[name] for name in self.coordinates.split(",")]).astype(float)
        except ValueError:
            raise ValueError(f"--coordinates {self.coordinates} must be numbers") from None
        if places.shape[1] != 2:
            raise ValueError(f"--coordinates must be two columns, or an array with two, got {places.shape[1]}")
        return {**names, "x": places[:, 0], "y": places[:, 1]}

    def chosen(self, ids: Any, answers: Any) -> list[int]:
        """The bags to show: those named, else the likeliest ones."""
        if not self.only:
            return np.argsort(-answers, kind="stable")[: self.bags].tolist()
        names = [str(name) for name in ids]
        for name in self.only:
            if name not in names:
                raise ValueError(f"--only must name a bag of the file, such as {names[0]}, got {name!r}")
        return [names.index(name) for name in self.only]


@command(OWN_BAGS)
def explain(
    *,
    given: BagsForModel,
    tokens: TokenOptions,
    out: Path = option(None, "File for the weights and scores of all tokens: CSV, or .parquet or .json.", "-o"),
    plot: Path = option(None, "Picture of the first bag shown (.png, .svg or .pdf), at its --coordinates if given."),
) -> None:
    """Show which tokens carry the signal: attention weights and token scores.

    Example: sparsetoken explain model.skops bags.csv --top 5 --plot bag.png
    """
    from ..estimators.persistence import load_model
    from ..study.tables import write_table

    check_files([(out, TABLES)], (given.model, given.file, given.labels), plot)
    top = whole_number("top", tokens.top, 1)
    whole_number("bags", tokens.bags, 0 if plot is None else 1)
    estimator = load_model(given.model)
    if not hasattr(estimator, "token_scores"):
        raise ValueError(f"{type(estimator).__name__} weighs all tokens alike: there is nothing to explain")
    read = given.read(estimator, beside=tokens.columns)
    beside = tokens.beside(read.beside, given.file)
    with given.using_model():
        explanation = _Explained(estimator, read.bags, tokens.of_class, beside)
    bag, area = given.bag_column(estimator), explanation.token_auc(read.token_labels)
    table, chosen = explanation.table(bag), tokens.chosen(read.bags.ids, explanation.answers)

    def show() -> None:
        echo_text(explanation.answer(top))
        if area is not None:
            echo(f"token AUC against column {given.token_label!r}: {area:.4f}")
        if chosen:
            columns = [bag, *explanation.headings]
            for features in range(_FEATURES, 0, -1):  # as many as there is room for
                rows = explanation.rows(chosen, top, features)
                if fits(columns, rows):
                    break
            print_table(explanation.title, columns, rows)

    written = (out, lambda path: write_table(table, path, ".csv"), f"weights and scores of {len(table):,} tokens")
    deliver(show, [written, (plot, lambda path: explanation.draw(chosen[0], path), "picture")])


class _Explained:
    """The evidence for a class in each bag; `answers` are probabilities or predictions; `classes` is None for numbers."""

    def __init__(self, estimator: Any, bags: Any, wanted: str | None, beside: dict[str, Any]) -> None:
        self.bags, self.beside = bags, beside
        self.classes: Any = getattr(estimator, "classes_", None)
        self.several = self.classes is not None and len(self.classes) > 2
        self.measure = "prediction" if self.classes is None else "probability"
        self.chosen, self.answers = self._answers(estimator, wanted)
        weights, scores = estimator.attention_weights(bags), estimator.token_scores(bags)
        if self.several:
            weights, scores = ([values[:, k] for values, k in zip(v, self.chosen)] for v in (weights, scores))
        elif self.chosen[0] == 0:  # evidence against the second class is evidence for the first
            scores = [-values for values in scores]
        self.weights, self.scores = weights, scores
        self.strongest = [np.argsort(-values, kind="stable") for values in scores]
        tokens = np.asarray(bags.tokens, dtype=float)
        self.mean, self.spread = tokens.mean(axis=0), np.maximum(tokens.std(axis=0), 1e-12)
        features = getattr(estimator, "feature_names_in_", [f"#{k}" for k in range(estimator.n_features_in_)])
        self.names = [str(name) for name in features]

    def _answers(self, estimator: Any, wanted: str | None) -> tuple[Any, Any]:
        """For each bag the place of the class whose evidence is shown, and its probability; for numbers the prediction."""
        if self.classes is None:
            if wanted is not None:
                raise ValueError("--class goes with a classifier; this model predicts numbers")
            return np.ones(len(self.bags), dtype=int), estimator.predict(self.bags)
        probabilities = estimator.predict_proba(self.bags)
        names = [str(label) for label in self.classes]
        if wanted is not None and wanted not in names:
            raise ValueError(f"--class must be one of {', '.join(names)}, got {wanted!r}")
        chosen = probabilities.argmax(axis=1)
        if wanted is not None or not self.several:
            chosen = np.full(len(self.bags), 1 if wanted is None else names.index(wanted))
        return chosen, probabilities[np.arange(len(self.bags)), chosen]

    @property
    def title(self) -> str:
        if self.classes is None:
            whom = "a higher label"
        else:
            whom = "the class shown" if self.several else f"class {self.classes[self.chosen[0]]}"
        how = "by name" if "name" in self.beside else "counted from 0 within their bag"
        where = " (with their places)" if "x" in self.beside else ""
        return f"tokens with the most evidence for {whom}, {how}{where}; features in standard deviations"

    @property
    def headings(self) -> list[str]:
        first = ["class"] if self.several else []
        return [*first, self.measure, "token", "weight", "score", "farthest features"]

    def answer(self, top: int) -> str:
        """How much of the attention the strongest tokens have, and by which features they stand out."""
        share = np.mean([weights[best[:top]].sum() for weights, best in zip(self.weights, self.strongest)])
        likely = np.argsort(-self.answers, kind="stable")[: max(1, len(self.answers) // 4)]
        features = ", ".join(
            self._features(np.mean([self._deviations(i, self.strongest[i][0]) for i in likely], axis=0))
        )
        tokens = "token has" if top == 1 else f"{top} tokens have"
        return (
            f"the strongest {tokens} {share:.0%} of a bag's attention on average; in the likeliest bags the strongest token "
            f"stands out by {features}"
        )

    def draw(self, i: int, path: Path) -> None:
        """A picture of one bag: at the tokens' places where these are known."""
        from ..estimators.displays import AttentionDisplay
        from ..plotting.show import write_picture

        target = "" if self.classes is None else str(self.classes[self.chosen[i]])
        probability = None if self.classes is None else float(self.answers[i])
        display = AttentionDisplay(self.weights[i], self.scores[i], str(self.bags.ids[i]), target, probability)
        if "x" in self.beside:
            rows = slice(self.bags.starts[i], self.bags.starts[i] + self.bags.lengths[i])
            display.plot_places(np.column_stack([self.beside["x"][rows], self.beside["y"][rows]]))
        else:
            display.plot()
        write_picture(path, display.figure_)

    def rows(self, bags: list[int], top: int, features: int) -> list[list[str]]:
        """A row per token: the strongest of these bags, with so many of their farthest features."""
        rows = []
        for i in bags:
            about = [str(self.bags.ids[i]), *([str(self.classes[self.chosen[i]])] if self.several else [])]
            first = [*about, f"{self.answers[i]:.3f}"]
            for j in self.strongest[i][:top]:
                numbers = [self._label(i, j), f"{self.weights[i][j]:.2f}", f"{self.scores[i][j]:+.2f}"]
                rows.append([*first, *numbers, ", ".join(self._features(self._deviations(i, j))[:features])])
                first = [""] * len(first)
        return rows

    def _label(self, i: int, j: int) -> str:
        """How a token is shown: by its name (or its number in its bag), and where it is."""
        beside = {name: values[self.bags.starts[i] + j] for name, values in self.beside.items()}
        return f"{beside.get('name', j)}" + (f" ({beside['x']:g}, {beside['y']:g})" if "x" in beside else "")

    def _deviations(self, i: int, j: int) -> Any:
        return (self.bags[i][j] - self.mean) / self.spread

    def _features(self, deviations: Any) -> list[str]:
        farthest = np.argsort(-np.abs(deviations), kind="stable")[:_FEATURES]
        return [f"{self.names[k]} {deviations[k]:+.1f}" for k in farthest]

    def table(self, bag: str) -> Any:
        """Weights and scores of all tokens."""
        import pandas as pd

        lengths = self.bags.lengths
        columns = {
            **({"class": np.repeat(self.classes[self.chosen], lengths)} if self.several else {}),
            "token": np.concatenate([np.arange(n) for n in lengths]),
            **self.beside,
            "weight": np.concatenate(self.weights).astype(float).round(6),
            "score": np.concatenate(self.scores).astype(float).round(6),
            f"bag_{self.measure}": np.repeat(self.answers, lengths).astype(float).round(6),
        }
        return pd.DataFrame({id_column(bag, columns): np.repeat(self.bags.ids, lengths), **columns})

    def token_auc(self, labels: Any) -> float | None:
        """AUC of the scores against labels of tokens, where there are such labels and the second class is explained."""
        from ..estimators.calibration import area_under_curve

        if labels is None or self.several or self.chosen[0] != 1:
            return None
        witness = labels == np.unique(labels)[-1]  # the last one of texts, too
        return None if witness.all() or not witness.any() else area_under_curve(np.concatenate(self.scores), witness)

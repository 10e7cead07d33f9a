"""What the commands on a user's bags share: their options, how files are read for a model, the kind of the labels."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import typer

from ..bags.sums_per_bag import spread_of
from ..estimators.learners import DECIMALS, inferred_task
from .options import Options, option, rare
from .printing import echo

FILE = typer.Argument(
    ...,
    help="Bags, one row per token: .csv, .csv.gz, .parquet or .npz; or a folder (or 'features/*.h5') with one .npy, .npz, "
    ".h5, .pt or .parquet file per bag.",
    show_default=False,
)
TABLES = ".csv .parquet .json"  # endings of tables to write


@dataclass(frozen=True)
class ClusterOptions(Options):
    """Where sums over a folder's bags are computed."""

    panel: ClassVar[str] = "Cluster"
    executor: str = rare("local", "local or dask.")
    scheduler: str | None = rare(None, "Address of the Dask scheduler, such as tcp://127.0.0.1:8786.")


@dataclass(frozen=True)
class BagOptions(Options):
    """How a file or folder of bags is read; fields are those of `bags.reading.tables.Reading`."""

    panel: ClassVar[str] = "Columns and labels"
    bag: str = option("bag_id", "Column with the bag ids.")
    label: str = option("label", "Column with the labels.")
    labels: Path = option(None, "Table with one row per bag (bag id, label), if kept apart.")
    token_label: str = rare("instance_label", "Column with labels of tokens, never a feature; may be absent.")
    literal_ids: bool = rare(False, "Take bag ids such as NA, null or nan as they stand.")
    key: str = rare(None, "Array of features, where the files of a folder hold several.")

    def read_from(self, file: Path, cluster: ClusterOptions | None = None, **how: Any) -> Any:
        """What `bags.read_bags` gives."""
        from ..bags.reading.read_bags import read_bags
        from ..bags.reading.tables import Reading

        if cluster is not None and cluster.executor == "dask" and cluster.scheduler is None:
            raise ValueError("--executor dask needs --scheduler, such as tcp://127.0.0.1:8786")
        columns = {name: value for name, value in vars(self).items() if name in Reading.__dataclass_fields__}
        return read_bags(
            file, labels_file=self.labels, **{**columns, **({} if cluster is None else vars(cluster)), **how}
        )


@dataclass(frozen=True)
class LabelledOptions(BagOptions):
    """Bags with their labels, and what is done with missing values."""

    ignore: list[str] = option([], "Column that is not a feature; repeatable.")
    missing: str = option("error", "Tokens with missing values: error, drop-token or impute (the training mean).")
    skip_unmatched: bool = rare(False, "Leave out files without a label and labels without a file.")
    positive_label: str = option(None, "Which of two classes carries the signal [found on held-out bags].")

    def read_from(self, file: Path, cluster: ClusterOptions | None = None, **how: Any) -> Any:
        """The bags with their labels; missing values are kept where the learner is to fill them in."""
        from ..bags.input_forms import checked_treatment

        kept = "keep" if checked_treatment(self.missing) == "impute" else self.missing
        return super().read_from(file, cluster, missing=kept, **how)

    def positive_of(self, labels: Any) -> Any:
        """The label of the file that --positive-label names; None without it."""
        if self.positive_label is None:
            return None
        by_name = {str(label): label for label in sorted(set(labels.tolist()))}
        if self.positive_label not in by_name:
            raise ValueError(
                f"--positive-label must be a label of the file, such as {next(iter(by_name))}, got {self.positive_label!r}"
            )
        if len(by_name) != 2:
            raise ValueError(f"--positive-label goes with two classes; the labels of the file are of {len(by_name)}")
        return by_name[self.positive_label]


@dataclass(frozen=True)
class LabelledBags(LabelledOptions):
    """A file or folder of bags to learn from."""

    file: Path = FILE
    groups: str = option(None, "Column with the groups of bags, such as patients, which no split divides.")
    task: str = rare("auto", "classification, regression, or auto: as the labels suggest.")

    def prepared(self, name: str, estimator: Any) -> Any:
        """The learner, with its treatment of missing values set."""
        if self.missing == "error":
            return estimator
        if "missing" not in estimator.get_params():
            raise ValueError(f"{name} takes no missing values: leave out --missing, or choose another learner with -m")
        return estimator.set_params(missing=self.missing)


@dataclass(frozen=True)
class BagsForModel(BagOptions):
    """A model file, and a file or folder of bags for it."""

    model: Path = typer.Argument(..., help="Model file written by `sparsetoken fit`.", show_default=False)
    file: Path = FILE
    bag: str = option(None, "Column with the bag ids [the one that `fit` was given].")
    label: str = option(None, "Column with the labels, if any [the one that `fit` was given].")

    def read(self, estimator: Any, cluster: ClusterOptions | None = None, beside: Sequence[str] = ()) -> Any:
        """The bags with the features that the model needs, and their labels where there are any."""
        names = getattr(estimator, "feature_names_in_", None)
        return self.read_from(
            self.file,
            cluster,
            bag=self.bag_column(estimator),
            label=self.label or getattr(estimator, "label_column_", "label"),
            beside=beside,
            need_labels=self.label is not None or self.labels is not None,
            features=None if names is None else [str(name) for name in names],
            missing="error" if getattr(estimator, "missing", "error") == "error" else "keep",
        )

    def bag_column(self, estimator: Any) -> str:
        """The column of bag ids, by default that of `fit`."""
        return self.bag or getattr(estimator, "bag_column_", "bag_id")

    @contextmanager
    def using_model(self) -> Iterator[None]:
        """Turn errors of a damaged model file into one sentence."""
        try:
            yield
        except (AttributeError, IndexError, KeyError, TypeError) as error:
            if os.environ.get("SPARSETOKEN_DEBUG"):
                raise
            raise ValueError(f"the model in {self.model} is damaged ({error}): fit the model again") from error


def is_regression(task: str, labels: Any) -> bool:
    """Whether to predict numbers; an inference that could surprise is reported on standard error."""
    if task not in ("auto", "classification", "regression"):
        raise ValueError(f"--task must be auto, classification or regression, got {task!r}")
    inferred, why = inferred_task(labels)
    regression = (inferred if task == "auto" else task) == "regression"
    if task == "classification" and why == DECIMALS:
        raise ValueError("--task classification needs labels that are whole numbers or text; these have decimals")
    if not regression and len(set(labels.tolist())) == len(labels) > 2:
        raise ValueError(
            f"every bag has a different label, such as {labels[0]!s}: classes must have several bags each (is --label right?)"
        )
    if task == "regression" and labels.dtype.kind not in "iuf":
        raise ValueError(f"--task regression needs labels that are numbers, got labels such as {labels[0]!s}")
    if task == "auto" and regression:
        other = "" if why == DECIMALS else " (--task classification takes every value as a class)"
        echo(f"regression: {why}{other}", err=True)
    return regression


def in_words(bags: Any) -> str:
    """How many bags, tokens and features there are."""
    return f"{len(bags):,} bags of {spread_of(bags.lengths)} tokens, {bags.n_features:,} features"


def id_column(bag: str, taken: Iterable[str]) -> str:
    """What the ids' column is called in a table with other columns: as in the bags' file, where that name is free."""
    return "bag_id" if bag in taken else bag

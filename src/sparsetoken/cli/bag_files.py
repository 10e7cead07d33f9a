"""What the commands on one's own bags share: their options, how files are read for a model, what labels mean."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import typer

from .console import echo
from .options import Options, rare

FILE = typer.Argument(
    ...,
    help="Bags, one row per token: .csv, .csv.gz, .parquet or .npz; or a folder (or 'features/*.h5') with one .npy, .npz, "
    ".h5, .pt or .parquet file per bag.",
    show_default=False,
)
MODEL = typer.Argument(..., help="Model file written by `sparsetoken fit`.", show_default=False)
_LITERAL = rare(False, "--literal-ids", help="Take bag ids such as NA, null or nan as they stand.")
_KEY = rare(None, "--key", help="Array of features, where the files of a folder hold several.")
_TOKEN_LABEL = rare(
    "instance_label", "--token-label", help="Column with labels of tokens, never a feature; may be absent."
)


@dataclass(frozen=True)
class Cluster(Options):
    """Where sums over a folder's bags are computed."""

    panel: ClassVar[str] = "Cluster"
    executor: str = rare("local", "--executor", help="local or dask.")
    scheduler: str | None = rare(
        None, "--scheduler", help="Address of the Dask scheduler, such as tcp://127.0.0.1:8786."
    )

    def checked(self) -> dict[str, Any]:
        """The arguments of `read_bags`."""
        if self.executor not in ("local", "dask"):
            raise ValueError(f"--executor must be local or dask, got {self.executor!r}")
        if self.executor == "dask" and self.scheduler is None:
            raise ValueError("--executor dask needs --scheduler, such as tcp://127.0.0.1:8786")
        if self.executor == "local" and self.scheduler is not None:
            raise ValueError("--scheduler belongs to --executor dask")
        return {"executor": self.executor, "scheduler": self.scheduler}


@dataclass(frozen=True)
class LabelledBags(Options):
    """A file or folder of bags to learn from."""

    panel: ClassVar[str] = "Columns and labels"
    file: Path = FILE
    bag: str = typer.Option("bag_id", "--bag", help="Column with the bag ids.")
    label: str = typer.Option("label", "--label", help="Column with the labels.")
    labels: Path = typer.Option(None, "--labels", help="Table with one row per bag (bag id, label), if kept apart.")
    groups: str = typer.Option(
        None, "--groups", help="Column with the groups of bags, such as patients, which no split divides."
    )
    ignore: list[str] = typer.Option([], "--ignore", help="Column that is not a feature; repeatable.")
    missing: str = typer.Option(
        "error", "--missing", help="Tokens with missing values: error, drop-token or impute (the training mean)."
    )
    task: str = rare("auto", "--task", help="classification, regression, or auto: as the labels suggest.")
    token_label: str = _TOKEN_LABEL
    literal_ids: bool = _LITERAL
    key: str = _KEY
    skip_unmatched: bool = rare(
        False, "--skip-unmatched", help="Leave out files without a label and labels without a file."
    )

    def read(self, cluster: Cluster | None = None) -> Any:
        """The bags with their labels, as `bags.read_bags` gives them."""
        from ..bags.missing import checked_treatment
        from ..bags.reading.read_bags import read_bags

        checked_treatment(self.missing)
        return read_bags(
            self.file,
            self.bag,
            self.label,
            token_label=self.token_label,
            ignore=self.ignore,
            labels_file=self.labels,
            literal_ids=self.literal_ids,
            key=self.key,
            skip_unmatched=self.skip_unmatched,
            groups=self.groups,
            missing="error" if self.missing == "error" else "keep",
            **(cluster or Cluster("local", None)).checked(),
        )

    def prepared(self, name: str, estimator: Any) -> Any:
        """The learner, told what to do with missing values."""
        if self.missing == "error":
            return estimator
        if "missing" not in estimator.get_params():
            raise ValueError(f"{name} takes no missing values: leave out --missing, or take another learner with -m")
        return estimator.set_params(missing=self.missing)


@dataclass(frozen=True)
class BagsForModel(Options):
    """A file or folder of bags for a fitted model."""

    panel: ClassVar[str] = "Columns and labels"
    file: Path = FILE
    bag: str = typer.Option(None, "--bag", help="Column with the bag ids [the one that `fit` was given].")
    label: str = typer.Option(None, "--label", help="Column with the labels, if any [the one that `fit` was given].")
    token_label: str = _TOKEN_LABEL
    literal_ids: bool = _LITERAL
    key: str = _KEY

    def read(self, estimator: Any, cluster: Cluster | None = None) -> Any:
        """The bags with the features that the model needs, and their labels where there are any."""
        from ..bags.reading.read_bags import read_bags

        names = getattr(estimator, "feature_names_in_", None)
        return read_bags(
            self.file,
            self.bag_column(estimator),
            self.label or getattr(estimator, "label_column_", "label"),
            token_label=self.token_label,
            need_labels=self.label is not None,
            features=None if names is None else list(names),
            literal_ids=self.literal_ids,
            key=self.key,
            missing="error" if getattr(estimator, "missing", "error") == "error" else "keep",
            **(cluster or Cluster("local", None)).checked(),
        )

    def bag_column(self, estimator: Any) -> str:
        """The column of bag ids, by default that of `fit`."""
        return self.bag or getattr(estimator, "bag_column_", "bag_id")


def is_regression(task: str, labels: Any) -> bool:
    """Whether to predict numbers; an inference that could surprise is said on standard error."""
    from ..estimators.learners import DECIMALS, inferred_task

    if task not in ("auto", "classification", "regression"):
        raise ValueError(f"--task must be auto, classification or regression, got {task!r}")
    found, why = inferred_task(labels)
    if (
        (found if task == "auto" else task) == "classification"
        and why != DECIMALS
        and len(set(labels.tolist())) == len(labels) > 2
    ):
        raise ValueError(
            f"every bag has a label of its own, such as {labels[0]!s}: classes must have several bags each (is --label right?)"
        )
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


def id_column(bag: str, taken: Iterable[str]) -> str:
    """What the ids' column is called in a table with other columns: as in the bags' file, where that name is free."""
    return "bag_id" if bag in taken else bag


def as_csv(table: Any) -> str:
    """A frame as the text of a CSV file."""
    return table.to_csv(index=False, lineterminator="\n")


def check_table(out: Path | None) -> None:
    """Whether `write_table` can write what the ending says, found out before the work."""
    from .._core.files import check_ending
    from .._core.imports import require

    check_ending(out, ".csv", ".parquet", ".json")
    if out is not None and out.suffix.lower() == ".parquet":
        require("parquet")


def write_table(path: Path, table: Any) -> None:
    """A frame as Parquet or JSON where the file's ending says so, else as CSV."""
    from .._core.files import write_bytes
    from ..study.tables import write_table as write_by_ending

    if path.suffix.lower() in (".parquet", ".json"):
        write_by_ending(table, path)
    else:
        write_bytes(path, as_csv(table).encode())


def waiting(words: str) -> Any:
    """A spinner on standard error while something runs, where that is a terminal."""
    from contextlib import nullcontext

    from rich.console import Console

    console = Console(stderr=True)
    return console.status(words) if console.is_terminal else nullcontext()

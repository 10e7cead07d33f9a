"""What the commands on one's own bags share: their options, how files are read for a model, what labels mean."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import typer

from .console import echo

FILE = typer.Argument(
    ...,
    help="Bags, one row per token: .csv, .csv.gz, .parquet or .npz; or a folder (or 'features/*.h5') with one .npy, .npz, "
    ".h5, .pt or .parquet file per bag.",
    show_default=False,
)
KEY = typer.Option(None, "--key", help="Array of features, where the files of a folder hold several.")
SKIP = typer.Option(False, "--skip-unmatched", help="Leave out files without a label and labels without a file.")
MODEL = typer.Argument(..., help="Model file written by `sparsetoken fit`.", show_default=False)
BAG = typer.Option("bag_id", "--bag", help="Column with the bag ids.")
SAME_BAG = typer.Option(None, "--bag", help="Column with the bag ids [the one that `fit` was given].")
LABEL = typer.Option("label", "--label", help="Column with the labels.")
LABELS = typer.Option(None, "--labels", help="Table with one row per bag (bag id, label), where labels are kept apart.")
IGNORE = typer.Option([], "--ignore", help="Column that is not a feature; repeatable.")
LITERAL = typer.Option(False, "--literal-ids", help="Take bag ids such as NA, null or nan as they stand.")
EXECUTOR = typer.Option("local", "--executor", help="Where sums over a folder's bags are computed: local or dask.")
SCHEDULER = typer.Option(None, "--scheduler", help="Address of the Dask scheduler, such as tcp://127.0.0.1:8786.")
TASK = typer.Option("auto", "--task", help="classification, regression, or auto: as the labels suggest.")
TOKEN_LABEL = typer.Option(
    "instance_label", "--token-label", help="Column with labels of single tokens, never a feature; may be absent."
)
GROUPS = typer.Option(
    None,
    "--groups",
    help="Column with the groups of the bags, such as patients: a group stays on one side of every split.",
)


class LabelledBags(NamedTuple):
    """The options of commands that learn from a file or folder of bags (see `with_blocks`)."""

    file: Path = FILE
    bag: str = BAG
    label: str = LABEL
    labels: Path = LABELS
    ignore: list[str] = IGNORE
    token_label: str = TOKEN_LABEL
    literal_ids: bool = LITERAL
    key: str = KEY
    skip_unmatched: bool = SKIP
    groups: str = GROUPS
    task: str = TASK

    def read(self, executor: str = "local", scheduler: str | None = None) -> Any:
        """The bags with their labels, as `bags.files.read_bags` gives them."""
        from ..bags.files import read_bags

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
            executor=checked_executor(executor, scheduler),
            scheduler=scheduler,
        )


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


def read_for(
    estimator: Any,
    file: Path,
    bag: str,
    literal_ids: bool,
    key: str | None,
    token_label: str = "instance_label",
    executor: str = "local",
    scheduler: str | None = None,
) -> Any:
    """The bags of a file or folder with the features that a fitted model needs, and their labels where there are any."""
    from ..bags.files import read_bags

    names = getattr(estimator, "feature_names_in_", None)
    return read_bags(
        file,
        bag,
        getattr(estimator, "label_column_", "label"),
        token_label=token_label,
        need_labels=False,
        features=None if names is None else list(names),
        literal_ids=literal_ids,
        key=key,
        executor=checked_executor(executor, scheduler),
        scheduler=scheduler,
    )


def checked_executor(executor: str, scheduler: str | None) -> str:
    """The executor's name, where it goes with the scheduler."""
    if executor not in ("local", "dask"):
        raise ValueError(f"--executor must be local or dask, got {executor!r}")
    if executor == "dask" and scheduler is None:
        raise ValueError("--executor dask needs --scheduler, such as tcp://127.0.0.1:8786")
    if executor == "local" and scheduler is not None:
        raise ValueError("--scheduler belongs to --executor dask")
    return executor


def bag_column(estimator: Any) -> str:
    """The column of bag ids that the model was fitted with."""
    return getattr(estimator, "bag_column_", "bag_id")


def id_column(bag: str, taken: Iterable[str]) -> str:
    """What the ids' column is called in a table with other columns: as in the bags' file, where that name is free."""
    return "bag_id" if bag in taken else bag


def as_csv(table: Any) -> str:
    """A frame as the text of a CSV file."""
    return table.to_csv(index=False, lineterminator="\n")


def check_table(out: Path | None) -> None:
    """Whether `write_table` can write what the ending says, found out before the work."""
    from .._core.extras import require
    from .._core.files import check_ending

    check_ending(out, ".csv", ".parquet", ".json")
    if out is not None and out.suffix.lower() == ".parquet":
        require("parquet")


def write_table(path: Path, table: Any, text: Any = None) -> None:
    """A frame as Parquet or JSON where the file's ending says so, else as CSV.

    Parameters
    ----------
    path : Path
        Where it goes.
    table : DataFrame
        What it holds.
    text : DataFrame, optional
        The same with numbers as a CSV file is to show them.
    """
    from .._core.files import write_bytes
    from ..study.tables import write_table as write_by_ending

    if path.suffix.lower() in (".parquet", ".json"):
        write_by_ending(table, path)
    else:
        write_bytes(path, as_csv(table if text is None else text).encode())


def waiting(words: str) -> Any:
    """A spinner on standard error while something runs, where that is a terminal."""
    from contextlib import nullcontext

    from rich.console import Console

    console = Console(stderr=True)
    return console.status(words) if console.is_terminal else nullcontext()

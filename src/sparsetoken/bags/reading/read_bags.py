"""Bags from files: one table of tokens (CSV, also .gz, Parquet, NPZ), or a folder with one file per bag.

Nothing in a data file is ever executed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..bags import Bags
from ..cluster import on_cluster
from ..forms import distinct_ids
from ..missing import READ, checked_treatment
from .array_files import ending_of, npz_arrays
from .folders import BagFiles, check_ignored, gather, holds_tables, list_files, means_files
from .tables import (
    check_agreement,
    ending_is,
    is_numeric,
    label_per_bag,
    leave_out,
    listed,
    not_numeric,
    plain_labels,
    read_table,
    text_ids,
    values_by_id,
)


@dataclass(frozen=True)
class BagFile:
    """What a file of bags held."""

    bags: Bags
    labels: np.ndarray | None
    token_labels: np.ndarray | None
    groups: np.ndarray | None = None


def read_bags(
    path: str | Path,
    bag: str = "bag_id",
    label: str = "label",
    *,
    token_label: str = "instance_label",
    ignore: Sequence[str] = (),
    labels_file: str | Path | None = None,
    need_labels: bool = True,
    features: Sequence[str] | None = None,
    literal_ids: bool = False,
    groups: str | None = None,
    key: str | None = None,
    skip_unmatched: bool = False,
    executor: Any = "local",
    scheduler: str | None = None,
    missing: str = "error",
) -> BagFile:
    """Read bags and their labels: one row per token in one file, or one file per bag in a folder.

    An .npz file holds `tokens` (N, d), `bag` (N) and `label` (one per bag, in order of first appearance, or one per
    token), or `X` (n, L, d) with an optional `mask` (n, L) and `y` (n); an optional `features` names the d columns.

    Parameters
    ----------
    path : str or Path
        A .csv, .csv.gz, .parquet or .npz file with a row per token; or a folder or pattern ("features/*.h5") with one .npy,
        .npz, .h5, .pt or .parquet file per bag, whose name without its ending is the bag's id, and whose labels are in
        `labels_file` (`Bags.from_files`).
    bag : str
        Column with the bag ids; the rows of a bag need not be neighbours. Ids are text: 1, 01 and 1.0 are three bags.
    label : str
        Column with the labels, the same in every row of a bag; or a column of `labels_file`.
    token_label : str
        Column with labels of single tokens: never a feature, and optional.
    ignore : sequence of str
        Further columns that are not features.
    labels_file : str or Path, optional
        A table with one row per bag (bag id, label), where labels are kept apart. Labels beside the tokens that contradict
        it are an error, unless their column is ignored.
    need_labels : bool
        Whether a file without labels is an error.
    features : sequence of str, optional
        The columns to use, in this order (a fitted model's); all others are then ignored.
    literal_ids : bool
        Whether ids such as NA, null or nan are ids like any other; otherwise they count as missing, as everywhere else
        in a table. An empty cell is always missing.
    groups : str, optional
        Column with the groups of the bags (such as patients), in the file or in `labels_file`: never a feature.
    key : str, optional
        The array of features, where the files of a folder hold several.
    skip_unmatched : bool
        Whether files of a folder without a label, and labels without a file, are left out instead of being an error.
    executor : "local", "dask" or distributed.Client
        Where sums over the bags of a folder are computed, as for `Bags.from_files`.
    scheduler : str, optional
        Address of the scheduler of executor="dask".
    missing : "error" or "keep"
        Whether missing values (NaN) among the features are refused, or kept for an estimator that takes them.

    Returns
    -------
    BagFile
        Bags and labels.

    Raises
    ------
    ValueError
        If the file cannot be read or is not what it should be; the message names the column, row or bag.
    """
    path = Path(path)
    if means_files(path):
        opened = open_folder(
            path,
            labels_file,
            key=key,
            bag=bag,
            label=label,
            token_label=token_label,
            ignore=ignore,
            features=features,
            groups=groups,
            literal_ids=literal_ids,
            need_labels=need_labels,
            skip_unmatched=skip_unmatched,
            executor=executor,
            scheduler=scheduler,
            missing=missing,
        )
        return BagFile(opened.bags, opened.labels, None, opened.groups)
    of_folders = {"executor": executor != "local", "key": key is not None, "skip_unmatched": skip_unmatched}
    for option, used in of_folders.items():
        if used:
            raise ValueError(f"{option} goes with a folder of files, not with the one file {path}")
    checked_treatment(missing, READ)
    if ending_is(path, ".npz"):
        read = _read_npz(path, need_labels and labels_file is None, ignore, missing)
    else:
        names = _ColumnNames(
            bag, label, token_label, groups, tuple(ignore), None if features is None else tuple(features)
        )
        needed = {"bag": bag}
        if need_labels and labels_file is None:
            needed["label"] = label
        if groups is not None and labels_file is None:
            needed["groups"] = groups
        read = _read_rows(path, names, needed, literal_ids, missing)

    def beside(column: str) -> np.ndarray:
        return read.bags.labels(values_by_id(labels_file, bag, column, literal_ids))

    rows = read.bags.bag_of_token
    labels = None
    if labels_file is not None:
        labels = beside(label)
        if read.labels is not None and label not in ignore:
            check_agreement(labels[rows], read.labels, read.bags.ids[rows], read.place, labels_file, read.remedy)
    elif read.labels is not None and (need_labels or not pd.isna(read.labels).any()):
        labels = label_per_bag(read.labels, rows, read.bags.ids, label)
    grouped = None
    if groups is not None and read.groups is not None:
        grouped = label_per_bag(read.groups, rows, read.bags.ids, groups, "group")
    elif groups is not None:
        if labels_file is None:
            raise ValueError(f"groups are a column of a table; {path} has no columns")
        grouped = beside(groups)
    return BagFile(read.bags, labels, read.token_labels, grouped)


@dataclass(frozen=True)
class _OneFile:
    """Bags of one file; labels, token labels and groups have one value per token, in the order of the bags."""

    bags: Bags
    labels: Any
    token_labels: np.ndarray | None
    groups: Any
    place: str
    remedy: str


@dataclass(frozen=True)
class _ColumnNames:
    """Which columns of a table are what."""

    bag: str
    label: str
    token_label: str
    groups: str | None
    ignore: tuple[str, ...]
    features: tuple[str, ...] | None

    @property
    def aside(self) -> set[str]:
        """Columns that are not features."""
        return {self.bag, self.label, self.token_label, *self.ignore} | ({self.groups} if self.groups else set())


def _read_rows(path: Path, names: _ColumnNames, needed: dict[str, str], literal_ids: bool, missing: str) -> _OneFile:
    """Bags from a table with one row per token."""
    table = read_table(path, names.bag, literal_ids)
    for argument, column in needed.items():
        if column not in table.columns:
            what = {"bag": "bag ids", "label": "labels"}.get(argument, argument)
            raise ValueError(
                f"{path} has no column {column!r} for the {what} (--{argument}): name the right one with {argument}=...; "
                f"its columns are {listed(table.columns)}"
            )
    if needed.get("label") == names.bag:
        raise ValueError(f"label must be another column than the bag ids, got {names.label!r} for both")
    for column in names.ignore:
        if column not in table.columns:
            raise ValueError(f"{path} has no column {column!r} to ignore")
    columns = _feature_columns(table, names, path)
    ids = text_ids(table[names.bag], path)
    order = np.argsort(distinct_ids(ids, len(ids))[0], kind="stable")

    def values(column: str | None) -> Any:
        return table[column].to_numpy()[order] if column is not None and column in table.columns else None

    token_labels = values(names.token_label)
    return _OneFile(
        Bags(table[columns], ids=ids, missing=missing),
        values(names.label),
        None if token_labels is None or pd.isna(token_labels).any() else token_labels,
        values(names.groups),
        f"column {names.label!r} of {path}",
        leave_out(names.label),
    )


def _feature_columns(table: pd.DataFrame, names: _ColumnNames, path: Path) -> list[str]:
    columns = [c for c in table.columns if c not in names.aside] if names.features is None else list(names.features)
    for name in columns:
        if name not in table.columns:
            raise ValueError(f"{path} has no column {name!r}, which the model needs")
        if not is_numeric(table[name]):
            raise ValueError(not_numeric(name, path))
    if not columns:
        raise ValueError(f"{path} has no feature columns beside {listed(sorted(names.aside & set(table.columns)))}")
    return columns


def _read_npz(path: Path, need_labels: bool, ignore: Sequence[str], missing: str) -> _OneFile:
    """Bags from arrays: `tokens` and `bag`, or `X` with an optional `mask`."""
    if ignore:
        raise ValueError(f"{path} has no column {ignore[0]!r} to ignore: it holds arrays")
    arrays = npz_arrays(path)
    token_labels = None
    if "tokens" in arrays:
        if "bag" not in arrays:
            raise ValueError(f"{path} has tokens but no array 'bag' with their bag ids")
        count = len(_dimensional(arrays, path, "tokens", (2,)))
        ids = _npz_ids(arrays, path, count)
        bags = Bags(arrays["tokens"], ids=ids, missing=missing)
        order = np.argsort(distinct_ids(ids, count)[0], kind="stable")
        labels = _npz_labels(arrays, path, ("label", "y"))
        if labels is not None and len(labels) == count != len(bags):
            labels = labels[order]
        elif labels is not None:
            labels = _spread_over_tokens(labels, bags, path)
        if "token_label" in arrays:
            token_labels = _dimensional(arrays, path, "token_label", (1,), count)[order]
    elif "X" in arrays:
        _dimensional(arrays, path, "X", (2, 3))
        bags = Bags(arrays["X"], mask=arrays.get("mask"), missing=missing)
        labels = _npz_labels(arrays, path, ("y", "label"))
        labels = None if labels is None else _spread_over_tokens(labels, bags, path)
    else:
        raise ValueError(f"{path} must hold 'tokens' and 'bag', or 'X'; it holds {listed(arrays)}")
    if need_labels and labels is None:
        raise ValueError(f"{path} has no array 'label' (or 'y') with the labels")
    if "features" in arrays:
        bags = bags.with_tokens(bags.tokens, _npz_feature_names(arrays["features"], bags.n_features, path))
    return _OneFile(bags, labels, token_labels, None, f"{path}", "one of them must go or be mended")


def _npz_ids(arrays: dict[str, np.ndarray], path: Path, count: int) -> np.ndarray:
    ids = _dimensional(arrays, path, "bag", (1,), count)
    if ids.dtype.kind == "S":
        ids = np.char.decode(ids, "utf-8", "replace")
    elif ids.dtype.kind == "f" and np.isnan(ids).any():
        raise ValueError(f"row {int(np.argmax(np.isnan(ids))) + 1} of {path} has no bag id")
    return np.array([str(name) for name in ids.tolist()], dtype=object)


def _spread_over_tokens(labels: np.ndarray, bags: Bags, path: Path) -> np.ndarray:
    if len(labels) != len(bags):
        raise ValueError(f"{path} has {len(labels)} labels for {len(bags)} bags")
    return labels[bags.bag_of_token]


def _npz_feature_names(stored: np.ndarray, count: int, path: Path) -> np.ndarray:
    stored = np.atleast_1d(stored)
    stored = np.char.decode(stored, "utf-8", "replace") if stored.dtype.kind == "S" else stored
    names = np.array([str(name) for name in stored], dtype=object)
    if len(names) != count:
        raise ValueError(f"{path} names {len(names)} features, its tokens have {count}")
    if len(set(names)) < len(names):
        twice = next(name for i, name in enumerate(names) if name in names[:i])
        raise ValueError(f"{path} has two features {twice!r}; give every feature a name of its own")
    return names


def _dimensional(
    arrays: dict[str, np.ndarray], path: Path, name: str, dimensions: tuple[int, ...], length: int | None = None
) -> np.ndarray:
    """The named array of plain numbers or text, of the right number of dimensions and, where that is given, length."""
    array = arrays[name]
    if array.dtype.kind not in "biufUS":
        raise ValueError(f"the array {name!r} of {path} must hold numbers or text, got {array.dtype}")
    if array.ndim not in dimensions:
        wanted = " or ".join(str(k) for k in dimensions)
        raise ValueError(f"the array {name!r} of {path} must have {wanted} dimensions, got shape {array.shape}")
    if length is not None and len(array) != length:
        raise ValueError(f"the array {name!r} of {path} must have one entry per token ({length}), got {len(array)}")
    return array


def _npz_labels(arrays: dict[str, np.ndarray], path: Path, names: tuple[str, str]) -> np.ndarray | None:
    name = next((name for name in names if name in arrays), None)
    if name is None:
        return None
    labels = plain_labels(_dimensional(arrays, path, name, (1,)), f"the array {name!r} of {path}")
    if labels.dtype.kind == "f" and np.isnan(labels).any():
        raise ValueError(f"the array {name!r} of {path} has no label at place {int(np.argmax(np.isnan(labels)))}")
    return labels


@dataclass(frozen=True)
class LabelledFolder:
    """Bags of a folder."""

    bags: Any
    labels: np.ndarray | None
    groups: np.ndarray | None


def open_folder(
    files: Any,
    labels: Any = None,
    *,
    key: str | None = None,
    bag: str = "bag_id",
    label: str = "label",
    token_label: str = "instance_label",
    ignore: Sequence[str] = (),
    features: Sequence[str] | None = None,
    groups: str | None = None,
    literal_ids: bool = False,
    need_labels: bool = False,
    skip_unmatched: bool = False,
    executor: Any = "local",
    scheduler: str | None = None,
    missing: str = "error",
) -> LabelledFolder:
    """Bags from one file per bag, or from Parquet files with several each, for `Bags.from_files` and `read_bags`."""
    checked_treatment(missing, READ)
    found = list_files(files)
    place = files if isinstance(files, str | Path) else found.paths[0].parent
    known = None if labels is None else values_by_id(labels, bag, label, literal_ids)
    if skip_unmatched and known is None:
        raise ValueError("skip_unmatched goes with a table of labels")
    if groups is not None and labels is None:
        raise ValueError("the groups of a folder's bags are a column of the table of labels (labels_file, or --labels)")
    if need_labels and known is None and not found.are_tables:
        raise ValueError(f"{place} is a folder of bags: give the table with their labels (labels_file, or --labels)")
    check_ignored(found, ignore)
    if skip_unmatched and known is not None and not holds_tables(found, (bag,)):
        found = _with_values(found, known)  # other files are not even read
    aside = (token_label, *ignore, *([] if groups is None else [groups]))
    own_labels = None
    bags: Any
    if isinstance(executor, str) and executor == "local":
        if scheduler is not None:
            raise ValueError("scheduler belongs to executor='dask'")
        held = gather(found, key, bag, label, aside, features, need_labels and known is None, missing)
        bags, own_labels = Bags.trusted(held.tokens, held.starts, held.ids, held.names), held.labels
    elif missing != "error":
        raise ValueError("missing must be 'error' for bags on a cluster: its workers read complete tokens only")
    else:
        bags = on_cluster(found, executor, scheduler, key, bag, label, aside)
    if known is None:
        if need_labels and own_labels is None:
            raise ValueError(
                f"{place} has no column {label!r} for the labels: give the table with them (labels_file, or --labels)"
            )
        return LabelledFolder(bags, own_labels, None)
    values = values_of_bags(known, bags.ids, skip_unmatched)
    if skip_unmatched and len(values) < len(bags):
        kept = np.array([name in values for name in bags.ids.tolist()])
        if not kept.any():
            raise ValueError(f"none of the {len(bags)} bags in {place} has a label; the first is {bags.ids[0]!r}")
        bags, own_labels = bags[kept], None if own_labels is None else own_labels[kept]
    found_labels = bags.labels(values)
    if own_labels is not None and label not in ignore:
        where = f"column {label!r} of the files in {place}"
        source = labels if isinstance(labels, str | Path) else "the table of labels"
        check_agreement(found_labels, own_labels, bags.ids, where, source, leave_out(label))
    found_groups = None
    if groups is not None:
        of_table = values_by_id(labels, bag, groups, literal_ids)
        found_groups = bags.labels(values_of_bags(of_table, bags.ids, skip_unmatched))
    return LabelledFolder(bags, found_labels, found_groups)


def values_of_bags(values: dict[str, Any], ids: Iterable[str], skip_unmatched: bool = False) -> dict[str, Any]:
    """Values of a table by bag id, where the table may name a bag's file instead, ending and all."""
    known = set(ids)
    found: dict[str, Any] = {}
    named: dict[str, str] = {}
    for name, value in values.items():
        ending = None if name in known else ending_of(Path(name))
        bag = name if ending is None else name[: -len(ending)]
        if skip_unmatched and bag not in known:
            continue
        if bag in named:
            raise ValueError(f"the table of labels names bag {bag!r} twice, as {named[bag]!r} and as {name!r}")
        found[bag], named[bag] = value, name
    return found


def _with_values(files: BagFiles, values: dict[str, Any]) -> BagFiles:
    """The files whose bags have a value."""
    wanted = values_of_bags(values, files.ids, skip_unmatched=True)
    kept = [i for i, name in enumerate(files.ids) if name in wanted]
    if not kept:
        raise ValueError(f"none of the {len(files.ids)} files has a label; the first is {files.paths[0]}")
    return BagFiles(tuple(files.paths[i] for i in kept), tuple(files.ids[i] for i in kept))

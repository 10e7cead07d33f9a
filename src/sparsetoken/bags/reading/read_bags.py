"""Bags from files: one table of tokens (CSV, also .gz, Parquet, NPZ), or a folder with one file per bag.

Nothing in a data file is ever executed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..bags import Bags
from ..dask_cluster import on_cluster
from ..input_forms import distinct_ids
from .array_files import npz_arrays
from .folders import check_ignored, gather, list_files, means_files
from .tables import (
    Held,
    Reading,
    check_agreement,
    check_column,
    check_names,
    ending_is,
    feature_columns,
    is_numeric,
    label_per_bag,
    leave_out,
    listed,
    plain_labels,
    read_table,
    text_ids,
    values_by_id,
    values_of_bags,
)


@dataclass(frozen=True)
class BagFile:
    """What a file or folder of bags held."""

    bags: Any
    labels: np.ndarray | None
    groups: np.ndarray | None
    token_labels: np.ndarray | None
    beside: dict[str, np.ndarray]  # the columns of `beside`, in the order of the tokens


def read_bags(
    path: str | Path,
    bag: str = "bag_id",
    label: str = "label",
    *,
    labels_file: str | Path | None = None,
    need_labels: bool = True,
    **how: Any,
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
    labels_file : str or Path, optional
        A table with one row per bag (bag id, label), where labels are kept apart. Labels beside the tokens that contradict
        it are an error, unless their column is ignored.
    need_labels : bool
        Whether a file without labels is an error.
    **how
        Any of these.

        - `token_label`: column with labels of single tokens, never a feature ("instance_label"; it may be absent).
        - `groups`: column with the groups of the bags (such as patients), in the file or in `labels_file`, never a feature.
        - `ignore`: further columns that are not features.
        - `beside`: columns of single tokens to read beside the features, such as names or coordinates; in files that hold
          arrays, the arrays of these names.
        - `features`: the columns to use, in this order (a fitted model's); all others are then ignored.
        - `literal_ids`: whether ids such as NA, null or nan are ids like any other; otherwise they count as missing, as
          everywhere else in a table. An empty cell is always missing.
        - `missing`: "error", "keep" or "drop-token", whether missing values (NaN) among the features are refused, kept for an
          estimator that takes them, or the tokens that have some are left out.
        - `key`: the array of features, where the files of a folder hold several; by default one of the usual names.
        - `skip_unmatched`: whether files of a folder without a label, and labels without a file, are left out instead of
          being an error.
        - `executor`, `scheduler`: where sums over the bags of a folder are computed: "local", "dask" with the scheduler's
          address ("tcp://host:8786"; without it, the client that is open), or a distributed.Client.

    Returns
    -------
    BagFile
        `bags`, `labels`, `groups`, `token_labels`, and `beside` by name.
    """
    path = Path(path)
    reading = Reading(bag, label, need_labels=need_labels, **how)
    if means_files(path):
        return open_folder(path, labels_file, reading)
    for option, unused in (("executor", "local"), ("key", None), ("skip_unmatched", False)):
        if getattr(reading, option) != unused:
            raise ValueError(f"{option} goes with a folder of files, not with the one file {path}")
    values = None if labels_file is None else values_by_id(labels_file, reading, label)
    read = _read_npz if ending_is(path, ".npz") else _read_rows
    return _labelled(read(path, reading, values is None), path, labels_file, values, reading)


def open_folder(files: Any, labels: Any, reading: Reading) -> BagFile:
    """Bags from one file per bag, or from Parquet files with several each, here or on a cluster."""
    listing = list_files(files)
    place = files if isinstance(files, str | Path) else listing.paths[0].parent
    values = None if labels is None else values_by_id(labels, reading, reading.label)  # before a long reading
    if values is None:
        if reading.skip_unmatched:
            raise ValueError("skip_unmatched goes with a table of labels")
        if reading.groups is not None and not listing.are_tables:
            raise ValueError(
                "the groups of a folder's bags are a column of the table of labels (labels_file, or --labels)"
            )
        if reading.need_labels and not listing.are_tables:
            what = "a folder of bags" if len(listing.paths) > 1 else "a bag without a label"
            raise ValueError(f"{place} is {what}: give the table with their labels (labels_file, or --labels)")
    check_ignored(listing, reading.ignore)
    if reading.skip_unmatched and values is not None and not listing.have_column(reading.bag):
        wanted = values_of_bags(values, listing.ids, skip_unmatched=True)  # other files are not even read
        kept = [i for i, name in enumerate(listing.ids) if name in wanted]
        if not kept:
            raise ValueError(f"none of the {len(listing.ids)} files has a label; the first is {listing.paths[0]}")
        listing = listing.some(kept)
    held = gather(listing, reading) if reading.here else Held(on_cluster(listing, reading))
    return _labelled(held, place, labels, values, reading)


def _labelled(held: Held, place: Any, source: Any, values: dict[str, Any] | None, reading: Reading) -> BagFile:
    """The bags with the labels and groups that their files have, or a table (`source`; `values` are its labels)."""
    if reading.missing == "drop-token":
        held = replace(held, bags=held.bags.without_incomplete_tokens())
    if values is None:
        labels = _own_labels(held, place, reading)
    else:
        values = values_of_bags(values, held.bags.ids, reading.skip_unmatched)
        if reading.skip_unmatched:
            held = _with_labels(held, place, values)
        labels = held.bags.labels(values)
        from_files = held.columns.get(reading.label)
        if from_files is not None and reading.label not in reading.ignore:
            where = (f"{place}", f"{source}" if isinstance(source, str | Path) else "the table of labels")
            check_agreement(labels[held.bag_of_row], from_files, held.bags.ids[held.bag_of_row], where, held.remedy)
    tokens: dict[str, np.ndarray] = {}
    if held.columns and reading.missing != "drop-token":  # some tokens of the rows may have been left out
        order = np.argsort(held.bag_of_row, kind="stable")
        aside = (reading.token_label, *reading.beside)
        tokens = {name: held.columns[name][order] for name in aside if name in held.columns}
    token_labels = tokens.pop(reading.token_label, None)
    if token_labels is not None and pd.isna(token_labels).any():
        token_labels = None
    return BagFile(held.bags, labels, _groups(held, place, source, reading), token_labels, tokens)


def _with_labels(held: Held, place: Any, values: dict[str, Any]) -> Held:
    """The bags that have a label, and their rows."""
    kept = np.array([name in values for name in held.bags.ids.tolist()])
    if kept.all():
        return held
    if not kept.any():
        raise ValueError(f"none of the {len(kept)} bags in {place} has a label; the first is {held.bags.ids[0]!r}")
    rows = kept[held.bag_of_row]
    mine = (np.cumsum(kept) - 1)[held.bag_of_row[rows]]
    columns = {name: column[rows] for name, column in held.columns.items()}
    return replace(held, bags=held.bags[kept], bag_of_row=mine, columns=columns)


def _own_labels(held: Held, place: Any, reading: Reading) -> np.ndarray | None:
    labels = held.columns.get(reading.label)
    if labels is not None and (reading.need_labels or not pd.isna(labels).any()):
        return label_per_bag(labels, held.bag_of_row, held.bags.ids, reading.label)
    if reading.need_labels:
        lacks = f"{place} has no column {reading.label!r} for the labels"
        raise ValueError(f"{lacks}: give the table with them (labels_file, or --labels)")
    return None


def _groups(held: Held, place: Any, source: Any, reading: Reading) -> np.ndarray | None:
    """The groups of the bags, from the files or from the table of labels."""
    if reading.groups is None:
        return None
    if reading.groups in held.columns:
        groups = held.columns[reading.groups]
        return label_per_bag(groups, held.bag_of_row, held.bags.ids, reading.groups, "group")
    if source is None:
        raise ValueError(f"groups are a column of a table; {place} has no column {reading.groups!r}")
    values = values_by_id(source, reading, reading.groups)
    return held.bags.labels(values_of_bags(values, held.bags.ids, reading.skip_unmatched))


def _read_rows(path: Path, reading: Reading, alone: bool) -> Held:
    """Bags from a table with one row per token; `alone` where no other table has labels."""
    table = read_table(path, reading)
    labelled = alone and reading.need_labels
    for option, needed in (("bag", True), ("label", labelled), ("groups", alone and reading.groups is not None)):
        if needed:
            check_column(getattr(reading, option), option, table.columns, path)
    if labelled and reading.label == reading.bag:
        raise ValueError(f"label must be another column than the bag ids, got {reading.label!r} for both")
    for column in reading.ignore:
        if column not in table.columns:
            raise ValueError(f"{path} has no column {column!r} to ignore")
    columns = feature_columns(
        list(table.columns), lambda name: is_numeric(table[name]), path, reading.aside, reading.features
    )
    ids = text_ids(table[reading.bag], path)
    codes, _ = distinct_ids(ids, len(ids))
    rows = {name: table[name].to_numpy() for name in reading.carried if name in table}
    return Held(Bags(table[columns], ids=ids, missing=reading.kept), codes, rows, leave_out(reading.label))


def _read_npz(path: Path, reading: Reading, alone: bool) -> Held:
    """Bags from arrays: `tokens` and `bag`, or `X` with an optional `mask`."""
    if reading.ignore:
        raise ValueError(f"{path} has no column {reading.ignore[0]!r} to ignore: it holds arrays")
    if reading.groups is not None and alone:
        raise ValueError(f"groups are a column of a table; {path} has no columns")
    arrays = npz_arrays(path)
    tokens = "tokens" in arrays
    if not tokens and "X" not in arrays:
        raise ValueError(f"{path} must hold 'tokens' and 'bag', or 'X'; it holds {listed(arrays)}")
    if tokens and "bag" not in arrays:
        raise ValueError(f"{path} has tokens but no array 'bag' with their bag ids")
    if tokens:
        count = len(_dimensional(arrays, path, "tokens", (2,)))
        ids = text_ids(pd.Series(_dimensional(arrays, path, "bag", (1,), count)), path)
        bags, (codes, _) = Bags(arrays["tokens"], ids=ids, missing=reading.kept), distinct_ids(ids, count)
    else:
        _dimensional(arrays, path, "X", (2, 3))
        bags = Bags(arrays["X"], mask=arrays.get("mask"), missing=reading.kept)
        codes, count = bags.bag_of_token, bags.n_tokens
    if "features" in arrays:
        bags = bags.with_tokens(bags.tokens, _npz_feature_names(arrays["features"], bags.n_features, path))
    columns = {}
    labels = _npz_labels(arrays, path, ("label", "y") if tokens else ("y", "label"))
    if labels is not None:
        if len(labels) not in (len(bags), count if tokens else len(bags)):
            raise ValueError(f"{path} has {len(labels)} labels for {len(bags)} bags")
        columns[reading.label] = labels[codes] if len(labels) == len(bags) else labels
    elif reading.need_labels and alone:
        raise ValueError(f"{path} has no array 'label' (or 'y') with the labels")
    if tokens and "token_label" in arrays:
        columns[reading.token_label] = _dimensional(arrays, path, "token_label", (1,), count)
    for name in reading.beside:
        if name in arrays:
            columns[name] = _dimensional(arrays, path, name, (1, 2), count)
    return Held(bags, codes, columns)


def _npz_feature_names(stored: np.ndarray, count: int, path: Path) -> np.ndarray:
    names = np.array([str(name) for name in np.atleast_1d(stored)], dtype=object)
    if len(names) != count:
        raise ValueError(f"{path} names {len(names)} features, its tokens have {count}")
    check_names(names, path, "feature")
    return names


def _dimensional(
    arrays: dict[str, np.ndarray], path: Path, name: str, dimensions: tuple[int, ...], length: int | None = None
) -> np.ndarray:
    """The named array of plain numbers or text, of the right number of dimensions and, where that is given, length."""
    array = arrays[name]
    if array.dtype.kind not in "biufU":
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

"""Bags from files: one table of tokens (CSV, also .gz, Parquet, NPZ), or a folder with one file per bag.

Nothing in a data file is ever executed.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .bags import Bags
from .folders import means_files
from .forms import distinct_ids
from .labelled_folders import open_folder
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
    """What a file of bags held.

    Attributes
    ----------
    bags : Bags or ClusterBags
        The bags; their ids are text.
    labels : ndarray or None
        One label per bag, None where the file has none.
    token_labels : ndarray or None
        One label per token, in the order of `bags.tokens`, None where the file has none or not all.
    groups : ndarray or None
        One group per bag (such as its patient), None where none were asked for.
    """

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
            Bags.trusted,
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
        )
        return BagFile(opened.bags, opened.labels, None, opened.groups)
    if executor != "local":
        raise ValueError(f"executor goes with a folder of files, not with the one file {path}")
    if key is not None or skip_unmatched:
        raise ValueError(f"key and skip_unmatched go with a folder of files, not with the one file {path}")
    if ending_is(path, ".npz"):
        if groups is not None and labels_file is None:
            raise ValueError(f"groups are a column of a table; {path} has no columns")
        if ignore:
            raise ValueError(f"{path} has no column {ignore[0]!r} to ignore: it holds arrays")
        read = _read_npz(path, need_labels and labels_file is None)
        if labels_file is None:
            return read

        def beside(column: str) -> np.ndarray:
            return read.bags.labels(values_by_id(labels_file, bag, column, literal_ids))

        apart = beside(label)
        if read.labels is not None:
            remedy = "one of them must go or be mended"
            check_agreement(apart, read.labels, read.bags.ids, f"{path}", labels_file, remedy)
        return BagFile(read.bags, apart, read.token_labels, None if groups is None else beside(groups))
    table = read_table(path, bag, literal_ids)
    if bag not in table.columns:
        raise ValueError(f"{path} has no column {bag!r} for the bag ids; its columns are {listed(table.columns)}")
    if need_labels and label == bag:
        raise ValueError(f"label must be another column than the bag ids, got {label!r} for both")
    own_labels = label in table.columns
    if need_labels and not own_labels and labels_file is None:
        raise ValueError(f"{path} has no column {label!r} for the labels; its columns are {listed(table.columns)}")
    for name in ignore:
        if name not in table.columns:
            raise ValueError(f"{path} has no column {name!r} to ignore")
    own_groups = groups is not None and groups in table.columns
    if groups is not None and not own_groups and labels_file is None:
        raise ValueError(f"{path} has no column {groups!r} for the groups; its columns are {listed(table.columns)}")
    aside = {bag, label, token_label, *ignore} | ({groups} if groups is not None else set())
    columns = [c for c in table.columns if c not in aside] if features is None else list(features)
    for name in columns:
        if name not in table.columns:
            raise ValueError(f"{path} has no column {name!r}, which the model needs")
        if not is_numeric(table[name]):
            raise ValueError(not_numeric(name, path))
    if not columns:
        raise ValueError(f"{path} has no feature columns beside {listed(sorted(aside & set(table.columns)))}")
    ids = text_ids(table[bag], path)
    bags = Bags(table[columns], ids=ids)
    order = np.argsort(distinct_ids(ids, len(ids))[0], kind="stable")
    token_labels = None
    if token_label in table.columns and not table[token_label].isna().any():
        token_labels = table[token_label].to_numpy()[order]
    labels = None
    if labels_file is not None:
        labels = bags.labels(values_by_id(labels_file, bag, label, literal_ids))
        if own_labels and label not in ignore:
            rows = bags.bag_of_token
            where = f"column {label!r} of {path}"
            others = table[label].to_numpy()[order]
            check_agreement(labels[rows], others, bags.ids[rows], where, labels_file, leave_out(label))
    elif own_labels and (need_labels or not table[label].isna().any()):
        labels = label_per_bag(table[label].to_numpy()[order], bags.bag_of_token, bags.ids, label)
    grouped = None
    if own_groups:
        grouped = label_per_bag(table[groups].to_numpy()[order], bags.bag_of_token, bags.ids, str(groups), "group")
    elif groups is not None:
        grouped = bags.labels(values_by_id(labels_file, bag, groups, literal_ids))
    return BagFile(bags, labels, token_labels, grouped)


def _read_npz(path: Path, need_labels: bool) -> BagFile:
    if not path.is_file():
        raise ValueError(f"there is no file {path}")
    if not zipfile.is_zipfile(path):  # NumPy would take it for a pickle, and say how to load one
        raise ValueError(f"{path} is not an .npz file, or is damaged")
    try:
        with np.load(path, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
    except (zipfile.BadZipFile, OSError, EOFError, zlib.error, ValueError, KeyError, SyntaxError) as error:
        raise ValueError(f"{path} cannot be read as plain arrays: {error}") from None
    token_labels = None
    if "tokens" in arrays:
        if "bag" not in arrays:
            raise ValueError(f"{path} has tokens but no array 'bag' with their bag ids")
        count = len(_dimensional(arrays, path, "tokens", (2,)))
        ids = _dimensional(arrays, path, "bag", (1,), count)
        if ids.dtype.kind == "S":
            ids = np.char.decode(ids, "utf-8", "replace")
        elif ids.dtype.kind == "f" and np.isnan(ids).any():
            raise ValueError(f"row {int(np.argmax(np.isnan(ids))) + 1} of {path} has no bag id")
        ids = np.array([str(name) for name in ids.tolist()], dtype=object)
        bags = Bags(arrays["tokens"], ids=ids)
        order = np.argsort(distinct_ids(ids, count)[0], kind="stable")
        labels = _npz_labels(arrays, path, ("label", "y"))
        if labels is not None and len(labels) == bags.n_tokens and len(labels) != len(bags):
            labels = label_per_bag(labels[order], bags.bag_of_token, bags.ids, "label")
        if "token_label" in arrays:
            token_labels = _dimensional(arrays, path, "token_label", (1,), count)[order]
    elif "X" in arrays:
        _dimensional(arrays, path, "X", (2, 3))
        bags = Bags(arrays["X"], mask=arrays.get("mask"))
        labels = _npz_labels(arrays, path, ("y", "label"))
    else:
        raise ValueError(f"{path} must hold 'tokens' and 'bag', or 'X'; it holds {listed(arrays)}")
    if need_labels and labels is None:
        raise ValueError(f"{path} has no array 'label' (or 'y') with the labels")
    if labels is not None and len(labels) != len(bags):
        raise ValueError(f"{path} has {len(labels)} labels for {len(bags)} bags")
    if "features" in arrays:
        given = np.atleast_1d(arrays["features"])
        given = np.char.decode(given, "utf-8", "replace") if given.dtype.kind == "S" else given
        names = np.array([str(n) for n in given], dtype=object)
        if len(names) != bags.n_features:
            raise ValueError(f"{path} names {len(names)} features, its tokens have {bags.n_features}")
        if len(set(names)) < len(names):
            twice = next(name for i, name in enumerate(names) if name in names[:i])
            raise ValueError(f"{path} has two features {twice!r}; give every feature a name of its own")
        bags = bags.with_tokens(bags.tokens, names)
    return BagFile(bags, labels, token_labels)


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

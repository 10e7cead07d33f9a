"""Bags from files: CSV (also .gz), Parquet and NPZ. Nothing in a data file is ever executed."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .bags import Bags, distinct_ids, shown

if TYPE_CHECKING:
    import pandas as pd

FORMATS = ".csv, .csv.gz, .parquet or .npz"


@dataclass(frozen=True)
class BagFile:
    """What a file of bags held.

    Attributes
    ----------
    bags : Bags
        The bags; their ids are text.
    labels : ndarray or None
        One label per bag, None where the file has none.
    token_labels : ndarray or None
        One label per token, in the order of `bags.tokens`, None where the file has none or not all.
    """

    bags: Bags
    labels: np.ndarray | None
    token_labels: np.ndarray | None


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
) -> BagFile:
    """Read bags, one row per token, and their labels.

    An .npz file holds `tokens` (N, d), `bag` (N) and `label` (one per bag, in order of first appearance, or one per
    token), or `X` (n, L, d) with an optional `mask` (n, L) and `y` (n); an optional `features` names the d columns.

    Parameters
    ----------
    path : str or Path
        A .csv, .csv.gz, .parquet or .npz file.
    bag : str
        Column with the bag ids; the rows of a bag need not be neighbours. Ids are text: 1, 01 and 1.0 are three bags.
    label : str
        Column with the labels, the same in every row of a bag; or a column of `labels_file`.
    token_label : str
        Column with labels of single tokens: never a feature, and optional.
    ignore : sequence of str
        Further columns that are not features.
    labels_file : str or Path, optional
        A table with one row per bag (bag id, label), where labels are kept apart.
    need_labels : bool
        Whether a file without labels is an error.
    features : sequence of str, optional
        The columns to use, in this order (a fitted model's); all others are then ignored.
    literal_ids : bool
        Whether ids such as NA, null or nan are ids like any other; otherwise they count as missing, as everywhere else
        in a table. An empty cell is always missing.

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
    if path.name.endswith(".npz"):
        return _read_npz(path, need_labels)
    table = _read_table(path, bag, literal_ids)
    if bag not in table.columns:
        raise ValueError(f"{path} has no column {bag!r} for the bag ids; its columns are {_listed(table.columns)}")
    own_labels = label in table.columns
    if need_labels and not own_labels and labels_file is None:
        raise ValueError(f"{path} has no column {label!r} for the labels; its columns are {_listed(table.columns)}")
    for name in ignore:
        if name not in table.columns:
            raise ValueError(f"{path} has no column {name!r} to ignore")
    aside = {bag, label, token_label, *ignore}
    columns = [c for c in table.columns if c not in aside] if features is None else list(features)
    for name in columns:
        if name not in table.columns:
            raise ValueError(f"{path} has no column {name!r}, which the model needs")
        if not _numeric(table[name]):
            raise ValueError(f"column {name!r} of {path} is not numeric; leave it out with --ignore {name}")
    if not columns:
        raise ValueError(f"{path} has no feature columns beside {_listed(sorted(aside & set(table.columns)))}")
    ids = _text_ids(table[bag], path)
    bags = Bags(table[columns], ids=ids)
    order = np.argsort(distinct_ids(ids, len(ids))[0], kind="stable")
    token_labels = None
    if token_label in table.columns and not table[token_label].isna().any():
        token_labels = table[token_label].to_numpy()[order]
    labels = None
    if labels_file is not None:
        labels = _labels_apart(bags, Path(labels_file), bag, label, literal_ids)
    elif own_labels and (need_labels or not table[label].isna().any()):
        labels = _one_per_bag(bags, table[label].to_numpy()[order], label)
    return BagFile(bags, labels, token_labels)


def _listed(names: Any) -> str:
    shown = [repr(str(n)) for n in list(names)[:8]]
    return ", ".join(shown) + (", ..." if len(list(names)) > 8 else "")


def _numeric(column: pd.Series) -> bool:
    from pandas.api.types import is_bool_dtype, is_complex_dtype, is_numeric_dtype

    return (is_numeric_dtype(column) or is_bool_dtype(column)) and not is_complex_dtype(column)


def _read_table(path: Path, bag: str, literal_ids: bool) -> pd.DataFrame:
    """The table in a file, with the column of bag ids as text where the file is text."""
    import pandas as pd

    if not path.is_file():
        raise ValueError(f"there is no file {path}")
    try:
        if path.name.endswith((".csv", ".csv.gz")):
            table = pd.read_csv(path, dtype={bag: str})
            if literal_ids and bag in table.columns:
                table[bag] = pd.read_csv(path, usecols=[bag], dtype=str, keep_default_na=False, na_values=[""])[bag]
        elif path.name.endswith((".parquet", ".pq")):
            table = pd.read_parquet(path)
        else:
            raise ValueError(f"{path} must be a {FORMATS} file")
    except (
        pd.errors.EmptyDataError,
        pd.errors.ParserError,
        UnicodeDecodeError,
        EOFError,
        OSError,
        zlib.error,
    ) as error:
        raise ValueError(f"{path} cannot be read as a table: {error}") from None
    table.columns = [str(c) for c in table.columns]
    twice = table.columns[table.columns.duplicated()]
    if len(twice):
        raise ValueError(f"{path} has two columns {twice[0]!r}")
    if len(table) == 0:
        raise ValueError(f"{path} has no rows")
    return table


def _text_ids(column: pd.Series, path: Path) -> np.ndarray:
    """The bag ids as text."""
    missing = column.isna()
    if missing.any():
        raise ValueError(f"row {int(np.argmax(missing)) + 1} of {path} has no bag id")
    if not isinstance(column.dtype, np.dtype) or column.dtype == object:
        for row, name in enumerate(column):
            if not isinstance(name, str | int | float | np.generic) and not hasattr(name, "isoformat"):
                raise ValueError(
                    f"row {row + 1} of {path} has a {type(name).__name__} as its bag id; ids must be text or numbers"
                )
    return column.astype(str).to_numpy(dtype=object)


def _one_per_bag(bags: Bags, values: np.ndarray, label: str) -> np.ndarray:
    """The label of each bag from labels of all its tokens, which must agree."""
    import pandas as pd

    missing = pd.isna(values)
    if missing.any():
        raise ValueError(f"bag {_name(bags, int(np.argmax(missing)))} has no label in column {label!r}")
    labels = _plain(values, f"column {label!r}")
    starts = np.repeat(bags.starts, bags.lengths)
    differs = labels != labels[starts]
    if np.any(differs):
        row = int(np.argmax(differs))
        raise ValueError(
            f"bag {_name(bags, row)} has more than one label in column {label!r}: "
            f"{shown(labels[starts[row]])} and {shown(labels[row])}"
        )
    return labels[bags.starts]


def _name(bags: Bags, row: int) -> str:
    return shown(bags.ids[int(np.searchsorted(bags.starts, row, side="right")) - 1])


def _plain(labels: np.ndarray, where: str) -> np.ndarray:
    """Strings as a string array, whole numbers as integers (a missing value elsewhere makes pandas read floats)."""
    if labels.dtype == object:
        for value in labels:
            if not isinstance(value, str | int | float | np.generic):
                raise ValueError(f"{where} holds a {type(value).__name__} as a label; labels must be text or numbers")
        for kind in (bool, int):  # pandas' own types with room for missing values come as objects
            if all(type(value) is kind for value in labels):
                return labels.astype(kind)
        return np.array([str(v) for v in labels])
    if labels.dtype.kind == "f" and np.all(labels == np.round(labels)):
        return labels.astype(int)
    return labels


def _labels_apart(bags: Bags, path: Path, bag: str, label: str, literal_ids: bool) -> np.ndarray:
    table = _read_table(path, bag, literal_ids)
    for name in (bag, label):
        if name not in table.columns:
            raise ValueError(f"{path} has no column {name!r}; its columns are {_listed(table.columns)}")
    ids = _text_ids(table[bag], path)
    _, counts = np.unique(ids, return_counts=True)
    if counts.max() > 1:
        raise ValueError(f"{path} names bag {shown(np.unique(ids)[int(np.argmax(counts > 1))])} twice")
    missing = table[label].isna().to_numpy()
    if missing.any():
        raise ValueError(f"bag {shown(ids[int(np.argmax(missing))])} has no label in {path}")
    labels = _plain(table[label].to_numpy(), f"column {label!r} of {path}")
    return bags.labels(dict(zip(ids.tolist(), labels.tolist())))


def _read_npz(path: Path, need_labels: bool) -> BagFile:
    if not path.is_file():
        raise ValueError(f"there is no file {path}")
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
            labels = _one_per_bag(bags, labels[order], "label")
        if "token_label" in arrays:
            token_labels = _dimensional(arrays, path, "token_label", (1,), count)[order]
    elif "X" in arrays:
        _dimensional(arrays, path, "X", (2, 3))
        bags = Bags(arrays["X"], mask=arrays.get("mask"))
        labels = _npz_labels(arrays, path, ("y", "label"))
    else:
        raise ValueError(f"{path} must hold 'tokens' and 'bag', or 'X'; it holds {_listed(arrays)}")
    if need_labels and labels is None:
        raise ValueError(f"{path} has no array 'label' (or 'y') with the labels")
    if labels is not None and len(labels) != len(bags):
        raise ValueError(f"{path} has {len(labels)} labels for {len(bags)} bags")
    if "features" in arrays:
        names = np.array([str(n) for n in np.atleast_1d(arrays["features"])], dtype=object)
        if len(names) != bags.n_features:
            raise ValueError(f"{path} names {len(names)} features, its tokens have {bags.n_features}")
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
    return None if name is None else _dimensional(arrays, path, name, (1,))

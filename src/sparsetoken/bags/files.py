"""Bags from files: CSV (also .gz), Parquet and NPZ. Nothing in a data file is ever executed."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

    from .bags import Bags

FORMATS = ".csv, .csv.gz, .parquet or .npz"


@dataclass(frozen=True)
class BagFile:
    """What a file of bags held.

    labels        one a bag, or None where the file has none
    token_labels  one a token, in the order of `bags.tokens`, or None
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
) -> BagFile:
    """Read bags, one row a token, and their labels.

    bag          column with the bag ids; the rows of a bag need not be neighbours
    label        column with the labels, the same in every row of a bag; or a column of `labels_file`
    token_label  column with labels of single tokens: never a feature, and optional
    ignore       further columns that are no features
    labels_file  a table with one row a bag (bag id, label) when labels are kept apart
    features     the columns to use, in this order (a fitted model's); all others are then ignored

    An .npz file holds `tokens` (N, d), `bag` (N) and `label` (one a bag, in order of first appearance, or one a
    token), or `X` (n, L, d) with an optional `mask` (n, L) and `y` (n); an optional `features` names the d columns.
    """
    path = Path(path)
    if path.name.endswith(".npz"):
        return _read_npz(path, need_labels)
    table = _read_table(path)
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
    if table[bag].isna().any():
        raise ValueError(f"row {int(np.argmax(table[bag].isna())) + 1} of {path} has no bag id")
    from .bags import Bags

    bags = Bags(table[columns], ids=table[bag].to_numpy())
    order = np.argsort(_codes(table[bag]), kind="stable")
    token_labels = table[token_label].to_numpy()[order] if token_label in table.columns else None
    labels = None
    if labels_file is not None:
        labels = _labels_apart(bags, Path(labels_file), bag, label)
    elif own_labels and (need_labels or not table[label].isna().any()):
        labels = _one_a_bag(bags, table[label].to_numpy()[order], label)
    return BagFile(bags, labels, token_labels)


def _codes(ids: pd.Series) -> np.ndarray:
    import pandas as pd

    return pd.factorize(ids)[0]


def _listed(names: Any) -> str:
    shown = [repr(str(n)) for n in list(names)[:8]]
    return ", ".join(shown) + (", ..." if len(list(names)) > 8 else "")


def _numeric(column: pd.Series) -> bool:
    from pandas.api.types import is_bool_dtype, is_numeric_dtype

    return is_numeric_dtype(column) or is_bool_dtype(column)


def _read_table(path: Path) -> pd.DataFrame:
    import pandas as pd

    if not path.is_file():
        raise ValueError(f"there is no file {path}")
    try:
        if path.name.endswith((".csv", ".csv.gz")):
            table = pd.read_csv(path)
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
    if len(table) == 0:
        raise ValueError(f"{path} has no rows")
    return table


def _one_a_bag(bags: Bags, values: np.ndarray, label: str) -> np.ndarray:
    """The label of each bag from labels of all its tokens, which must agree."""
    import pandas as pd

    from .bags import shown

    starts = np.repeat(bags.starts, bags.lengths)
    missing = pd.isna(values)
    if missing.any():
        raise ValueError(f"bag {_name(bags, int(np.argmax(missing)))} has no label in column {label!r}")
    differs = values != values[starts]
    if np.any(differs):
        row = int(np.argmax(differs))
        raise ValueError(
            f"bag {_name(bags, row)} has more than one label in column {label!r}: "
            f"{shown(values[starts[row]])} and {shown(values[row])}"
        )
    return _plain(values[bags.starts])


def _name(bags: Bags, row: int) -> str:
    from .bags import shown

    return shown(bags.ids[int(np.searchsorted(bags.starts, row, side="right")) - 1])


def _plain(labels: np.ndarray) -> np.ndarray:
    """Strings as a string array, whole numbers as integers (a missing value elsewhere makes pandas read floats)."""
    if labels.dtype == object:
        return np.array([str(v) for v in labels])
    if labels.dtype.kind == "f" and np.all(labels == np.round(labels)):
        return labels.astype(int)
    return labels


def _labels_apart(bags: Bags, path: Path, bag: str, label: str) -> np.ndarray:
    from .bags import shown

    table = _read_table(path)
    for name in (bag, label):
        if name not in table.columns:
            raise ValueError(f"{path} has no column {name!r}; its columns are {_listed(table.columns)}")
    twice = table[bag].duplicated()
    if twice.any():
        raise ValueError(f"{path} names bag {shown(table[bag][twice].iloc[0])} twice")
    if table[label].isna().any():
        raise ValueError(f"bag {shown(table[bag][table[label].isna()].iloc[0])} has no label in {path}")
    return _plain(bags.labels(table.set_index(bag)[label]))


def _read_npz(path: Path, need_labels: bool) -> BagFile:
    from .bags import Bags

    if not path.is_file():
        raise ValueError(f"there is no file {path}")
    try:
        with np.load(path, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
    except (zipfile.BadZipFile, OSError, EOFError, zlib.error, ValueError) as error:
        raise ValueError(f"{path} cannot be read as plain arrays: {error}") from None
    if "tokens" in arrays:
        if "bag" not in arrays:
            raise ValueError(f"{path} has tokens but no array 'bag' with their bag ids")
        bags = Bags(arrays["tokens"], ids=arrays["bag"])
        order = np.argsort(_codes(arrays["bag"]), kind="stable")
        labels = arrays.get("label", arrays.get("y"))
        if labels is not None and len(labels) == bags.n_tokens and len(labels) != len(bags):
            labels = _one_a_bag(bags, labels[order], "label")
        token_labels = arrays["token_label"][order] if "token_label" in arrays else None
    elif "X" in arrays:
        bags = Bags(arrays["X"], mask=arrays.get("mask"))
        labels, token_labels = arrays.get("y", arrays.get("label")), None
    else:
        raise ValueError(f"{path} must hold 'tokens' and 'bag', or 'X'; it holds {_listed(arrays)}")
    if need_labels and labels is None:
        raise ValueError(f"{path} has no array 'label' (or 'y') with the labels")
    if labels is not None and len(labels) != len(bags):
        raise ValueError(f"{path} has {len(labels)} labels for {len(bags)} bags")
    if "features" in arrays:
        names = np.array([str(n) for n in arrays["features"]], dtype=object)
        if len(names) != bags.n_features:
            raise ValueError(f"{path} names {len(names)} features, its tokens have {bags.n_features}")
        bags = bags.with_tokens(bags.tokens, names)
    return BagFile(bags, labels, token_labels)

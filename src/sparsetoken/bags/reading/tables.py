"""Tables that go with bags: read them, take ids as text, labels as plain values."""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..._core.imports import require
from ..forms import shown

if TYPE_CHECKING:
    import pandas as pd

FORMATS = ".csv, .csv.gz, .parquet or .npz"


def listed(names: Any) -> str:
    """The first few names, as messages give them."""
    first = [repr(str(n)) for n in list(names)[:8]]
    return ", ".join(first) + (", ..." if len(list(names)) > 8 else "")


def ending_is(path: Path, *endings: str) -> bool:
    """Whether a file's name has one of the endings, in small or capital letters."""
    return path.name.lower().endswith(endings)


def is_numeric(column: pd.Series) -> bool:
    """Whether a column holds plain numbers."""
    from pandas.api.types import is_bool_dtype, is_complex_dtype, is_numeric_dtype

    return (is_numeric_dtype(column) or is_bool_dtype(column)) and not is_complex_dtype(column)


def is_number_column(kind: Any) -> bool:
    """Whether an Arrow type is one of plain numbers."""
    from pyarrow import types

    return types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)


def not_numeric(name: str, path: Path) -> str:
    """The message about a column that cannot be a feature, for callers and for users of the command line."""
    return f"column {name!r} of {path} is not numeric; leave it out with ignore=[{name!r}] (--ignore {name})"


def leave_out(column: str) -> str:
    """What may be done about a column that should not count."""
    return f"leave the column out with ignore=[{column!r}] (--ignore {column}) if the table is right"


def read_table(path: Path, bag: str, literal_ids: bool) -> pd.DataFrame:
    """The table in a file, with the column of bag ids as text where the file is text."""
    import pandas as pd

    if path.is_dir():
        raise ValueError(f"{path} is a folder, not a table")
    if not path.is_file():
        raise ValueError(f"there is no file {path}")
    try:
        if ending_is(path, ".csv", ".csv.gz"):
            _check_header(path)
            table = _read_csv(path, dtype={bag: str})
            if literal_ids and bag in table.columns:
                table[bag] = _read_csv(path, dtype={bag: str}, keep_default_na=False, na_values=[""], usecols=[bag])[
                    bag
                ]
        elif ending_is(path, ".parquet", ".pq"):
            require("parquet")
            from pyarrow import ArrowException

            try:
                table = pd.read_parquet(path)
                # Columns of the file that pandas takes for row names.
                if any(name is not None for name in table.index.names):
                    table = table.reset_index()
            except ArrowException as error:
                raise ValueError(f"{path} cannot be read as a table: {str(error).splitlines()[0]}") from None
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
        raise ValueError(f"{path} has two columns {twice[0]!r}; give every column a name of its own")
    if len(table) == 0:
        raise ValueError(f"{path} has no rows")
    return table


def _read_csv(path: Path, **how: Any) -> pd.DataFrame:
    """Every field under its name: pandas would take what rows longer than the header have at first for names of rows."""
    import pandas as pd

    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)
        try:
            return pd.read_csv(path, index_col=False, **how)
        except pd.errors.ParserWarning:
            raise ValueError(f"{path} has rows with more fields than its header has names; name every column") from None


def _check_header(path: Path) -> None:
    """Refuse a CSV file that names a column twice: pandas would call the second one x.1, a feature of its own."""
    import pandas as pd

    names = pd.read_csv(path, header=None, nrows=1, dtype=str, keep_default_na=False).iloc[0]
    twice = names[names.duplicated() & (names != "")]
    if len(twice):
        raise ValueError(f"{path} has two columns {twice.iloc[0]!r}; give every column a name of its own")


def text_ids(column: pd.Series, path: Path) -> np.ndarray:
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


def plain_labels(labels: np.ndarray, where: str) -> np.ndarray:
    """Strings as a string array, whole numbers as integers (a missing value elsewhere makes pandas read floats)."""
    if labels.dtype == object:
        for value in labels:
            if not isinstance(value, str | int | float | np.generic):
                raise ValueError(f"{where} holds a {type(value).__name__} as a label; labels must be text or numbers")
        for kind in (bool, int):  # pandas' own types with room for missing values come as objects
            if all(type(value) is kind and abs(value) < 2**63 for value in labels):
                return labels.astype(kind)
        return np.array([str(v) for v in labels])
    if labels.dtype.kind not in "biufUS":
        raise ValueError(f"{where} holds labels of the type {labels.dtype}; labels must be text or numbers")
    if labels.dtype.kind == "S":
        return np.char.decode(labels, "utf-8", "replace")
    if labels.dtype.kind == "f":
        if np.isinf(labels).any():
            raise ValueError(f"{where} holds an infinite label")
        # Beyond 2^53 neighbouring whole numbers are the same float.
        if np.all(labels == np.round(labels)) and np.abs(labels).max(initial=0.0) < 2**53:
            return labels.astype(int)
    return labels


def values_by_id(source: Any, bag: str, column: str, literal_ids: bool = False) -> dict[str, Any]:
    """One value per bag, from a table that is kept apart from the bags."""
    import pandas as pd

    if isinstance(source, Mapping | pd.Series):
        values = pd.Series(dict(source.items()), dtype=object) if isinstance(source, Mapping) else source
        where, names, column_values = "the labels", pd.Series(values.index), values.infer_objects()
    else:
        if not isinstance(source, pd.DataFrame | str | Path):
            raise ValueError(
                f"labels must be a file, a frame, or values keyed by bag id (dict or Series), got {type(source).__name__}"
            )
        table = source if isinstance(source, pd.DataFrame) else read_table(Path(source), bag, literal_ids)
        where = "the table of labels" if isinstance(source, pd.DataFrame) else str(source)
        for name in (bag, column):
            if name not in table.columns:
                raise ValueError(f"{where} has no column {name!r}; its columns are {listed(table.columns)}")
        names, column_values = table[bag], table[column]
    ids = text_ids(names, Path(where))
    if len(ids) == 0:
        raise ValueError(f"{where} has no rows")
    distinct, counts = np.unique(ids.astype(str), return_counts=True)
    if counts.max() > 1:
        raise ValueError(f"{where} names bag {str(distinct[int(np.argmax(counts > 1))])!r} twice")
    missing = column_values.isna().to_numpy()
    if missing.any():
        raise ValueError(f"bag {ids[int(np.argmax(missing))]!r} has no value in column {column!r} of {where}")
    plain = plain_labels(column_values.to_numpy(), f"column {column!r} of {where}")
    return dict(zip(ids.tolist(), plain.tolist()))


def label_per_bag(
    values: np.ndarray, bag_of_row: np.ndarray, ids: np.ndarray, column: str, what: str = "label"
) -> np.ndarray:
    """The label of each bag from a column that repeats it in every row of the bag."""
    import pandas as pd

    missing = pd.isna(values)
    if missing.any():
        raise ValueError(f"bag {shown(ids[bag_of_row[int(np.argmax(missing))]])} has no {what} in column {column!r}")
    labels = plain_labels(values, f"column {column!r}")
    _, first = np.unique(bag_of_row, return_index=True)
    differs = labels != labels[first][bag_of_row]
    if np.any(differs):
        row = int(np.argmax(differs))
        raise ValueError(
            f"bag {shown(ids[bag_of_row[row]])} has more than one {what} in column {column!r}: "
            f"{shown(labels[first[bag_of_row[row]]])} and {shown(labels[row])}"
        )
    return labels[first]


def check_agreement(labels: np.ndarray, others: Any, ids: np.ndarray, where: str, source: Any, remedy: str) -> None:
    """Refuse labels from two places that contradict each other."""
    import pandas as pd

    known = ~pd.isna(others)
    if not known.any():
        return
    mine, theirs = labels[known], plain_labels(np.asarray(others)[known], where)
    if mine.dtype.kind not in "biuf" or theirs.dtype.kind not in "biuf":
        mine, theirs = mine.astype(str), theirs.astype(str)
    differs = mine != theirs
    if np.any(differs):
        k = int(np.argmax(differs))
        raise ValueError(
            f"bag {shown(ids[known][k])} has the label {theirs[k]!s} in {where} and {mine[k]!s} in {source}; {remedy}"
        )


def labels_of(ids: np.ndarray, labels: Any) -> np.ndarray:
    """One label per bag, in the order of the ids."""
    if not isinstance(labels, Mapping) and not (hasattr(labels, "index") and hasattr(labels, "items")):
        raise ValueError("labels must map bag ids to labels (a dict or a pandas Series indexed by bag id)")
    table = dict(labels.items())
    known = set(ids.tolist())
    for name in table:
        if name not in known:
            raise ValueError(
                f"the labels name bag {name!r}, which is not among the bags (their ids are such as {shown(ids[0])})"
            )
    for name in ids.tolist():
        if name not in table:
            raise ValueError(f"bag {name!r} has no label")
    return np.array([table[name] for name in ids.tolist()])

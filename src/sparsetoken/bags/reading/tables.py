"""Files of bags besides their tokens: how they are read (`Reading`), tables, ids as text, labels as plain values."""

from __future__ import annotations

import sys
import warnings
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..._core.imports import require
from ..._core.validation import rejection
from ..input_forms import READ, checked_treatment, shown
from .torch_files import NotPlainTensors

if TYPE_CHECKING:
    import pandas as pd

FORMATS = ".csv, .csv.gz, .parquet or .npz"
PARQUET = (".parquet", ".pq")
# Of files with one bag each.
ENDINGS = (".npy", ".npz", ".h5", ".hdf5", ".pt", ".pth", *PARQUET)
# What NumPy, pandas, zipfile and h5py raise at damaged files.
DAMAGED = (
    zipfile.BadZipFile,
    OSError,
    EOFError,
    zlib.error,
    ValueError,
    LookupError,
    SyntaxError,
    OverflowError,
    MemoryError,
)


class UnreadableBag(ValueError):
    """A file that holds no bag; the message names it."""


@dataclass(frozen=True)
class Reading:
    """How files of bags are read: which columns are what, and what is done with them. See `read_bags` for the fields."""

    bag: str = "bag_id"
    label: str = "label"
    token_label: str = "instance_label"
    groups: str | None = None
    ignore: Sequence[str] = ()
    beside: Sequence[str] = ()
    features: Sequence[str] | None = None
    key: str | None = None
    literal_ids: bool = False
    need_labels: bool = False
    skip_unmatched: bool = False
    executor: Any = "local"
    scheduler: str | None = None
    missing: str = "error"

    def __post_init__(self) -> None:
        checked_treatment(self.missing, READ, on_cluster=not self.here)
        for name in ("ignore", "beside", "features"):
            value = getattr(self, name)
            if isinstance(value, str):  # not its letters
                object.__setattr__(self, name, (value,))
            elif value is not None and not isinstance(value, Iterable):
                raise rejection(name, value, "a list of columns")
        if self.here and self.scheduler is not None:
            raise ValueError("scheduler belongs to executor='dask'")

    @property
    def here(self) -> bool:
        """Whether this process reads the files, and no cluster."""
        return isinstance(self.executor, str) and self.executor == "local"

    @property
    def kept(self) -> str:
        """What `Bags` does about missing values: tokens are left out later, once the rows of each bag are known."""
        return "error" if self.missing == "error" else "keep"

    @property
    def aside(self) -> set[str]:
        """Columns that are not features."""
        return {self.bag, *self.carried, *self.ignore}

    @property
    def carried(self) -> list[str]:
        """Columns of rows that are read beside the features, where a file has them."""
        return [name for name in (self.label, self.groups, self.token_label, *self.beside) if name is not None]


@dataclass(frozen=True)
class Held:
    """Bags as files hold them, and the columns beside their features: a value for each row, which belongs to bag
    `bag_of_row`."""

    bags: Any
    bag_of_row: Any = None
    columns: Mapping[str, np.ndarray] = field(default_factory=dict)
    remedy: str = "correct one of them"


def listed(names: Any) -> str:
    """The first few names, for messages."""
    first = [repr(str(n)) for n in list(names)[:8]]
    return (", ".join(first) or "nothing") + (", ..." if len(list(names)) > 8 else "")


def ending_is(path: Path, *endings: str) -> bool:
    """Whether a file's name has one of the endings, in small or capital letters."""
    return path.name.lower().endswith(endings)


def ending_of(path: Path) -> str | None:
    """The ending by which a file of a bag is known, None for any other file."""
    return next((ending for ending in ENDINGS if path.name.lower().endswith(ending)), None)


def is_numeric(column: pd.Series) -> bool:
    """Whether a column holds plain numbers."""
    from pandas.api.types import is_bool_dtype, is_complex_dtype, is_numeric_dtype

    return (is_numeric_dtype(column) or is_bool_dtype(column)) and not is_complex_dtype(column)


def is_number_column(kind: Any) -> bool:
    """Whether an Arrow type is one of plain numbers."""
    from pyarrow import types

    return types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)


def feature_columns(
    names: Sequence[str], is_number: Callable[[str], bool], path: Path, aside: Iterable[str], wanted: Any = None
) -> list[str]:
    """The columns of a table that are features: the wanted ones, else all but those aside."""
    check_names(names, path)
    columns = [name for name in names if name not in set(aside)] if wanted is None else list(wanted)
    for name in columns:
        if name not in names:
            raise UnreadableBag(f"{path} has no column {name!r}, which the model needs")
        if not is_number(name):
            raise UnreadableBag(
                f"column {name!r} of {path} is not numeric; leave it out with ignore=[{name!r}] (--ignore {name})"
            )
    if not columns:
        raise UnreadableBag(f"{path} has no feature columns beside {listed(sorted(set(aside) & set(names)))}")
    return columns


def leave_out(column: str) -> str:
    """The remedy for a column that should not be a feature."""
    return f"leave the column out with ignore=[{column!r}] (--ignore {column}) if the table is right"


def check_column(name: str, option: str, columns: Iterable[str], where: Any) -> None:
    """Raise ValueError where a table lacks a column; the message gives the option that names another."""
    if name not in columns:
        what = {"bag": "bag ids", "label": "labels"}.get(option, option)
        raise ValueError(
            f"{where} has no column {name!r} for the {what} (--{option}): name the right one with {option}=...; "
            f"its columns are {listed(columns)}"
        )


def read_table(path: Path, reading: Reading) -> pd.DataFrame:
    """The table in a file, with the column of bag ids as text where the file is text."""
    import pandas as pd

    if not path.is_file():
        raise ValueError(f"{path} is a folder, not a table" if path.is_dir() else f"there is no file {path}")
    with in_one_sentence(path, "cannot be read as a table"):
        if ending_is(path, ".csv", ".csv.gz"):
            table = _read_csv(path, reading)
        elif ending_is(path, *PARQUET):
            require("parquet")
            table = pd.read_parquet(path)
            if any(name is not None for name in table.index.names):  # columns that pandas takes for row names
                table = table.reset_index()
        else:
            raise UnreadableBag(f"{path} must be a {FORMATS} file")
    table.columns = [str(c) for c in table.columns]
    check_names(list(table.columns), path)
    if len(table) == 0:
        raise ValueError(f"{path} has no rows")
    return table


def _read_csv(path: Path, reading: Reading) -> pd.DataFrame:
    """Every field under its name: pandas would call a second column x x.1, and take what rows longer than the header have at
    first for names of rows."""
    import pandas as pd

    names = pd.read_csv(path, header=None, nrows=1, dtype=str, keep_default_na=False).iloc[0]
    check_names([name for name in names if name], path)
    if len(names) == 1 and set(names[0]) & set(";\t"):
        raise UnreadableBag(f"{path} has one column, {names[0]!r}: separate its fields by commas")
    bag = reading.bag
    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)
        try:
            table = pd.read_csv(path, index_col=False, dtype={bag: str})
        except pd.errors.ParserWarning:
            raise UnreadableBag(
                f"{path} has rows with more fields than its header has names; name every column"
            ) from None
    if reading.literal_ids and bag in table.columns:
        as_text: dict[str, Any] = {"dtype": {bag: str}, "keep_default_na": False, "na_values": [""]}
        table[bag] = pd.read_csv(path, index_col=False, usecols=[bag], **as_text)[bag]
    return table


def check_names(names: Iterable[str], path: Path, what: str = "column") -> None:
    """Refuse a table that names a column (or whatever has names) twice."""
    for name, count in Counter(names).items():
        if count > 1:
            raise UnreadableBag(f"{path} has two {what}s {name!r}; give every {what} a different name")


@contextmanager
def in_one_sentence(path: Path, what: str) -> Iterator[None]:
    """Errors of NumPy, pandas, Arrow, zipfile or h5py at a damaged file, as an error that names the file."""
    try:
        yield
    except UnreadableBag:
        raise
    except NotPlainTensors as error:
        raise UnreadableBag(f"{path} is not read: {error}") from None
    except Exception as error:
        arrow = getattr(sys.modules.get("pyarrow"), "ArrowException", ())  # perhaps imported by now
        if not isinstance(error, (DAMAGED, arrow)):
            raise
        said = str(error).split("\n")[0]
        raise UnreadableBag(f"{path} {what}: {said or type(error).__name__}") from None


def text_ids(column: pd.Series, path: Any) -> np.ndarray:
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
    if labels.dtype.kind not in "biufU":
        raise ValueError(f"{where} holds labels of the type {labels.dtype}; labels must be text or numbers")
    if labels.dtype.kind == "f":
        if np.isinf(labels).any():
            raise ValueError(f"{where} holds an infinite label")
        # Beyond 2^53 neighbouring whole numbers are the same float.
        if np.all(labels == np.round(labels)) and np.abs(labels).max(initial=0.0) < 2**53:
            return labels.astype(int)
    return labels


def values_by_id(source: Any, reading: Reading, column: str) -> dict[str, Any]:
    """One value per bag, from a table (file, frame, mapping or Series) that is kept apart from the bags."""
    import pandas as pd

    where = str(source) if isinstance(source, str | Path) else "the table of labels"
    if isinstance(source, Mapping | pd.Series):
        values = pd.Series(dict(source.items()), dtype=object) if isinstance(source, Mapping) else source
        names, column_values = pd.Series(values.index), values.infer_objects()
    elif isinstance(source, pd.DataFrame | str | Path):
        table = source if isinstance(source, pd.DataFrame) else read_table(Path(source), reading)
        for name, what in ((reading.bag, "bag"), (column, "groups" if column == reading.groups else "label")):
            check_column(name, what, table.columns, where)
        names, column_values = table[reading.bag], table[column]
    else:
        kind = type(source).__name__
        raise ValueError(f"labels must be a file, a frame, or values keyed by bag id (dict or Series), got {kind}")
    ids = text_ids(names, where)
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


def values_of_bags(values: dict[str, Any], ids: Iterable[str], skip_unmatched: bool = False) -> dict[str, Any]:
    """Values of a table by bag id, where the table may name a bag's file instead, ending and all."""
    wanted = set(ids)
    values_by_bag: dict[str, Any] = {}
    named: dict[str, str] = {}
    for name, value in values.items():
        ending = None if name in wanted else ending_of(Path(name))
        bag = name if ending is None else name[: -len(ending)]
        if skip_unmatched and bag not in wanted:
            continue
        if bag in named:
            raise ValueError(f"the table of labels names bag {bag!r} twice, as {named[bag]!r} and as {name!r}")
        values_by_bag[bag], named[bag] = value, name
    return values_by_bag


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


def check_agreement(labels: np.ndarray, others: Any, ids: np.ndarray, where: tuple[str, str], remedy: str) -> None:
    """Refuse labels of the files, `others`, that contradict those of a table; `where` names both places."""
    import pandas as pd

    has_label = ~pd.isna(others)
    if not has_label.any():
        return
    mine, theirs = labels[has_label], plain_labels(np.asarray(others)[has_label], where[0])
    if mine.dtype.kind not in "biuf" or theirs.dtype.kind not in "biuf":
        mine, theirs = mine.astype(str), theirs.astype(str)
    differs = mine != theirs
    if np.any(differs):
        k = int(np.argmax(differs))
        both = f"the label {theirs[k]!s} in {where[0]} and {mine[k]!s} in {where[1]}"
        raise ValueError(f"bag {shown(ids[has_label][k])} has {both}; {remedy}")


def labels_of(ids: np.ndarray, labels: Any) -> np.ndarray:
    """One label per bag, in the order of the ids."""
    if not isinstance(labels, Mapping) and not (hasattr(labels, "index") and hasattr(labels, "items")):
        raise ValueError("labels must map bag ids to labels (a dict or a pandas Series indexed by bag id)")
    table, names = dict(labels.items()), ids.tolist()
    bag_names = set(names)
    for name in table:
        if name not in bag_names:
            others = f"which is not among the bags (their ids are such as {names[0]!r})"
            raise ValueError(f"the labels name bag {name!r}, {others}")
    for name in names:
        if name not in table:
            raise ValueError(f"bag {name!r} has no label")
    return np.array([table[name] for name in names])

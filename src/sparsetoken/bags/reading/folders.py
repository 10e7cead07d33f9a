"""Folders with one file per bag: which files there are, and their tokens gathered in one place, a block at a time."""

from __future__ import annotations

import glob
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..._core.imports import require
from .. import scratch
from ..forms import first_not_finite
from ..missing import REMEDY
from ..segments import starts_of
from .array_files import ENDINGS, UnreadableBag, as_numbers, ending_of, opened_bag, parquet_features, reading_table
from .tables import label_per_bag, listed, text_ids

PARQUET = (".parquet", ".pq")


@dataclass(frozen=True)
class BagFiles:
    """The files of a folder, in the order of their names."""

    paths: tuple[Path, ...]
    ids: tuple[str, ...]

    @property
    def are_tables(self) -> bool:
        """Whether all of them are Parquet files, which may hold several bags each, and labels."""
        return all(ending_of(path) in PARQUET for path in self.paths)


def means_files(path: Path) -> bool:
    """Whether a path stands for files of single bags: a folder or a pattern."""
    return path.is_dir() or (glob.has_magic(str(path)) and not path.exists())


def list_files(files: Any) -> BagFiles:
    """The files that a pattern, a folder or a list of files stands for."""
    if isinstance(files, str | Path):
        place = Path(files)
        if place.is_dir():
            paths = sorted(p for p in place.iterdir() if ending_of(p) and p.name[0] not in "._")
            if not paths:
                raise ValueError(f"the folder {place} has no files of bags ({', '.join(ENDINGS)})")
        elif place.exists():
            paths = [place]
        else:
            paths = sorted(p for p in _matches(place) if p.is_file() or ending_of(p))
            if not paths:
                raise ValueError(f"there is no file {files}")
    else:
        if isinstance(files, bytes) or not isinstance(files, Iterable):
            raise ValueError(f"files must be a pattern, a folder or a list of files, got {type(files).__name__}")
        paths = [Path(file) for file in files]
        if not paths:
            raise ValueError("there are no files")
    ids = []
    first: dict[str, Path] = {}
    for path in paths:
        ending = ending_of(path)
        if ending is None:
            raise ValueError(f"{path} must be one of {', '.join(ENDINGS)}")
        if (path.exists() or path.is_symlink()) and not path.is_file():
            raise ValueError(f"{path} is no file that can be read: a broken link, a folder or a pipe")
        name = path.name[: -len(ending)]
        if name in first:
            raise ValueError(f"bag {name!r} is in two files, {first[name]} and {path}")
        first[name] = path
        ids.append(name)
    return BagFiles(tuple(paths), tuple(ids))


def _matches(pattern: Path) -> Iterator[Path]:
    """What a pattern stands for; signs such as [1] in the name of a folder that exists are no part of it."""
    folder = next((parent for parent in pattern.parents if parent.is_dir()), Path())
    inside = pattern.relative_to(folder)
    return (folder / name for name in glob.glob(str(inside), root_dir=folder, recursive=True))


def check_ignored(files: BagFiles, ignore: Iterable[str]) -> None:
    """Refuse to ignore a column that no file has: misspelt, it would be a feature."""
    tables = [path for path in files.paths if ending_of(path) in PARQUET]
    for name in ignore:
        if not any(name in _columns(path) for path in tables):
            if not tables:
                raise ValueError(f"there is no column {name!r} to ignore: files such as {files.paths[0]} hold arrays")
            there = listed(_columns(tables[0]))
            raise ValueError(f"no file has a column {name!r} to ignore; the columns of {tables[0]} are {there}")


@dataclass(frozen=True)
class Gathered:
    """The parts of bags that came from files."""

    tokens: np.ndarray
    starts: np.ndarray
    ids: np.ndarray
    names: np.ndarray | None
    labels: np.ndarray | None = None


def gather(
    files: BagFiles,
    key: str | None = None,
    bag: str = "bag_id",
    label: str = "label",
    aside: Iterable[str] = ("instance_label",),
    features: Sequence[str] | None = None,
    need_labels: bool = False,
    missing: str = "error",
) -> Gathered:
    """All tokens of the files in one array: in memory if it is small, else in a temporary file.

    Two passes: sizes first (only the headers are read), then the tokens, some megabytes at a time.
    """
    left_out = (bag, label, *aside)
    if holds_tables(files, (bag, label)) or (files.are_tables and features is not None):
        return _gather_tables(files, bag, label, left_out, features, need_labels, missing)
    return gather_arrays(files, key, left_out, missing=missing)


def holds_tables(files: BagFiles, columns: Iterable[str]) -> bool:
    """Whether the files are Parquet tables that have one of the columns: ids, or labels, of their own."""
    return files.are_tables and not set(columns).isdisjoint(_columns(files.paths[0]))


def gather_arrays(
    files: BagFiles,
    key: str | None = None,
    aside: Iterable[str] = (),
    in_memory: int | None = None,
    missing: str = "error",
) -> Gathered:
    """`gather`, of files with one bag each."""
    lengths = np.empty(len(files.paths), dtype=np.intp)
    width, names, dtype = 0, None, np.dtype(np.float32)
    for i, path in enumerate(files.paths):
        with opened_bag(path, key, aside) as source:
            if i == 0:
                width, names = source.shape[1], source.names
            check_like_first((source.shape[1], source.names), path, (width, names), files.paths[0])
            lengths[i] = source.shape[0]
            dtype = np.result_type(dtype, source.working_dtype)
    tokens = scratch.room((int(lengths.sum()), width), dtype, in_memory)
    row = 0
    for path, length in zip(files.paths, lengths):
        end = row + int(length)
        with opened_bag(path, key, aside) as source:
            for block in source.tokens():
                _check_finite(block, path, row - end + int(length), names, missing)
                if row + len(block) > end:
                    raise UnreadableBag(f"{path} changed while it was read")
                tokens[row : row + len(block)] = block
                row += len(block)
        if row != end:
            raise UnreadableBag(f"{path} changed while it was read")
    return Gathered(tokens, starts_of(lengths), _object_array(files.ids), name_array(names))


def _object_array(values: Iterable[Any]) -> np.ndarray:
    listed = list(values)
    out = np.empty(len(listed), dtype=object)
    out[:] = listed
    return out


def name_array(names: Sequence[str] | None) -> np.ndarray | None:
    """The features' names as `Bags` has them."""
    return None if names is None else np.asarray(names, dtype=object)


def check_like_first(own: tuple[int, Any], path: Path, wanted: tuple[int, Any], first: Path) -> None:
    """See that a file has as many features as the first, of the same names; both are given as (features, names)."""
    if own[0] != wanted[0]:
        raise UnreadableBag(f"{path} has {own[0]} features, {first} has {wanted[0]}")
    if own[1] != wanted[1]:
        raise UnreadableBag(f"{path} names its features otherwise than {first}")


def _check_finite(block: np.ndarray, path: Path, before: int, names: Sequence[str] | None, missing: str) -> None:
    found = first_not_finite(block, missing)
    if found is None:
        return
    row, column, value = found
    feature = column if names is None else repr(names[column])
    remedy = f"; {REMEDY}" if value == "NaN" else ""
    raise UnreadableBag(f"{path} contains {value}: token {before + row}, feature {feature}{remedy}")


def _columns(path: Path) -> list[str]:
    require("parquet")
    import pyarrow.parquet

    if not path.is_file():
        raise UnreadableBag(f"there is no file {path}")
    with reading_table(path):
        return list(pyarrow.parquet.read_schema(path).names)


def _gather_tables(
    files: BagFiles,
    bag: str,
    label: str,
    aside: Iterable[str],
    features: Sequence[str] | None,
    need_labels: bool,
    missing: str,
) -> Gathered:
    """Tables with ids, or labels, of their own: ids and labels are read first, then every row goes to its bag's place."""
    import pandas as pd
    import pyarrow.parquet

    codes_of_file: list[np.ndarray] = []
    labels_of_file: list[np.ndarray | None] = []
    known: dict[str, int] = {}
    columns: list[str] = []
    with_ids, with_labels = bag in _columns(files.paths[0]), label in _columns(files.paths[0])
    wanted = [name for name, there in ((bag, with_ids), (label, with_labels)) if there]
    for path, own_id in zip(files.paths, files.ids):
        there = _columns(path)
        for name in wanted if features is None else [*([bag] if with_ids else []), *features]:
            if name not in there:
                raise UnreadableBag(f"{path} has no column {name!r}")
        with reading_table(path), pyarrow.parquet.ParquetFile(path) as file:
            own = list(features) if features is not None else parquet_features(file, path, aside)
            if not codes_of_file:
                columns = own
            elif own != columns:
                raise UnreadableBag(f"{path} names its features otherwise than {files.paths[0]}")
            rows = file.metadata.num_rows
            head = file.read([name for name in wanted if name in there]).to_pandas()
        if rows == 0:
            raise UnreadableBag(f"{path} has no tokens")
        if with_ids:
            inside, uniques = pd.factorize(text_ids(head[bag], path))
        else:
            inside, uniques = np.zeros(rows, dtype=int), np.array([own_id], dtype=object)
        places = np.array([known.setdefault(str(name), len(known)) for name in uniques])
        codes_of_file.append(places[inside])
        labels_of_file.append(head[label].to_numpy() if with_labels and label in head else None)
    lengths = np.bincount(np.concatenate(codes_of_file), minlength=len(known))
    starts = starts_of(lengths)
    tokens = scratch.room((int(lengths.sum()), len(columns)), np.float64)
    filled = starts.copy()
    for path, codes in zip(files.paths, codes_of_file):
        for first, block in _table_blocks(path, columns):
            own_codes = codes[first : first + len(block)]
            _check_finite(block, path, first, columns, missing)
            order = np.argsort(own_codes, kind="stable")
            uniques, begin, counts = np.unique(own_codes[order], return_index=True, return_counts=True)
            for code, at, count in zip(uniques, begin, counts):
                tokens[filled[code] : filled[code] + count] = block[order[at : at + count]]
                filled[code] += count
    ids = _object_array(known)
    labels = None
    if with_labels and (need_labels or all(part is not None and not pd.isna(part).any() for part in labels_of_file)):
        labels = label_per_bag(np.concatenate(labels_of_file), np.concatenate(codes_of_file), ids, label)  # type: ignore[arg-type]
    return Gathered(tokens, starts, ids, name_array(columns), labels)


def _table_blocks(path: Path, columns: list[str]) -> Iterator[tuple[int, np.ndarray]]:
    """The first row of each block, and the block."""
    import pyarrow.parquet

    step = max(1, scratch.BLOCK_BYTES // (8 * len(columns)))
    first = 0
    with reading_table(path), pyarrow.parquet.ParquetFile(path) as file:
        for batch in file.iter_batches(batch_size=step, columns=columns):
            yield first, as_numbers(batch, columns, np.dtype(np.float64))
            first += batch.num_rows

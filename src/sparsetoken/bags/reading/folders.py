"""Folders with one file per bag: which files there are, and their tokens gathered in one place, a block at a time."""

from __future__ import annotations

import glob
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .. import temporary_files
from ..bags import Bags
from ..input_forms import first_not_finite, object_array
from ..sums_per_bag import starts_of
from .array_files import as_numbers, opened_bag, opened_parquet, parquet_features
from .tables import ENDINGS, PARQUET, Held, Reading, UnreadableBag, ending_of, leave_out, listed, text_ids


@dataclass(frozen=True)
class BagFiles:
    """The files of a folder, in the order of their names."""

    paths: tuple[Path, ...]
    ids: tuple[str, ...]

    @property
    def are_tables(self) -> bool:
        """Whether all of them are Parquet files, which may hold several bags each, and labels."""
        return all(ending_of(path) in PARQUET for path in self.paths)

    def have_column(self, *columns: str) -> bool:
        """Whether they are Parquet tables with a column of ids or labels."""
        return self.are_tables and not set(columns).isdisjoint(_columns(self.paths[0]))

    def some(self, places: Iterable[int]) -> BagFiles:
        """The files at these places."""
        chosen = list(places)
        return BagFiles(tuple(self.paths[i] for i in chosen), tuple(self.ids[i] for i in chosen))


def means_files(path: Path) -> bool:
    """Whether a path names files of single bags: a folder, a pattern, or a file that holds a single bag."""
    one_bag = ending_of(path) not in (None, ".npz", *PARQUET)
    return one_bag or path.is_dir() or (glob.has_magic(str(path)) and not path.exists())


def list_files(files: Any) -> BagFiles:
    """The files of a pattern, a folder or a list of files."""
    paths = _listed_paths(files)
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
    return BagFiles(tuple(paths), tuple(first))


def _listed_paths(files: Any) -> list[Path]:
    if isinstance(files, str | Path):
        place = Path(files)
        if place.is_dir():
            paths = sorted(p for p in place.iterdir() if ending_of(p) and p.name[0] not in "._")
            if not paths:
                raise ValueError(f"the folder {place} has no files of bags ({', '.join(ENDINGS)})")
            return paths
        paths = [place] if place.exists() else sorted(p for p in _matches(place) if p.is_file() or ending_of(p))
        if not paths:
            raise ValueError(f"there is no file {files}")
        return paths
    if isinstance(files, bytes) or not isinstance(files, Iterable):
        raise ValueError(f"files must be a pattern, a folder or a list of files, got {type(files).__name__}")
    paths = [Path(file) for file in files]
    if not paths:
        raise ValueError("there are no files")
    return paths


def _matches(pattern: Path) -> Iterator[Path]:
    """The files of a pattern; characters such as [1] in the name of an existing folder are not part of the pattern."""
    folder = next((parent for parent in pattern.parents if parent.is_dir()), Path())
    inside = pattern.relative_to(folder)
    return (folder / name for name in glob.glob(str(inside), root_dir=folder, recursive=True))


def check_ignored(files: BagFiles, ignore: Iterable[str]) -> None:
    """Refuse to ignore a column that no file has: misspelt, it would be a feature."""
    tables = [path for path in files.paths if ending_of(path) in PARQUET]
    for name in ignore:
        if not tables:
            raise ValueError(f"there is no column {name!r} to ignore: files such as {files.paths[0]} hold arrays")
        if not any(name in _columns(path) for path in tables):
            there = listed(_columns(tables[0]))
            raise ValueError(f"no file has a column {name!r} to ignore; the columns of {tables[0]} are {there}")


def gather(files: BagFiles, reading: Reading) -> Held:
    """All bags of the files, their tokens in one array: in memory if it is small, else in a temporary file.

    Two passes: sizes first (only the headers are read), then the tokens, some megabytes at a time.
    """
    if files.have_column(reading.bag, reading.label) or (files.are_tables and reading.features is not None):
        return _gather_tables(files, reading)
    bags = gather_arrays(files, reading)
    beside = {name: _gather_beside(files, name) for name in reading.beside}
    for name, values in beside.items():
        if len(values) != bags.n_tokens:
            raise UnreadableBag(f"the arrays {name!r} have {len(values)} rows for {bags.n_tokens} tokens")
    return Held(bags, bags.bag_of_token if beside else None, beside)


def _gather_beside(files: BagFiles, name: str) -> np.ndarray:
    """An array that every file has beside its features, such as the places of the tokens."""
    blocks = []
    for path in files.paths:
        with opened_bag(path, name) as source:
            blocks += list(source.tokens())
    return np.concatenate(blocks)


def gather_arrays(files: BagFiles, reading: Reading, in_memory: int | None = None) -> Bags:
    """`gather`, of files with one bag each."""
    headers = [header(path, reading) for path in files.paths]
    width, names = check_alike(headers, files.paths)
    lengths = np.array([head[0] for head in headers], dtype=np.intp)
    tokens = temporary_files.room(
        (int(lengths.sum()), width), np.result_type(*(head[3] for head in headers)), in_memory
    )
    row = 0
    for path, length in zip(files.paths, lengths):
        end = row + int(length)
        with opened_bag(path, reading.key, reading.aside) as source:
            for block in source.tokens():
                _check_finite(block, path, row - end + int(length), names, reading.missing)
                if row + len(block) > end:
                    break
                tokens[row : row + len(block)] = block
                row += len(block)
        if row != end:
            raise UnreadableBag(f"{path} changed while it was read")
    return Bags.trusted(tokens, starts_of(lengths), object_array(files.ids), name_array(names))


Header = tuple[int, int, Any, np.dtype]  # tokens, features, their names and precision


def header(path: Path, reading: Reading) -> Header:
    """The size, feature names and precision of a file with one bag."""
    with opened_bag(path, reading.key, reading.aside) as source:
        return *source.shape, source.names, source.working_dtype


def check_alike(headers: Sequence[Header], paths: Sequence[Path]) -> tuple[int, Any]:
    """The features and their names, which all files must share with the first."""
    _, width, names, _ = headers[0]
    for path, (_, own_width, own_names, _) in zip(paths, headers):
        if own_width != width:
            raise UnreadableBag(f"{path} has {own_width} features, {paths[0]} has {width}")
        if own_names != names:
            raise UnreadableBag(f"{path} names its features otherwise than {paths[0]}")
    return width, names


def name_array(names: Sequence[str] | None) -> np.ndarray | None:
    """The features' names as `Bags` has them."""
    return None if names is None else np.asarray(names, dtype=object)


def _check_finite(block: np.ndarray, path: Path, before: int, names: Sequence[str] | None, missing: str) -> None:
    not_finite = first_not_finite(block, missing, names)
    if not_finite is not None:
        row, value, where = not_finite
        raise UnreadableBag(f"{path} contains {value}: token {before + row}, {where}")


def _columns(path: Path) -> list[str]:
    with opened_parquet(path) as file:
        return list(file.schema_arrow.names)


def _gather_tables(files: BagFiles, reading: Reading) -> Held:
    """Tables with ids or labels: these are read first, then every row goes to its bag's place."""
    import pandas as pd

    there = _columns(files.paths[0])
    wanted = [name for name in (reading.bag, *reading.carried) if name in there]
    heads, own_codes, place_of, columns = [], [], dict[str, int](), None
    for path, own_id in zip(files.paths, files.ids):
        head, features = _head(path, reading, wanted)
        if columns not in (None, features):
            raise UnreadableBag(f"{path} names its features otherwise than {files.paths[0]}")
        columns = features
        names = text_ids(head[reading.bag], path) if reading.bag in wanted else np.full(len(head), own_id, dtype=object)
        inside, uniques = pd.factorize(names)
        places = np.array([place_of.setdefault(str(name), len(place_of)) for name in uniques])
        own_codes.append(places[inside])
        heads.append(head)
    assert columns is not None
    codes = np.concatenate(own_codes)
    lengths = np.bincount(codes, minlength=len(place_of))
    tokens = temporary_files.room((len(codes), len(columns)), np.float64)
    _fill(tokens, starts_of(lengths), zip(files.paths, own_codes), columns, reading.missing)
    bags = Bags.trusted(tokens, starts_of(lengths), object_array(place_of), name_array(columns))
    rows = {
        name: np.concatenate([h[name].to_numpy() for h in heads]) for name in wanted if all(name in h for h in heads)
    }
    return Held(bags, codes, rows, leave_out(reading.label))


def _head(path: Path, reading: Reading, wanted: Sequence[str]) -> tuple[Any, list[str]]:
    """The columns of a table that are no features (one that a fitted model reads may lack labels), and those that are."""
    with opened_parquet(path) as file:
        names = file.schema_arrow.names
        needed = (reading.bag, *((reading.label, reading.groups) if reading.features is None else ()))
        for name in wanted:
            if name in needed and name not in names:
                raise UnreadableBag(f"{path} has no column {name!r}")
        columns = parquet_features(file, path, reading.aside, reading.features)
        head = file.read([name for name in wanted if name in names]).to_pandas()
        if file.metadata.num_rows == 0:
            raise UnreadableBag(f"{path} has no tokens")
        return head if head.shape[1] else head.reindex(range(file.metadata.num_rows)), columns


def _fill(tokens: np.ndarray, filled: np.ndarray, files: Iterable[Any], columns: list[str], missing: str) -> None:
    """Write the rows of tables to their bags' places; `filled` is each bag's first row that is still empty."""
    step = max(1, temporary_files.BLOCK_BYTES // (8 * len(columns)))
    for path, codes in files:
        first = 0
        with opened_parquet(path) as file:
            for batch in file.iter_batches(batch_size=step, columns=columns):
                block = as_numbers(batch, columns, tokens.dtype)
                _check_finite(block, path, first, columns, missing)
                batch_codes = codes[first : first + len(block)]
                first += len(block)
                order = np.argsort(batch_codes, kind="stable")
                for code, begin, count in zip(*np.unique(batch_codes[order], return_index=True, return_counts=True)):
                    tokens[filled[code] : filled[code] + count] = block[order[begin : begin + count]]
                    filled[code] += count

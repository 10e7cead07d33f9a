"""One file, one bag: features as extraction tools write them (.npy, .npz, .h5, .pt, .parquet); nothing in it is executed.

Sizes are known from headers alone. Rows of .npy, .h5 and .parquet files are read some at a time, those of archives (.npz, .pt)
a bag at a time.
"""

from __future__ import annotations

import math
import threading
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..._core.imports import require
from .. import temporary_files
from .tables import (
    ENDINGS,
    PARQUET,
    UnreadableBag,
    ending_of,
    feature_columns,
    in_one_sentence,
    is_number_column,
    listed,
)
from .torch_files import Tensor, described_tensors

# What tools call the array of features, in the order in which they are looked for.
KEYS = ("features", "feats", "tokens", "embeddings", "embedding", "X", "x", "data")


# NumPy reads headers with Python's parser, which fails in Python 3.11 ("AST constructor recursion depth mismatch", CPython's
# issue 106905) if a garbage collection lets another thread, such as a Dask worker's, parse at the same time.
_ONE_HEADER_AT_A_TIME = threading.Lock()


@dataclass(frozen=True)
class BagSource:
    """A bag in an open file."""

    shape: tuple[int, int]
    dtype: np.dtype
    blocks: Callable[[int], Iterator[np.ndarray]]
    names: list[str] | None = None

    @property
    def working_dtype(self) -> np.dtype:
        """Single precision for single and half, double for everything else."""
        return np.dtype(np.float32 if self.dtype in (np.float32, np.float16) else np.float64)

    def tokens(self) -> Iterator[np.ndarray]:
        """Blocks of tokens in the working precision, some megabytes each."""
        step = max(1, temporary_files.BLOCK_BYTES // max(1, self.working_dtype.itemsize * self.shape[1]))
        for block in self.blocks(step):
            yield block.astype(self.working_dtype, copy=False)


@contextmanager
def opened_bag(path: Path, key: str | None = None, aside: Iterable[str] = ()) -> Iterator[BagSource]:
    """The bag in a file."""
    ending = ending_of(path)
    if not path.is_file():
        raise UnreadableBag(f"there is no file {path}")
    if ending is None:
        raise UnreadableBag(f"{path} must be one of {', '.join(ENDINGS)}")
    if key is not None and ending in (".npy", *PARQUET):
        raise UnreadableBag(f"{path} holds one array, without a name: key goes with .npz, .h5 and .pt files")
    openers = {".npy": _npy, ".npz": _npz, ".h5": _hdf5, ".hdf5": _hdf5, ".pt": _pt, ".pth": _pt}
    context = _parquet(path, aside) if ending not in openers else contextmanager(openers[ending])(path, key)
    with in_one_sentence(path, "cannot be read as a bag"), context as source:
        if source.dtype.kind not in "biuf":
            raise UnreadableBag(f"{path} must hold numbers, got {source.dtype}")
        for size, what in zip(source.shape, ("tokens", "features")):
            if size == 0:
                raise UnreadableBag(f"{path} has no {what}")
            if not 0 < size < 2**48:  # more than any disk holds
                raise UnreadableBag(f"{path} is damaged: it claims to have {size} {what}")
        yield source


def _chosen(arrays: Mapping[str, Any], key: str | None, path: Path) -> Any:
    """The array of features among several."""
    if key is not None:
        if key not in arrays:
            raise UnreadableBag(f"{path} has no array {key!r}; it has {listed(arrays)}")
        return arrays[key]
    for name in KEYS:
        if name in arrays:
            return arrays[name]
    if len(arrays) == 1:
        return next(iter(arrays.values()))
    if not arrays:
        raise UnreadableBag(f"{path} holds no array")
    raise UnreadableBag(f"{path} holds several arrays, {listed(arrays)}: name the one with the features (key)")


def _two(shape: tuple[int, ...] | None, path: Path) -> tuple[int, int]:
    """(tokens, features); a leading axis of one bag is dropped. HDF5 has arrays of no shape at all, None."""
    if shape is None:
        raise UnreadableBag(f"{path} holds an empty array")
    flat = shape[1:] if len(shape) == 3 and shape[0] == 1 else shape
    if len(flat) != 2:
        raise UnreadableBag(f"{path} must hold a (tokens, features) array, got shape {tuple(shape)}")
    return int(flat[0]), int(flat[1])


def _source(path: Path, shape: tuple[int, ...] | None, dtype: np.dtype, load: Callable[[], Any]) -> BagSource:
    """The bag in an array that can be sliced once it is loaded, which may mean mapped or opened."""
    two = _two(shape, path)

    def blocks(rows: int) -> Iterator[np.ndarray]:
        array = load()
        array = array if array.ndim == 2 else array[0]
        for first in range(0, two[0], rows):
            yield np.array(array[first : first + rows])

    return BagSource(two, dtype, blocks)


def _npy(path: Path, key: str | None) -> Iterator[BagSource]:
    if path.stat().st_size == 0:
        raise UnreadableBag(f"{path} is empty")
    with path.open("rb") as stream:
        shape, order, dtype = _npy_header(stream, path)
        begin = stream.tell()
    yield _source(path, shape, dtype, lambda: np.memmap(path, dtype, "r", begin, shape, order))


def _npz(path: Path, key: str | None) -> Iterator[BagSource]:
    with zipfile.ZipFile(path) as archive:
        member = _chosen(_npz_members(archive), key, path)
        with archive.open(member) as stream:
            shape, _, dtype = _npy_header(stream, path)
        yield _source(path, shape, dtype, lambda: _stored_array(archive, member, path))


def _stored_array(archive: zipfile.ZipFile, member: str, path: Path) -> np.ndarray:
    with archive.open(member) as stream:
        shape, order, dtype = _npy_header(stream, path)
        count = math.prod(shape)
        data = stream.read(count * dtype.itemsize)
    return np.frombuffer(data, dtype, count).reshape(shape, order=order) if count else np.empty(shape, dtype)


def _npz_members(archive: zipfile.ZipFile) -> dict[str, str]:
    """Array -> member of the archive; members that are no arrays are left out."""
    return {name.removesuffix(".npy"): name for name in archive.namelist() if name.endswith(".npy")}


def npz_arrays(path: Path) -> dict[str, np.ndarray]:
    """All arrays of an .npz file by name; nothing but plain numbers and text is read."""
    if not path.is_file():
        raise ValueError(f"there is no file {path}")
    if not zipfile.is_zipfile(path):
        raise ValueError(f"{path} is not an .npz file, or is damaged")
    with in_one_sentence(path, "cannot be read as plain arrays"), zipfile.ZipFile(path) as archive:
        arrays = {name: _stored_array(archive, member, path) for name, member in _npz_members(archive).items()}
    return {name: np.char.decode(a, "utf-8", "replace") if a.dtype.kind == "S" else a for name, a in arrays.items()}


def _npy_header(stream: Any, path: Path) -> tuple[tuple[int, ...], Any, np.dtype]:
    """Shape, order and type of an array in NumPy's format; NumPy's own messages would suggest loading it as a pickle."""
    prefix = np.lib.format.MAGIC_PREFIX
    if stream.read(len(prefix)) != prefix:
        raise UnreadableBag(f"{path} is not in NumPy's format")
    version = tuple(stream.read(2))
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    with _ONE_HEADER_AT_A_TIME:
        shape, fortran, dtype = read(stream)
    if dtype.hasobject:
        raise UnreadableBag(f"{path} must hold numbers, got Python objects, which are never loaded")
    return shape, "F" if fortran else "C", dtype


def _hdf5(path: Path, key: str | None) -> Iterator[BagSource]:
    require("hdf5")
    import h5py

    with h5py.File(path, "r") as file:
        arrays: dict[str, Any] = {}
        file.visititems(lambda name, item: arrays.update({name: item}) if isinstance(item, h5py.Dataset) else None)
        data = _chosen(arrays, key, path)
        if data.external or data.is_virtual:
            raise UnreadableBag(f"{path} is not read: its array lies in another file")
        yield _source(path, data.shape, data.dtype, lambda: data if data.ndim == 2 else data[:])


def _pt(path: Path, key: str | None) -> Iterator[BagSource]:
    if not zipfile.is_zipfile(path):
        raise UnreadableBag(f"{path} is no file of PyTorch 1.6 or later: save its tensors again with a newer version")
    with zipfile.ZipFile(path) as archive:
        tensor = described_tensors(archive)
        if isinstance(tensor, list | tuple) and len(tensor) == 1 and key is None:
            tensor = tensor[0]
        if isinstance(tensor, dict):
            tensor = _chosen(
                {str(name): value for name, value in tensor.items() if isinstance(value, Tensor)}, key, path
            )
        if not isinstance(tensor, Tensor):
            raise UnreadableBag(f"{path} must hold a tensor or a dict of tensors, it holds a {type(tensor).__name__}")
        shape = _two(tensor.shape, path)
        flat = Tensor(tensor.storage, tensor.member, tensor.offset, shape, tensor.strides[-2:])
        flat.check(archive)  # before memory for so many rows is allocated
        yield _source(path, shape, tensor.dtype, lambda: flat.numbers(archive))


@contextmanager
def _parquet(path: Path, aside: Iterable[str]) -> Iterator[BagSource]:
    with opened_parquet(path) as file:
        columns = parquet_features(file, path, aside)
        types = [np.dtype(file.schema_arrow.field(name).type.to_pandas_dtype()) for name in columns]
        dtype = np.dtype(np.float32 if all(t in (np.float32, np.float16) for t in types) else np.float64)

        def blocks(rows: int) -> Iterator[np.ndarray]:
            for batch in file.iter_batches(batch_size=rows, columns=columns):
                yield as_numbers(batch, columns, dtype)

        yield BagSource((file.metadata.num_rows, len(columns)), dtype, blocks, columns)


@contextmanager
def opened_parquet(path: Path) -> Iterator[Any]:
    """An open Parquet file."""
    require("parquet")
    import pyarrow.parquet

    if not path.is_file():
        raise UnreadableBag(f"there is no file {path}")
    with in_one_sentence(path, "cannot be read as a table"), pyarrow.parquet.ParquetFile(path) as file:
        yield file


def as_numbers(batch: Any, columns: Sequence[str], dtype: np.dtype) -> np.ndarray:
    """The named columns of an Arrow batch side by side; missing values become NaN."""
    out = np.empty((batch.num_rows, len(columns)), dtype=dtype)
    for j, name in enumerate(columns):
        out[:, j] = batch.column(name).cast("float64", safe=False).to_numpy(zero_copy_only=False)
    return out


def parquet_features(file: Any, path: Path, aside: Iterable[str], wanted: Sequence[str] | None = None) -> list[str]:
    """The columns of features of an open Parquet file: the wanted ones, else all but those aside."""
    schema = file.schema_arrow
    return feature_columns(schema.names, lambda name: is_number_column(schema.field(name).type), path, aside, wanted)

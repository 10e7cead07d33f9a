"""Tokens larger than memory: results computed from memory-mapped tokens go, block by block, to temporary files.

A file made here has no name and vanishes with its array. It is in `tempfile`'s folder (set by TMPDIR).
"""

from __future__ import annotations

import errno
import math
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .._core.arrays import is_jax_array

BLOCK_BYTES = 2**23  # small next to any memory
# Bytes of rows that NumPy works on at a time: a step's result is still in the cache when the next step reads it.
ROW_BLOCK_BYTES = 2**21
DEVICE_BLOCK_BYTES = 2**30  # on a JAX device: few, large steps


def is_mapped(array: np.ndarray) -> bool:
    """Whether the array's numbers lie in a file."""
    owner: Any = array
    while isinstance(owner, np.ndarray):
        if isinstance(owner, np.memmap):
            return True
        owner = owner.base
    return False


def room_like(source: np.ndarray, shape: tuple[int, ...], dtype: Any = None) -> np.ndarray:
    """An empty array (of the source's precision), in memory if the source is or if it is small, else in a temporary file."""
    dtype = np.dtype(source.dtype if dtype is None else dtype)
    return room(shape, dtype) if is_mapped(source) else np.empty(shape, dtype=dtype)


def room(shape: tuple[int, ...], dtype: Any, in_memory: int | None = None) -> np.ndarray:
    """An empty array, in memory if it has at most `in_memory` bytes (by default a block's), else in a temporary file."""
    dtype = np.dtype(dtype)
    size = dtype.itemsize * math.prod(shape)
    if size <= (BLOCK_BYTES if in_memory is None else in_memory):
        return np.empty(shape, dtype=dtype)
    if size > room_left():
        raise _too_little(size)
    with tempfile.TemporaryFile(prefix="sparsetoken-") as file:
        _reserve(file, size)
        return np.asarray(np.memmap(file, dtype=dtype, mode="r+", shape=shape))


def _reserve(file: Any, size: int) -> None:
    """Reserve a file's disk space now: writing to a mapped page on a full disk would end the process."""
    file.truncate(size)
    if not hasattr(os, "posix_fallocate"):
        return
    try:
        os.posix_fallocate(file.fileno(), 0, size)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise _too_little(size) from None  # any other error means that this file system cannot reserve space


def _too_little(size: int) -> ValueError:
    return ValueError(
        f"{tempfile.gettempdir()} has {room_left() / 1e9:.1f} GB left, these tokens need {size / 1e9:.1f} GB of temporary "
        "room; set TMPDIR to a larger disk"
    )


def room_left() -> int:
    """Bytes that temporary files may take."""
    return shutil.disk_usage(tempfile.gettempdir()).free


def row_blocks(array: Any) -> Iterator[slice]:
    """Slices of rows, a few megabytes each, that cover the array in order."""
    size = DEVICE_BLOCK_BYTES if is_jax_array(array) else min(BLOCK_BYTES, ROW_BLOCK_BYTES)
    step = max(1, size // max(1, array.itemsize * int(np.prod(array.shape[1:]))))
    for first in range(0, len(array), step):
        yield slice(first, min(first + step, len(array)))


def rowwise(function: Callable[[Any], Any], array: Any, columns: int, dtype: Any) -> Any:
    """function(block of rows) for all rows, block by block: (rows, columns), where the array is (memory, file, device)."""
    if is_jax_array(array):
        import jax.numpy as jnp

        return jnp.concatenate([function(array[block]).astype(dtype) for block in row_blocks(array)])
    out = room_like(array, (len(array), columns), dtype)
    for block in row_blocks(array):
        out[block] = function(array[block])
    return out


def rows_taken(array: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """array[rows], beside the array."""
    if not is_mapped(array):
        return array[rows]
    out = room_like(array, (len(rows), *array.shape[1:]))
    for block in row_blocks(out):
        out[block] = array[rows[block]]
    return out

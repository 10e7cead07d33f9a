"""Tokens larger than memory: what is made from memory-mapped tokens goes, block by block, to temporary files.

A file made here has no name and vanishes with the array on it. It lies where `tempfile` puts things (TMPDIR moves it).
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np

BLOCK_BYTES = 2**23


def is_mapped(array: np.ndarray) -> bool:
    """Whether the array's numbers lie in a file."""
    owner: Any = array
    while isinstance(owner, np.ndarray):
        if isinstance(owner, np.memmap):
            return True
        owner = owner.base
    return False


def room_like(source: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """An array of the source's precision, in memory if the source is (or where it is small), else in a temporary file."""
    if not is_mapped(source) or source.itemsize * int(np.prod(shape)) <= BLOCK_BYTES:
        return np.empty(shape, dtype=source.dtype)
    with tempfile.TemporaryFile(prefix="sparsetoken-") as file:
        return np.asarray(np.memmap(file, dtype=source.dtype, mode="w+", shape=shape))


def row_blocks(array: np.ndarray) -> Iterator[slice]:
    """Slices of rows, some megabytes each, that cover the array in order."""
    step = max(1, BLOCK_BYTES // max(1, array.itemsize * int(np.prod(array.shape[1:]))))
    for first in range(0, len(array), step):
        yield slice(first, min(first + step, len(array)))


def rows_taken(array: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """array[rows], beside the array."""
    if not is_mapped(array):
        return array[rows]
    out = room_like(array, (len(rows), *array.shape[1:]))
    for block in row_blocks(out):
        out[block] = array[rows[block]]
    return out

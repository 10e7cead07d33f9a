"""Tensors from PyTorch's .pt files, without PyTorch and without executing anything in a file.

A .pt file is a zip archive: `data.pkl` describes the object, `data/0`, `data/1`, ... hold the numbers. The description is a
pickle, which in general may call any function. The reader here accepts four things that a file may name (a tensor to rebuild, a
parameter, a kind of storage, an ordered dictionary) and refuses every other name before anything is called. The functions that
a file may call are made for that file alone, so nothing that it does to them lasts.
"""

from __future__ import annotations

import io
import pickle
import zipfile
from dataclasses import dataclass
from typing import Any

import numpy as np

# PyTorch's storages and NumPy's types; bfloat16 is the upper half of a float32 and comes as whole numbers.
STORAGES = {
    "FloatStorage": "<f4",
    "DoubleStorage": "<f8",
    "HalfStorage": "<f2",
    "BFloat16Storage": "<u2",
    "LongStorage": "<i8",
    "IntStorage": "<i4",
    "ShortStorage": "<i2",
    "CharStorage": "<i1",
    "ByteStorage": "<u1",
    "BoolStorage": "?",
}


class NotPlainTensors(ValueError):
    """The file contains something other than tensors of numbers."""


@dataclass(frozen=True)
class Tensor:
    """Where a tensor lies in its file."""

    storage: str
    member: str
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def dtype(self) -> np.dtype:
        """The type of its numbers."""
        return np.dtype(np.float32) if self.storage == "BFloat16Storage" else np.dtype(STORAGES[self.storage])

    def check(self, archive: zipfile.ZipFile) -> int:
        """The numbers that are stored; refuse a tensor that reaches beyond them, or repeats them by strides of zero."""
        numbers = archive.getinfo(self.member).file_size // np.dtype(STORAGES[self.storage]).itemsize
        last = self.offset + sum((n - 1) * s for n, s in zip(self.shape, self.strides))
        # The stride of a single row is never used, and may be one that no array can have.
        beyond = max(last, *self.strides) > max(numbers - 1, self.shape[1]) or self.shape[0] * self.shape[1] > numbers
        if min(self.shape, default=0) > 0 and beyond:
            raise NotPlainTensors("its tensor reaches beyond the numbers it stores")
        return numbers

    def numbers(self, archive: zipfile.ZipFile) -> np.ndarray:
        """The tensor itself."""
        stored, count = np.dtype(STORAGES[self.storage]), self.check(archive)
        whole = np.frombuffer(archive.read(self.member), dtype=stored, count=count)
        steps = tuple(s * stored.itemsize if n > 1 else 0 for n, s in zip(self.shape, self.strides))
        view = np.lib.stride_tricks.as_strided(whole[self.offset :], self.shape, steps, writeable=False)
        return (view.astype(np.uint32) << 16).view(np.float32) if self.storage == "BFloat16Storage" else view


def described_tensors(archive: zipfile.ZipFile) -> Any:
    """The object that the archive describes: a tensor, or dicts, lists and tuples of tensors and plain values."""
    names = archive.namelist()
    descriptions = [name for name in names if name.endswith("/data.pkl") or name == "data.pkl"]
    if len(descriptions) != 1:
        raise NotPlainTensors("it is a zip archive, but not one that torch.save writes")
    root = descriptions[0][: -len("data.pkl")]
    if f"{root}constants.pkl" in names:
        raise NotPlainTensors("it holds a TorchScript program, not a tensor")
    if f"{root}byteorder" in names and archive.read(f"{root}byteorder").strip() not in (b"little", b""):
        raise NotPlainTensors("its numbers are in big-endian order; save it again on a little-endian machine")
    if archive.getinfo(descriptions[0]).file_size > 2**24:  # it takes some hundred bytes
        raise NotPlainTensors("its description of the tensors is far longer than any tensor needs")
    try:
        return _Reader(archive.read(descriptions[0]), root, set(names)).load()
    except NotPlainTensors:
        raise
    except Exception as error:  # a broken pickle can fail in many ways
        raise NotPlainTensors(f"its description cannot be read ({type(error).__name__}: {error})") from None


class _Reader(pickle._Unpickler):
    """An unpickler that rebuilds tensors and nothing else.

    It is the one in pure Python: that in C allocates memory for as many objects as a file claims to have.
    """

    def __init__(self, data: bytes, root: str, members: set[str]):
        super().__init__(io.BytesIO(data))
        self._root, self._members = root, members

    def find_class(self, module: str, name: str) -> Any:
        if module == "torch" and name in STORAGES:
            return f"torch.{name}"
        if (module, name) == ("collections", "OrderedDict"):
            return lambda *pairs: dict(*pairs)
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return lambda storage, offset, size, stride, *_: _tensor(storage, offset, size, stride)
        if (module, name) == ("torch._utils", "_rebuild_parameter"):
            return lambda tensor, *_: tensor
        raise NotPlainTensors(f"it contains {module}.{name}; only tensors of numbers are read, nothing is executed")

    def persistent_load(self, pid: Any) -> Any:
        if not (isinstance(pid, tuple) and len(pid) == 5 and pid[0] == "storage" and isinstance(pid[2], str)):
            raise NotPlainTensors("it refers to something that is not a tensor's storage")
        member = f"{self._root}data/{pid[2]}"
        kind = str(pid[1]).removeprefix("torch.")
        if kind not in STORAGES or member not in self._members:
            raise NotPlainTensors("it refers to numbers that are not in the file")
        return kind, member


def _tensor(storage: Any, offset: Any, size: Any, stride: Any) -> Tensor:
    numbers = (offset, *size, *stride)
    if not isinstance(storage, tuple) or any(type(n) is not int or n < 0 for n in numbers) or len(size) != len(stride):
        raise NotPlainTensors("its tensor has no sensible shape")
    return Tensor(storage[0], storage[1], offset, tuple(size), tuple(stride))

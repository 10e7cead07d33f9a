"""A cache of arrays bounded by the memory they take, not by their number."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any


class ByteCache:
    """Values by key; the least recently used ones go when the total size exceeds `limit` bytes.

    A value larger than the limit is handed out but not kept. Safe under threads: two threads that miss the same key at the
    same time both make the value, and one of the two is kept.

    Parameters
    ----------
    limit : int
        Bytes that may be kept in all.
    size_of : callable
        Value -> its size in bytes.
    """

    def __init__(self, limit: int, size_of: Callable[[Any], int]):
        self.limit, self._size_of = limit, size_of
        self._kept: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """The value under `key`, made by `make()` where there is none."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key][0]
        value = make()
        size = self._size_of(value)
        if size <= self.limit:
            with self._lock:
                self._kept[key] = (value, size)
                self._kept.move_to_end(key)
                while self._bytes() > self.limit:
                    self._kept.popitem(last=False)
        return value

    @property
    def bytes(self) -> int:
        """Bytes kept now."""
        with self._lock:
            return self._bytes()

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._kept.clear()

    def _bytes(self) -> int:
        return sum(size for _, size in self._kept.values())

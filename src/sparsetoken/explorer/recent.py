"""What the server keeps for a while: a number of values by key, the least recently used forgotten first."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

Value = TypeVar("Value")


class Recent(Generic[Value]):
    """Values by key, safe under threads.

    Parameters
    ----------
    most : int
        How many are kept.
    """

    def __init__(self, most: int) -> None:
        self._most, self._lock, self._kept = most, threading.Lock(), OrderedDict[Hashable, Value]()

    def get(self, key: Hashable) -> Value | None:
        """The value under `key`, which counts as used; None where there is none."""
        with self._lock:
            if key not in self._kept:
                return None
            self._kept.move_to_end(key)
            return self._kept[key]

    def put(self, key: Hashable, value: Value) -> None:
        """Keep a value, in place of the one under the same key."""
        with self._lock:
            self._kept[key] = value
            self._kept.move_to_end(key)
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)

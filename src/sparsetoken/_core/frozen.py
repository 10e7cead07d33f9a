"""Values that cannot be changed by accident: read-only mappings, and arrays that refuse to be written to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

import numpy as np

K = TypeVar("K")
V = TypeVar("V")


class FrozenMapping(Mapping[K, V]):
    """A read-only mapping that compares, prints and pickles like a dictionary, and can be hashed if its values can.

    `types.MappingProxyType` would do but for pickling, which results need to travel between processes.

    Parameters
    ----------
    items : mapping
        What it holds; the items are copied.
    """

    __slots__ = ("_items",)
    _items: dict[K, V]

    def __init__(self, items: Mapping[K, V]):
        object.__setattr__(self, "_items", dict(items))

    def __getitem__(self, key: K) -> V:
        return self._items[key]

    def __iter__(self) -> Iterator[K]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __hash__(self) -> int:
        return hash(frozenset(self._items.items()))

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("a FrozenMapping cannot be changed")

    def __reduce__(self) -> tuple[Any, ...]:
        return FrozenMapping, (self._items,)

    def __repr__(self) -> str:
        return repr(self._items)


def read_only(array: np.ndarray) -> np.ndarray:
    """The same numbers as an array that refuses to be written to; `array` itself stays as it is."""
    view = array.view()
    view.flags.writeable = False
    return view


def frozen(value: Any) -> Any:
    """The value with its mappings and arrays, nested ones too, made read-only; lists become tuples."""
    if isinstance(value, Mapping):
        return FrozenMapping({name: frozen(item) for name, item in value.items()})
    if isinstance(value, np.ndarray):
        return read_only(value)
    return tuple(map(frozen, value)) if isinstance(value, list) else value

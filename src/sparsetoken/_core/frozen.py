"""Values that cannot be changed by accident: read-only mappings and arrays, and the base of `Task` and similar classes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, replace
from typing import Any, TypeVar

import numpy as np

from .validation import rejection

K = TypeVar("K")
V = TypeVar("V")


class FrozenMapping(Mapping[K, V]):
    """A read-only mapping that prints like a dictionary, can be hashed if its values can, and pickled, as
    `types.MappingProxyType` cannot."""

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


def freeze_fields(result: Any) -> None:
    """Make the fields of a frozen dataclass read-only, when it is made."""
    for f in fields(result):
        object.__setattr__(result, f.name, frozen(getattr(result, f.name)))


class Description:
    """Base of frozen dataclasses that go to and from plain dictionaries, and give copies with some fields changed."""

    @classmethod
    def field_names(cls) -> list[str]:
        """The names in plain dictionaries."""
        return [f.name for f in fields(cls)]  # type: ignore[arg-type]

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain values."""
        plain: dict[str, Any] = {}
        for f in fields(self):  # type: ignore[arg-type]
            value = getattr(self, f.name)
            plain[f.name] = value.to_plain() if hasattr(value, "to_plain") else value
        return plain

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]):
        """The description with these fields; a field that it does not have is an error."""
        cls._check_names(plain)
        return cls(**plain)

    @classmethod
    def require(cls, value: Any) -> None:
        """Raise ValueError where an argument, named after the class in small letters, is not of this class."""
        if not isinstance(value, cls):
            raise rejection(cls.__name__.lower(), value, f"a {cls.__name__}")

    @classmethod
    def _check_names(cls, plain: Any) -> None:
        if not isinstance(plain, Mapping):
            raise ValueError(f"{cls.__name__} is read from a mapping of its fields, got {plain!r}")
        cls._check_known(plain, cls.field_names())

    @classmethod
    def _check_known(cls, names: Iterable[str], allowed: list[str]) -> None:
        for name in names:
            if name not in allowed:
                raise ValueError(f"{cls.__name__} has no field {name!r}; it has {', '.join(allowed)}")

    def but(self, **changes: Any):
        """A copy with some fields changed (and validated again)."""
        self._check_known(changes, [f.name for f in fields(self)])  # type: ignore[arg-type]
        return replace(self, **changes)  # type: ignore[type-var]

"""What `Task` and `Training` share: conversion to and from plain dictionaries, and copies with some fields changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any


class Description:
    """Base of frozen dataclasses that go to and from plain dictionaries, and give copies with some fields changed."""

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
        known = [f.name for f in fields(cls)]  # type: ignore[arg-type]
        if not isinstance(plain, Mapping):
            raise ValueError(f"{cls.__name__} is read from a mapping of its fields, got {plain!r}")
        for name in plain:
            if name not in known:
                raise ValueError(f"{cls.__name__} has no field {name!r}; it has {', '.join(known)}")
        return cls(**plain)

    def but(self, **changes: Any):
        """A copy with some fields changed (and validated again)."""
        known = [f.name for f in fields(self)]  # type: ignore[arg-type]
        for name in changes:
            if name not in known:
                raise ValueError(f"{type(self).__name__} has no field {name!r}; it has {', '.join(known)}")
        return replace(self, **changes)  # type: ignore[type-var]

"""Bags of tokens: the container, its files, its sums and its scaling."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOME = {
    "Bags": "bags",
    "BagScaler": "scaler",
    "read_bags": "files",
}

__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(import_module(f".{_HOME[name]}", __name__), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)

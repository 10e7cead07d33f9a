"""Bags of tokens: the container, its files, its sums and its scaling."""

from __future__ import annotations

from .._core.imports import lazy_exports

_HOME = {"Bags": "bags", "BagScaler": "scaler", "read_bags": "reading.read_bags"}

__all__ = list(_HOME)

__getattr__, __dir__ = lazy_exports(__name__, _HOME)

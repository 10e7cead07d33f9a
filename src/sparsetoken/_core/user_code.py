"""What the registries of losses, activations, classifiers and bag models share: which names are allowed, what a user has
registered under them, and which of the user's files were executed."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import sys
from collections.abc import Collection, Mapping
from typing import Any

from .validation import rejection

_OWN: dict[tuple[str, str], Any] = {}  # (what it is, its name) -> the thing itself
_SOURCES: dict[str, Any] = {}  # absolute path -> module
_SHARED: list[str] = []  # those that worker processes execute too, in order
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,59}")


def add_own(what: str, name: Any, thing: Any, taken: Collection[str]) -> None:
    """Register an object of the user's under its name."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise rejection(f"the {what}'s name", name, "a letter and up to 59 letters, digits, _ and -")
    if name in taken and (what, name) not in _OWN:
        raise ValueError(f"the {what}'s name must be a new one: {name!r} is built in")
    _OWN[what, name] = thing


def own_named_in(value: Any) -> dict[str, Any]:
    """The user's things whose names occur in plain data, whole or between colons: "what.name" -> thing."""
    if not _OWN:
        return {}
    parts = {word for text in _texts(value) for word in text.split(":")}
    return {f"{what}.{name}": thing for (what, name), thing in sorted(_OWN.items()) if name in parts}


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    parts = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
    return [text for part in parts for text in _texts(part)]


def load_source(path: str | os.PathLike[str]) -> Any:
    """Execute a Python file of the user's, once per process; what it registers is then known by name."""
    full = os.path.abspath(path)
    if full in _SOURCES:
        return _SOURCES[full]
    name = "sparsetoken_study_" + hashlib.sha256(full.encode()).hexdigest()[:12]
    spec = importlib.util.spec_from_file_location(name, full)
    if not full.endswith(".py") or spec is None or spec.loader is None:
        raise ValueError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    _SOURCES[full] = module
    return module


def share_source(path: str | os.PathLike[str]) -> Any:
    """`load_source`, here and in all worker processes that are started from now on."""
    module, full = load_source(path), os.path.abspath(path)
    if full not in _SHARED:
        _SHARED.append(full)
    return module


def shared_sources() -> tuple[str, ...]:
    """The user's files that worker processes execute too."""
    return tuple(_SHARED)

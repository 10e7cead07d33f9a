"""Public names of a package that are resolved on first use, so that importing the package imports nothing heavy."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_exports(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The module functions `__getattr__` and `__dir__` of a package whose names live in its modules.

    Parameters
    ----------
    package : str
        The package's `__name__`.
    homes : mapping
        Public name -> module that defines it, relative to the package (`"bags"`, `".plotting.panels"` for a sibling
        package's module); a name whose home is itself a module of the same name is that module.

    Returns
    -------
    tuple of callables
        `__getattr__` and `__dir__`.
    """

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = import_module(f".{homes[name]}", package)
        value = module if homes[name] == name else getattr(module, name)
        setattr(sys.modules[package], name, value)
        return value

    def listed() -> list[str]:
        return sorted({*vars(sys.modules[package]), *homes})

    return get, listed

"""Lazy imports, and optional packages: which extra installs each."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module, util
from typing import Any

# Extra of the distribution (the names are those of pyproject.toml) -> modules it brings, what they are for, and what the user
# can do without.
EXTRAS: dict[str, tuple[tuple[str, ...], str, str]] = {
    "parquet": (("pyarrow",), "Parquet files of bags and tables", "CSV and NPZ files work without it"),
    "hdf5": (("h5py",), "HDF5 files of bags", "NPY and NPZ files work without it"),
    "report": (("plotly", "latex2mathml"), "the report of studies with its interactive figures", ""),
    "explorer": (("dash", "plotly"), "the web page with sliders", ""),
    "dask": (("distributed",), "studies and large folders on a Dask cluster", "local processes need nothing more"),
    "docs": (
        ("mkdocs", "material", "mkdocstrings_handlers.python", "latex2mathml"),
        "building the documentation site",
        "",
    ),
}


def lazy_exports(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The module functions `__getattr__` and `__dir__` of a package whose names live in its modules."""

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = import_module(f".{homes[name]}", package)
        value = getattr(module, name, module)
        setattr(sys.modules[package], name, value)
        return value

    def listed() -> list[str]:
        return sorted({*vars(sys.modules[package]), *homes})

    return get, listed


def require(extra: str) -> None:
    """Raise an error where the packages of an extra are missing, before work that needs them begins."""
    modules, purpose, instead = EXTRAS[extra]
    for module in modules:
        try:
            import_module(module)
        except ImportError as error:
            raise ImportError(
                f"{module} is not installed and is needed for {purpose}: pip install 'sparsetoken[{extra}]'"
                f"{instead and '; ' + instead}"
            ) from error


def present(extra: str) -> bool:
    """Whether all packages of an extra can be found; nothing is imported."""
    return all(_found(module) for module in EXTRAS[extra][0])


def _found(module: str) -> bool:
    try:
        return util.find_spec(module) is not None
    except (ImportError, ValueError):  # the package that would hold it is missing or blocked
        return False

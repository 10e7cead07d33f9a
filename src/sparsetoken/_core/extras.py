"""Packages that not everybody needs: which extra brings each, and what is said where one is missing."""

from __future__ import annotations

from importlib import import_module, util

# Extra of the distribution (the names are those of pyproject.toml) -> modules it brings, what they are for, and what the user
# can do without.
EXTRAS: dict[str, tuple[tuple[str, ...], str, str]] = {
    "parquet": (("pyarrow",), "Parquet files of bags and tables", "CSV and NPZ files work without it"),
    "hdf5": (("h5py",), "HDF5 files of bags", "NPY and NPZ files work without it"),
    "report": (("plotly",), "the report of studies with its interactive figures", ""),
    "explorer": (("dash", "plotly"), "the web page with sliders", ""),
    "dask": (("distributed",), "studies and large folders on a Dask cluster", "local processes need nothing more"),
    "docs": (("mkdocs", "material", "mkdocstrings_handlers.python"), "building the documentation site", ""),
}


def require(extra: str) -> None:
    """See that the packages of an extra are there, before work begins that would need them.

    Parameters
    ----------
    extra : str
        A name of `EXTRAS`.

    Raises
    ------
    ImportError
        In one sentence with the command that installs the extra, and what works without it.
    """
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

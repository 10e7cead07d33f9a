"""Which code makes a result. A fingerprint is part of every key in the store, so that rows of other code are never reused.

The package counts as a whole, except for the parts above the studies (`NOT_COUNTED`), which no trial can import: the import
contract in pyproject.toml forbids it. A user's file counts with the user's own modules that it imports. Other changes (another
version of NumPy, a data file, a setting read at run time) are not seen: raise the kind's `version` for them.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import inspect
import io
import pickle
import sys
import sysconfig
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any
from uuid import uuid4

PACKAGE = Path(__file__).resolve().parents[1]
NOT_COUNTED = ("cli", "explorer", "paper")
_SESSION = uuid4().hex  # replaces the digest of code without a file: its rows are valid for this process only
_DIGITS = 16  # hexadecimal: 64 bits


def code_fingerprint(code: Any) -> str:
    """The fingerprint of a function or class, with that of the package that it may call."""
    source = _source_file(code)
    if source is not None and _is_users(source):
        return _digest(_package_digest(), *(_file_digest(path) for path in _users_files(source)))
    typed = source is None and (hasattr(code, "__code__") or code.__module__ == "__main__")  # at a prompt
    return _digest(_package_digest(), f"{_SESSION} {id(code)}" if typed else "")


def thing_fingerprint(thing: Any) -> str:
    """The fingerprint of something that a user has registered: its code, and the values it holds."""
    file = io.BytesIO()
    pickler = _Pickler(file)
    pickler.fast = True  # without a memory, whose entries depend on which equal texts are one object
    try:
        pickler.dump(thing)
    except Exception:  # whatever a user's object raises when it is pickled
        return _digest(f"{_SESSION} {id(thing)}")
    return hashlib.sha256(file.getvalue()).hexdigest()[:_DIGITS]


class _Pickler(pickle.Pickler):
    """Pickles values; functions, classes and modules are replaced by the fingerprints of their code."""

    def persistent_id(self, thing: Any) -> str | None:
        if inspect.ismodule(thing):
            return thing.__name__
        if inspect.isclass(thing):
            return f"{_module_name(thing)}.{thing.__qualname__} {code_fingerprint(thing)}"
        if not inspect.isroutine(thing):
            return None
        code = getattr(thing, "__code__", None)
        places = [] if code is None else list(code.co_positions())  # tells apart functions of one name in one file
        cells = [cell.cell_contents for cell in getattr(thing, "__closure__", None) or ()]
        held = (cells, getattr(thing, "__defaults__", None), getattr(thing, "__self__", None))
        return f"{thing.__qualname__} {code_fingerprint(thing)} {places} {thing_fingerprint(held)}"


def _module_name(thing: type) -> str:
    """A class's module; none for a user's file, whose name depends on its folder and whose content counts anyway."""
    source = _source_file(thing)
    return "" if source is not None and _is_users(source) else thing.__module__


def _digest(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:_DIGITS]


@cache
def _package_digest() -> str:
    """The digest of every Python file of the package that a trial could import."""
    files = (path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py"))
    counted = sorted(path for path in files if path.parts[0] not in NOT_COUNTED)
    return _digest(*(f"{path.as_posix()} {_file_digest(PACKAGE / path)}" for path in counted))


def _file_digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _source_file(code: Any) -> Path | None:
    """The file that holds the code; None where there is none, as in a notebook or for what is written in C."""
    try:
        file = inspect.getsourcefile(inspect.unwrap(code))
    except (TypeError, OSError):
        return None
    return Path(file).resolve() if file is not None and Path(file).is_file() else None


def _is_users(path: Path) -> bool:
    """Whether a file is neither the package's nor installed nor Python's own."""
    others = (PACKAGE, *(Path(sysconfig.get_path(kind)).resolve() for kind in ("purelib", "platlib", "stdlib")))
    return not any(folder in path.parents for folder in others)


@cache
def _users_files(source: Path) -> tuple[Path, ...]:
    """A user's file and those of the user's modules that it imports, directly or through others."""
    seen: set[Path] = set()
    waiting = [source]
    while waiting:
        path = waiting.pop()
        if path not in seen:
            seen.add(path)
            waiting += [file for name in _imported(path) for file in _files_of(name)]
    return tuple(sorted(seen))


def _imported(path: Path) -> set[str]:
    """The first part of every name that a file imports; relative imports stay inside a package, which counts whole."""
    names: list[str] = []
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.append(node.module)
    return {name.partition(".")[0] for name in names}


def _files_of(name: str) -> Iterable[Path]:
    """The Python files of a user's module or package; none of what is installed."""
    if name in sys.stdlib_module_names or name == PACKAGE.name:
        return ()
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):  # a module without a specification, such as one run as a script
        return ()
    if spec is None:
        return ()
    folders = [Path(folder).resolve() for folder in spec.submodule_search_locations or ()]
    files = [path for folder in folders for path in folder.rglob("*.py")]
    if not folders and spec.origin is not None and spec.origin.endswith(".py"):
        files = [Path(spec.origin).resolve()]
    return [file for file in files if _is_users(file)]

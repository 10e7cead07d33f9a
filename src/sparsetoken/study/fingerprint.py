"""Which code makes a result: a fingerprint of a kind of trial and of everything in this package that it can reach.

The fingerprint is part of every key in the store, so that rows made by other code are not taken for today's. It covers

- the kind's function with the definitions of its module that it uses (not the other kinds beside it);
- every module of this package that these import, directly or through others, imports inside functions included;
- modules of the user's own that are neither installed nor part of Python, and what these import in turn;
- the version of this package.

What cannot change a result does not count: comments, layout, docstrings and the wording of error messages.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import inspect
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

from .. import __version__

PACKAGE = __name__.split(".")[0]
_ROOT = Path(__file__).resolve().parents[1]
_DIGITS = 16  # hexadecimal ones: 64 bits, far beyond the number of versions that code ever has


def code_fingerprint(function: Callable[..., Any]) -> str:
    """The fingerprint of a function and of the code it can reach.

    Parameters
    ----------
    function : callable
        A kind of trial, as registered.

    Returns
    -------
    str
        Hexadecimal digits.
    """
    function = inspect.unwrap(function)
    digest = hashlib.sha256(__version__.encode())
    file = _source_file(function)
    if file is None:  # typed into a prompt, say: only its own instructions are known
        digest.update(_instructions(function.__code__).encode())
        return digest.hexdigest()[:_DIGITS]
    nodes = _used_statements(_tree(file), function)
    if function.__name__ == "<lambda>":  # several in one file have nothing but this to tell them apart
        digest.update(_instructions(function.__code__).encode())
    digest.update("\n".join(ast.dump(node) for node in nodes).encode())
    name = function.__module__
    reached = _reachable(_imports(nodes, name, is_package=False))
    for path in sorted(reached - {file}):
        digest.update(_module_hash(path))
    return digest.hexdigest()[:_DIGITS]


def thing_fingerprint(thing: Any) -> str:
    """The fingerprint of something of the user's that trials name: a function, or an object with its class and state.

    Parameters
    ----------
    thing : object
        What was registered: a loss, an activation, a weighting, a bag model.

    Returns
    -------
    str
        Hexadecimal digits.
    """
    digest = hashlib.sha256()
    for part in _parts_of(thing):
        digest.update(f"{len(part)}:{part}".encode())
    return digest.hexdigest()[:_DIGITS]


def _parts_of(thing: Any, seen: frozenset[int] = frozenset()) -> Iterator[str]:
    """What a thing is made of, in a fixed order: code of functions and classes, plain values as they are written."""
    if id(thing) in seen:
        return
    seen = seen | {id(thing)}
    inner: Iterable[Any] = ()
    if isinstance(thing, partial):
        inner = (thing.func, *thing.args, *sorted(thing.keywords.items()))
    elif inspect.ismethod(thing):
        inner = (thing.__func__, thing.__self__)
    elif inspect.isclass(thing):
        yield _class_fingerprint(thing)
    elif inspect.isfunction(thing):
        yield f"{thing.__qualname__} {code_fingerprint(thing)}"
        # What a function made by another function holds.
        inner = ([_contents(cell) for cell in thing.__closure__ or ()], thing.__defaults__, thing.__kwdefaults__)
    elif inspect.ismodule(thing):
        yield thing.__name__
        yield from (_module_hash(path).hex() for path in sorted(_own_modules(thing.__name__.split(".")[0])))
    elif hasattr(thing, "dtype") and hasattr(thing, "tobytes"):  # as text, a long array would be cut short
        yield f"{thing.dtype} {thing.shape} {hashlib.sha256(thing.tobytes()).hexdigest()}"
        inner = thing.tolist() if thing.dtype == object else ()
    elif isinstance(thing, Mapping):
        inner = sorted(thing.items(), key=lambda pair: repr(pair[0]))
    elif isinstance(thing, set | frozenset):
        inner = sorted(thing, key=repr)
    elif isinstance(thing, list | tuple):
        inner = thing
    elif (state := _state(thing)) is not None:
        yield str(getattr(thing, "__name__", ""))
        inner = (type(thing), *sorted(state.items()))
    else:
        yield repr(thing)
    yield f"{type(thing).__qualname__} of"
    for part in inner:
        yield from _parts_of(part, seen)
    yield "end"


def _contents(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # nothing yet
        return None


def _state(thing: Any) -> dict[str, Any] | None:
    """The attributes of an object, None for one that has none, such as a number."""
    slots = [name for kind in type(thing).__mro__ for name in _listed(getattr(kind, "__slots__", ()))]
    if not slots and not hasattr(thing, "__dict__"):
        return None
    held = {name: getattr(thing, name) for name in slots if hasattr(thing, name)}
    return held | dict(getattr(thing, "__dict__", {}))


def _listed(slots: str | Iterable[str]) -> Iterable[str]:
    return (slots,) if isinstance(slots, str) else slots


def _class_fingerprint(thing: type) -> str:
    """The fingerprint of a class; of one that was typed into a prompt, of its methods' instructions."""
    if _source_file(thing) is not None:
        return code_fingerprint(thing)
    methods = [value for _, value in sorted(vars(thing).items()) if inspect.isfunction(value)]
    return "".join(code_fingerprint(method) for method in methods)


def _source_file(function: Callable[..., Any]) -> Path | None:
    try:
        file = inspect.getsourcefile(function)
    except (TypeError, OSError):
        return None
    return Path(file).resolve() if file is not None and Path(file).is_file() else None


def _instructions(code: Any) -> str:
    """A code object's instructions and constants as text (its own representation holds an address)."""
    constants = [_instructions(c) if inspect.iscode(c) else repr(c) for c in code.co_consts]
    return repr((code.co_code, constants, code.co_names, code.co_varnames))


class _Normal(ast.NodeTransformer):
    """Leaves out what cannot change a result: docstrings, and the arguments of exceptions that are raised."""

    def _without_docstring(self, node: Any) -> Any:
        self.generic_visit(node)
        first = node.body[0] if node.body else None
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
            node.body = node.body[1:] or [ast.Pass()]
        return node

    visit_Module = visit_ClassDef = visit_FunctionDef = visit_AsyncFunctionDef = _without_docstring

    def visit_Raise(self, node: ast.Raise) -> ast.Raise:
        self.generic_visit(node)
        if isinstance(node.exc, ast.Call):
            node.exc.args, node.exc.keywords = [], []
        return node


@cache
def _tree(file: Path) -> ast.Module:
    return _Normal().visit(ast.parse(file.read_text(encoding="utf-8")))


@cache
def _module_hash(file: Path) -> bytes:
    try:
        return hashlib.sha256(ast.dump(_tree(file)).encode()).digest()
    except (SyntaxError, ValueError):  # a file in a package of the user's that nothing can import
        return hashlib.sha256(file.read_bytes()).digest()


def _used_statements(tree: ast.Module, function: Callable[..., Any]) -> list[ast.stmt]:
    """The top-level statements that a function rests on, in their order; all of them for one that none of them defines."""
    statements = {i: _touched_names(statement) for i, statement in enumerate(tree.body)}
    nested = function.__qualname__ != function.__name__
    if nested or not any(function.__name__ in touched for touched in statements.values()):
        return tree.body
    found: set[int] = set()
    wanted, seen = [function.__name__], set()
    while wanted:
        name = wanted.pop()
        if name in seen:
            continue
        seen.add(name)
        for i, touched in statements.items():
            if name in touched and i not in found:
                found.add(i)
                if not isinstance(tree.body[i], ast.Import | ast.ImportFrom):
                    wanted += [node.id for node in ast.walk(tree.body[i]) if isinstance(node, ast.Name)]
    kept = []
    for i in sorted(found):
        statement = tree.body[i]
        if isinstance(statement, ast.Import | ast.ImportFrom):  # of several names, those that are used
            names = [alias for alias in statement.names if _bound_name(alias) in seen or alias.name == "*"]
            statement = type(statement)(**{**dict(ast.iter_fields(statement)), "names": names})
        kept.append(statement)
    return kept


def _bound_name(alias: ast.alias) -> str:
    return alias.asname or alias.name.split(".")[0]


def _touched_names(statement: ast.stmt) -> set[str]:
    """Names that a top-level statement defines, or whose objects it may change (by a call or an item's assignment)."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {statement.name}
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return {_bound_name(alias) for alias in statement.names}
    if isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        return {node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)}
    names = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
    for inner in ast.walk(statement):
        if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(inner.name)
        elif isinstance(inner, ast.Import | ast.ImportFrom):
            names |= {_bound_name(alias) for alias in inner.names}
    return names


def _imports(nodes: Iterable[ast.AST], module: str, *, is_package: bool) -> Iterator[tuple[str, str | None]]:
    """(module, name or None) of every import below the nodes, but for those that only type checkers see."""
    for node in nodes:
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(module, node.level, node.module or "", is_package)
            yield from ((base, alias.name) for alias in node.names)
        else:
            yield from _imports(ast.iter_child_nodes(node), module, is_package=is_package)


@cache
def _module_imports(file: Path, module: str) -> tuple[tuple[str, str | None], ...]:
    """What the file of a module imports; found once, though many kinds reach most modules."""
    try:
        return tuple(_imports(_tree(file).body, module, is_package=file.name == "__init__.py"))
    except (SyntaxError, ValueError):
        return ()


def _absolute(module: str, level: int, name: str, is_package: bool) -> str:
    if level == 0:
        return name
    parts = module.split(".")
    parts = parts[: len(parts) - level + is_package]
    return ".".join([*parts, *([name] if name else [])])


def _reachable(targets: Iterable[tuple[str, str | None]]) -> set[Path]:
    """Files of all modules that the targets lead to."""
    files: set[Path] = set()
    waiting = list(targets)
    seen: set[tuple[str, str | None]] = set()
    while waiting:
        target = waiting.pop()
        if target in seen:
            continue
        seen.add(target)
        if target[0].split(".")[0] != PACKAGE:
            for own in _own_modules(target[0].split(".")[0]) - files:
                files.add(own)
                # Inside a package of the user's, names that begin with dots lead to files that are here already.
                waiting += [part for part in _module_imports(own, "") if part[0]]
            continue
        for module in _homes(*target):
            file = _file(module)
            if file is not None and file not in files and module != __name__:  # this module makes no result
                files.add(file)
                waiting += _module_imports(file, module)
                if file.name == "__init__.py":
                    waiting += [(_absolute(module, 1, home, True), None) for home in _lazy_names(module).values()]
    return files


@cache
def _file(module: str) -> Path | None:
    """The file of a module of this package."""
    stem = _ROOT.joinpath(*module.split(".")[1:])
    for path in (stem / "__init__.py", stem.with_name(stem.name + ".py")):
        if path.is_file():
            return path
    return None


def _homes(module: str, name: str | None) -> list[str]:
    """The modules that define what is imported: a package's `__init__` hands most of its names on."""
    file = _file(module)
    if name is None or file is None:
        return [module]
    if _file(f"{module}.{name}") is not None and name not in _lazy_names(module):
        return [f"{module}.{name}"]
    if file.name != "__init__.py":
        return [module]
    if name in _lazy_names(module):
        home = _absolute(module, 1, _lazy_names(module)[name], True)
        return [home] if _lazy_names(module)[name] == name else _homes(home, name)
    for source, imported in _module_imports(file, module):
        if imported == name and source.split(".")[0] == PACKAGE:
            return _homes(source, imported)
    return [module]


@cache
def _lazy_names(module: str) -> dict[str, str]:
    """Public name -> module, for packages that resolve their names on first use."""
    file = _file(module)
    if file is None or file.name != "__init__.py":
        return {}
    for node in _tree(file).body:
        if isinstance(node, ast.Assign) and [getattr(t, "id", "") for t in node.targets] == ["_HOME"]:
            return ast.literal_eval(node.value)
    return {}


@cache
def _own_modules(name: str) -> frozenset[Path]:
    """Files of a module or package that is the user's own: neither Python's nor installed."""
    if name in sys.stdlib_module_names or name in sys.builtin_module_names or name == PACKAGE:
        return frozenset()
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError, AttributeError):
        spec = None
    if spec is None:
        return frozenset()
    installed = [Path(sysconfig.get_paths()[kind]).resolve() for kind in ("purelib", "platlib", "stdlib")]
    folders = [Path(folder).resolve() for folder in spec.submodule_search_locations or ()]  # those of a package
    files = [path for folder in folders for path in folder.rglob("*.py")]
    if not folders and spec.origin is not None and spec.origin.endswith(".py"):
        files = [Path(spec.origin).resolve()]
    return frozenset(file for file in files if not any(folder in file.parents for folder in installed))

"""Studies from a user's files: a TOML file is data and nothing in it is executed; a Python file is the user's code.

See docs/studies.md for the format and examples/my_study.toml for an example.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from pandas.api.types import is_numeric_dtype

from .._core.user_code import load_source
from ..plotting.panels import Panel, curves, measured
from .claims import Claim, TableError, Tables, need
from .criteria import named_criterion
from .kind_registry import TrialKind, get_kind, of_type
from .study import Grid, Study

_SPACINGS: dict[str, Callable[..., np.ndarray]] = {"linear": np.linspace, "log": np.geomspace}


def load_studies(path: str | Path) -> list[Study]:
    """The studies in a file: one in TOML; in Python, those bound to the names `study` or `studies`."""
    path = Path(path)
    readers: dict[str, Callable[[Path], list[Study]]] = {".toml": _from_toml, ".py": _from_python}
    if path.suffix not in readers:
        raise ValueError(f"study file {path} must end in {', '.join(readers)}")
    if not path.is_file():
        raise ValueError(f"study file {path} does not exist")
    return readers[path.suffix](path)


def _from_toml(path: Path) -> list[Study]:
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"study file {path} is not TOML: {error}") from error
    try:
        return [study_from_dict(content)]
    except ValueError as error:
        raise ValueError(f"study file {path}: {error}") from error


def _from_python(path: Path) -> list[Study]:
    try:
        module = load_source(str(path.resolve()))
    except (Exception, SystemExit) as error:  # whatever the user's code raises; SPARSETOKEN_DEBUG=1 shows where
        raise ValueError(f"study file {path} cannot be imported: {type(error).__name__}: {error}") from error
    bound = getattr(module, "studies", None) or [getattr(module, "study", None)]
    if not all(isinstance(study, Study) for study in bound):
        raise ValueError(f"study file {path} must bind a Study to `study`, or a list of them to `studies`")
    return list(bound)


def study_from_dict(content: Any) -> Study:
    """A study from plain data, checked to the last name (its trials are specified and validated here already)."""
    more = {"title": str, "question": str, "panels": list, "claims": list}
    entries = _fields("", content, {"name": str, "trials": list}, more)
    grids = tuple(_grid(f"trials[{i}]", part) for i, part in enumerate(_not_empty("trials", entries["trials"])))
    tables = [grid.name for grid in grids]
    if len({(grid.name, grid.kind) for grid in grids}) > len(set(tables)):
        raise ValueError(f"tables of different kinds must have different names, got {', '.join(tables)}")
    for grid in grids:
        grid.trials()  # errors in a trial are reported now
    kinds = {grid.name: get_kind(grid.kind) for grid in grids}
    panels = [_panel(f"panels[{i}]", part, kinds) for i, part in enumerate(entries.get("panels", []))]
    return Study(
        name=entries["name"],
        title=entries.get("title", entries["name"]),
        question=entries.get("question", ""),
        grids={"quick": grids},
        draw=(lambda tables: [make(tables) for make in panels]) if panels else None,
        claims=tuple(_claim(f"claims[{i}]", part, kinds) for i, part in enumerate(entries.get("claims", []))),
    )


def _grid(where: str, content: Any) -> Grid:
    more = {"table": str, "fixed": Mapping, "grid": Mapping, "points": list, "repeats": object, "seed": object}
    entries = _fields(where, content, {"kind": str}, more)
    axes = {name: _axis(f"{where}.grid.{name}", values) for name, values in entries.get("grid", {}).items()}
    fixed, points = entries.get("fixed", {}), _not_empty(f"{where}.points", entries.get("points", [{}]))
    for point in points:
        of_type(Mapping, point, f"{where}.points")
    # Points may override fixed values; an axis would override both.
    for name in axes:
        hidden = "fixed" if name in fixed else "points" if any(name in point for point in points) else None
        if hidden is not None:
            raise ValueError(
                f"{where}: {name} is in {hidden} and in grid, of which only the grid would count; give it once"
            )
    table, repeats, seed = entries.get("table", entries["kind"]), entries.get("repeats", 1), entries.get("seed", 0)
    return Grid(table, entries["kind"], fixed, axes, points=points, repeats=repeats, first_seed=seed)


def _axis(where: str, value: Any) -> list[Any]:
    if not isinstance(value, Mapping):
        return _not_empty(where, of_type(list, value, where))
    entries = _fields(where, value, {"from": object, "to": object, "count": object}, {"spacing": object})
    spacing = entries.get("spacing", "linear")
    if spacing not in _SPACINGS:
        raise ValueError(f"{where}.spacing must be one of {', '.join(_SPACINGS)}, got {spacing!r}")
    if not isinstance(entries["count"], int) or not 1 <= entries["count"] <= 100_000:
        raise ValueError(f"{where}.count must be a whole number from 1 to 100000, got {entries['count']!r}")
    try:
        return [float(v) for v in _SPACINGS[spacing](entries["from"], entries["to"], entries["count"])]
    except (TypeError, ValueError) as error:
        raise ValueError(f"{where} must run between two numbers: {error}") from error


def _check_tables(where: str, entries: Mapping[str, Any], tables: Mapping[str, TrialKind]) -> None:
    for name in ("table", "theory"):
        if name in entries and entries[name] not in tables:
            raise ValueError(f"{where}.{name} must be one of {', '.join(tables)}, got {entries[name]!r}")


def _check_columns(where: str, kinds: Mapping[str, TrialKind], table: str, names: Sequence[str]) -> None:
    """Refuse a misspelt column before anything runs, where the columns of a kind are known."""
    for name in names:
        if not kinds[table].has_column(name):
            listed = ", ".join(kinds[table].table_columns)
            raise ValueError(f"{where}: table {table!r} will have no column {name!r}; it will have {listed}")


def _panel(where: str, content: Any, tables: Mapping[str, TrialKind]) -> Callable[[Tables], Panel]:
    texts = dict.fromkeys(("title", "theory", "by", "xlabel", "ylabel"), str)
    entries = _fields(where, content, {"table": str, "x": str, "y": str}, {**texts, "logx": bool, "logy": bool})
    _check_tables(where, entries, tables)
    x, y, by = entries["x"], entries["y"], entries.get("by")
    columns = [column for column in (x, y, by) if column]
    for name in ("table", "theory"):
        if name in entries:
            _check_columns(where, tables, entries[name], columns)

    def part(tables: Tables, name: str) -> Any:
        table = need(tables, entries[name], columns)
        for column in (x, y):
            if not is_numeric_dtype(table[column]):
                raise TableError(f"column {column!r} of table {entries[name]!r} does not hold numbers")
        return table if by else table.assign(**{"": y})

    def make(tables: Tables) -> Panel:
        layers: list[Any] = []
        if "theory" in entries:
            layers += curves(part(tables, "theory"), x, y, by or "", suffix=", theory")
        layers += measured(part(tables, "table"), x, y, by or "")
        logs = {name: entries.get(name, False) for name in ("logx", "logy")}
        return Panel(entries.get("title", ""), entries.get("xlabel", x), entries.get("ylabel", y), layers, **logs)

    return make


def _claim(where: str, content: Any, tables: Mapping[str, TrialKind]) -> Claim:
    needed = {"id": str, "statement": str, "criterion": Mapping}
    entries = _fields(where, content, needed, {"source": str, "expected": object})
    parameters = entries["criterion"]
    _check_tables(where, parameters, tables)
    try:
        criterion = named_criterion(parameters)
        for table, names in criterion.needs:
            if table in tables:
                _check_columns("criterion", tables, table, names)
        rule = ", ".join(f"{name} = {value}" for name, value in parameters.items())
        record = {"reference": entries.get("source", ""), "expected": entries.get("expected", "confirmed")}
        return Claim(entries["id"], entries["statement"], rule, criterion.judge, **record)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error


def _fields(where: str, content: Any, needed: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """A table's fields by name, of the types given (`object` for what is checked elsewhere)."""
    place, allowed = where or "the study", {**needed, **more}
    entries = of_type(Mapping, content, place)
    for name in needed:
        if name not in entries:
            raise ValueError(f"{place} needs {name!r}")
    for name, value in entries.items():
        if name not in allowed:
            raise ValueError(f"{place} has no field {name!r}; it has {', '.join(allowed)}")
        of_type(allowed[name], value, f"{where}.{name}".lstrip("."))
    return dict(entries)


def _not_empty(where: str, values: list[Any]) -> list[Any]:
    if not values:
        raise ValueError(f"{where} must not be empty: give at least one entry")
    return values

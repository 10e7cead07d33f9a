"""A user's own studies: a TOML file is data and nothing in it is executed; a Python file is the user's code.

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
from .kind import TrialKind, get_kind
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
    return [_checked(path, content)]


def _from_python(path: Path) -> list[Study]:
    try:
        module = load_source(str(path.resolve()))
    except (Exception, SystemExit) as error:  # whatever the user's code raises; SPARSETOKEN_DEBUG=1 shows where
        raise ValueError(f"study file {path} cannot be imported: {type(error).__name__}: {error}") from error
    found = getattr(module, "studies", None) or [getattr(module, "study", None)]
    if not all(isinstance(study, Study) for study in found):
        raise ValueError(f"study file {path} must bind a Study to `study`, or a list of them to `studies`")
    return list(found)


def _checked(path: Path, content: Any) -> Study:
    try:
        return study_from_dict(content)
    except ValueError as error:
        raise ValueError(f"study file {path}: {error}") from error


def study_from_dict(content: Any) -> Study:
    """A study from plain data, checked to the last name (its trials are specified and validated here already)."""
    given = _fields("the study", content, needed=("name", "trials"), allowed=("title", "question", "panels", "claims"))
    name = _text("name", given["name"])
    grids = tuple(_grid(i, part) for i, part in enumerate(_full_list("trials", given["trials"])))
    tables = [grid.name for grid in grids]
    kinds = {(grid.name, grid.kind) for grid in grids}
    if len(kinds) > len(set(tables)):
        raise ValueError(f"tables of different kinds must have different names, got {', '.join(tables)}")
    for grid in grids:
        grid.trials()  # whatever is wrong with a trial is said now
    known = {grid.name: get_kind(grid.kind) for grid in grids}
    panels = [_panel(i, part, known) for i, part in enumerate(_list_of("panels", given.get("panels", [])))]
    claims = [_claim(i, part, known) for i, part in enumerate(_list_of("claims", given.get("claims", [])))]
    return Study(
        name=name,
        title=_text("title", given.get("title", name)),
        question=_text("question", given.get("question", "")),
        grids={"quick": grids},
        draw=(lambda tables: [make(tables) for make in panels]) if panels else None,
        claims=tuple(claims),
    )


def _grid(place: int, content: Any) -> Grid:
    where = f"trials[{place}]"
    given = _fields(where, content, needed=("kind",), allowed=("table", "fixed", "grid", "points", "repeats", "seed"))
    kind = _text(f"{where}.kind", given["kind"])
    axes = {
        name: _axis(f"{where}.grid.{name}", v) for name, v in _table(f"{where}.grid", given.get("grid", {})).items()
    }
    fixed = _table(f"{where}.fixed", given.get("fixed", {}))
    points = [_table(f"{where}.points", point) for point in _full_list(f"{where}.points", given.get("points", [{}]))]
    # Points may differ from what is fixed for the others; an axis would hide either.
    for name in axes:
        hidden = "fixed" if name in fixed else "points" if any(name in point for point in points) else None
        if hidden is not None:
            raise ValueError(
                f"{where}: {name} stands in {hidden} and in grid, of which only the grid would count; give it once"
            )
    return Grid(
        name=_text(f"{where}.table", given.get("table", kind)),
        kind=kind,
        fixed=fixed,
        axes=axes,
        points=points,
        repeats=given.get("repeats", 1),
        first_seed=given.get("seed", 0),
    )


def _full_list(where: str, value: Any) -> list[Any]:
    values = _list_of(where, value)
    if not values:
        raise ValueError(f"{where} must not be empty: give at least one entry")
    return values


def _axis(where: str, value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        given = _fields(where, value, needed=("from", "to", "count"), allowed=("spacing",))
        spacing = given.get("spacing", "linear")
        if spacing not in _SPACINGS:
            raise ValueError(f"{where}.spacing must be one of {', '.join(_SPACINGS)}, got {spacing!r}")
        if not isinstance(given["count"], int) or not 1 <= given["count"] <= 100_000:
            raise ValueError(f"{where}.count must be a whole number from 1 to 100000, got {given['count']!r}")
        try:
            return [float(v) for v in _SPACINGS[spacing](given["from"], given["to"], given["count"])]
        except (TypeError, ValueError) as error:
            raise ValueError(f"{where} must run between two numbers: {error}") from error
    return _full_list(where, value)


def _check_columns(where: str, kinds: Mapping[str, TrialKind], table: str, names: Sequence[str]) -> None:
    """A misspelt column is told before anything runs, as far as a kind says what it gives."""
    for name in names:
        if not kinds[table].has_column(name):
            listed = ", ".join(kinds[table].table_columns)
            raise ValueError(f"{where}: table {table!r} will have no column {name!r}; it will have {listed}")


def _panel(place: int, content: Any, tables: Mapping[str, TrialKind]) -> Callable[[Tables], Panel]:
    where = f"panels[{place}]"
    allowed = ("title", "theory", "by", "xlabel", "ylabel", "logx", "logy")
    given = _fields(where, content, needed=("table", "x", "y"), allowed=allowed)
    for name in ("table", "theory"):
        if name in given and given[name] not in tables:
            raise ValueError(f"{where}.{name} must be one of {', '.join(tables)}, got {given[name]!r}")
    for name in ("x", "y", "by", "title", "xlabel", "ylabel"):
        if name in given:
            _text(f"{where}.{name}", given[name])
    for name in ("logx", "logy"):
        if not isinstance(given.get(name, False), bool):
            raise ValueError(f"{where}.{name} must be true or false, got {given[name]!r}")
    x, y, by = given["x"], given["y"], given.get("by")
    for name in ("table", "theory"):
        if name in given:
            _check_columns(where, tables, given[name], [column for column in (x, y, by) if column])

    def part(tables: Tables, name: str) -> Any:
        table = need(tables, given[name], [column for column in (x, y, by) if column])
        for column in (x, y):
            if not is_numeric_dtype(table[column]):
                raise TableError(f"column {column!r} of table {given[name]!r} does not hold numbers")
        return table if by else table.assign(**{"": y})

    def make(tables: Tables) -> Panel:
        layers: list[Any] = []
        if "theory" in given:
            layers += curves(part(tables, "theory"), x, y, by or "", suffix=", theory")
        layers += measured(part(tables, "table"), x, y, by or "")
        return Panel(
            given.get("title", ""),
            given.get("xlabel", x),
            given.get("ylabel", y),
            layers,
            logx=given.get("logx", False),
            logy=given.get("logy", False),
        )

    return make


def _claim(place: int, content: Any, tables: Mapping[str, TrialKind]) -> Claim:
    where = f"claims[{place}]"
    given = _fields(where, content, needed=("id", "statement", "criterion"), allowed=("source", "expected"))
    parameters = _table(f"{where}.criterion", given["criterion"])
    for name in ("table", "theory"):
        if name in parameters and parameters[name] not in tables:
            raise ValueError(f"{where}.{name} must be one of {', '.join(tables)}, got {parameters[name]!r}")
    try:
        criterion = named_criterion(parameters)
        for table, names in criterion.needs:
            if table in tables:
                _check_columns("criterion", tables, table, names)
        return Claim(
            _text("id", given["id"]),
            _text("statement", given["statement"]),
            ", ".join(f"{name} = {value}" for name, value in parameters.items()),
            criterion,
            reference=_text("source", given.get("source", "")),
            expected=given.get("expected", "confirmed"),
        )
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error


def _fields(where: str, content: Any, needed: Sequence[str], allowed: Sequence[str]) -> dict[str, Any]:
    given = dict(_table(where, content))
    for name in needed:
        if name not in given:
            raise ValueError(f"{where} needs {name!r}")
    for name in given:
        if name not in needed and name not in allowed:
            raise ValueError(f"{where} has no field {name!r}; it has {', '.join((*needed, *allowed))}")
    return given


def _table(where: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise ValueError(f"{where} must be a table of names and values, got {value!r}")
    return value


def _list_of(where: str, value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"{where} must be a list, got {value!r}")
    return value


def _text(where: str, value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{where} must be text, got {value!r}")
    return value

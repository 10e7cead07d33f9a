"""Kinds of trial: pure functions from plain values to flat results, found by name in every worker.

A kind's signature is its specification: parameters without a default must be given, the others are filled in, unknown names
are refused, and values are brought to the annotated type, so that `d = 30` and `d = 30.0` are one trial. A parameter called
`task`, `training`, `tokens` or `deployment`, or annotated with a dataclass, is given by all its fields, flat (`length=10,
alpha1=2, noise="student:5", test_length=50`): any of them can be an axis of a grid and a column of a table. A parameter
called `seed` makes the kind random: the specification carries the repeat's number, the function receives a seed derived
from the whole specification, so that no two trials share random numbers.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import math
import re
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cached_property
from importlib import import_module
from numbers import Integral, Real
from typing import Any

from .._core.user_code import own_named_in
from .._core.validation import as_float, rejection, whole_number
from ..deployment import Deployment
from ..task import NEUTRAL_FIELDS, Task, Tokens
from ..training import Training
from .fingerprint import code_fingerprint, thing_fingerprint

_DESCRIPTIONS: dict[str, Any] = {"task": Task, "training": Training, "tokens": Tokens, "deployment": Deployment}
_KINDS: dict[str, TrialKind] = {}
# Arguments that select what a trial reports: they enter its key where they are given, and never its random numbers.
REPORTED = ("rows_at",)
_NEUTRAL = {
    **NEUTRAL_FIELDS,
    "equal_samples": False,
    "query_by": "steps",
    **Tokens().to_dict(),
    **Deployment().to_dict(),
    **dict.fromkeys(REPORTED),
}


def plain(value: Any, name: str = "value", *, finite: bool = False) -> Any:
    """`value` as JSON-ready data (NumPy numbers and arrays converted), or a ValueError naming it."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        if finite and not math.isfinite(value):
            raise ValueError(f"{name} must be finite, got {value!r}")
        return float(value)
    if isinstance(value, Mapping):
        return {str(k): plain(v, f"{name}.{k}", finite=finite) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v, name, finite=finite) for v in value]
    raise ValueError(f"{name} must be plain data (numbers, text, lists, tables), got {type(value).__name__}")


def canonical_json(value: Any) -> str:
    """One text for one value: sorted keys, no spaces, shortest exact floats, no NaN."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


_IN_WORDS = {bool: "true or false", str: "text"}


def of_type(annotation: Any, value: Any, name: str) -> Any:
    """A plain value, converted to the type of its annotation."""
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        if value is None and type(None) in inner:
            return None
        for option in (option for option in inner if option is not type(None)):
            try:
                return of_type(option, value, name)
            except ValueError as error:
                refused = error
        raise refused
    if annotation in _IN_WORDS:
        if not isinstance(value, annotation):
            raise rejection(name, value, _IN_WORDS[annotation])
        return value
    if annotation is int:
        if isinstance(value, Integral) and not isinstance(value, bool):
            return value
        x = as_float(value)
        if x is None or not x.is_integer():
            raise rejection(name, value, "a whole number")
        return int(x)
    if annotation is float:
        x = as_float(value)
        if x is None:
            raise rejection(name, value, "a number")
        return x
    if Mapping in (annotation, origin) and not isinstance(value, Mapping):
        raise rejection(name, value, "a table of names and values")
    if annotation is list or origin is list:
        if not isinstance(value, list):
            raise rejection(name, value, "a list")
        return [of_type(inner[0] if inner else None, part, name) for part in value]
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**53 else value


@dataclass(frozen=True)
class TrialKind:
    """A registered trial function."""

    name: str
    version: int
    function: Callable[..., Any]
    check: Callable[[Mapping[str, Any]], None] | None = None
    columns: Mapping[str, str] | None = None

    @cached_property
    def parameters(self) -> Mapping[str, inspect.Parameter]:
        """The function's parameters by name."""
        return inspect.signature(self.function).parameters

    @cached_property
    def annotations(self) -> Mapping[str, Any]:
        """The parameters' types, where they are given and can be resolved."""
        try:
            return typing.get_type_hints(self.function)
        except (NameError, TypeError):  # names that only a type checker knows
            return {}

    @cached_property
    def code(self) -> str:
        """The fingerprint of the code behind this kind; see `fingerprint`."""
        return code_fingerprint(self.function)

    @property
    def random(self) -> bool:
        """Whether it draws random numbers."""
        return "seed" in self.parameters

    @cached_property
    def groups(self) -> dict[str, Any]:
        """The parameters that are given by several flat arguments, and the classes that these make."""
        kinds = {name: _DESCRIPTIONS.get(name, self.annotations.get(name)) for name in self.parameters}
        return {name: kind for name, kind in kinds.items() if is_dataclass(kind)}

    def complete(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The full flat specification: defaults filled in, values validated and brought to their types."""
        values = {name: plain(value, name, finite=True) for name, value in arguments.items()}
        unknown = [name for name in values if name not in self.names]
        if unknown:
            raise ValueError(
                f"trial kind {self.name!r} has no parameter {unknown[0]!r}; it has {', '.join(self.names)}"
            )
        full: dict[str, Any] = {}
        for name, parameter in self.parameters.items():
            if name in _DESCRIPTIONS:
                description = _DESCRIPTIONS[name]
                names = description.field_names()
                value = description.from_dict({k: values.pop(k) for k in list(values) if k in names})
                if isinstance(value, Deployment):
                    value = value.filled_in(Task.from_dict({k: full[k] for k in Task.field_names()}))
                full.update(value.to_dict())
            elif name in self.groups:
                hints = typing.get_type_hints(self.groups[name])
                full |= {
                    f.name: self._value(f.name, hints[f.name], f.default, values) for f in fields(self.groups[name])
                }
            else:
                default = 0 if name == "seed" else parameter.default
                full[name] = self._value(name, self.annotations.get(name), default, values)
        if self.random:
            full["seed"] = whole_number("seed", full["seed"], 0)
        if self.check is not None:
            self.check(full)
        return full

    def _value(self, name: str, annotation: Any, default: Any, values: Mapping[str, Any]) -> Any:
        if name in values:
            return of_type(annotation, values[name], name)
        if default is inspect.Parameter.empty or default is MISSING:
            raise ValueError(f"trial kind {self.name!r} needs {name!r}")
        return plain(default, name)

    @cached_property
    def names(self) -> list[str]:
        """All flat parameter names."""
        flat = {name: _field_names(kind) for name, kind in self.groups.items()}
        return [part for name in self.parameters for part in flat.get(name, [name])]

    def call(self, arguments: Mapping[str, Any]) -> Any:
        """Run the trial."""
        flat = dict(arguments)
        if self.random:
            flat["seed"] = stream_seed(self.name, arguments)
        nested = {}
        for name, kind in self.groups.items():
            parts = {part: flat.pop(part) for part in _field_names(kind)}
            nested[name] = kind.from_dict(parts) if name in _DESCRIPTIONS else kind(**parts)
        result = plain(self.function(**nested, **flat), f"result of {self.name!r}")
        for row in result if isinstance(result, list) else [result]:
            if not isinstance(row, dict):
                kind = type(row).__name__
                raise ValueError(f"trial kind {self.name!r} must return results by name, or a list of such, got {kind}")
            for column in row:
                if not self.has_column(column):
                    raise ValueError(
                        f"trial kind {self.name!r} returned {column!r}, which is none of its columns: "
                        f"{', '.join(self.columns or ())}"
                    )
        return result

    def has_column(self, column: str) -> bool:
        """Whether a table of its trials has that column: an argument, or a result; True where results are not known."""
        names = {*self.table_columns, *(self.columns or ())}
        any_direction = re.sub(r"\[[^\]]*\]", "[*]", column)  # overlap[q]_se -> overlap[*]_se
        return self.columns is None or column in names or any_direction in names

    @property
    def table_columns(self) -> list[str]:
        """All columns that a table of its trials may have; a result with an argument's name has a suffix (see `tidy`)."""
        results = [f"{name}_result" if name in self.names else name for name in self.columns or ()]
        return [*self.names, *results]


def code_of(kind: str, arguments: Mapping[str, Any]) -> str:
    """The fingerprint of the code behind a trial: its kind's, and that of the user's things that its arguments name."""
    things = own_named_in(arguments)
    return "+".join([get_kind(kind).code, *(f"{name}={thing_fingerprint(thing)}" for name, thing in things.items())])


def _field_names(kind: Any) -> list[str]:
    return list(kind.field_names()) if hasattr(kind, "field_names") else [field.name for field in fields(kind)]


def identity(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The flat arguments that identify a trial: all except fields at neutral values, so that it stays the same trial, with the
    same random numbers, when descriptions get new fields."""
    return {k: v for k, v in arguments.items() if k not in _NEUTRAL or v != _NEUTRAL[k]}


def stream_seed(kind: str, arguments: Mapping[str, Any]) -> int:
    """The seed of a trial's random numbers: 63 bits of the hash of its specification."""
    known_by = {name: value for name, value in identity(arguments).items() if name not in REPORTED}
    digest = hashlib.sha256(canonical_json([kind, known_by]).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def trial_kind(
    name: str,
    version: int = 1,
    *,
    check: Callable[[Mapping[str, Any]], None] | None = None,
    columns: Mapping[str, str] | Iterable[str] | None = None,
) -> Callable[[Callable], Callable]:
    """Register a function as a kind of trial: a decorator, which returns the function as it is.

    Parameters
    ----------
    name : str
        The name of the kind in studies.
    version : int
        Raise it when results change for another reason than the code (a data file, an installed package), so that old rows
        are not reused.
    check : callable or None
        Called with the complete flat arguments before anything runs; raises ValueError where they make no sense together.
    columns : mapping, iterable of str or None
        The results that it returns, perhaps with their meanings. Panels and criteria of study files are then checked before
        anything runs, and a result of another name is an error.
    """

    def register(function: Callable) -> Callable:
        earlier = _KINDS.get(name)
        if earlier is not None and earlier.function.__module__ != function.__module__:
            raise ValueError(f"trial kind {name!r} is already taken by {earlier.function.__module__}")
        meanings = columns if columns is None or isinstance(columns, Mapping) else dict.fromkeys(columns, "")
        _KINDS[name] = TrialKind(name, whole_number("version", version, 0), function, check, meanings)
        return function

    return register


def all_kinds() -> dict[str, TrialKind]:
    """All kinds by name: the package's own, and those of the user's that have been registered."""
    import_module(".kinds", __package__)
    return dict(_KINDS)


def get_kind(name: str) -> TrialKind:
    """The kind of that name; the package's own kinds are loaded on first use."""
    if name not in _KINDS:
        import_module(".kinds", __package__)
    if name not in _KINDS:
        raise ValueError(f"there is no trial kind {name!r}; there are {', '.join(sorted(_KINDS))}")
    return _KINDS[name]

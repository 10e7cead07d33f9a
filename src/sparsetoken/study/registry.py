"""Kinds of trial: pure functions from plain values to flat results, found by name in every worker.

A kind's signature is its specification: parameters without a default must be given, the others are filled in, unknown
names are refused. A parameter called `task` or `training` stands for all the fields of `Task` or `Training`, which are
given flat (`length=10, alpha1=2`), so that any of them can be an axis of a grid and a column of a table. A parameter
called `seed` makes the kind random: the specification carries the repeat's number, the function receives a seed
derived from the whole specification, so that no two trials share random numbers.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from importlib import import_module
from numbers import Integral, Real
from typing import Any

from .._core.validation import whole_number
from ..task import Task
from ..training import Training

_DESCRIPTIONS: dict[str, Any] = {"task": Task, "training": Training}
_KINDS: dict[str, TrialKind] = {}


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


@dataclass(frozen=True)
class TrialKind:
    """A registered trial function, with the version number that enters every key."""

    name: str
    version: int
    function: Callable[..., Any]

    @cached_property
    def parameters(self) -> Mapping[str, inspect.Parameter]:
        return inspect.signature(self.function).parameters

    @property
    def random(self) -> bool:
        return "seed" in self.parameters

    def complete(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The full flat specification: defaults filled in, values validated and made plain."""
        given = {name: plain(value, name, finite=True) for name, value in arguments.items()}
        unknown = [name for name in given if name not in self.names]
        if unknown:
            raise ValueError(
                f"trial kind {self.name!r} has no parameter {unknown[0]!r}; it has {', '.join(self.names)}"
            )
        full: dict[str, Any] = {}
        for name, parameter in self.parameters.items():
            if name in _DESCRIPTIONS:
                description = _DESCRIPTIONS[name]
                own = {f.name for f in fields(description)}
                part = {k: given.pop(k) for k in list(given) if k in own}
                full.update(description.from_dict(part).to_dict())
            elif name in given:
                full[name] = given.pop(name)
            elif name == "seed":
                full[name] = 0
            elif parameter.default is inspect.Parameter.empty:
                raise ValueError(f"trial kind {self.name!r} needs {name!r}")
            else:
                full[name] = plain(parameter.default, name)
        if self.random:
            full["seed"] = whole_number("seed", full["seed"], 0)
        return full

    @cached_property
    def names(self) -> list[str]:
        """All flat parameter names."""
        names: list[str] = []
        for name in self.parameters:
            names += [f.name for f in fields(_DESCRIPTIONS[name])] if name in _DESCRIPTIONS else [name]
        return names

    def call(self, arguments: Mapping[str, Any]) -> Any:
        """Run the trial on a complete flat specification; the result is a flat dictionary or a list of them."""
        flat, nested = dict(arguments), {}
        if self.random:
            flat["seed"] = stream_seed(self.name, arguments)
        for name, description in _DESCRIPTIONS.items():
            if name in self.parameters:
                nested[name] = description.from_dict({f.name: flat.pop(f.name) for f in fields(description)})
        return plain(self.function(**nested, **flat), f"result of {self.name!r}")


def stream_seed(kind: str, arguments: Mapping[str, Any]) -> int:
    """The seed of a trial's random numbers: 63 bits of the hash of its specification."""
    digest = hashlib.sha256(canonical_json([kind, arguments]).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def trial_kind(name: str, version: int = 1) -> Callable[[Callable], Callable]:
    """Register a function as a kind of trial. Raise `version` when its results change: old rows are then not reused."""

    def register(function: Callable) -> Callable:
        known = _KINDS.get(name)
        if known is not None and known.function.__module__ != function.__module__:
            raise ValueError(f"trial kind {name!r} is already taken by {known.function.__module__}")
        _KINDS[name] = TrialKind(name, whole_number("version", version, 0), function)
        return function

    return register


def get_kind(name: str) -> TrialKind:
    """The kind of that name; the package's own kinds are loaded on first use."""
    if name not in _KINDS:
        import_module(".kinds", __package__)
    if name not in _KINDS:
        raise ValueError(f"there is no trial kind {name!r}; there are {', '.join(sorted(_KINDS))}")
    return _KINDS[name]

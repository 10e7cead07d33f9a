"""`Study`: named grids of trials, how to draw them, and the claims judged on their tables."""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from .._core.validation import rejection, whole_number
from .kind_registry import canonical_json, code_of, get_kind, identity

if TYPE_CHECKING:
    from ..plotting.panels import Panel
    from .claims import Claim, Tables

SIZES = ("quick", "full")
MOST_TRIALS = 1_000_000  # of one grid: a store of about a gigabyte, and days of work for the quickest trials


def check_name(what: str, name: Any) -> str:
    """A name that is valid as a file name on any system and stays inside its folder."""
    most = 100  # a study's and a table's name together make that of a file
    allowed = f"a name of at most {most} printable characters without slashes that does not begin with a dot"
    if not isinstance(name, str) or not name.strip() or len(name) > most:
        raise rejection(what, name, allowed)
    if not name.isprintable() or name.startswith(".") or set(name) & set('/\\:*?"<>|'):
        raise rejection(what, name, f'{allowed} and has none of : * ? " < > |')
    return name


@dataclass(frozen=True)
class TrialSpec:
    """One computation: a kind and its complete flat arguments. Equal specifications have equal keys.

    Attributes
    ----------
    kind : str
        The kind of trial.
    arguments : mapping
        All flat arguments.
    source : str or None
        The user's Python file that registers the kind.
    """

    kind: str
    arguments: Mapping[str, Any]
    source: str | None = field(default=None, compare=False)

    @classmethod
    def of(cls, kind: str, source: str | None = None, /, **arguments: Any) -> TrialSpec:
        """The trial with these arguments, defaults filled in and everything checked."""
        return cls(kind, get_kind(kind).complete(arguments), source)

    @property
    def version(self) -> int:
        """The kind's version number."""
        return get_kind(self.kind).version

    @cached_property
    def code(self) -> str:
        """The fingerprint of the code that computes it, things of the user's included that its arguments name."""
        return code_of(self.kind, self.arguments)

    @property
    def specification(self) -> tuple[str, str]:
        """Kind and arguments in a form that can be compared: equal for trials that compute the same."""
        return self.kind, canonical_json(identity(self.arguments))

    @cached_property
    def key(self) -> str:
        """Its key in the store: kind, version, code and arguments."""
        kind = {"kind": self.kind, "version": self.version, "code": self.code}
        return hashlib.sha256(canonical_json({**kind, "arguments": identity(self.arguments)}).encode()).hexdigest()[:32]


@dataclass(frozen=True)
class Grid:
    """All combinations of some axes, repeated: becomes the table `name`.

    Attributes
    ----------
    name : str
        The table's name; grids of the same name make one table.
    kind : str
        The kind of trial.
    fixed : mapping
        Arguments common to all trials.
    axes : mapping
        Argument -> its values; the first varies slowest.
    points : sequence of mappings
        Explicit combinations, each combined with all those of the axes.
    repeats : int
        Trials per point, with seeds first_seed, first_seed + 1, ... (kinds without a seed are never repeated).
    first_seed : int
        The first repeat's number.
    source : str or None
        The user's Python file that registers the kind.
    """

    name: str
    kind: str
    fixed: Mapping[str, Any] = field(default_factory=dict)
    axes: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    points: Sequence[Mapping[str, Any]] = ({},)
    repeats: int = 1
    first_seed: int = 0
    source: str | None = None

    def __post_init__(self):
        check_name("table", self.name)

    def trials(self) -> list[TrialSpec]:
        """Its trials in order: for every combination, its repeats."""
        repeats = whole_number("repeats", self.repeats, 1)
        whole_number("first seed", self.first_seed, 0)
        if any("seed" in part for part in (self.fixed, self.axes, *self.points)):
            raise ValueError(f"grid {self.name!r}: seed is set by repeats and the first seed, not by a grid")
        seeds = range(int(self.first_seed), int(self.first_seed) + (repeats if get_kind(self.kind).random else 1))
        total = len(self.points) * math.prod(len(values) for values in self.axes.values()) * len(seeds)
        if total > MOST_TRIALS:
            raise ValueError(f"grid {self.name!r} has {total:,} trials; a grid has at most {MOST_TRIALS:,}")
        trials = []
        for point, values in itertools.product(self.points, itertools.product(*self.axes.values())):
            first = TrialSpec.of(self.kind, self.source, **{**self.fixed, **point, **dict(zip(self.axes, values))})
            seeded = [TrialSpec(self.kind, {**first.arguments, "seed": s}, self.source) for s in seeds]
            trials += seeded if get_kind(self.kind).random else [first]
        return trials


def sized(**arguments: tuple[Any, ...]) -> Callable[[Callable[..., Sequence[Grid]]], dict[str, Sequence[Grid]]]:
    """Make the grids of every size with one function, from the arguments of each: `@sized(quick=(...), full=(...))`."""
    return lambda make: {size: make(*settings) for size, settings in arguments.items()}


@dataclass(frozen=True)
class Study:
    """A question, the trials that answer it, its figure and its claims.

    Attributes
    ----------
    name : str
        Names its files and its rows in the store.
    title, question : str
        Shown in the report.
    grids : mapping
        Size ("quick" or "full") -> grids; a study with one size only serves both.
    draw : callable or None
        Tables -> panels of the figure.
    findings : callable or None
        Tables -> the findings, as sentences made from the numbers; the terminal and the report's opening show the first ones.
    claims : sequence of Claim
        Judged on the tables.
    cost : mapping
        Size -> CPU seconds, measured once, for the listing.
    notes : str
        Shown in the report, in small type.
    """

    name: str
    title: str
    question: str
    grids: Mapping[str, Sequence[Grid]]
    draw: Callable[[Tables], Sequence[Panel]] | None = None
    findings: Callable[[Tables], str] | None = None
    claims: Sequence[Claim] = ()
    cost: Mapping[str, float] = field(default_factory=dict)
    notes: str = ""

    def __post_init__(self):
        check_name("name", self.name)
        if not self.grids:
            raise ValueError(f"study {self.name!r} has no grids: give at least one, under the size quick")
        ids = [claim.id for claim in self.claims]
        for claim in ids:
            if ids.count(claim) > 1:
                raise ValueError(f"study {self.name!r} has two claims {claim!r}")

    def grids_of(self, size: str) -> Sequence[Grid]:
        """The grids of a size."""
        if size not in SIZES:
            raise ValueError(f"size must be one of {', '.join(SIZES)}, got {size!r}")
        return self.grids[size] if size in self.grids else next(iter(self.grids.values()))

    def reseeded(self, seed: int) -> Study:
        """The same study on other random numbers; no two `seed`s share a trial's."""
        offset = MOST_TRIALS * whole_number("seed", seed, 0)
        moved = {
            size: [replace(g, first_seed=g.first_seed + offset) for g in grids] for size, grids in self.grids.items()
        }
        return replace(self, grids=moved)

    def trials(self, size: str = "quick") -> dict[str, list[TrialSpec]]:
        """Table name -> its trials, in order; grids of the same name make one table."""
        tables: dict[str, list[TrialSpec]] = {}
        for grid in self.grids_of(size):
            tables.setdefault(grid.name, []).extend(grid.trials())
        if not any(tables.values()):
            raise ValueError(f"study {self.name!r} has no trials: give it a grid with at least one point")
        return tables

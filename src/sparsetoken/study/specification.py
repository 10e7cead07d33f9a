"""What a study is: named grids of trials, how to draw them, and the claims judged on their tables."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from .._core.validation import whole_number
from .registry import canonical_json, get_kind

if TYPE_CHECKING:
    from ..plotting.panels import Panel
    from .claims import Claim, Tables

SIZES = ("quick", "full")


@dataclass(frozen=True)
class Trial:
    """One computation: a kind and its complete flat arguments. Equal specifications have equal keys."""

    kind: str
    arguments: Mapping[str, Any]
    source: str | None = field(default=None, compare=False)  # user's Python file that registers the kind

    @classmethod
    def of(cls, kind: str, source: str | None = None, /, **arguments: Any) -> Trial:
        return cls(kind, get_kind(kind).complete(arguments), source)

    @property
    def version(self) -> int:
        return get_kind(self.kind).version

    @cached_property
    def key(self) -> str:
        specification = {"kind": self.kind, "version": self.version, "arguments": self.arguments}
        return hashlib.sha256(canonical_json(specification).encode()).hexdigest()[:32]


@dataclass(frozen=True)
class Grid:
    """All combinations of some axes, repeated: becomes the table `name`.

    fixed    arguments common to all trials
    axes     argument -> values; the first varies slowest
    points   instead of (or on top of) axes: explicit combinations, each a dictionary
    repeats  trials a point, with seeds first_seed, first_seed + 1, ... (kinds without a seed are never repeated)
    """

    name: str
    kind: str
    fixed: Mapping[str, Any] = field(default_factory=dict)
    axes: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    points: Sequence[Mapping[str, Any]] = ({},)
    repeats: int = 1
    first_seed: int = 0
    source: str | None = None

    def trials(self) -> list[Trial]:
        whole_number("repeats", self.repeats, 1)
        whole_number("first seed", self.first_seed, 0)
        if any("seed" in part for part in (self.fixed, self.axes, *self.points)):
            raise ValueError(f"grid {self.name!r}: seed is set by repeats and the first seed, not by a grid")
        return list(self._trials())

    def _trials(self) -> Iterator[Trial]:
        random = get_kind(self.kind).random
        for point in self.points:
            for values in itertools.product(*self.axes.values()):
                arguments = {**self.fixed, **point, **dict(zip(self.axes, values))}
                first = Trial.of(self.kind, self.source, **arguments)
                if not random:
                    yield first
                    continue
                for i in range(self.repeats):
                    yield Trial(self.kind, {**first.arguments, "seed": self.first_seed + i}, self.source)


@dataclass(frozen=True)
class Study:
    """A question, the trials that answer it, its figure and its claims.

    grids     size ("quick" or "full") -> grids; a study with one size only serves both
    draw      tables -> panels of the figure
    findings  tables -> what was found, in words made from the numbers
    cost      size -> CPU seconds, measured once, for the listing
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

    def grids_of(self, size: str) -> Sequence[Grid]:
        if size not in SIZES:
            raise ValueError(f"size must be one of {', '.join(SIZES)}, got {size!r}")
        return self.grids[size] if size in self.grids else next(iter(self.grids.values()))

    def reseeded(self, offset: int) -> Study:
        """The same study on other random numbers: every grid's seeds moved up by `offset`."""
        whole_number("seed", offset, 0)
        grids = {
            size: [replace(grid, first_seed=grid.first_seed + offset) for grid in of_size]
            for size, of_size in self.grids.items()
        }
        return replace(self, grids=grids)

    def trials(self, size: str = "quick") -> dict[str, list[Trial]]:
        """Table name -> its trials, in order; grids of the same name make one table."""
        tables: dict[str, list[Trial]] = {}
        for grid in self.grids_of(size):
            tables.setdefault(grid.name, []).extend(grid.trials())
        return tables

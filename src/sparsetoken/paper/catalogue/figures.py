"""What the figures share: symbols on axes, theory as lines, simulations as points."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ..._core.averages import extrapolate, summarise
from ...plotting.panels import Layer, Line, Points
from ...plotting.style import colour, marker
from ...study.criteria import ValueWithError, select
from .common import MODELS

GREY = "#777777"  # colours of guides and references


def largest(table: Any) -> Any:
    """The rows of the largest dimension."""
    return table[table["d"] == table["d"].max()]


def spots(table: Any, x: str, y: str, name: str, shade: str, mark: str = "circle", *, limit: bool = False) -> Points:
    """Simulated points: means at the largest dimension or, with `limit`, extrapolated to d → ∞."""
    rows = extrapolate(table, [x], y) if limit else summarise(largest(table), x, y)
    label = f"{f'{name}: ' if name else ''}simulated{', d → ∞' if limit else ''}"
    return Points(rows[x], rows["limit" if limit else "mean"], rows["error"], label, shade, mark)


def overlay(
    pair: Iterable[Any], x: str, y: str, name: str, shade: str | None = None, *, limit: bool = False
) -> list[Layer]:
    """A theory's curve and the simulated points on it (two tables), in the colour of the classifier `name` or as given."""
    theory, simulated = pair
    line, ink, mark = theory.sort_values(x), shade or colour(name), "circle" if shade else marker(name)
    curve = Line(line[x], line[y], f"{name}: theory" if name else "theory", ink)
    return [curve, spots(simulated, x, y, name, ink, mark, limit=limit)]


def by_model(
    theory: Any, simulated: Any, x: str, y: str, models: Iterable[str] = MODELS, limit: bool = False
) -> list[Layer]:
    """Theory and simulation of several classifiers."""
    parts = {m: [select(table, {"model": m}) for table in (theory, simulated)] for m in models}
    return [layer for model, pair in parts.items() for layer in overlay(pair, x, y, model, limit=limit)]


def estimates(
    found: Mapping[Any, ValueWithError], name: str, shade: str, mark: str = "circle", shift: float = 0.0
) -> Points:
    """Values with their errors, by place, as points."""
    values, errors = [v.value for v in found.values()], [v.error for v in found.values()]
    return Points(np.array(list(found), float) + shift, values, errors, name, shade, mark)


def curve(found: Mapping[Any, ValueWithError], name: str, shade: str, dash: str = "solid") -> Line:
    """Values by place as a line, without their errors."""
    return Line(sorted(found), [found[place].value for place in sorted(found)], name, shade, dash)


def level(value: float, ends: Sequence[float], name: str, shade: str, dash: str = "dash") -> Line:
    """A horizontal line between two ends."""
    return Line([float(min(ends)), float(max(ends))], [float(value)] * 2, name, shade, dash)


def first_crossing(x: Any, gap: Any) -> float:
    """Where a gap that is given at points x first falls to zero, by linear interpolation; nan where it does not."""
    x, gap = np.asarray(x, float), np.asarray(gap, float)
    at = np.flatnonzero((gap[:-1] > 0) & (gap[1:] <= 0))
    if not len(at):
        return float("nan")
    i = at[0]
    return float(x[i] + (x[i + 1] - x[i]) * gap[i] / (gap[i] - gap[i + 1]))

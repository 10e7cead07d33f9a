"""What a figure shows, apart from how it is drawn: panels, their layers, and layers made from tables of numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from .._core.averages import extrapolate, summarise
from .style import REFERENCE, colour, label, marker

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Line:
    """A curve (theory, as a rule)."""

    x: Any
    y: Any
    label: str = ""
    colour: str = "#333333"
    dash: str = "solid"


@dataclass(frozen=True)
class Points:
    """Measured points with their standard errors."""

    x: Any
    y: Any
    error: Any = None
    label: str = ""
    colour: str = "#333333"
    marker: str = "circle"


@dataclass(frozen=True)
class Histogram:
    """Densities over bins, as filled steps."""

    edges: Any
    density: Any
    label: str = ""
    colour: str = "#999999"


@dataclass(frozen=True)
class Heat:
    """A map."""

    x: Any
    y: Any
    z: Any
    label: str = ""
    diverging: bool = False
    log: bool = False
    limits: tuple[float, float] | None = None

    def ends(self) -> tuple[float, float]:
        """Values at the ends of the colours."""
        if self.limits:
            return self.limits
        z = np.asarray(self.z, float)
        low, high = float(np.nanmin(z)), float(np.nanmax(z))
        if self.diverging:
            high = max(abs(low), abs(high))
            low = -high
        return low, high


@dataclass(frozen=True)
class Rule:
    """A straight line across the panel."""

    axis: str
    value: float
    label: str = ""
    colour: str = REFERENCE


Layer = Line | Points | Histogram | Heat | Rule


@dataclass(frozen=True)
class Panel:
    """One pair of axes with what is drawn on them.

    Attributes
    ----------
    title, xlabel, ylabel : str
        Words.
    layers : sequence of Layer
        In the order of drawing.
    logx, logy : bool
        Whether an axis is logarithmic.
    xlim, ylim : tuple of float or None
        Ends of an axis; None leaves them to the data.
    names : sequence of str
        What stands at x = 1, 2, ... where the horizontal axis has names instead of numbers. Points of one name may lie a
        little to its left and right.
    """

    title: str
    xlabel: str
    ylabel: str
    layers: Sequence[Layer] = field(default_factory=tuple)
    logx: bool = False
    logy: bool = False
    xlim: tuple[float, float] | None = None
    ylim: tuple[float, float] | None = None
    names: Sequence[str] = ()

    def __post_init__(self) -> None:
        if self.names and self.xlim is None:
            object.__setattr__(self, "xlim", (0.5, len(self.names) + 0.5))

    @property
    def counts(self) -> bool:
        """Whether all values along the horizontal axis are whole numbers."""
        values = self._along()
        return not self.logx and not self.names and values.size > 0 and bool((values == np.round(values)).all())

    @property
    def span(self) -> float:
        """From the least to the largest value along the horizontal axis."""
        return float(np.ptp(self._along()))

    def middle(self, axis: str) -> float | None:
        """The median of the layers' values along "x" or "y"; None where there are none."""
        values = self._along(axis)
        return float(np.median(values)) if values.size else None

    def _along(self, axis: str = "x") -> np.ndarray:
        values = [np.ravel(np.asarray(getattr(layer, axis), float)) for layer in self.layers if hasattr(layer, axis)]
        return np.concatenate([v[np.isfinite(v)] for v in values] or [np.empty(0)])


def with_names(panel: Panel) -> list[tuple[Layer, str]]:
    """The layers with their names in the legend, and after them signs that belong to no layer.

    Where several names have theory and simulation ("attention: theory", "attention: simulated"), each name is listed once, and
    so are the signs for theory and simulation.
    """
    labels = ["" if isinstance(layer, Heat) else layer.label for layer in panel.layers]
    parts = [label.rpartition(": ") for label in labels]
    lines = {name for name, _, how in parts if how == "theory" and name}
    runs = {name for name, _, how in parts if how.startswith("simulated") and name in lines}
    if len(runs) < 2:
        return list(zip(panel.layers, labels))
    named: list[tuple[Layer, str]] = []
    nothing = [np.nan], [np.nan]
    signs: dict[str, Line | Points] = {"theory": Line(*nothing, "theory", REFERENCE)}
    for layer, text, (name, _, how) in zip(panel.layers, labels, parts):
        if name in runs and how.startswith(("theory", "simulated")):
            if isinstance(layer, Line):
                signs.setdefault(how, Line(*nothing, how, REFERENCE, layer.dash))
            else:
                signs.setdefault(how, Points(*nothing, None, how, REFERENCE))
            text = name if how == "theory" else ""
        named.append((layer, text))
    return [*named, *((sign, sign.label) for sign in signs.values())]


def curves(table: pd.DataFrame, x: str, y: str, by: str, *, suffix: str = "") -> list[Line]:
    """A line for each value of a column."""
    lines = []
    for i, (name, part) in enumerate(table.groupby(by, sort=False)):
        part = part.sort_values(x)
        title = label(name) + suffix
        lines.append(Line(part[x].to_numpy(float), part[y].to_numpy(float), title, colour(name, i)))
    return lines


def measured(table: pd.DataFrame, x: str, y: str, by: str) -> list[Points]:
    """Means and standard errors over trials, for each value of a column."""
    layers = []
    for i, (name, part) in enumerate(table.groupby(by, sort=False)):
        means = summarise(part, x, y).sort_values(x)
        at, mean, error = (means[column].to_numpy(float) for column in (x, "mean", "error"))
        layers.append(Points(at, mean, error, label(name), colour(name, i), marker(name)))
    return layers


def grid_of(table: pd.DataFrame, x: str, y: str, z: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Axes and matrix of a map."""
    matrix = table.pivot_table(index=y, columns=x, values=z, sort=True)
    return matrix.columns.to_numpy(float), matrix.index.to_numpy(float), matrix.to_numpy(float)


def largest(table: Any) -> Any:
    """The rows of the largest dimension."""
    return table[table["d"] == table["d"].max()]


def spots(table: Any, x: str, y: str, name: str, shade: str, mark: str = "circle", *, limit: bool = False) -> Points:
    """Simulated points: means at the largest dimension or, with `limit`, extrapolated to d → ∞."""
    rows = extrapolate(table, [x], y) if limit else summarise(largest(table), x, y)
    title = f"{f'{name}: ' if name else ''}simulated{', d → ∞' if limit else ''}"
    return Points(rows[x], rows["limit" if limit else "mean"], rows["error"], title, shade, mark)


def overlay(
    pair: Iterable[Any], x: str, y: str, name: str, shade: str | None = None, *, limit: bool = False
) -> list[Layer]:
    """A theory's curve and the simulated points on it (two tables), in the colour of the classifier `name` or as given."""
    theory, simulated = pair
    line, ink, mark = theory.sort_values(x), shade or colour(name), "circle" if shade else marker(name)
    drawn = Line(line[x], line[y], f"{name}: theory" if name else "theory", ink)
    return [drawn, spots(simulated, x, y, name, ink, mark, limit=limit)]


def by_model(theory: Any, simulated: Any, x: str, y: str, limit: bool = False) -> list[Layer]:
    """Theory and simulation of every classifier that the theory has."""
    parts = {m: [table[table["model"] == m] for table in (theory, simulated)] for m in theory["model"].unique()}
    return [layer for model, pair in parts.items() for layer in overlay(pair, x, y, model, limit=limit)]


def estimates(found: Mapping[Any, Any], name: str, shade: str, mark: str = "circle") -> Points:
    """Values with their errors (`ValueWithError`), by place, as points."""
    values, errors = [v.value for v in found.values()], [v.error for v in found.values()]
    return Points(np.array(list(found), float), values, errors, name, shade, mark)


def curve(found: Mapping[Any, Any], name: str, shade: str, dash: str = "solid") -> Line:
    """Values (`ValueWithError`) by place as a line, without their errors."""
    return Line(sorted(found), [found[place].value for place in sorted(found)], name, shade, dash)


def level(value: float, ends: Sequence[float], name: str, shade: str, dash: str = "dash") -> Line:
    """A horizontal line between two ends."""
    return Line([float(min(ends)), float(max(ends))], [float(value)] * 2, name, shade, dash)

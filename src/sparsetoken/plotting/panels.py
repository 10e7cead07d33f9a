"""What a figure shows, apart from how it is drawn: panels with layers, rendered by Matplotlib and by Plotly alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from .._core.averages import summarise
from .style import REFERENCE, colour, label, marker


@dataclass(frozen=True)
class Line:
    """A curve (theory, as a rule)."""

    x: Any
    y: Any
    label: str = ""
    colour: str = "#333333"
    dash: str = "solid"  # solid, dash, dot, dashdot


@dataclass(frozen=True)
class Points:
    """Measured points with their standard errors."""

    x: Any
    y: Any
    error: Any = None
    label: str = ""
    colour: str = "#333333"
    marker: str = "circle"  # circle, square, triangle-up, diamond, star, x


@dataclass(frozen=True)
class Histogram:
    """Densities over bins, as filled steps."""

    edges: Any
    density: Any
    label: str = ""
    colour: str = "#999999"


@dataclass(frozen=True)
class Heat:
    """A map z[row of y, column of x]."""

    x: Any
    y: Any
    z: Any
    label: str = ""
    diverging: bool = False  # around zero, with symmetric limits
    log: bool = False  # colours by the logarithm of z
    limits: tuple[float, float] | None = None


@dataclass(frozen=True)
class Rule:
    """A straight line across the panel."""

    axis: str  # "x": vertical at that x, "y": horizontal at that y
    value: float
    label: str = ""
    colour: str = REFERENCE


Layer = Line | Points | Histogram | Heat | Rule


@dataclass(frozen=True)
class Panel:
    """One pair of axes with what is drawn on them, in order."""

    title: str
    xlabel: str
    ylabel: str
    layers: Sequence[Layer] = field(default_factory=tuple)
    logx: bool = False
    logy: bool = False
    xlim: tuple[float, float] | None = None
    ylim: tuple[float, float] | None = None


def curves(table: pd.DataFrame, x: str, y: str, by: str, *, suffix: str = "", dash: str = "solid") -> list[Line]:
    """A line for each value of `by`, in order of x."""
    lines = []
    for i, (name, part) in enumerate(table.groupby(by, sort=False)):
        part = part.sort_values(x)
        words = label(name) + suffix
        lines.append(Line(part[x].to_numpy(float), part[y].to_numpy(float), words, colour(name, i), dash))
    return lines


def measured(table: pd.DataFrame, x: str, y: str, by: str, *, suffix: str = "") -> list[Points]:
    """Means and standard errors over trials, for each value of `by`."""
    layers = []
    for i, (name, part) in enumerate(table.groupby(by, sort=False)):
        means = summarise(part, x, y).sort_values(x)
        words = label(name) + suffix
        layers.append(
            Points(
                means[x].to_numpy(float),
                means["mean"].to_numpy(float),
                means["error"].to_numpy(float),
                words,
                colour(name, i),
                marker(name),
            )
        )
    return layers


def grid_of(table: pd.DataFrame, x: str, y: str, z: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Axes and matrix of a map, ready for `Heat`."""
    matrix = table.pivot_table(index=y, columns=x, values=z, sort=True)
    return matrix.columns.to_numpy(float), matrix.index.to_numpy(float), matrix.to_numpy(float)

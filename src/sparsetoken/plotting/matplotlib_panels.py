"""Panels drawn by Matplotlib, for PNG and PDF. (`plotly_panels` has them for the web page.)"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from .panels import Heat, Histogram, Line, Panel, Points, Rule, with_names
from .show import LEGEND_FONT, LEGEND_LINE, new_figure, picture_bytes, write_picture
from .style import in_lines, plain_number, round_numbers, with_indices

LETTER = 0.062  # inches of a letter of the legend, on average
_DASHES = {"solid": "-", "dash": "--", "dot": ":", "dashdot": "-."}
_MARKERS = {"circle": "o", "square": "s", "triangle-up": "^", "diamond": "D", "star": "*", "x": "X"}


def layout(count: int, width: float | None = None) -> tuple[int, int]:
    """Rows and columns for that many panels, on a page of that width in inches."""
    columns = 2 if count in (2, 4) else min(count, 3)
    if width is not None:
        columns = max(1, min(columns, int(width / 2.4)))  # the labels of a narrower panel do not fit
    return -(-count // columns), columns


def matplotlib_figure(panels: Sequence[Panel], width: float | None = None) -> Any:
    """A figure of Matplotlib's, without a window, as wide as its panels need or of that width in inches."""
    import matplotlib as mpl

    rows, columns = layout(len(panels), width)
    size, font = (5.1, 10) if width is None else (width / columns, 8)
    style: Any = {"font.size": font, "axes.spines.top": False, "axes.spines.right": False, "axes.titlesize": font + 1}
    with mpl.rc_context(style):
        figure = new_figure((size * columns, 0.8 * size * rows))
        for place, panel in enumerate(panels):
            letter = f"({chr(ord('a') + place)}) " if len(panels) > 1 else ""
            title = in_lines(letter + panel.title, max(20, int(size / LETTER * 0.72)))
            _draw_matplotlib(figure, figure.add_subplot(rows, columns, place + 1), replace(panel, title=title))
        _add_legend(figure)
    return figure


def thumbnail(panel: Panel) -> bytes:
    """A small picture of a panel, without words, as PNG."""
    figure = new_figure((1.9, 1.2))
    axes = figure.add_subplot()
    _draw_matplotlib(figure, axes, replace(panel, title="", xlabel="", ylabel="", names=()))
    axes.tick_params(which="both", length=0, labelbottom=False, labelleft=False)
    for other in figure.axes[1:]:  # the bar of a map
        other.remove()
    return picture_bytes(figure, ".png")


def _add_legend(figure: Any) -> None:
    """One legend for all panels, below them; the figure grows by its height."""
    entries: dict[str, Any] = {}
    for axes in figure.axes:
        for handle, label in zip(*axes.get_legend_handles_labels()):
            entries.setdefault(label, handle)
    if not entries:
        return
    width = LETTER * max(map(len, entries)) + 0.6  # inches of an entry with its sign
    across = max(1, min(len(entries), int(figure.get_figwidth() / width)))
    lines = -(-len(entries) // across)
    figure.set_figheight(figure.get_figheight() + (LEGEND_LINE * lines + 8) / 72)
    figure.legend(
        entries.values(), entries.keys(), loc="outside lower center", ncols=across, fontsize=LEGEND_FONT, frameon=False
    )


def _plain_ticks(axis: Any, low: float, high: float) -> None:
    """Labels in plain numbers on a logarithmic axis: round numbers where it spans little, else powers of ten."""
    from matplotlib import ticker

    axis.set_major_locator(ticker.FixedLocator([v for v in round_numbers(low, high) if low <= v <= high]))
    axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: plain_number(value)))
    axis.set_minor_formatter(ticker.NullFormatter())


def _lowered(text: str) -> str:
    return with_indices(text, r"$_\mathrm{", "}$")


def _edges(centres: Any, log: bool) -> np.ndarray:
    """Cell borders half way between the centres, on the axis's own scale."""
    c = np.log(centres) if log else np.asarray(centres, float)
    middle = 0.5 * (c[1:] + c[:-1])
    edges = np.concatenate([[2 * c[0] - middle[0]], middle, [2 * c[-1] - middle[-1]]])
    return np.exp(edges) if log else edges


def _draw_matplotlib(figure: Any, axes: Any, panel: Panel) -> None:
    from matplotlib import colors as mpl_colors
    from matplotlib import ticker

    axes.set(title=_lowered(panel.title), xlabel=_lowered(panel.xlabel), ylabel=_lowered(panel.ylabel))
    axes.set(xscale="log" if panel.logx else "linear", yscale="log" if panel.logy else "linear")
    if not any(isinstance(layer, Heat) for layer in panel.layers):
        axes.grid(alpha=0.25, linewidth=0.6)
    for layer, name in with_names(panel):
        label = _lowered(layer.label if isinstance(layer, Heat) else name) or None
        if isinstance(layer, Line):
            axes.plot(layer.x, layer.y, _DASHES[layer.dash], color=layer.colour, label=label, linewidth=1.8)
        elif isinstance(layer, Points):
            star = layer.marker == "star"
            look: Any = {"markersize": 14 if star else 5, "markeredgecolor": "#111111" if star else "white"}
            look |= {"fmt": _MARKERS[layer.marker], "color": layer.colour, "markeredgewidth": 0.6, "linewidth": 1.2}
            axes.errorbar(layer.x, layer.y, yerr=layer.error, label=label, capsize=2, zorder=3, **look)
        elif isinstance(layer, Histogram):
            axes.stairs(layer.density, layer.edges, fill=True, color=layer.colour, alpha=0.35, label=label)
        elif isinstance(layer, Heat):
            low, high = layer.ends()
            colours = "RdBu_r" if layer.diverging else "viridis"
            norm = mpl_colors.LogNorm(low, high) if layer.log else mpl_colors.Normalize(low, high)
            x, y = _edges(layer.x, panel.logx), _edges(layer.y, panel.logy)
            bar = figure.colorbar(axes.pcolormesh(x, y, layer.z, cmap=colours, norm=norm), ax=axes, label=label)
            if layer.log:
                _plain_ticks(bar.ax.yaxis, low, high)
        elif isinstance(layer, Rule):
            draw = axes.axvline if layer.axis == "x" else axes.axhline
            draw(layer.value, color=layer.colour, linestyle=":", linewidth=1.4, label=label)
    for axis, limits, log in ((axes.xaxis, panel.xlim, panel.logx), (axes.yaxis, panel.ylim, panel.logy)):
        if limits:
            axes.set(**{f"{axis.axis_name}lim": limits})
        if log:
            _plain_ticks(axis, *axis.get_view_interval())
    if panel.names:
        lines = [in_lines(name) for name in panel.names]
        # More letters leave no room between the names: they are turned.
        crowded = len(lines) * max(len(line) for name in lines for line in name.split("\n")) > 65
        turned: Any = {"rotation": 35, "ha": "right", "rotation_mode": "anchor"} if crowded else {}
        if crowded:  # the second line of a turned name would lie on its neighbour
            lines = [in_lines(name, 24) for name in panel.names]
        axes.set_xticks(range(1, len(lines) + 1), lines, fontsize=8, **turned)
        axes.tick_params(axis="x", length=0)
    elif panel.counts:
        axes.xaxis.set_major_locator(ticker.MaxNLocator(integer=True))


def save_figure(panels: Sequence[Panel], stem: Path, width: float | None = None) -> list[Path]:
    """Write a figure as PNG and PDF."""
    figure = matplotlib_figure(panels, width)
    paths = [stem.with_name(f"{stem.name}{ending}") for ending in (".png", ".pdf")]
    for path in paths:
        write_picture(path, figure, make_folder=True)
        figure.set_layout_engine("none")  # the second file keeps the first one's layout, which is half the work
    return paths

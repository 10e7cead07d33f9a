"""Panels drawn twice: by Matplotlib for PNG and PDF, by Plotly for the interactive report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .panels import Heat, Histogram, Line, Panel, Points, Rule
from .pictures import write_picture
from .show import LEGEND_FONT, LEGEND_LINE

COLUMNS = 3
LETTER = 0.062  # inches of a letter of the legend, on average
_DASHES = {"solid": "-", "dash": "--", "dot": ":", "dashdot": "-."}
_MARKERS = {"circle": "o", "square": "s", "triangle-up": "^", "diamond": "D", "star": "*", "x": "X"}


def layout(count: int) -> tuple[int, int]:
    """Rows and columns for that many panels."""
    columns = 2 if count in (2, 4) else min(count, COLUMNS)
    return -(-count // columns), columns


def matplotlib_figure(panels: Sequence[Panel]) -> Any:
    """A figure of Matplotlib's, without a window.

    Parameters
    ----------
    panels : sequence of Panel
        What it shows.

    Returns
    -------
    matplotlib.figure.Figure
        Panels side by side, and one legend for all of them below, where it covers no data.
    """
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows, columns = layout(len(panels))
    style: Any = {"font.size": 10, "axes.spines.top": False, "axes.spines.right": False, "axes.titlesize": 11}
    with mpl.rc_context(style):
        figure = Figure(figsize=(5.1 * columns, 4.1 * rows), layout="constrained")
        FigureCanvasAgg(figure)
        for place, panel in enumerate(panels):
            _draw_matplotlib(figure, figure.add_subplot(rows, columns, place + 1), panel)
        _add_legend(figure, columns)
    return figure


def _add_legend(figure: Any, columns: int) -> None:
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


def _plain_ticks(axis: Any, many: bool) -> None:
    """Labels such as 0.05 instead of powers, on logarithmic axes that span little."""
    from matplotlib import ticker

    axis.set_major_locator(ticker.LogLocator(subs=(1.0, 2.0, 3.0, 5.0, 7.0) if many else (1.0, 2.0, 5.0)))
    axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(ticker.NullFormatter())


def _edges(centres: Any, log: bool) -> np.ndarray:
    """Cell borders half way between the centres, on the axis's own scale."""
    c = np.log(centres) if log else np.asarray(centres, float)
    middle = 0.5 * (c[1:] + c[:-1])
    edges = np.concatenate([[2 * c[0] - middle[0]], middle, [2 * c[-1] - middle[-1]]])
    return np.exp(edges) if log else edges


def _draw_matplotlib(figure: Any, axes: Any, panel: Panel) -> None:
    from matplotlib import colors as mpl_colors

    axes.set(title=panel.title, xlabel=panel.xlabel, ylabel=panel.ylabel)
    if panel.logx:
        axes.set_xscale("log")
    if panel.logy:
        axes.set_yscale("log")
    has_heat = any(isinstance(layer, Heat) for layer in panel.layers)
    if not has_heat:
        axes.grid(alpha=0.25, linewidth=0.6)
    for layer in panel.layers:
        label = getattr(layer, "label", "") or None
        if isinstance(layer, Line):
            axes.plot(layer.x, layer.y, _DASHES[layer.dash], color=layer.colour, label=label, linewidth=1.8)
        elif isinstance(layer, Points):
            star = layer.marker == "star"
            axes.errorbar(
                layer.x,
                layer.y,
                yerr=layer.error,
                fmt=_MARKERS[layer.marker],
                color=layer.colour,
                label=label,
                markersize=14 if star else 5,
                capsize=2,
                linewidth=1.2,
                zorder=3,
                markeredgecolor="#111111" if star else "white",
                markeredgewidth=0.6,
            )
        elif isinstance(layer, Histogram):
            axes.stairs(layer.density, layer.edges, fill=True, color=layer.colour, alpha=0.35, label=label)
        elif isinstance(layer, Heat):
            low, high = _limits(layer)
            colours = "RdBu_r" if layer.diverging else "viridis"
            norm = mpl_colors.LogNorm(low, high) if layer.log else mpl_colors.Normalize(low, high)
            x, y = _edges(layer.x, panel.logx), _edges(layer.y, panel.logy)
            bar = figure.colorbar(axes.pcolormesh(x, y, layer.z, cmap=colours, norm=norm), ax=axes, label=layer.label)
            if layer.log:
                _plain_ticks(bar.ax.yaxis, many=high / low < 8)
        elif isinstance(layer, Rule):
            draw = axes.axvline if layer.axis == "x" else axes.axhline
            draw(layer.value, color=layer.colour, linestyle=":", linewidth=1.4, label=label)
    for name in ("x", "y"):
        low, high = getattr(axes, f"get_{name}lim")()
        if getattr(panel, f"log{name}") and high / low < 100:
            _plain_ticks(getattr(axes, f"{name}axis"), many=high / low < 8)
    if panel.xlim:
        axes.set_xlim(panel.xlim)
    if panel.ylim:
        axes.set_ylim(panel.ylim)


def _limits(layer: Heat) -> tuple[float, float]:
    if layer.limits:
        return layer.limits
    z = np.asarray(layer.z, float)
    low, high = float(np.nanmin(z)), float(np.nanmax(z))
    if layer.diverging:
        high = max(abs(low), abs(high))
        low = -high
    return low, high


def save_figure(panels: Sequence[Panel], stem: Path) -> list[Path]:
    """Write a figure as PNG and PDF.

    Parameters
    ----------
    panels : sequence of Panel
        What it shows.
    stem : Path
        The files' name without its ending; a missing folder is made.

    Returns
    -------
    list of Path
        The two files.
    """
    figure = matplotlib_figure(panels)
    paths = [stem.with_name(f"{stem.name}{ending}") for ending in (".png", ".pdf")]
    for path in paths:
        write_picture(path, figure, make_folder=True)
    return paths


def plotly_figure(panels: Sequence[Panel]) -> Any:
    """The same figure for the web page, with values under the pointer and one legend.

    Parameters
    ----------
    panels : sequence of Panel
        What it shows.

    Returns
    -------
    plotly.graph_objects.Figure
        The figure.
    """
    from plotly.subplots import make_subplots

    rows, columns = layout(len(panels))
    maps = any(isinstance(layer, Heat) for panel in panels for layer in panel.layers)  # colour bars need room
    figure = make_subplots(
        rows=rows,
        cols=columns,
        subplot_titles=[panel.title for panel in panels],
        horizontal_spacing=(0.34 if maps else 0.22) / columns,
        vertical_spacing=0.32 / rows,
    )
    shown: set[str] = set()
    for place, panel in enumerate(panels):
        row, column = place // columns + 1, place % columns + 1
        for layer in panel.layers:
            _draw_plotly(figure, layer, row, column, shown)
        axes = {"row": row, "col": column}
        figure.update_xaxes(title_text=panel.xlabel, **_scale(panel, "x"), **axes)
        figure.update_yaxes(title_text=panel.ylabel, **_scale(panel, "y"), **axes)
        if panel.xlim:
            figure.update_xaxes(range=_range(panel.xlim, panel.logx), **axes)
        if panel.ylim:
            figure.update_yaxes(range=_range(panel.ylim, panel.logy), **axes)
    figure.update_layout(
        template="plotly_white",
        height=430 * rows + 90,
        margin={"l": 70, "r": 20, "t": 50, "b": 40},
        legend={"orientation": "h", "yanchor": "top", "y": -0.16 / rows - 0.02, "x": 0},
        hovermode="closest",
        font={"family": "system-ui, sans-serif", "size": 13},
    )
    return figure


def _scale(panel: Panel, axis: str) -> dict[str, Any]:
    """Linear, or logarithmic with labels at powers of ten where these are at least two."""
    if not getattr(panel, f"log{axis}"):
        return {"type": "linear"}
    values = [np.asarray(getattr(layer, axis), float) for layer in panel.layers if hasattr(layer, axis)]
    positive = np.concatenate([v[np.isfinite(v) & (v > 0)] for v in values] or [np.ones(1)])
    low, high = float(positive.min()), float(positive.max())
    if high / low >= 100:
        return {"type": "log", "exponentformat": "power", "dtick": 1}
    ticks = _round_numbers(low, high, many=high / low < 8)
    return {"type": "log", "tickvals": ticks, "ticktext": [f"{v:g}" for v in ticks]}


def _round_numbers(low: float, high: float, many: bool) -> list[float]:
    """Round numbers from a little below `low` to a little above `high`, for logarithmic scales."""
    steps = (1, 2, 3, 5, 7) if many else (1, 2, 5)
    decades = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    return [m * 10.0**e for e in decades for m in steps if 0.8 * low <= m * 10.0**e <= 1.25 * high]


def _range(limits: tuple[float, float], log: bool) -> list[float]:
    return list(np.log10(limits)) if log else list(limits)


def _draw_plotly(figure: Any, layer: Any, row: int, column: int, shown: set[str]) -> None:
    import plotly.graph_objects as go

    label = getattr(layer, "label", "")
    group = {"name": label, "legendgroup": label, "showlegend": bool(label) and label not in shown}
    if label and not isinstance(layer, Heat):
        shown.add(label)
    place = {"row": row, "col": column}
    if isinstance(layer, Line):
        line = {"color": layer.colour, "dash": layer.dash, "width": 2}
        figure.add_trace(go.Scatter(x=_list(layer.x), y=_list(layer.y), mode="lines", line=line, **group), **place)
    elif isinstance(layer, Points):
        error = (
            None if layer.error is None else {"array": _list(np.nan_to_num(layer.error)), "thickness": 1.2, "width": 3}
        )
        star = layer.marker == "star"
        size = 15 if star else 7
        marker = {
            "color": layer.colour,
            "symbol": layer.marker,
            "size": size,
            "line": {"color": "#111111" if star else "white", "width": 0.7},
        }
        figure.add_trace(
            go.Scatter(x=_list(layer.x), y=_list(layer.y), error_y=error, mode="markers", marker=marker, **group),
            **place,
        )
    elif isinstance(layer, Histogram):
        edges, density = np.repeat(layer.edges, 2)[1:-1], np.repeat(layer.density, 2)
        figure.add_trace(
            go.Scatter(
                x=_list(edges),
                y=_list(density),
                fill="tozeroy",
                mode="none",
                fillcolor=layer.colour,
                opacity=0.5,
                **group,
            ),
            **place,
        )
    elif isinstance(layer, Heat):
        low, high = _limits(layer)
        axis = figure.get_subplot(row, column)
        low_y, high_y = axis.yaxis.domain
        bar = {
            "title": {"text": layer.label, "side": "top", "font": {"size": 11}},
            "thickness": 12,
            "len": (high_y - low_y) * 1.02,
            "x": axis.xaxis.domain[1] + 0.005,
            "y": (low_y + high_y) / 2,
        }
        colours = "RdBu_r" if layer.diverging else "Viridis"
        matrix = np.asarray(layer.z, float)
        if layer.log:  # the page shows logarithms in plain numbers
            matrix, low, high = np.log10(matrix), float(np.log10(low)), float(np.log10(high))
            ticks = _round_numbers(10**low, 10**high, many=high - low < 0.9)
            bar |= {"tickvals": _list(np.log10(ticks)), "ticktext": [f"{v:g}" for v in ticks]}
        z = [_list(line) for line in matrix]
        figure.add_trace(
            go.Heatmap(x=_list(layer.x), y=_list(layer.y), z=z, zmin=low, zmax=high, colorscale=colours, colorbar=bar),
            **place,
        )
    elif isinstance(layer, Rule):
        draw = figure.add_vline if layer.axis == "x" else figure.add_hline
        draw(layer.value, line_dash="dot", line_color=layer.colour, line_width=1.5, **place)
        line = {"color": layer.colour, "dash": "dot", "width": 1.5}
        figure.add_trace(go.Scatter(x=[None], y=[None], mode="lines", line=line, **group), **place)  # for the legend


def _list(values: Any) -> list[float]:
    """Plain floats: keeps the page readable without binary blocks."""
    return [float(v) for v in np.asarray(values, float)]

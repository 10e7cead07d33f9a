"""How results are displayed: a line as text, a table in a notebook, a picture on request or as a file."""

from __future__ import annotations

import html
import io
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .._core.files import write_bytes

MOST_ROWS = 20  # of a table in a notebook; `frame()` has them all


class Shown:
    """Base of results with a display; a subclass defines a short `__repr__`, `frame` and `plot`."""

    def frame(self) -> Any:
        """The result as a pandas table."""
        raise NotImplementedError

    def plot(self, ax: Any = None) -> Any:
        """Draw the result on the Matplotlib axes given, or on new ones, and return them."""
        raise NotImplementedError

    def _shown_frame(self) -> Any:
        """The table that a notebook shows."""
        return self.frame()

    def _repr_html_(self) -> str:
        table = self._shown_frame()
        counted = bool(table.index.equals(type(table)(index=range(len(table))).index))  # the index only counts the rows
        body = table.head(MOST_ROWS).to_html(index=not counted, border=0, na_rep="", float_format="{:.4g}".format)
        rest = f"<p>{len(table) - MOST_ROWS} more rows in frame()</p>" if len(table) > MOST_ROWS else ""
        return f"<div><p>{html.escape(repr(self))}</p>{body}{rest}</div>"


def new_figure(size: tuple[float, float]) -> Any:
    """An empty figure of that size in inches, of no window and no global state."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def axes_for(ax: Any = None, size: tuple[float, float] = (6.0, 4.0)) -> Any:
    """The axes given, or those of a new figure."""
    return new_figure(size).add_subplot() if ax is None else ax


def draw_shares(ax: Any, names: list[str], values: Iterable[float], errors: Iterable[float], colours: Any) -> Any:
    """Points with two standard errors, one line per name, the first on top."""
    places = range(len(names))[::-1]
    listed = [colours] * len(names) if isinstance(colours, str) else list(colours)
    points = [(v, 0.0 if math.isnan(e) else e) for v, e in zip(values, errors, strict=True)]
    top = max((v + 2 * e for v, e in points if math.isfinite(v)), default=0.0)
    for place, (value, error), colour in zip(places, points, listed, strict=True):
        ax.errorbar([value], [place], xerr=[2 * error], fmt="o", capsize=3, color=colour, clip_on=False)
        text = f"{value:.4g}" if value >= 1e-6 else "0"
        side = "left" if value < 0.05 * top else "center"  # at the edge, words in the middle would cross the axis
        ax.annotate(text, (value, place), xytext=(0, 7), textcoords="offset points", ha=side, fontsize=8)
    ax.set_yticks(list(places), names)
    ax.set_ylim(-0.6, len(names) - 0.3)
    ax.set_xlim(0, 1.1 * top if top > 0 else 1.0)
    ax.grid(axis="x", alpha=0.3)
    return ax


LEGEND_FONT = 8  # points
LEGEND_LINE = 1.6 * LEGEND_FONT  # points from one line of a legend to the next


def legend_above(ax: Any) -> None:
    """A legend on top of the axes, where it covers no data, below the title if there is one."""
    handles, labels = ax.get_legend_handles_labels()
    unique = dict(zip(labels, handles))
    if not unique:
        return
    columns = 1 if max(map(len, unique)) > 40 else 2
    ax.legend(
        unique.values(), unique.keys(), frameon=False, fontsize=LEGEND_FONT, ncols=columns, loc="lower left",
        bbox_to_anchor=(0, 1), borderaxespad=0.2,
    )  # fmt: skip
    if ax.get_title():
        ax.set_title(ax.get_title(), pad=6 + LEGEND_LINE * -(-len(unique) // columns))


ENDINGS = (".png", ".pdf", ".svg")  # give them to `check_writable` before the work begins


def picture_bytes(figure: Any, ending: str) -> bytes:
    """The figure in the format of a file's ending, the same bytes for the same figure (no dates, no random names)."""
    import matplotlib

    buffer = io.BytesIO()
    metadata = {".pdf": {"CreationDate": None}, ".svg": {"Date": None}}.get(ending.lower())
    with matplotlib.rc_context({"svg.hashsalt": "sparsetoken"}):
        figure.savefig(buffer, format=ending.lstrip(".").lower(), dpi=150, metadata=metadata)
    return buffer.getvalue()


def write_picture(path: Path, figure: Any, *, make_folder: bool = False) -> None:
    """Write the figure in the format that the file's ending names."""
    if path.suffix.lower() not in ENDINGS:
        raise ValueError(f"{path.name} must end in {', '.join(ENDINGS)}")
    write_bytes(path, picture_bytes(figure, path.suffix), make_folder=make_folder)

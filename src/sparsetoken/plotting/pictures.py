"""Matplotlib figures as files: checked before the work, complete or not at all."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from .._core.files import write_bytes

ENDINGS = (".png", ".pdf", ".svg")  # give them to `check_writable` before the work begins
RESOLUTION = 150  # dots per inch of a PNG


def picture_bytes(figure: Any, ending: str) -> bytes:
    """The figure in the format of a file's ending, the same bytes for the same figure (no dates, no random names)."""
    import matplotlib

    buffer = io.BytesIO()
    metadata = {".pdf": {"CreationDate": None}, ".svg": {"Date": None}}.get(ending.lower())
    with matplotlib.rc_context({"svg.hashsalt": "sparsetoken"}):
        figure.savefig(buffer, format=ending.lstrip(".").lower(), dpi=RESOLUTION, metadata=metadata)
    return buffer.getvalue()


def write_picture(path: Path, figure: Any, *, make_folder: bool = False) -> None:
    """Write the figure in the format that the file's ending names.

    Parameters
    ----------
    path : Path
        Where the picture goes; its ending is one of `ENDINGS`.
    figure : matplotlib.figure.Figure
        What it shows.
    make_folder : bool
        Whether a missing folder is made; otherwise it is an error.

    Raises
    ------
    ValueError
        If the ending is not one of `ENDINGS`.
    """
    if path.suffix.lower() not in ENDINGS:
        raise ValueError(f"{path.name} must end in {', '.join(ENDINGS)}")
    write_bytes(path, picture_bytes(figure, path.suffix), make_folder=make_folder)

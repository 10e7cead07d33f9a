"""Files written in one go: a reader sees the old file or the new one, never half of it."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def check_writable(path: str | Path | None) -> None:
    """Raise ValueError unless a file could be written at `path`, so that it is said before the work and not after it."""
    if path is None:
        return
    path = Path(path)
    if path.is_dir():
        raise ValueError(f"cannot write {path}: it is a folder")
    if not path.parent.is_dir():
        raise ValueError(f"cannot write {path}: the folder {path.parent} does not exist")


def write_bytes(path: str | Path, content: bytes, *, make_folder: bool = False) -> None:
    """Write `content` beside the target and move it into place.

    An interrupted or failed write leaves the old file, or none. The new file has the permissions that any program of the
    user would give it.

    Parameters
    ----------
    path : str or Path
        Where the file goes.
    content : bytes
        What it holds.
    make_folder : bool
        Whether a missing folder is made; otherwise it is an error.

    Raises
    ------
    ValueError
        If the target is a folder, or lies in none.
    OSError
        If the system refuses; the message names the file.
    """
    path = Path(path)
    temporary = None
    try:
        if make_folder:
            path.parent.mkdir(parents=True, exist_ok=True)
        check_writable(path)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, path)
        temporary = None
    except OSError as error:
        raise OSError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        if temporary is not None:
            os.unlink(temporary)

"""Files written atomically: a reader sees the old file or the new one, never half of it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

# Endings of known formats: tables, documents, arrays, models, archives, pictures.
_FORMATS = {
    *(".csv", ".tsv", ".json", ".jsonl", ".parquet", ".feather", ".arrow", ".xlsx", ".xls", ".ods", ".db", ".sqlite"),
    *(".html", ".md", ".toml", ".yaml", ".yml", ".xml", ".py"),
    *(".npz", ".npy", ".h5", ".hdf5", ".mat"),
    *(".skops", ".pkl", ".pickle", ".joblib", ".pt", ".onnx", ".safetensors"),
    *(".gz", ".bz2", ".xz", ".zst", ".zip", ".tar", ".7z"),
    *(".png", ".jpg", ".jpeg", ".gif", ".svg", ".pdf"),
}


def check_writable(path: str | Path | None, *, endings: Sequence[str] = (), make_folder: bool = False) -> None:
    """Check before the work begins whether a file can be written, by a small file beside it, which is removed again."""
    if path is None:
        return
    path = Path(path)
    if endings and path.suffix.lower() not in endings:
        raise ValueError(f"{path.name} must end in {', '.join(endings)}")
    try:
        target = _target(path, make_folder)
        if _is_stream(target):
            return
        handle, probe = tempfile.mkstemp(dir=target.parent, prefix=".sparsetoken-")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(bytes(2**16))  # as much as a small figure or table takes
        finally:
            os.unlink(probe)
    except OSError as error:
        raise OSError(f"cannot write {path}: {error.strerror or error}") from error


def check_ending(path: str | Path | None, *meant: str) -> None:
    """Refuse a file whose ending belongs to another format than it would hold.

    Endings of no particular format (none, `.txt`, `.out` and so on) are allowed, as are devices and pipes.
    """
    if path is None or _is_stream(Path(path)):
        return
    ending = Path(path).suffix.lower()
    if ending in _FORMATS and ending not in meant:
        wanted = " or ".join(filter(None, (", ".join(meant[:-1]), meant[-1])))
        raise ValueError(f"{Path(path).name} must end in {wanted}: {ending} is the ending of another format")


def check_apart(outputs: Iterable[str | Path | None], inputs: Iterable[str | Path | None] = ()) -> None:
    """Refuse to write two outputs into one file, or an output over a file that is read."""
    read = {os.path.realpath(path) for path in inputs if path is not None}
    taken: set[str] = set()
    for path in outputs:
        if path is None:
            continue
        target = os.path.realpath(path)
        if _is_stream(Path(target)):
            continue
        if target in read:
            raise ValueError(f"cannot write {path}: it is one of the files that are read, and would be lost")
        if target in taken:
            raise ValueError(f"cannot write {path} twice: give each output a different file")
        taken.add(target)


def _target(path: Path, make_folder: bool) -> Path:
    """The file behind a link; ValueError or OSError where none can be written."""
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise ValueError(f"cannot write {path}: it is a folder")
    if make_folder:
        target.parent.mkdir(parents=True, exist_ok=True)
    if not target.parent.is_dir():
        raise ValueError(f"cannot write {path}: the folder {path.parent} does not exist")
    if target.exists() and not os.access(target, os.W_OK):
        raise PermissionError("it is write-protected")
    return target


def _is_stream(target: Path) -> bool:
    """Whether the target is a device or a pipe: it is written to and must not be replaced by a file."""
    return target.exists() and not target.is_file()


def write_bytes(path: str | Path, content: bytes, *, make_folder: bool = False) -> None:
    """Write `content` beside the target and move it into place.

    An interrupted or failed write leaves the old file, or none. Devices and pipes are written to directly.
    """
    path = Path(path)
    temporary = None
    try:
        target = _target(path, make_folder)
        if _is_stream(target):
            target.write_bytes(content)
            return
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=".sparsetoken-")
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, target)
        temporary = None
    except OSError as error:
        raise OSError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        if temporary is not None:
            os.unlink(temporary)

"""A folder of files opened as bags on a Dask cluster: which client, what the files hold, whether workers run this version."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from .._core.imports import require
from .._core.workers import ClusterConnection
from .cluster import ClusterBags, in_order
from .reading.array_files import opened_bag
from .reading.folders import BagFiles, check_like_first, holds_tables, name_array

HEADERS = 256  # files whose headers are read by one task


def on_cluster(
    files: BagFiles,
    executor: Any,
    scheduler: str | None,
    key: str | None = None,
    bag: str = "bag_id",
    label: str = "label",
    aside: tuple[str, ...] = ("instance_label",),
) -> ClusterBags:
    """The files as bags on a cluster; only their headers are read, by the workers."""
    connection = None if scheduler is None or executor != "dask" else ClusterConnection(scheduler)
    client = _client(executor, scheduler) if connection is None else connection.client
    if holds_tables(files, (bag, label)):
        raise ValueError(
            f"{files.paths[0]} has a column of ids or labels: on a cluster every file holds one bag, and the labels are a table"
        )
    blocks = [slice(i, i + HEADERS) for i in range(0, len(files.paths), HEADERS)]
    calls = (
        (_headers, tuple(str(path.absolute()) for path in files.paths[block]), key, aside, _version())
        for block in blocks
    )
    found = [header for part in in_order(client, iter(calls)) for header in part]
    _, width, names, _ = found[0]
    for path, (_, own_width, own_names, _) in zip(files.paths, found):
        check_like_first((own_width, own_names), path, (width, names), files.paths[0])
    lengths = np.array([length for length, _, _, _ in found], dtype=np.intp)
    dtype = np.result_type(np.float32, *{own for _, _, _, own in found})
    rows = np.arange(len(lengths))
    return ClusterBags(client, files, rows, lengths, width, dtype, name_array(names), key, aside, None, connection)


def _client(executor: Any, scheduler: str | None) -> Any:
    if not isinstance(executor, str):
        if scheduler is not None:
            raise ValueError("scheduler belongs to executor='dask'; a client knows its own")
        if not (hasattr(executor, "submit") and hasattr(executor, "nthreads")):
            raise ValueError(f"executor must be 'local', 'dask' or a client of Dask's, got {type(executor).__name__}")
        if getattr(executor, "asynchronous", False):
            raise ValueError("executor must be a client that waits (asynchronous=False)")
        return executor
    if executor != "dask":
        raise ValueError(f"executor must be 'local', 'dask' or a client of Dask's, got {executor!r}")
    require("dask")
    from distributed import default_client

    try:
        return default_client()
    except ValueError:
        raise ValueError(
            "executor='dask' needs the scheduler's address, such as scheduler='tcp://127.0.0.1:8786', or an open client"
        ) from None


def _version() -> str:
    from importlib.metadata import version

    return version("sparsetoken")


def _headers(
    paths: tuple[str, ...], key: str | None, aside: tuple[str, ...], version: str
) -> list[tuple[int, int, Any, np.dtype]]:
    """Tokens, features, their names and precision of each file."""
    if _version() != version:
        raise ValueError(
            f"a worker has sparsetoken {_version()}, this process {version}: install the same version there"
        )
    found = []
    for path in paths:
        with opened_bag(Path(path), key, aside) as source:
            found.append((source.shape[0], source.shape[1], source.names, np.dtype(source.working_dtype)))
    return found

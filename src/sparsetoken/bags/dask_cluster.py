"""`ClusterBags`: bags whose tokens stay in their files and are read by the workers of a Dask cluster, in every pass anew."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from .._core.imports import require
from .._core.workers import ClusterConnection, ExecutorError, run_on_worker
from .bags import mean_tokens_of_part
from .reading.folders import BagFiles, Header, check_alike, gather_arrays, header, name_array
from .reading.tables import Reading, UnreadableBag, labels_of
from .sums_per_bag import Combination, Work, places_of, spread_of
from .temporary_files import room, row_blocks

# Tokens that a worker reads at a time, in bytes. Large enough that a task takes longer than its scheduling (a millisecond),
# small next to a worker's memory; a single bag may be larger, and is then kept in a temporary file of the worker.
PART_BYTES = 2**26
# Size of a pass's result (rows of all bags), in bytes, up to which it is kept in the memory of the calling process.
ROW_BYTES = 2**28
HEADERS = 256  # files whose headers are read by one task
MEAN_TOKENS = "mean tokens"  # the name under which they are kept
LOST = "the connection to the Dask cluster was lost, and with it this pass over the bags"


@dataclass(frozen=True)
class ClusterBags:
    """Bags on a cluster: some learners are fitted to them by passes that the workers carry out part by part.

    `Bags.from_files(..., executor=client)` makes them. The workers must see the files under the same paths as this process. A
    pass (`per_bag`, `combined`) gives the same as on `Bags` up to rounding, since the parts differ. Members without a
    description are those of `Bags`.
    """

    in_files: ClassVar[bool] = True  # every pass reads the tokens from files again

    client: Any
    files: BagFiles
    rows: np.ndarray
    all_lengths: np.ndarray
    n_features: int
    dtype: np.dtype
    feature_names: np.ndarray | None
    reading: Reading
    scaler: Any = None
    connection: ClusterConnection | None = None
    memory: dict[str, tuple[Any, Any]] = field(default_factory=dict, repr=False, compare=False)

    @property
    def lengths(self) -> np.ndarray:
        return self.all_lengths[self.rows]

    @property
    def ids(self) -> np.ndarray:
        return np.array(self.files.ids, dtype=object)[self.rows]

    @property
    def n_tokens(self) -> int:
        return int(self.lengths.sum())

    @property
    def shape(self) -> tuple[int]:
        return (len(self.rows),)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, int | np.integer) and not isinstance(index, bool):
            return self.read(index)[0]
        return replace(self, rows=self.rows[places_of(index, len(self))])

    def __repr__(self) -> str:
        return (
            f"ClusterBags({len(self)} bags, {spread_of(self.lengths)} tokens each, {self.n_features} features, {self.dtype}; "
            f"parts: {len(self._parts())})"
        )

    def read(self, index: Any) -> Any:
        """Some of the bags as `Bags`, read by this process: for what needs their tokens one by one, such as `token_scores`."""
        return _read(self._part(np.atleast_1d(self.rows[index])))

    def scaled_by(self, scaler: Any) -> ClusterBags:
        """The same bags with tokens that workers scale after reading them."""
        if self.scaler is not None:
            raise ValueError("these bags are scaled already")
        return replace(self, scaler=scaler)

    def close(self) -> None:
        """Close the connection, if these bags opened it by a scheduler's address; a client that was passed in stays open."""
        if self.connection is not None:
            self.connection.close()

    def labels(self, labels: Any) -> np.ndarray:
        return labels_of(self.ids, labels)

    def device(self, wanted: str, beside: int = 0) -> None:
        """Workers compute with NumPy: a JAX device is refused, "auto" and "numpy" are the same."""
        if wanted not in ("auto", "numpy"):
            raise ValueError(f"device must be 'auto' or 'numpy' for bags on a cluster, got {wanted!r}")

    def on_device(self, device: None) -> ClusterBags:
        return self

    # -- passes -------------------------------------------------------------------------------------------------------

    def per_bag(self, work: Work, by_bag: Sequence[Any] = (), shared: Sequence[Any] = ()) -> np.ndarray:
        out: np.ndarray | None = None
        for inside, result in self._run(_rows_of_part, work, by_bag, shared):
            if out is None:
                out = room((len(self), *result.shape[1:]), result.dtype, ROW_BYTES)
            out[inside] = result
        assert out is not None
        return out

    def combined(
        self, work: Work, combine: Combination = np.add, by_bag: Sequence[Any] = (), shared: Sequence[Any] = ()
    ) -> Any:
        task = partial(_combined_part, combine)
        return reduce(combine, (result for _, result in self._run(task, work, by_bag, shared)))

    def mean_tokens(self) -> np.ndarray:
        return self.once_per_bag(MEAN_TOKENS, lambda: self.per_bag(mean_tokens_of_part))

    def once(self, name: str, find: Callable[[], Any]) -> Any:
        """The cached result of this name for the same bags, scaled in the same way, in any order; computed if there is none."""
        selection, value = self.memory.get(name, (None, None))
        if selection != self._selection():
            value = find()
            self.memory[name] = self._selection(), value
        return value

    def once_per_bag(self, name: str, find: Callable[[], np.ndarray]) -> np.ndarray:
        """`once`, for an array with one row per bag, in the order of these bags."""
        order = np.argsort(self.rows, kind="stable")
        return self.once(name, lambda: find()[order])[np.argsort(order)]

    def _selection(self) -> tuple[bytes, Any]:
        """A key of these bags among other selections of the same folder, regardless of their order."""
        scaler = None
        if self.scaler is not None:
            fitted = sorted(vars(self.scaler).items())
            scaler = tuple((name, v.tobytes() if isinstance(v, np.ndarray) else v) for name, v in fitted)
        return np.sort(self.rows).tobytes(), scaler

    # -- how a pass is cut and carried out ------------------------------------------------------------------------------

    def _parts(self) -> list[np.ndarray]:
        """For each part the places of its bags among these, in the order of the files."""
        order = np.argsort(self.rows, kind="stable")
        sizes = self.lengths[order] * self.n_features * self.dtype.itemsize
        parts, first, held = [], 0, 0
        for i, size in enumerate(sizes):
            if i > first and held + size > PART_BYTES:
                parts.append(order[first:i])
                first, held = i, 0
            held += int(size)
        return [*parts, order[first:]]

    def _part(self, rows: np.ndarray) -> ClusterBags:
        """What a worker needs to read some of the bags."""
        of_part = {"files": self.files.some(rows), "rows": np.arange(len(rows)), "all_lengths": self.all_lengths[rows]}
        return replace(self, client=None, connection=None, memory={}, **of_part)

    def _run(
        self, task: Callable[..., Any], work: Work, by_bag: Sequence[Any], shared: Sequence[Any]
    ) -> Iterator[tuple[np.ndarray, Any]]:
        """The places and the result of each part, in order."""
        parts = self._parts()
        calls = (
            (task, self._part(self.rows[inside]), work, tuple(rows[inside] for rows in by_bag), tuple(shared))
            for inside in parts
        )
        yield from zip(parts, in_order(self.client, calls))


def in_order(client: Any, calls: Iterator[tuple[Any, ...]]) -> Iterator[Any]:
    """Results of calls (function, *arguments) on the workers, in the order of the calls, a few of them under way at a time."""
    pending: list[Any] = []
    if getattr(client, "status", "running") in ("closing", "closed"):
        raise ExecutorError(LOST)
    try:
        # Three tasks per thread of the cluster: none idles, and results do not pile up.
        limit = 3 * max(1, sum(client.nthreads().values()))
        for call in calls:
            pending.append(client.submit(run_on_worker, *call, pure=False))
            if len(pending) >= limit:
                yield pending.pop(0).result()
        while pending:
            yield pending.pop(0).result()
    except (ValueError, TypeError, MemoryError, ArithmeticError):  # of the work itself
        raise
    except (CancelledError, OSError, TimeoutError) as error:
        raise ExecutorError(LOST) from error
    except Exception as error:
        if type(error).__name__ == "KilledWorker":
            raise ExecutorError(
                "workers of the Dask cluster died repeatedly at the same bags, most likely for lack of memory"
            ) from error
        if type(error).__module__.startswith("distributed"):
            raise ExecutorError(LOST) from error
        raise
    finally:
        for future in pending:
            future.cancel()


def _read(part: ClusterBags) -> Any:
    """The part's bags, scaled if that is wanted."""
    bags = gather_arrays(part.files, part.reading, in_memory=PART_BYTES).astype(part.dtype)
    names, expected = (() if row is None else tuple(row) for row in (bags.feature_names, part.feature_names))
    if bags.n_features != part.n_features or names != expected or not np.array_equal(bags.lengths, part.lengths):
        raise UnreadableBag(f"{part.files.paths[0]}, or a file after it, changed since the folder was opened")
    if part.scaler is None:
        return bags
    tokens = bags.tokens
    for block in row_blocks(tokens):  # in place: nobody else holds them
        tokens[block] = part.scaler.scaled_block(tokens[block])
    return bags


def _rows_of_part(part: ClusterBags, work: Work, by_bag: tuple[Any, ...], shared: tuple[Any, ...]) -> np.ndarray:
    return np.asarray(_read(part).per_bag(work, by_bag, shared))


def _combined_part(
    combine: Combination, part: ClusterBags, work: Work, by_bag: tuple[Any, ...], shared: tuple[Any, ...]
) -> Any:
    return _read(part).combined(work, combine, by_bag, shared)


def on_cluster(files: BagFiles, reading: Reading) -> ClusterBags:
    """The files as bags on a cluster; only their headers are read, by the workers."""
    executor, scheduler = reading.executor, reading.scheduler
    connection = None if scheduler is None or executor != "dask" else ClusterConnection(scheduler)
    client = _client(executor, scheduler) if connection is None else connection.client
    if files.have_column(reading.bag, reading.label):
        raise ValueError(
            f"{files.paths[0]} has a column of ids or labels: on a cluster every file holds one bag, and the labels are a table"
        )
    local = replace(reading, executor="local", scheduler=None)  # a client cannot travel
    blocks = [files.paths[i : i + HEADERS] for i in range(0, len(files.paths), HEADERS)]
    calls = ((_headers, tuple(path.absolute() for path in block), local, version("sparsetoken")) for block in blocks)
    headers = [head for part in in_order(client, iter(calls)) for head in part]
    width, names = check_alike(headers, files.paths)
    lengths = np.array([head[0] for head in headers], dtype=np.intp)
    dtype = np.result_type(*{head[3] for head in headers})
    rows = np.arange(len(lengths))
    files = BagFiles(tuple(path.absolute() for path in files.paths), files.ids)  # workers have their own folder
    return ClusterBags(client, files, rows, lengths, width, dtype, name_array(names), local, None, connection)


def _client(executor: Any, scheduler: str | None) -> Any:
    if not isinstance(executor, str) or executor != "dask":
        if not (hasattr(executor, "submit") and hasattr(executor, "nthreads")):
            raise ValueError(f"executor must be 'local', 'dask' or a client of Dask's, got {executor!r}")
        if scheduler is not None:
            raise ValueError("scheduler belongs to executor='dask'; a client has its own")
        if getattr(executor, "asynchronous", False):
            raise ValueError("executor must be a synchronous client (asynchronous=False)")
        return executor
    require("dask")
    from distributed import default_client

    try:
        return default_client()
    except ValueError:
        raise ValueError(
            "executor='dask' needs the scheduler's address, such as scheduler='tcp://127.0.0.1:8786', or an open client"
        ) from None


def _headers(paths: Sequence[Path], reading: Reading, wanted: str) -> list[Header]:
    if version("sparsetoken") != wanted:
        installed = version("sparsetoken")
        raise ValueError(f"a worker has sparsetoken {installed}, this process {wanted}: install the same version there")
    return [header(path, reading) for path in paths]

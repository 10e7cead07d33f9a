"""Where trials run: in this process, in local processes, or on a Dask cluster, behind concurrent.futures' interface.

An executor here has `submit` (as in concurrent.futures), `slots` (how many trials to keep in flight), `remote` (whether
its workers may run another version of the code than this process) and `restart` (after a worker process died and took its
pool with it).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from multiprocessing import get_context
from tempfile import TemporaryDirectory
from typing import Any, Protocol

from .._core.clusters import ClusterConnection, ExecutorError, run_on_worker
from .._core.threads import single_blas_thread
from .._core.user_code import shared_sources
from .._core.validation import whole_number
from .worker import start_worker

EXECUTORS = ("local", "dask")
LOST = "the connection to the Dask scheduler was lost; finished trials are in the store, run again to resume"


class TrialExecutor(Protocol):
    """What the runner needs of an executor."""

    @property
    def remote(self) -> bool: ...
    @property
    def slots(self) -> int: ...
    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Future: ...
    def restart(self) -> None: ...
    def __enter__(self) -> Any: ...
    def __exit__(self, kind: type[BaseException] | None, /, *_: object) -> None: ...


class InlineExecutor:
    """Runs each trial at once in this process."""

    slots, remote = 1, False

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Future:
        """Run a function on its arguments; a future of its result."""
        future: Future = Future()
        try:
            future.set_result(function(*arguments))
        except Exception as error:
            future.set_exception(error)
        return future

    def restart(self) -> None:
        """Start again after a worker died."""
        raise ExecutorError("a trial run in this process cannot be restarted")

    def __enter__(self) -> InlineExecutor:
        self._limit = single_blas_thread()  # as in worker processes, and as before afterwards
        self._limit.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, /, *rest: object) -> None:
        self._limit.__exit__(kind, *rest)


class LocalExecutor:
    """Spawned processes on this machine, each with one BLAS thread.

    What one of them has compiled the others read from a temporary folder, which is removed at the end: a few megabytes for all
    of the paper's studies.
    """

    remote = False

    def __init__(self, workers: int):
        self.workers = workers
        self.slots = workers + 1  # one waiting, so that no worker idles while a row is written
        self._compiled = TemporaryDirectory(prefix="sparsetoken-compiled-", ignore_cleanup_errors=True)
        self._pool = self._start()

    def _start(self) -> ProcessPoolExecutor:
        arguments = (shared_sources(), self._compiled.name)
        return ProcessPoolExecutor(
            self.workers, mp_context=get_context("spawn"), initializer=start_worker, initargs=arguments
        )

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Future:
        """Run a function on its arguments; a future of its result."""
        return self._pool.submit(function, *arguments)

    def restart(self) -> None:
        """Start again after a worker died."""
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._pool = self._start()

    def __enter__(self) -> LocalExecutor:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:  # interrupted: do not wait for trials in flight
            for process in list((getattr(self._pool, "_processes", None) or {}).values()):
                process.terminate()
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._compiled.cleanup()


class DaskExecutor:
    """An existing Dask cluster. A trial whose worker dies is repeated by Dask itself on another one."""

    remote = True

    def __init__(self, scheduler: str, timeout: float = 10.0):
        self._connection = ClusterConnection(scheduler, timeout)
        self._client = self._connection.client
        self._pool = self._client.get_executor(pure=False)

    @property
    def slots(self) -> int:
        """Two trials per thread of the cluster, so that none idles."""
        with _lost_connection():
            return 2 * max(1, sum(self._client.nthreads().values()))

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Future:
        """Run a function on its arguments; a future of its result."""
        with _lost_connection():
            return self._pool.submit(run_on_worker, function, *arguments)

    def restart(self) -> None:
        """Start again after a worker died."""
        raise ExecutorError(LOST)

    def __enter__(self) -> DaskExecutor:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            self._pool.shutdown(wait=kind is None)
        except Exception:  # nobody there to say goodbye to
            if kind is None:
                raise
        finally:
            with nullcontext() if kind is None else suppress(Exception):
                self._connection.close()


@contextmanager
def _lost_connection() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        raise ExecutorError(LOST) from error


def open_executor(kind: str = "local", workers: int | None = None, scheduler: str | None = None) -> TrialExecutor:
    """The executor of that kind.

    Parameters
    ----------
    kind : str
        "local" or "dask".
    workers : int or None
        Local processes (default: the number of cores); 1 runs the trials in this process.
    scheduler : str or None
        Address of the Dask scheduler, such as tcp://host:8786.

    Returns
    -------
    TrialExecutor
        A context manager.

    Raises
    ------
    ValueError
        If the parameters do not go together.
    ExecutorError
        If no scheduler answers.
    """
    if kind not in EXECUTORS:
        raise ValueError(f"executor must be one of {', '.join(EXECUTORS)}, got {kind!r}")
    if kind == "dask":
        if not scheduler:
            raise ValueError("executor 'dask' needs scheduler, an address such as tcp://127.0.0.1:8786 (--scheduler)")
        return DaskExecutor(scheduler)
    if scheduler:
        raise ValueError("scheduler belongs to executor 'dask'")
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    workers = whole_number("workers", count if workers is None else workers, 1)
    return InlineExecutor() if workers == 1 else LocalExecutor(workers)

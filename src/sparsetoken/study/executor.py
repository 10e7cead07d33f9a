"""Where trials run: in this process, in local processes, or on a Dask cluster, behind concurrent.futures' interface.

An executor here has `submit` (as in concurrent.futures), `slots` (how many trials to keep in flight) and `restart`
(after a worker process died and took its pool with it).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any, Protocol

from .._core.threads import single_blas_thread
from .._core.validation import whole_number
from .worker import limit_threads, start_worker

EXECUTORS = ("local", "dask")


class ExecutorError(OSError):
    """The executor cannot be reached or was lost; finished trials are in the store."""


class TrialExecutor(Protocol):
    @property
    def slots(self) -> int: ...
    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Future: ...
    def restart(self) -> None: ...
    def __enter__(self) -> Any: ...
    def __exit__(self, kind: type[BaseException] | None, /, *_: object) -> None: ...


class InlineExecutor:
    """Runs each trial at once in this process."""

    slots = 1

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Future:
        future: Future = Future()
        try:
            future.set_result(function(*arguments))
        except Exception as error:
            future.set_exception(error)
        return future

    def restart(self) -> None:
        raise ExecutorError("a trial run in this process cannot be restarted")

    def __enter__(self) -> InlineExecutor:
        self._limit = single_blas_thread()  # as in worker processes, and as before afterwards
        self._limit.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, /, *rest: object) -> None:
        self._limit.__exit__(kind, *rest)


class LocalExecutor:
    """Spawned processes on this machine, each with one BLAS thread."""

    def __init__(self, workers: int):
        self.workers = workers
        self.slots = workers + 1  # one waiting, so that no worker idles while a row is written
        self._pool = self._start()

    def _start(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(self.workers, mp_context=get_context("spawn"), initializer=start_worker)

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Future:
        return self._pool.submit(function, *arguments)

    def restart(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._pool = self._start()

    def __enter__(self) -> LocalExecutor:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:  # interrupted: do not wait for trials in flight
            for process in list((getattr(self._pool, "_processes", None) or {}).values()):
                process.terminate()
        self._pool.shutdown(wait=True, cancel_futures=True)


class DaskExecutor:
    """An existing Dask cluster. A trial whose worker dies is repeated by Dask itself on another one."""

    def __init__(self, scheduler: str, timeout: float = 20.0):
        try:
            from distributed import Client
        except ImportError as error:
            raise ImportError("executor 'dask' needs the extra: pip install 'sparsetoken[dask]'") from error
        try:
            self._client = Client(scheduler, timeout=timeout, set_as_default=False)
        except (OSError, ValueError) as error:
            raise ExecutorError(f"no Dask scheduler answers at {scheduler}") from error
        self._pool = self._client.get_executor(pure=False)

    @property
    def slots(self) -> int:
        return 2 * max(1, sum(self._client.nthreads().values()))

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Future:
        return self._pool.submit(_run_on_dask, function, *arguments)

    def restart(self) -> None:
        raise ExecutorError("the connection to the Dask scheduler was lost")

    def __enter__(self) -> DaskExecutor:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._pool.shutdown(wait=kind is None)
        self._client.close()


_threads_limited = False


def _run_on_dask(function: Callable[..., Any], *arguments: Any) -> Any:
    global _threads_limited
    if not _threads_limited:
        limit_threads()
        _threads_limited = True
    return function(*arguments)


def open_executor(kind: str = "local", workers: int | None = None, scheduler: str | None = None) -> TrialExecutor:
    """The executor of that kind.

    workers    local processes (default: the number of cores); 1 runs the trials in this process
    scheduler  address of the Dask scheduler, such as tcp://host:8786
    """
    if kind not in EXECUTORS:
        raise ValueError(f"executor must be one of {', '.join(EXECUTORS)}, got {kind!r}")
    if kind == "dask":
        if not scheduler:
            raise ValueError("executor 'dask' needs --scheduler, such as tcp://127.0.0.1:8786")
        return DaskExecutor(scheduler)
    if scheduler:
        raise ValueError("--scheduler belongs to executor 'dask'")
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    workers = whole_number("workers", count if workers is None else workers, 1)
    return InlineExecutor() if workers == 1 else LocalExecutor(workers)

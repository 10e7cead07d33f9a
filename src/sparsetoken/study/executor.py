"""Where trials run: in this process, in local processes, or on a Dask cluster, behind concurrent.futures' interface."""

from __future__ import annotations

import os
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from multiprocessing import get_context
from typing import Any

from .._core.user_code import load_source, shared_sources
from .._core.validation import whole_number
from .._core.workers import (
    THREAD_VARIABLES,
    ClusterConnection,
    ExecutorError,
    keep_compiled_code,
    keep_to_one_thread,
    run_on_worker,
    single_blas_thread,
)

EXECUTORS = ("local", "dask")
LOST = "the connection to the Dask scheduler was lost; finished trials are in the store, run again to resume"


def run_trial(
    kind: str, arguments: Mapping[str, Any], sources: Sequence[str] = (), code: str | None = None
) -> dict[str, Any]:
    """Run one trial."""
    from .kind_registry import code_of, get_kind

    wall, cpu = time.perf_counter(), time.process_time()
    outcome: dict[str, Any] = {"result": None, "traceback": None}
    try:
        for source in sources:
            load_source(source)
        if code is not None and code_of(kind, arguments) != code:
            raise RuntimeError(
                f"this worker runs other code for {kind!r} than the command: install the same version there"
            )
        outcome["result"] = get_kind(kind).call(arguments)
    except Exception:  # a failed trial is a row of the store, with its traceback; the run goes on and reports it
        outcome["traceback"] = traceback.format_exc()
    outcome["seconds"] = time.perf_counter() - wall
    outcome["cpu_seconds"] = time.process_time() - cpu
    return outcome


def start_worker(sources: Sequence[str] = ()) -> None:
    """Prepare a local worker process: one thread, Ctrl-C ignored (the coordinator handles it), ended with its parent, the
    user's files executed. What one worker has compiled the others read from the user's cache folder."""
    import signal
    import threading

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for variable in THREAD_VARIABLES:
        os.environ[variable] = "1"
    keep_compiled_code()
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    keep_to_one_thread()
    for source in sources:
        load_source(source)


def _leave_with_parent() -> None:
    from multiprocessing import parent_process
    from multiprocessing.connection import wait

    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


class TrialExecutor:
    """What all executors share; a context manager.

    `slots` is how many trials to keep in flight, `remote` whether workers may run other code than this process.
    """

    slots, remote = 1, False

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Future:
        """Run a function on its arguments; a future of its result."""
        raise NotImplementedError

    def restart(self) -> None:
        """Start again after a worker process died and took its pool with it."""
        raise ExecutorError(LOST)

    def __enter__(self) -> TrialExecutor:
        return self

    def __exit__(self, kind: type[BaseException] | None, /, *_: object) -> None: ...


class InlineExecutor(TrialExecutor):
    """Runs each trial at once in this process."""

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Future:
        future: Future = Future()
        try:
            future.set_result(function(*arguments))
        except Exception as error:
            future.set_exception(error)
        return future

    def __enter__(self) -> InlineExecutor:
        self._limit: Any = single_blas_thread()  # as in worker processes, and as before afterwards
        self._limit.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, /, *rest: object) -> None:
        self._limit.__exit__(kind, *rest)


class LocalExecutor(TrialExecutor):
    """Spawned processes on this machine, each with one BLAS thread."""

    def __init__(self, workers: int):
        self.workers = workers
        self.slots = workers + 1  # one waiting, so that no worker idles while a row is written
        self._pool = self._start()

    def _start(self) -> ProcessPoolExecutor:
        context, sources = get_context("spawn"), shared_sources()
        return ProcessPoolExecutor(self.workers, mp_context=context, initializer=start_worker, initargs=(sources,))

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Future:
        return self._pool.submit(function, *arguments)

    def restart(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._pool = self._start()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:  # interrupted: do not wait for trials in flight
            for process in list((getattr(self._pool, "_processes", None) or {}).values()):
                process.terminate()
        self._pool.shutdown(wait=True, cancel_futures=True)


class DaskExecutor(TrialExecutor):
    """An existing Dask cluster. A trial whose worker dies is repeated by Dask itself on another one."""

    remote = True

    def __init__(self, scheduler: str, timeout: float = 10.0):
        self._connection = ClusterConnection(scheduler, timeout)
        self._client = self._connection.client
        self._pool = self._client.get_executor(pure=False)

    @property
    def slots(self) -> int:  # type: ignore[override]
        """Two trials per thread of the cluster, so that none idles."""
        with _lost_connection():
            return 2 * max(1, sum(self._client.nthreads().values()))

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Future:
        with _lost_connection():
            return self._pool.submit(run_on_worker, function, *arguments)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            self._pool.shutdown(wait=kind is None)
        except Exception:  # the scheduler is gone already
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
    """The executor of that kind, a context manager.

    Parameters
    ----------
    kind : str
        "local" or "dask".
    workers : int or None
        Local processes (default: the number of cores); 1 runs the trials in this process.
    scheduler : str or None
        Address of the Dask scheduler, such as tcp://host:8786.

    Raises
    ------
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

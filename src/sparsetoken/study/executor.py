"""Where trials run: in this process, in local processes, or on a Dask cluster, behind concurrent.futures' interface.

An executor here has `submit` (as in concurrent.futures), `slots` (how many trials to keep in flight), `remote` (whether
its workers may run another version of the code than this process) and `restart` (after a worker process died and took its
pool with it).
"""

from __future__ import annotations

import logging
import os
import re
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager, suppress
from multiprocessing import get_context
from typing import Any, Protocol

from .._core.extras import require
from .._core.own import shared_sources
from .._core.threads import single_blas_thread
from .._core.validation import whole_number
from .worker import limit_threads, start_worker

EXECUTORS = ("local", "dask")
_ADDRESS = re.compile(r"(tcp|tls|ws|wss|ucx)://(\[[0-9a-fA-F:]+\]|[^\s/:\[\]]+):([0-9]{1,5})")


LOST = "the connection to the Dask scheduler was lost; finished trials are in the store, run again to resume"


class ExecutorError(OSError):
    """The executor cannot be reached or was lost; finished trials are in the store."""


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
    """Spawned processes on this machine, each with one BLAS thread."""

    remote = False

    def __init__(self, workers: int):
        self.workers = workers
        self.slots = workers + 1  # one waiting, so that no worker idles while a row is written
        self._pool = self._start()

    def _start(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(
            self.workers, mp_context=get_context("spawn"), initializer=start_worker, initargs=(shared_sources(),)
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


class DaskExecutor:
    """An existing Dask cluster. A trial whose worker dies is repeated by Dask itself on another one."""

    remote = True

    def __init__(self, scheduler: str, timeout: float = 10.0):
        parse_address(scheduler)
        require("dask")
        from distributed import Client

        if not _answers(scheduler, timeout):
            raise ExecutorError(f"no Dask scheduler answers at {scheduler}")
        # What Dask logs about a lost connection is said by `ExecutorError` in one line.
        loggers = [name for name in logging.root.manager.loggerDict if name.startswith("distributed")]
        self._loggers = {name: logging.getLogger(name).level for name in (*loggers, "tornado.application")}
        self._quiet(True)
        try:
            self._client = Client(scheduler, timeout=timeout, set_as_default=False)
        except Exception as error:  # whatever a port says that speaks another language
            self._quiet(False)
            raise ExecutorError(f"no Dask scheduler answers at {scheduler}") from error
        self._pool = self._client.get_executor(pure=False)

    def _quiet(self, yes: bool) -> None:
        for name, level in self._loggers.items():
            logging.getLogger(name).setLevel(logging.CRITICAL + 1 if yes else level)

    @property
    def slots(self) -> int:
        """Two trials per thread of the cluster, so that none idles."""
        with _lost_connection():
            return 2 * max(1, sum(self._client.nthreads().values()))

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Future:
        """Run a function on its arguments; a future of its result."""
        with _lost_connection():
            return self._pool.submit(_run_on_dask, function, *arguments)

    def restart(self) -> None:
        """Start again after a worker died."""
        raise ExecutorError(LOST)

    def __enter__(self) -> DaskExecutor:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            self._pool.shutdown(wait=kind is None)
            self._client.close(timeout=5)
        except Exception:  # nobody there to say goodbye to
            if kind is None:
                raise
        finally:
            self._quiet(False)


@contextmanager
def _lost_connection() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        raise ExecutorError(LOST) from error


def parse_address(scheduler: str) -> tuple[str, int]:
    """Host and port of a Dask scheduler's address, or a ValueError that shows a right one."""
    found = _ADDRESS.fullmatch(scheduler)
    if found is None or not 0 < int(found[3]) < 2**16:
        raise ValueError(f"--scheduler must be an address such as tcp://127.0.0.1:8786, got {scheduler!r}")
    return found[2].strip("[]"), int(found[3])


def _answers(scheduler: str, timeout: float) -> bool:
    """Whether a Dask scheduler greets us there in time.

    Asked before Dask's own client, which tries for long and, at a server of another kind, for ever. A scheduler speaks
    first: eight bytes with the length of its greeting (an encrypted one does not, and is believed once it connects).
    Looking up a name has no time limit of its own, so all this happens in a thread.
    """
    host, port = parse_address(scheduler)
    greeting: list[bytes] = []

    def knock() -> None:
        with suppress(OSError), socket.create_connection((host, port), timeout=timeout) as line:
            greeting.append(line.recv(8) if scheduler.startswith("tcp:") else bytes(8))

    knocking = threading.Thread(target=knock, daemon=True)
    knocking.start()
    knocking.join(timeout)
    return bool(greeting) and len(greeting[0]) == 8 and int.from_bytes(greeting[0], "little") < 2**30


_threads_limited = False


def _run_on_dask(function: Callable[..., Any], *arguments: Any) -> Any:
    global _threads_limited
    if not _threads_limited:
        limit_threads()
        _threads_limited = True
    return function(*arguments)


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
            raise ValueError("executor 'dask' needs --scheduler, such as tcp://127.0.0.1:8786")
        return DaskExecutor(scheduler)
    if scheduler:
        raise ValueError("--scheduler belongs to executor 'dask'")
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    workers = whole_number("workers", count if workers is None else workers, 1)
    return InlineExecutor() if workers == 1 else LocalExecutor(workers)

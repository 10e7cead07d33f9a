"""Long work: progress bars, processes with one BLAS thread each, and connections to a Dask cluster.

Several BLAS pools on few cores are 3 to 10 times slower than one thread per process. The library's functions leave BLAS as the
caller has set it, because the limit applies to the whole process.
"""

from __future__ import annotations

import logging
import os
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import Any

from .imports import require

Advance = Callable[[int], None]

# Where one of these is set, the user's number of threads is kept.
THREAD_VARIABLES = (
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "OMP_NUM_THREADS",
)

_ADDRESS = re.compile(r"(tcp|tls|ws|wss|ucx)://(\[[0-9a-fA-F:]+\]|[^\s/:\[\]]+):([0-9]{1,5})")


@contextmanager
def single_blas_thread() -> Iterator[None]:
    """Run every BLAS loaded so far on one thread inside the block, and as before afterwards.

    Blocks may be nested. Nothing happens where the environment sets the number of threads.
    """
    import scipy.linalg  # noqa: F401  (SciPy brings a BLAS of its own, which must be loaded to be found)
    from threadpoolctl import threadpool_limits  # importing it sets an environment variable: not before it is needed

    if any(os.environ.get(variable) for variable in THREAD_VARIABLES):
        yield
        return
    with threadpool_limits(limits=1, user_api="blas"):
        yield


def keep_to_one_thread() -> None:
    """One thread for BLAS and for JAX's compiled code in this (worker) process: the processes are the parallelism."""
    os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_cpu_multi_thread_eigen=false"
    limit_threads()


@lru_cache(maxsize=1)
def limit_threads() -> None:
    """One BLAS thread in this (worker) process from now on, also where NumPy is imported already."""
    import scipy.linalg  # noqa: F401  (loads SciPy's own BLAS, so that the limit reaches it)
    from threadpoolctl import threadpool_limits

    threadpool_limits(1)


def keep_compiled_code() -> None:
    """Let JAX keep compiled code for later commands and other workers, in the user's cache folder unless another is named."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", os.path.join(home, "sparsetoken", "jax"))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1")


class ExecutorError(OSError):
    """The cluster that does the work cannot be reached or was lost; the message states what is kept."""


class ClusterConnection:
    """A client of an existing Dask cluster, and Dask's own log silent as long as it is open."""

    def __init__(self, scheduler: str, timeout: float = 10.0):
        parse_address(scheduler)
        require("dask")
        from distributed import Client

        if not _answers(scheduler, timeout):
            raise ExecutorError(f"no Dask scheduler answers at {scheduler}")
        # `ExecutorError` reports a lost connection in one line; what Dask would log about it is many.
        loggers = [name for name in logging.root.manager.loggerDict if name.startswith("distributed")]
        self._loggers = {name: logging.getLogger(name).level for name in (*loggers, "tornado.application")}
        self._quiet(True)
        try:
            self.client = Client(scheduler, timeout=timeout, set_as_default=False)
        except Exception as error:  # a server of another kind may answer anything
            self._quiet(False)
            raise ExecutorError(f"no Dask scheduler answers at {scheduler}") from error

    def _quiet(self, yes: bool) -> None:
        for name, level in self._loggers.items():
            logging.getLogger(name).setLevel(logging.CRITICAL + 1 if yes else level)

    def close(self) -> None:
        """Disconnect; the cluster keeps running and Dask's log is restored."""
        try:
            self.client.close(timeout=5)
        finally:
            self._quiet(False)


def parse_address(scheduler: str) -> tuple[str, int]:
    """Host and port of a Dask scheduler's address, or a ValueError that shows a right one."""
    match = _ADDRESS.fullmatch(scheduler)
    if match is None or not 0 < int(match[3]) < 2**16:
        raise ValueError(f"scheduler must be an address such as tcp://127.0.0.1:8786, got {scheduler!r}")
    return match[2].strip("[]"), int(match[3])


def _answers(scheduler: str, timeout: float) -> bool:
    """Whether a Dask scheduler answers there in time.

    Dask's client itself would retry for long, and forever at a server of another kind. A scheduler sends eight bytes first,
    the length of its greeting (an encrypted one does not). In a thread, because looking up a name has no time limit.
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


def run_on_worker(function: Callable[..., Any], *arguments: Any) -> Any:
    """Run a function on a worker of a cluster, with one BLAS thread from the first call on."""
    limit_threads()
    return function(*arguments)


@contextmanager
def progress(enabled: bool | None = None) -> Iterator[Callable[[str, int], Advance]]:
    """A context in which bars can be added."""
    from rich import progress as rich
    from rich.console import Console
    from rich.markup import escape

    console = Console(stderr=True)
    if not (console.is_terminal if enabled is None else enabled):
        yield lambda title, total: lambda count: None
        return
    title, bar, done = rich.TextColumn("{task.description:<16}"), rich.BarColumn(), rich.MofNCompleteColumn()
    left = rich.TextColumn("left"), rich.TimeRemainingColumn()
    with rich.Progress(title, bar, done, rich.TimeElapsedColumn(), *left, console=console) as bars:

        def add(title: str, total: int) -> Advance:
            task = bars.add_task(escape(title), total=total)
            return lambda count: bars.advance(task, count)

        yield add

"""Connections to a Dask cluster: the address is checked, something must answer there, and Dask's own log is silent."""

from __future__ import annotations

import logging
import re
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from .extras import require
from .threads import limit_threads

_ADDRESS = re.compile(r"(tcp|tls|ws|wss|ucx)://(\[[0-9a-fA-F:]+\]|[^\s/:\[\]]+):([0-9]{1,5})")
_threads_limited = False


class ExecutorError(OSError):
    """The cluster that does the work cannot be reached or was lost; the message says what is kept."""


class ClusterConnection:
    """A client of an existing Dask cluster, and Dask's own log silent as long as it is open.

    Parameters
    ----------
    scheduler : str
        Address of the scheduler, such as tcp://host:8786.
    timeout : float
        Seconds to wait for its answer.

    Attributes
    ----------
    client : distributed.Client
        The client.

    Raises
    ------
    ValueError
        If it is not the address of a scheduler.
    ExecutorError
        If no scheduler answers there.
    """

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
            self.client = Client(scheduler, timeout=timeout, set_as_default=False)
        except Exception as error:  # a server of another kind may answer anything
            self._quiet(False)
            raise ExecutorError(f"no Dask scheduler answers at {scheduler}") from error

    def _quiet(self, yes: bool) -> None:
        for name, level in self._loggers.items():
            logging.getLogger(name).setLevel(logging.CRITICAL + 1 if yes else level)

    def close(self) -> None:
        """Leave the cluster as it is; Dask's log speaks again."""
        try:
            self.client.close(timeout=5)
        finally:
            self._quiet(False)


def parse_address(scheduler: str) -> tuple[str, int]:
    """Host and port of a Dask scheduler's address, or a ValueError that shows a right one."""
    found = _ADDRESS.fullmatch(scheduler)
    if found is None or not 0 < int(found[3]) < 2**16:
        raise ValueError(f"scheduler must be an address such as tcp://127.0.0.1:8786, got {scheduler!r}")
    return found[2].strip("[]"), int(found[3])


def _answers(scheduler: str, timeout: float) -> bool:
    """Whether a Dask scheduler greets us there in time.

    Asked before Dask's own client, which keeps trying for long, and for ever at a server of another kind. A scheduler speaks
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


def run_on_worker(function: Callable[..., Any], *arguments: Any) -> Any:
    """Run a function on a worker of a cluster, with one BLAS thread from the first call on."""
    global _threads_limited
    if not _threads_limited:
        limit_threads()
        _threads_limited = True
    return function(*arguments)

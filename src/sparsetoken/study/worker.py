"""What runs inside a worker: one trial in, one outcome out. Imports nothing heavy by itself."""

from __future__ import annotations

import os
import time
import traceback
from collections.abc import Mapping, Sequence
from typing import Any

from .._core.threads import THREAD_VARIABLES, keep_to_one_thread
from .._core.user_code import load_source


def run_trial(
    kind: str, arguments: Mapping[str, Any], sources: Sequence[str] = (), code: str | None = None
) -> dict[str, Any]:
    """Run one trial.

    Parameters
    ----------
    kind : str
        The kind of trial.
    arguments : mapping
        Its complete flat arguments.
    sources : sequence of str
        The user's Python files that register the kind, or what its arguments name.
    code : str or None
        The fingerprint that this process's code must have, where it may be another version than the coordinator's.

    Returns
    -------
    dict
        `result`, or the `traceback` of its failure, with `seconds` and `cpu_seconds`.
    """
    from .registry import code_of, get_kind

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


def get_ready() -> None:
    """Import what most trials need; to be submitted to worker processes while this one still works out what to run."""
    import jax  # noqa: F401

    from . import kinds  # noqa: F401


# Programs that compile in less time (seconds) are not shared: reading them would be no quicker.
SHARED_FROM = "0.1"


def start_worker(sources: Sequence[str] = (), compiled: str | None = None) -> None:
    """Prepare a local worker process: one thread, deaf to Ctrl-C (the coordinator handles it), gone with its parent, the
    user's files executed. Compiled programs are shared through the folder `compiled`, unless the user has named another."""
    import signal
    import threading

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for variable in THREAD_VARIABLES:
        os.environ[variable] = "1"
    if compiled is not None and "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        os.environ["JAX_COMPILATION_CACHE_DIR"] = compiled
        os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", SHARED_FROM)
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

"""What runs inside a worker: one trial in, one outcome out. Imports nothing heavy by itself."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
import time
import traceback
from collections.abc import Mapping
from typing import Any

from .._core.threads import THREAD_VARIABLES


def load_source(path: str) -> Any:
    """Import a user's own Python file (once per process), which registers its kinds of trial."""
    name = "sparsetoken_study_" + hashlib.sha256(os.path.abspath(path).encode()).hexdigest()[:12]
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ValueError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def run_trial(
    kind: str, arguments: Mapping[str, Any], source: str | None = None, code: str | None = None
) -> dict[str, Any]:
    """Run one trial.

    Parameters
    ----------
    kind : str
        The kind of trial.
    arguments : mapping
        Its complete flat arguments.
    source : str or None
        The user's Python file that registers the kind.
    code : str or None
        The fingerprint that this process's code must have, where it may be another version than the coordinator's.

    Returns
    -------
    dict
        `result`, or the `traceback` of its failure, with `seconds` and `cpu_seconds`.
    """
    from .registry import get_kind

    wall, cpu = time.perf_counter(), time.process_time()
    outcome: dict[str, Any] = {"result": None, "traceback": None}
    try:
        if source is not None:
            load_source(source)
        if code is not None and get_kind(kind).code != code:
            raise RuntimeError(
                f"this worker runs other code for {kind!r} than the command: install the same version there"
            )
        outcome["result"] = get_kind(kind).call(arguments)
    except Exception:  # a failed trial is a row of the store, with its traceback; the run goes on and reports it
        outcome["traceback"] = traceback.format_exc()
    outcome["seconds"] = time.perf_counter() - wall
    outcome["cpu_seconds"] = time.process_time() - cpu
    return outcome


def start_worker() -> None:
    """Prepare a local worker process: one thread, deaf to Ctrl-C (the coordinator handles it), gone with its parent."""
    import signal
    import threading

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for variable in THREAD_VARIABLES:
        os.environ[variable] = "1"
    os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_cpu_multi_thread_eigen=false"
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    limit_threads()


def limit_threads() -> None:
    """One BLAS thread, also where NumPy was imported before the variables above were set."""
    import scipy.linalg  # noqa: F401  (loads SciPy's own BLAS, so that the limit reaches it)
    from threadpoolctl import threadpool_limits

    threadpool_limits(1)


def _leave_with_parent() -> None:
    from multiprocessing import parent_process
    from multiprocessing.connection import wait

    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)

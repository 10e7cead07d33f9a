"""One BLAS thread for the duration of a block of work, in worker processes and under the command line.

Several spinning BLAS pools on few cores were measured 3-10 times slower than one thread per process. The library's own
functions leave BLAS as the caller has set it: the limit belongs to the whole process, which is the caller's.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

# Whoever sets one of these has chosen a number of threads, and keeps it.
THREAD_VARIABLES = (
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "OMP_NUM_THREADS",
)

_lock = threading.Lock()
_holders = 0
_limiter: Any = None
_setter: threading.Thread | None = None


@lru_cache(maxsize=1)
def _controller() -> Any:
    import scipy.linalg  # noqa: F401  (SciPy brings a BLAS of its own, which must be loaded to be found)
    from threadpoolctl import ThreadpoolController  # importing it sets an environment variable: not before it is needed

    return ThreadpoolController()


def single_blas_thread() -> Any:
    """Run every BLAS loaded so far on one thread inside the block, and as before afterwards.

    Blocks may be nested and may overlap in several threads: the first to enter sets the limit, the last to leave restores
    what was there before. Nothing happens where the environment already says how many threads to use.

    Returns
    -------
    context manager
        Good for one `with` block.
    """
    return _limited()


@contextmanager
def _limited() -> Iterator[None]:
    global _holders, _limiter, _setter
    if any(os.environ.get(variable) for variable in THREAD_VARIABLES):
        yield
        return
    with _lock:
        if _holders == 0:
            _limiter, _setter = _controller().limit(limits=1, user_api="blas"), threading.current_thread()
            _limiter.__enter__()
        _holders += 1
    try:
        yield
    finally:
        with _lock:
            _holders -= 1
            if _holders == 0:
                _release()


def _release() -> None:
    """Restore the number of threads, whichever thread set the limit."""
    global _limiter, _setter
    if threading.current_thread() is not _setter:
        # Newer versions of threadpoolctl listen only to the thread that called first; that one is done with the limit.
        for library in _controller().lib_controllers:
            if hasattr(library, "clear_controlling_thread"):
                library.clear_controlling_thread(force=True)
    _limiter.__exit__(None, None, None)
    _limiter = _setter = None


def keep_to_one_thread() -> None:
    """One thread for BLAS and for JAX's compiled code in this (worker) process: the processes are the parallelism."""
    os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_cpu_multi_thread_eigen=false"
    limit_threads()


def limit_threads() -> None:
    """One BLAS thread in this (worker) process from now on, also where NumPy is imported already."""
    import scipy.linalg  # noqa: F401  (loads SciPy's own BLAS, so that the limit reaches it)
    from threadpoolctl import threadpool_limits

    threadpool_limits(1)

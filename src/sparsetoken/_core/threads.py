"""One BLAS thread for the duration of a block of work.

Several spinning BLAS pools on few cores were measured 3-10 times slower than one thread a process.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any


@lru_cache(maxsize=1)
def _controller() -> Any:
    import scipy.linalg  # noqa: F401  (SciPy brings a BLAS of its own, which must be loaded to be found)
    from threadpoolctl import ThreadpoolController  # importing it sets an environment variable: not before it is needed

    return ThreadpoolController()


def single_blas_thread() -> Any:
    """A context manager: every BLAS loaded so far runs on one thread inside it, and as before afterwards."""
    return _controller().limit(limits=1, user_api="blas")

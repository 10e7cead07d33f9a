from __future__ import annotations

import os
import subprocess
import sys

import pytest

from sparsetoken._core.workers import THREAD_VARIABLES

NOTHING_TO_LIMIT = 77
PROGRAM = """
import numpy, scipy.linalg
from threadpoolctl import threadpool_info
from sparsetoken._core.workers import single_blas_thread
{extra}

def pools():
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]

before = pools()
if not before or max(before) == 1:
    raise SystemExit({nothing_to_limit})
{body}
assert pools() == before, pools()
"""

NESTED = """
with single_blas_thread():
    with single_blas_thread():
        assert set(pools()) == {1}
    assert set(pools()) == {1}
"""

FAILING = """
try:
    with single_blas_thread():
        raise KeyError
except KeyError:
    pass
"""

LIBRARY = """
import sparsetoken.solvers.erm as erm
seen = []
inner = erm.minimise
erm.minimise = lambda *a: (seen.append(pools()), inner(*a))[1]
rng = numpy.random.default_rng(0)
fit_erm(rng.standard_normal((3000, 20)), numpy.where(rng.random(3000) < 0.5, 1.0, -1.0), 0.1)
assert seen == [before], seen
"""


def run(body: str, extra: str = "", **environment: str) -> subprocess.CompletedProcess:
    clean = {k: v for k, v in os.environ.items() if k not in THREAD_VARIABLES} | environment
    program = PROGRAM.format(body=body, extra=extra, nothing_to_limit=NOTHING_TO_LIMIT)
    found = subprocess.run([sys.executable, "-c", program], env=clean, capture_output=True, text=True, check=False)
    if found.returncode == NOTHING_TO_LIMIT:
        pytest.skip("BLAS has one thread here")
    return found


@pytest.mark.parametrize("body", [NESTED, FAILING], ids=["nested", "failing"])
def test_restores_what_was_there(body):
    found = run(body)
    assert found.returncode == 0, found.stderr


def test_a_number_of_threads_in_the_environment_is_kept():
    found = run("with single_blas_thread():\n    assert set(pools()) == {2}", OPENBLAS_NUM_THREADS="2")
    assert found.returncode == 0, found.stderr


def test_a_fit_leaves_the_threads_to_its_caller():
    found = run(LIBRARY, "from sparsetoken.solvers.erm import fit_erm")
    assert found.returncode == 0, found.stderr

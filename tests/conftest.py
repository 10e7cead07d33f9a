"""Fixtures of the whole suite."""

from __future__ import annotations

import atexit
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")  # before NumPy is imported, so nothing that needs it is imported above

os.environ.pop("COLUMNS", None)  # 80 in workers, unset in a single process: one width of output for both

# A third of the suite's time is XLA compiling the same programs again: in each worker, in each notebook, in each process
# that a test starts. They share what they compile through a folder that lives as long as the run; workers find the name
# in the environment that they inherit. JAX compiles anew where an entry cannot be read.
if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
    compiled = tempfile.mkdtemp(prefix="sparsetoken-tests-compiled-")
    atexit.register(shutil.rmtree, compiled, ignore_errors=True)
    os.environ["JAX_COMPILATION_CACHE_DIR"] = compiled
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.1"  # below that, reading is no quicker than compiling

# Drawn examples are the same in every run, and may take their time where a core is shared.
settings.register_profile("suite", derandomize=True, deadline=None, max_examples=50, database=None)
settings.load_profile("suite")

# Tests of one file run on one worker, and so do these together: the explorer's share their points and one browser, the
# planner's one plan, others one cluster or the built site.
TOGETHER = {
    "tests/explorer/": "explorer",
    "tests/planning/": "plan",
    "tests/bags/test_dask_cluster.py": "cluster",
    "tests/study/test_executor.py": "cluster",
    "tests/docs/test_site.py": "site",
    "tests/docs/test_execution.py": "site",
}


# The second tier (`make test-all`): whole pages, the explorer, installations, devices, workers, clusters. A test elsewhere
# joins it by the mark.
SECOND_TIER = (
    "tests/docs/",
    "tests/explorer/",
    "tests/bags/test_dask_cluster.py",
    "tests/study/test_executor.py",
    "tests/study/test_runner.py",
    "tests/test_benchmarks.py",
    "tests/test_devices.py",
    "tests/test_memory.py",
    "tests/test_packaging.py",
    "tests/test_readme.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the files of the second tier into it."""
    for item in items:
        if item.nodeid.startswith(SECOND_TIER):
            item.add_marker(pytest.mark.slow)


def scope_of(test: str) -> str:
    """What a test runs on one worker with, from its name."""
    file = test.split("::")[0]
    return next((name for start, name in TOGETHER.items() if file.startswith(start)), file)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log):
    """Groups in the order of their files. (The plug-in's own groups, by marks, have no effect under pytest 9.2.)"""
    from xdist.scheduler import LoadScopeScheduling

    config.option.loadscopereorder = False  # groups of few tests that take long, such as notebooks, would come last

    class Together(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return scope_of(nodeid)

    return Together(config, log)


@pytest.fixture(scope="session")
def reference_cases() -> list[dict]:
    """Reference values of an independent implementation."""
    return json.loads((Path(__file__).parent / "data" / "golden.json").read_text())["cases"]


@pytest.fixture
def command(capsys) -> Callable[..., tuple[int, str, str]]:
    """The command line, run in this process: arguments of any type -> (exit code, output, errors)."""
    from sparsetoken.cli import main

    def call(*arguments) -> tuple[int, str, str]:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main([str(a) for a in arguments])
        printed = capsys.readouterr()
        return int(ended.value.code or 0), printed.out, printed.err

    return call

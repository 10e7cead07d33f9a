"""What every benchmark shares: timings, rows of ours next to a peer, the registry of cases, facts about the machine."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import platform
import re
import resource
import statistics
import subprocess
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

# Real bags: musk1 and hockey come with the tests; others are looked for where the variable says.
DATA = Path(os.environ.get("SPARSETOKEN_DATA", Path(__file__).resolve().parents[1] / "tests" / "data"))
RESULTS = Path(__file__).parent / "results"
SOURCE = Path(__file__).resolve().parents[1] / "src" / "sparsetoken"
PACKAGES = ("sparsetoken", "numpy", "scipy", "jax", "scikit-learn")


@dataclass(frozen=True)
class Timing:
    """Medians, or the least, over the repeats. On a shared machine wall time depends on the others, CPU time hardly does."""

    wall: float
    cpu: float
    repeats: int = 1

    def times(self, factor: float) -> Timing:
        """The same work `factor` times over."""
        return Timing(self.wall * factor, self.cpu * factor, self.repeats)


def timed(function: Callable[[], Any], repeats: int = 3) -> tuple[Timing, Any]:
    """Median wall and CPU seconds of `function()`, and what its last call returned."""
    walls, cpus, found = [], [], None
    for _ in range(repeats):
        wall, cpu = time.perf_counter(), time.process_time()
        found = function()
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
    return Timing(statistics.median(walls), statistics.median(cpus), repeats), found


def raced(functions: list[Callable[[], Any]], seconds: float = 2.0, least: int = 5) -> list[Timing]:
    """The best wall and CPU seconds of each function, called in turn: other loads of the machine then hit all alike.

    At least `least` rounds, and more until they have taken so many CPU seconds together, or 100 rounds.
    """
    best = [(float("inf"), float("inf"))] * len(functions)
    start, rounds = time.process_time(), 0
    while rounds < least or (rounds < 100 and time.process_time() - start < seconds):
        rounds += 1
        for i, function in enumerate(functions):
            wall, cpu = time.perf_counter(), time.process_time()
            function()
            cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
            best[i] = (min(best[i][0], wall), min(best[i][1], cpu))
    return [Timing(wall, cpu, rounds) for wall, cpu in best]


def timed_command(command: list[str], environment: dict[str, str], repeats: int = 3) -> tuple[Timing, str]:
    """Median wall and CPU seconds of a fresh process, and its last output. A failing command is an error."""
    walls, cpus, output = [], [], ""
    for _ in range(repeats):
        wall, cpu = time.perf_counter(), children_seconds()
        output = subprocess.run(
            command, env={**os.environ, **environment}, check=True, capture_output=True, text=True
        ).stdout
        walls.append(time.perf_counter() - wall)
        cpus.append(children_seconds() - cpu)
    return Timing(statistics.median(walls), statistics.median(cpus), repeats), output


def children_seconds() -> float:
    """CPU seconds of all finished child processes."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def peak_megabytes() -> float:
    """The most memory that this process has held; NaN where the system does not say.

    Linux's VmHWM begins anew with a program; `resource`'s ru_maxrss would begin at the memory of the process that starts it.
    """
    status = Path("/proc/self/status")
    found = re.search(r"VmHWM:\s+(\d+) kB", status.read_text()) if status.exists() else None
    return int(found[1]) / 1024 if found else float("nan")


@dataclass(frozen=True)
class Row:
    """One measurement: `what` was done by us, and by `peer` where there is one (`peer_timing` None: it failed).

    note says at what accuracy, or why a peer has no time; goal is what was aimed at.
    """

    what: str
    ours: Timing
    peer: str = ""
    peer_timing: Timing | None = None
    note: str = ""
    goal: str = ""

    @property
    def ratio(self) -> float | None:
        """CPU seconds of the peer over ours."""
        if self.peer_timing is None or self.ours.cpu <= 0:
            return None
        return self.peer_timing.cpu / self.ours.cpu

    @property
    def slower(self) -> float:
        """CPU seconds of the slower side."""
        return max(self.ours.cpu, self.peer_timing.cpu if self.peer_timing else 0.0)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"ratio": self.ratio}


Cases = Callable[[bool], list[Row]] | Callable[[bool], list[dict[str, Any]]]


@dataclass(frozen=True)
class Case:
    """A named benchmark; `run(quick)` gives its rows: timings, or dictionaries whose keys are a table's columns."""

    name: str
    title: str
    run: Cases = field(repr=False)


CASES: dict[str, Case] = {}


def case(name: str, title: str) -> Callable[[Cases], Cases]:
    """Register a function quick -> rows as a benchmark. `quick` asks for the smallest sizes that still mean something."""

    def register(run: Cases) -> Cases:
        CASES[name] = Case(name, title, run)
        return run

    return register


def seconds(value: float) -> str:
    return f"{value:.2g}" if value < 10 else f"{value:.0f}"


def keep(name: str, title: str, rows: list[dict[str, Any]], measures: tuple[str, ...], **more: Any) -> Path:
    """Write a result that pages of the site show: rows with the same keys, and the packages whose code they are about."""
    RESULTS.mkdir(exist_ok=True)
    sources = {package: source_digest(package) for package in measures}
    content = {"case": name, "title": title, **more, "machine": machine_facts(), "sources": sources, "rows": rows}
    file = RESULTS / f"{name}.json"
    file.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return file


def source_digest(package: str) -> str:
    """A digest of a package's code without its comments, docstrings and layout."""
    digest = hashlib.sha256()
    for path in sorted((SOURCE / package).rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node, clean=False):
                del node.body[0]
        digest.update(ast.dump(tree).encode())
    return digest.hexdigest()[:16]


def machine_facts() -> dict[str, Any]:
    """Where and when the figures were taken."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": _commit(),
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "load_average": list(os.getloadavg()) if hasattr(os, "getloadavg") else None,
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        **{name: _version(name) for name in PACKAGES},
    }


def _commit() -> str | None:
    """The checkout's commit, in short; None outside of one."""
    command = ["git", "-C", str(SOURCE), "rev-parse", "--short", "HEAD"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() or None


def _processor() -> str:
    information = Path("/proc/cpuinfo")
    if information.exists():
        for line in information.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None

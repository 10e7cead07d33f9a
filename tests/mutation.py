"""Break the core on purpose, one line at a time, and see whether the tests notice.

    python -m tests.mutation             all mutants, two at a time
    python -m tests.mutation equations   those of one module
    python -m tests.mutation --list      what would be changed

A mutant is a copy of the package in a temporary folder with one piece of text exchanged (a sign flipped, a term dropped); the
tests named beside it must fail there. A mutant that survives shows a test without teeth; one whose text is no longer found has
to be rewritten with the code it was about.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
SECONDS = 600  # a mutant that makes a solver wander counts as noticed


class Mutant(NamedTuple):
    """One change of one file, and the tests that must notice it."""

    file: str
    text: str
    changed: str
    tests: str

    @property
    def title(self) -> str:
        return f"{self.file}: {' '.join(self.text.split())} -> {' '.join(self.changed.split())}"


MUTANTS: list[Mutant] = []


def broken_copy(mutant: Mutant, folder: Path) -> Path:
    """The package's source with the change made; ValueError unless its text occurs exactly once."""
    source = folder / "src"
    shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    path = source / "sparsetoken" / mutant.file
    text = path.read_text()
    if text.count(mutant.text) != 1:
        raise ValueError(f"{mutant.file} has {text.count(mutant.text)} times: {mutant.text}")
    path.write_text(text.replace(mutant.text, mutant.changed))
    return source


def noticed(mutant: Mutant) -> bool:
    """Whether the mutant's tests fail."""
    with tempfile.TemporaryDirectory() as folder:
        environment = dict(os.environ, PYTHONPATH=str(broken_copy(mutant, Path(folder))), PYTHONDONTWRITEBYTECODE="1")
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *mutant.tests.split()]
        try:
            ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, timeout=SECONDS)
        except subprocess.TimeoutExpired:
            return True
    if ended.returncode not in (0, 1):
        raise RuntimeError(f"{mutant.title}: pytest ended with {ended.returncode}\n{ended.stdout.decode()[-2000:]}")
    return ended.returncode == 1


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__.splitlines()[0])
    parser.add_argument("only", nargs="*", help="parts of file names")
    parser.add_argument("--list", action="store_true")
    given = parser.parse_args()
    chosen = [m for m in MUTANTS if not given.only or any(part in m.file for part in given.only)]
    if given.list:
        print("\n".join(m.title for m in chosen))
        return 0
    survivors = 0
    with ThreadPoolExecutor(2) as pool:
        for mutant, caught in zip(chosen, pool.map(noticed, chosen)):
            survivors += not caught
            print(f"{'noticed ' if caught else 'SURVIVED'}  {mutant.title}", flush=True)
    print(f"{len(chosen) - survivors} of {len(chosen)} mutants noticed")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())

"""Run the gallery's scripts, the tutorials' notebooks and the examples whose tables pages show, and keep what they produced.

A run is kept under a digest of its source, of the package's sources and of the versions it ran with: unchanged pages are
not run again, and no page can show what other code has computed. Each runs in a separate process, in an empty folder.

    python docs/tools/execute.py                # run everything that is not kept yet
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import lru_cache
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GALLERY = ROOT / "docs" / "gallery"
TUTORIALS = ROOT / "docs" / "tutorials"
CACHE = ROOT / ".cache" / "docs"
log = logging.getLogger("mkdocs.execute")  # MkDocs shows what it says
RUNNER = Path(__file__).with_name("runner.py")
# What pages cannot show: changing it does not change them.
_UNSEEN = ("explorer", "cli")
_VERSIONS = ("numpy", "scipy", "jax", "scikit-learn", "matplotlib", "pandas")


@dataclass(frozen=True)
class Run:
    """What a script or notebook produced.

    Attributes
    ----------
    folder : Path
        Its pictures.
    outputs : list
        Per cell of a notebook (a script is one cell) a list of (kind, content): "text", "html", or "picture", a file's name.
    seconds : float
        CPU time of the run.
    """

    folder: Path
    outputs: list[list[tuple[str, str]]]
    seconds: float


@lru_cache(maxsize=1)
def code_digest() -> str:
    """One digest of the package's sources, the runner and the versions of what they use."""
    package = ROOT / "src" / "sparsetoken"
    digest = hashlib.sha256(sys.version.encode())
    for name in _VERSIONS:
        digest.update(f"{name} {metadata.version(name)}".encode())
    for path in [RUNNER, *sorted(package.rglob("*.py"))]:
        if path == RUNNER or path.relative_to(package).parts[0] not in _UNSEEN:
            digest.update(path.read_bytes())
    return digest.hexdigest()


def sources() -> list[Path]:
    """The gallery's scripts, then the tutorials' notebooks, in the order in which they are shown."""
    return [*sorted(GALLERY.glob("*.py")), *sorted(TUTORIALS.glob("*.ipynb"))]


def execute(path: Path) -> Run:
    """Run a script or a notebook, unless that run is kept.

    Parameters
    ----------
    path : Path
        A script with a function `main` that returns a figure or prints something, or a notebook.

    Returns
    -------
    Run
        Its output.

    Raises
    ------
    RuntimeError
        If it fails, with the traceback.
    """
    key = hashlib.sha256(path.read_bytes() + code_digest().encode()).hexdigest()[:20]
    kept = CACHE / f"{path.stem}-{key}"
    if not (kept / "outputs.json").exists():
        log.info("running %s", path.relative_to(ROOT))
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as made, tempfile.TemporaryDirectory() as elsewhere:
            paths = [str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
            environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), "MPLBACKEND": "Agg"}
            done = subprocess.run(
                [sys.executable, str(RUNNER), str(path), made],
                cwd=elsewhere,
                env=environment,
                capture_output=True,
                text=True,
            )
            if done.returncode:
                raise RuntimeError(f"{path.relative_to(ROOT)} failed:\n{done.stderr}")
            for old in CACHE.glob(f"{path.stem}-*"):
                shutil.rmtree(old, ignore_errors=True)
            shutil.copytree(made, kept)
    stored = json.loads((kept / "outputs.json").read_text())
    return Run(kept, [[(kind, text) for kind, text in cell] for cell in stored["outputs"]], stored["seconds"])


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    for source in sources():
        print(f"{execute(source).seconds:6.1f} CPU s  {source.relative_to(ROOT)}", flush=True)

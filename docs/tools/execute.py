"""Run the gallery's scripts, the tutorials' notebooks and the examples whose tables pages show, and keep what they produced.

A run is kept under a digest of its source, of the package's sources and of the versions it ran with: unchanged pages are
not run again, and no page can show what other code has computed. Each runs in a separate process, in an empty folder.

    python docs/tools/execute.py                # run everything that is not kept yet
    python docs/tools/execute.py FILE FOLDER    # one script or notebook, in this process
"""

from __future__ import annotations

import ast
import hashlib
import io
import json
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
GALLERY = ROOT / "docs" / "gallery"
TUTORIALS = ROOT / "docs" / "tutorials"
CACHE = ROOT / ".cache" / "docs"
log = logging.getLogger("mkdocs.execute")  # MkDocs shows what it says
# What pages cannot show: changing it does not change them.
_UNSEEN = ("explorer", "cli")
_VERSIONS = ("numpy", "scipy", "jax", "scikit-learn", "matplotlib", "pandas")


@dataclass(frozen=True)
class Run:
    """What a script or notebook produced: per cell (a script is one) a list of (kind, content), with the kinds "text", "html"
    and "picture", a file in the folder; and the CPU time."""

    folder: Path
    outputs: list[list[tuple[str, str]]]
    seconds: float


@lru_cache(maxsize=1)
def code_digest() -> str:
    """One digest of the package's sources, this file and the versions of what they use."""
    package = ROOT / "src" / "sparsetoken"
    digest = hashlib.sha256(sys.version.encode())
    for name in _VERSIONS:
        digest.update(f"{name} {metadata.version(name)}".encode())
    seen = [path for path in sorted(package.rglob("*.py")) if path.relative_to(package).parts[0] not in _UNSEEN]
    for path in (Path(__file__), *seen):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def sources() -> list[Path]:
    """The gallery's scripts, then the tutorials' notebooks, in the order in which they are shown."""
    return [*sorted(GALLERY.glob("*.py")), *sorted(TUTORIALS.glob("*.ipynb"))]


def execute(path: Path) -> Run:
    """Run a notebook, or a script whose `main` returns a figure or prints something, unless that run is kept; RuntimeError with
    the traceback if it fails."""
    key = hashlib.sha256(path.read_bytes() + code_digest().encode()).hexdigest()[:20]
    kept = CACHE / f"{path.stem}-{key}"
    if not (kept / "outputs.json").exists():
        log.info("running %s", path.relative_to(ROOT))
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as made, tempfile.TemporaryDirectory() as elsewhere:
            paths = [str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
            environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), "MPLBACKEND": "Agg"}
            done = subprocess.run(
                [sys.executable, __file__, str(path), made],
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


class Recorder:
    """The output of one cell after another; its pictures are written to the folder."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.cells: list[list[tuple[str, str]]] = []
        self.pictures = 0

    def picture(self, figure: Any) -> tuple[str, str]:
        """Write a figure; returns its entry."""
        name = f"{self.pictures}.png"
        self.pictures += 1
        figure.savefig(self.folder / name, dpi=160)
        return "picture", name

    def shown(self, value: Any) -> list[tuple[str, str]]:
        """The entry of a value as a notebook shows it."""
        from matplotlib.artist import Artist
        from matplotlib.figure import Figure

        if value is None:
            return []
        if isinstance(value, Figure):
            return [self.picture(value)]
        if isinstance(value, Artist):
            pyplot = sys.modules.get("matplotlib.pyplot")
            known = pyplot is not None and value.figure in map(pyplot.figure, pyplot.get_fignums())
            return [] if known or value.figure is None else [self.picture(value.figure)]
        html = getattr(value, "_repr_html_", None)
        if html is not None and not isinstance(value, type) and html():
            return [("html", html())]
        return [("text", repr(value))]

    def run(self, code: str, names: dict[str, Any], where: str) -> None:
        """Run one cell and keep its output."""
        tree = ast.parse(code, where)
        silent = code.rstrip().endswith(";")  # as in a notebook: the value is not to be shown
        shows = bool(tree.body) and isinstance(tree.body[-1], ast.Expr) and not silent
        last = tree.body.pop() if shows else None
        printed, entries = io.StringIO(), []
        with redirect_stdout(printed):
            exec(compile(tree, where, "exec"), names)
            value = eval(compile(ast.Expression(last.value), where, "eval"), names) if last is not None else None
        if printed.getvalue():
            entries.append(("text", printed.getvalue().rstrip("\n")))
        entries += self.shown(value)
        if "matplotlib.pyplot" in sys.modules:
            plt = sys.modules["matplotlib.pyplot"]
            for number in plt.get_fignums():
                figure = plt.figure(number)
                if figure is not value:
                    entries.append(self.picture(figure))
            plt.close("all")
        self.cells.append(entries)


def record(path: Path, folder: Path) -> None:
    """Run a file in this process and write `outputs.json` beside its pictures. Cells share one set of names; of each are kept
    what it prints, its figures, and the value of its last line if that is an expression, the way a notebook shows them."""
    recorder, begun = Recorder(folder), time.process_time()
    if path.suffix == ".ipynb":
        names: dict[str, Any] = {"__name__": "__main__"}
        for number, cell in enumerate(json.loads(path.read_text())["cells"]):
            if cell["cell_type"] == "code":
                recorder.run("".join(cell["source"]), names, f"{path.name}, cell {number}")
    else:
        names, sys.argv = {"__name__": path.stem, "__file__": str(path)}, [str(path)]
        recorder.run(f"{path.read_text()}\nmain()", names, str(path))
    stored = {"outputs": recorder.cells, "seconds": round(time.process_time() - begun, 2)}
    (folder / "outputs.json").write_text(json.dumps(stored))


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    if sys.argv[1:]:
        record(*map(Path, sys.argv[1:]))
        sys.exit()
    for source in sources():
        print(f"{execute(source).seconds:6.1f} CPU s  {source.relative_to(ROOT)}", flush=True)

"""Run one script or notebook and write what it shows: `python runner.py FILE FOLDER`, in a separate process.

Cells share one set of names. Of each cell are kept: what it prints, its figures, and the value of its last line if that is
an expression, the way a notebook shows them.
"""

from __future__ import annotations

import ast
import io
import json
import sys
import time
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any


class Recorder:
    """Collects the output of one cell after another.

    Parameters
    ----------
    folder : Path
        Where pictures go.
    """

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


def main(path: Path, folder: Path) -> None:
    """Run the file and write `outputs.json` beside its pictures."""
    recorder, begun = Recorder(folder), time.process_time()
    if path.suffix == ".ipynb":
        names: dict[str, Any] = {"__name__": "__main__"}
        for number, cell in enumerate(json.loads(path.read_text())["cells"]):
            if cell["cell_type"] == "code":
                recorder.run("".join(cell["source"]), names, f"{path.name}, cell {number}")
    else:
        names, sys.argv = {"__name__": path.stem, "__file__": str(path)}, [str(path)]
        printed = io.StringIO()
        with redirect_stdout(printed):
            exec(compile(path.read_text(), str(path), "exec"), names)
            figure = names["main"]()
        text = [("text", printed.getvalue().rstrip("\n"))] if printed.getvalue() else []
        recorder.cells.append([*text, *([] if figure is None else [recorder.picture(figure)])])
    stored = {"outputs": recorder.cells, "seconds": round(time.process_time() - begun, 2)}
    (folder / "outputs.json").write_text(json.dumps(stored))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))

"""The gallery's scripts and the tutorials' notebooks run, and show something."""

import ast
import json

import matplotlib.image
import pytest
from docs.tools import execute as tools

# On one worker with the build of the site, which finds what these have run.
PLACES = {path.name: path for path in tools.sources()}


@pytest.mark.parametrize("name", PLACES)
def test_it_runs_and_shows_something(name):
    path = PLACES[name]
    run = tools.execute(path)
    pictures = [content for cell in run.outputs for kind, content in cell if kind == "picture"]
    for picture in pictures:
        assert matplotlib.image.imread(run.folder / picture)[..., :3].std() > 0.02  # not a blank sheet
    texts = [content for cell in run.outputs for kind, content in cell if kind == "text"]
    assert pictures if path.suffix == ".py" else texts


def test_a_script_that_fails_says_where(tmp_path, monkeypatch):
    monkeypatch.setattr(tools, "CACHE", tmp_path / "cache")
    monkeypatch.setattr(tools, "ROOT", tmp_path)
    bad = tmp_path / "bad.py"
    bad.write_text("def main():\n    raise ValueError('no such thing')\n")
    with pytest.raises(RuntimeError, match=r"bad\.py failed(.|\n)*no such thing"):
        tools.execute(bad)


def test_a_run_is_kept_until_its_source_changes(tmp_path, monkeypatch):
    monkeypatch.setattr(tools, "CACHE", tmp_path / "cache")
    monkeypatch.setattr(tools, "ROOT", tmp_path)
    cells = [{"cell_type": "code", "source": ["import time\n", "time.perf_counter()"]}]
    notebook = tmp_path / "clock.ipynb"
    notebook.write_text(json.dumps({"cells": cells}))
    first = tools.execute(notebook)
    assert first.outputs[0][0][0] == "text" and tools.execute(notebook) == first
    cells[0]["source"].append("\n")
    notebook.write_text(json.dumps({"cells": cells}))
    assert tools.execute(notebook).outputs != first.outputs
    assert len(list((tmp_path / "cache").iterdir())) == 1  # the old run is gone


def test_scripts_and_notebooks_are_kept_as_they_should_be():
    """Scripts have a title and a caption, notebooks begin with a title and are stored without output."""
    for path in PLACES.values():
        if path.suffix == ".py":
            text = ast.get_docstring(ast.parse(path.read_text()))
            assert text and len(text.split("\n\n")) == 2
        else:
            cells = json.loads(path.read_text())["cells"]
            assert cells[0]["source"][0].startswith("# ")
            assert not [c for c in cells if c["cell_type"] == "code" and (c["outputs"] or c["execution_count"])]

"""The messages in the list of errors are those that the program gives."""

import sys

import numpy as np
import pandas as pd
import pytest

from sparsetoken import Task
from sparsetoken._core.imports import EXTRAS, present, require
from tests.helpers import ROOT

FAQ = (ROOT / "docs" / "faq.md").read_text()


def listed(message: str) -> bool:
    """Whether the page has this message, up to where it elides the rest."""
    shown = [line.strip("*").split("`")[1].split(" ...")[0] for line in FAQ.split("\n") if line.startswith("**`")]
    return any(message.startswith(text) for text in shown)


@pytest.mark.parametrize("fields", [{"sparsity": 11}, {"prevalence": 1.5}])
def test_tasks(fields):
    with pytest.raises(ValueError) as refused:
        Task(**fields)
    assert listed(str(refused.value))


@pytest.mark.parametrize(
    "columns",
    [None, {"bag": list("aabb")}, {"bag_id": list("aabb"), "name": list("stuv")}, {"bag_id": list("aaab")}],
)
def test_files_of_bags(columns, tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    if columns is not None:
        rng = np.random.default_rng(0)
        pd.DataFrame({**columns, "label": [0, 0, 1, 1], "x": rng.random(4)}).to_csv("bags.csv", index=False)
    code, _, errors = command("fit", "bags.csv", "--out", "model.skops")
    assert code == 2 and listed(errors.removeprefix("error: ").strip()), errors


def test_clusters(tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    code, _, errors = command("reproduce", "fig1", "--executor", "dask")
    assert code == 2 and listed(errors.removeprefix("error: ").strip())


def test_a_missing_extra_is_one_sentence(tmp_path, monkeypatch, command):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert not present("parquet")
    (tmp_path / "bags.parquet").write_bytes(b"PAR1")
    code, _, errors = command("fit", tmp_path / "bags.parquet", "--out", tmp_path / "model.skops")
    assert code == 2 and listed(errors.removeprefix("error: ").strip()) and "CSV and NPZ" in errors
    monkeypatch.setitem(sys.modules, "plotly", None)
    code, _, errors = command("reproduce", "fig1", "--store", tmp_path / "s.sqlite")
    assert code == 2 and "sparsetoken[report]" in errors and not (tmp_path / "s.sqlite").exists()


def test_extras_are_those_of_the_distribution():
    import tomllib

    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(EXTRAS) == set(extras) - {"dev", "all"}
    for name in EXTRAS:
        if present(name):
            require(name)
        else:
            with pytest.raises(ImportError, match=rf"sparsetoken\[{name}\]"):
                require(name)

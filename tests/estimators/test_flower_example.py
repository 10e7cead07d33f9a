"""The example of image patches does what its page says."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "flower_patches.py"


def test_patches_of_the_unseen_half_are_found(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["flower_patches.py", "--crops", "80", "--picture", str(tmp_path / "map.png")])
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    printed = capsys.readouterr().out.splitlines()
    assert float(printed[1].rsplit(" ", 1)[1]) > 0.9 and float(printed[2].rsplit(" ", 1)[1]) > 0.95
    assert (tmp_path / "map.png").stat().st_size > 10_000

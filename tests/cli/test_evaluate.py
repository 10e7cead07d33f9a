"""`evaluate` as a user types it: its table, picture, verdict, and files that are there whoever reads the output."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pandas as pd

from tests.helpers import planted_table


def test_evaluate_prints_writes_and_draws(folder, command):
    code, out, err = command(
        *("evaluate", folder / "bags.csv", "--folds", 3, "--repeats", 2, "-m", "bag-classifier", "-m", "mean-pool LR"),
        *("--plot", folder / "plot.png", "--csv", folder / "scores.csv"),
    )
    assert code == 0, err
    assert "2 x 3-fold" in out and "token AUC" in out
    scores = pd.read_csv(folder / "scores.csv").set_index("learner")
    # 0.975 ± 0.019 and 0.767 ± 0.052 (standard errors over bags)
    assert scores.loc["bag-classifier", "accuracy"] > 0.9 > scores.loc["mean-pool LR", "accuracy"] + 0.03
    assert scores.loc["mean-pool LR", "accuracy"] > 0.6
    assert (folder / "plot.png").read_bytes().startswith(b"\x89PNG")
    assert not [p for p in folder.iterdir() if p.name.startswith(".")]


def test_evaluate_ends_with_a_verdict(folder, command):
    wanted = ("-m", "max-pool LR", "-m", "majority", "--folds", 3, "--repeats", 1)
    code, out, _ = command("evaluate", folder / "bags.csv", *wanted)
    assert code == 0 and "\nbest: max-pool LR, " in out and "always giving the commonest label has" in out
    noise = planted_table()
    noise[[f"f{j}" for j in range(5)]] = np.random.default_rng(5).standard_normal((len(noise), 5))
    noise.to_csv(folder / "noise.csv", index=False)
    code, out, _ = command("evaluate", folder / "noise.csv", *wanted)
    assert code == 0 and out.rstrip().endswith("there is no evidence of a signal")


def test_files_are_written_before_anything_is_printed(folder):
    """Whoever reads the output is gone before it comes: the files are there all the same."""
    command = [sys.executable, "-m", "sparsetoken.cli", "evaluate", str(folder / "bags.csv"), "-m", "pooled"]
    command += ["--folds", "2", "--repeats", "1", "--csv", str(folder / "e.csv"), "--plot", str(folder / "e.svg")]
    reader, writer = os.pipe()
    os.close(reader)
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    try:
        done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, timeout=180, env=environment)
    finally:
        os.close(writer)
    assert "Traceback" not in done.stderr
    assert list(pd.read_csv(folder / "e.csv").learner) == ["pooled"]
    assert (folder / "e.svg").stat().st_size > 1000
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, env=environment)
    assert done.returncode == 0 and "pooled" in done.stdout and done.stdout.isascii()

"""`evaluate` as a user types it: its table, picture, verdict, and files that are there whoever reads the output."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

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


def test_evaluate_begins_with_a_verdict(folder, command):
    wanted = ("-m", "max-pool LR", "-m", "majority", "--folds", 3, "--repeats", 1)
    code, out, _ = command("evaluate", folder / "bags.csv", *wanted)
    assert code == 0 and out.startswith("best: max-pool LR, held-out error ") and "commonest label gives" in out
    assert out.index("max-pool LR  ") < out.index("majority  ")  # the best learner first
    noise = planted_table()
    noise[[f"f{j}" for j in range(5)]] = np.random.default_rng(5).standard_normal((len(noise), 5))
    noise.to_csv(folder / "noise.csv", index=False)
    code, out, _ = command("evaluate", folder / "noise.csv", *wanted)
    assert code == 0 and "no evidence of a signal" in " ".join(out.split("\nnoise.csv")[0].split())


def test_evaluate_is_given_the_class_that_carries_the_signal(folder, command):
    def log_losses(*more):
        wanted = ("-m", "attention", "-m", "max-pool LR", "--folds", 3, "--repeats", 1, "--csv", folder / "s.csv")
        code, _, err = command("evaluate", folder / "bags.csv", *wanted, *more)
        assert code == 0, err
        return pd.read_csv(folder / "s.csv").set_index("learner")["log_loss"]

    yes, no = log_losses("--positive-label", "yes"), log_losses("--positive-label", "no")
    assert yes["attention"] != no["attention"]
    assert yes["max-pool LR"] == no["max-pool LR"]  # a baseline has no such class
    code, _, err = command("evaluate", folder / "bags.csv", "--positive-label", "maybe")
    assert code == 2 and "--positive-label must be a label of the file" in err and err.count("\n") == 1


def test_evaluate_says_beforehand_how_long_it_takes_and_keeps_to_80_columns(folder, command, monkeypatch):
    monkeypatch.setattr("sparsetoken.cli.evaluate.LONG", 0.0)
    monkeypatch.setenv("COLUMNS", "80")
    wanted = ("-m", "max-pool LR", "-m", "attention", "--folds", 2, "--repeats", 1)
    code, out, err = command("evaluate", folder / "bags.csv", *wanted)
    assert code == 0 and err.splitlines()[0].startswith("learner 1 of 2: about ") and "for 2 fits" in err
    assert max(map(len, out.splitlines())) <= 80 and out.count("max-pool LR") <= 3  # one table


def test_files_are_written_before_anything_is_printed(folder):
    """Whoever reads the output is gone before it comes: the files are there all the same."""
    command = [sys.executable, "-m", "sparsetoken", "evaluate", str(folder / "bags.csv"), "-m", "pooled"]
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


@pytest.mark.parametrize("verb", ["fit", "evaluate"])
def test_learners_of_the_wrong_kind_are_refused_in_a_sentence(verb, folder, command):
    table = planted_table()
    table["label"] = table.groupby("bag_id")["f0"].transform("mean")
    table.to_csv(folder / "numbers.csv", index=False)
    out = ("--out", folder / "m.skops") if verb == "fit" else ()
    for name, learner, words in (
        (
            "bags.csv",
            "bag-regressor",
            "'bag-regressor' predicts numbers and these labels are classes: take a classifier such",
        ),
        (
            "numbers.csv",
            "pooled",
            "'pooled' tells classes apart and these labels are numbers: take a regressor such as",
        ),
    ):
        code, printed, err = command(verb, folder / name, "-m", learner, *out)
        assert code == 2 and words in err.splitlines()[-1] and printed == ""
    if verb == "fit":
        code, _, err = command(verb, folder / "bags.csv", "-m", "majority", *out)
        assert code == 2 and "'majority' is a baseline for `evaluate` to compare with; --model takes bag-cl" in err


def test_labels_and_groups_that_cannot_be_evaluated(folder, command):
    table = planted_table()
    table.assign(label=table.bag_id).to_csv(folder / "own.csv", index=False)
    table.assign(ward=table.label).to_csv(folder / "wards.csv", index=False)
    for verb, out in (("evaluate", ()), ("fit", ("--out", folder / "m.skops"))):
        code, _, err = command(verb, folder / "own.csv", "-m", "pooled", *out)
        assert code == 2 and "every bag has a different label, such as bag0: classes must have several bags" in err
    code, _, err = command("evaluate", folder / "wards.csv", "-m", "pooled", "--groups", "ward")
    assert code == 2 and "all bags of class 'no' are in one group, so that it cannot be held out" in err
    code, _, err = command("fit", folder / "wards.csv", "-m", "pooled", "--groups", "ward", "--out", folder / "m.skops")
    assert code == 0 and "warning: the groups allow no bag to be held out" in err


def test_labels_that_a_model_does_not_know_are_said(folder, command):
    assert command("fit", folder / "bags.csv", "-m", "pooled", "--out", folder / "m.skops")[0] == 0
    table = planted_table()
    table.loc[table.bag_id == "bag2", "label"] = "maybe"
    table.to_csv(folder / "three.csv", index=False)
    code, printed, err = command("predict", folder / "m.skops", folder / "three.csv")
    assert code == 0 and printed.startswith("bag_id,prediction,")
    assert err == "no accuracy: the model was not trained on the label 'maybe' of the file\n"

"""The commands on labels that are numbers."""

from __future__ import annotations

import numpy as np
import pandas as pd

from sparsetoken import BagRegressor
from sparsetoken.cli.evaluate import verdict_in_words
from sparsetoken.estimators.evaluation import (
    RegressionEvaluation,
)

LIGHT = BagRegressor(lift=0, candidates=["pooled", "tied"])


def planted(seed: int, n: int = 150, length: int = 6, d: int = 8, sign: float = 1.0):
    """The label is `sign` times the largest first feature of the bag's tokens, and a little noise."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, length, d))
    return X, 100 + 10 * sign * (sign * X[:, :, 0]).max(axis=1) + rng.standard_normal(n), X[:, :, 0].argmax(axis=1)


def test_commands(tmp_path, command):
    X, y, _ = planted(10, n=60, length=3, d=3)
    rows = [[f"b{i}", y[i], *token] for i in range(60) for token in X[i]]
    pd.DataFrame(rows, columns=["bag_id", "label", "f", "g", "h"]).to_csv(tmp_path / "bags.csv", index=False)
    model, data = tmp_path / "model.skops", tmp_path / "bags.csv"
    code, out, err = command("fit", data, "--out", model)
    assert code == 0, err
    assert (
        err.startswith("regression: the labels have decimals\nmodel written to")  # no advice that would then be refused
        and out.startswith("held-out R² ")
        and "labels from" in out
    )
    code, out, err = command("predict", model, data)
    assert code == 0 and out.splitlines()[0] == "bag_id,prediction" and "on 60 labelled bags, typical error" in err
    code, out, err = command("explain", model, data, "--bags", 2)
    assert code == 0 and "a higher label" in out, err
    code, _, err = command("explain", model, data, "--class", "1")
    assert code == 2 and "predicts numbers" in err
    code, out, err = command(
        "evaluate", data, "-m", "mean-pool ridge", "--folds", 3, "--repeats", 1,
        "--plot", tmp_path / "p.png", "--csv", tmp_path / "t.csv",
    )  # fmt: skip
    assert code == 0 and (tmp_path / "p.png").exists(), err
    assert out.startswith("best: mean-pool ridge, held-out R² ")
    assert "r2" in pd.read_csv(tmp_path / "t.csv").columns
    for arguments, message in (
        (("--task", "classification"), "these have decimals"),
        (("--task", "clustering"), "auto, classification or regression"),
        (("-m", "attention"), "'attention' tells classes apart and these labels are numbers: take a regressor"),
        (("--class-weight", "balanced"), "goes with a classification"),
    ):
        code, _, err = command("fit", data, *arguments, "--out", model)
        assert code == 2 and message in err


def test_a_verdict_on_regressors():
    def result(name: str, r2: float, error: float) -> RegressionEvaluation:
        return RegressionEvaluation(name, r2, error, 1.5, 1.0, 0.1, 0.1, np.zeros((1, 1)))

    good, near, far = result("a", 0.6, 0.02), result("b", 0.57, 0.02), result("c", 0.4, 0.02)
    said = verdict_in_words([good, near, far])
    assert said[0].startswith("best: a, held-out R² 0.600 (± 0.020)") and said[1].endswith(
        "(within 2 standard errors): b"
    )
    assert verdict_in_words([good, far])[1].startswith("all others are clearly worse")
    assert len(verdict_in_words([good])) == 1 and verdict_in_words([]) == []
    [none] = verdict_in_words([result("a", 0.05, 0.02), result("b", -0.3, 0.02)])
    assert "no evidence of a signal" in none

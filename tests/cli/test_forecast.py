"""`forecast` as a user types it: one point, sweeps, files, bad input, and models that fail."""

from __future__ import annotations

import csv
import json

import pytest

from sparsetoken import Deployment, Task, Training, theory


def test_sweep_prints_and_writes_the_library_numbers(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = command(
        *("forecast", "--model", "pooled", "--model", "vectorized", "--alpha1", "1,2", "--ridge", "0.01"),
        *("--json", "rows.json", "--csv", "rows.csv", "--plot", "curve.png"),
    )
    assert code == 0, err
    rows = json.loads((tmp_path / "rows.json").read_text())
    assert [(r["model"], r["alpha1"]) for r in rows] == [
        ("pooled", 1),
        ("pooled", 2),
        ("vectorized", 1),
        ("vectorized", 2),
    ]
    expected = theory.forecast(Task(), Training(ridge=0.01, alpha1=2), "pooled")
    assert rows[1]["test_error"] == pytest.approx(expected.test_error, abs=1e-9)
    assert f"{expected.test_error:.4g}" in out
    with open(tmp_path / "rows.csv") as file:
        assert len(list(csv.DictReader(file))) == 4
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")


def test_one_point_compares_all_models(command):
    code, out, err = command("forecast", "--model", "all", "--accuracy", 0.002)
    assert code == 0, err
    for word in ("attention", "pooled", "vectorized", "elementwise", "bayes", "capacity", "test error"):
        assert word in out
    assert "failed" not in out and out.startswith("test error: attention 0.036")


def test_an_error_that_rounding_made_zero_is_not_said_to_be_zero(command):
    code, out, err = command("forecast", "--strength", 30, "--accuracy", 0.01)
    assert code == 0 and out.startswith("test error: attention < 1e-10\n"), err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--prevalence", "2"], "prevalence must be"),
        (["--sparsity", "20"], "sparsity must be at most length"),
        (["--model", "bert"], "model must be one of"),
        (["--loss", "hinge"], "loss must be one of"),
        (["--alpha1", "1:2:x"], "alpha1"),
        (["--plot", "x.png"], "plot needs exactly one field"),
        (["--json", "no/such/folder/x.json"], "does not exist"),
        (["--ridge", "0", "--model", "pooled", "--alpha1", "1"], "below capacity"),
        (["--nonsense"], "No such option"),
        (["--alpha1", "1,2", "--plot", "x.xyz"], "x.xyz must end in .png, .pdf, .svg"),
        (["--alpha1", "1:2:1000000000"], "alpha1 must have at most 100,000 values"),
        (["--alpha1", "1:2:10000", "--alpha0", "1:2:10000"], "make 100,000,000 computations"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(arguments, words, command):
    code, out, err = command("forecast", *arguments)
    assert code == 2 and out == ""
    assert err.startswith("error: ") and words in err and err.count("\n") == 1


@pytest.mark.parametrize("sweep", [[], ["--strength", "4,5"]])
def test_one_model_that_fails_costs_no_other(tmp_path, command, sweep):
    """Without a ridge and with few samples the readout has no minimum; the Bayes limit does not mind."""
    arguments = ["-m", "pooled", "-m", "bayes", "--ridge", "0", "--alpha1", "1", *sweep]
    code, out, err = command("forecast", *arguments, "--json", tmp_path / "rows.json")
    assert code == 1
    rows = json.loads((tmp_path / "rows.json").read_text())
    points = len(rows) // 2
    assert [row["model"] for row in rows] == ["pooled"] * points + ["bayes"] * points
    assert f"{rows[-1]['test_error']:.2g}"[:4] in out
    assert err.count("\n") == points
    assert err.startswith("pooled at strength 4 failed: " if sweep else "pooled failed: ")


def test_anti_alignment_is_said(command):
    task = ("--length", 40, "--sparsity", 2, "--strength", 2, "--prevalence", 0.1)
    code, out, _ = command("forecast", *task, "--eta-b", 0, "--accuracy", 0.01)
    assert code == 0 and "anti-aligned" in out


def test_classifiers_can_be_tested_on_other_bags(command, tmp_path):
    code, out, err = command(
        *("forecast", "--model", "pooled", "--ridge", "0.01", "--test-length", "10,40", "--test-bias-shift", "0.5"),
        *("--json", tmp_path / "rows.json", "--plot", tmp_path / "curve.png"),
    )
    assert code == 0, err
    assert "tested at bias_shift 0.5" in out and "sensitivity" in out and "tested_length" in out
    rows = json.loads((tmp_path / "rows.json").read_text())
    assert [(row["length"], row["tested_length"]) for row in rows] == [(10, 10), (10, 40)]
    training = Training(ridge=0.01)
    expected = theory.forecast(Task(), training, "pooled", deployment=Deployment(task=Task(length=40), bias_shift=0.5))
    assert rows[1]["test_error"] == pytest.approx(expected.test_error, abs=1e-12)
    assert (tmp_path / "curve.png").stat().st_size > 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--model", "vectorized", "--test-length", "20"], "must have the training's length"),
        (["--model", "pooled", "--test-sharpness", "2"], "sharpness is for models with a query"),
        (["--test-length", "long"], "test_length must be a number"),
        (["--test-sparsity", "20"], "sparsity must be at most length"),
    ],
)
def test_bad_tests_are_refused(arguments, words, command):
    code, _, err = command("forecast", *arguments)
    assert code != 0 and words in err


def test_several_heads_by_name(command, tmp_path):
    """A sweep with heads is made of the library's forecasts; what is no number of heads is refused."""
    file = tmp_path / "rows.json"
    code, out, err = command(
        *("forecast", "--model", "heads:2", "--strength", "3", "--alpha1", "2,3", "--ridge", "0.1"),
        *("--accuracy", "0.01", "--json", file, "--plot", tmp_path / "heads.png"),
    )
    assert code == 0, err
    rows = json.loads(file.read_text())
    assert [(row["model"], row["alpha1"]) for row in rows] == [("heads:2", 2), ("heads:2", 3)]
    expected = theory.forecast(
        Task(strength=3.0), Training(alpha1=3.0, ridge=0.1), "heads:2", accuracy=0.01, with_capacity=False
    )
    assert rows[1]["test_error"] == pytest.approx(expected.test_error, abs=1e-9)
    assert "heads:2" in out and (tmp_path / "heads.png").exists()
    code, _, err = command("forecast", "--model", "heads:none")
    assert code == 2 and "needs a whole number of heads from 1 to 1000" in err

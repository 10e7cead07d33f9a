import csv
import json
import subprocess
import sys

import pytest

from sparsetoken import Task, Training, theory
from sparsetoken.cli import main


def run(*arguments, cwd=None):
    return subprocess.run(
        [sys.executable, "-m", "sparsetoken.cli", "forecast", *arguments], capture_output=True, text=True, cwd=cwd
    )


def test_sweep_prints_and_writes_the_library_numbers(tmp_path):
    done = run(
        *("--model", "pooled", "--model", "vectorized", "--alpha1", "1,2", "--ridge", "0.01"),
        *("--json", "rows.json", "--csv", "rows.csv", "--plot", "curve.png"),
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    rows = json.loads((tmp_path / "rows.json").read_text())
    assert [(r["model"], r["alpha1"]) for r in rows] == [
        ("pooled", 1),
        ("pooled", 2),
        ("vectorized", 1),
        ("vectorized", 2),
    ]
    expected = theory.forecast(Task(), Training(ridge=0.01, alpha1=2), "pooled")
    assert rows[1]["test_error"] == pytest.approx(expected.test_error, abs=1e-9)
    assert f"{expected.test_error:.4g}" in done.stdout
    with open(tmp_path / "rows.csv") as file:
        assert len(list(csv.DictReader(file))) == 4
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")


def test_one_point_compares_all_models():
    done = run("--model", "all", "--accuracy", "0.002")
    assert done.returncode == 0, done.stderr
    for word in ("attention", "pooled", "vectorized", "elementwise", "bayes", "capacity", "test error"):
        assert word in done.stdout
    assert "failed" not in done.stdout


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
def test_bad_input_is_one_line_and_exit_code_2(arguments, words, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["forecast", *arguments])
    printed = capsys.readouterr().err
    assert stop.value.code == 2
    assert words in printed and printed.count("\n") == 1 and "Traceback" not in printed


@pytest.mark.parametrize("sweep", [[], ["--strength", "4,5"]])
def test_one_model_that_fails_costs_no_other(tmp_path, capsys, sweep):
    """Without a ridge and with few samples the readout has no minimum; the Bayes limit does not mind."""
    arguments = ["-m", "pooled", "-m", "bayes", "--ridge", "0", "--alpha1", "1", *sweep]
    with pytest.raises(SystemExit) as stop:
        main(["forecast", *arguments, "--json", str(tmp_path / "rows.json")])
    captured = capsys.readouterr()
    assert stop.value.code == 1
    rows = json.loads((tmp_path / "rows.json").read_text())
    points = len(rows) // 2
    assert [row["model"] for row in rows] == ["pooled"] * points + ["bayes"] * points
    assert f"{rows[-1]['test_error']:.2g}"[:4] in captured.out
    assert captured.err.count("\n") == points
    assert captured.err.startswith("pooled at strength 4 failed: " if sweep else "pooled failed: ")


def test_anti_alignment_is_said():
    done = run(
        "--length",
        "40",
        "--sparsity",
        "2",
        "--strength",
        "2",
        "--prevalence",
        "0.1",
        "--eta-b",
        "0",
        "--accuracy",
        "0.01",
    )
    assert done.returncode == 0 and "anti-aligned" in done.stdout


def test_classifiers_can_be_tested_on_other_bags(tmp_path):
    done = run(
        *("--model", "pooled", "--ridge", "0.01", "--test-length", "10,40", "--test-bias-shift", "0.5"),
        *("--json", "rows.json", "--plot", "curve.png"),
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert "tested at bias_shift 0.5" in done.stdout and "sensitivity" in done.stdout and "tested_length" in done.stdout
    rows = json.loads((tmp_path / "rows.json").read_text())
    assert [(row["length"], row["tested_length"]) for row in rows] == [(10, 10), (10, 40)]
    training = Training(ridge=0.01)
    expected = theory.forecast(Task(), training, "pooled", test_task=Task(length=40), test_bias_shift=0.5)
    assert rows[1]["test_error"] == pytest.approx(expected.test_error, abs=1e-12)
    assert (tmp_path / "curve.png").stat().st_size > 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--model", "vectorized", "--test-length", "20"], "test_task must have the training's length"),
        (["--model", "pooled", "--test-sharpness", "2"], "test_sharpness is for models with a query"),
        (["--test-length", "long"], "test_length must be a number"),
        (["--test-sparsity", "20"], "sparsity must be at most length"),
    ],
)
def test_bad_tests_are_refused(arguments, words, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["forecast", *arguments])
    assert stop.value.code != 0 and words in capsys.readouterr().err

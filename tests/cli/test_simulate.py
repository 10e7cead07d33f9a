from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from concurrent.futures import BrokenExecutor, Future

import numpy as np
import pytest

from sparsetoken import Deployment, Task, Training, simulate
from sparsetoken.cli.printing import plain, print_table, write_csv, write_json
from sparsetoken.simulation.seeds import trial_seeds

SMALL = ["simulate", "-d", "40", "--trials", "3", "--strength", "4"]


def test_the_command_as_a_user_types_it():
    task = "--length 10 --sparsity 1 --strength 5 --prevalence 0.5"
    typed = f"-m sparsetoken simulate {task} --alpha0 2 --alpha1 2 -d 100 --trials 8"
    unlimited = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    done = subprocess.run([sys.executable, *typed.split()], capture_output=True, text=True, env=unlimited)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""  # no progress bar where nobody watches
    row = next(line for line in done.stdout.splitlines() if line.strip().startswith("attention"))
    assert row.count("±") >= 6 and "mean ± standard error of 8 trials, seed 0" in done.stdout


def test_output_is_what_the_library_gives(tmp_path, command):
    files = tmp_path / "out.json", tmp_path / "out.csv"
    arguments = ["--model", "all", "--alpha1", "1:3:2", "--json", files[0], "--csv", files[1]]
    code, out, err = command(*SMALL, *arguments)
    assert code == 0, err
    assert out.count("vectorized") == 2
    cases = json.loads(files[0].read_text())["cases"]
    assert len(cases) == 8
    with files[1].open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 24
    seeds = trial_seeds(0, 3)
    for case in cases:
        about = case["case"]
        expected = [
            simulate(Task(strength=4.0), Training(alpha1=about["alpha1"]), 40, seed, model=about["model"])
            for seed in seeds
        ]
        errors = [one.test_error for one in expected]
        assert [trial["test_error"] for trial in case["trials"]] == errors
        assert case["mean"]["test_error"] == pytest.approx(sum(errors) / 3)
        mine = [r for r in rows if r["model"] == about["model"] and float(r["alpha1"]) == about["alpha1"]]
        assert [float(r["test_error"]) for r in mine] == errors
        assert all(set(trial["seconds"]) for trial in case["trials"])
    assert cases[1]["case"]["model"] == "pooled" and cases[1]["mean"]["cosine_q"] is None
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out.csv", "out.json"]


def test_workers_change_nothing(tmp_path, command):
    for workers in ("1", "2"):
        assert command(*SMALL, "-w", workers, "--json", tmp_path / workers)[0] == 0
    found = [json.loads((tmp_path / w).read_text())["cases"][0]["trials"] for w in "12"]
    for trials in found:
        for trial in trials:
            del trial["seconds"]
    assert found[0] == found[1]


def test_other_options_reach_the_library(tmp_path, command):
    out = tmp_path / "x.json"
    options = "--schedule reuse --sampler tensor --positions fixed:3 --loss square --seed 5 --eta-q 9"
    assert command(*SMALL, *options.split(), "--json", out)[0] == 0
    case = json.loads(out.read_text())["cases"][0]
    assert case["case"]["positions"] == {"kind": "fixed", "places": [3]}
    assert (case["case"]["eta_q"], case["case"]["loss"], case["trials"][0]["n1"]) == (9.0, "square", 80)
    assert [t["seed"] for t in case["trials"]] == trial_seeds(5, 3)


def test_joint_training_takes_its_steps(tmp_path, command):
    out = tmp_path / "x.json"
    options = ["--schedule", "joint", "--steps", "2,4", "--eta-q", "1"]
    assert command(*SMALL, *options, "--json", out)[0] == 0
    cases = json.loads(out.read_text())["cases"]
    assert [case["case"]["steps"] for case in cases] == [2, 4]
    losses = [np.mean([trial["train_loss"] for trial in case["trials"]]) for case in cases]
    assert losses[1] < losses[0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--sparsity", "11"], "sparsity must be at most length (10), got 11"),
        (["--prevalence", "1.5"], "prevalence must be a number in (0, 1)"),
        (["--length", "2.5"], "length must be a whole number"),
        (["--model", "foo"], "model must be one of"),
        (["--alpha1", "1:2"], "alpha1 must be a number, a list"),
        (["--ridge", "nan"], "ridge must be"),
        (["--schedule", "joint", "--steps", "0"], "steps must be"),
        (["--schedule", "both"], "schedule must be one of"),
        (["--positions", "fixed:a"], "positions must be"),
        (["--positions", "weighted:1,2"], "weights must have one entry per token"),
        (["--trials", "0"], "trials must be"),
        (["--trials", "many"], "trials"),
        (["--workers", "0"], "workers must be"),
        (["--seed", "-1"], "seed must be"),
        (["--json", "/nowhere/x.json"], "cannot write /nowhere/x.json"),
        (["--csv", "/"], "cannot write /"),
        (["--prevalence", "1e-9"], "D0 holds only negative samples"),
        (["--lenght", "3"], "No such option"),
    ],
)
def test_errors_are_one_line(arguments, message, command):
    code, out, err = command(*SMALL, *arguments)
    assert code == 2 and out == "" and err.count("\n") == 1
    assert err.startswith("error: ") and message in err


def test_one_case_that_fails_costs_no_other(tmp_path, command):
    """With alpha1 d below one there are no samples to learn from."""
    arguments = ("simulate", "-d", 20, "-m", "pooled", "--alpha1", "0.001,2", "-t", 2)
    code, out, err = command(*arguments, "--json", tmp_path / "s.json")
    assert code == 1
    (case,) = json.loads((tmp_path / "s.json").read_text())["cases"]
    assert case["case"]["alpha1"] == 2 and len(case["trials"]) == 2
    assert err.startswith("pooled at alpha1 0.001 failed: ") and err.count("\n") == 1
    assert "pooled" in out


def test_piped_tables_obey_columns(capsys, monkeypatch):
    columns, row = ["model", *"abcdef"], ["attention", *["0.1234 ± 0.0012"] * 6]
    monkeypatch.setenv("COLUMNS", "80")
    print_table("title " * 20, columns, [row])
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80 and sum(line.strip().startswith("model") for line in lines) == 2


def test_tables_keep_one_line_per_row(capsys, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    print_table("title", ["a", "b"], [["x" * 200, "y"], ["[bold]z", "w"]])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "title" and len(lines) == 5 and lines[-1].split() == ["[bold]z", "w"]


def test_narrow_terminals_get_several_tables():
    from sparsetoken.cli.printing import _fitting

    widths = [10, 5, 20, 20, 60]
    assert _fitting(widths, 2, 200) == [[0, 1, 2, 3, 4]]
    assert _fitting(widths, 2, 80) == [[0, 1, 2, 3], [0, 1, 4]]
    assert _fitting([5, 1, 1, 1, 1], 1, 21) == [[0, 1, 2], [0, 3, 4]]  # and not three columns and a lone one
    assert _fitting(widths, 2, 10) == [[0, 1, 2], [0, 1, 3], [0, 1, 4]]


def test_files_appear_whole_or_not_at_all(tmp_path):
    target = tmp_path / "x.json"
    target.write_text("old")
    with pytest.raises(TypeError):
        write_json(target, {"a": object()})
    assert target.read_text() == "old" and list(tmp_path.iterdir()) == [target]
    write_csv(tmp_path / "x.csv", [{"a": 1, "b": {"c": float("inf")}}, {"d": "two, three"}])
    assert (tmp_path / "x.csv").read_text() == 'a,b.c,d\n1,,\n,,"two, three"\n'
    assert plain({"a": [float("nan"), 1.0, ("x",)]}) == {"a": [None, 1.0, ["x"]]}


def test_the_package_runs_as_the_command():
    command = [sys.executable, "-m", "sparsetoken", "simulate", "--strength", "nonsense"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2 and "nonsense" in done.stderr and "Traceback" not in done.stderr


def test_classifiers_can_be_tested_on_other_bags(tmp_path, command):
    file = tmp_path / "out.json"
    code, shown, _ = command(*SMALL, "--test-length", "10,30", "--test-sharpness", "2.5", "--json", file)
    assert code == 0
    assert "tested_length" in shown and "tested at sharpness 2.5" in shown
    cases = json.loads(file.read_text())["cases"]
    assert [case["case"]["tested_length"] for case in cases] == [10, 30]
    expected = simulate(
        *(Task(strength=4), Training(), 40, trial_seeds(0, 3)[1]),
        deployment=Deployment(task={"length": 30}, sharpness=2.5),
    )
    assert cases[1]["trials"][1]["test_error"] == expected.test_error
    assert cases[1]["trials"][1]["tested"]["length"] == 30


def test_a_worker_that_dies_does_not_cost_what_others_have_found(command, monkeypatch):
    from sparsetoken.study import executor

    class Dying(executor.InlineExecutor):
        def submit(self, function, /, *arguments):
            done = super().submit(function, *arguments)
            if function.keywords["model"] == "pooled":
                done = Future()
                done.set_exception(BrokenExecutor("gone"))
            return done

    monkeypatch.setattr(executor, "open_executor", lambda workers: Dying())
    quick = ("simulate", "-d", 20, "-t", 1, "-w", 2, "-m", "pooled")
    code, out, err = command(*quick, "-m", "attention")
    assert code == 1 and " attention " in out
    assert err == "pooled failed: a worker process died, most likely for lack of memory\n"
    assert command(*quick) == (2, "", "error: a worker process died, most likely for lack of memory\n")

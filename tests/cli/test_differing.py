"""Bags that differ, as a user types them: every command's options, and what is said of bad ones."""

from __future__ import annotations

import json

import pytest

from sparsetoken import Deployment, Task, Training, simulate, theory
from sparsetoken.simulation.seeds import trial_seeds

LENGTHS = {10: 0.5, 20: 0.5}
OPTIONS = ("--length", "10:0.5,20:0.5", "--label-noise", "0.1", "--contamination", "0.05", "--correlation", "0.2")
TASK = Task(LENGTHS, label_noise=0.1, contamination=0.05, correlation=0.2)


def test_forecast_takes_every_option(tmp_path, command):
    code, out, err = command("forecast", *OPTIONS, "--model", "pooled", "--json", tmp_path / "rows.json")
    assert code == 0, err
    (row,) = json.loads((tmp_path / "rows.json").read_text())
    assert Task.from_dict({name: row[name] for name in Task.__dataclass_fields__}) == TASK
    assert row["test_error"] == pytest.approx(theory.forecast(TASK, Training(), "pooled").test_error, abs=1e-9)
    for words in ("length 10:0.5,20:0.5", "label_noise 0.1", "contamination 0.05", "correlation 0.2"):
        assert words in out.replace("\n", " ")


def test_disturbances_may_be_swept(tmp_path, command):
    file = tmp_path / "rows.json"
    code, out, err = command("forecast", "--label-noise", "0,0.2,0.4", "--model", "pooled", "--json", file)
    assert code == 0, err
    errors = [row["test_error"] for row in json.loads(file.read_text())]
    assert errors == sorted(errors) and errors[2] > errors[0] + 0.05
    assert "label_noise" in out


def test_simulate_takes_every_option(tmp_path, command):
    file = tmp_path / "trials.json"
    code, _, err = command("simulate", *OPTIONS, "-d", "30", "--trials", "1", "--seed", "3", "--json", file)
    assert code == 0, err
    (seed,) = trial_seeds(3, 1)
    assert f'"test_error": {simulate(TASK, Training(), 30, seed).test_error!r}' in file.read_text()


def test_simulate_with_another_start_of_the_query(tmp_path, command):
    wanted = ("--eta-b", "auto", "--query-by", "products:2")
    code, out, err = command("simulate", *wanted, "-d", "30", "--trials", "1", "--json", tmp_path / "t.json")
    assert code == 0 and "query_by products:2" in " ".join(out.split()), err
    found = simulate(Task(), Training(eta_b="auto", query_by="products:2"), 30, trial_seeds(0, 1)[0])
    assert f'"test_error": {found.test_error!r}' in (tmp_path / "t.json").read_text()


def test_tested_on_bags_that_differ(tmp_path, command):
    file = tmp_path / "rows.json"
    code, _, err = command("forecast", "--model", "pooled", "--test-length", "10:0.5,20:0.5", "--json", file)
    assert code == 0, err
    (row,) = json.loads(file.read_text())
    expected = theory.forecast(
        Task(), Training(), "pooled", deployment=Deployment(task={"length": LENGTHS}), with_capacity=False
    )
    assert row["test_error"] == pytest.approx(expected.test_error, abs=1e-6)


def test_plan_takes_every_option(command, monkeypatch):
    asked = []

    def stopped(task, *_, **__):
        asked.append(task)
        raise ValueError("enough")

    monkeypatch.setattr("sparsetoken.planning.plan", stopped)
    code, _, err = command("plan", *OPTIONS, "--strength", "6:0.5,8:0.5", "-n", "300", "-d", "100")
    assert code == 2 and "enough" in err
    assert asked == [TASK.but(strength={6.0: 0.5, 8.0: 0.5})]


@pytest.mark.slow  # what the option means to `plan` is tested above
def test_plan_for_bags_that_differ(tmp_path, command):
    """Two kinds of bags: every kind costs as much as a plan for bags all alike."""
    file = tmp_path / "plan.json"
    code, out, err = command(
        *("plan", "--length", "5:0.5,10:0.5", "--strength", "7", "-n", "300", "-d", "100"),
        *("--ask", "none", "--json", file),
    )
    assert code == 0, err
    made = json.loads(file.read_text())
    assert Task.from_dict(made["task"]) == Task({5: 0.5, 10: 0.5}, strength=7.0)
    assert "300 bags of 5:0.5,10:0.5 tokens" in out
    assert "impossible" not in out and "message passing" in out


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("forecast --length 10:0.5,20:0.4", "length: probabilities must sum to 1, got 0.9"),
        ("simulate --length 10:0.5,20", "value:probability pairs such as 10:0.5,20:0.5"),
        ("forecast --sparsity 1:0.5,11:0.5", "sparsity must be at most length (10)"),
        ("simulate --strength -1:0.5,2:0.5", "strength must be a number in [0, 1e+50]"),
        ("forecast --label-noise 0.7", "label_noise must be a number in [0, 0.5], got 0.7"),
        ("plan -n 100 -d 50 --contamination 1", "contamination must be a number in [0, 1), got 1"),
        ("train --correlation -0.1", "correlation must be a number in [0, 1), got -0.1"),
    ],
)
def test_bad_input_is_one_line(line, words, command):
    code, out, err = command(*line.split())
    assert code == 2 and not out
    assert words in " ".join(err.split()) and len(err.strip().splitlines()) == 1

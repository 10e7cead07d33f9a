"""`train` as a user types it: tables, files, schedules from a file, and bad input."""

import csv
import json

import pytest

from sparsetoken import Stage, Task, simulate_trajectory
from sparsetoken.cli.train import read_stages
from sparsetoken.cli.values import parse_named
from sparsetoken.simulation import trial_seeds

QUICK = ("train", "--no-theory", "-d", 60, "-t", 2, "-T", 3)


def test_the_table_is_the_mean_of_the_runs(command, tmp_path):
    target, table = tmp_path / "run.json", tmp_path / "run.csv"
    code, out, _ = command(
        *QUICK, "--rates", "q=1,w=2,bias=0.5", "--start", "q=1,bias=-0.2", "--json", target, "--csv", table
    )
    assert code == 0
    stage, start = Stage(3, 2.0, {"q": 1.0, "w": 2.0, "bias": 0.5}, {"q": 0.0, "w": 0.0}), {"q": 1.0, "bias": -0.2}
    runs = [simulate_trajectory(Task(), "attention", stage, 60, seed, start=start) for seed in trial_seeds(0, 2)]
    mean = sum(run.test_error[3] for run in runs) / 2
    row = next(line for line in out.splitlines() if line.strip().startswith("3"))
    assert float(row.replace("*", "").split()[1]) == pytest.approx(mean, abs=0.01)
    written = json.loads(target.read_text())
    assert written["theory"] is None and len(written["simulation"]) == 2
    assert written["simulation"][0]["columns"]["test_error"] == pytest.approx(runs[0].test_error.tolist())
    lines = list(csv.DictReader(table.open()))
    assert len(lines) == 2 * 4 and lines[5]["source"] == "run 1" and lines[5]["step"] == "1"


def test_theory_and_simulation_stand_side_by_side(command, tmp_path):
    figure = tmp_path / "curve.png"
    code, out, _ = command("train", "-m", "pooled", "-d", 60, "-t", 2, "-T", 2, "--accuracy", 0.02, "--plot", figure)
    assert code == 0 and "test error: theory / simulated" in out and out.startswith("best step")
    assert figure.read_bytes().startswith(b"\x89PNG")


def test_a_schedule_comes_from_a_file(command, tmp_path):
    path = tmp_path / "stages.toml"
    path.write_text(
        '[[stage]]\nsteps = 2\nalpha = 1.0\ndata = "first"\nrates = {q = 5.0, w = 1.0}\n'
        '[[stage]]\nsteps = 2\nalpha = [1.0, 0.5]\ndata = ["a", "b"]\nrates = {w = [1.0, 0.5]}\n'
    )
    assert read_stages(path) == [
        Stage(2, 1.0, {"q": 5.0, "w": 1.0}, data="first"),
        Stage(2, (1.0, 0.5), {"w": [1.0, 0.5]}, data=("a", "b")),
    ]
    code, out, _ = command("train", "--no-theory", "-d", 60, "-t", 1, "--stages", path)
    assert code == 0 and "schedule of stages.toml" in out and "α = 2.5" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--rates", "v=1"), "rates must be a number or q=number,w=number,bias=number"),
        (("--rates", "q=1,q=2"), "rates must be a number"),
        (("--decay", "bias=1"), "decay must be a number or q=number,w=number"),
        (("--model", "atention"), "model must be one of"),
        (("--trials", "0"), "trials must be at least 1 without the theory"),
        (("--plot", "curve.gif"), "curve.gif must end in .png, .pdf, .svg"),
        (("--stages", "nowhere.toml"), "cannot read nowhere.toml"),
        (("--momentum", "1"), "momentum must be"),
        (("--start", "q"), "start must be"),
        (("--json", "no/such/folder/x.json"), "cannot write"),
    ],
)
def test_bad_input_is_one_line(command, arguments, words):
    code, out, err = command(*QUICK, *arguments)
    assert code == 2 and out == "" and words in err and len(err.strip().splitlines()) == 1


def test_a_file_with_anything_but_stages_is_refused(tmp_path):
    path = tmp_path / "x.toml"
    for text, words in (
        ("a = 1", "tables"),
        ("[[stage]]\nsteps = 1\nspeed = 2", "no field 'speed'"),
        ("= 1", "cannot read"),
        ("[[stage]]\nsteps = 1", "a stage needs alpha"),
        ("[[stage]]\nsteps = 1\nalpha = 1.0\ndata = 5", "data must be a name"),
    ):
        path.write_text(text)
        with pytest.raises(ValueError, match=words):
            read_stages(path)


def test_numbers_by_name():
    assert parse_named("rates", "2", ("q", "w")) == {"q": 2.0, "w": 2.0}
    assert parse_named("rates", "w=0.5", ("q", "w")) == {"w": 0.5}


def test_a_bayes_limit_that_fails_is_said(command, monkeypatch):
    def refuse(task, alpha):
        raise ArithmeticError("no fixed point")

    monkeypatch.setattr("sparsetoken.theory.bayes_limit", refuse)
    code, out, _ = command(*QUICK)
    assert (
        code == 0 and "best step" in out and "the Bayes limit at these samples is not available: no fixed point" in out
    )


def test_bad_simulations_are_refused_before_the_theory(command, monkeypatch):
    def too_late(*_, **__):
        raise AssertionError("the theory was computed first")

    monkeypatch.setattr("sparsetoken.theory.trajectory", too_late)
    for arguments, words in ((("--sampler", "dice"), "sampler"), (("-d", 10**9), "too many to simulate")):
        code, out, err = command("train", "-T", 2, *arguments)
        assert code == 2 and out == "" and words in err and len(err.splitlines()) == 1


def test_a_run_that_fails_costs_no_other(command, monkeypatch, tmp_path):
    from sparsetoken.simulation import trajectory

    simulate, calls = trajectory.simulate_trajectory, []

    def failing(*arguments, **options):
        calls.append(None)
        if len(calls) == 2:
            raise ArithmeticError("training diverges")
        return simulate(*arguments, **options)

    monkeypatch.setattr(trajectory, "simulate_trajectory", failing)
    code, out, err = command("train", "--no-theory", "-d", 60, "-t", 3, "-T", 2, "--json", tmp_path / "t.json")
    assert code == 1 and out.startswith("best step ") and "mean ± standard error of 2 runs" in out
    assert err == "run 1 failed: training diverges\n"
    assert len(json.loads((tmp_path / "t.json").read_text())["simulation"]) == 2

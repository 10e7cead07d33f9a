"""Noise that a user gives, from the command line."""

from __future__ import annotations

import json

import numpy as np
import pytest

from sparsetoken import Task, Tokens, Training, simulate
from sparsetoken.simulation import RealNoise
from sparsetoken.simulation.seeds import trial_seeds

SMALL = ["simulate", "--trials", "2", "--strength", "4", "--length", "5", "--alpha0", "1", "--alpha1", "1"]
TASK, TRAINING = Task(length=5, strength=4.0), Training(alpha0=1.0, alpha1=1.0)


def errors(path):
    return [trial["test_error"] for case in json.loads(path.read_text())["cases"] for trial in case["trials"]]


def expected(d, **arguments):
    return [simulate(TASK, TRAINING, d, seed, tokens=Tokens(**arguments)).test_error for seed in trial_seeds(0, 2)]


def test_named_noise_and_covariances_reach_the_library(tmp_path, command):
    out = tmp_path / "out.json"
    code, said, err = command(*SMALL, "--noise", "sparse:0.2", "-d", "30", "--json", out)
    assert code == 0, err
    assert "tensor sampler, noise sparse:0.2" in said
    assert errors(out) == expected(d=30, noise="sparse:0.2")
    code, said, _ = command(*SMALL, "--covariance", "power:0.5", "-d", "30", "--json", out)
    assert "reduced sampler, covariance power:0.5" in said
    assert errors(out) == expected(d=30, covariance="power:0.5")
    np.save(tmp_path / "values.npy", np.linspace(0.5, 1.5, 25))
    command(*SMALL, "--covariance", tmp_path / "values.npy", "--json", out)
    assert errors(out) == expected(d=25, covariance=np.linspace(0.5, 1.5, 25))


def test_bags_of_a_file_are_noise(tmp_path, command):
    """Of labelled bags those of the first class; d is that of the file."""
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((300, 6, 12)), np.arange(300) % 2
    np.savez(tmp_path / "bags.npz", X=x, y=y)
    out = tmp_path / "out.json"
    code, _, err = command(*SMALL, "--noise", tmp_path / "bags.npz", "--json", out, "--standardise", "whiten")
    assert code == 0, err
    assert errors(out) == expected(d=12, noise=RealNoise(x[y == 0], "whiten"))
    command(*SMALL, "--noise", tmp_path / "bags.npz", "--json", out, "--mixed", "--replace")
    assert errors(out) == expected(d=12, noise=RealNoise(x[y == 0], tokens="mixed", replace=True))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--noise", "pink"], "noise must be one of gaussian"),
        (["--noise", "missing.csv"], "missing.csv"),
        (["--covariance", "missing.npy"], "the covariance in missing.npy cannot be read"),
        (["--covariance", "pink:1"], "covariance must be a matrix"),
        (["--replace"], "belong to a file of noise"),
        (["--noise", "digits", "-d", "7"], "d must be the number of the noise's features (61) or None"),
    ],
)
def test_errors_are_one_line(arguments, message, command):
    code, _, err = command(*SMALL, *arguments)
    assert code != 0
    assert message in err and len(err.strip().splitlines()) == 1


def test_columns_of_a_file_of_noise_are_left_out_as_its_message_says(tmp_path, command):
    rng = np.random.default_rng(0)
    path = tmp_path / "bags.csv"
    rows = [f"b{i},{x:.4f},{y:.4f},ward" for i in range(200) for x, y in rng.standard_normal((5, 2))]
    path.write_text("\n".join(["bag_id,x,y,where", *rows]) + "\n")
    quick = ("simulate", "-t", "1", "--length", "5", "--alpha0", "20", "--alpha1", "20", "--noise", path)
    code, _, err = command(*quick)
    assert code == 2 and "(--ignore where)" in err
    assert command(*quick, "--ignore", "where")[0] == 0


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("empty.npy", b""),
        ("cut.npy", b"\x93NUM"),
        ("zip.npy", b"PK\x03\x04 no array"),
        ("empty.csv", b""),
        ("a.CSV", b"x,y\n"),
    ],
)
def test_arrays_that_cannot_be_read_are_named(tmp_path, command, name, content):
    (tmp_path / name).write_bytes(content)
    code, _, err = command(*SMALL, "--covariance", tmp_path / name)
    assert code == 2 and f"{name} cannot be read" in err and len(err.strip().splitlines()) == 1


def test_a_spreadsheet_marks_its_text_files(tmp_path, command):
    values = ",".join(["1.0"] * 20)
    (tmp_path / "values.csv").write_text(f"{values}\n", encoding="utf-8-sig")
    code, said, err = command(*SMALL, "--covariance", tmp_path / "values.csv")
    assert code == 0 and "d 20" in said, err

"""`--signals`, `--shares` and `--carried` of `forecast` and `simulate`."""

from __future__ import annotations

import json

import numpy as np
import pytest

from sparsetoken import Task, Tokens, Training, simulate
from sparsetoken.laws.signals import Signals
from sparsetoken.simulation.seeds import trial_seeds
from sparsetoken.theory import forecast


def test_forecast_with_two_signals_is_that_of_the_library(command, tmp_path):
    code, out, _ = command(
        *("forecast", "-m", "heads:1", "--signals", "2", "--shares", "0.7,0.3", "--ridge", "0.1", "--accuracy", "0.02"),
        *("--json", str(tmp_path / "rows.json")),
    )
    row = json.loads((tmp_path / "rows.json").read_text())[0]
    two = Signals.of(2, [0.7, 0.3])
    found = forecast(
        Task(), Training(ridge=0.1), "heads:1", accuracy=0.02, with_capacity=False, tokens=Tokens(signals=two)
    )
    assert code == 0 and row["test_error"] == pytest.approx(found.test_error)
    assert row["signals"] == 2 and row["shares"] == [0.7, 0.3] and row["carried"] == "one"
    assert "2 signals with shares 0.7, 0.3, carried one" in out
    assert "cos(q1, ξ1)" in out and "cos(w, ξ2)" in out  # a cosine for each of them


def test_simulate_with_signals_of_a_file(command, tmp_path):
    """Directions from a file, all of them in each positive bag; the tensor sampler is taken without being asked for."""
    angled = np.array([[1.0, 0.0], [0.6, 0.8]])
    np.savetxt(tmp_path / "signals.csv", angled, delimiter=",")
    code, out, _ = command(
        *(
            "simulate",
            "-m",
            "heads:2",
            "--signals",
            str(tmp_path / "signals.csv"),
            "--carried",
            "all",
            "--sparsity",
            "2",
        ),
        *("-d", "30", "--trials", "2", "--json", str(tmp_path / "trials.json")),
    )
    case = json.loads((tmp_path / "trials.json").read_text())["cases"][0]
    seed = trial_seeds(0, 2)[1]
    found = simulate(
        Task(sparsity=2),
        Training(),
        30,
        seed,
        "heads:2",
        tokens=Tokens(signals=Signals.of(angled, carried="all")),
        sampler="tensor",
    )
    assert code == 0 and case["trials"][1]["test_error"] == pytest.approx(found.test_error)
    assert case["case"]["carried"] == "all" and "shares" not in case["case"]
    assert "cos(q2, ξ2)" in out and "cos(q, ξ)" not in out  # nothing but dashes is not shown


@pytest.mark.parametrize(
    "words, message",
    [
        ("--signals 0", "signals must be a whole number >= 1, got 0"),
        ("--signals two", "signals must be a number of signals or a file .npy or .csv, got 'two'"),
        ("--signals 2 --shares 0.5,0.6", "shares must be 2 probabilities that sum to 1"),
        ("--signals 2 --shares a,b", "shares must be numbers such as 0.7,0.3, got 'a,b'"),
        ("--shares 0.5,0.5", "--shares and --carried belong to --signals"),
        ("--carried all", "--shares and --carried belong to --signals"),
        ("--signals 2 --carried both", "carried must be one of one, independent, all, got 'both'"),
        ("--signals 2 --carried all", "needs a sparsity of at least the number of signals (2)"),
        ("--signals absent.npy", "the signals in absent.npy cannot be read"),
        ("--signals 2 --label-noise 0.1", "label_noise must be 0 for several"),
        ("--signals 2 --length 10:0.5,20:0.5", "length must be one number for several"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_sentence(command, words, message):
    code, _, err = command("simulate", "-d", "30", "--trials", "1", "-m", "heads:1", *words.split())
    assert code == 2 and message in err and len(err.strip().splitlines()) == 1


@pytest.mark.parametrize(
    "verb, model", [("forecast", "attention"), ("forecast", "bayes"), ("simulate -d 30", "pooled")]
)
def test_other_models_have_one_signal(command, verb, model):
    code, _, err = command(*verb.split(), "-m", model, "--signals", "2")
    assert code == 2 and f"signals are served by the model 'heads:H' ('heads:1' is attention), not by '{model}'" in err

"""What leaves the program: files before words, and no stream that fails costs what was computed."""

import io
import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import sparsetoken.cli
from sparsetoken.cli import main
from sparsetoken.cli.printing import deliver, spell_where_needed, write_json
from sparsetoken.cli.values import OptionGrid, parse_values


def start(*arguments, **options):
    command = [sys.executable, "-m", "sparsetoken", *arguments]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, **options)


def test_a_closed_pipe_is_no_error():
    reading, writing = os.pipe()
    os.close(reading)
    process = start("studies", "--kinds", "--json", stdout=writing)
    os.close(writing)
    words = process.communicate(timeout=60)[1]
    assert process.returncode == 1 and words == ""


def test_a_full_output_is_one_line():
    with open("/dev/full", "w") as full:
        process = start("studies", "--kinds", "--json", stdout=full)
        words = process.communicate(timeout=60)[1]
    assert process.returncode == 2 and words == "error: cannot write to standard output: No space left on device\n"


def test_a_terminal_without_greek_letters(tmp_path, command):
    study = tmp_path / "s.toml"
    study.write_text('name = "θ → ∞"\ntitle = "α ± β"\n[[trials]]\nkind = "alignment"\n')
    assert command("run", study, "--workers", 1, "--store", tmp_path / "s.sqlite")[0] == 0
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    shown = start("results", "--store", str(tmp_path / "s.sqlite"), stdout=subprocess.PIPE, env=environment)
    assert "theta -> ?" in shown.communicate(timeout=60)[0]


@pytest.mark.parametrize(
    "arguments", [("forecast", "--eta-b", "0", "--prevalence", "0.1", "--accuracy", "0.02", "--alpha1", "2")]
)
def test_every_command_spells(arguments, monkeypatch):
    """`print` goes through the stream's own errors; `typer.echo` would write UTF-8 past them."""
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="ascii"))
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    sys.stdout.flush()
    words = written.getvalue().decode("ascii")
    assert not ended.value.code and "anti-aligned with the signal (cos(q, xi) < 0)" in words


def test_no_command_writes_past_the_stream():
    for file in Path(sparsetoken.cli.__file__).parent.glob("*.py"):
        assert "typer.echo(" not in file.read_text(), file


def test_signs_are_spelled(tmp_path):
    with open(tmp_path / "out", "w", encoding="ascii") as file:
        spell_where_needed(file)
        file.write("0.1 ± 0.2 → θ ☃")
    assert (tmp_path / "out").read_text() == "0.1 +- 0.2 -> theta ?"


def test_files_come_first_and_a_failed_one_costs_nothing(tmp_path):
    order = []

    def write(path):
        order.append(path.name)
        if path == bad:
            raise OSError(f"cannot write {path}: No space left on device")
        write_json(path, {"a": 1.5, "b": float("nan")})

    good, bad = tmp_path / "good.json", tmp_path / "none" / "bad.json"
    with pytest.raises(OSError, match="No space left on device"):
        deliver(lambda: order.append("shown"), [(None, write), (bad, write), (good, write)])
    assert order == ["bad.json", "good.json", "shown"]
    assert json.loads(good.read_text()) == {"a": 1.5, "b": None}


def test_a_file_that_fails_in_any_way_does_not_cost_what_is_shown(tmp_path):
    order = []

    def breaks(path):
        raise ValueError("no such thing in this format")

    with pytest.raises(ValueError, match="no such thing"):
        deliver(
            lambda: order.append("shown"), [(tmp_path / "a", breaks), (tmp_path / "b", lambda p: order.append("b"))]
        )
    assert order == ["b", "shown"]


def test_warnings_are_lines_of_their_own(command, monkeypatch):
    import sparsetoken.cli.doctor_and_cite

    def examine():
        warnings.warn("something\nis odd", UserWarning, stacklevel=1)
        return {"problems": []}

    monkeypatch.setattr(sparsetoken.cli.doctor_and_cite, "examine", examine)
    shown = warnings.showwarning
    code, out, err = command("doctor")
    assert (code, out, err) == (0, "nothing is missing\n", "warning: something is odd\n")
    assert warnings.showwarning is shown


def test_runaway_ranges_are_refused_up_front():
    with pytest.raises(ValueError, match="alpha1 must have at most 100,000 values, got 1,000,000,000"):
        parse_values("alpha1", "1:2:1000000000")
    OptionGrid({"a": [1, 2], "b": [1, 2, 3]}).check(4)
    with pytest.raises(ValueError, match="1,000,000,000 computations"):
        OptionGrid({"a": range(1000), "b": range(1000)}).check(1000)


@pytest.mark.parametrize(
    ("name", "words"),
    [("reproduce", "[number of cores]"), ("reproduce", "Studies to run [all]"), ("train", "[[stage]]")],
)
def test_brackets_in_help_texts_are_shown(command, monkeypatch, name, words):
    monkeypatch.setenv("COLUMNS", "200")
    code, out, _ = command(name, "--help-all")
    assert code == 0 and words in out

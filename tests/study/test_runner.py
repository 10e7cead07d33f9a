"""Running trials: the same table whatever the executor, failures as rows, killed workers, killed coordinators."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pandas as pd
import pytest

from sparsetoken._core.user_code import load_source
from sparsetoken.study import Grid, Store, open_executor, run_study, run_trials
from sparsetoken.study.runner import Batch, run_batches

SOURCE = str(Path(__file__).with_name("toy.py"))
STUDY = load_source(SOURCE).study


def run_in(path, executor):
    with Store(path) as store, executor as pool:
        return run_study(STUDY, store, pool)


def test_one_and_two_workers_give_the_same_tables(tmp_path):
    alone, summary = run_in(tmp_path / "1.sqlite", open_executor(workers=1))
    assert (summary.total, summary.done, summary.reused, summary.failed) == (15, 15, 0, [])
    pair, _ = run_in(tmp_path / "2.sqlite", open_executor(workers=2))
    for name in ("simulated", "theory"):
        pd.testing.assert_frame_equal(alone[name], pair[name])
    assert alone["simulated"]["value"].nunique() == 12


def test_finished_trials_are_not_repeated(tmp_path):
    log = tmp_path / "log"
    trials = Grid("t", "toy", {"log": str(log)}, {"x": [1.0, 2.0]}, repeats=3, source=SOURCE).trials()
    with Store(tmp_path / "s.sqlite") as store, open_executor(workers=1) as pool:
        run_trials(trials[:4], store, pool)
        advanced = []
        summary = run_trials(trials + trials, store, pool, advanced.append)
    assert (summary.total, summary.reused, summary.done) == (6, 4, 2)
    assert sum(advanced) == 6
    assert len(log.read_text().splitlines()) == 6


def test_a_fresh_run_computes_everything_again(tmp_path):
    log = tmp_path / "log"
    trials = Grid("t", "toy", {"log": str(log)}, {"x": [1.0, 2.0]}, source=SOURCE).trials()
    with Store(tmp_path / "s.sqlite") as store, open_executor(workers=1) as pool:
        store.record(trials[0], {"result": {"value": 99.0}, "traceback": None})
        assert run_trials(trials, store, pool).reused == 1
        assert store.lookup([trials[0].key])[trials[0].key].result["value"] == 99.0
        summary = run_trials(trials, store, pool, fresh=True)
        assert (summary.reused, summary.done) == (0, 2)
        assert store.lookup([trials[0].key])[trials[0].key].result["value"] != 99.0
    assert len(log.read_text().splitlines()) == 3


def test_what_several_studies_want_is_run_once_and_its_failure_told_to_all(tmp_path):
    marker, log = tmp_path / "marker", tmp_path / "log"
    marker.touch()
    flaky = Grid("t", "flaky", {"marker": str(marker)}, {"x": [1.0, 2.0]}, source=SOURCE).trials()
    toys = Grid("t", "toy", {"log": str(log)}, {"x": [1.0, 2.0]}, source=SOURCE).trials()
    counted = [[], []]
    batches = [Batch(flaky + toys[:1], counted[0].append), Batch(toys + flaky, counted[1].append)]
    with Store(tmp_path / "s.sqlite") as store, open_executor(workers=2) as pool:
        run_batches(batches, store, pool)
    one, two = (batch.summary for batch in batches)
    assert (one.total, one.reused, one.done, len(one.failed)) == (3, 0, 2, 1)
    assert (two.total, two.reused, two.done, len(two.failed)) == (4, 2, 1, 1)
    assert (sum(counted[0]), sum(counted[1])) == (3, 4)
    assert len(log.read_text().splitlines()) == 2


def test_workers_share_what_they_compile(tmp_path, monkeypatch):
    """What one has compiled is in the user's cache folder, where the others look."""
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")  # what is quick to compile is shared as well
    trials = Grid("t", "simulate_trajectory", {"model": "pooled", "d": 8, "steps": 1}).trials()
    with Store(tmp_path / "s.sqlite") as store, open_executor(workers=2) as pool:
        assert run_trials(trials, store, pool).done == 1
    assert any("_measured" in path.name for path in (tmp_path / "sparsetoken" / "jax").iterdir())


@pytest.mark.parametrize(
    ("result", "word"), [("3.0", "float"), ("[1, 2]", "int"), ("'a'", "str"), ("None", "NoneType")]
)
def test_a_kind_that_returns_no_names_fails_in_words(tmp_path, result, word):
    source = tmp_path / f"bare_{word}.py"
    source.write_text(
        "from sparsetoken.study import trial_kind\n"
        f"@trial_kind('bare {word}')\ndef bare(x: float) -> float:\n    return {result}\n"
    )
    load_source(str(source))
    trials = Grid("t", f"bare {word}", {"x": 1.0}, source=str(source)).trials()
    with Store(tmp_path / "s.sqlite") as store, open_executor(workers=1) as pool:
        run_trials(trials, store, pool)
        (row,) = store.rows()
    assert f"must return results by name, or a list of such, got {word}" in row.traceback


def test_a_worker_with_other_code_is_found_out():
    from sparsetoken.study.executor import run_trial

    (trial,) = Grid("t", "line", {"x": 1.0}, source=SOURCE).trials()
    assert run_trial("line", trial.arguments, (SOURCE,), trial.code)["result"] == {"value": 2.0}
    assert "runs other code for 'line'" in run_trial("line", trial.arguments, (SOURCE,), "0" * 16)["traceback"]


def test_failures_are_rows_and_are_tried_again(tmp_path):
    marker = tmp_path / "marker"
    marker.touch()
    trials = Grid("t", "flaky", {"marker": str(marker)}, {"x": [1.0, 2.0, 3.0]}, source=SOURCE).trials()
    with Store(tmp_path / "s.sqlite") as store, open_executor(workers=2) as pool:
        summary = run_trials(trials, store, pool)
        assert (summary.done, [t.arguments["x"] for t in summary.failed]) == (2, [2.0])
        (row,) = store.rows(status="failed")
        assert "RuntimeError: the sensor is wet" in row.traceback
        assert "toy.py" in row.traceback
        marker.unlink()
        summary = run_trials(trials, store, pool)
        assert (summary.reused, summary.done, summary.failed) == (2, 1, [])
        assert store.rows(status="failed") == []


@pytest.mark.parametrize(("deaths", "failed"), [(1, 0), (9, 1)])
def test_a_killed_worker_costs_no_other_trial(tmp_path, deaths, failed):
    folder = tmp_path / "deaths"
    folder.mkdir()
    fixed = {"folder": str(folder), "deaths": deaths}
    trials = Grid("t", "deadly", fixed, {"x": [float(x) for x in range(6)]}, source=SOURCE).trials()
    with Store(tmp_path / "s.sqlite") as store, open_executor(workers=2) as pool:
        summary = run_trials(trials, store, pool)
        done = sorted(row.arguments["x"] for row in store.rows(status="done"))
        assert any(folder.iterdir())
        assert len(summary.failed) == failed
        assert done == ([0.0, 2.0, 3.0, 4.0, 5.0] if failed else [0.0, 1.0, 2.0, 3.0, 4.0, 5.0])
        for row in store.rows(status="failed"):
            assert "worker process died" in row.traceback


COORDINATOR = """
import sys
from sparsetoken.study import Grid, Store, open_executor, run_trials
from sparsetoken._core.user_code import load_source
if __name__ == "__main__":
    source, store, log, workers = sys.argv[1:]
    load_source(source)
    grid = Grid("t", "toy", {"pause": 0.05, "log": log}, {"x": [float(x) for x in range(10)]}, repeats=4, source=source)
    with Store(store) as opened, open_executor(workers=int(workers)) as pool:
        summary = run_trials(grid.trials(), opened, pool)
    print(summary.total, summary.reused, summary.done)
"""


def test_kill_nine_loses_and_doubles_nothing(tmp_path):
    """Nor does it leave workers behind."""
    script, log, path = tmp_path / "run.py", tmp_path / "log", tmp_path / "s.sqlite"
    script.write_text(COORDINATOR)
    command = [sys.executable, str(script), SOURCE, str(path), str(log), "2"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and (not log.exists() or len(log.read_text().splitlines()) < 12):
        time.sleep(0.01)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    workers = [int(pid) for pid in children.read_text().split()] if children.exists() else []
    assert workers or not children.exists()
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    while time.monotonic() < deadline and any(_alive(pid) for pid in workers):
        time.sleep(0.05)
    assert not any(_alive(pid) for pid in workers)
    with Store(path) as store:
        kept = {row.key: row.finished for row in store.rows()}
    executed = len(log.read_text().splitlines())
    assert 0 < len(kept) < 40
    assert executed <= len(kept) + 3 + 1  # nothing but the trials in flight (two running, one waiting) was not recorded

    finished = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert finished.stdout.split() == ["40", str(len(kept)), str(40 - len(kept))]
    counts = Counter(log.read_text().splitlines())
    assert len(counts) == 40
    assert sum(counts.values()) <= 40 + 4  # only trials in flight ran twice
    with Store(path) as store:
        rows = store.rows()
    assert len(rows) == 40 and all(row.status == "done" for row in rows)
    assert all(row.finished == kept[row.key] for row in rows if row.key in kept)


def _alive(pid):
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


def test_bad_executors():
    with pytest.raises(ValueError, match="executor must be one of local, dask"):
        open_executor("ray")
    with pytest.raises(ValueError, match="workers must be"):
        open_executor(workers=0)
    with pytest.raises(ValueError, match="needs scheduler, an address"):
        open_executor("dask")
    with pytest.raises(ValueError, match="belongs to executor 'dask'"):
        open_executor("local", scheduler="tcp://127.0.0.1:1")

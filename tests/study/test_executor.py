"""The Dask executor, against a real local cluster, with a worker killed in the middle of the run."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pandas as pd
import pytest

from sparsetoken._core.user_code import load_source
from sparsetoken.study import Grid, Store, open_executor, run_study, run_trials
from sparsetoken.study.executor import ExecutorError

distributed = pytest.importorskip("distributed", reason="needs the extra sparsetoken[dask]")


SOURCE = str(Path(__file__).with_name("toy.py"))
STUDY = load_source(SOURCE).study


@pytest.fixture(scope="module")
def cluster():
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with distributed.LocalCluster(**options, host="127.0.0.1") as made:
        yield made


def test_dask_gives_the_same_tables(cluster, tmp_path):
    with Store(tmp_path / "1.sqlite") as store, open_executor(workers=1) as pool:
        alone, _ = run_study(STUDY, store, pool)
    with Store(tmp_path / "2.sqlite") as store, open_executor("dask", scheduler=cluster.scheduler_address) as pool:
        many, summary = run_study(STUDY, store, pool)
    assert summary.done == 15
    for name, table in alone.items():
        pd.testing.assert_frame_equal(table, many[name])


def test_failures_on_dask_are_rows(cluster, tmp_path):
    marker = tmp_path / "marker"
    marker.touch()
    trials = Grid("t", "flaky", {"marker": str(marker)}, {"x": [1.0, 2.0, 3.0]}, source=SOURCE).trials()
    with Store(tmp_path / "s.sqlite") as store, open_executor("dask", scheduler=cluster.scheduler_address) as pool:
        summary = run_trials(trials, store, pool)
        assert (summary.done, len(summary.failed)) == (2, 1)
        assert "the sensor is wet" in store.rows(status="failed")[0].traceback


def test_a_worker_killed_in_mid_run(cluster, tmp_path):
    log = tmp_path / "log"
    fixed = {"pause": 0.1, "log": str(log)}
    trials = Grid("t", "toy", fixed, {"x": [float(x) for x in range(8)]}, repeats=3, source=SOURCE).trials()
    victim = next(iter(cluster.workers.values())).pid

    def kill_when_under_way():
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and (not log.exists() or len(log.read_text().splitlines()) < 4):
            time.sleep(0.01)
        os.kill(victim, signal.SIGKILL)

    killer = threading.Thread(target=kill_when_under_way)
    killer.start()
    with Store(tmp_path / "s.sqlite") as store, open_executor("dask", scheduler=cluster.scheduler_address) as pool:
        summary = run_trials(trials, store, pool)
        killer.join()
        rows = store.rows()
    assert (summary.total, summary.done, summary.failed) == (24, 24, [])
    assert len(rows) == 24 and {row.status for row in rows} == {"done"}
    assert victim not in [worker.pid for worker in cluster.workers.values()]


def test_no_scheduler_is_one_clear_error():
    from sparsetoken.study.executor import DaskExecutor

    with pytest.raises(ExecutorError, match="no Dask scheduler answers at tcp://127"):
        DaskExecutor("tcp://127.0.0.1:9", timeout=0.5)


@pytest.mark.parametrize(
    "address",
    ["nonsense", "nonsense://x", "127.0.0.1:8786", "tcp://", "tcp://a", "tcp://a:0", "tcp://a:99999", "tcp://a b:1"],
)
def test_an_address_that_is_none_is_refused_without_knocking(address, monkeypatch):
    monkeypatch.setattr("socket.create_connection", lambda *_, **__: pytest.fail("knocked"))
    with pytest.raises(ValueError, match="scheduler must be an address such as tcp"):
        open_executor("dask", scheduler=address)


@pytest.mark.parametrize("greeting", [b"", b"SSH-2.0-OpenSSH"])
def test_a_server_of_another_kind_is_not_waited_for(greeting):
    from sparsetoken.study.executor import DaskExecutor

    with socket.create_server(("127.0.0.1", 0)) as server:

        def greet():
            line, _ = server.accept()
            line.sendall(greeting)
            time.sleep(1)
            line.close()

        threading.Thread(target=greet, daemon=True).start()
        with pytest.raises(ExecutorError, match="no Dask scheduler answers"):
            DaskExecutor(f"tcp://127.0.0.1:{server.getsockname()[1]}", timeout=0.5)


def test_a_lost_scheduler_is_one_line_and_keeps_what_is_done(tmp_path):
    scheduler = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--no-dashboard"]
    scheduler += ["--port", "0", "--scheduler-file", str(tmp_path / "address.json")]
    worker = [sys.executable, "-m", "distributed.cli.dask_worker", "--scheduler-file", str(tmp_path / "address.json")]
    worker += ["--nthreads", "1", "--no-dashboard", "--death-timeout", "30"]
    log, store = tmp_path / "log", tmp_path / "s.sqlite"
    study = tmp_path / "s.py"
    study.write_text(
        "from sparsetoken.study import Grid, Study\nfrom sparsetoken._core.user_code import load_source\n"
        f"load_source({SOURCE!r})\n"
        f"grid = Grid('t', 'toy', {{'pause': 0.1, 'log': {str(log)!r}}}, {{'x': list(range(300))}}, source={SOURCE!r})\n"
        "study = Study('s', 's', '', {'quick': [grid]})\n"
    )
    started = [subprocess.Popen(command, stderr=subprocess.DEVNULL) for command in (scheduler, worker)]
    try:
        deadline = time.monotonic() + 60
        while not (tmp_path / "address.json").exists() and time.monotonic() < deadline:
            time.sleep(0.1)
        address = json.loads((tmp_path / "address.json").read_text())["address"]
        command = [sys.executable, "-m", "sparsetoken", "run", str(study), "--executor", "dask", "--scheduler", address]
        run = subprocess.Popen([*command, "--store", str(store)], stderr=subprocess.PIPE, text=True)
        while time.monotonic() < deadline and (not log.exists() or len(log.read_text().splitlines()) < 6):
            time.sleep(0.05)
        started[0].kill()
        errors = run.communicate(timeout=60)[1]
    finally:
        for process in started:
            process.kill()
            process.wait()
    assert run.returncode == 2
    assert errors.startswith("error: the connection to the Dask scheduler was lost; finished trials are in the store")
    assert errors.count("\n") == 1
    with Store(store, read_only=True) as opened:
        assert opened.rows(status="done")

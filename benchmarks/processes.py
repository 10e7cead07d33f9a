"""Two worker processes against one, on a study of trials that only compute."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

from sparsetoken.study import Grid, Store, Study, open_executor, run_study
from sparsetoken.study.worker import run_trial

from .measure import Row, Timing, case


def _study(trials: int, d: int, name: str) -> Study:
    grid = Grid(
        "trials",
        "simulate",
        fixed={"d": d, "ridge": 1e-3, "alpha0": 2.0, "alpha1": 4.0},
        repeats=trials,
        first_seed=1,
    )
    return Study(name, "two processes", "how much faster are two?", {"quick": (grid,)})


def _run(workers: int, trials: int, d: int) -> Timing:
    """From the first submission to the last row in the store, with workers that have started and imported everything.

    CPU seconds are those of the trials, wherever they ran, and of this process.
    """
    with tempfile.TemporaryDirectory() as folder, Store(Path(folder) / "store.sqlite") as store:
        with open_executor("local", workers) as executor:
            warm_up = _study(4 * workers, 60, "warm-up").trials()["trials"]
            for future in [executor.submit(run_trial, trial.kind, trial.arguments) for trial in warm_up]:
                future.result()
            wall, cpu = time.perf_counter(), time.process_time()
            _, summary = run_study(_study(trials, d, "trials"), store, executor)
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        if summary.failed:
            raise ArithmeticError(f"{len(summary.failed)} trials failed")
    return Timing(wall, cpu if workers == 1 else cpu + summary.cpu_seconds)


@case("processes", "a study in one process and in two")
def processes(quick: bool) -> list[Row]:
    trials, d = (4, 60) if quick else (60, 1000)
    one, two = _run(1, trials, d), _run(2, trials, d)
    note = (
        f"wall {one.wall / two.wall:.2f}x at load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores; "
        f"{2 * one.cpu / two.cpu:.2f}x by CPU seconds (two free cores)"
    )
    return [Row(f"study of {trials} trials, d = {d}, two processes", two, "one process", one, note, ">= 1.8x wall")]

"""Two worker processes against one: on the paper's first study, and on trials large enough to compete for the memory."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

import numpy as np

from sparsetoken.paper.catalogue import get_studies
from sparsetoken.study import Grid, Store, Study, open_executor, run_study
from sparsetoken.study.executor import run_trial

from .measure import Row, Timing, case

SIZES = ((200, 300), (60, 1000))  # (trials, d): features that fit a core's cache, and 32 MB of them


def _study(trials: int, d: int, name: str) -> Study:
    grid = Grid(
        "trials",
        "simulate",
        fixed={"d": d, "ridge": 1e-3, "alpha0": 2.0, "alpha1": 4.0},
        repeats=trials,
        first_seed=1,
    )
    return Study(name, "two processes", "how much faster are two?", {"quick": (grid,)})


def _warm_up(samples: list[tuple[str, dict]]) -> None:
    """Run some trials, then pause: no process gets a second share before all have had theirs."""
    for kind, arguments in samples:
        failure = run_trial(kind, arguments)["traceback"]
        if failure:
            raise ArithmeticError(failure)
    time.sleep(2.0)


def _run(workers: int, study: Study) -> Timing:
    """From the first submission to the last row in the store, by workers that have imported and compiled what they need.

    CPU seconds are those of the trials, wherever they ran, and of this process.
    """
    with tempfile.TemporaryDirectory() as folder, Store(Path(folder) / "store.sqlite") as store:
        with open_executor("local", workers) as executor:
            trials = [trial for part in study.trials("quick").values() for trial in part]
            samples = list({trial.kind: (trial.kind, dict(trial.arguments)) for trial in trials}.values())
            for future in [executor.submit(_warm_up, samples) for _ in range(workers)]:
                future.result()
            wall, cpu = time.perf_counter(), time.process_time()
            _, summary = run_study(study, store, executor)
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        if summary.failed:
            raise ArithmeticError(f"{len(summary.failed)} trials failed")
    return Timing(wall, cpu if workers == 1 else cpu + summary.cpu_seconds)


def _stream(passes: int) -> float:
    """Seconds for passes over 64 MB, a matrix times a vector each: nothing but the memory's speed."""
    x, v = np.ones((4096, 2048)), np.ones(2048)
    x @ v
    begun = time.perf_counter()
    for _ in range(passes):
        x @ v
    return time.perf_counter() - begun


def _ceiling(passes: int) -> Row:
    """What two processes gain where only the memory's speed counts: studies of large trials cannot gain more."""
    with open_executor("local", 2) as pool:
        alone = pool.submit(_stream, passes).result()
        both = max(future.result() for future in [pool.submit(_stream, passes) for _ in range(2)])
    one, two = Timing(2 * alone, 2 * alone), Timing(both, 2 * both)
    note = f"wall {2 * alone / both:.2f} times: the most that work bound by memory can gain"
    return Row("passes over 64 MB, two processes", two, "one process", one, note)


@case("processes", "a study in one process and in two")
def processes(quick: bool) -> list[Row]:
    studies = {
        f"{trials} trials, d = {d}": _study(trials, d, "trials") for trials, d in ([(4, 60)] if quick else SIZES)
    }
    if not quick:
        studies["fig1, quick form"] = get_studies(["fig1"])[0]
    rows = []
    for name, study in studies.items():
        # In turn, and the median of three: a neighbour's work would otherwise fall on one side of the comparison.
        pairs = [(_run(1, study), _run(2, study)) for _ in range(1 if quick else 3)]
        one, two = sorted(pairs, key=lambda pair: pair[0].wall / pair[1].wall)[len(pairs) // 2]
        ratios = ", ".join(f"{a.wall / b.wall:.2f}" for a, b in pairs)
        note = f"wall {ratios} times at load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
        rows.append(Row(f"{name}, two processes", two, "one process", one, note, ">= 1.8x wall"))
    return [*rows, _ceiling(20 if quick else 600)]

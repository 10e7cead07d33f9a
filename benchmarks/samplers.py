"""The reduced sampler against the full tensor, stage by stage; the two gradient steps up to a million dimensions, and their
peak memory on a full tensor that would not fit, in a separate process."""

from __future__ import annotations

import json
import statistics
import sys
import time
from pathlib import Path

from sparsetoken.classifiers import SIMULATED
from sparsetoken.simulation.simulate import simulate
from sparsetoken.simulation.two_steps import two_steps
from sparsetoken.task import Task
from sparsetoken.training import Training

from .measure import Row, Timing, case, timed, timed_command

_TRIAL = """
import json, sys
from benchmarks.measure import peak_megabytes
from sparsetoken import Task, Training
from sparsetoken.simulation.two_steps import two_steps

d, length, n = map(int, sys.argv[1:])
two_steps(Task(length=4), Training(), 50, 0, sampler="tensor")
before = peak_megabytes()
found = two_steps(Task(length=length), Training(alpha0=n / d), d, 0, sampler="tensor")
print(json.dumps([before, peak_megabytes(), found.cosine["q"]]))
"""

DRAWING = ("sampling", "steps", "features")


def _trials(length: int, model: str, sampler: str, d: int, repeats: int) -> tuple[Timing, Timing]:
    """(sampling + steps + features, whole trial). Stages have wall times only: their CPU time is the trial's by share."""
    drawing, whole = [], []
    for seed in range(repeats):
        wall, cpu = time.perf_counter(), time.process_time()
        seconds = simulate(Task(length=length), Training(), d, seed, model=model, sampler=sampler).seconds
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        part = sum(seconds.get(stage, 0.0) for stage in DRAWING)
        drawing.append((part, cpu * part / wall))
        whole.append((wall, cpu))
    first, second = ([statistics.median(column) for column in zip(*pairs)] for pairs in (drawing, whole))
    return Timing(*first, repeats), Timing(*second, repeats)


@case("samplers", "one trial (alpha0 = alpha1 = 2): the reduced sampler against the full tensor, exact in law both")
def samplers(quick: bool) -> list[Row]:
    d, repeats = (60, 1) if quick else (1000, 3)
    rows = []
    for length in (10,) if quick else (10, 100):
        for model in SIMULATED:
            if length == 100 and model == "vectorized":
                continue  # 100,000 weights: 1.6 GB of features
            parts = {s: _trials(length, model, s, d, repeats) for s in ("reduced", "tensor")}
            about = f"{model}, L = {length}, d = {d}"
            ours, peer = parts["reduced"], parts["tensor"]
            rows.append(
                Row(f"{about}: {' + '.join(DRAWING)}", ours[0], "full tensor", peer[0], "same law", goal=">= 10x")
            )
            rows.append(Row(f"{about}: whole trial", ours[1], "full tensor", peer[1], "same law, same readout"))
    return rows


@case("alignment", "the two gradient steps at growing d (L = 10, alpha0 = 4)")
def alignment(quick: bool) -> list[Row]:
    training, rows = Training(alpha0=4.0), []
    for d in (1000,) if quick else (1000, 10_000, 100_000, 1_000_000):
        ours, found = timed(lambda: two_steps(Task(), training, d, 0), 1 if quick else 3)  # noqa: B023
        note = f"cosine of the query {found.cosine['q']:.4f}"
        if d == 1000:
            peer, other = timed(lambda: two_steps(Task(), training, d, 0, "tensor"), 1 if quick else 3)  # noqa: B023
            rows.append(Row(f"two steps, d = {d}", ours, "full tensor", peer, f"{note}; peer {other.cosine['q']:.4f}"))
        else:
            size = 8e-9 * training.alpha0 * 10 * d * d
            rows.append(Row(f"two steps, d = {d}", ours, note=f"{note}; the tensor would hold {size:,.0f} GB"))
    return rows


@case("memory", "the two gradient steps on the full tensor, generated and streamed: peak memory")
def memory(quick: bool) -> list[Row]:
    if not Path("/proc/self/status").exists():
        return []  # the system does not say
    d, length, n = (1000, 50, 200) if quick else (10_000, 100, 6250)
    timing, output = timed_command([sys.executable, "-c", _TRIAL, str(d), str(length), str(n)], {}, 1)
    before, peak, cosine = json.loads(output)
    size = 8e-9 * n * length * d
    note = (
        f"tokens {size:.3g} GB; resident set at most {peak:.0f} MB, of which {before:.0f} MB are the "
        f"imports; cosine of the query {cosine:.3f}"
    )
    return [Row(f"two steps on {n} bags of {length} x {d}", timing, note=note)]
